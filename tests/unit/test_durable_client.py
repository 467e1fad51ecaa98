"""The Durable client of a process, when it is learned that Durable listens elsewhere."""

import asyncio
import threading
from typing import Any

import pytest

from hosting.functions import durable_client
from hosting.functions.durable_client import DurableClientHolder


class Client:
    made: list["Client"]

    def __init__(self, config: str) -> None:
        self.config, self.closed, self.close_called = config, 0, asyncio.Event()
        self.made.append(self)

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1
        self.close_called.set()


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    Client.made = []
    monkeypatch.setattr(durable_client.df, "DurableFunctionsClient", Client)
    return Client.made


@pytest.fixture
def holder() -> DurableClientHolder:
    return DurableClientHolder()


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_client, "_STILL_USED", 0.0)


async def until_closed(client: Client) -> None:
    async with asyncio.timeout(5):
        await client.close_called.wait()


async def test_the_same_text_is_the_same_client(holder: DurableClientHolder, clients: list[Client]) -> None:
    for _ in range(3):
        holder.learn("one")
        holder.get()
    assert [client.config for client in clients] == ["one"]


async def test_the_client_of_an_older_text_is_closed(
    holder: DurableClientHolder, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    holder.learn("one")
    old: Any = holder.get()
    holder.learn("two")
    new: Any = holder.get()
    await until_closed(old)
    assert (new.config, new.closed) == ("two", 0)


async def test_who_calls_with_the_older_client_has_time_to_end(holder: DurableClientHolder) -> None:
    holder.learn("one")
    old: Any = holder.get()
    holder.learn("two")
    await asyncio.sleep(0.01)
    assert not old.closed
    await holder.close()


async def test_it_is_closed_on_its_own_loop_when_a_function_in_a_thread_has_learned_it(
    holder: DurableClientHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    holder.learn("one")
    old: Any = holder.get()
    thread = threading.Thread(target=holder.learn, args=("two",))
    thread.start()
    await asyncio.to_thread(thread.join)
    await until_closed(old)


async def test_closing_closes_those_that_have_not_been_closed_yet(
    holder: DurableClientHolder, clients: list[Client]
) -> None:
    for text in ("one", "two", "three"):
        holder.learn(text)
        holder.get()
    await holder.close()
    assert [client.closed for client in clients] == [1, 1, 1]


async def test_a_client_that_can_not_be_closed_is_only_a_line_in_the_log(
    holder: DurableClientHolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at_once(monkeypatch)
    holder.learn("one")
    old: Any = holder.get()
    failed = asyncio.Event()

    async def broken() -> None:
        failed.set()
        raise ConnectionError("the host is gone")

    old.close = broken
    holder.learn("two")
    await failed.wait()
    await holder.close()
    assert "the host is gone" in caplog.text
