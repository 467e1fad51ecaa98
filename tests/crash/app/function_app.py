"""The app that crash tests kill: its tasks note what they do in a file. Tests start them from a process of their own."""

import os

import azure.functions as func
import crash_tasks as crash_tasks
from azurefunctions.extensions.http.fastapi import Request, Response

from hosting.functions.durable_client import DurableApp
from hosting.functions.shutdown import Shutdown
from hosting.functions.tasks import register_tasks
from hosting.storage import Store, connect

app = DurableApp(http_auth_level=func.AuthLevel.ANONYMOUS)
shutdown = Shutdown()
_store: list[Store] = []


def open_store() -> Store:
    if not _store:
        shutdown.install()
        _store.append(connect(os.environ, table=os.environ["TASKS_TABLE"]))
    return _store[0]


register_tasks(app, open_store, shutdown)


@app.route(route="durable")
@app.generic_input_binding(arg_name="config", type="durableClient")
async def durable(req: Request, config: str) -> Response:
    """Where Durable listens, so that the test process can start orchestrations as any process of the app does."""
    return Response(config, media_type="application/json")
