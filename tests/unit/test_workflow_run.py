"""A workflow hosted over the Responses API: turns, pauses, answers, branches. The server is real, its storage in memory."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hosting.server import Request
from hosting.state import WorkflowState
from tests.server_world import World, parsed, serve, texts
from tests.unit.workflow_desk import answer, decide, desk, hosted, output, user


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serve(hosted=hosted()) as running:
        yield running


async def another_process(world: World) -> None:
    await world.kill()
    await world.restart(1)


async def test_a_workflow_answers_a_message(world: World) -> None:
    response = await world.create("hello")
    assert (response["status"], texts(response)) == ("completed", ["1: hello"])


async def test_the_next_turn_goes_on_from_its_state_with_the_new_message_only(world: World) -> None:
    first = await world.create("hello")
    await another_process(world)
    second = await world.create("again", previous_response_id=first["id"])
    assert texts(second) == ["2: again"]


async def test_another_conversation_has_a_state_of_its_own(world: World) -> None:
    await world.create("hello")
    assert texts(await world.create("hi")) == ["1: hi"]


async def test_a_branch_of_an_older_response_goes_on_from_its_checkpoint(world: World) -> None:
    first = await world.create("a")
    second = await world.create("b", previous_response_id=first["id"])
    await world.create("c", previous_response_id=second["id"])
    assert texts(await world.create("branch", previous_response_id=first["id"])) == ["2: branch"]
    assert texts(await world.create("other", previous_response_id=second["id"])) == ["3: other"]


@pytest.mark.parametrize(("text", "said"), [("true", "yes"), ("false", "no")])
async def test_a_question_is_answered_in_another_process(world: World, text: str, said: str) -> None:
    paused = await world.create("ask")
    assert paused["status"] == "completed"
    assert output(paused, "function_call")[0]["arguments"] == '{"number": 1}'
    await another_process(world)
    done = await world.create(answer(paused, text), previous_response_id=paused["id"])
    assert (done["status"], texts(done)) == ("completed", [f"ticket 1: {said}"])


async def test_an_approval_is_answered_in_another_process(world: World) -> None:
    paused = await world.create("approve 1")
    assert [item["id"] for item in output(paused, "mcp_approval_request")] == ["1-0"]
    await another_process(world)
    done = await world.create([decide("1-0", False)], previous_response_id=paused["id"])
    assert texts(done) == ["1-0: declined"]


async def test_a_pause_can_be_answered_in_two_ways_in_two_branches(world: World) -> None:
    paused = await world.create("approve 1")
    yes = await world.create([decide("1-0")], previous_response_id=paused["id"])
    later = await world.create("more", previous_response_id=yes["id"])
    no = await world.create([decide("1-0", False)], previous_response_id=paused["id"])
    assert (texts(yes), texts(later), texts(no)) == (["1-0: approved"], ["2: more"], ["1-0: declined"])


async def test_new_input_beside_an_answer_is_not_lost_and_comes_after_it(world: World) -> None:
    paused = await world.create("ask")
    given = [user("first part"), *answer(paused, "true"), user("and more")]
    done = await world.create(given, previous_response_id=paused["id"])
    assert texts(done) == ["ticket 1: yes", "2: first part | and more"]


async def test_new_input_beside_an_answer_can_pause_again(world: World) -> None:
    paused = await world.create("ask")
    again = await world.create([*answer(paused, "true"), user("name")], previous_response_id=paused["id"])
    assert texts(again) == ["ticket 1: yes", "2: name"]
    done = await world.create(answer(again, "Ada"), previous_response_id=again["id"])
    assert texts(done) == ["hello Ada"]


async def test_an_answer_that_leads_to_another_question_pauses_again(world: World) -> None:
    paused = await world.create("name")
    for name in ("Ada", "Bob"):
        done = await world.create(answer(paused, name), previous_response_id=paused["id"])
        assert texts(done) == [f"hello {name}"]
        paused = await world.create("name", previous_response_id=done["id"])


async def test_approvals_that_are_not_answered_are_asked_again(world: World) -> None:
    paused = await world.create("approve 3")
    some = await world.create([decide("1-1")], previous_response_id=paused["id"])
    assert texts(some) == ["1-1: approved"]
    assert [item["id"] for item in output(some, "mcp_approval_request")] == ["1-0", "1-2"]
    await another_process(world)
    rest = await world.create([decide("1-2", False), decide("1-0")], previous_response_id=some["id"])
    assert sorted(texts(rest)) == ["1-0: approved", "1-2: declined"]
    assert output(rest, "mcp_approval_request") == []


async def test_a_message_instead_of_a_decision_is_worked_on_and_the_approval_stays(world: World) -> None:
    paused = await world.create("approve 1")
    other = await world.create("something else", previous_response_id=paused["id"])
    assert texts(other) == ["2: something else"]
    assert [item["id"] for item in output(other, "mcp_approval_request")] == ["1-0"]
    done = await world.create([decide("1-0")], previous_response_id=other["id"])
    assert texts(done) == ["1-0: approved"]


async def test_a_message_instead_of_an_answer_to_a_call_is_refused_as_the_api_does(world: World) -> None:
    paused = await world.create("ask")
    (call,) = output(paused, "function_call")
    refused = await world.create("something else", previous_response_id=paused["id"], status=400)
    assert refused["error"]["message"] == f"No tool output found for function call {call['call_id']}."
    assert texts(await world.create(answer(paused, "true"), previous_response_id=paused["id"])) == ["ticket 1: yes"]


@pytest.mark.parametrize("text", ["ask", "approve 2", "hello", "name"])
async def test_streaming_and_not_streaming_give_the_same_items(world: World, text: str) -> None:
    def bare(items: list[dict[str, Any]]) -> Any:
        return [{name: value for name, value in item.items() if name not in ("id", "call_id")} for item in items]

    whole = await world.create(text)
    reader = await world.stream(text)
    events = await reader.ends()
    final = events[-1]["response"]
    assert bare(final["output"]) == bare(whole["output"])
    assert [e["item"] for e in events if e["type"] == "response.output_item.done"] == final["output"]
    assert reader.types[:2] == ["created", "in_progress"]
    assert reader.types[-1] == "completed"


async def test_a_background_turn_pauses_and_is_answered_in_the_background(world: World) -> None:
    accepted = await world.create("ask", background=True)
    paused = await world.ended(accepted["id"])
    accepted = await world.create(answer(paused, "true"), previous_response_id=paused["id"], background=True)
    await world.ended(accepted["id"])
    assert texts(await world.get(accepted["id"])) == ["ticket 1: yes"]


async def test_what_is_stored_is_what_was_answered(world: World) -> None:
    paused = await world.create("ask")
    assert (await world.get(paused["id"]))["output"] == paused["output"]


async def test_a_turn_costs_the_same_whatever_its_position(world: World) -> None:
    previous, costs = None, []
    for _ in range(6):
        before = world.store.meter.operations
        previous = (await world.create("hello", previous_response_id=previous))["id"]
        costs.append(world.store.meter.operations - before)
    assert costs[2:] == [costs[1]] * 4


async def test_a_conversation_never_uses_up_the_iterations_of_a_workflow() -> None:
    async with serve(hosted=WorkflowState(lambda: desk(max_iterations=3), cache_target=False)) as world:
        response = await world.create("name")
        for _ in range(6):
            response = await world.create(answer(response, "again"), previous_response_id=response["id"])
            assert (response["status"], texts(response)) == ("completed", ["hello again"])


async def test_an_unnamed_workflow_goes_on_too() -> None:
    async with serve(hosted=WorkflowState(lambda: desk(name=None), cache_target=False)) as world:
        paused = await world.create("ask")
        done = await world.create(answer(paused, "true"), previous_response_id=paused["id"])
        assert texts(done) == ["ticket 1: yes"]


async def conversation(world: World) -> str:
    async def read(limit: int) -> bytes:
        return b"{}"

    made = await world.server.handle("v1/conversations", Request("POST", "/v1/conversations", {}, {}, read=read))
    return parsed(made)["id"]


async def test_a_conversation_pauses_and_is_answered_by_its_own_id(world: World) -> None:
    talk = await conversation(world)
    await world.create("hello", conversation=talk)
    paused = await world.create("ask", conversation=talk)
    await another_process(world)
    done = await world.create(answer(paused, "true"), conversation=talk)
    assert texts(done) == ["ticket 2: yes"]
    assert texts(await world.create("next", conversation=talk)) == ["3: next"]


async def test_a_conversation_is_answered_in_the_background(world: World) -> None:
    talk = await conversation(world)
    await world.create("approve 1", conversation=talk)
    accepted = await world.create([decide("1-0")], conversation=talk, background=True)
    assert texts(await world.ended(accepted["id"])) == ["1-0: approved"]
