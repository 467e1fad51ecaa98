"""HTTP for apps without the FastAPI extension: the whole request goes to the worker in a message, as does the answer."""

import json
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import hdrs, web
from multidict import CIMultiDict

from devhost.protocol import pack_bytes, unpack
from devhost.proxy import read_body
from devhost.worker_process import InvocationResult

__all__ = ["http_value", "read_whole_body", "respond"]


async def read_whole_body(request: web.BaseRequest) -> bytes:
    """The body of a request. Raises HTTPRequestEntityTooLarge over the limit."""
    if not request.body_exists:
        return b""
    return b"".join([chunk async for chunk in read_body(request)])


def http_value(request: web.BaseRequest, params: dict[str, str], body: bytes | None) -> dict[str, Any]:
    """The trigger's value. Repeated headers and query parameters are joined with a comma, as the host does.

    `body` is None where the request itself is proxied: then only the route parameters count.
    """
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    if body is not None:
        for name, value in request.headers.items():
            key = name.lower()
            headers[key] = f"{headers[key]},{value}" if key in headers else value
        for name, value in parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True):
            query[name] = f"{query[name]},{value}" if name in query else value
    return {
        "http": {
            "method": request.method,
            "url": f"{request.scheme}://{request.host}{request.rel_url}",
            "headers": headers,
            "params": params,
            "query": query,
            "body": pack_bytes(body) if body is not None else None,
        }
    }


def respond(result: InvocationResult, output_name: str | None) -> web.StreamResponse:
    """The response that the result of a function comes to.

    `output_name` is the function's http output binding: `$return`, or an `Out` parameter. A function that fails
    gives 500 and one that returns nothing 204, both without a body.
    """
    if not result.ok:
        return web.Response(status=500)
    named = result.outputs.get(output_name or "")
    kind, content = unpack(named if named is not None else result.value)
    if kind is None:
        return web.Response(status=204)
    if kind != "http":
        return _plain(kind, content, 200, CIMultiDict())
    headers = CIMultiDict(content["headers"])
    for cookie in content["cookies"]:
        headers.add(hdrs.SET_COOKIE, _set_cookie(cookie))
    body_kind, body = unpack(content["body"])
    return _plain(body_kind or "bytes", body or b"", content["status"], headers)


def _plain(kind: str, content: Any, status: int, headers: CIMultiDict[str]) -> web.Response:
    if kind == "bytes":
        body, default = content, "application/octet-stream"
    elif kind == "json":
        body, default = content.encode(), "application/json; charset=utf-8"
    elif kind == "string":
        body, default = content.encode(), "text/plain; charset=utf-8"
    else:
        body, default = json.dumps(content).encode(), "application/json; charset=utf-8"
    headers.setdefault(hdrs.CONTENT_TYPE, default)
    return web.Response(status=status, headers=headers, body=body)


def _set_cookie(cookie: dict[str, Any]) -> str:
    parts = [f"{cookie['name']}={cookie['value']}"]
    if cookie["max_age"] is not None:
        parts.append(f"Max-Age={int(cookie['max_age'])}")
    if cookie["expires"] is not None:
        parts.append(f"Expires={formatdate(cookie['expires'], usegmt=True)}")
    parts += [f"{label}={cookie[key]}" for label, key in (("Domain", "domain"), ("Path", "path")) if cookie[key]]
    parts += [label for label, key in (("Secure", "secure"), ("HttpOnly", "http_only")) if cookie[key]]
    if cookie["same_site"]:
        parts.append(f"SameSite={cookie['same_site']}")
    return "; ".join(parts)
