"""Callers that must not meet: the whole server in this process, on storage that says who touched what.

    async with secured(PAIRS["tenants by key"]) as world:
        found = await world.victim.furnished()            # one of everything that can be had
        answer = await world.attacker.send("GET", "v1/responses/{response_id}", path={"response_id": found.response})
        assert answer.status == 404

The server is the one of tests/server_world.py: task engine, streams and storage are in memory, HTTP is not there.
"""

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from hosting.keys import mint_key
from hosting.responses import ApiError
from hosting.server import Request
from hosting.server.caller import Callers
from hosting.server.invocations import InvocationRequest, Invocations
from hosting.settings import Settings, load_settings
from hosting.storage import MemoryAppendBlobs, MemoryBlobs, MemoryTables, Store
from hosting.tasks import current_scope
from tests.security.agents import hosted
from tests.server_world import World, serve, until

__all__ = ["PAIRS", "Answer", "Caller", "Furniture", "Pair", "Secured", "principal", "secured", "worked"]

type Json = dict[str, Any]

PRODUCTION = {"AZURE_FUNCTIONS_ENVIRONMENT": "Production", "WEBSITE_INSTANCE_ID": "i-1"}


def principal(provider: str | None = "aad", **claims: str) -> dict[str, str]:
    """The headers that Easy Auth puts on a request."""
    content: Json = {"claims": [{"typ": typ, "val": val} for typ, val in claims.items()]}
    if provider is not None:
        content["auth_typ"] = provider
    encoded = base64.b64encode(json.dumps(content).encode()).decode()
    return {"x-ms-client-principal": encoded, "x-ms-client-principal-id": claims.get("oid", "")}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two callers that must not meet, by the headers that say who they are, and the settings under which that holds."""

    victim: Mapping[str, str]
    attacker: Mapping[str, str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def _keys(first: tuple[str, str | None], second: tuple[str, str | None], **env: str) -> Pair:
    (one, kept), (two, other) = mint_key(*first), mint_key(*second)
    keys = f"{kept.entry},{other.entry}"
    return Pair({"authorization": f"Bearer {one}"}, {"api-key": two}, {"HOSTING_API_KEYS": keys, **env})


def _mixed() -> Pair:
    key, kept = mint_key("contoso")
    env = {"HOSTING_API_KEYS": kept.entry, "WEBSITE_AUTH_ENABLED": "true"}
    return Pair({"authorization": f"Bearer {key}"}, principal(tid="contoso", oid="ada"), env)


_EASY, _USERS = {"WEBSITE_AUTH_ENABLED": "true"}, {"HOSTING_ISOLATION": "user"}

PAIRS: Mapping[str, Pair] = {
    "tenants by key": _keys(("contoso", None), ("fabrikam", None)),
    "tenants by token": Pair(principal(tid="t-1", oid="u-1"), principal(tid="t-2", oid="u-1"), _EASY),
    "a key's tenant and a token's of the same name": _mixed(),
    "users by key": _keys(("contoso", "ada"), ("contoso", "bob"), **_USERS),
    "users by token": Pair(principal(tid="t-1", oid="u-1"), principal(tid="t-1", oid="u-2"), {**_EASY, **_USERS}),
    "a user and a key of the whole tenant": _keys(("contoso", "ada"), ("contoso", None), **_USERS),
}


_work: ContextVar[list[str] | None] = ContextVar("work", default=None)


@contextmanager
def worked() -> Generator[list[str]]:
    """What this task asks of storage in here, and not what goes on beside it."""
    calls: list[str] = []
    token = _work.set(calls)
    try:
        yield calls
    finally:
        _work.reset(token)


class SpyTables(MemoryTables):
    """Says what is asked of it, and which partitions are touched."""

    def __init__(self) -> None:
        super().__init__()
        self.touched: set[str] = set()
        self.calls: list[str] = []

    async def get(self, partition: str, *args: Any, **options: Any) -> Any:
        self._note("get", partition)
        return await super().get(partition, *args, **options)

    async def query(self, partition: str, *args: Any, **options: Any) -> Any:
        self._note("query", partition)
        return await super().query(partition, *args, **options)

    async def transact(self, partition: str, *args: Any, **options: Any) -> Any:
        self._note("transact", partition)
        return await super().transact(partition, *args, **options)

    def _note(self, what: str, partition: str) -> None:
        self.touched.add(partition)
        self.calls.append(what)
        if (own := _work.get()) is not None:
            own.append(what)

    def rows(self) -> dict[tuple[str, str], Mapping[str, str]]:
        """Everything that is stored, by partition and row."""
        return {
            (name, row): entity.properties
            for name, held in self._partitions.items()
            for row, entity in held.rows.items()
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. A stream is read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def error(self) -> Json:
        """The error; the answer must be an envelope with its four keys and nothing else."""
        body = self.json
        assert set(body) == {"error"}, body
        assert set(body["error"]) == {"message", "type", "param", "code"}
        return body["error"]

    @property
    def text(self) -> str:
        """All of it: for looking for what must not be there."""
        return "\n".join((*(f"{name}: {value}" for name, value in self.headers.items()), self.body.decode()))


@dataclass(frozen=True, slots=True)
class Furniture:
    """Ids of everything that a caller can have."""

    response: str
    """Foreground, ended."""
    items: Sequence[str]
    """Of that response: its input, its output."""
    background: str
    """Ended; its events can be followed."""
    running: str
    """In the background, until the world ends."""
    conversation: str
    added: str
    """An item of the conversation that was added by hand, with an id of ours."""
    foreign: str
    """Another one, whose id the caller has made up."""
    call: str
    """call_id of a function call that waits for the caller's output."""
    approval: str
    """Id of an approval that the agent waits for."""
    approving: str
    """The response that asks for it."""
    calling: str
    """The response that has made the call."""
    idempotency: str
    """An Idempotency-Key in use."""
    invocation: str
    """An invocation with a state that its handlers keep."""

    def ids(self) -> dict[str, str]:
        """By kind. Each is tried wherever an id can be."""
        named = {name: getattr(self, name) for name in self.__slots__ if name != "items"}
        given, made = self.items[0], self.items[-1]
        return named | {"input item": given, "output item": made}


class Caller:
    """Somebody with headers that say who it is."""

    def __init__(self, world: "Secured", headers: Mapping[str, str], canary: str) -> None:
        self._world, self.headers, self.canary = world, dict(headers), canary
        self.sent = 0

    async def send(
        self,
        method: str,
        route: str,
        body: Any = None,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        anonymous: bool = False,
    ) -> Answer:
        """A request for a route; `body` as JSON, or bytes as they are."""
        self.sent += 1
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

        async def read(limit: int) -> bytes:
            if len(raw) > limit:
                raise ApiError.request_too_large(limit)
            return raw

        url = "/" + route
        for name, value in (path or {}).items():
            url = url.replace(f"{{{name}}}", value)
        sent = {**({} if anonymous else self.headers), **(headers or {})}
        request = Request(method, url, sent, query or {}, path or {}, read=read)
        response = await self._world.server.handle(route, request)
        if isinstance(response.body, bytes):
            return Answer(response.status, response.headers, response.body)
        chunks = [chunk async for chunk in response.body]
        return Answer(response.status, response.headers, b"".join(chunks))

    async def create(self, input: Any, **body: Any) -> Json:
        """POST v1/responses; the response."""
        answer = await self.send("POST", "v1/responses", {"input": input, **body})
        assert answer.status == 200, answer.body
        return answer.json

    async def furnished(self) -> Furniture:
        """Make one of everything, with the canary in it wherever a user can say something."""
        canary = self.canary
        key = f"key-{canary}"
        made = await self.send(
            "POST", "v1/responses", {"input": canary, "metadata": {"note": canary}}, headers={"idempotency-key": key}
        )
        listed = await self.send("GET", "v1/responses/{response_id}/input_items", path={"response_id": made.json["id"]})
        background = await self.create(canary, background=True, stream=False)
        streamed = await self.send("POST", "v1/responses", {"input": canary, "background": True, "stream": True})
        identifier = json.loads(streamed.body.split(b"data: ")[1].split(b"\n")[0])["response"]["id"]
        running = await self.create(f"wait {canary}", background=True)
        tool = {"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {}}}
        calling = await self.create(f"call lookup {canary}", tools=[tool])
        approving = await self.create(f"use guarded {canary}")
        conversation = await self.send("POST", "v1/conversations", {"metadata": {"note": canary}})
        where = {"conversation_id": conversation.json["id"]}
        items = [
            {"role": "user", "content": canary},
            {"role": "user", "content": canary, "id": f"msg-of-{canary}"},
        ]
        added = await self.send("POST", "v1/conversations/{conversation_id}/items", {"items": items}, path=where)
        invoked = await self.send("POST", "v1/invocations", {"note": canary})
        assert (await self._world.ended(self, background["id"]))["status"] == "completed"
        await self._world.world.engine.settle()  # nothing of it is still being cleared away
        return Furniture(
            response=made.json["id"],
            items=[listed.json["data"][0]["id"], made.json["output"][0]["id"]],
            background=identifier,
            running=running["id"],
            conversation=conversation.json["id"],
            added=added.json["data"][0]["id"],
            foreign=added.json["data"][1]["id"],
            call=calling["output"][0]["call_id"],
            calling=calling["id"],
            approval=next(item["id"] for item in approving["output"] if item["type"] == "mcp_approval_request"),
            approving=approving["id"],
            idempotency=key,
            invocation=invoked.json["id"],
        )


class Secured:
    """A server with two callers."""

    def __init__(self, world: World, tables: SpyTables, settings: Settings, pair: Pair) -> None:
        self.world, self.tables, self.settings = world, tables, settings
        self.victim = Caller(self, pair.victim, "victim-canary")
        self.attacker = Caller(self, pair.attacker, "attacker-canary")
        self.notes: dict[tuple[str, str], Any] = {}
        self._with_invocations()

    @property
    def server(self) -> Any:
        return self.world.server

    def scope(self, caller: Caller) -> str:
        """What the keys of the caller's rows begin with."""
        return Callers(self.settings).scope(Request("GET", "/", caller.headers))

    def partitions(self, caller: Caller) -> set[str]:
        """The partitions that are the caller's."""
        return {partition for partition, _ in self.tables.rows() if partition.startswith(self.scope(caller))}

    async def ended(self, caller: Caller, identifier: str) -> Json:
        """Wait until a response of the caller's is final."""
        found: list[Json] = []

        async def final() -> bool:
            answer = await caller.send("GET", "v1/responses/{response_id}", path={"response_id": identifier})
            found[:] = [answer.json]
            return answer.json["status"] not in ("queued", "in_progress")

        await until(final)
        return found[0]

    def _with_invocations(self) -> None:
        """Handlers that keep what they are told by the caller's scope, as docs/invocations.md says."""
        invocations = Invocations(self.settings, self.server.limits)
        self.server.routes = {**self.server.routes, **invocations.routes}

        async def invoke(request: InvocationRequest) -> Any:
            body = await request.json()
            self.notes[current_scope(), request.invocation_id] = body
            if isinstance(body, dict) and "events" in body:
                return _each(body["events"])
            return {"id": request.invocation_id}

        async def get(request: InvocationRequest) -> Any:
            found = self.notes.get((current_scope(), request.invocation_id))
            if found is None:
                raise ApiError("There is no such invocation.", status=404, type="invalid_request_error")
            return found

        async def cancel(request: InvocationRequest) -> Any:
            await get(request)
            self.notes[current_scope(), request.invocation_id] = "cancelled"
            return {"id": request.invocation_id}

        for kind, handler in (("invoke", invoke), ("get", get), ("cancel", cancel)):
            invocations.register(kind, handler)


async def _each(events: Sequence[Any]) -> AsyncIterator[Any]:
    for event in events:
        yield event


@asynccontextmanager
async def secured(pair: Pair | None = None, **options: Any) -> AsyncGenerator[Secured]:
    """The server under production settings; `options` are those of `serve`."""
    pair = pair or PAIRS["tenants by key"]
    env = {**PRODUCTION, **pair.env, **options.pop("env", {})}
    tables = SpyTables()
    store = Store(tables, MemoryBlobs())
    if "handler" not in options:
        options.setdefault("hosted", hosted())
    async with serve(
        options.pop("handler", None),
        env=env,
        store=store,
        blobs=MemoryAppendBlobs(),
        **{"resilient_background": True, **options},
    ) as world:
        yield Secured(world, tables, load_settings(env), replace(pair))
