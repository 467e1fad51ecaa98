"""How devhost and a worker process talk: JSON objects in frames over a socket pair.

A frame is the length of its JSON, 4 bytes big-endian, and the JSON in UTF-8. Bytes inside are base64.

devhost sends

- `{"type": "init", "app_dir", "script", "log_level"}` once, first;
- `{"type": "invoke", "id", "function_id", "inputs": {name: value}, "traceparent"}`;
- `{"type": "abandon", "id"}`: the HTTP request of this invocation will never come;
- `{"type": "stop"}`: no new work follows; raise SIGTERM and finish what runs;
- `{"type": "exit", "seconds"}`: nothing is under way any more; end, at the latest after that time.

The worker sends

- `{"type": "loaded", "http_uri", "functions"}` or `{"type": "failed", "message", "details"}` once, first;
- `{"type": "result", "id", "ok", "return": value, "outputs": {name: value}, "error": {"message", "stack"}}`;
- `{"type": "stopping"}`: the answer to stop, also sent unasked when somebody else sent SIGTERM.

A value has one key that says its type, as the protobuf message TypedData of the Functions host has:
`{"string": s}`, `{"json": s}`, `{"bytes": base64}`, `{"int": n}`, `{"double": x}`, `{"http": {...}}`; null is no value.
"""

import asyncio
import base64
import json
import socket
import struct
from typing import Any

__all__ = ["Channel", "pack_bytes", "unpack"]

_HEADER = struct.Struct(">I")


def pack_bytes(data: bytes) -> dict[str, Any]:
    """A value that holds bytes."""
    return {"bytes": base64.b64encode(data).decode()}


def unpack(value: dict[str, Any] | None) -> tuple[str | None, Any]:
    """The type of a value and what is in it; (None, None) for no value."""
    if not value:
        return None, None
    ((kind, content),) = value.items()
    return kind, base64.b64decode(content) if kind == "bytes" else content


class Channel:
    """One end of the socket pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, sock: socket.socket) -> "Channel":
        """A channel over a connected socket."""
        return cls(*await asyncio.open_connection(sock=sock))

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message. Does not wait: frames are small beside the memory of a laptop, and order is kept.

        A peer that is gone is no error here; the receiving side notices.
        """
        if not self._writer.is_closing():
            data = json.dumps(message, separators=(",", ":")).encode()
            self._writer.write(_HEADER.pack(len(data)) + data)

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the peer has closed or died, also in the middle of a frame."""
        try:
            (length,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            return json.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        """Close this end."""
        self._writer.close()
