"""Images and files that a request carries: what their URLs may point at, and whether inline data is what it says.

Whoever runs the model may fetch a URL, from inside a network that the caller can't reach. So a URL is passed on only
if it is http(s) and does not name a private, loopback or link-local host (the cloud's metadata service among them). What
a public name resolves to is only known when it is fetched: a client that fetches by itself must check again.
"""

import base64
import binascii
import re
from typing import NamedTuple

from hosting.responses.errors import InvalidRequest, shortened

__all__ = ["Inline", "check_url", "decode_inline", "guess_media_type"]

_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,80}/[a-z0-9!#$&^_.+-]{1,80}", re.ASCII)
_INTERNAL_NAMES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "arpa",
    "test",
    "svc",
)
_AZURE_PLATFORM = "168.63.129.16"
"""Answers on every machine in Azure, with what is meant for the machine only. By its number it is a public address."""
_NEVER_IN_A_URL = re.compile(r"[\\\x00-\x20\x7f]")
_INVISIBLE = re.compile(
    "[\u0000-\u0020\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u1806\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What clients leave out of a name before they resolve it, or would not take."""
_BEGIN_OF_URL = re.compile(r"https?://[^/?#]{1,320}(?:[/?#]|$)", re.IGNORECASE)
"""Names have 253 characters at most. Folding longer ones takes time that grows with the square: minutes for a megabyte."""
_LONGEST_URL = 16_384
_LONGEST_HEADER = 1_000
"""Characters of a data URI before its data. Of a megabyte of semicolons a list would be made."""

_BY_EXTENSION = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "xml": "application/xml",
    "zip": "application/zip",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
}


class Inline(NamedTuple):
    """Data that came inside the request: a complete data URI, and its media type in lower case."""

    uri: str
    media_type: str


def guess_media_type(name: str, default: str) -> str:
    """By the extension of a file name or of a URL's path. A table of our own: the system's differs by machine."""
    path = name.split("?", 1)[0].split("#", 1)[0]
    return _BY_EXTENSION.get(path.rsplit(".", 1)[-1].lower(), default) if "." in path else default


def decode_inline(value: str, param: str, *, filename: str | None = None, image: bool = False) -> Inline:
    """A data URI, or for a file also its bare base64; the type then comes from `filename`.

    Raises InvalidRequest when it is not base64, or when `image` is set and it is something else than an image.
    """
    header, comma, payload = value.partition(",")
    if not value.startswith("data:"):
        media_type, payload = guess_media_type(filename or "", "application/octet-stream"), value
    else:
        parameters = header[5 : _LONGEST_HEADER + 1].lower().split(";")
        media_type = parameters[0].strip() or "text/plain"
        if (
            not comma
            or len(header) > _LONGEST_HEADER
            or parameters[-1] != "base64"
            or not _MEDIA_TYPE.fullmatch(media_type)
        ):
            raise InvalidRequest(
                f"Invalid '{param}': expected base64-encoded data as 'data:<media type>;base64,<data>'.",
                param=param,
                code="invalid_value",
            )
    if image and not media_type.startswith("image/"):
        raise InvalidRequest(
            f"Invalid '{param}': expected an image, but got '{media_type}'.", param=param, code="invalid_image_format"
        )
    try:
        base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):  # ValueError: not ASCII
        raise InvalidRequest(
            f"Invalid '{param}': the data is not valid base64.",
            param=param,
            code="invalid_base64_image" if image else "invalid_value",
        ) from None
    return Inline(f"data:{media_type};base64,{payload}", media_type)


def check_url(url: str, param: str, *, allow_private: bool = False) -> None:
    """Raises InvalidRequest for a URL that is not http(s), has no host, or names a host inside somebody's network.

    `allow_private` is the app's opt-in: then the host is not looked at.
    """
    from urllib.parse import urlsplit

    host = None
    if len(url) <= _LONGEST_URL and _BEGIN_OF_URL.match(url) and not _NEVER_IN_A_URL.search(url):
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
    if not host:
        raise InvalidRequest(
            f"Invalid '{param}': '{shortened(url, 80)}' is not a URL that begins with http:// or https://.",
            param=param,
            code="invalid_value",
        )
    if not allow_private and _is_internal(host):
        raise InvalidRequest(
            f"Invalid '{param}': URLs of private hosts are not accepted.", param=param, code="invalid_value"
        )


def _is_internal(host: str) -> bool:
    import ipaddress

    host = host.rstrip(".")
    if not host.isascii():
        host = _folded(host)
        if _INVISIBLE.search(host) or not _is_known(host):
            return True
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            return True
        # 2000::/3 is all that is public so far. Outside of it are forms that lead to any IPv4 host, private ones too (NAT64,
        # mapped, compatible), and ranges that is_global takes for public. Inside it, it knows 6to4 and Teredo.
        public = address in ipaddress.IPv6Network("2000::/3")
        return not public or not address.is_global
    if "%" in host:  # some clients decode names before they resolve them, and 127.0.0.%31 is 127.0.0.1 then
        return True
    if (number := _as_ipv4(host)) is not None:
        address = ipaddress.IPv4Address(number)
        return not address.is_global or address.is_multicast or str(address) == _AZURE_PLATFORM
    labels = host.split(".")
    # One label is a name inside a network; a last label that starts with a digit is an address in some notation.
    return len(labels) == 1 or labels[-1] in _INTERNAL_NAMES or labels[-1][:1].isdigit()


def _folded(host: str) -> str:
    """The name that clients resolve, but for its Punycode: full-width 127.0.0.1 is 127.0.0.1.

    Python's own IDNA takes over a millisecond for a long name, and a body has room for 60,000 of them.
    """
    import unicodedata

    return unicodedata.normalize("NFKC", host.casefold()).casefold().replace("\u3002", ".").rstrip(".")


def _is_known(host: str) -> bool:
    """Whether all letters are in Python's version of Unicode: what a client with a newer one makes of others can't be told."""
    import unicodedata

    return all(unicodedata.category(letter) != "Cn" for letter in host)


def _as_ipv4(host: str) -> int | None:
    """The address that C libraries read in `host`: 127.1, 0x7f000001 and 017700000001 are 127.0.0.1 too."""
    parts = host.split(".")
    if len(parts) > 4:
        return None
    numbers: list[int] = []
    for part in parts:
        lowered = part.lower()
        if not lowered.isascii() or not (lowered[:1].isdigit()):
            return None
        try:
            base = 16 if lowered.startswith("0x") else 8 if lowered.startswith("0") and len(lowered) > 1 else 10
            numbers.append(int(lowered[2:] or "0", 16) if base == 16 else int(lowered, base))
        except ValueError:
            return None
    *front, last = numbers
    if any(number > 255 for number in front) or last >= 256 ** (5 - len(numbers)):
        return None
    return sum(number << (24 - 8 * index) for index, number in enumerate(front)) + last
