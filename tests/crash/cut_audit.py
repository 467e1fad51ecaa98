"""What must hold of a storage account when everything in it has come to rest, whatever died on the way."""

from collections import Counter
from typing import Any

from hosting.functions.retention import make_retention
from hosting.settings import load_settings
from hosting.state import Turns
from hosting.state.items import turn_items
from hosting.state.lineage import extend, places
from hosting.state.retention import TickLimits
from hosting.storage import keys
from hosting.storage._values import FIELDS, SPILLED, decode_refs
from hosting.tasks._rows import INDEX_PARTITIONS
from tests.crash.cut_client import Client
from tests.crash.cut_points import Account
from tests.server_world import FINAL, Json
from tests.sse_reader import assembled
from tests.unit.handler_runs import check_wire

__all__ = ["SCOPE", "at_rest", "audit", "heard", "items_of", "retained"]

SCOPE = keys.scope("development", None)
_DAY = 86_400.0


async def at_rest(client: Client) -> None:
    """Time goes by until nothing is at work any more, which takes no other process. Then one comes and finds nothing to do."""
    process = client.process
    process.gate.arm(0, "before")
    for seconds in (1.0, 70.0, 180.0, 700.0, 700.0):
        if not _at_work(process.account):
            break
        await process.let(seconds)
    assert not _at_work(process.account), f"left in the index: {_at_work(process.account)}"
    await process.again()
    await process.let(120.0)
    report = await process.world.engine.recover()
    assert (report.rows, report.driven, report.removed) == (0, 0, 0), "the recovery scan is still busy"


def _at_work(account: Account) -> list[str]:
    """The rows of the index of active work."""
    held = (account.tables._partitions.get(partition) for partition in INDEX_PARTITIONS)
    return [row for rows in held if rows is not None for row in rows.rows]


async def audit(client: Client) -> None:
    """Everything but what a flow itself says of its turns."""
    _check_tasks(client.process.account)
    for identifier in client.accepted.keys() - client.deleted:
        await client.get(identifier)
    for identifier in client.deleted:
        await _check_deleted(client, identifier)
    for key in client.keyed:
        await client.repeat(key)
    texts: Counter[str] = Counter()
    conversations: dict[str, list[Json]] = {}
    for identifier in _ids(client.process.account, "response."):
        response = await _check_response(client, identifier)
        given = await _given(client, identifier)
        if response["status"] != "cancelled":
            texts[given] += 1
        if response["status"] in ("completed", "incomplete") and response.get("conversation"):
            conversations.setdefault(response["conversation"]["id"], []).append(response)
    assert all(count == 1 for text, count in texts.items() if text), f"a turn is there twice: {texts}"
    for identifier in client.cancelled - client.deleted:
        assert client.accepted[identifier]["status"] == "cancelled", "cancelled, and then something else"
    for identifier in _ids(client.process.account, "conversation."):
        await _check_conversation(client, identifier, conversations.get(identifier, []))


def _check_tasks(account: Account) -> None:
    for held in account.tables._partitions.values():
        for row, entity in held.rows.items():
            assert not row.startswith("task-input."), "an input that never ended"
            if row.startswith("task."):
                assert '"in_progress"' not in entity.properties[FIELDS], "a task that never ended"


def _ids(account: Account, prefix: str) -> list[str]:
    """The ids in row keys of this kind."""
    rows = [row for held in account.tables._partitions.values() for row in held.rows if row.startswith(prefix)]
    return [row.removeprefix(prefix) for row in rows]


async def _check_response(client: Client, identifier: str) -> Json:
    """Final, whole, and with events that end with what is stored."""
    response = await client.get(identifier)
    assert response["status"] in FINAL
    if response["status"] == "completed":
        assert response["output"], "completed without output"
    stored = await Turns(client.process.account.store(), SCOPE).response(identifier)
    assert stored is not None
    if stored.task is not None and stored.task.stream and response["background"]:
        events = await _all_events(client, identifier)
        terminal = "failed" if response["status"] == "cancelled" else response["status"]
        assert events[-1]["type"] == f"response.{terminal}"
        assert events[-1]["response"] == response, "the last event is not what is stored"
        if response["status"] == "completed":
            assert assembled(events) == response["output"], "the events don't say what is stored"
    return response


async def _all_events(client: Client, identifier: str) -> list[Json]:
    response = await client.world.followed(identifier)
    read = await client._read(response, identifier)  # compares with what anybody has seen under the same numbers
    assert read.final is not None, "the events have no end"
    seen = client.events[identifier]
    events = [seen[number] for number in sorted(seen)]
    if events[-1]["response"]["status"] != "cancelled":
        check_wire(events)
    else:
        assert sorted(seen) == list(range(len(seen)))
    terminal = [event for event in events if event["type"].rpartition(".")[2] in FINAL]
    assert len(terminal) == 1, "more than one terminal event"
    return events


async def _given(client: Client, identifier: str) -> str:
    """The last text of the input of a response: those before it are of the turns before."""
    status, page = await client.call(
        "GET", "v1/responses/{response_id}/input_items", query={"order": ["asc"]}, response_id=identifier
    )
    assert status == 200
    return ([""] + texts_of(page["data"]))[-1][:80]


def texts_of(items: list[Json]) -> list[str]:
    """The texts of the messages among items."""
    return [part["text"] for item in items if item["type"] == "message" for part in item["content"]]


async def _check_deleted(client: Client, identifier: str) -> None:
    await client.get(identifier, status=404)
    account = client.process.account
    assert not [name for name in account.appends._blobs if identifier in name], "events of a deleted response"
    rows = [row for held in account.tables._partitions.values() for row in held.rows]
    assert not [row for row in rows if identifier in row], "rows of a deleted response"


async def items_of(client: Client, conversation: str) -> list[Json]:
    """The items of a conversation, oldest first."""
    status, page = await client.call(
        "GET",
        "v1/conversations/{conversation_id}/items",
        query={"limit": ["100"], "order": ["asc"]},
        conversation_id=conversation,
    )
    assert status == 200
    return page["data"]


async def _check_conversation(client: Client, identifier: str, turns: list[Json]) -> None:
    """Each of its turns is in it once; it is free; and it goes on."""
    status, _ = await client.call("GET", "v1/conversations/{conversation_id}", conversation_id=identifier)
    assert status == 200, "a conversation that is neither there nor gone"
    ids = [item["id"] for item in await items_of(client, identifier)]
    assert len(ids) == len(set(ids))
    for turn in turns:
        if turn["id"] not in client.deleted:
            own = [item["id"] for item in turn["output"]]
            at = ids.index(own[0])
            assert ids[at : at + len(own)] == own, "a turn is not in its conversation as a whole"
    answer = await client.world.post("probe", conversation=identifier)
    assert answer.status == 200, f"the conversation is not free: {answer.body}"
    assert texts_of(await items_of(client, identifier)).count("probe") == 1


async def heard(client: Client, last: str) -> list[str]:
    """The texts that a turn after the response `last` knows of, oldest first."""
    turns = Turns(client.process.account.store(), SCOPE)
    stored = await turns.response(last)
    assert stored is not None
    found: list[str] = []
    lineage = extend(stored.before, stored.place) if stored.place.log == "main" else stored.before
    async for _, given, made, _ in turn_items(turns, places(lineage)):
        found += texts_of([*given, *made])
    return found


async def retained(account: Account) -> None:
    """Retention removes what nothing refers to after a day, and after its time everything."""
    await account.clock.advance(1.5 * _DAY)
    await _pass(account)
    kept = {ref for held in account.tables._partitions.values() for row in held.rows.values() for ref in _refs(row)}
    assert set(account.blobs._blobs) == kept, "a value without a row, or a row without its value"
    for _ in range(3):
        await account.clock.advance(35 * _DAY)
        await _pass(account)
    left = [row for name, held in account.tables._partitions.items() for row in held.rows if name != "retention"]
    assert not left, f"left for ever: {left}"
    assert not account.blobs._blobs
    assert not account.appends._blobs, f"streams that are left for ever: {list(account.appends._blobs)}"


def _refs(row: Any) -> list[str]:
    return [ref.name for ref in decode_refs(row.properties.get(SPILLED), row.row).values()]


async def _pass(account: Account) -> None:
    limits = TickLimits(between_passes=0.0)
    report = await make_retention(
        load_settings({}), account.store(), account.appends, clock=account.clock.now, limits=limits
    ).run()
    assert report.finished
