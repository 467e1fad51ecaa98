"""Seam 3, append blobs: one contract, three twins."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hosting.storage import (
    BLOCK_BYTES,
    AppendBlobs,
    AppendConflict,
    BlobMissing,
    MemoryAppendBlobs,
    Meter,
    StorageUnavailable,
    connect_append_blobs,
)
from hosting.streaming._files import FileAppendBlobs


@pytest.fixture(params=["memory", "file", "azurite"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AppendBlobs]:
    made: AppendBlobs
    if request.param == "memory":
        made = MemoryAppendBlobs()
    elif request.param == "file":
        made = FileAppendBlobs(tmp_path / "deep" / "er")
    else:
        made = connect_append_blobs(
            {"AzureWebJobsStorage": request.getfixturevalue("azurite").connection_string}, container="append"
        )
    yield made
    await made.close()


@pytest.fixture
def name() -> str:
    return f"s-{secrets.token_hex(6)}/0001.jsonl"


async def test_create_says_whether_it_did_and_keeps_what_is_there(blobs: AppendBlobs, name: str) -> None:
    assert await blobs.create(name) is True
    await blobs.append(name, b"kept", 0)
    assert await blobs.create(name) is False
    chunk = await blobs.read(name, 0, 100)
    assert chunk is not None
    assert chunk.data == b"kept"


async def test_appends_follow_each_other(blobs: AppendBlobs, name: str) -> None:
    await blobs.create(name)
    await blobs.append(name, b"one,", 0)
    await blobs.append(name, b"two", 4)
    chunk = await blobs.read(name, 0, 100)
    assert chunk is not None
    assert (chunk.data, chunk.size) == (b"one,two", 7)


@pytest.mark.parametrize("position", [0, 3, 5])
async def test_an_append_at_another_position_changes_nothing(blobs: AppendBlobs, name: str, position: int) -> None:
    await blobs.create(name)
    await blobs.append(name, b"four", 0)
    with pytest.raises(AppendConflict):
        await blobs.append(name, b"x", position)
    chunk = await blobs.read(name, 0, 100)
    assert chunk is not None
    assert chunk.data == b"four"


async def test_of_two_appends_at_one_position_one_wins(blobs: AppendBlobs, name: str) -> None:
    await blobs.create(name)
    results = await asyncio.gather(
        *(blobs.append(name, bytes([65 + n]) * 9, 0) for n in range(6)), return_exceptions=True
    )
    assert sum(isinstance(result, AppendConflict) for result in results) == 5
    chunk = await blobs.read(name, 0, 100)
    assert chunk is not None
    assert len(chunk.data) == 9
    assert len(set(chunk.data)) == 1


async def test_an_append_to_no_blob_raises(blobs: AppendBlobs, name: str) -> None:
    with pytest.raises(BlobMissing):
        await blobs.append(name, b"x", 0)
    assert await blobs.list(name) == []


@pytest.mark.parametrize("size", [0, BLOCK_BYTES + 1])
async def test_block_sizes_that_storage_does_not_take(blobs: AppendBlobs, name: str, size: int) -> None:
    await blobs.create(name)
    with pytest.raises(ValueError):
        await blobs.append(name, b"x" * size, 0)


async def test_the_largest_block(blobs: AppendBlobs, name: str) -> None:
    await blobs.create(name)
    await blobs.append(name, b"x" * BLOCK_BYTES, 0)
    chunk = await blobs.read(name, 0, BLOCK_BYTES * 2)
    assert chunk is not None
    assert len(chunk.data) == chunk.size == BLOCK_BYTES


@pytest.mark.parametrize(
    ("offset", "limit", "expected"), [(0, 3, b"012"), (2, 3, b"234"), (8, 9, b"89"), (10, 5, b""), (1, 1, b"1")]
)
async def test_ranges(blobs: AppendBlobs, name: str, offset: int, limit: int, expected: bytes) -> None:
    await blobs.create(name)
    await blobs.append(name, b"0123456789", 0)
    chunk = await blobs.read(name, offset, limit)
    assert chunk is not None
    assert (chunk.data, chunk.size) == (expected, 10)


async def test_an_empty_blob_reads_as_nothing(blobs: AppendBlobs, name: str) -> None:
    await blobs.create(name)
    chunk = await blobs.read(name, 0, 10)
    assert chunk is not None
    assert (chunk.data, chunk.size) == (b"", 0)


async def test_a_blob_shorter_than_the_offset_says_so(blobs: AppendBlobs, name: str) -> None:
    await blobs.create(name)
    await blobs.append(name, b"short", 0)
    chunk = await blobs.read(name, 50, 10)
    assert chunk is not None
    assert chunk.data == b""
    assert chunk.size < 50


async def test_a_read_of_no_blob_is_none(blobs: AppendBlobs, name: str) -> None:
    assert await blobs.read(name, 0, 10) is None
    assert await blobs.read(name, 5, 10) is None


async def test_born_stays_while_a_blob_grows(blobs: AppendBlobs, name: str) -> None:
    await blobs.create(name)
    await blobs.append(name, b"one", 0)
    first = await blobs.read(name, 0, 10)
    await blobs.append(name, b"two", 3)
    second = await blobs.read(name, 3, 10)
    assert first is not None
    assert second is not None
    assert first.born == second.born != ""


async def test_list_is_by_name_with_sizes_and_times(blobs: AppendBlobs, name: str) -> None:
    base = name.rpartition("/")[0]
    for number in (20, 3, 100):
        await blobs.create(f"{base}/{number:04}")
    await blobs.append(f"{base}/0003", b"12345", 0)
    await blobs.create(f"{base}-other/0001")
    listed = await blobs.list(f"{base}/")
    assert [(info.name, info.size) for info in listed] == [
        (f"{base}/0003", 5),
        (f"{base}/0020", 0),
        (f"{base}/0100", 0),
    ]
    assert all(abs(info.modified - time.time()) < 60 for info in listed)


async def test_delete_says_whether_there_was_one(blobs: AppendBlobs, name: str) -> None:
    await blobs.create(name)
    assert await blobs.delete(name) is True
    assert await blobs.delete(name) is False
    assert await blobs.read(name, 0, 1) is None
    assert await blobs.list(name) == []


async def test_each_call_is_counted(request: pytest.FixtureRequest) -> None:
    meter = Meter()
    env = {"AzureWebJobsStorage": request.getfixturevalue("azurite").connection_string}
    name = f"s-{secrets.token_hex(6)}/1"
    counts: list[Meter] = []
    for blobs in (MemoryAppendBlobs(meter), connect_append_blobs(env, container="append", meter=meter)):
        await blobs.create(f"{name}-warm")  # the container exists from here on
        before = meter.copy()
        await blobs.create(name)
        await blobs.append(name, b"12345", 0)
        await blobs.read(name, 2, 100)
        await blobs.list(name)
        await blobs.delete(name)
        counts.append(meter - before)
        await blobs.close()
    assert counts[0] == counts[1] == Meter(blob_reads=2, blob_writes=2, blob_deletes=1, bytes_in=3, bytes_out=5)


async def test_a_storage_that_is_not_there_is_unavailable(name: str) -> None:
    key = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://192.0.2.1"  # TEST-NET: nobody answers
    blobs = connect_append_blobs({"AzureWebJobsStorage": key})
    from hosting.storage import _blob_requests

    patch = pytest.MonkeyPatch()
    patch.setattr(_blob_requests, "_CONNECT_SECONDS", 0.2)
    patch.setattr(_blob_requests, "_READ_SECONDS", 0.2)
    try:
        with pytest.raises(StorageUnavailable):
            await blobs.append(name, b"x", 0)
        with pytest.raises(StorageUnavailable):
            await blobs.read(name, 0, 1)
    finally:
        patch.undo()
        await blobs.close()
