"""What devhost prints: one writer, so that lines of workers, requests and devhost itself never mix within a line."""

import asyncio
import sys
import time

from devhost.errors import AppLoadError, DevHostError

__all__ = ["Console"]


class Console:
    """Standard output, a line at a time. Errors go to standard error."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet

    def say(self, text: str) -> None:
        """News of devhost itself; nothing when quiet."""
        if not self._quiet:
            print(text, flush=True)

    def request(self, method: str, path: str, status: int, started: float, worker: int | None) -> None:
        """One request; `started` is the time.monotonic() of its arrival."""
        served = f"w{worker}" if worker else "-"
        took = (time.monotonic() - started) * 1000
        self.say(f"{time.strftime('%H:%M:%S')} {method} {path} {status} {took:.0f} ms {served}")

    def worker(self, number: int, line: str) -> None:
        """A line that worker `number` printed or logged."""
        print(f"[w{number}] {line}", flush=True)

    def error(self, text: str) -> None:
        """Something that needs attention."""
        print(f"devhost: {text}", file=sys.stderr, flush=True)

    def failure(self, error: DevHostError) -> None:
        """Something the person at the keyboard can fix. Of an app that does not load, also where in its own files."""
        if isinstance(error, AppLoadError):
            self.error("\n".join([f"the app does not load: {error}", *error.details]))
        else:
            self.error(str(error))

    async def copy(self, number: int, stream: asyncio.StreamReader) -> None:
        """Copy the output of a worker until it ends, a line at a time however long the lines are."""
        rest = b""
        while chunk := await stream.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.worker(number, line.decode(errors="replace").rstrip("\r"))
        if rest:
            self.worker(number, rest.decode(errors="replace"))
