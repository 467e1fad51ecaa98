"""Azurite, Microsoft's storage emulator, as a child process on free ports."""

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["Azurite", "AzuriteError", "find_azurite", "run_azurite"]

# Azurite's well-known development account: public, in Microsoft's documentation, and no secret.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


# Preloaded into node: ends Azurite when its standard input is closed, which a parent that is killed can't forget, and tells
# which ports it has.
_PRELOAD = Path(__file__).resolve().with_name("azurite_preload.cjs")


class AzuriteError(RuntimeError):
    """Azurite is not installed or did not come up; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Azurite:
    """A running Azurite."""

    pid: int
    blob_port: int
    queue_port: int
    table_port: int

    @property
    def connection_string(self) -> str:
        """A storage connection string, as AzureWebJobsStorage takes it."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};"
            f"BlobEndpoint=http://127.0.0.1:{self.blob_port}/{ACCOUNT};"
            f"QueueEndpoint=http://127.0.0.1:{self.queue_port}/{ACCOUNT};"
            f"TableEndpoint=http://127.0.0.1:{self.table_port}/{ACCOUNT};"
        )


def find_azurite(root: Path) -> Path:
    """The azurite command of this checkout (`npm ci`), else the one on PATH.

    Raises AzuriteError when there is none, or no Node.js to run it.
    """
    if shutil.which("node") is None:
        raise AzuriteError("Node.js is not installed: install version 20 or newer, Azurite runs on it")
    local = root / "node_modules" / ".bin" / "azurite"
    if local.exists():
        return local
    if on_path := shutil.which("azurite"):
        return Path(on_path)
    raise AzuriteError("Azurite is not installed: run `npm ci` in the project's folder")


@asynccontextmanager
async def run_azurite(root: Path, location: Path | None = None, log: Path | None = None) -> AsyncIterator[Azurite]:
    """Run Azurite until the block ends; `location` keeps its data there, None keeps it in memory.

    It also ends when this process is killed. Raises AzuriteError when it does not listen within 60 s, or when another
    one uses `location`.
    """
    command = str(find_azurite(root))
    args = ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"]
    args += ["--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    if location is None:
        args.append("--inMemoryPersistence")
    else:
        location.mkdir(parents=True, exist_ok=True)
        args += ["--location", str(location)]
    with contextlib.ExitStack() as stack:
        if location is not None:
            stack.enter_context(_only_user(location))
        sink = stack.enter_context(log.open("ab")) if log else asyncio.subprocess.DEVNULL
        options = f'{os.environ.get("NODE_OPTIONS", "")} --require "{_PRELOAD}"'.strip()
        ports_read, ports_write = os.pipe()
        told = stack.enter_context(os.fdopen(ports_read, "rb"))
        try:
            # A session of its own: Ctrl-C in the terminal reaches devhost, which stops Azurite last, after the workers.
            process = await asyncio.create_subprocess_exec(
                command,
                *args,
                env={**os.environ, "NODE_OPTIONS": options, "DEVHOST_PORTS_FD": str(ports_write)},
                stdin=asyncio.subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                pass_fds=(ports_write,),
                start_new_session=True,
            )
        finally:
            os.close(ports_write)
        try:
            blob, queue, table = await _ports(process, told)
            yield Azurite(process.pid, blob, queue, table)
        finally:
            await _stop(process)


@contextlib.contextmanager
def _only_user(location: Path) -> Iterator[None]:
    """Keep a second Azurite from the same files, which it would overwrite."""
    with (location / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AzuriteError(f"another Azurite uses {location}: stop it, or run this one with --memory") from None
        yield


async def _ports(process: asyncio.subprocess.Process, told: BinaryIO, seconds: float = 60.0) -> list[int]:
    """The ports of the blob, the queue and the table service, which Azurite starts one after the other."""
    lines = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), told)
    try:
        async with asyncio.timeout(seconds):
            ports = [int(line) for _ in range(3) if (line := await lines.readline())]
            if len(ports) < 3:
                raise AzuriteError(f"Azurite ended at once with exit code {await process.wait()}")
        return ports
    except TimeoutError:
        raise AzuriteError(f"Azurite did not listen within {seconds:.0f} s") from None
    finally:
        transport.close()


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 5)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
