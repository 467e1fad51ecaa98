"""Payloads as JSON text on one line, and back."""

import base64
import json
from collections.abc import Callable
from typing import Any, Protocol, cast

__all__ = ["Codec", "CustomCodec", "JsonCodec"]


class Codec(Protocol):
    """What is encoded and decoded is a new object, so nobody shares payloads."""

    def encode(self, payload: Any) -> bytes:
        """JSON without newlines. Raises TypeError or ValueError for what it does not take."""
        ...

    def decode(self, data: bytes) -> Any:
        """The payload. Raises for what `encode` did not make."""
        ...


class JsonCodec:
    """Payloads are JSON values. NaN and infinity, which are none, are refused."""

    def encode(self, payload: Any) -> bytes:
        """See `Codec.encode`."""
        try:
            return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # half a surrogate pair, as a model that streams may cut one
            return json.dumps(payload, allow_nan=False, separators=(",", ":")).encode()

    def decode(self, data: bytes) -> Any:
        """See `Codec.decode`."""
        return json.loads(data)


class CustomCodec:
    """Payloads of any kind, by functions of the app. Their bytes are kept as a JSON string when they are UTF-8 text, else
    as `{"base64": ...}`."""

    def __init__(self, serializer: Callable[[Any], bytes | str], deserializer: Callable[[bytes], Any]) -> None:
        self._serializer, self._deserializer = serializer, deserializer

    def encode(self, payload: Any) -> bytes:
        """See `Codec.encode`."""
        made = self._serializer(payload)
        data = made.encode() if isinstance(made, str) else bytes(made)
        try:
            value: Any = data.decode()
        except UnicodeDecodeError:
            value = {"base64": base64.b64encode(data).decode()}
        return json.dumps(value, ensure_ascii=False).encode()

    def decode(self, data: bytes) -> Any:
        """See `Codec.decode`."""
        value: Any = json.loads(data)
        if isinstance(value, str):
            return self._deserializer(value.encode())
        return self._deserializer(base64.b64decode(cast("dict[str, str]", value)["base64"]))
