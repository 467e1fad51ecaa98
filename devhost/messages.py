"""Plain objects in the place of the protobuf messages between the Functions host and its Python worker.

The worker library only reads attributes and calls `WhichOneof`; the names are those of FunctionRpc.proto.
"""

import base64
from types import SimpleNamespace
from typing import Any

__all__ = [
    "StatusResult",
    "invocation_request",
    "invocation_result",
    "metadata_request",
    "worker_init_request",
]


class StatusResult(SimpleNamespace):
    """StatusResult, with the values of its enum Status."""

    Failure = 0
    Success = 1
    Cancelled = 2


class BindingInfo(SimpleNamespace):
    """BindingInfo, with the values of its enums Direction and DataType."""

    out = 1
    inout = 2
    undefined = 0


# `in` is a keyword, and the library reads it as an attribute.
setattr(BindingInfo, "in", 0)


class _SameSite:
    Lax = "Lax"
    Strict = "Strict"
    ExplicitNone = "None"


# What the host takes for "not said"; the library reads it with getattr for the same reason.
setattr(_SameSite, "None", "")


class RpcHttpCookie(SimpleNamespace):
    """RpcHttpCookie, with its enum SameSite."""

    SameSite = _SameSite


class TypedData(SimpleNamespace):
    """TypedData: exactly one attribute is set, which is what the protobuf oneof `data` comes to."""

    def WhichOneof(self, _: str) -> str | None:
        """The name of the attribute that is set."""
        return next(iter(vars(self)), None)


class ParameterBinding(SimpleNamespace):
    """ParameterBinding: a named value. Never in shared memory here."""

    def WhichOneof(self, _: str) -> str:
        """Which kind of value it holds."""
        return "data"


_PLAIN = (
    "FunctionMetadataResponse",
    "InvocationResponse",
    "NullableBool",
    "NullableDouble",
    "NullableString",
    "NullableTimestamp",
    "RpcException",
    "RpcFunctionMetadata",
    "RpcHttp",
    "RpcRetryOptions",
    "Timestamp",
    "WorkerInitResponse",
    "WorkerMetadata",
)
# The module `protos` as the worker library sees it.
_PROTOS = SimpleNamespace(
    StatusResult=StatusResult,
    BindingInfo=BindingInfo,
    RpcHttpCookie=RpcHttpCookie,
    TypedData=TypedData,
    ParameterBinding=ParameterBinding,
    **dict.fromkeys(_PLAIN, SimpleNamespace),
)


def _request(**content: Any) -> SimpleNamespace:
    return SimpleNamespace(request=SimpleNamespace(**content), properties={"host": "127.0.0.1", "protos": _PROTOS})


def worker_init_request(app_dir: str) -> SimpleNamespace:
    """The message with which the host lets the library index the app."""
    return _request(worker_init_request=SimpleNamespace(capabilities={}, function_app_directory=app_dir))


def metadata_request() -> SimpleNamespace:
    """The message that asks for the indexed functions."""
    return _request()


def invocation_request(message: dict[str, Any]) -> SimpleNamespace:
    """The message that runs a function, from a frame of type invoke."""
    return _request(
        invocation_request=SimpleNamespace(
            invocation_id=message["id"],
            function_id=message["function_id"],
            input_data=[ParameterBinding(name=n, data=_typed(v)) for n, v in message["inputs"].items()],
            # The host leaves the metadata of HTTP triggers out, and no other trigger here needs any.
            trigger_metadata={},
            trace_context=SimpleNamespace(trace_parent=message["traceparent"], trace_state="", attributes={}),
            retry_context=SimpleNamespace(retry_count=0, max_retry_count=0, exception=None),
        )
    )


def _typed(value: dict[str, Any] | None) -> TypedData:
    if value is None:
        return TypedData()
    ((kind, content),) = value.items()
    if kind == "bytes":
        content = base64.b64decode(content)
    elif kind == "http":
        content = SimpleNamespace(**{**content, "body": _typed(content["body"])})
    return TypedData(**{kind: content})


def invocation_result(response: SimpleNamespace) -> dict[str, Any]:
    """The fields of a frame of type result, from the library's InvocationResponse."""
    if response.result.status != StatusResult.Success:
        error = response.result.exception
        return {"ok": False, "error": {"message": error.message, "stack": error.stack_trace}}
    return {
        "ok": True,
        "return": _value(response.return_value),
        "outputs": {binding.name: _value(binding.data) for binding in response.output_data},
    }


def _value(data: TypedData | None) -> dict[str, Any] | None:
    if data is None or (kind := data.WhichOneof("data")) is None:
        return None
    content = getattr(data, kind)
    if kind == "bytes":
        content = base64.b64encode(content).decode()
    elif kind == "http":
        content = {
            "status": int(content.status_code),
            "headers": content.headers,
            "cookies": [_cookie(cookie) for cookie in content.cookies or []],
            "body": _value(content.body),
        }
    return {kind: content}


def _cookie(cookie: RpcHttpCookie) -> dict[str, Any]:
    expires = cookie.expires.value.seconds if cookie.expires else None
    plain = ("domain", "path", "secure", "http_only", "max_age")
    return {
        "name": cookie.name,
        "value": cookie.value,
        "expires": expires,
        "same_site": cookie.same_site,
        **{name: nullable.value if (nullable := getattr(cookie, name)) else None for name in plain},
    }
