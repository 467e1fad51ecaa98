"""Another process of the app: runs the handlers of the contract suite. The suite starts their tasks from its own process."""

import os

import azure.functions as func
import contract_tasks as contract_tasks
from azurefunctions.extensions.http.fastapi import JSONResponse, Request, Response

from hosting.functions.durable_client import DurableApp
from hosting.functions.shutdown import Shutdown
from hosting.functions.tasks import register_tasks
from hosting.storage import Store, connect, keys
from hosting.tasks import use_scope

app = DurableApp(http_auth_level=func.AuthLevel.ANONYMOUS)
shutdown = Shutdown()
_store: list[Store] = []


def open_store() -> Store:
    if not _store:
        shutdown.install()
        _store.append(connect(os.environ, table=os.environ["TASKS_TABLE"]))
    return _store[0]


register_tasks(app, open_store, shutdown)


@app.route(route="look/{task_id}")
async def look(req: Request) -> Response:
    """An HTTP function as a user writes it: it knows nothing of Durable."""
    with use_scope(keys.scope("http", None)):
        seen = await contract_tasks.look.run(task_id=req.path_params["task_id"], input={"from": "http"})
    return JSONResponse({**seen, "http_pid": os.getpid()})


@app.timer_trigger(arg_name="timer", schedule="0 0 0 1 1 *")
async def nightly(timer: func.TimerRequest) -> None:
    """A timer as a user writes it. No caller: the task is the app's own."""
    await contract_tasks.look.start(task_id="nightly", input={"from": "timer"})


@app.route(route="durable")
@app.generic_input_binding(arg_name="config", type="durableClient")
async def durable(req: Request, config: str) -> Response:
    """Where Durable listens, so that the test process can start orchestrations as any process of the app does."""
    return Response(config, media_type="application/json")
