"""docs/operations.md says what the code does: counts of storage operations, alerts, and the names that its queries ask for."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent, ChatOptions

from demo_agent import create_demo_chat_client
from hosting.responses.builders import TextResponse
from hosting.state import AgentState, TableHistoryProvider
from hosting.storage import Meter
from hosting.streaming import StreamTuning
from hosting.tasks.host import mark_scanned
from tests.server_world import World, serve
from tests.telemetry_recorder import Recorder, recorder
from tests.unit.workflow_desk import hosted

from .alerts import unknown_names
from .bicep import ROOT, load

__all__ = ["recorder"]

PAGE = (ROOT / "docs" / "operations.md").read_text()


def table(after: str, head: str) -> dict[str, list[str]]:
    """The rows of the first table after some words whose head begins so, by their first cell."""
    section = PAGE.partition(after)[2]
    lines = section.partition(f"\n{head}")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in rows}


# ---- what 1,000 turns cost

COSTS = table("## What 1,000 turns cost", "| one |")


def agent() -> Agent:
    return Agent(
        client=create_demo_chat_client(),
        name="helper",
        context_providers=[TableHistoryProvider()],
        default_options=ChatOptions(store=False),
    )


def counts(cell: str) -> list[int]:
    return [int(number) for number in cell.split(" / ")]


async def spent(world: World, act: Callable[[], Awaitable[Any]]) -> tuple[Any, Meter, Meter]:
    """What it gave; what it cost in tables, and in streams."""
    tables, streams = world.store.meter.copy(), world.blobs.meter.copy()
    result = await act()
    before = -1
    while (counted := world.store.meter.operations + world.blobs.meter.operations) != before:
        before = counted
        await asyncio.sleep(0.25)  # the task's index row and the end of the stream are written after the answer
    return result, world.store.meter - tables, world.blobs.meter - streams


async def turn(world: World, row: str, more: dict[str, Any]) -> str:
    """One more turn of the kind that a row of the table is about; its id."""
    if "background" in row:
        more["background"] = True
    if "stream" in row:
        return (await (await world.stream("hello", **more)).ends())[-1]["response"]["id"]
    return (await world.create("hello", **more))["id"]


@pytest.mark.parametrize("row", [row for row in COSTS if " turn" in row])
async def test_a_turn_costs_what_the_table_says(row: str) -> None:
    runs: Any = hosted() if row.startswith("workflow") else AgentState(agent)
    reads, writes = counts(COSTS[row][0]), counts(COSTS[row][1])
    # How often a stream is appended to, and looked at by who follows it, depends on how fast this machine is.
    slack = 4 if "stream" in row else 0
    async with serve(hosted=runs, resilient_background=True, tuning=StreamTuning()) as world:
        await world.create("hello")
        more = {"conversation": await world.conversation()} if "Conversation" in row else {}
        for table_reads, table_writes in zip([*reads, reads[-1]], [*writes, writes[-1]], strict=True):
            made, tables, streams = await spent(world, partial(turn, world, row, more))
            assert (tables.table_reads, tables.table_writes) == (pytest.approx(table_reads, abs=slack), table_writes)
            assert tables.blob_reads == tables.blob_writes == 0
            assert streams.blob_reads == pytest.approx(int(COSTS[row][2]), abs=slack)
            assert streams.blob_writes == pytest.approx(int(COSTS[row][3]), abs=slack)
            if "Conversation" not in row:
                more = {"previous_response_id": made}


async def test_a_minute_of_a_background_run_costs_what_the_table_says() -> None:
    gate = asyncio.Event()

    async def handler(request: Any, context: Any, cancellation_signal: Any) -> TextResponse:
        await gate.wait()
        return TextResponse(context, request, text="hello")

    async with serve(handler, resilient_background=True) as world:
        made = await world.create("hi", background=True)
        await world.engine.settle()
        _, minute, _ = await spent(world, lambda: world.advance(60))
        _, scan, _ = await spent(world, world.engine.recover)
        gate.set()
        await world.ended(made["id"])
        await world.at_rest(made["id"])
        _, idle, _ = await spent(world, world.engine.recover)
        _, mark, _ = await spent(world, lambda: mark_scanned(world.store, 1.0))
    assert [minute.table_reads, minute.table_writes] == [int(cell) for cell in COSTS["minute of a background run"][:2]]
    assert [idle.table_reads + mark.table_reads, idle.table_writes + mark.table_writes] == [
        int(cell) for cell in COSTS["recovery scan, each minute"][:2]
    ]
    assert scan.table_reads == idle.table_reads + 1


def test_the_example_multiplies_the_measured_counts() -> None:
    turn = [counts(cell)[-1] for cell in COSTS["background turn with stream"]]
    minute = sum(map(int, COSTS["minute of a background run"][:2]))
    streaming = (ROOT / "docs" / "streaming.md").read_text()
    appends, looks = (int(n) for n in re.findall(r"(?m)^(?:appends|reads) .* price +(\d+)", streaming))
    assert table("**Example", "| | count |") == {
        f"table: {turn[0]} + {turn[1]} + {minute}": [str(turn[0] + turn[1] + minute), "0.002"],
        f"blob writes: {turn[3]} + {appends}": [str(turn[3] + appends), "1.53"],
        f"blob reads: {turn[2]} + {looks}": [str(turn[2] + looks), "0.23"],
        "actions": [str(turn[4]), "3,000 * P_a"],
        "time: 60 s * 2 GB * (1/16 + 1/32)": ["11.3 GB-s", "0.29; with one turn an instance 6.24"],
        "executions": [str(turn[5] + 1), "0.002"],
    }


# ---- telemetry


@pytest.mark.parametrize("row", ["foreground turn", "background turn with stream"])
async def test_a_turn_makes_as_many_spans_as_the_table_says(row: str, recorder: Recorder) -> None:
    page = (ROOT / "docs" / "telemetry.md").read_text()
    (said,) = re.findall(rf"^\| {row} \| (.+) \|$", page, re.M)
    slack = 2 if "stream" in row else 0  # how often a follower looks depends on how fast this machine is
    async with serve(hosted=AgentState(agent), resilient_background=True, tuning=StreamTuning()) as world:
        await world.create("hello")
        more: dict[str, Any] = {}
        for spans in counts(said):
            before = len(recorder.spans)
            made, _, _ = await spent(world, partial(turn, world, row, more))
            assert len(recorder.spans) - before == pytest.approx(spans, abs=slack)
            more = {"previous_response_id": made}


def test_the_cap_of_telemetry_is_the_sum_that_is_written() -> None:
    section = PAGE.partition("### Telemetry, and its cap")[2].partition("\n## ")[0]
    cap = int(load(ROOT / "infra" / "main.bicep").params["logDailyQuotaGb"].default or 0)
    (a_turn,) = (int(n) for n in re.findall(r"a background turn that streams.* \| (\d+) KB each \|", section))
    per_minute, size, a_day = re.findall(r"busy all day: (\d+) a minute of ([\d.]+) KB \| (\d+) MB", section)[0]
    assert float(per_minute) * float(size) * 1440 / 1000 == pytest.approx(int(a_day), abs=1)
    turns = cap * 1_000_000 // a_turn
    assert (
        f"`LOG_DAILY_QUOTA_GB={cap}`, the default, is {turns:,} background turns a day, {round(turns / 1440, -1):.0f} a minute"
        in section
    )
    assert f"40 instances that are busy all day take {40 * int(a_day) / 1000:.1f} GB" in section


# ---- queries


@pytest.mark.parametrize("page", ["operations.md", "runbooks.md", "telemetry.md"])
def test_queries_ask_for_names_that_exist(page: str) -> None:
    queries = re.findall(r"```kusto\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    assert queries
    assert {query: unknown_names(query) for query in queries if unknown_names(query)} == {}


def test_what_only_a_deployment_proves_is_on_the_list_of_it() -> None:
    unproven = (ROOT / "docs" / "unproven.md").read_text()
    for page in ("operations.md", "runbooks.md"):
        marks = (ROOT / "docs" / page).read_text().count("(?)") - 1  # the first one says what it means
        assert marks >= 5
        assert unproven.count(f"]({page}#") >= marks, page


@pytest.mark.parametrize("name", ["load", "responses", "soak"])
def test_a_benchmark_that_is_named_is_there(name: str) -> None:
    assert f"`python -m bench {name}`" in PAGE
    assert (Path(ROOT) / "bench" / f"{name}.py").is_file()
