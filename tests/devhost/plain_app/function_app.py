"""A small app without the FastAPI extension: whole requests and responses, no streaming."""

import logging
import os
import threading
import time
from pathlib import Path

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)


@app.route(route="greet/{name?}", methods=["GET", "POST"], auth_level=func.AuthLevel.ANONYMOUS)
def greet(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    name = req.route_params.get("name") or req.params.get("name") or req.get_body().decode() or "nobody"
    logging.warning("greeting %s in %s", name, context.function_name)
    headers = {"x-method": req.method, "x-url": req.url, "x-thread": threading.current_thread().name}
    response = func.HttpResponse(f"hello {name}", status_code=201, headers=headers)
    response.headers.add("Set-Cookie", "a=1; Max-Age=60; Path=/; HttpOnly; SameSite=Lax")
    response.headers.add("Set-Cookie", "b=2; Secure")
    return response


@app.route(route="json", auth_level=func.AuthLevel.ANONYMOUS)
async def as_json(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse(str(req.get_json()["n"] + 1), mimetype="application/json")


@app.route(route="text", auth_level=func.AuthLevel.ANONYMOUS)
def text(req: func.HttpRequest) -> str:
    return "only text"


@app.route(route="bytes", auth_level=func.AuthLevel.ANONYMOUS)
def binary(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse(bytes(range(256)) + req.get_body(), mimetype="application/octet-stream")


@app.route(route="fail", auth_level=func.AuthLevel.ANONYMOUS)
def fail(req: func.HttpRequest) -> func.HttpResponse:
    raise RuntimeError("a failure of its own")


@app.route(route="block", auth_level=func.AuthLevel.ANONYMOUS)
async def block(req: func.HttpRequest) -> str:
    """Hold the event loop, as an app should not."""
    (Path(os.environ["JOURNAL"]) / "blocked").touch()
    time.sleep(60)  # noqa: ASYNC251
    return "done"


@app.route(route="die", auth_level=func.AuthLevel.ANONYMOUS)
def die(req: func.HttpRequest) -> func.HttpResponse:
    os._exit(7)


@app.route(route="keyed")
def keyed(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse("keyed")


@app.route(route="master", auth_level=func.AuthLevel.ADMIN)
def master(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse("master")


@app.queue_trigger(arg_name="message", queue_name="q", connection="AzureWebJobsStorage")
def from_queue(message: func.QueueMessage) -> None:
    raise AssertionError("devhost does not emulate queues")
