"""agent-framework's CheckpointStorage contract, over the table in memory and over Azurite; its own twin runs it, too."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from agent_framework import CheckpointStorage, InMemoryCheckpointStorage, Message, WorkflowCheckpoint, WorkflowEvent
from agent_framework.exceptions import WorkflowCheckpointException

from hosting.ids import response_id
from hosting.state.checkpoints import TableCheckpointStorage
from hosting.storage import StorageUnavailable, Store, keys, memory_store
from tests.contract.storage_twins import TWINS, Twin, open_twin

T0 = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Ticket:
    number: int


@dataclass
class Stranger:
    number: int


def checkpoint(name: str = "flow", *, at: float = 0, **fields: Any) -> WorkflowCheckpoint:
    stamp = (T0 + timedelta(seconds=at)).isoformat()
    return WorkflowCheckpoint(workflow_name=name, graph_signature_hash="graph", timestamp=stamp, **fields)


def scope() -> str:
    return keys.scope(uuid.uuid4().hex, None)


@pytest.fixture(params=TWINS)
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    async with open_twin(request.param, request) as opened:
        yield opened


@pytest.fixture(params=["framework", *TWINS])
async def storage(request: pytest.FixtureRequest) -> AsyncIterator[CheckpointStorage]:
    if request.param == "framework":
        yield InMemoryCheckpointStorage()
        return
    async with open_twin(request.param, request) as opened:
        yield TableCheckpointStorage(opened.store, scope=scope(), session_id="s1", allowed_types=[Ticket])


async def test_what_is_saved_can_be_loaded(storage: CheckpointStorage) -> None:
    event = WorkflowEvent.request_info("r1", "desk", Ticket(7), bool)
    saved = checkpoint(
        state={"count": 3, "said": [Message("user", ["hi"])], "pair": (1, 2)},
        pending_request_info_events={"r1": event},
        iteration_count=4,
        metadata={"why": "test"},
    )
    assert await storage.save(saved) == saved.checkpoint_id
    loaded = await storage.load(saved.checkpoint_id)
    assert (loaded.workflow_name, loaded.graph_signature_hash, loaded.timestamp) == ("flow", "graph", saved.timestamp)
    assert (loaded.iteration_count, loaded.metadata, loaded.previous_checkpoint_id) == (4, {"why": "test"}, None)
    assert (loaded.state["count"], loaded.state["said"][0].text, loaded.state["pair"]) == (3, "hi", (1, 2))
    pending = loaded.pending_request_info_events["r1"]
    assert (pending.data, pending.response_type, pending.source_executor_id) == (Ticket(7), bool, "desk")


async def test_what_changes_after_the_save_is_not_in_it(storage: CheckpointStorage) -> None:
    state = {"list": [1]}
    saved = checkpoint(state=state)
    await storage.save(saved)
    state["list"].append(2)
    assert (await storage.load(saved.checkpoint_id)).state == {"list": [1]}


async def test_an_unknown_id_is_an_error(storage: CheckpointStorage) -> None:
    with pytest.raises(WorkflowCheckpointException):
        await storage.load("never-saved")


async def test_a_deleted_one_is_gone(storage: CheckpointStorage) -> None:
    saved = checkpoint()
    await storage.save(saved)
    assert await storage.delete(saved.checkpoint_id)
    assert not await storage.delete(saved.checkpoint_id)
    assert await storage.list_checkpoint_ids(workflow_name="flow") == []
    assert await storage.get_latest(workflow_name="flow") is None


async def test_lists_are_of_one_workflow_and_in_order(storage: CheckpointStorage) -> None:
    ours = [checkpoint(at=n) for n in range(3)]
    for saved in (*ours, checkpoint("other", at=9)):
        await storage.save(saved)
    ids = [saved.checkpoint_id for saved in ours]
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ids
    assert [found.checkpoint_id for found in await storage.list_checkpoints(workflow_name="flow")] == ids
    assert await storage.list_checkpoints(workflow_name="nobody") == []


async def test_the_latest_is_of_one_workflow(storage: CheckpointStorage) -> None:
    await storage.save(first := checkpoint(at=1))
    await storage.save(second := checkpoint(at=2, previous_checkpoint_id=first.checkpoint_id))
    await storage.save(checkpoint("other", at=3))
    latest = await storage.get_latest(workflow_name="flow")
    assert latest is not None
    assert latest.checkpoint_id == second.checkpoint_id
    assert await storage.get_latest(workflow_name="nobody") is None


async def test_saving_the_same_id_again_takes_its_place(storage: CheckpointStorage) -> None:
    saved = checkpoint(state={"n": 1}, at=1)
    await storage.save(saved)
    await storage.save(replace(saved, state={"n": 2}, timestamp=(T0 + timedelta(seconds=5)).isoformat()))
    assert await storage.list_checkpoint_ids(workflow_name="flow") == [saved.checkpoint_id]
    assert (await storage.load(saved.checkpoint_id)).state == {"n": 2}


@pytest.mark.parametrize("odd", ["a/b", "..", "Ä#?\\", "x" * 3000, "UPPER", "upper", " ", "a.b", "~", "\ud800"])
async def test_any_text_is_an_id(twin: Twin, odd: str) -> None:
    storage = TableCheckpointStorage(twin.store, scope=scope(), session_id=odd)
    saved = checkpoint(odd, checkpoint_id=odd)
    await storage.save(saved)
    assert (await storage.load(odd)).checkpoint_id == odd
    assert await storage.list_checkpoint_ids(workflow_name=odd) == [odd]
    assert await storage.delete(odd)


async def test_sessions_do_not_see_each_other_even_in_one_partition(twin: Twin) -> None:
    tenant, first = scope(), response_id()
    second = first[:-1] + ("0" if first[-1] != "0" else "1")  # another response of the same chain
    one, other = (TableCheckpointStorage(twin.store, scope=tenant, session_id=name) for name in (first, second))
    saved = checkpoint()
    await one.save(saved)
    assert await other.get_latest(workflow_name="flow") is None
    assert await other.list_checkpoint_ids(workflow_name="flow") == []
    assert not await other.delete(saved.checkpoint_id)
    with pytest.raises(WorkflowCheckpointException):
        await other.load(saved.checkpoint_id)


async def test_tenants_do_not_see_each_other(twin: Twin) -> None:
    one, other = (TableCheckpointStorage(twin.store, scope=scope(), session_id="same") for _ in range(2))
    saved = checkpoint()
    await one.save(saved)
    assert await other.get_latest(workflow_name="flow") is None
    with pytest.raises(WorkflowCheckpointException):
        await other.load(saved.checkpoint_id)


async def test_a_session_keeps_the_newest(twin: Twin) -> None:
    storage = TableCheckpointStorage(twin.store, scope=scope(), session_id="s", keep=3)
    ids = [await storage.save(checkpoint(at=n)) for n in range(6)]
    other = await storage.save(checkpoint("other"))
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ids[-3:]
    assert await storage.list_checkpoint_ids(workflow_name="other") == [other]
    with pytest.raises(WorkflowCheckpointException):
        await storage.load(ids[0])


async def test_a_session_that_has_too_many_loses_some_with_each_save(twin: Twin) -> None:
    tenant = scope()
    every = TableCheckpointStorage(twin.store, scope=tenant, session_id="s", keep=None)
    for n in range(30):
        await every.save(checkpoint(at=n))
    few = TableCheckpointStorage(twin.store, scope=tenant, session_id="s", keep=2)
    newest = [await few.save(checkpoint(at=30 + n)) for n in range(2)]
    assert await few.list_checkpoint_ids(workflow_name="flow") == newest


async def test_the_latest_is_the_one_that_was_saved_last_when_a_clock_was_wrong(twin: Twin) -> None:
    storage = TableCheckpointStorage(twin.store, scope=scope(), session_id="s")
    ahead = await storage.save(checkpoint(at=3600))
    behind = await storage.save(checkpoint(at=1, previous_checkpoint_id=ahead))
    latest = await storage.get_latest(workflow_name="flow")
    assert latest is not None
    assert latest.checkpoint_id == behind


async def test_the_latest_costs_the_same_whatever_is_behind_it(twin: Twin) -> None:
    storage = TableCheckpointStorage(twin.store, scope=scope(), session_id="s")
    costs: list[int] = []
    for n in range(12):
        await storage.save(checkpoint(at=n, state={"big": "x" * 200_000}))
        before = twin.store.meter.operations
        await storage.get_latest(workflow_name="flow")
        costs.append(twin.store.meter.operations - before)
    assert costs == [costs[0]] * 12
    assert costs[0] <= 3  # the index row, the row, its blob


async def test_a_large_state_goes_through(twin: Twin) -> None:
    storage = TableCheckpointStorage(twin.store, scope=scope(), session_id="s")
    big = "ä" * 3_000_000
    identifier = await storage.save(checkpoint(state={"big": big}))
    assert (await storage.load(identifier)).state["big"] == big


async def test_all_of_a_session_can_be_removed(twin: Twin) -> None:
    tenant = scope()
    storage = TableCheckpointStorage(twin.store, scope=tenant, session_id="s")
    other = TableCheckpointStorage(twin.store, scope=tenant, session_id="t")
    for name in ("flow", "other"):
        await storage.save(checkpoint(name))
    kept = await other.save(checkpoint())
    assert await storage.clear() == 4
    assert await storage.list_checkpoint_ids(workflow_name="flow") == []
    assert (await other.load(kept)).checkpoint_id == kept


async def test_the_rows_can_be_part_of_another_transaction(twin: Twin) -> None:
    tenant, session = scope(), response_id()
    storage = TableCheckpointStorage(twin.store, scope=tenant, session_id=session)
    saved = checkpoint()
    await twin.store.commit(keys.partition_key(tenant, keys.chain_of(session)), storage.rows(saved))
    latest = await storage.get_latest(workflow_name="flow")
    assert latest is not None
    assert latest.checkpoint_id == saved.checkpoint_id


async def test_a_type_that_could_not_be_loaded_is_refused_when_it_is_saved(twin: Twin) -> None:
    storage = TableCheckpointStorage(twin.store, scope=scope(), session_id="s", allowed_types=[Ticket])
    with pytest.raises(
        WorkflowCheckpointException, match=r"checkpoint\.state\.mine\[0\].*Stranger.*register_checkpoint_type"
    ):
        await storage.save(checkpoint(state={"mine": [Stranger(1)]}))
    assert await storage.list_checkpoint_ids(workflow_name="flow") == []


async def test_what_another_app_version_may_not_load_is_left_out_of_the_list_and_an_error_to_load(twin: Twin) -> None:
    tenant = scope()
    wide = TableCheckpointStorage(twin.store, scope=tenant, session_id="s", allowed_types=[Stranger])
    narrow = TableCheckpointStorage(twin.store, scope=tenant, session_id="s")
    strange = await wide.save(checkpoint(state={"mine": Stranger(1)}))
    plain = await wide.save(checkpoint(at=1))
    assert [found.checkpoint_id for found in await narrow.list_checkpoints(workflow_name="flow")] == [plain]
    with pytest.raises(WorkflowCheckpointException, match="Stranger"):
        await narrow.load(strange)


async def test_a_save_that_storage_refuses_is_raised() -> None:
    store = memory_store()
    storage = TableCheckpointStorage(store, scope=scope(), session_id="s")

    async def away(*_: Any, **__: Any) -> None:
        raise StorageUnavailable("away")

    store.commit = away  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(StorageUnavailable):
        await storage.save(checkpoint())


@pytest.mark.parametrize(
    "wrong", [{"scope": "acme"}, {"session_id": ""}, {"keep": 0}, {"allowed_types": ["Ticket"]}], ids=str
)
def test_what_makes_no_sense_is_refused_at_once(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"scope": scope(), "session_id": "s", **wrong}
    with pytest.raises((ValueError, TypeError)):
        TableCheckpointStorage(Store.__new__(Store), **given)
