"""Every route, and where in a request for it an id can stand: the table that the suite goes through.

A route that is not in here fails tests/security/test_routes.py: whoever adds one says how it is attacked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.security.world import Answer, Caller, Furniture

__all__ = ["ROUTES", "Place", "Route", "Sent"]

type Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent, apart from method and route."""

    path: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Json | None = None
    query: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Place:
    """A place for an id: its name, and the request that has `id` there and is else the caller's own business."""

    name: str
    put: Callable[[str, Furniture], Sent]


@dataclass(frozen=True, slots=True)
class Route:
    """A method of a route, and its places for ids."""

    method: str
    template: str
    places: Sequence[Place] = ()
    open: bool = False
    """Whether it answers anybody."""
    body: Json | None = None
    """A valid one."""
    own: Callable[[Furniture], Mapping[str, str]] = lambda _: {}
    """The path of a request about the caller's own things."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.template}"

    async def send(self, caller: Caller, sent: Sent, **options: Any) -> Answer:
        return await caller.send(
            self.method,
            self.template,
            sent.body if sent.body is not None else self.body,
            path=sent.path,
            query=sent.query,
            headers=sent.headers,
            **options,
        )


def _path(parameter: str, body: Json | None = None, **others: Callable[[Furniture], str]) -> Place:
    """A parameter of the path; `others` are those that the caller fills with an id of its own."""

    def put(identifier: str, own: Furniture) -> Sent:
        return Sent({parameter: identifier, **{name: get(own) for name, get in others.items()}}, body)

    return Place(f"path {parameter}" + (f" with own {', '.join(others)}" if others else ""), put)


def _both(identifier: str, own: Furniture) -> Sent:
    return Sent({"conversation_id": identifier, "item_id": identifier})


def _query(parameter: str, get: Callable[[Furniture], Mapping[str, str]]) -> Place:
    return Place(f"query {parameter}", lambda identifier, own: Sent(get(own), query={parameter: [identifier]}))


def _header(name: str, body: Json | None) -> Place:
    return Place(f"header {name}", lambda identifier, own: Sent(body=body, headers={name: identifier}))


_SAY = {"role": "user", "content": "hi"}


def _item(identifier: str) -> Iterator[tuple[str, list[Json]]]:
    """Items that name something."""
    yield "item_reference", [{"type": "item_reference", "id": identifier}]
    yield "item with an id only", [{"id": identifier}]
    yield "item id", [{**_SAY, "id": identifier}]
    yield (
        "function_call_output",
        [{"type": "function_call_output", "call_id": identifier, "output": "x"}],
    )
    yield (
        "mcp_approval_response",
        [{"type": "mcp_approval_response", "approval_request_id": identifier, "approve": True}],
    )


_ITEMS = [name for name, _ in _item("")]


def _in_items(member: str, **more: Any) -> list[Place]:
    """An id in an item of the body's array `member`."""

    def place(index: int) -> Callable[[str, Furniture], Sent]:
        return lambda identifier, own: Sent(body={member: list(_item(identifier))[index][1], **more})

    return [Place(f"{member} {name}", place(index)) for index, name in enumerate(_ITEMS)]


def _in_conversation_items(index: int) -> Callable[[str, Furniture], Sent]:
    return lambda identifier, own: Sent(
        {"conversation_id": own.conversation}, {"items": list(_item(identifier))[index][1]}
    )


def _continuing(**more: Any) -> list[Place]:
    """The places of a request that may go on from something."""
    return [
        Place("previous_response_id", lambda id, own: Sent(body={"input": "hi", "previous_response_id": id, **more})),
        Place("conversation", lambda id, own: Sent(body={"input": "hi", "conversation": id, **more})),
        Place("conversation.id", lambda id, own: Sent(body={"input": "hi", "conversation": {"id": id}, **more})),
        *_in_items("input", **more),
    ]


def _answering(identifier: str, own: Furniture) -> Sent:
    """An answer to somebody's call, in a conversation of one's own."""
    answer = {"type": "function_call_output", "call_id": identifier, "output": "x"}
    return Sent(body={"input": [answer], "previous_response_id": own.response})


def _approving(identifier: str, own: Furniture) -> Sent:
    answer = {"type": "mcp_approval_response", "approval_request_id": identifier, "approve": True}
    return Sent(body={"input": [answer], "previous_response_id": own.response})


_CREATING = [
    *_continuing(),
    Place("call of another conversation", _answering),
    Place("approval of another conversation", _approving),
    *(Place(f"stream: {it.name}", it.put) for it in _continuing(stream=True)),
    *(Place(f"background: {it.name}", it.put) for it in _continuing(background=True)),
    *(Place(f"store=false: {it.name}", it.put) for it in _continuing(store=False)),
    *(
        _header(name, {"input": "hi"})
        for name in ("idempotency-key", "x-agent-session-id", "x-agent-user-id", "x-request-id", "openai-organization")
    ),
    _header("x-client-user", {"input": "hi"}),
    Place("model", lambda id, own: Sent(body={"input": "hi", "model": id[:256]})),
    Place("metadata", lambda id, own: Sent(body={"input": "hi", "metadata": {"id": id[:512]}})),
    Place("prompt.id", lambda id, own: Sent(body={"input": "hi", "prompt": {"id": id}})),
    Place("safety_identifier", lambda id, own: Sent(body={"input": "hi", "safety_identifier": id[:128]})),
]

_RESPONSE = "v1/responses/{response_id}"
_CONVERSATION = "v1/conversations/{conversation_id}"
_INVOCATION = "v1/invocations/{invocation_id}"


def _of_response(own: Furniture) -> Mapping[str, str]:
    return {"response_id": own.response}


def _of_conversation(own: Furniture) -> Mapping[str, str]:
    return {"conversation_id": own.conversation}


def _of_item(own: Furniture) -> Mapping[str, str]:
    return {"conversation_id": own.conversation, "item_id": own.added}


def _of_invocation(own: Furniture) -> Mapping[str, str]:
    return {"invocation_id": own.invocation}


def _stream(identifier: str, own: Furniture) -> Sent:
    return Sent({"response_id": identifier}, query={"stream": ["true"], "starting_after": ["0"]})


_ITEM_PLACES = [
    Place("path of both", _both),
    _path("conversation_id", item_id=lambda own: own.added),
    _path("item_id", conversation_id=lambda own: own.conversation),
]

_TABLE = [
    Route("POST", "v1/responses", _CREATING, body={"input": "hi"}),
    Route("POST", "v1/responses/input_tokens", _continuing(), body={"input": "hi"}),
    Route("POST", "v1/responses/compact", _continuing(model="agent"), body={"input": "hi", "model": "agent"}),
    Route("GET", _RESPONSE, [_path("response_id"), Place("path, stream", _stream)], own=_of_response),
    Route("DELETE", _RESPONSE, [_path("response_id")], own=_of_response),
    Route("POST", f"{_RESPONSE}/cancel", [_path("response_id")], own=_of_response),
    Route(
        "GET",
        f"{_RESPONSE}/input_items",
        [_path("response_id"), _query("after", _of_response)],
        own=_of_response,
    ),
    Route("POST", "v1/conversations", _in_items("items"), body={}),
    Route("GET", _CONVERSATION, [_path("conversation_id")], own=_of_conversation),
    Route(
        "POST",
        _CONVERSATION,
        [_path("conversation_id", {"metadata": {"a": "b"}})],
        body={"metadata": {}},
        own=_of_conversation,
    ),
    Route("DELETE", _CONVERSATION, [_path("conversation_id")], own=_of_conversation),
    Route(
        "GET",
        f"{_CONVERSATION}/items",
        [_path("conversation_id"), _query("after", _of_conversation)],
        own=_of_conversation,
    ),
    Route(
        "POST",
        f"{_CONVERSATION}/items",
        [
            _path("conversation_id", {"items": [_SAY]}),
            *(Place(f"own, items {name}", _in_conversation_items(index)) for index, name in enumerate(_ITEMS)),
        ],
        body={"items": [_SAY]},
        own=_of_conversation,
    ),
    Route("GET", f"{_CONVERSATION}/items/{{item_id}}", _ITEM_PLACES, own=_of_item),
    Route("DELETE", f"{_CONVERSATION}/items/{{item_id}}", _ITEM_PLACES, own=_of_item),
    Route("GET", "v1/models"),
    Route("GET", "v1/models/{model}", [_path("model")], own=lambda _: {"model": "agent"}),
    Route("GET", "v1/openapi.json"),
    Route("GET", "readiness", open=True),
    Route(
        "POST",
        "v1/invocations",
        [
            _header("x-agent-invocation-id", {"a": 1}),
            _header("x-agent-session-id", {"a": 1}),
            Place("agent_session_id", lambda id, own: Sent(body={"a": 1}, query={"agent_session_id": [id]})),
        ],
        body={"a": 1},
    ),
    Route("GET", _INVOCATION, [_path("invocation_id")], own=_of_invocation),
    Route("POST", f"{_INVOCATION}/cancel", [_path("invocation_id")], own=_of_invocation),
]

ROUTES: Mapping[str, Route] = {route.name: route for route in _TABLE}
