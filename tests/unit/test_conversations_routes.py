"""The Conversations API without HTTP: what it takes, what it answers, and the real client on top of it."""

import json
import re
from typing import Any

import httpx2
import openai
import pytest
from openai.types.conversations import (
    Conversation,
    ConversationDeletedResource,
    ConversationItem,
    ConversationItemList,
)
from pydantic import TypeAdapter

from hosting.ids import conversation_id
from hosting.keys import mint_key
from hosting.responses import ApiError
from hosting.server import Request, Response, ResponsesServer
from hosting.server.caller import Callers
from hosting.server.conversations import ConversationRoutes
from hosting.server.limits import Limits
from hosting.settings import load_settings
from hosting.state.conversation_turns import ConversationTurns
from hosting.storage import MemoryBlobs, MemoryTables, StorageUnavailable, Store

type Json = dict[str, Any]

ALL, ONE = "v1/conversations", "v1/conversations/{conversation_id}"
ITEMS, ITEM = f"{ONE}/items", f"{ONE}/items/{{item_id}}"
USER = {"role": "user", "content": "hi"}


class Tables(MemoryTables):
    """Storage that can be switched off."""

    works = True

    async def get(self, *args: Any, **options: Any) -> Any:
        if not self.works:
            raise StorageUnavailable("switched off")
        return await super().get(*args, **options)


class Api:
    """The routes behind the server that makes answers of errors."""

    def __init__(self, **env: str) -> None:
        self.tables = Tables()
        self.store = Store(self.tables, MemoryBlobs())
        self.settings = settings = load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development", **env})
        self.server = ResponsesServer(None, settings, lambda: self.store)
        routes = ConversationRoutes(
            Callers(settings), Limits(settings, lambda: self.store), settings, lambda: self.store
        ).routes
        self.server.routes = {**self.server.routes, **routes}
        self.headers: dict[str, str] = {}

    async def send(self, method: str, path: str, body: object = None, **query: str) -> tuple[int, Json]:
        """`body` as JSON, bytes as they are, None for no body."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        response = await self.answer(method, path, raw, {name: [value] for name, value in query.items()})
        assert isinstance(response.body, bytes)
        return response.status, json.loads(response.body)

    async def answer(self, method: str, path: str, raw: bytes, query: dict[str, list[str]]) -> Response:
        async def read(limit: int) -> bytes:
            if len(raw) > limit:
                raise ApiError.request_too_large(limit)
            return raw

        for route in self.server.routes:
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]*)", route)
            if match := re.fullmatch(pattern, path):
                request = Request(method, f"/{path}", self.headers, query, match.groupdict(), read=read)
                return await self.server.handle(route, request)
        return await self.server.handle(None, Request(method, f"/{path}"))

    async def ok(self, method: str, path: str, body: object = None, **query: str) -> Json:
        status, found = await self.send(method, path, body, **query)
        assert status == 200, found
        return found

    async def refused(self, method: str, path: str, body: object = None, **query: str) -> tuple[int, Json]:
        status, found = await self.send(method, path, body, **query)
        assert found.keys() == {"error"}, found
        assert found["error"].keys() == {"message", "type", "param", "code"}
        assert found["error"]["type"] == "invalid_request_error"
        return status, found["error"]

    async def begin(self, *items: Json) -> str:
        return (await self.ok("POST", ALL, {"items": list(items)}))["id"]

    def turns(self) -> ConversationTurns:
        """The same conversations, as whoever runs turns has them."""
        return ConversationTurns(self.store, Callers(self.settings).scope(Request("POST", "/")))


@pytest.fixture
def api() -> Api:
    return Api()


def strict(kind: Any, value: object) -> None:
    TypeAdapter(kind).validate_python(value, strict=True)


# Conversations


@pytest.mark.parametrize("body", [None, b"", b" \n", {}, {"metadata": None, "items": None}, {"unknown": 1}])
async def test_a_conversation_needs_nothing_to_begin(api: Api, body: object) -> None:
    made = await api.ok("POST", ALL, body)
    strict(Conversation, made)
    assert (made["object"], made["metadata"]) == ("conversation", {})
    assert await api.ok("GET", f"{ALL}/{made['id']}") == made


async def test_a_conversation_begins_with_metadata_and_items(api: Api) -> None:
    made = await api.ok("POST", ALL, {"metadata": {"topic": "boats"}, "items": [USER, {**USER, "id": "mine"}]})
    assert made["metadata"] == {"topic": "boats"}
    listed = await api.ok("GET", f"{ALL}/{made['id']}/items")
    strict(ConversationItemList, listed)
    assert (len(listed["data"]), listed["first_id"]) == (2, "mine")


async def test_metadata_is_replaced_and_cleared(api: Api) -> None:
    path = f"{ALL}/{await api.begin()}"
    changed = await api.ok("POST", path, {"metadata": {"a": "1"}})
    strict(Conversation, changed)
    assert changed["metadata"] == {"a": "1"}
    assert (await api.ok("POST", path, {"metadata": None}))["metadata"] == {}
    assert (await api.ok("GET", path))["metadata"] == {}


async def test_an_update_needs_metadata(api: Api) -> None:
    status, error = await api.refused("POST", f"{ALL}/{await api.begin()}", {})
    assert (status, error["code"], error["param"]) == (400, "missing_required_parameter", "metadata")


async def test_a_deleted_conversation_is_not_found_any_more(api: Api) -> None:
    path = f"{ALL}/{await api.begin(USER)}"
    gone = await api.ok("DELETE", path)
    strict(ConversationDeletedResource, gone)
    assert gone == {"id": path.removeprefix(f"{ALL}/"), "object": "conversation.deleted", "deleted": True}
    for method, where, body in (
        ("GET", path, None),
        ("DELETE", path, None),
        ("POST", path, {"metadata": {}}),
        ("GET", f"{path}/items", None),
        ("POST", f"{path}/items", {"items": [USER]}),
        ("POST", f"{path}/items", {"items": []}),
        ("GET", f"{path}/items/msg_1", None),
        ("DELETE", f"{path}/items/msg_1", None),
    ):
        status, error = await api.refused(method, where, body)
        assert (status, error["code"]) == (404, None)
        assert error["message"] == f"Conversation with id '{gone['id']}' not found."


@pytest.mark.parametrize("identifier", ["resp_" + "0" * 50, "abc", ""])
async def test_an_id_that_can_be_none_is_malformed(api: Api, identifier: str) -> None:
    for method, path, body in (
        ("GET", f"{ALL}/{identifier}", None),
        ("POST", f"{ALL}/{identifier}/items", {"items": [USER]}),
        ("DELETE", f"{ALL}/{identifier}/items/msg_1", None),
    ):
        status, error = await api.refused(method, path, body)
        assert (status, error["code"], error["param"]) == (400, "invalid_value", "conversation_id")


@pytest.mark.parametrize("identifier", [conversation_id(), "conv_x", "conv_"], ids=["ours", "foreign", "empty"])
async def test_an_id_that_nobody_has_is_not_found(api: Api, identifier: str) -> None:
    status, error = await api.refused("GET", f"{ALL}/{identifier}")
    assert (status, error["message"]) == (404, f"Conversation with id '{identifier}' not found.")


async def test_a_conversation_of_another_tenant_is_not_found() -> None:
    minted = [mint_key(tenant) for tenant in ("one", "two")]
    api = Api(HOSTING_API_KEYS=",".join(kept.entry for _, kept in minted))
    assert (await api.refused("POST", ALL))[0] == 401
    api.headers = {"authorization": f"Bearer {minted[0][0]}"}
    path = f"{ALL}/{await api.begin(USER)}"
    item = (await api.ok("GET", f"{path}/items"))["first_id"]
    api.headers = {"authorization": f"Bearer {minted[1][0]}"}
    for method, where, body in (
        ("GET", path, None),
        ("DELETE", path, None),
        ("POST", f"{path}/items", {"items": [USER]}),
        ("GET", f"{path}/items/{item}", None),
    ):
        assert (await api.refused(method, where, body))[0] == 404
    status, error = await api.refused("POST", ALL, {"items": [{"type": "item_reference", "id": item}]})
    assert (status, error["param"]) == (400, "items")


@pytest.mark.parametrize(
    ("metadata", "code", "param"),
    [
        ("x", "invalid_type", "metadata"),
        ({"a": 1}, "invalid_type", "metadata.a"),
        ({"a": None}, "invalid_type", "metadata.a"),
        ({str(n): "" for n in range(17)}, "object_above_max_properties", "metadata"),
        ({"k" * 65: ""}, "string_above_max_length", "metadata"),
        ({"k": "v" * 513}, "string_above_max_length", "metadata.k"),
    ],
)
async def test_metadata_has_the_limits_of_a_response(api: Api, metadata: object, code: str, param: str) -> None:
    identifier = await api.begin()
    for path in (ALL, f"{ALL}/{identifier}"):
        status, error = await api.refused("POST", path, {"metadata": metadata})
        assert (status, error["code"], error["param"]) == (400, code, param)


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'"x"', b"\xff"])
async def test_a_body_that_is_no_object_is_refused(api: Api, body: bytes) -> None:
    identifier = await api.begin()
    for path in (ALL, f"{ALL}/{identifier}", f"{ALL}/{identifier}/items"):
        assert (await api.refused("POST", path, body))[0] == 400


async def test_a_body_that_is_too_long_is_refused() -> None:
    api = Api(HOSTING_MAX_REQUEST_BYTES="2048")
    status, error = await api.refused("POST", ALL, {"items": [{**USER, "content": "x" * 3_000}]})
    assert (status, error["code"]) == (413, "request_too_large")


# Items

# What clients save: of every kind something in the form that they send it.
SAVED: list[Json] = [
    USER,
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "hi"},
            {"type": "input_image", "image_url": "https://example.com/a.png"},
        ],
    },
    {"role": "assistant", "content": "hello"},
    {"type": "message", "role": "developer", "content": "be kind", "id": "msg_mine"},
    {"type": "reasoning", "summary": []},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": None},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "status": None, "id": None},
    {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    {"type": "mcp_call", "id": "mcp_1", "name": "f", "server_label": "s", "arguments": "{}", "output": "ok"},
    {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "server_label": "s", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="},
    {"type": "compaction", "encrypted_content": "x"},
]


async def test_added_items_are_answered_and_no_others(api: Api) -> None:
    path = f"{ALL}/{await api.begin(USER)}/items"
    added = await api.ok("POST", path, {"items": SAVED}, **{"include[]": "reasoning.encrypted_content"})
    strict(ConversationItemList, added)
    assert [item.get("type", "message") for item in SAVED] == [item["type"] for item in added["data"]]
    ids = [item["id"] for item in added["data"]]
    assert len(set(ids)) == len(ids)
    assert (added["object"], added["has_more"]) == ("list", False)
    assert (added["first_id"], added["last_id"]) == (ids[0], ids[-1])
    assert (await api.ok("GET", path, order="asc", limit="100"))["data"][1:] == added["data"]


async def test_an_item_is_found_by_its_id(api: Api) -> None:
    path = f"{ALL}/{await api.begin(USER, {**USER, 'id': 'mine'})}/items"
    for item in (await api.ok("GET", path))["data"]:
        found = await api.ok("GET", f"{path}/{item['id']}", include="message.input_image.image_url")
        strict(ConversationItem, found)
        assert found == item


async def test_deleting_an_item_answers_with_the_conversation(api: Api) -> None:
    identifier = await api.begin(USER, {**USER, "id": "mine"})
    path = f"{ALL}/{identifier}/items"
    left = await api.ok("DELETE", f"{path}/mine")
    strict(Conversation, left)
    assert left["id"] == identifier
    status, error = await api.refused("GET", f"{path}/mine")
    assert (status, error["message"]) == (404, "Item with id 'mine' not found.")
    assert len((await api.ok("GET", path))["data"]) == 1


async def test_an_empty_list_of_items_adds_nothing(api: Api) -> None:
    added = await api.ok("POST", f"{ALL}/{await api.begin(USER)}/items", {"items": []})
    assert added == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


async def test_an_empty_conversation_lists_nothing(api: Api) -> None:
    listed = await api.ok("GET", f"{ALL}/{await api.begin()}/items")
    assert listed == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@pytest.mark.parametrize(
    ("items", "code", "param"),
    [
        ("x", "invalid_type", "items"),
        ([USER] * 21, "array_above_max_length", "items"),
        (["x"], "invalid_type", "items[0]"),
        ([USER, {"role": 1, "content": "x"}], "invalid_type", "items[1].role"),
        ([{"role": "nobody", "content": "x"}], "invalid_value", "items[0].role"),
        ([{"role": "user"}], "missing_required_parameter", "items[0].content"),
        ([{"type": "function_call", "call_id": "c"}], "missing_required_parameter", "items[0].name"),
        ([{**USER, "id": "same"}, {**USER, "id": "same"}], None, "items"),
        ([{"type": "item_reference", "id": "msg_unknown"}], None, "items"),
    ],
)
async def test_items_are_refused_as_those_of_an_input_are(
    api: Api, items: object, code: str | None, param: str
) -> None:
    identifier = await api.begin()
    for path in (ALL, f"{ALL}/{identifier}/items"):
        status, error = await api.refused("POST", path, {"items": items})
        assert (status, error["code"], error["param"]) == (400, code, param)
        assert "input[" not in error["message"]
    assert (await api.ok("GET", f"{ALL}/{identifier}/items"))["data"] == []


@pytest.mark.parametrize("body", [{}, {"items": None}])
async def test_adding_needs_items(api: Api, body: Json) -> None:
    status, error = await api.refused("POST", f"{ALL}/{await api.begin()}/items", body)
    assert (status, error["code"], error["param"]) == (400, "missing_required_parameter", "items")


async def test_an_item_that_is_there_already_is_refused_by_its_id(api: Api) -> None:
    path = f"{ALL}/{await api.begin(USER)}/items"
    stored = (await api.ok("GET", path))["data"][0]
    status, error = await api.refused("POST", path, {"items": [stored]})
    assert status == 400
    assert error["message"].startswith(f"Duplicate item found with id {stored['id']}")
    assert len((await api.ok("GET", path))["data"]) == 1


async def test_a_reference_is_the_item_that_it_names(api: Api) -> None:
    first = await api.begin(USER)
    stored = (await api.ok("GET", f"{ALL}/{first}/items"))["data"][0]
    second = await api.begin({"type": "item_reference", "id": stored["id"]})
    assert (await api.ok("GET", f"{ALL}/{second}/items"))["data"] == [stored]


async def test_a_conversation_in_which_a_turn_runs_is_locked(api: Api) -> None:
    identifier = await api.begin(USER)
    turns = api.turns()
    past = await turns.read(identifier, history=False)
    held = await turns.hold(past.conversation, past.turn().response_id, 1e12)
    path = f"{ALL}/{identifier}"
    item = (await api.ok("GET", f"{path}/items"))["first_id"]
    for method, where, body in (("POST", f"{path}/items", {"items": [USER]}), ("DELETE", f"{path}/items/{item}", None)):
        status, error = await api.refused(method, where, body)
        assert (status, error["code"], error["param"]) == (409, "conversation_locked", "conversation")
    await api.ok("POST", path, {"metadata": {"a": "1"}})
    await turns.release(held, held.holder or "")
    await api.ok("POST", f"{path}/items", {"items": [USER]})


async def test_storage_that_is_away_is_a_503_that_clients_retry(api: Api) -> None:
    path = f"{ALL}/{await api.begin(USER)}"
    api.tables.works = False
    status, answer = await api.send("GET", path)
    assert (status, answer["error"]["code"]) == (503, "service_unavailable")


# Lists


@pytest.mark.parametrize(("order", "expected"), [("asc", "0 1 2 3 4 5 6"), ("desc", "6 5 4 3 2 1 0")])
async def test_pages_go_on_behind_the_last_id(api: Api, order: str, expected: str) -> None:
    path = f"{ALL}/{await api.begin(*({**USER, 'content': str(number)} for number in range(7)))}/items"
    seen: list[str] = []
    after: dict[str, str] = {}
    for _ in range(9):
        page = await api.ok("GET", path, order=order, limit="3", **after)
        seen += [item["content"][0]["text"] for item in page["data"]]
        assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
        after = {"after": page["last_id"]}
        if not page["has_more"]:
            break
    assert " ".join(seen) == expected


async def test_a_list_is_newest_first_and_twenty_long_unless_it_is_asked_for_otherwise(api: Api) -> None:
    identifier = await api.begin(*({**USER, "content": str(number)} for number in range(20)))
    await api.ok("POST", f"{ALL}/{identifier}/items", {"items": [{**USER, "content": "20"}]})
    page = await api.ok("GET", f"{ALL}/{identifier}/items")
    assert [item["content"][0]["text"] for item in page["data"]] == [str(number) for number in range(20, 0, -1)]
    assert page["has_more"] is True


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "0"), ("limit", "101"), ("limit", "x"), ("order", "up"), ("after", "msg_unknown")],
)
async def test_a_query_that_no_list_has_is_refused(api: Api, name: str, value: str) -> None:
    path = f"{ALL}/{await api.begin(USER)}/items"
    status, error = await api.refused("GET", path, **{name: value})
    assert (status, error["code"], error["param"]) == (400, "invalid_value", name)


# The real client


@pytest.fixture
async def client(api: Api) -> Any:
    async def handle(request: httpx2.Request) -> httpx2.Response:
        query: dict[str, list[str]] = {}
        for name, value in request.url.params.multi_items():
            query.setdefault(name, []).append(value)
        path = request.url.path.lstrip("/")
        answer = await api.answer(request.method, path, await request.aread(), query)
        assert isinstance(answer.body, bytes)
        headers = {"content-type": answer.media_type, **answer.headers}
        return httpx2.Response(answer.status, headers=headers, content=answer.body)

    transport = httpx2.MockTransport(handle)
    async with httpx2.AsyncClient(transport=transport) as http:
        yield openai.AsyncOpenAI(base_url="http://app/v1", api_key="any", max_retries=0, http_client=http)


async def test_the_client_keeps_a_conversation(client: openai.AsyncOpenAI) -> None:
    made = await client.conversations.create(metadata={"a": "1"}, items=[{"role": "user", "content": "hi"}])
    assert (await client.conversations.retrieve(made.id)).metadata == {"a": "1"}
    assert (await client.conversations.update(made.id, metadata={"b": "2"})).metadata == {"b": "2"}
    added = await client.conversations.items.create(made.id, items=[{"type": "reasoning", "id": "rs_1", "summary": []}])
    assert [item.id for item in added.data] == ["rs_1"]
    item = await client.conversations.items.retrieve("rs_1", conversation_id=made.id)
    assert item.type == "reasoning"
    assert (await client.conversations.items.delete("rs_1", conversation_id=made.id)).id == made.id
    assert (await client.conversations.delete(made.id)).deleted is True
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(made.id)


async def test_the_client_walks_through_all_pages_once(client: openai.AsyncOpenAI) -> None:
    made = await client.conversations.create()
    for batch in range(3):
        await client.conversations.items.create(
            made.id, items=[{"role": "user", "content": f"{batch}.{number}"} for number in range(20)]
        )
    seen = [item async for item in client.conversations.items.list(made.id, limit=7, order="asc")]
    texts = [item.content[0].text for item in seen]  # type: ignore[union-attr]
    assert texts == [f"{batch}.{number}" for batch in range(3) for number in range(20)]


async def test_the_client_empties_a_conversation_while_it_lists_it(client: openai.AsyncOpenAI) -> None:
    items: Any = [{"role": "user", "content": str(number)} for number in range(20)]
    made = await client.conversations.create(items=items)
    async for item in client.conversations.items.list(made.id, limit=6):
        await client.conversations.items.delete(str(item.id), conversation_id=made.id)
    assert (await client.conversations.items.list(made.id)).data == []


async def test_a_session_takes_back_its_newest_item(client: openai.AsyncOpenAI, api: Api) -> None:
    """As the sessions of openai-agents do: list one, newest first, and delete it."""
    made = await client.conversations.create(items=[])
    await client.conversations.items.create(
        made.id,
        items=[
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        ],
    )
    page = await client.conversations.items.list(made.id, limit=1, order="desc")
    assert page.data[0].type == "function_call"
    await client.conversations.items.delete(str(page.data[0].id), conversation_id=made.id)
    past = await api.turns().read(made.id, history=True)
    assert past.conversation.open_calls == ()
    assert len(past.turn().history or []) == 1
