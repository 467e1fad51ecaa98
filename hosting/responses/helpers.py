"""The helpers of the second seed: parse a Responses request, render a run. For apps that own their routes.

They neither authenticate nor authorize. An id that they return is a candidate: bind it to the caller before you use it.
"""

import time
from collections.abc import AsyncIterable, Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict, cast

from hosting.ids import conversation_id as new_conversation_id
from hosting.ids import response_id as new_response_id
from hosting.responses.calls import ServerCalls
from hosting.responses.create_request import CreateRequest, parse_create_request
from hosting.responses.errors import InvalidRequest
from hosting.responses.known_calls import KnownCall
from hosting.responses.messages import messages_from_items, messages_from_responses_input
from hosting.responses.renderer import ResponseRenderer
from hosting.responses.response_events import ResponseEvents
from hosting.responses.run_options import options_from_request

if TYPE_CHECKING:
    from agent_framework import Message

__all__ = [
    "AgentRunArgs",
    "create_conversation_id",
    "create_response_id",
    "messages_from_responses_input",
    "render_result",
    "responses_continuation",
    "responses_from_run",
    "responses_from_streaming_run",
    "responses_session_id",
    "responses_to_run",
]

type Json = dict[str, Any]

_CONTINUATION = ("previous_response_id", "conversation", "conversation_id")


class AgentRunArgs(TypedDict):
    """Values for Agent.run."""

    messages: "list[Message]"
    options: Json
    """agent-framework ChatOptions."""
    stream: bool


def create_response_id() -> str:
    """A new `resp_` id, the first turn of a new chain."""
    return new_response_id()


def create_conversation_id() -> str:
    """A new `conv_` id."""
    return new_conversation_id()


def responses_to_run(body: object) -> AgentRunArgs:
    """What Agent.run needs of a request body. Raises InvalidRequest (a ValueError) for anything malformed.

    Options are an allowlist (see run_options). Which history the run continues is not part of it: see
    responses_session_id.
    """
    responses_continuation(body)
    # Ids are only candidates here, whatever their form; the server checks the form too.
    fields = {name: value for name, value in cast("Json", body).items() if name not in _CONTINUATION}
    request = parse_create_request(fields)
    return {
        "messages": messages_from_items(request.input_items),
        "options": options_from_request(request),
        "stream": request.stream,
    }


def responses_session_id(body: object) -> str | None:
    """The id that a request continues: `previous_response_id`, else the conversation's, else None.

    Raises InvalidRequest for an id that is no non-empty string, and for both a previous response and a conversation.
    """
    return responses_continuation(body)[0]


def responses_continuation(body: object) -> tuple[str | None, bool]:
    """The same id, and whether it names a conversation.

    `conversation` is an id or `{"id": ...}`; `conversation_id`, the field of the seed, counts when neither it nor a
    previous response is given.
    """
    if not isinstance(body, Mapping):
        raise InvalidRequest("The body of the request must be a JSON object.", code="invalid_type")
    fields = cast("Mapping[str, object]", body)
    previous = _identifier(fields, "previous_response_id")
    conversation = fields.get("conversation")
    if isinstance(conversation, dict):
        identifier = cast("Json", conversation).get("id")
        fields = {**fields, "conversation": "" if identifier is None else identifier}
    named = _identifier(fields, "conversation")
    if previous is not None and named is not None:
        raise InvalidRequest.mutually_exclusive("previous_response_id", "conversation")
    if previous is not None:
        return previous, False
    named = named or _identifier(fields, "conversation_id")
    return named, named is not None


def responses_from_run(
    result: object,
    *,
    response_id: str,
    session_id: str | None = None,
    conversation_id: str | None = None,
    request: CreateRequest | Mapping[str, Any] | None = None,
    server_tools: Collection[str] = (),
    server_calls: ServerCalls = "mcp_call",
    known_calls: Mapping[str, KnownCall] | None = None,
    created_at: int | None = None,
) -> Json:
    """The Response object of a finished run: an AgentResponse, a workflow's result, messages, or a text.

    `session_id` is what the run continued: a `conv_` id shows as the conversation, a `resp_` id as the previous response.
    With `request`, a body or a parsed one, its fields are echoed and calls of its tools are the client's to answer.
    `server_tools`, `server_calls` and `known_calls` tell the app's own tool calls from these (see ResponseRenderer).
    `created_at` in seconds since 1970; when the result says it, if at all, else now.

    Ids are new each time: render a run once, store the object, and answer later requests with it.
    """
    renderer = _renderer(response_id, session_id, conversation_id, request, server_tools, server_calls, known_calls)
    renderer.response["created_at"] = _created_at(result) if created_at is None else created_at
    return render_result(result, renderer)


def render_result(result: object, renderer: ResponseRenderer) -> Json:
    """The final Response object of a finished run, by a renderer of the caller's."""
    renderer.start()
    renderer.feed_result(result)
    renderer.finish(result)
    return renderer.response


def responses_from_streaming_run(
    stream: AsyncIterable[Any],
    *,
    response_id: str,
    session_id: str | None = None,
    conversation_id: str | None = None,
    request: CreateRequest | Mapping[str, Any] | None = None,
    server_tools: Collection[str] = (),
    server_calls: ServerCalls = "mcp_call",
    known_calls: Mapping[str, KnownCall] | None = None,
    with_id: bool = False,
) -> ResponseEvents:
    """Server-sent events of a run, as strings: `async for frame in responses_from_streaming_run(...)`.

    The arguments are those of responses_from_run; `with_id` adds `id:` lines, for clients that resume by Last-Event-ID.
    The result also tells how the run ended: look at `failed` before you store the session. For connections that may be
    silent for long, see with_keep_alive.
    """
    renderer = _renderer(response_id, session_id, conversation_id, request, server_tools, server_calls, known_calls)
    return ResponseEvents(stream, renderer, with_id=with_id)


def _renderer(
    response_id: str,
    session_id: str | None,
    conversation_id: str | None,
    request: CreateRequest | Mapping[str, Any] | None,
    server_tools: Collection[str],
    server_calls: ServerCalls,
    known_calls: Mapping[str, KnownCall] | None,
) -> ResponseRenderer:
    if request is None:
        request = CreateRequest()
    elif not isinstance(request, CreateRequest):
        request = parse_create_request({name: value for name, value in request.items() if name not in _CONTINUATION})
    if session_id is not None and session_id.startswith("conv_"):
        conversation_id = conversation_id or session_id
    renderer = ResponseRenderer(
        response_id=response_id,
        request=request,
        model=request.model or "agent",
        created_at=int(time.time()),
        conversation_id=conversation_id,
        server_tools=server_tools,
        server_calls=server_calls,
        known_calls=known_calls,
        follow_model=True,
    )
    if session_id is not None and session_id.startswith("resp_"):
        renderer.response["previous_response_id"] = session_id
    return renderer


def _created_at(result: object) -> int:
    """When the run began, as agent-framework notes it: ISO 8601, UTC when it has no zone."""
    said: object = getattr(result, "created_at", None)
    try:
        moment = datetime.fromisoformat(cast("str", said))
        return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    except (TypeError, ValueError, OverflowError):
        return int(time.time())


def _identifier(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidRequest.wrong_type(name, "a string", value)
    if not value:
        raise InvalidRequest(f"Invalid '{name}': expected a non-empty string.", param=name, code="invalid_value")
    return value
