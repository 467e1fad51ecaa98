"""The built-in demo agent: every directive, streamed and not, through a real agent-framework Agent."""

import asyncio
import itertools
import json
import time
from typing import Any

import pytest
from agent_framework import Agent, AgentResponse, Content, FunctionTool, InMemoryHistoryProvider, Message, tool

from demo_agent import create_demo_chat_client


def agent(*, tools: list[Any] | None = None, **arguments: Any) -> Agent[Any]:
    return Agent(client=create_demo_chat_client(), name="demo", tools=tools, **arguments)


def declared(name: str) -> FunctionTool:
    """A tool of the HTTP client: declared, never run here."""
    schema = {"type": "object", "properties": {}}
    return FunctionTool(name=name, description="a test tool", func=None, input_model=schema)


async def ask(messages: Any, **arguments: Any) -> AgentResponse:
    return await agent().run(messages, **arguments)


def calls_of(response: AgentResponse) -> list[tuple[str | None, Any]]:
    found = [
        content for message in response.messages for content in message.contents if content.type == "function_call"
    ]
    return [(call.name, json.loads(str(call.arguments))) for call in found]


def contents_of(response: AgentResponse, kind: str) -> list[Content]:
    return [content for message in response.messages for content in message.contents if content.type == kind]


async def test_without_directive_it_echoes() -> None:
    assert (await ask("hello there")).text == "Echo: hello there"


async def test_the_newest_user_message_counts() -> None:
    conversation = [Message("user", ["[[history]]"]), Message("assistant", ["..."]), Message("user", ["second"])]
    assert (await ask(conversation)).text == "Echo: second"


async def test_brackets_that_are_no_directive_are_echoed() -> None:
    for text in ("[[dance now]]", "[[history", "[[callme x]]", "]] [["):
        assert (await ask(text)).text == f"Echo: {text}"


async def test_the_first_directive_decides() -> None:
    assert (await ask('say [[json {"a": 1}]] not [[incomplete]]')).text == '{"a": 1}'


async def test_text_streams_word_by_word_and_adds_up() -> None:
    stream = agent().run("one  two\nthree ", stream=True)
    deltas = [update.text async for update in stream if update.text]
    assert deltas == ["Echo:", " one", "  two", "\nthree", " "]
    assert (await stream.get_final_response()).text == "Echo: one  two\nthree "


@pytest.mark.parametrize(
    "text",
    [
        "plain text here",
        "[[slow 3 0]]",
        '[[json {"a": [1, 2]}]]',
        "[[reason because]]",
        "[[history]]",
        "[[incomplete]]",
    ],
)
async def test_streamed_and_not_streamed_end_the_same(text: str) -> None:
    stream = agent().run(text, stream=True)
    async for _ in stream:
        pass
    streamed, plain = await stream.get_final_response(), await ask(text)
    shape = [[(content.type, content.text) for content in message.contents] for message in plain.messages]
    assert [[(content.type, content.text) for content in message.contents] for message in streamed.messages] == shape
    assert streamed.usage_details == plain.usage_details
    assert streamed.finish_reason == plain.finish_reason


async def test_a_long_echo_has_a_bounded_number_of_deltas() -> None:
    text = "word " * 50_000
    stream = agent().run(text, stream=True)
    deltas = [update.text async for update in stream if update.text]
    assert len(deltas) <= 1100
    assert "".join(deltas) == f"Echo: {text}"


async def test_call_makes_a_call_of_a_declared_tool() -> None:
    response = await ask('[[call lookup {"q": "a ] b }}", "deep": {"x": [[1]]}}]]', tools=[declared("lookup")])
    assert calls_of(response) == [("lookup", {"q": "a ] b }}", "deep": {"x": [[1]]}})]
    assert response.text == ""


async def test_call_without_arguments_calls_with_none() -> None:
    assert calls_of(await ask("[[call lookup]]", tools=[declared("lookup")])) == [("lookup", {})]


async def test_call_of_an_undeclared_tool_is_said_to_be_none() -> None:
    response = await ask("[[call other {}]]", tools=[declared("lookup")])
    assert (response.text, calls_of(response)) == ("Echo: no such tool", [])


async def test_tool_choice_none_forbids_calls() -> None:
    response = await ask("[[call lookup {}]]", options={"tools": [declared("lookup")], "tool_choice": "none"})
    assert (response.text, calls_of(response)) == ("Echo: no such tool", [])


async def test_tools_in_the_options_are_declared_too() -> None:
    assert calls_of(await ask("[[call lookup {}]]", options={"tools": [declared("lookup")]})) == [("lookup", {})]


async def test_calls_makes_parallel_calls_with_ids_of_their_own() -> None:
    text = '[[calls one {"n": 1} ;; two {"n": ";;"};;one {"n": 1}]]'
    response = await ask(text, tools=[declared("one"), declared("two")])
    assert calls_of(response) == [("one", {"n": 1}), ("two", {"n": ";;"}), ("one", {"n": 1})]
    assert len({content.call_id for content in contents_of(response, "function_call")}) == 3


async def test_call_ids_are_the_same_for_the_same_conversation_and_differ_along_it() -> None:
    def call_id(response: AgentResponse) -> str | None:
        return contents_of(response, "function_call")[0].call_id

    first = [Message("user", ["[[call t {}]]"])]
    later = [*first, Message("assistant", ["..."]), *first]
    tools = [declared("t")]
    ids = [call_id(await ask(messages, tools=tools)) for messages in (first, first, later)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[[call t {bad json}]]", "call"),
        ('[[call t {"a": 1} trailing]]', "call"),
        ('[[call t {"a": 1} ;; t {}]]', "call"),
        ("[[call {}]]", "call"),
        ("[[call t [1]]]", "call"),
        ("[[calls t {} ;; ]]", "calls"),
        ("[[json ]]", "json"),
        ("[[json {]]", "json"),
        ('[[json {"a": 1} more]]', "json"),
        ("[[json " + "[" * 200_000 + "]]", "json"),
        ("[[slow]]", "slow"),
        ("[[slow three 4]]", "slow"),
    ],
)
async def test_a_malformed_directive_is_answered_in_words(text: str, name: str) -> None:
    response = await ask(text, tools=[declared("t")])
    assert response.text.startswith(f"Malformed directive [[{name}]]: ")
    assert calls_of(response) == []


async def test_the_output_of_a_client_tool_is_answered_whatever_the_user_message_says() -> None:
    conversation = [
        Message("user", ["[[call lookup {}]]"]),
        Message("assistant", [Content.from_function_call("call_1", "lookup", arguments="{}")]),
        Message("tool", [Content.from_function_result("call_1", result="42 degrees")]),
    ]
    assert (await ask(conversation, tools=[declared("lookup")])).text == "Tool result: 42 degrees"


async def test_output_in_parts_is_answered_as_text() -> None:
    parts = [Content.from_text("a"), Content.from_text("b")]
    assert (await ask([Message("tool", [Content.from_function_result("c", result=parts)])])).text == "Tool result: a\nb"


async def test_a_tool_of_the_agent_itself_is_run() -> None:
    @tool(approval_mode="never_require")
    def double(n: int) -> int:
        """Twice the number."""
        return 2 * n

    response = await agent(tools=[double]).run('[[call double {"n": 21}]]')
    assert response.text == "Tool result: 42"


async def test_a_message_after_a_tool_output_is_answered_itself() -> None:
    conversation = [Message("tool", [Content.from_function_result("c", result="x")]), Message("user", ["next"])]
    assert (await ask(conversation)).text == "Echo: next"


async def test_slow_streams_its_words_apart() -> None:
    stream = agent().run("[[slow 3 40]]", stream=True)
    arrivals = [(update.text, time.monotonic()) async for update in stream if update.text]
    assert "".join(text for text, _ in arrivals) == "tick0 tick1 tick2"
    gaps = [later - earlier for (_, earlier), (_, later) in itertools.pairwise(arrivals)]
    assert len(gaps) == 2
    assert min(gaps) >= 0.035


async def test_json_is_exactly_the_text_that_was_given() -> None:
    assert (await ask('[[json  {"b":1,  "a": "]]"} ]]')).text == '{"b":1,  "a": "]]"}'


async def test_reason_gives_reasoning_before_the_echo() -> None:
    response = await ask("[[reason step by step]] hi")
    kinds = [(content.type, content.text) for message in response.messages for content in message.contents]
    assert kinds == [("text_reasoning", "step by step"), ("text", "Echo: [[reason step by step]] hi")]


async def test_history_counts_the_user_messages_it_can_see() -> None:
    with_history = agent(context_providers=[InMemoryHistoryProvider()])
    session = with_history.create_session()
    await with_history.run("first words", session=session)
    await with_history.run("more", session=session)
    assert (await with_history.run("[[history]]", session=session)).text == "history users=3 first=first words"


async def test_context_names_the_wire_types_of_all_items_in_order() -> None:
    conversation = [
        Message("user", [Content.from_text("look"), Content.from_uri("https://e.test/a.png", media_type="image/png")]),
        Message(
            "assistant",
            [
                Content.from_text_reasoning(text="hm"),
                Content.from_text("wait"),
                Content.from_function_call("c1", "t", arguments="{}"),
                Content.from_function_call("c2", "t", arguments="{}"),
            ],
        ),
        Message(
            "tool", [Content.from_function_result("c1", result="1"), Content.from_function_result("c2", result="2")]
        ),
        Message("assistant", ["done"]),
        Message("user", ["[[context]]"]),
    ]
    wanted = "message,reasoning,message,function_call,function_call,function_call_output,function_call_output,message,message"
    assert (await ask(conversation)).text == f"context types={wanted}"


async def test_fail_gives_an_error_content_with_the_message() -> None:
    (error,) = contents_of(await ask("[[fail the disk is full]]"), "error")
    assert (error.message, error.error_code) == ("the disk is full", "server_error")


async def test_incomplete_ends_for_length() -> None:
    response = await ask("[[incomplete]]")
    assert (response.text, response.finish_reason) == ("partial", "length")


async def test_raise_raises() -> None:
    with pytest.raises(RuntimeError, match="told to raise"):
        await ask("[[raise]]")
    with pytest.raises(RuntimeError, match="told to raise"):
        async for _ in agent().run("[[raise]]", stream=True):
            pass


async def test_weather_calls_the_declared_tool() -> None:
    response = await ask("How is the Weather today?", tools=[declared("get_weather")])
    assert calls_of(response) == [("get_weather", {"location": "San Francisco, CA"})]


async def test_weather_without_the_tool_is_echoed() -> None:
    assert (await ask("weather?", tools=[declared("other")])).text == "Echo: weather?"


async def test_bench_gives_tokens_of_four_characters() -> None:
    stream = agent().run("bench tokens=25 delay_ms=0", stream=True)
    deltas = [update.text async for update in stream if update.text]
    assert len(deltas) == 25
    assert {len(delta) for delta in deltas} == {4}
    usage = (await stream.get_final_response()).usage_details
    assert usage is not None
    assert usage.get("output_token_count") == 25


async def test_usage_has_every_counter_and_a_word_is_a_token() -> None:
    usage = (await ask("[[reason two words]]", options={"instructions": "be brief"})).usage_details
    assert usage == {
        "input_token_count": 5,
        "output_token_count": 6,
        "total_token_count": 11,
        "cache_read_input_token_count": 0,
        "cache_creation_input_token_count": 0,
        "reasoning_output_token_count": 2,
    }


async def test_other_work_goes_on_between_two_words() -> None:
    seen = 0

    async def count() -> None:
        nonlocal seen
        while True:
            seen += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        await ask("bench tokens=50 delay_ms=0")
    finally:
        counting.cancel()
    assert seen >= 49
