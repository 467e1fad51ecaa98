"""`python -m devhost [APP_DIR]`: run an Azure Functions app on this machine, without Core Tools."""

# ruff: noqa: E402

import signal

# Until there is something to stop, Ctrl-C just ends this: while modules are imported, Python may lose its exception.
signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import asyncio
import sys
from pathlib import Path

from devhost.config import load_config
from devhost.console import Console
from devhost.errors import DevHostError
from devhost.options import Options, bind

# What Core Tools listens on.
_DEFAULT_PORT = 7071


def _port(given: str) -> int:
    port = int(given)
    if not 0 <= port <= 65535:  # the socket would take the rest of a division by 65536
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {port}")
    return port


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devhost",
        description="Run an Azure Functions app (Python v2 programming model) on this machine, without Core Tools.",
        epilog="What it emulates and what it does not is in devhost/README.md.",
    )
    add = parser.add_argument
    add("app_dir", nargs="?", default=".", type=Path, metavar="APP_DIR", help="the app's folder (default: here)")
    add("--port", type=_port, help="port, 0 for any (default: Host.LocalHttpPort of local.settings.json, else 7071)")
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
    except DevHostError as error:
        console.failure(error)
        return 1
    return 0


async def _run(options: Options, console: Console) -> None:
    config = load_config(options.app_dir)
    port = config.local_port or _DEFAULT_PORT if options.port is None else options.port
    listener = bind(options.host, port)
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            # A second Ctrl-C: no more waiting. Workers and Azurite notice that devhost is gone, and end.
            signal.raise_signal(signal.SIGKILL)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)

    # Takes most of a second: gRPC and the rest. Only now is it sure to be needed.
    from devhost.host import run

    await run(options, config, listener, console, stop)


if __name__ == "__main__":
    sys.exit(main())
