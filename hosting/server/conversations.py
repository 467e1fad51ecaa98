"""Conversations and their items: the Conversations API.

    POST                 v1/conversations
    GET, POST, DELETE    v1/conversations/{conversation_id}
    GET, POST            v1/conversations/{conversation_id}/items
    GET, DELETE          v1/conversations/{conversation_id}/items/{item_id}

Every endpoint raises ApiError, NotAuthenticated and StorageError, which the server makes answers of. What `include` asks for is
in the items anyway, so its names are checked and no more.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from hosting.responses import ApiError, InvalidRequest, item_references, resolve_references
from hosting.server.caller import Callers
from hosting.server.conversation_requests import parse_conversation, parse_items, parse_metadata_update
from hosting.server.http import Request, Response, json_response
from hosting.server.item_list import list_object, no_such_item, parse_page_request
from hosting.server.limits import Limits
from hosting.server.query import check_query_include
from hosting.server.stored_input import history_limit, referenced_items
from hosting.settings import Settings
from hosting.state import Turns
from hosting.state.conversation_row import ConversationLocked, ConversationNotFound, DuplicateItem, ItemNotFound
from hosting.state.conversations import Conversations
from hosting.storage import Store

__all__ = ["ConversationRoutes"]

type Item = dict[str, Any]


class ConversationRoutes:
    """The endpoints. `open_store` gives the store of the process, inside the running loop."""

    def __init__(self, callers: Callers, limits: Limits, settings: Settings, open_store: Callable[[], Store]) -> None:
        self._callers, self._limits, self._settings, self._open_store = callers, limits, settings, open_store
        one = "v1/conversations/{conversation_id}"
        self.routes: Mapping[str, Mapping[str, Callable[[Request], Awaitable[Response]]]] = {
            "v1/conversations": {"POST": self._create},
            one: {"GET": self._retrieve, "POST": self._update, "DELETE": self._delete},
            f"{one}/items": {"GET": self._list_items, "POST": self._add_items},
            f"{one}/items/{{item_id}}": {"GET": self._item, "DELETE": self._delete_item},
        }
        """As `ResponsesServer.routes`, whose `handle` makes answers of the errors that these endpoints raise."""

    async def _body(self, request: Request) -> bytes:
        return await self._limits.guarded(request, self._callers.caller(request)).read_body(
            self._settings.max_request_bytes
        )

    async def _create(self, request: Request) -> Response:
        scope = self._callers.scope(request)
        metadata, items = parse_conversation(await self._body(request))
        with _errors():
            items = await self._resolved(scope, items)
            conversation = await Conversations(self._open_store(), scope).create(metadata, items)
        return json_response(conversation.to_object())

    async def _retrieve(self, request: Request) -> Response:
        conversations, identifier = self._named(request)
        conversation = await conversations.get(identifier)
        if conversation is None:
            raise ApiError.conversation_not_found(identifier)
        return json_response(conversation.to_object())

    async def _update(self, request: Request) -> Response:
        conversations, identifier = self._named(request)
        metadata = parse_metadata_update(await self._body(request))
        with _errors(identifier):
            conversation = await conversations.update(identifier, metadata)
        return json_response(conversation.to_object())

    async def _delete(self, request: Request) -> Response:
        conversations, identifier = self._named(request)
        with _errors(identifier):
            if not await conversations.delete(identifier):
                raise ConversationNotFound(identifier)
        return json_response({"id": identifier, "object": "conversation.deleted", "deleted": True})

    async def _list_items(self, request: Request) -> Response:
        conversations, identifier = self._named(request)
        check_query_include(request.query)
        page = parse_page_request(request.query)
        with _errors(identifier):
            try:
                items, more = await conversations.items(
                    identifier, after=page.after, descending=page.descending, limit=page.limit
                )
            except ItemNotFound:
                raise no_such_item(page) from None
        return json_response(list_object(items, has_more=more))

    async def _add_items(self, request: Request) -> Response:
        conversations, identifier = self._named(request)
        check_query_include(request.query)
        items = parse_items(await self._body(request))
        with _errors(identifier):
            if items:
                resolved = await self._resolved(self._callers.scope(request), items)
                items = await conversations.append(identifier, resolved)
            elif await conversations.get(identifier) is None:
                raise ConversationNotFound(identifier)
        return json_response(list_object(items, has_more=False))

    async def _item(self, request: Request) -> Response:
        conversations, identifier = self._named(request)
        check_query_include(request.query)
        with _errors(identifier):
            return json_response(await conversations.item(identifier, request.path_params["item_id"]))

    async def _delete_item(self, request: Request) -> Response:
        conversations, identifier = self._named(request)
        with _errors(identifier):
            conversation = await conversations.delete_item(identifier, request.path_params["item_id"])
        return json_response(conversation.to_object())

    def _named(self, request: Request) -> tuple[Conversations, str]:
        """The caller's conversations, and the id in the path. Raises ApiError 400 for what could never be one."""
        conversations = Conversations(self._open_store(), self._callers.scope(request))
        identifier = request.path_params["conversation_id"]
        if not identifier.startswith("conv_"):
            raise ApiError.malformed_id("conversation_id", identifier, "conv")
        return conversations, identifier

    async def _resolved(self, scope: str, items: list[Item]) -> list[Item]:
        """The items themselves in the place of references to stored ones."""
        wanted = item_references(items)
        if not wanted:
            return items
        with history_limit(self._settings.max_history_bytes):
            turns = Turns(self._open_store(), scope)
            found = await referenced_items(turns, wanted, longest=self._settings.max_request_bytes)
        for identifier in wanted:
            if identifier not in found:
                raise InvalidRequest(ApiError.reference_not_found(identifier).message, param="items")
        return resolve_references(items, found)


@contextmanager
def _errors(identifier: str = "") -> Generator[None]:
    """What state raises, as the client sees it."""
    try:
        yield
    except ConversationNotFound:
        raise ApiError.conversation_not_found(identifier) from None
    except ConversationLocked:
        raise ApiError.conversation_locked() from None
    except ItemNotFound as error:
        raise ApiError.item_not_found(error.args[0]) from None
    except DuplicateItem as error:
        raise InvalidRequest.duplicate_item("items", error.item_id) from None
