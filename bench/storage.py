"""Storage operations and round trips of a foreground turn at several positions of one conversation, on Azurite."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.table import show
from devhost.azurite import run_azurite
from hosting.server import Request, ResponsesServer
from hosting.settings import load_settings
from hosting.state import AgentState
from hosting.storage import Store, connect

_TURNS = (1, 2, 50, 500)


class RoundTrips:
    """Wraps the store's seams: calls that overlap are one round trip."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.count = 0
        self._under_way = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._counted(found) if asyncio.iscoroutinefunction(found) else found

    def _counted(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*args: Any, **options: Any) -> Any:
            if self._under_way == 0:
                self.count += 1
            self._under_way += 1
            try:
                return await call(*args, **options)
            finally:
                self._under_way -= 1

        return counted


def main() -> None:
    """Run 500 turns of the template's own agent and show some of them."""
    asyncio.run(_run())


async def _run() -> None:
    os.environ.setdefault("AzureWebJobsStorage", "UseDevelopmentStorage=true")  # the app wants it to load
    import function_app

    rows: list[list[object]] = []
    async with run_azurite(Path.cwd()) as azurite:
        store = connect({"AzureWebJobsStorage": azurite.connection_string})
        trips = RoundTrips(store._tables)  # pyright: ignore[reportPrivateUsage]
        store._tables = trips  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        server = _server(function_app.create_agent, store)
        await _ask(server, None)  # the first use makes the table
        previous: str | None = None
        for turn in range(1, max(_TURNS) + 1):
            before, trips.count, started = store.meter.copy(), 0, time.perf_counter()
            previous = await _ask(server, previous)
            milliseconds = (time.perf_counter() - started) * 1000
            if turn in _TURNS:
                cost = store.meter - before
                kib = f"{cost.bytes_in / 1024:.1f} / {cost.bytes_out / 1024:.1f}"
                rows.append(
                    [turn, cost.table_reads, cost.table_writes, cost.blob_reads + cost.blob_writes, trips.count, kib]
                    + [f"{milliseconds:.1f}"]
                )
        await server.close()
        await store.close()
    show(
        "Storage of one foreground turn (no stream), by its position in the conversation",
        ["turn", "table reads", "transactions", "blob operations", "round trips", "KiB read / written", "ms in all"],
        rows,
    )


def _server(create_agent: Callable[[], Any], store: Store) -> ResponsesServer:
    settings = load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"})
    return ResponsesServer(AgentState(create_agent), settings, lambda: store)


async def _ask(server: ResponsesServer, previous: str | None) -> str:
    body = json.dumps({"input": "How many days does a leap year have?", "previous_response_id": previous}).encode()

    async def read(limit: int) -> bytes:
        return body

    response = await server.handle("v1/responses", Request("POST", "/v1/responses", read=read))
    assert isinstance(response.body, bytes)
    answer = json.loads(response.body)
    assert answer["status"] == "completed", answer
    return str(answer["id"])
