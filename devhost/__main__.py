"""`python -m devhost [APP_DIR]`: run an Azure Functions app on this machine, without Core Tools."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from devhost.console import Console
from devhost.errors import AppLoadError, DevHostError
from devhost.host import Options, run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devhost",
        description="Run an Azure Functions app (Python v2 programming model) on this machine, without Core Tools.",
        epilog="What it emulates and what it does not is in devhost/README.md.",
    )
    add = parser.add_argument
    add("app_dir", nargs="?", default=".", type=Path, metavar="APP_DIR", help="the app's folder (default: here)")
    add("--port", type=int, help="port, 0 for any (default: Host.LocalHttpPort of local.settings.json, else 7071)")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s, this machine only)")
    add("--workers", type=int, default=1, metavar="N", help="worker processes, taken in turn (default: %(default)s)")
    add(
        "--flex",
        action="store_true",
        help="N processes for HTTP functions and N others for durable and timer functions",
    )
    add("--reload", action="store_true", help="load the app again when one of its .py or .json files changes")
    add(
        "--grace",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="for work under way at a stop (default: %(default)g)",
    )
    storage = parser.add_mutually_exclusive_group()
    storage.add_argument(
        *("--azurite",),
        dest="azurite",
        action="store_const",
        const="disk",
        default="disk",
        help="start Azurite with its data in APP_DIR/.azurite when AzureWebJobsStorage is UseDevelopmentStorage=true (default)",
    )
    storage.add_argument(
        "--memory", dest="azurite", action="store_const", const="memory", help="start Azurite in memory instead"
    )
    storage.add_argument(
        "--no-azurite", dest="azurite", action="store_const", const="none", help="use storage as the settings have it"
    )
    add("--auth", action="store_true", help="ask for function keys, as Azure does and Core Tools does not")
    add("--function-key", metavar="KEY", help="the function key with --auth (default: a new one, printed)")
    add("--master-key", metavar="KEY", help="the master key with --auth (default: a new one, printed)")
    levels = ("debug", "info", "warning", "error")
    add("--log-level", choices=levels, default="info", help="for the workers' logging (default: %(default)s)")
    add("--quiet", action="store_true", help="print only what workers print, and errors")
    add("--hint", type=Path, metavar="FILE", help="a text to print when ready, {base_url} in it is replaced")
    add(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="write a JSON file when ready: base_url, workers, connection_string",
    )
    return parser


def main() -> int:
    """The command. 0 after a stop by Ctrl-C or SIGTERM, 1 when the app can't be run, 2 for a wrong command line."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.workers < 1:
        parser.error("--workers must be at least 1")
    if arguments.hint and not arguments.hint.is_file():
        parser.error(f"--hint: {arguments.hint} is not a file")
    arguments.app_dir = arguments.app_dir.resolve()
    console = Console(arguments.quiet)
    try:
        asyncio.run(_run(Options(**vars(arguments)), console))
    except AppLoadError as error:
        console.app_error(error)
        return 1
    except DevHostError as error:
        console.error(str(error))
        return 1
    return 0


async def _run(options: Options, console: Console) -> None:
    stop = asyncio.Event()
    task = asyncio.current_task()
    assert task

    def on_signal() -> None:
        if stop.is_set():
            # A second Ctrl-C: no more waiting. Workers end because devhost does.
            sys.stderr.flush()
            signal.raise_signal(signal.SIGKILL)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    await run(options, console, stop)


if __name__ == "__main__":
    sys.exit(main())
