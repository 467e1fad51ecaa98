"""With real agent-framework agents on a scripted chat client: what the framework sends is what the renderer expects."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from hosting.responses import (
    CreateRequest,
    check_tool_pairs,
    messages_from_items,
    options_from_request,
    stored_input_items,
)
from tests.unit.responses_checks import check_stream, make_renderer, make_request, without_ids

type Script = Sequence[Sequence[Content]]

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
}
F = Content.from_function_call
T = Content.from_text


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Plays one turn of a script per call of the model and keeps what it was shown."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = list(script)
        self.seen: list[list[Message]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        self.seen.append(list(messages))
        updates = [ChatResponseUpdate(contents=[content], role="assistant") for content in self.script.pop(0)]

        async def streamed() -> AsyncIterator[ChatResponseUpdate]:
            for update in updates:
                yield update

        async def whole() -> ChatResponse[Any]:
            return ChatResponse.from_updates(updates)

        return self._build_response_stream(streamed()) if stream else whole()


@tool(approval_mode="never_require")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(approval_mode="always_require")
def delete(name: str) -> str:
    """Delete something."""
    return f"deleted {name}"


@tool(approval_mode="never_require")
def broken() -> str:
    """Always fails."""
    raise RuntimeError("secret")


async def run(
    request: CreateRequest, script: Script, *, stream: bool, session: AgentSession | None = None, **options: Any
) -> tuple[dict[str, Any], Scripted]:
    client = Scripted(script)
    agent = Agent(client, "Be brief.", tools=[add, delete, broken])
    renderer = make_renderer(request=request, **options)
    events = renderer.start()
    messages = messages_from_items(stored_input_items(request, renderer.response["id"]))
    if stream:
        updates = agent.run(messages, stream=True, session=session, options=options_from_request(request))
        async for update in updates:
            events += renderer.feed(update)
        events += renderer.finish(await updates.get_final_response())
    else:
        result = await agent.run(messages, session=session, options=options_from_request(request))
        events += [*renderer.feed_result(result), *renderer.finish(result)]
    events.append(renderer.terminal())
    check_stream(events)
    assert "secret" not in repr(events)
    return renderer.response, client


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@BOTH
async def test_text_and_usage(stream: bool) -> None:
    usage = Content.from_usage({"input_token_count": 3, "output_token_count": 2})
    response, _ = await run(make_request(), [[T("Hel"), T("lo"), usage]], stream=stream)
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert response["usage"]["total_tokens"] == 5


@BOTH
async def test_a_call_of_the_clients_tool_comes_back_and_its_answer_goes_in(stream: bool) -> None:
    request = make_request(tools=[WEATHER])
    fragments = [F("c1", "get_weather", arguments='{"location":'), F("c1", "", arguments='"Rome"}')]
    first, _ = await run(request, [[T("Let me see. "), *fragments]], stream=stream)
    call = first["output"][1]
    assert (call["type"], call["call_id"], call["arguments"]) == ("function_call", "c1", '{"location":"Rome"}')

    answer = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
    follow_up = make_request(input=[{"role": "user", "content": "hi"}, *first["output"], answer], tools=[WEATHER])
    check_tool_pairs([], follow_up.input_items)
    second, client = await run(follow_up, [[T("It is sunny.")]], stream=stream)
    assert second["output"][0]["content"][0]["text"] == "It is sunny."
    assert [(m.role, [c.type for c in m.contents]) for m in client.seen[0]][-3:] == [
        ("user", ["text"]),
        ("assistant", ["text", "function_call"]),
        ("tool", ["function_result"]),
    ]


@BOTH
async def test_a_call_of_the_agents_tool_is_no_function_call(stream: bool) -> None:
    script = [[F("c1", "add", arguments='{"a":1,"b":2}')], [T("3")]]
    response, _ = await run(make_request(tools=[WEATHER]), script, stream=stream)
    assert [item["type"] for item in response["output"]] == ["mcp_call", "message"]
    assert response["output"][0]["output"] == "3"


@BOTH
async def test_a_tool_that_fails_says_nothing_of_the_cause(stream: bool) -> None:
    response, _ = await run(make_request(), [[F("c1", "broken", arguments="{}")], [T("sorry")]], stream=stream)
    assert [item["status"] for item in response["output"]] == ["failed", "completed"]


@BOTH
async def test_calls_of_both_kinds_at_once(stream: bool) -> None:
    script = [[F("c1", "add", arguments='{"a":1,"b":2}'), F("c2", "get_weather", arguments="{}")]]
    session = AgentSession()
    response, _ = await run(make_request(tools=[WEATHER]), script, stream=stream, session=session)
    assert [item["name"] for item in response["output"] if item["type"] == "function_call"] == ["get_weather"]

    answer = make_request(input=[{"type": "function_call_output", "call_id": "c2", "output": "sunny"}], tools=[WEATHER])
    response, client = await run(answer, [[T("3 and sunny")]], stream=stream, session=session)
    assert [item["type"] for item in response["output"]] == ["mcp_call", "message"]
    results = [c for message in client.seen[0] for c in message.contents if c.type == "function_result"]
    assert sorted(str(c.result) for c in results) == ["3", "sunny"]


@BOTH
async def test_an_approval_is_asked_for_and_given_across_processes(stream: bool) -> None:
    session = AgentSession()
    script = [[F("c1", "delete", arguments='{"name":"x"}')]]
    first, _ = await run(make_request(), script, stream=stream, session=session)
    [asked] = first["output"]
    assert (asked["type"], asked["name"], asked["arguments"]) == ("mcp_approval_request", "delete", '{"name":"x"}')

    stored = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
    answer = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
    second, client = await run(make_request(input=[answer]), [[T("done")]], stream=stream, session=stored)
    assert [item["type"] for item in second["output"]] == ["mcp_call", "message"]
    assert second["output"][0]["output"] == "deleted x"
    assert client.seen[0][-1].contents[-1].result == "deleted x"


@BOTH
async def test_error_content_of_a_chat_client_fails_the_response(stream: bool) -> None:
    response, _ = await run(make_request(), [[T("half"), Content.from_error(message="Out of cheese.")]], stream=stream)
    assert (response["status"], response["error"]["message"]) == ("failed", "Out of cheese.")


async def test_both_modes_give_the_same_items() -> None:
    script = [[T("go"), F("c1", "add", arguments='{"a":1,"b":2}')], [T("it "), T("is 3")]]
    whole, _ = await run(make_request(), script, stream=False)
    streamed, _ = await run(make_request(), script, stream=True)
    assert without_ids(whole["output"]) == without_ids(streamed["output"])


async def test_a_body_can_not_set_what_the_app_passes_to_its_tools() -> None:
    seen: list[str] = []

    @tool(approval_mode="never_require")
    def whoami(ctx: FunctionInvocationContext) -> str:
        """Who is calling."""
        seen.append(ctx.kwargs["user_id"])
        return "ok"

    request = make_request(
        additional_function_arguments={"user_id": "admin"}, function_invocation_kwargs={"user_id": "x"}
    )
    agent = Agent(Scripted([[F("c1", "whoami", arguments="{}")], [T("ok")]]), tools=[whoami])
    options = options_from_request(request)
    assert options == {}
    await agent.run(
        messages_from_items(request.input_items), options=options, function_invocation_kwargs={"user_id": "alice"}
    )
    assert seen == ["alice"]


def test_importing_the_protocol_imports_no_agent_framework_openai_or_pydantic() -> None:
    code = (
        "import sys, hosting.responses\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('agent_framework', 'openai', 'pydantic', 'azure')])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert output.stdout.strip() == "[]"


def test_rendering_a_stream_imports_no_agent_framework() -> None:
    code = (
        "import sys\n"
        "from hosting.responses import *\n"
        "request = parse_create_request({'input': 'hi'})\n"
        "r = ResponseRenderer(response_id=create_response_id(), request=request, model='m', created_at=1)\n"
        "r.start(); r.feed('hello'); r.finish(); encode_event(r.terminal())\n"
        "print(r.response['output'][0]['content'][0]['text'], 'agent_framework' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert output.stdout.strip() == "hello False"
