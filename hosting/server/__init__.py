"""The Responses server, free of any web framework: it takes requests as values and returns responses as values."""

from hosting.server.context import ResponseContext
from hosting.server.handler import ResponseHandler
from hosting.server.http import ClientGone, Request, Response, json_response
from hosting.server.options import ResponsesServerOptions
from hosting.server.responses_server import ResponsesServer

__all__ = [
    "ClientGone",
    "Request",
    "Response",
    "ResponseContext",
    "ResponseHandler",
    "ResponsesServer",
    "ResponsesServerOptions",
    "json_response",
]
