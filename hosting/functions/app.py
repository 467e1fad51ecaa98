"""From an agent to a Functions app."""

import os
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from hosting.functions.http import register_http
from hosting.functions.shutdown import Shutdown
from hosting.server import ResponsesServer
from hosting.settings import load_settings
from hosting.state import AgentState
from hosting.storage import Store, connect

__all__ = ["agent_app"]


def agent_app(state: AgentState[Any]) -> df.DFApp:
    """A Functions app that serves the agent of `state` over the OpenAI Responses API. Add functions of your own to it.

    The settings are checked here, so that a wrong one stops the app from loading and is named in its log. Raises
    ConfigurationError.
    """
    settings = load_settings()
    shutdown = Shutdown()

    def open_store() -> Store:
        # Called inside the event loop, at the first request that needs storage: the same moment is right for both.
        shutdown.install()
        return connect(os.environ, name=settings.storage_connection, table=settings.table, container=settings.container)

    server = ResponsesServer(state, settings, open_store)
    shutdown.add(server.close)
    app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)
    register_http(app, server)
    return app
