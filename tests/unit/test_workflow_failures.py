"""Hosted workflows when something goes wrong: the conversation stands where it was, and can be answered again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from agent_framework import Executor, Workflow, WorkflowBuilder, WorkflowContext, handler

from hosting.responses import InvalidRequest, parse_create_request, stored_input_items
from hosting.server.workflow_run import WorkflowRun
from hosting.server.workflow_session import WorkflowSession, check_workflow_answers
from hosting.state import AgentState, Turns, WorkflowState
from hosting.storage import StorageUnavailable, keys
from tests.server_world import World, parsed, serve, texts, until
from tests.unit.workflow_desk import SECRET, Desk, answer, decide, desk, hosted, output, user

SCOPE = keys.scope("development", None)
"""Of the caller of a World."""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serve(hosted=hosted()) as running:
        yield running


async def refused(world: World, given: Any, previous: str) -> str:
    """Why a turn was not made: an error of the request, or a failed response."""
    response = await world.post(given, previous_response_id=previous)
    body = parsed(response, response.status)
    if response.status == 400:
        return body["error"]["message"]
    assert (response.status, body["status"], body["output"]) == (200, "failed", [])
    assert body["error"]["code"] == "invalid_prompt"
    return body["error"]["message"]


async def not_run(world: World, text: str) -> bool:
    """Whether a turn failed for a reason that is the developer's: an error of the request, or a failed response."""
    response = await world.post(text)
    return response.status == 500 or parsed(response)["status"] == "failed"


# Answers


async def test_an_answer_of_the_wrong_type_is_refused_in_words_and_can_be_given_again(world: World) -> None:
    paused = await world.create("ask")
    assert "valid boolean" in await refused(world, answer(paused, "perhaps"), paused["id"])
    done = await world.create(answer(paused, "true"), previous_response_id=paused["id"])
    assert texts(done) == ["ticket 1: yes"]


async def test_new_input_beside_a_wrong_answer_is_not_worked_on(world: World) -> None:
    paused = await world.create("ask")
    await refused(world, [*answer(paused, "perhaps"), user("count me")], paused["id"])
    done = await world.create([*answer(paused, "true"), user("once")], previous_response_id=paused["id"])
    assert texts(done) == ["ticket 1: yes", "2: once"]


async def test_a_decision_that_nobody_waits_for_is_refused(world: World) -> None:
    paused = await world.create("approve 1")
    assert "approval_request_id nope" in await refused(world, [decide("nope")], paused["id"])
    fresh = await world.create("hello")
    assert "approval_request_id 1-0" in await refused(world, [decide("1-0")], fresh["id"])


async def test_an_answer_that_was_given_before_is_refused(world: World) -> None:
    paused = await world.create("approve 1")
    done = await world.create([decide("1-0")], previous_response_id=paused["id"])
    assert "1-0" in await refused(world, [decide("1-0")], done["id"])


async def test_an_output_for_an_unknown_call_is_refused_as_the_api_does(world: World) -> None:
    fresh = await world.create("hello")
    given = [{"type": "function_call_output", "call_id": "nope", "output": "x"}]
    error = await world.create(given, previous_response_id=fresh["id"], status=400)
    assert error["error"]["message"] == "No tool call found for function call output with call_id nope."


async def test_in_the_background_a_wrong_answer_fails_the_response(world: World) -> None:
    paused = await world.create("ask")
    accepted = await world.create(answer(paused, "perhaps"), previous_response_id=paused["id"], background=True)
    failed = await world.ended(accepted["id"])
    assert (failed["status"], failed["error"]["code"]) == ("failed", "invalid_prompt")
    assert texts(await world.create(answer(paused, "true"), previous_response_id=paused["id"])) == ["ticket 1: yes"]


async def prepared(world: World, given: Any, previous: str) -> WorkflowRun:
    """What a server that can still refuse the request does first."""
    request = parse_create_request({"input": given, "previous_response_id": previous})
    turns = Turns(world.store, SCOPE)
    turn = await turns.begin(previous, history=False)
    check_workflow_answers(turn.session, request)
    run = WorkflowRun(desk(), request, stored_input_items(request, turn.response_id), turns, turn)
    await run.prepare()
    return run


@pytest.mark.parametrize("wrong", ["perhaps", "5", "{}"])
async def test_a_server_can_refuse_a_wrong_answer_before_there_is_a_response(world: World, wrong: str) -> None:
    paused = await world.create("ask")
    with pytest.raises(InvalidRequest, match="Invalid output for the function call"):
        await prepared(world, answer(paused, wrong), paused["id"])
    await prepared(world, answer(paused, "true"), paused["id"])


async def test_a_server_can_refuse_an_unknown_decision_without_reading_the_checkpoint(world: World) -> None:
    paused = await world.create("approve 1")
    session = (await Turns(world.store, SCOPE).begin(paused["id"], history=False)).session
    check_workflow_answers(session, parse_create_request({"input": [decide("1-0")]}))
    with pytest.raises(InvalidRequest, match="nope"):
        check_workflow_answers(session, parse_create_request({"input": [decide("nope")]}))


@pytest.mark.parametrize("session", [None, {}, {"type": "session", "session_id": "s", "state": {}}, [], "x"], ids=repr)
def test_other_sessions_are_no_business_of_that_check(session: Any) -> None:
    check_workflow_answers(session, parse_create_request({"input": [decide("nope")]}))
    assert WorkflowSession.read(session) is None


# The workflow


async def test_a_workflow_that_raises_fails_its_response_and_says_nothing_of_why(world: World) -> None:
    first = await world.create("hello")
    failed = await world.create("fail", previous_response_id=first["id"])
    assert failed["status"] == "failed"
    assert SECRET not in str(failed)
    assert texts(await world.create("next", previous_response_id=first["id"])) == ["2: next"]


async def test_a_workflow_that_raises_at_an_answer_can_be_answered_again(world: World) -> None:
    paused = await world.create("name")
    failed = await world.create(answer(paused, "fail"), previous_response_id=paused["id"])
    assert failed["status"] == "failed"
    assert SECRET not in str(failed)
    assert texts(await world.create(answer(paused, "Ada"), previous_response_id=paused["id"])) == ["hello Ada"]


async def test_a_stream_of_a_workflow_that_raises_ends_with_response_failed(world: World) -> None:
    reader = await world.stream("fail")
    events = await reader.ends()
    assert reader.types[-1] == "failed"
    assert SECRET not in str(events)


@dataclass
class Unregistered:
    number: int = 1


async def test_a_state_that_could_not_be_restored_fails_the_turn_and_the_log_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve(hosted=hosted(Unregistered)) as world:
        failed = await world.create("hello")
        assert failed["status"] == "failed"
        assert "Unregistered, which is not allowed in a checkpoint" in caplog.text
        assert "register_checkpoint_type" in caplog.text


async def test_a_state_that_can_t_be_captured_fails_the_turn_instead_of_being_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = 0

    def state() -> int:
        nonlocal calls
        calls += 1
        if calls > 1:  # the first one is made before anything runs
            raise ValueError("no state today")
        return calls

    async with serve(hosted=hosted(state)) as world:
        assert (await world.create("hello"))["status"] == "failed"
        assert "WorkflowCheckpointException" in caplog.text


class Other(Executor):
    @handler
    async def read(self, number: int, ctx: WorkflowContext[int, str]) -> None: ...


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: WorkflowBuilder(start_executor=Other(id="other"), name="x").build(),
            "does not take list[Message]",
        ),
        (object, "object can't be hosted"),
    ],
    ids=["no list[Message]", "no workflow"],
)
async def test_what_can_t_be_hosted_fails_with_the_reason_in_the_log(
    make: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(hosted=WorkflowState(make, cache_target=False)) as world:
        assert await not_run(world, "hello")
        assert reason in caplog.text


@pytest.mark.parametrize("way", ["an instance", "a cached factory", "a builder"])
async def test_a_workflow_whose_executors_have_run_is_not_run_for_somebody_else(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    states = {
        "an instance": lambda: WorkflowState(desk()),
        "a cached factory": lambda: WorkflowState(desk),
        "a builder": lambda: WorkflowState(WorkflowBuilder(start_executor=Desk(), name="desk"), cache_target=False),
    }
    state: WorkflowState[Workflow] = states[way]()
    async with serve(hosted=state) as world:
        assert texts(await world.create("hello")) == ["1: hello"]
        assert await not_run(world, "what did the other one say?")
        assert "cache_target=False" in caplog.text


# Versions and what is missing


class Another(Desk):
    """The same in a changed graph."""


def changed() -> Workflow:
    return WorkflowBuilder(start_executor=Another(), name="desk").build()


async def test_an_answer_to_a_workflow_that_was_changed_is_refused_in_words() -> None:
    current: list[Any] = [desk]
    async with serve(hosted=WorkflowState(lambda: current[0](), cache_target=False)) as world:
        paused = await world.create("ask")
        current[0] = changed
        assert "was changed while it waited" in await refused(world, answer(paused, "true"), paused["id"])
        current[0] = desk  # the old version is deployed again
        assert texts(await world.create(answer(paused, "true"), previous_response_id=paused["id"])) == ["ticket 1: yes"]


async def test_a_conversation_with_a_workflow_that_was_changed_goes_on_from_what_was_said() -> None:
    current: list[Any] = [desk]
    async with serve(hosted=WorkflowState(lambda: current[0](), cache_target=False)) as world:
        first = await world.create("hello")
        current[0] = changed
        second = await world.create("again", previous_response_id=first["id"])
        assert texts(second) == ["1: hello | 1: hello | again"]


async def remove_checkpoints(world: World, response: dict[str, Any]) -> None:
    partition = keys.partition_key(SCOPE, keys.chain_of(response["id"]))
    assert await world.store.delete_range(partition, "checkpoint.", "checkpoint/")


async def test_a_checkpoint_that_is_gone_is_said_to_be_gone(world: World) -> None:
    paused = await world.create("ask")
    await remove_checkpoints(world, paused)
    assert "can't be restored" in await refused(world, answer(paused, "true"), paused["id"])


async def test_an_unstored_response_that_pauses_fails_because_it_can_t_be_answered(world: World) -> None:
    assert texts(await world.create("hello", store=False)) == ["1: hello"]
    failed = await world.create("ask", store=False)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "invalid_prompt")
    assert "store=true" in failed["error"]["message"]


# Crashes


async def checkpoints_of(world: World, response: str) -> int:
    partition = keys.partition_key(SCOPE, keys.chain_of(response))
    return len(await world.store.query(partition, "checkpoint.", "checkpoint/", documents=()))


async def test_a_turn_that_can_t_be_stored_leaves_nothing_and_can_be_answered_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = await world.create("ask")
    before = await checkpoints_of(world, paused["id"])
    assert before == 2  # a row and its index
    store = world.engine.engine.store
    commit = store.commit

    async def away(*_: Any, **__: Any) -> Any:
        raise StorageUnavailable("away")

    monkeypatch.setattr(store, "commit", away)
    failed = await world.create(answer(paused, "true"), previous_response_id=paused["id"])
    assert (failed["status"], failed["error"]["message"]) == ("failed", "The response could not be stored.")
    monkeypatch.setattr(store, "commit", commit)
    assert await checkpoints_of(world, paused["id"]) == before
    assert texts(await world.create(answer(paused, "false"), previous_response_id=paused["id"])) == ["ticket 1: no"]


async def test_a_killed_background_turn_is_run_again_from_the_turn_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Desk, "gate", asyncio.Event())
    async with serve(hosted=hosted(), resilient_background=True) as world:
        first = await world.create("hello")
        accepted = await world.create("wait", previous_response_id=first["id"], background=True, stream=False)

        async def running() -> bool:
            return (await world.get(accepted["id"]))["status"] == "in_progress"

        await until(running)
        await world.kill()
        assert Desk.gate is not None
        Desk.gate.set()
        await world.restart()
        done = await world.ended(accepted["id"])
        assert (done["status"], texts(done)) == ("completed", ["2: wait"])
        assert texts(await world.create("next", previous_response_id=done["id"])) == ["3: next"]


async def test_a_client_that_hangs_up_leaves_the_pause_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Desk, "gate", asyncio.Event())
    async with serve(hosted=hosted()) as world:
        paused = await world.create("ask")
        given = [*answer(paused, "true"), user("wait")]
        reader = await world.stream(given, previous_response_id=paused["id"])
        await reader.until("output_text.done")
        await reader.hang_up()
        assert texts(await world.create(answer(paused, "false"), previous_response_id=paused["id"])) == ["ticket 1: no"]


async def test_a_newer_message_stops_a_workflow_and_the_next_turn_is_told_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Desk, "gate", asyncio.Event())
    async with serve(hosted=hosted(), steerable_conversations=True) as world:
        first = await world.create("hello")
        reader = await world.stream("wait", previous_response_id=first["id"], background=True)
        await reader.until("output_text.done")
        stopped = reader.events[0]["response"]["id"]
        accepted = await world.create("newer", previous_response_id=stopped, background=True)
        done = await world.ended(accepted["id"])
        assert (await world.get(stopped))["incomplete_details"] == {"reason": "steered"}
        assert texts(done) == ["2: wait | 2: wait | newer"]  # what was asked, what was said, what is new
        assert texts(await world.create("next", previous_response_id=done["id"])) == ["3: next"]


# Beside an agent


async def test_a_workflow_that_takes_over_from_an_agent_is_told_what_was_said() -> None:
    from agent_framework import Agent

    from demo_agent import create_demo_chat_client
    from hosting.state import TableHistoryProvider

    agent = Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()])
    async with serve(hosted={"agent": AgentState(agent), "desk": hosted()}) as world:
        first = await world.create("hi", model="agent")
        second = await world.create("now you", model="desk", previous_response_id=first["id"])
        assert texts(second) == ["1: hi | Echo: hi | now you"]
        assert output(second, "function_call") == []


async def test_an_answer_whose_turn_was_stopped_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Desk, "gate", asyncio.Event())
    async with serve(hosted=hosted(), steerable_conversations=True) as world:
        paused = await world.create("ask")
        given = [*answer(paused, "true"), user("wait")]
        reader = await world.stream(given, previous_response_id=paused["id"], background=True)
        await reader.until("output_text.done", 2)
        stopped = reader.events[0]["response"]["id"]
        accepted = await world.create("newer", previous_response_id=stopped, background=True)
        asked = await world.ended(accepted["id"])
        assert texts(asked) == ["2: wait | ticket 1: yes | 2: wait | newer"]
        done = await world.create(answer(asked, "false"), previous_response_id=asked["id"])
        assert texts(done) == ["ticket 1: no"]
