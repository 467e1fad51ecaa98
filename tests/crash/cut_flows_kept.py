"""What is kept: deleting it, items, forks, compaction; and turns of agents, workflows and invocations."""

from contextlib import suppress
from typing import Any

from agent_framework import Agent

from demo_agent import create_demo_chat_client
from hosting.responses import ApiError
from hosting.state import AgentState, TableHistoryProvider
from hosting.streaming import EventStreamError, streams
from hosting.tasks import RetryPolicy, TaskCancelled, TaskContext, task
from tests.crash.cut_audit import heard, items_of, texts_of
from tests.crash.cut_client import Client, GaveUp
from tests.crash.cut_flow import BIG, STEERED, Flow, a_conversation, said
from tests.crash.cut_flows_turns import a_long_streamed_one
from tests.server_world import Json, texts
from tests.unit.workflow_desk import answer, decide, hosted

__all__ = ["FLOWS"]


# --- deleting


async def some_turns(client: Client) -> None:
    first = await client.listen("one", background=True)
    second = await client.create(f"two {BIG}", previous_response_id=first["id"])
    third = await client.create("three", previous_response_id=second["id"])
    client.ids |= {"first": first["id"], "second": second["id"], "third": third["id"]}


async def delete(client: Client) -> None:
    await client.delete(client.ids["first"])
    await client.delete(client.ids["second"])
    known = await heard(client, client.ids["third"])
    assert known == ["three", "re: three", "more"]


async def delete_cancelled(client: Client) -> None:
    await client.cancel(client.ids["long"])
    await client.delete(client.ids["long"])


async def a_conversation_with_turns(client: Client) -> None:
    await a_conversation(client)
    conversation = client.ids["conversation"]
    first = await client.create("one", conversation=conversation)
    second = await client.create("two", background=True, conversation=conversation)
    await client.ended(second["id"])
    await client.call("POST", "v1/conversations/{conversation_id}/items", {"items": MANY}, conversation_id=conversation)
    client.ids |= {"first": first["id"], "second": second["id"]}


MANY = [{"type": "message", "id": f"mine_{n}", "role": "user", "content": f"many {n}"} for n in range(15)]
"""With ids of the client's own, which have rows of their own."""


async def delete_conversation(client: Client) -> None:
    """What is there of it when a deletion had no answer is all of it, or nothing."""
    one, conversation = "v1/conversations/{conversation_id}", client.ids["conversation"]
    before = await said(client)
    with suppress(GaveUp):
        await client.call("DELETE", one, again=False, conversation_id=conversation)
    status, _ = await client.call("GET", one, conversation_id=conversation)
    if status == 200:
        assert await said(client) == before
        await client.call("DELETE", one, conversation_id=conversation)
    await client.call("DELETE", one, conversation_id=conversation)
    status, _ = await client.call("GET", one, conversation_id=conversation)
    assert status == 404
    for name in ("first", "second"):
        assert (await client.get(client.ids[name]))["status"] == "completed"


async def delete_conversation_of_running(client: Client) -> None:
    conversation = client.ids["conversation"]
    made = await client.create("one", key="k1", background=True, conversation=conversation)
    await client.call("DELETE", "v1/conversations/{conversation_id}", conversation_id=conversation)
    await client.ended(made["id"])
    status, _ = await client.call("GET", "v1/conversations/{conversation_id}", conversation_id=conversation)
    assert status == 404


async def delete_in_conversation(client: Client) -> None:
    await client.delete(client.ids["first"])
    await client.delete(client.ids["second"])
    assert (await said(client))[:7] == ["by hand", "one", "re: one", "more", "two", "re: two", "more"]


# --- items


async def items(client: Client) -> None:
    conversation = await client.conversation("first")
    one = "v1/conversations/{conversation_id}"
    added = [{"type": "message", "id": "mine_1", "role": "user", "content": f"second {BIG}"}]
    status, _ = await client.call("POST", f"{one}/items", {"items": added}, conversation_id=conversation)
    assert status in (200, 400)  # 400: it is there already
    assert texts_of(await items_of(client, conversation)) == ["first", f"second {BIG}"]
    status, _ = await client.call("POST", one, {"metadata": {"a": "b"}}, conversation_id=conversation)
    assert status == 200
    turn = await client.create("third", key="k", conversation=conversation)
    for item in ("mine_1", turn["output"][1]["id"]):
        path = f"{one}/items/{{item_id}}"
        status, _ = await client.call("DELETE", path, conversation_id=conversation, item_id=item)
        assert status in (200, 404)
    assert texts_of(await items_of(client, conversation)) == ["first", "third", "re: third"]
    _, found = await client.call("GET", one, conversation_id=conversation)
    assert found["metadata"] == {"a": "b"}


# --- forks


async def fork(client: Client) -> None:
    one = await client.create("fork here", key="k1", previous_response_id=client.ids["first"])
    two = await client.create("fork there", key="k2", background=True, previous_response_id=client.ids["first"])
    await client.ended(two["id"])
    before = ["one", "re: one", "more"]
    assert await heard(client, one["id"]) == [*before, "fork here", "re: fork here", "more"]
    assert await heard(client, two["id"]) == [*before, "fork there", "re: fork there", "more"]
    assert (await heard(client, client.ids["third"]))[-3:] == ["three", "re: three", "more"]


async def fork_while_it_runs(client: Client) -> None:
    """Two turns after the same one while a third runs: a branch is a conversation of its own."""
    first = await client.create("one", key="k1", background=True)
    await client.ended(first["id"])
    second = await client.create("long two", key="k2", background=True, previous_response_id=first["id"])
    branch = await client.create("branch", key="k3", background=True, previous_response_id=first["id"])
    final = await client.ended(branch["id"])
    assert final["status"] == "completed"
    assert await heard(client, branch["id"]) == ["one", "re: one", "more", "branch", "re: branch", "more"]
    third = await client.create("three", key="k4", background=True, previous_response_id=second["id"])
    await client.ended(third["id"])
    assert (await heard(client, third["id"]))[3:] == ["long two", "re: long two", "more", "three", "re: three", "more"]


async def compaction(client: Client) -> None:
    body = {"model": "agent", "previous_response_id": client.ids["third"]}
    status, shorter = await client.call("POST", "v1/responses/compact", body)
    assert status == 200
    made = await client.create([*shorter["output"], {"role": "user", "content": "on"}], key="k", background=True)
    assert (await client.ended(made["id"]))["status"] == "completed"


# --- agents, workflows, invocations


def agent() -> Any:
    return AgentState(lambda: Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()]))


async def agent_turns(client: Client) -> None:
    first = await client.create("one", key="k1")
    second = await client.listen("two", key="k2", background=True, previous_response_id=first["id"])
    third = await client.create("[[history]]", key="k3", background=True, previous_response_id=second["id"])
    assert texts(await client.ended(third["id"])) == ["history users=3 first=one"]


async def workflow(client: Client) -> None:
    asked = await client.listen("ask", key="k1", background=True)
    told = await client.create(answer(asked, "true"), key="k2", background=True, previous_response_id=asked["id"])
    told = await client.ended(told["id"])
    assert texts(told) == ["ticket 1: yes"]
    paused = await client.create("approve 1", key="k3", previous_response_id=told["id"])
    done = await client.create([decide("2-0")], key="k4", previous_response_id=paused["id"])
    assert texts(done) == ["2-0: approved"]


async def delete_workflow(client: Client) -> None:
    asked = await client.create("ask", background=True)
    await client.ended(asked["id"])
    await client.delete(asked["id"])


@task(name="cut_points.job", retry=RetryPolicy(initial_delay=1, jitter=False, retry_on=(EventStreamError,)))
async def job(ctx: TaskContext[Json]) -> Json:
    stream = await streams.take_over(ctx.task_id, generation=ctx.recovery_count)
    last = await stream.last_cursor()
    for number in range(0 if last is None else int(last) + 1, 3):
        await stream.emit({"sequence_number": number})
    await stream.close()
    if ctx.input["text"] == "long":
        await ctx.cancel.wait()
    return {"said": ctx.input["text"], "cancelled": ctx.cancel_requested}


async def invoke(request: Any) -> Json:
    """Starts its task, or finds it."""
    body = await request.json()
    run = await job.get_run(request.invocation_id) or await job.start(task_id=request.invocation_id, input=body)
    return {"id": run.task_id}


async def invocation(request: Any) -> Json:
    run = await job.get_run(request.invocation_id)
    if run is None:
        raise ApiError("There is none.", status=404, code="not_found")
    try:
        result = await run.result()
    except TaskCancelled:  # while it waited for another try, and its stream has no end
        return {"said": "long", "cancelled": True}
    stream = await streams.get(request.invocation_id)
    return {**result, "numbers": [event["sequence_number"] async for event in stream.subscribe(after=-1)]}


async def cancel_invocation(request: Any) -> Json:
    run = await job.get_run(request.invocation_id)
    assert run is not None
    await run.cancel()
    return {}


async def invocations(client: Client) -> None:
    status, made = await client.call("POST", "v1/invocations", {"text": "hi"}, headers=MINE)
    assert (status, made) == (200, {"id": "mine"})
    status, found = await client.call("GET", "v1/invocations/{invocation_id}", invocation_id="mine")
    assert found == {"said": "hi", "cancelled": False, "numbers": [0, 1, 2]}


async def cancelled_invocation(client: Client) -> None:
    await client.call("POST", "v1/invocations", {"text": "long"}, headers=MINE)
    status, _ = await client.call("POST", "v1/invocations/{invocation_id}/cancel", invocation_id="mine")
    assert status == 200
    status, found = await client.call("GET", "v1/invocations/{invocation_id}", invocation_id="mine")
    assert (status, found["said"], found["cancelled"]) == (200, "long", True)


MINE = {"x-agent-invocation-id": "mine"}
INVOCATIONS = {"invoke": invoke, "get": invocation, "cancel": cancel_invocation}

FLOWS: dict[str, Flow] = {
    "delete": Flow(delete, some_turns),
    "delete-cancelled": Flow(delete_cancelled, a_long_streamed_one),
    "delete-conversation": Flow(delete_conversation, a_conversation_with_turns),
    "delete-conversation-running": Flow(delete_conversation_of_running, a_conversation),
    "delete-in-conversation": Flow(delete_in_conversation, a_conversation_with_turns),
    "delete-workflow": Flow(delete_workflow, handler=None, hosted=hosted),
    "items": Flow(items),
    "fork": Flow(fork, some_turns),
    "fork-running": Flow(fork_while_it_runs, options=STEERED),
    "compaction": Flow(compaction, some_turns),
    "agent": Flow(agent_turns, handler=None, hosted=agent),
    "workflow": Flow(workflow, handler=None, hosted=hosted),
    "invocations": Flow(invocations, invocations=INVOCATIONS),
    "invocations-cancel": Flow(cancelled_invocation, invocations=INVOCATIONS),
}
