"""The defects 21 to 36 of the published package (reference/agentserver.md, section 10): each has a test that ours lacks it.

The table says which; those that were missing are below it. (1 to 20 are those of tasks: the numbers are in
tests/unit/test_tasks_*.py.)
"""

import asyncio
import importlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.keys import mint_key
from hosting.responses import Event
from hosting.responses.builders import ResponseEventStream, TextResponse
from tests.server_world import World, parsed, serve, texts, until

_STREAMS = "tests.contract.test_streaming_conformance"
_HERE = "tests.unit.test_published_defects"

PINNED = {
    "21 get_or_create gives streams that have expired": (_STREAMS, "test_get_or_create_gives_no_expired_stream"),
    "21 get never loads a stored stream": (_STREAMS, "test_a_stream_is_there_after_a_restart"),
    "22 an error of cursor_fn comes after the event is stored": (_STREAMS, "test_an_error_in_cursor_fn_stores_nothing"),
    "23 queues have no bound": (
        "tests.contract.test_streaming_segments",
        "test_memory_stays_bounded_behind_a_slow_subscriber",
    ),
    "23 slots are never given back": (
        "tests.unit.test_streaming_parts",
        "test_a_registry_forgets_streams_that_expired_or_nobody_has",
    ),
    "23 payloads are shared": (_STREAMS, "test_payloads_are_not_shared"),
    "24 without a terminal event, or with a foreign id, a background run is in progress for ever": (
        "tests.unit.test_response_handlers_failures",
        "test_in_the_background_it_fails",
    ),
    "25 a graceful stop closes the stream": (
        "tests.unit.test_response_handlers_stop",
        "test_the_stream_stays_open_for_the_recovered_run",
    ),
    "26 a 409 of a streaming create aborts the connection": (
        _HERE,
        "test_a_locked_conversation_is_a_409_with_stream_too",
    ),
    "26 so does a fork": (
        "tests.unit.test_response_handlers_steering",
        "test_a_fork_of_a_running_chain_is_a_409_before_any_event",
    ),
    "27 a full queue is a 500": (
        "tests.unit.test_response_handlers_steering",
        "test_when_nine_turns_wait_the_tenth_is_a_429",
    ),
    "28 the steering option does nothing without another one": (
        "tests.unit.test_response_handlers_steering",
        "test_a_newer_turn_sets_the_signal_and_the_handler_says_how_its_turn_ends",
    ),
    "29 what comes after the terminal event counts in some modes": (
        "tests.unit.test_response_handlers_failures",
        "test_what_completes_completes_in_every_mode",
    ),
    "30 after a crash before `created` a replay hangs": (
        "tests.unit.test_response_handlers_recovery",
        "test_a_response_whose_process_was_killed_is_run_again_and_is_whole",
    ),
    "30 or before the handler began": (_HERE, "test_a_follower_of_a_response_that_no_process_has_begun_gets_all_of_it"),
    "31 a final response is anybody's": (_HERE, "test_a_final_response_is_its_tenants_alone"),
    "31 a crash behind the end runs the handler again": (
        "tests.unit.test_response_handlers_recovery",
        "test_a_crash_after_the_end_was_stored_does_not_enter_the_handler_again",
    ),
    "32 POST in the background waits for the first event": (
        "tests.unit.test_response_handlers_matrix",
        "test_stored_background_json_answers_at_once_and_is_there_during_the_run",
    ),
    "33 an id that comes twice runs again and overwrites": (_HERE, "test_a_client_can_not_choose_the_id_of_a_response"),
    "33 and so does a request that is sent again": (
        "tests.unit.test_response_handlers_faults",
        "test_a_background_request_that_comes_twice_runs_once",
    ),
    "34 keep-alives come twice, and beside events": (_HERE, "test_keep_alives_come_in_silence_only_and_once"),
    "34 input_items ends at 100": (_HERE, "test_all_input_items_can_be_reached"),
    "34 an id of another kind is accepted": (_HERE, "test_an_id_of_another_kind_is_a_400"),
    "34 Last-Event-ID is ignored": (_HERE, "test_last_event_id_is_where_a_follower_goes_on"),
    "34 a cancelled response can not be replayed": (
        "tests.unit.test_response_handlers_cancel",
        "test_followers_of_a_cancelled_response_end_with_it_and_replay_says_the_same",
    ),
    "35 cancel returns while the handler can still change the response": (
        "tests.unit.test_response_handlers_cancel",
        "test_what_a_cancelled_handler_still_says_does_not_count",
    ),
    "36 a waiting response is shown as running": (
        "tests.unit.test_response_handlers_steering",
        "test_a_turn_that_waits_is_queued_for_everybody",
    ),
    "36 and is gone when it is cancelled": (
        "tests.unit.test_response_handlers_steering",
        "test_a_cancelled_turn_that_waited_is_cancelled_for_everybody_and_skipped",
    ),
}


def test_every_defect_has_its_test() -> None:
    missing = [
        defect for defect, (module, name) in PINNED.items() if not hasattr(importlib.import_module(module), name)
    ]
    assert missing == []
    assert {int(defect.split()[0]) for defect in PINNED} == set(range(21, 37))


async def text(request: Any, context: Any, signal: Any) -> TextResponse:
    return TextResponse(context, request, text="Hello")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_locked_conversation_is_a_409_with_stream_too(stream: bool) -> None:  # 26
    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        yield ResponseEventStream(response_id=context.response_id).emit_created()
        await signal.wait()

    async with serve(handler) as world:
        identifier = await world.conversation()
        await world.create("long", background=True, conversation=identifier)
        refused = await world.create("two", background=True, stream=stream, conversation=identifier, status=409)
        assert refused["error"]["code"] == "conversation_locked"


async def test_a_follower_of_a_response_that_no_process_has_begun_gets_all_of_it() -> None:  # 30
    async with serve(text) as world:
        world.boot(drives=False)
        made = await world.stream("hi", background=True)
        identifier = (await made.until("queued"))["response"]["id"]
        await world.kill()
        await made.hang_up()
        world.boot()
        reader = await world.follow(identifier)
        await reader.until("queued")
        await world.advance(120)
        await world.engine.recover()
        events = await reader.ends()
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert texts(events[-1]["response"]) == ["Hello"]


async def test_a_final_response_is_its_tenants_alone() -> None:  # 31
    (mine, first), (other, second) = mint_key("contoso"), mint_key("fabrikam")
    async with serve(text, env={"HOSTING_API_KEYS": f"{first.entry},{second.entry}"}) as world:
        world.headers = {"authorization": f"Bearer {mine}"}
        events = await (await world.stream("hi", background=True)).ends()
        identifier = events[0]["response"]["id"]
        world.headers = {"authorization": f"Bearer {other}"}
        await _is_nowhere(world, identifier)
        world.headers = {"authorization": f"Bearer {mine}"}
        await world.kill()
        world.boot()
        assert texts(await world.get(identifier)) == ["Hello"]
        world.headers = {"authorization": f"Bearer {other}"}
        await _is_nowhere(world, identifier)


async def _is_nowhere(world: World, identifier: str) -> None:
    await world.get(identifier, status=404)
    await world.cancel(identifier, status=404)
    await world.delete(identifier, status=404)
    await world.input_items(identifier, status=404)
    parsed(await world.followed(identifier), 404)
    await world.create("hi", previous_response_id=identifier, status=400)


async def test_a_client_can_not_choose_the_id_of_a_response() -> None:  # 33
    async with serve(text) as world:
        first = await world.create("hi")
        second = await world.create("other", response_id=first["id"], headers={"x-agent-response-id": first["id"]})
        assert second["id"] != first["id"]
        assert await world.get(first["id"]) == first


async def test_keep_alives_come_in_silence_only_and_once(monkeypatch: pytest.MonkeyPatch) -> None:  # 34
    from hosting.server import follow

    monkeypatch.setattr(follow, "_LOOK", 0.01)
    silent, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    interval = 1.0  # much more than this process is ever kept from running while the handler talks
    spoke: list[float] = []

    async def handler(request: Any, context: Any, signal: Any) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=context.response_id)
        yield stream.emit_created()
        message = stream.add_output_item_message()
        yield message.emit_added()
        text = message.add_text_content()
        yield text.emit_added()
        began = loop.time()
        while loop.time() - began < 1.2 * interval:
            spoke[:] = [loop.time()]
            yield text.emit_delta("x")
            await asyncio.sleep(0.01)
        silent.set()
        await go.wait()
        yield stream.emit_completed()

    async with serve(handler, sse_keep_alive_interval_seconds=interval) as world:
        reader = await world.stream("hi", background=True)
        await silent.wait()
        assert reader.comments == 0
        await until(lambda: reader.comments >= 1)
        await asyncio.sleep(0.3)
        assert reader.comments <= (loop.time() - spoke[0]) / interval
        go.set()
        await reader.ends()


async def test_all_input_items_can_be_reached() -> None:  # 34
    async with serve(text) as world:
        given = [{"type": "message", "role": "user", "content": f"item {number}"} for number in range(130)]
        made = await world.create(given)
        found: list[str] = []
        after: dict[str, str] = {}
        for _ in range(10):
            page = await world.input_items(made["id"], limit="50", order="asc", **after)
            found += [item["content"][0]["text"] for item in page["data"]]
            if not page["has_more"]:
                break
            after = {"after": page["last_id"]}
        assert found == [f"item {number}" for number in range(130)]


async def test_an_id_of_another_kind_is_a_400() -> None:  # 34
    async with serve(text) as world:
        made = await world.create("hi")
        refused = await world.get(made["output"][0]["id"], status=400)
        assert refused["error"]["type"] == "invalid_request_error"
        await world.create("hi", previous_response_id=made["output"][0]["id"], status=400)


async def test_last_event_id_is_where_a_follower_goes_on() -> None:  # 34
    async with serve(text) as world:
        reader = await world.stream("hi", background=True)
        events = await reader.ends()
        assert reader.ids == [str(number) for number in reader.numbers]
        again = await world.follow(events[0]["response"]["id"], headers={"last-event-id": "3"})
        assert await again.ends() == events[4:]
