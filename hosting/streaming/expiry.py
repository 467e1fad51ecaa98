"""Removing streams that nobody has asked for since they expired: the part of the retention timer that knows their layout."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby

from hosting.gather import gather_at_most
from hosting.storage import AppendBlobs, BlobInfo
from hosting.streaming._lines import is_end

__all__ = ["expire_streams"]

_AT_ONCE = 8
_TAIL = 64


async def expire_streams(
    blobs: AppendBlobs,
    token: str | None,
    *,
    before: float,
    abandoned_before: float | None,
    runs: Callable[[str, str], Awaitable[bool | None]],
    prefix: str = "streams/",
) -> tuple[str | None, int]:
    """Look at one page of the streams below `prefix`, and remove those that are done with: the token of the next page (None
    after the last), and how many streams went.

    `runs(scope, id)` says whether what writes a stream is still at work, None when that is not known. A stream goes when
    nothing was appended since `before` and its writer is done, or it is closed; an open one that nobody knows, when nothing
    was appended since `abandoned_before` (None: never). Raises StorageError; what is left then is found the next time.
    """
    page = await blobs.page(prefix, token)
    streams = [list(group) for _, group in groupby(page.items, lambda info: info.name.rpartition("/")[0])]
    if streams and page.next is not None:
        # The page may end within this one, whose last segment decides.
        streams[-1] = await blobs.list(_folder(streams[-1]))
    looks = [partial(_expire, blobs, infos, prefix, before, abandoned_before, runs) for infos in streams if infos]
    return page.next, sum(await gather_at_most(_AT_ONCE, looks))


async def _expire(
    blobs: AppendBlobs,
    infos: Sequence[BlobInfo],
    prefix: str,
    before: float,
    abandoned_before: float | None,
    runs: Callable[[str, str], Awaitable[bool | None]],
) -> bool:
    last = infos[-1]
    if last.modified >= before:
        return False
    # <scope>/<id>, as the registry of the app makes them. What is named otherwise has no known writer.
    scope, separator, identifier = _folder(infos).removeprefix(prefix).rstrip("/").partition("/")
    running = await runs(scope, identifier) if separator else None
    if running:
        return False
    if running is None:
        tail = await blobs.read(last.name, max(0, last.size - _TAIL), _TAIL)
        closed = tail is not None and is_end(tail.data)
        if not closed and (abandoned_before is None or last.modified >= abandoned_before):
            return False
    # From the first on: if the process dies half-way, the end of the stream is left, and says the next time what this is.
    for info in infos:
        await blobs.delete(info.name)
    return True


def _folder(infos: Sequence[BlobInfo]) -> str:
    return infos[0].name.rpartition("/")[0] + "/"
