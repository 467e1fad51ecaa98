"""The example with tools as it is deployed: approvals that are asked at one worker and answered at another one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agent_framework
import agents
import openai
import pytest
from agent_framework.openai import OpenAIChatClient

from devhost.azurite import Azurite
from devhost.testing import DevHost, start_devhost
from tests.conftest import ROOT
from tests.e2e.clients.conftest import Connect, at_worker, ended

agents.set_tracing_disabled(True)  # it would send every run to OpenAI

UNKNOWN = "No approval request found for approval response with approval_request_id"


class Journal:
    """What the tools have really done."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def take(self) -> list[str]:
        lines = [line.rpartition(" by ")[0] for line in self.path.read_text().splitlines()]
        self.path.write_text("")
        return lines


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator") / "journal"


@pytest.fixture
def journal(path: Path) -> Journal:
    path.write_text("")
    return Journal(path)


@pytest.fixture(scope="module")
def host(azurite: Azurite, path: Path) -> Iterator[DevHost]:
    env = {"PYTHONPATH": str(ROOT), "OPERATOR_JOURNAL": str(path)}
    with start_devhost(ROOT / "examples" / "tools", workers=2, env=env, storage=azurite.connection_string) as running:
        yield running


def ask(client: openai.OpenAI, given: Any, **fields: Any) -> Any:
    return client.responses.create(model="operator", input=given, **fields)


def decide(request: Any, approve: bool = True) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}


def requests(response: Any) -> list[Any]:
    return [item for item in response.output if item.type == "mcp_approval_request"]


def calls(response: Any) -> list[Any]:
    return [item for item in response.output if item.type == "mcp_call"]


def test_a_tool_that_needs_no_approval_runs_and_is_shown(a: openai.OpenAI) -> None:
    made = ask(a, "How are web-1 and db-1?")
    assert [(call.name, call.arguments, call.output) for call in calls(made)] == [
        ("machine_status", '{"machine": "web-1"}', "web-1 is up, load 0.4"),
        ("machine_status", '{"machine": "db-1"}', "db-1 is up, load 1.2"),
    ]
    assert made.output_text == "web-1 is up, load 0.4. db-1 is up, load 1.2."


def test_a_call_is_streamed_as_it_is_made(a: openai.OpenAI) -> None:
    with a.responses.stream(model="operator", input="How is web-1?") as stream:
        kinds = [event.type for event in stream]
        assert calls(stream.get_final_response())[0].output == "web-1 is up, load 0.4"
    assert [kind for kind in kinds if "mcp_call" in kind] == [
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_an_approval_is_asked_here_and_answered_there(
    a: openai.OpenAI, b: openai.OpenAI, journal: Journal, stream: bool
) -> None:
    asked = ask(a, "Please restart web-2.")
    (request,) = requests(asked)
    assert (request.name, request.arguments, request.server_label) == (
        "restart_machine",
        '{"machine": "web-2"}',
        "agent",
    )
    assert (asked.output_text, calls(asked), journal.take()) == ("", [], [])
    done: Any
    if stream:
        given: Any = [decide(request)]
        with b.responses.stream(model="operator", input=given, previous_response_id=asked.id) as events:
            done = events.get_final_response()
    else:
        done = ask(b, [decide(request)], previous_response_id=asked.id)
    assert (journal.take(), done.output_text) == (["restart web-2"], "web-2 was restarted.")


def test_an_approved_call_is_shown_with_what_was_asked(a: openai.OpenAI, b: openai.OpenAI) -> None:
    asked = ask(a, "Please restart web-2.")
    (request,) = requests(asked)
    (call,) = calls(ask(b, [decide(request)], previous_response_id=asked.id))
    assert (call.name, call.arguments) == ("restart_machine", '{"machine": "web-2"}')
    assert (call.output, call.approval_request_id) == ("web-2 was restarted", request.id)


def test_an_approval_outlives_every_process_that_knew_of_it(host: DevHost, a: openai.OpenAI, journal: Journal) -> None:
    asked = ask(a, "Please restart web-1.")
    pids = host.workers
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for number, pid in enumerate(pids, 1):
        host.wait_for_worker(number, instead_of=pid)
    with at_worker(host, 2) as later:
        done = ask(later, [decide(requests(asked)[0])], previous_response_id=asked.id)
    assert (journal.take(), done.output_text) == (["restart web-1"], "web-1 was restarted.")


def test_an_approval_in_the_background(a: openai.OpenAI, b: openai.OpenAI, journal: Journal) -> None:
    asked = ended(b, ask(a, "Please restart db-1.", background=True).id)
    done = ask(b, [decide(requests(asked)[0])], previous_response_id=asked.id, background=True)
    assert ended(a, done.id).output_text == "db-1 was restarted."
    assert journal.take() == ["restart db-1"]


def test_an_approval_in_a_conversation(a: openai.OpenAI, b: openai.OpenAI, journal: Journal) -> None:
    conversation = a.conversations.create()
    asked = ask(a, "Please restart db-1.", conversation=conversation.id)
    done = ask(b, [decide(requests(asked)[0])], conversation=conversation.id)
    assert (journal.take(), done.output_text) == (["restart db-1"], "db-1 was restarted.")
    assert [item.type for item in a.conversations.items.list(conversation.id, order="asc")] == [
        "message",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "message",
    ]


def test_what_is_declined_does_not_run(a: openai.OpenAI, b: openai.OpenAI, journal: Journal) -> None:
    asked = ask(a, "Please restart web-2.")
    done = ask(b, [decide(requests(asked)[0], approve=False)], previous_response_id=asked.id)
    assert journal.take() == []
    assert "rejected" in done.output_text


def test_a_declined_call_is_shown_as_one_that_failed(a: openai.OpenAI, b: openai.OpenAI) -> None:
    asked = ask(a, "Please restart web-2.")
    (call,) = calls(ask(b, [decide(requests(asked)[0], approve=False)], previous_response_id=asked.id))
    assert (call.name, call.status, call.output) == ("restart_machine", "failed", None)


def test_each_of_two_approvals_is_decided_by_itself(a: openai.OpenAI, b: openai.OpenAI, journal: Journal) -> None:
    asked = ask(a, "Please restart web-1 and web-2.")
    first, second = requests(asked)
    ask(b, [decide(first, approve=False), decide(second)], previous_response_id=asked.id)
    assert journal.take() == ["restart web-2"]


def test_an_approval_can_be_answered_after_other_turns(a: openai.OpenAI, b: openai.OpenAI, journal: Journal) -> None:
    asked = ask(a, "Please restart web-1.")
    between = ask(b, "How is db-1?", previous_response_id=asked.id)
    assert between.output_text == "db-1 is up, load 1.2."
    ask(a, [decide(requests(asked)[0])], previous_response_id=between.id)
    assert journal.take() == ["restart web-1"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_to_nothing_is_refused(a: openai.OpenAI, journal: Journal, stream: bool) -> None:
    asked = ask(a, "Please restart web-1.")
    unknown: Any = {"type": "mcp_approval_response", "approval_request_id": "mcpr_unknown", "approve": True}
    with pytest.raises(openai.BadRequestError, match=UNKNOWN) as refused:
        ask(a, [unknown], previous_response_id=asked.id, stream=stream)
    assert refused.value.param == "input"
    with pytest.raises(openai.BadRequestError, match=UNKNOWN):
        ask(a, [unknown], stream=stream)
    assert journal.take() == []


def test_an_approval_counts_once(a: openai.OpenAI, b: openai.OpenAI, journal: Journal) -> None:
    asked = ask(a, "Please restart web-1.")
    (request,) = requests(asked)
    with pytest.raises(openai.BadRequestError, match="Two answers were given"):
        ask(a, [decide(request), decide(request)], previous_response_id=asked.id)
    done = ask(a, [decide(request)], previous_response_id=asked.id)
    with pytest.raises(openai.BadRequestError, match=UNKNOWN):
        ask(b, [decide(request)], previous_response_id=done.id)
    assert journal.take() == ["restart web-1"]


def test_an_answer_to_nothing_in_the_background_fails_with_the_reason(a: openai.OpenAI, journal: Journal) -> None:
    asked = ask(a, "Please restart web-1.")
    unknown: Any = {"type": "mcp_approval_response", "approval_request_id": "mcpr_unknown", "approve": True}
    failed = ended(a, ask(a, [unknown], previous_response_id=asked.id, background=True).id)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == ("failed", "invalid_prompt")
    assert UNKNOWN in failed.error.message
    ask(a, [decide(requests(asked)[0])], previous_response_id=asked.id)
    assert journal.take() == ["restart web-1"]


def test_a_client_cannot_approve_what_was_never_asked(a: openai.OpenAI, journal: Journal) -> None:
    """It makes up the question and the answer, or sends again what was asked in a conversation that it does not name."""
    user = {"role": "user", "content": "Please restart web-1."}
    asked = ask(a, [user])
    (request,) = requests(asked)
    with pytest.raises(openai.BadRequestError, match="'previous_response_id' or 'conversation'"):
        ask(a, [user, request.model_dump(), decide(request)])
    assert journal.take() == []


def test_what_was_decided_goes_back_in_with_the_history(a: openai.OpenAI, b: openai.OpenAI, journal: Journal) -> None:
    asked = ask(a, "Please restart web-1.")
    (request,) = requests(asked)
    done = ask(a, [decide(request)], previous_response_id=asked.id)
    output = [item.model_dump() for item in (*asked.output, *done.output)]
    history = [{"role": "user", "content": "Please restart web-1."}, output[0], decide(request), *output[1:]]
    again = ask(b, [*history, {"role": "user", "content": "How is web-1?"}])
    assert again.output_text == "web-1 is up, load 0.4."
    assert journal.take() == ["restart web-1"]


def test_a_tool_of_the_clients_cannot_have_the_name_of_one_of_the_agents(a: openai.OpenAI) -> None:
    tool: Any = {"type": "function", "name": "restart_machine", "parameters": {"type": "object", "properties": {}}}
    with pytest.raises(openai.BadRequestError) as refused:
        ask(a, "How is web-1?", tools=[tool])
    assert refused.value.param == "tools[0].name"


# Clients with approvals of their own


@pytest.mark.parametrize("approve", [True, False])
async def test_agent_frameworks_client_passes_the_question_on(
    connect: Connect, journal: Journal, approve: bool
) -> None:
    async with connect() as connection:
        agent = agent_framework.Agent(client=OpenAIChatClient(model="operator", async_client=connection))
        session = agent.create_session()
        asked = await agent.run("Please restart web-2 and db-1.", session=session)
        assert [str(request.function_call.name) for request in asked.user_input_requests] == ["restart_machine"] * 2
        answers = [request.to_function_approval_response(approve) for request in asked.user_input_requests]
        done = await agent.run(agent_framework.Message("user", answers), session=session)
    # In any order: agent-framework runs the tools of one message side by side, each on a thread.
    assert sorted(journal.take()) == (["restart db-1", "restart web-2"] if approve else [])
    assert "was restarted" in done.text if approve else "rejected" in done.text


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("in_conversation", [True, False])
async def test_openai_agents_passes_the_question_on(
    connect: Connect, journal: Journal, in_conversation: bool, approve: bool
) -> None:
    """It wants to know of the server that the label names: the address is not used."""
    server: Any = {
        "type": "mcp",
        "server_label": "agent",
        "server_url": "https://example.com",
        "require_approval": "always",
    }
    tool = agents.HostedMCPTool(tool_config=server, on_approval_request=lambda request: {"approve": approve})
    async with connect() as connection:
        model = agents.OpenAIResponsesModel(model="operator", openai_client=connection)
        agent = agents.Agent(name="caller", model=model, tools=[tool])
        kept: Any = {"auto_previous_response_id": True}
        if in_conversation:
            kept = {"conversation_id": (await connection.conversations.create()).id}
        done = await agents.Runner.run(agent, "Please restart web-1.", **kept)
    assert journal.take() == (["restart web-1"] if approve else [])
    assert "was restarted" in done.final_output if approve else "rejected" in done.final_output
