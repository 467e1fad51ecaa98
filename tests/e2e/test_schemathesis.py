"""Fuzz every route from the app's own OpenAPI document, in this process: no 5xx, and no answer that the document lacks."""

from collections.abc import Callable, Iterator

import pytest
from agent_framework import Agent
from schemathesis.python import asgi

from demo_agent import create_demo_chat_client
from hosting.responses import parse_json_body
from hosting.server import ResponsesServer, ResponsesServerOptions
from hosting.server.invocations import InvocationRequest, Invocations
from hosting.settings import load_settings
from hosting.state import AgentState, TableHistoryProvider
from hosting.storage import Store
from tests.e2e.asgi import asgi_app
from tests.e2e.fuzzing import Findings, fuzz

pytestmark = pytest.mark.timeout(300)  # some 2,500 requests: 20 seconds of a processor that nobody else uses


def demo() -> Agent:
    return Agent(client=create_demo_chat_client(), context_providers=[TableHistoryProvider()])


def make_server(open_store: Callable[[], Store]) -> ResponsesServer:
    """As `agent_app` makes it, with handlers for invocations."""
    settings = load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"})
    options = ResponsesServerOptions(resilient_background=True, steerable_conversations=True)
    server = ResponsesServer(AgentState(demo), settings, open_store, options)
    invocations = Invocations(settings, server.limits)

    async def echo(request: InvocationRequest) -> dict[str, object]:
        body = await request.body()
        return {"id": request.invocation_id, "body": parse_json_body(body) if body else None}

    for kind in ("invoke", "get", "cancel"):
        invocations.register(kind, echo)
    server.routes = {**server.routes, **invocations.routes}
    return server


@pytest.fixture(scope="module")
def findings() -> Iterator[Findings]:
    yield fuzz(asgi_app(make_server), "/v1/openapi.json", examples=25)
    asgi.shutdown_lifespans()


def test_no_answer_is_a_5xx_or_missing_in_the_document(findings: Findings) -> None:
    assert not findings.faults, findings.report()


def test_every_operation_was_reached(findings: Findings) -> None:
    """Fuzzing that only ever meets 400 and 404 proves little."""
    never = {label for label, statuses in findings.statuses.items() if not statuses.keys() & {200, 204}}
    assert never <= {"GET /v1/openapi.json"}  # read to begin with, and therefore left out
