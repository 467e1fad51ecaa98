"""Errors as an OpenAI client sees them: an HTTP status and `{"error": {"message", "type", "param", "code"}}`.

SDKs choose the exception class by status and let programs branch on `code` and `param`, so each case has one maker
here and nobody writes an error body by hand. Messages are public: no text of an exception, no traceback and nothing of
another tenant goes into one.
"""

import math
import random
from collections.abc import Mapping
from typing import Literal, TypedDict

__all__ = ["ApiError", "ErrorBody", "ErrorDetail", "InvalidRequest", "json_type", "shortened"]

_INVALID_REQUEST = "invalid_request_error"
_NO_RETRY = {"x-should-retry": "false"}


class ErrorDetail(TypedDict):
    """The four keys that are always there; the AI SDK refuses an error whose `type` is no string."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(TypedDict):
    """The JSON of every 4xx and 5xx answer."""

    error: ErrorDetail


class ApiError(Exception):
    """An error with its HTTP form. `headers` are extra response headers, such as `retry-after` (seconds).

    The makers below are the rows of the table of errors in OpenAI's API; each says when it is the right one.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 500,
        type: str = "server_error",
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.type = type
        self.code = code
        self.param = param
        self.headers: dict[str, str] = dict(headers or {})

    def body(self) -> ErrorBody:
        """The JSON body that goes with `status`."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    # 400: requests that can't succeed as they are.

    @staticmethod
    def invalid_value(param: str, message: str) -> "InvalidRequest":
        """A value of the right type that is out of range or malformed."""
        return InvalidRequest(message, param=param, code="invalid_value")

    @staticmethod
    def malformed_id(param: str, value: str, prefix: str = "resp") -> "InvalidRequest":
        """An id that can't be one of ours, whoever asks: it does not begin with `prefix`."""
        return InvalidRequest(
            f"Invalid '{param}': '{shortened(value)}'. Expected an ID that begins with '{prefix}'.",
            param=param,
            code="invalid_value",
        )

    @staticmethod
    def unsupported(param: str, message: str) -> "InvalidRequest":
        """Something that the protocol has and this server (or this combination of parameters) does not."""
        return InvalidRequest(message, param=param, code="unsupported_parameter")

    @staticmethod
    def previous_response_not_found(response_id: str) -> "InvalidRequest":
        """Unknown, deleted, expired, made with `store: false` or another tenant's: all look the same from outside."""
        return InvalidRequest(
            f"Previous response with id '{shortened(response_id)}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )

    @staticmethod
    def context_too_long(limit: int) -> "InvalidRequest":
        """What a request goes on from or refers to has more than `limit` bytes. (OpenAI counts tokens, and means the same.)"""
        return InvalidRequest(
            f"The conversation that this request continues, or the items that it refers to, exceed the limit of {limit} bytes. "
            "Start a new conversation, or make this one shorter with /v1/responses/compact.",
            param="input",
            code="context_length_exceeded",
        )

    @staticmethod
    def model_not_found(model: str) -> "InvalidRequest":
        """The request names a model (here: an agent) that the app does not have."""
        return InvalidRequest(
            f"The requested model '{shortened(model)}' does not exist.", param="model", code="model_not_found"
        )

    @staticmethod
    def not_streamable(reason: Literal["foreground", "not_streamed", "expired"] = "foreground") -> "InvalidRequest":
        """GET with `stream=true` of a response that has no stored events to replay."""
        message = {
            "foreground": "This response cannot be streamed because it was not created with background=true.",
            "not_streamed": "This response cannot be streamed because it was not created with stream=true.",
            "expired": "This response can no longer be streamed because its events have expired.",
        }[reason]
        return InvalidRequest(message, param="stream")

    @staticmethod
    def not_cancellable() -> "InvalidRequest":
        """Only background responses can be cancelled; a foreground one ends with its connection."""
        return InvalidRequest("Cannot cancel a synchronous response.", param="response_id")

    @staticmethod
    def in_flight() -> "InvalidRequest":
        """DELETE of a response that is still running."""
        return InvalidRequest("Cannot delete an in-flight response.", param="response_id")

    # 401

    @staticmethod
    def invalid_api_key(message: str = "Incorrect API key provided.") -> "ApiError":
        """OpenAI gives a 401 the type invalid_request_error; clients look at the status and the code."""
        return ApiError(
            message,
            status=401,
            type=_INVALID_REQUEST,
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )

    @staticmethod
    def missing_api_key(message: str = "You didn't provide an API key.") -> "ApiError":
        """401 for a request that says nothing about its caller. The code is null, as at OpenAI."""
        return ApiError(message, status=401, type=_INVALID_REQUEST, headers={"www-authenticate": "Bearer"})

    # 403

    @staticmethod
    def account_deactivated() -> "ApiError":
        """An operator has suspended the caller. No 401: the key is right, and a client need not ask for another one."""
        return ApiError(
            "This account is suspended. Ask whoever runs this service.",
            status=403,
            type=_INVALID_REQUEST,
            code="account_deactivated",
            headers=_NO_RETRY,
        )

    # 404, 405

    @staticmethod
    def response_not_found(response_id: str) -> "ApiError":
        """GET, DELETE, cancel or input_items of an id that does not exist for this caller."""
        return _not_found(f"Response with id '{shortened(response_id)}' not found.", "response_id")

    @staticmethod
    def conversation_not_found(conversation_id: str) -> "ApiError":
        """The conversation of a URL or of a request does not exist for this caller."""
        return _not_found(f"Conversation with id '{shortened(conversation_id)}' not found.", "conversation")

    @staticmethod
    def item_not_found(item_id: str) -> "ApiError":
        """The item of a URL does not exist; for an `item_reference` see `reference_not_found`."""
        return _not_found(f"Item with id '{shortened(item_id)}' not found.", "item_id")

    @staticmethod
    def reference_not_found(item_id: str) -> "InvalidRequest":
        """An `item_reference` in `input` points at no item of this caller."""
        return InvalidRequest(f"Item with id '{shortened(item_id)}' not found.", param="input")

    @staticmethod
    def unknown_route(method: str, path: str) -> "ApiError":
        """A path that no route has."""
        return _not_found(f"Invalid URL ({method} {shortened(path)})")

    @staticmethod
    def method_not_allowed(method: str, path: str, allowed: tuple[str, ...] = ()) -> "ApiError":
        """A known path with a verb that it does not take; `allowed` goes into the `allow` header."""
        return ApiError(
            f"Not allowed to {method} on {shortened(path)}.",
            status=405,
            type=_INVALID_REQUEST,
            code="method_not_allowed",
            headers={"allow": ", ".join(allowed)} if allowed else None,
        )

    # 408, 409, 413, 429

    @staticmethod
    def request_timeout(seconds: float) -> "ApiError":
        """408: the body did not arrive within `seconds`. What may still arrive of it is not read, so the connection ends."""
        return ApiError(
            f"The request body did not arrive within {seconds:g} seconds.",
            status=408,
            type=_INVALID_REQUEST,
            code="request_timeout",
            headers={"connection": "close"},
        )

    @staticmethod
    def conversation_locked() -> "ApiError":
        """409: another turn has the conversation (seed). Nothing was run, so SDKs may and do repeat the request by themselves.

        OpenAI's own API is reported to answer 400 with the same code, which SDKs do not repeat (openai-agents does).
        """
        message = "Another process is currently operating on this conversation. Please retry in a few seconds."
        code = "conversation_locked"
        # Two tries of an SDK half a second apart would be over before most turns are, and all losers would come back at once.
        headers = {"retry-after": str(random.randint(1, 3))}
        return ApiError(message, status=409, type=_INVALID_REQUEST, code=code, param="conversation", headers=headers)

    @staticmethod
    def conflict(message: str, *, code: str, param: str | None = None, retry: bool = False) -> "ApiError":
        """409. SDKs retry it by themselves, which is useless unless `retry` says that it can help."""
        headers = None if retry else _NO_RETRY
        return ApiError(message, status=409, type=_INVALID_REQUEST, code=code, param=param, headers=headers)

    @staticmethod
    def request_too_large(limit: int) -> "ApiError":
        """413; `limit` is in bytes."""
        return ApiError(
            f"The request body is larger than the limit of {limit} bytes.",
            status=413,
            type=_INVALID_REQUEST,
            code="request_too_large",
        )

    @staticmethod
    def rate_limited(message: str, *, retry_after: float | None = None) -> "ApiError":
        """429. `retry_after` in seconds; openai-python gives up at once when it is above 120."""
        headers = _retry_after(retry_after) if retry_after is not None else None
        return ApiError(message, status=429, type="rate_limit_error", code="rate_limit_exceeded", headers=headers)

    # 5xx

    @staticmethod
    def server_error(*, retry: bool = False) -> "ApiError":
        """500 with a fixed sentence. Without `retry`, SDKs are told not to run the agent a second time."""
        return ApiError(
            "The server had an error while processing your request.",
            status=500,
            code="server_error",
            headers=None if retry else _NO_RETRY,
        )

    @staticmethod
    def unavailable(*, retry_after: int = 1) -> "ApiError":
        """503: storage or the host can't be reached for now. `retry_after` in seconds."""
        return ApiError(
            "The server is not available for now. Please retry.",
            status=503,
            code="service_unavailable",
            headers={"retry-after": str(retry_after)},
        )

    @staticmethod
    def overloaded(*, retry_after: float = 1) -> "ApiError":
        """503: this process has all the work that it may have, whoever asks. `retry_after` in seconds."""
        return ApiError(
            "The server is overloaded for now. Please retry.",
            status=503,
            code="server_is_overloaded",
            headers=_retry_after(retry_after),
        )


class InvalidRequest(ApiError, ValueError):
    """A request that can never succeed as it is: HTTP 400. `param` is a path such as `input[0].content[1].text`.

    It is a ValueError, because the helpers promise that a malformed body raises nothing else.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message, status=400, type=_INVALID_REQUEST, code=code, param=param)

    @classmethod
    def missing(cls, param: str) -> "InvalidRequest":
        """A required parameter is absent or null."""
        return cls(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")

    @classmethod
    def wrong_type(cls, param: str, expected: str, value: object) -> "InvalidRequest":
        """A parameter has another JSON type than `expected`, which reads like "a string"."""
        return cls(
            f"Invalid type for '{param}': expected {expected}, but got {json_type(value)} instead.",
            param=param,
            code="invalid_type",
        )

    @classmethod
    def not_one_of(cls, param: str, value: str, supported: tuple[str, ...]) -> "InvalidRequest":
        """A string outside a closed list."""
        listed = ", ".join(f"'{name}'" for name in supported)
        return cls(
            f"Invalid value: '{shortened(value)}'. Supported values are: {listed}.", param=param, code="invalid_value"
        )

    @classmethod
    def array_too_long(cls, param: str, limit: int, length: int) -> "InvalidRequest":
        """An array with more than `limit` entries."""
        return cls(
            f"Invalid '{param}': array too long. Expected an array with maximum length {limit}, but got an array with "
            f"length {length} instead.",
            param=param,
            code="array_above_max_length",
        )

    @classmethod
    def duplicate_item(cls, param: str, item_id: str) -> "InvalidRequest":
        """An item with this id is in the conversation already, or comes twice."""
        return cls(
            f"Duplicate item found with id {shortened(item_id)}. Remove duplicate items from your input and try again.",
            param=param,
        )

    @classmethod
    def mutually_exclusive(cls, param: str, other: str) -> "InvalidRequest":
        """Two parameters that give one request two different pasts."""
        return cls(
            f"Mutually exclusive parameters: '{param}' and '{other}'. Ensure you are only providing one of them.",
            param=param,
            code="mutually_exclusive_parameters",
        )


def _retry_after(seconds: float) -> dict[str, str]:
    """In whole seconds for everybody, and exactly for the SDKs, which look for milliseconds first. Never 0: they ignore it."""
    exact = {} if seconds == int(seconds) >= 1 else {"retry-after-ms": str(max(1, math.ceil(seconds * 1000)))}
    return {"retry-after": str(max(1, math.ceil(seconds)))} | exact


def _not_found(message: str, param: str | None = None) -> ApiError:
    return ApiError(message, status=404, type=_INVALID_REQUEST, param=param)


def json_type(value: object) -> str:
    """What JSON calls the type of `value`, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a decimal"
        case str():
            return "a string"
        case list() | tuple():
            return "an array"
        case _:
            return "an object"


def shortened(value: str, limit: int = 128) -> str:
    """`value` as it may be repeated in a message: what a client sent does not come back by the megabyte."""
    return value if len(value) <= limit else value[:limit] + "..."
