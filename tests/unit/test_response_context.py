"""ResponseContext: what a handler can ask about its turn."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import pytest

from hosting.responses import Item, normalize_input
from hosting.server.chain_metadata import ChainMetadata
from hosting.server.context import ExitForRecovery, ModeFlags, PlatformContext, ResponseContext
from hosting.storage import StorageUnavailable
from hosting.tasks import TaskMetadata
from hosting.tasks._metadata import MetadataSpaces

STORED: Item = {"id": "msg_1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "stored"}]}


class Sources:
    """A store with one item, and a history."""

    def __init__(self, *history: Item) -> None:
        self.calls: list[Any] = []
        self.items = list(history)
        self.broken = False

    async def find_items(self, ids: Sequence[str]) -> Mapping[str, Item]:
        self.calls.append(list(ids))
        return {identifier: STORED for identifier in ids if identifier == "msg_1"}

    async def history(self, limit: int | None) -> Sequence[Item]:
        self.calls.append(limit)
        if self.broken:
            raise StorageUnavailable("away")
        return self.items


def make(value: Any = "hi", **given: Any) -> ResponseContext:
    return ResponseContext(response_id="resp_1", input_items=normalize_input(value), **given)


def test_a_context_needs_nothing_but_an_id() -> None:
    context = ResponseContext(response_id="resp_1")
    assert context.mode_flags == ModeFlags(stream=False, store=True, background=False)
    assert context.platform_context == PlatformContext(user_id_key=None, call_id=None)
    assert (context.conversation_id, context.persisted_response) == (None, None)
    assert (context.is_recovery, context.is_steered_turn, context.client_cancelled) == (False, False, False)
    assert context.created_at.tzinfo is UTC
    assert not context.shutdown.is_set()
    assert (context.request, context.client_headers, context.query_parameters) == ({}, {}, {})
    assert context.pending_input_count == 0


def test_the_text_of_a_request_does_not_show_in_logs() -> None:
    assert "secret" not in repr(ResponseContext(response_id="resp_1", request={"input": "secret"}))


def test_the_number_of_waiting_turns_is_live() -> None:
    waiting = [1]
    context = make(pending=lambda: waiting[0])
    waiting[0] = 3
    assert context.pending_input_count == 3


async def test_a_string_is_one_user_message() -> None:
    items = await make("hi").get_input_items()
    assert [(item["type"], item["role"]) for item in items] == [("message", "user")]


async def test_references_become_the_stored_items_and_dead_ones_are_dropped() -> None:
    sources = Sources()
    context = make(
        [
            {"type": "item_reference", "id": "msg_1"},
            {"type": "item_reference", "id": "msg_gone"},
            {"role": "user", "content": "new"},
        ],
        sources=sources,
    )
    items = await context.get_input_items()
    assert items[0] == STORED
    assert len(items) == 2
    assert sources.calls == [["msg_1", "msg_gone"]]
    assert await context.get_input_text() == "stored\nnew"


async def test_references_stay_when_they_are_not_to_be_resolved() -> None:
    sources = Sources()
    context = make([{"type": "item_reference", "id": "msg_1"}], sources=sources)
    assert [item["type"] for item in await context.get_input_items(resolve_references=False)] == ["item_reference"]
    assert await context.get_input_text(resolve_references=False) == ""
    assert sources.calls == []


async def test_an_input_without_references_looks_nothing_up() -> None:
    sources = Sources()
    await make("hi", sources=sources).get_input_items()
    assert sources.calls == []


async def test_the_input_text_is_all_input_texts_by_lines() -> None:
    context = make(
        [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
            {"role": "assistant", "content": "said before"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "42"},
            {"role": "user", "content": "c"},
        ]
    )
    assert await context.get_input_text() == "a\nb\nc"


async def test_changing_the_lists_changes_nothing_for_the_next_call() -> None:
    context = make("hi", sources=Sources(STORED))
    (await context.get_input_items()).clear()
    (await context.get_history()).clear()
    assert len(await context.get_input_items()) == 1
    assert await context.get_history() == [STORED]


async def test_history_is_read_once_within_its_limit() -> None:
    sources = Sources(STORED)
    context = make(sources=sources, history_limit=7)
    assert await context.get_history() == [STORED]
    assert await context.get_history() == [STORED]
    assert sources.calls == [7]


async def test_a_history_that_could_not_be_read_is_read_again() -> None:
    sources = Sources(STORED)
    sources.broken = True
    context = make(sources=sources)
    with pytest.raises(StorageUnavailable):
        await context.get_history()
    sources.broken = False
    assert await context.get_history() == [STORED]


async def test_without_sources_there_is_no_history() -> None:
    assert await make().get_history() == []


# exit_for_recovery


async def test_leaving_for_recovery_passes_a_handlers_except_exception() -> None:
    context = make(recoverable=True)
    context.shutdown.set()
    with pytest.raises(ExitForRecovery):
        try:
            await context.exit_for_recovery()
        except Exception:
            pytest.fail("a handler would have taken it for a failure")


@pytest.mark.parametrize(("recoverable", "stopping"), [(True, False), (False, True)])
async def test_leaving_for_recovery_needs_a_stopping_process_and_a_resilient_response(
    recoverable: bool, stopping: bool
) -> None:
    context = make(recoverable=recoverable)
    if stopping:
        context.shutdown.set()
    with pytest.raises(RuntimeError, match="exit_for_recovery"):
        await context.exit_for_recovery()


# conversation_chain_metadata


def of_a_task(flushed: list[str]) -> TaskMetadata:
    async def flush(space: TaskMetadata) -> None:
        flushed.append(space.name)

    return MetadataSpaces({"": {"cursor": 1, "_own": True}}, flush).get("")


async def test_metadata_of_a_chain_is_that_of_its_task() -> None:
    flushed: list[str] = []
    task = of_a_task(flushed)
    metadata = ChainMetadata(task)
    metadata["seen"] = 2
    metadata("billing")["cents"] = 12
    await metadata.flush()
    await metadata("billing").flush()
    assert task["seen"] == 2
    assert task("billing")["cents"] == 12
    assert flushed == ["", "billing"]


def test_the_servers_own_keys_do_not_show() -> None:
    metadata = ChainMetadata(of_a_task([]))
    assert dict(metadata) == {"cursor": 1}
    assert len(metadata) == 1


@pytest.mark.parametrize("act", [lambda m: m.__setitem__("_x", 1), lambda m: m("_x"), lambda m: m.pop("_own")])
def test_names_with_an_underscore_are_the_servers(act) -> None:
    with pytest.raises(ValueError, match="underscore"):
        act(ChainMetadata(of_a_task([])))


@pytest.mark.parametrize("act", [lambda m: m.__setitem__(1, 1), lambda m: m(1), lambda m: m(None)])
def test_names_are_strings(act) -> None:
    with pytest.raises(TypeError):
        act(ChainMetadata())


async def test_metadata_without_a_task_lives_in_memory() -> None:
    metadata = make().conversation_chain_metadata
    metadata("billing")["cents"] = 12
    metadata["a"] = 1
    await metadata.flush()
    assert metadata("billing")["cents"] == 12
    assert metadata()["a"] == 1
    del metadata["a"]
    assert dict(metadata) == {}
    assert "billing" not in metadata
