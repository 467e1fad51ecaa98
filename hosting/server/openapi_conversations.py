"""What each route of the Conversations API does, for the OpenAPI document."""

from typing import Any

from hosting.server.openapi_parts import (
    AFTER,
    INCLUDE,
    LIMIT,
    ORDER,
    deleted,
    link,
    ok,
    operation,
    ref,
    request_body,
)

__all__ = ["conversation_operations"]

type Json = dict[str, Any]
type Operations = dict[tuple[str, str], Json]


def conversation_operations() -> Operations:
    """Path template and method to an operation object."""
    return _conversations() | _conversation_items()


def _conversations() -> Operations:
    one = "v1/conversations/{conversation_id}"
    name = {"conversation_id": "$response.body#/id"}
    links: Json = {
        "get": link("getConversation", **name),
        "update": link("updateConversation", **name),
        "delete": link("deleteConversation", **name),
        "addItems": link("addConversationItems", **name),
        "items": link("listConversationItems", **name),
        "respond": {
            "operationId": "createResponse",
            "requestBody": {"input": "Hello", "conversation": "$response.body#/id"},
        },
    }
    return {
        ("v1/conversations", "POST"): operation(
            "createConversation",
            "Conversations",
            "Begin a conversation",
            ok(ref("Conversation"), "The conversation.", links=links),
            body=request_body(ref("CreateConversation"), required=False),
        ),
        (one, "GET"): operation(
            "getConversation",
            "Conversations",
            "A conversation",
            ok(ref("Conversation"), "The conversation."),
            errors=(404,),
        ),
        (one, "POST"): operation(
            "updateConversation",
            "Conversations",
            "Change the metadata of a conversation",
            ok(ref("Conversation"), "The conversation as it is now."),
            body=request_body(ref("UpdateConversation")),
            errors=(404, 409),
        ),
        (one, "DELETE"): operation(
            "deleteConversation",
            "Conversations",
            "Delete a conversation",
            ok(deleted("conversation.deleted"), "It is gone; its responses are not."),
            errors=(404, 409),
        ),
    }


def _conversation_items() -> Operations:
    items = "v1/conversations/{conversation_id}/items"
    one = items + "/{item_id}"
    return {
        (items, "GET"): operation(
            "listConversationItems",
            "Conversations",
            "The items of a conversation",
            ok(ref("ItemList"), "A page. The next one begins after `last_id`."),
            parameters=[LIMIT, ORDER, AFTER, INCLUDE],
            errors=(404,),
        ),
        (items, "POST"): operation(
            "addConversationItems",
            "Conversations",
            "Add items to a conversation",
            ok(ref("ItemList"), "The new items."),
            parameters=[INCLUDE],
            body=request_body(ref("AddItems")),
            errors=(404, 409),
        ),
        (one, "GET"): operation(
            "getConversationItem",
            "Conversations",
            "An item of a conversation",
            ok(ref("Item"), "The item."),
            parameters=[INCLUDE],
            errors=(404,),
        ),
        (one, "DELETE"): operation(
            "deleteConversationItem",
            "Conversations",
            "Delete an item of a conversation",
            ok(ref("Conversation"), "The conversation."),
            errors=(404, 409),
        ),
    }
