"""Seam 2, Blobs: one contract, both twins."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from hosting.storage import Blobs
from tests.contract.storage_twins import TWINS, Twin, fresh, open_twin


@pytest.fixture(params=TWINS)
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    async with open_twin(request.param, request) as opened:
        yield opened


@pytest.fixture
def blobs(twin: Twin) -> Blobs:
    return twin.blobs


@pytest.mark.parametrize("data", [b"{}", b"", bytes(range(256))], ids=["text", "empty", "binary"])
async def test_get_returns_what_was_put(blobs: Blobs, data: bytes) -> None:
    name = fresh("values/p/")
    await blobs.put(name, data)
    assert await blobs.get(name) == data


async def test_put_overwrites(blobs: Blobs) -> None:
    name = fresh("values/p/")
    await blobs.put(name, b"first, longer")
    await blobs.put(name, b"second")
    assert await blobs.get(name) == b"second"


async def test_five_megabytes_in_one_operation_each_way(twin: Twin) -> None:
    name, data = fresh("values/p/"), os.urandom(5 * 1024 * 1024)
    await twin.blobs.put(name, b"the container exists now")
    before = twin.store.meter.copy()
    await twin.blobs.put(name, data)
    assert await twin.blobs.get(name) == data
    used = twin.store.meter - before
    assert (used.blob_writes, used.blob_reads, used.bytes_out, used.bytes_in) == (1, 1, len(data), len(data))


async def test_get_of_an_absent_blob_is_none(blobs: Blobs) -> None:
    assert await blobs.get(fresh("values/p/")) is None


async def test_delete_says_whether_there_was_one(blobs: Blobs) -> None:
    name = fresh("values/p/")
    await blobs.put(name, b"x")
    assert await blobs.delete(name) is True
    assert await blobs.delete(name) is False
    assert await blobs.get(name) is None


async def test_list_has_the_names_with_the_prefix_in_order(blobs: Blobs) -> None:
    base = fresh("values/")
    for name in ("b/2", "a/1", "b/1", "bb/1"):
        await blobs.put(f"{base}/{name}", b"x")
    assert await blobs.list(f"{base}/b/") == [f"{base}/b/1", f"{base}/b/2"]
    assert await blobs.list(f"{base}/none") == []


@pytest.mark.parametrize("name", ["it's", "a b", "100%", "a~b.c-d_e", "é漢"])
async def test_names_with_punctuation(blobs: Blobs, name: str) -> None:
    full = f"{fresh('values/')}/{name}"
    await blobs.put(full, b"x")
    assert await blobs.get(full) == b"x"
    assert await blobs.list(full) == [full]


async def test_calls_before_the_first_write_find_nothing(request: pytest.FixtureRequest, twin: Twin) -> None:
    async with open_twin(twin.name, request, fresh("c")) as empty:
        assert await empty.blobs.get("a") is None
        assert await empty.blobs.delete("a") is False
        assert await empty.blobs.list("") == []


async def test_concurrent_first_writes_create_the_container(request: pytest.FixtureRequest, twin: Twin) -> None:
    async with open_twin(twin.name, request, fresh("c")) as empty:
        await asyncio.gather(*(empty.blobs.put(f"b{n}", b"x") for n in range(8)))
        assert len(await empty.blobs.list("b")) == 8
