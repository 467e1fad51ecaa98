"""The model of an app that has no model yet: offline, deterministic, and steered by what the user writes.

It answers `Echo: <text>`, or what a directive `[[name args]]` in the newest user message says; the first one decides:

    [[call NAME {json}]]                    a call of the tool NAME, if the agent has it or the request declares it
    [[calls NAME {json} ;; NAME2 {json}]]   parallel calls
    [[slow N MS]]                           N words, MS milliseconds apart
    [[json {json}]]                         exactly that JSON
    [[reason TEXT]]                         a reasoning summary, then the echo
    [[history]]  [[context]]                what the agent can see: its user messages, the types of its items
    [[fail MESSAGE]]  [[incomplete]]  [[raise]]   the three ways to end badly

`bench tokens=N delay_ms=D` gives N tokens of 4 characters. The word "weather" calls the tool get_weather if the request
declares it. The output of a tool, when it is the newest input, is answered with `Tool result: <output>`.

For your own agent, set a model (README) or put another chat client into function_app.py; nothing else imports this file.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_framework import (
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    UsageDetails,
)

__all__ = ["DemoChatClient", "create_demo_chat_client"]

MODEL = "demo"
_MOST_DELTAS = 1000
_LONG = 100_000
"""A longer text streams in pieces of equal length: cutting megabytes into words would hold up the whole process."""

_DIRECTIVE = re.compile(r"\[\[(call|calls|slow|json|reason|history|context|fail|incomplete|raise)(?=\s|\]\])")
_BENCH = re.compile(r"\bbench tokens=(\d+) delay_ms=(\d+(?:\.\d+)?)")
_TOOL_NAME = re.compile(r"\s*([\w.-]+)\s*")
_WIRE_TYPES = {
    "function_call": "function_call",
    "function_result": "function_call_output",
    "text_reasoning": "reasoning",
    "function_approval_request": "mcp_approval_request",
    "function_approval_response": "mcp_approval_response",
    "mcp_server_tool_call": "mcp_call",
    "code_interpreter_tool_call": "code_interpreter_call",
    "image_generation_tool_call": "image_generation_call",
    "shell_tool_call": "shell_call",
    "shell_tool_result": "shell_call_output",
}


def create_demo_chat_client() -> "DemoChatClient":
    """A chat client for `Agent(client=...)`; it needs no key and no network."""
    return DemoChatClient()


class DemoChatClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Plays the plan that `_plan` makes of the request."""

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        updates = _play(messages, options)
        if stream:
            return self._build_response_stream(updates, response_format=options.get("response_format"))

        async def answer() -> ChatResponse:
            return self._finalize_response_updates(
                [update async for update in updates], response_format=options.get("response_format")
            )

        return answer()


@dataclass(frozen=True)
class _Plan:
    """What to answer: the contents, one update each, and the seconds between two of them."""

    contents: Iterable[Content]
    pause: float = 0
    finish: Literal["stop", "length", "tool_calls"] = "stop"


async def _play(messages: Sequence[Message], options: Mapping[str, Any]) -> AsyncIterator[ChatResponseUpdate]:
    plan = _plan(messages, options)
    words = reasoning = 0
    for position, content in enumerate(plan.contents):
        if position:
            await asyncio.sleep(plan.pause)  # with 0 too: others get their turn between two words
        words += _words(content)
        reasoning += _words(content) if content.type == "text_reasoning" else 0
        yield ChatResponseUpdate(role="assistant", contents=[content], model=MODEL)
    given = len(str(options.get("instructions") or "").split()) + sum(
        _words(content) for message in messages for content in message.contents
    )
    usage = UsageDetails(
        input_token_count=given,
        output_token_count=words,
        total_token_count=given + words,
        cache_read_input_token_count=0,
        cache_creation_input_token_count=0,
        reasoning_output_token_count=reasoning,
    )
    yield ChatResponseUpdate(
        role="assistant", contents=[Content.from_usage(usage)], model=MODEL, finish_reason=plan.finish
    )


def _words(content: Content) -> int:
    """The tokens of a content: a word counts as one."""
    if content.type in ("text", "text_reasoning"):
        return len((content.text or "").split())
    if content.type == "function_call":
        return 1 + len(str(content.arguments or "").split())
    return len(str(content.result or "").split()) if content.type == "function_result" else 0


def _plan(messages: Sequence[Message], options: Mapping[str, Any]) -> _Plan:
    newest = next((message.contents[-1] for message in reversed(messages) if message.contents), None)
    if newest is not None and newest.type == "function_result":
        return _say(f"Tool result: {newest.result if newest.result is not None else ''}")
    users = [message.text for message in messages if message.role == "user"]
    text = users[-1] if users else ""
    found = _DIRECTIVE.search(text)
    end = text.find("]]", found.end()) if found else -1
    if found is None or end < 0:
        return _without_directive(text, messages, options)
    name, argument = found[1], text[found.end() : end].strip()
    match name:
        case "call" | "calls" | "json":
            try:
                if name == "json":
                    return _say(_read_json(text, found.end(), closed=True)[0])
                return _call(_read_calls(text, found.end(), many=name == "calls"), messages, options)
            except (ValueError, RecursionError) as error:  # RecursionError: JSON nested too deep to parse
                return _say(f"Malformed directive [[{name}]]: {error}")
        case "slow":
            numbers = re.fullmatch(r"(\d{1,9})\s+(\d{1,9})", argument)
            if numbers is None:
                return _say("Malformed directive [[slow]]: it takes a number of words and milliseconds")
            ticks = (Content.from_text(f" tick{n}" if n else "tick0") for n in range(int(numbers[1])))
            return _Plan(ticks, pause=int(numbers[2]) / 1000)
        case "reason":
            return _Plan([Content.from_text_reasoning(text=argument), *_deltas(f"Echo: {text}")])
        case "history":
            return _say(f"history users={len(users)} first={users[0]}")
        case "context":
            return _say(f"context types={','.join(_wire_types(messages))}")
        case "fail":
            return _Plan(
                [Content.from_error(message=argument or "The demo agent was told to fail.", error_code="server_error")]
            )
        case "incomplete":
            return _Plan([Content.from_text("partial")], finish="length")
        case _:
            raise RuntimeError("the demo agent was told to raise")


def _without_directive(text: str, messages: Sequence[Message], options: Mapping[str, Any]) -> _Plan:
    if bench := _BENCH.search(text):
        return _Plan((Content.from_text("tok ") for _ in range(int(bench[1]))), pause=float(bench[2]) / 1000)
    if "get_weather" in _declared(options) and re.search(r"\bweather\b", text, re.IGNORECASE):
        return _call([("get_weather", '{"location": "San Francisco, CA"}')], messages, options)
    return _say(f"Echo: {text}")


def _say(text: str) -> _Plan:
    return _Plan(_deltas(text))


def _deltas(text: str) -> list[Content]:
    """The text word by word; a long one in a thousand pieces."""
    if len(text) > _LONG:
        size = len(text) // _MOST_DELTAS + 1
        return [Content.from_text(text[start : start + size]) for start in range(0, len(text), size)]
    words = re.findall(r"\s*\S+|\s+\Z", text)
    step = 1 + len(words) // _MOST_DELTAS
    return [Content.from_text("".join(words[start : start + step])) for start in range(0, len(words), step)]


def _call(calls: list[tuple[str, str]], messages: Sequence[Message], options: Mapping[str, Any]) -> _Plan:
    declared = _declared(options)
    if any(name not in declared for name, _ in calls):
        return _say("Echo: no such tool")
    contents: list[Content] = []
    for number, (name, arguments) in enumerate(calls):
        # Unique in a conversation, because it grows, and the same whenever the same conversation is had again.
        digest = hashlib.sha256(f"{len(messages)} {number} {name} {arguments}".encode()).hexdigest()
        contents.append(Content.from_function_call(f"call_{digest[:24]}", name, arguments=arguments))
    return _Plan(contents, finish="tool_calls")


def _declared(options: Mapping[str, Any]) -> set[str]:
    """Names of the tools that may be called."""
    choice = options.get("tool_choice")
    if choice == "none" or (isinstance(choice, Mapping) and choice.get("mode") == "none"):
        return set()
    tools = options.get("tools") or []
    names = (tool.get("name") if isinstance(tool, Mapping) else getattr(tool, "name", None) for tool in tools)
    return {name for name in names if isinstance(name, str)}


def _read_calls(text: str, at: int, *, many: bool) -> list[tuple[str, str]]:
    """`NAME {json}` up to the closing brackets, with `;;` between if `many`. Raises ValueError."""
    calls: list[tuple[str, str]] = []
    while True:
        name = _TOOL_NAME.match(text, at)
        if name is None:
            raise ValueError("a tool name is missing")
        arguments, at = "{}", name.end()
        if text.startswith("{", at):
            arguments, at = _read_json(text, at)
        calls.append((name[1], arguments))
        if text.startswith("]]", at):
            return calls
        if not many or not text.startswith(";;", at):
            raise ValueError(f"expected {';; or ]]' if many else ']]'} after the arguments of {name[1]}")
        at += 2


def _read_json(text: str, at: int, *, closed: bool = False) -> tuple[str, int]:
    """The JSON text that begins at `at` and where the text goes on after it; `closed`: by the brackets."""
    start = at + len(text[at:]) - len(text[at:].lstrip())
    _, end = json.JSONDecoder().raw_decode(text, start)
    after = end + len(text[end:]) - len(text[end:].lstrip())
    if closed and not text.startswith("]]", after):
        raise ValueError("expected ]] after the JSON")
    return text[start:end], after


def _wire_types(messages: Sequence[Message]) -> list[str]:
    """The types of the Responses API items that the messages are: neighbouring texts of one message are one item."""
    types: list[str] = []
    for message in messages:
        before: str | None = None
        for content in message.contents:
            kind = _WIRE_TYPES.get(content.type, "message")
            if kind != before or kind not in ("message", "reasoning"):
                types.append(kind)
            before = kind
    return types
