"""Azurite, Microsoft's storage emulator, as a child process on free ports."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Azurite", "AzuriteError", "find_azurite", "free_port", "run_azurite"]

# Azurite's well-known development account: public, in Microsoft's documentation, and no secret.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


# Preloaded into node: ends Azurite when its standard input is closed, which a parent that is killed can't forget.
_END_WITH_PARENT = Path(__file__).resolve().with_name("end_with_parent.cjs")


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


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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

    It also ends when this process is killed. Raises AzuriteError when it does not answer within 30 s, or when another
    one uses `location`.
    """
    command = str(find_azurite(root))
    blob, queue, table = free_port(), free_port(), free_port()
    args = ["--blobPort", str(blob), "--queuePort", str(queue), "--tablePort", str(table)]
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
        options = f'{os.environ.get("NODE_OPTIONS", "")} --require "{_END_WITH_PARENT}"'.strip()
        # A session of its own: Ctrl-C in the terminal reaches devhost, which stops Azurite last, after the workers.
        process = await asyncio.create_subprocess_exec(
            command,
            *args,
            env={**os.environ, "NODE_OPTIONS": options},
            stdin=asyncio.subprocess.PIPE,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
        try:
            await _answers(process, (blob, queue, table))
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


async def _answers(process: asyncio.subprocess.Process, ports: tuple[int, ...], seconds: float = 30.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    for port in ports:
        while True:
            if process.returncode is not None:
                raise AzuriteError(f"Azurite ended at once with exit code {process.returncode}")
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                break
            if asyncio.get_running_loop().time() > deadline:
                raise AzuriteError(f"Azurite did not answer on port {port} within {seconds:.0f} s")
            await asyncio.sleep(0.05)


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
