"""The app's plain HTTP functions, in a blueprint."""

import asyncio
import hashlib
import json
import os
import time
from pathlib import Path

import azure.functions as func
from azurefunctions.extensions.http.fastapi import JSONResponse, Request, Response

blueprint = func.Blueprint()


@blueprint.route(route="hello", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
async def hello(req: Request) -> Response:
    return JSONResponse({"hello": req.query_params.get("name", "world"), "pid": os.getpid()})


@blueprint.route(route="items/{id:int}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
async def item(req: Request) -> Response:
    return JSONResponse({"item": req.path_params["id"]})


@blueprint.route(route="items/{id:int}", methods=["PUT", "DELETE"], auth_level=func.AuthLevel.ANONYMOUS)
async def change_item(req: Request) -> Response:
    return Response(f"{req.method} {req.path_params['id']}", media_type="text/plain")


@blueprint.route(route="items/{name}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
async def named_item(req: Request) -> Response:
    return JSONResponse({"named": req.path_params["name"]})


@blueprint.route(route="{*rest}", auth_level=func.AuthLevel.ANONYMOUS)
async def anything_else(req: Request) -> Response:
    return JSONResponse({"lost": req.path_params.get("rest"), "method": req.method}, status_code=404)


@blueprint.route(route="echo/{tail}", methods=["GET", "POST", "HEAD", "OPTIONS"], auth_level=func.AuthLevel.ANONYMOUS)
async def echo(req: Request) -> Response:
    body = await req.body()
    content = {
        "method": req.method,
        "target": f"{req.scope['raw_path'].decode()}?{req.scope['query_string'].decode()}",
        "tail": req.path_params["tail"],
        "query": req.query_params.multi_items(),
        "headers": [[name.decode(), value.decode()] for name, value in req.headers.raw],
        "body": body.decode(),
    }
    response = JSONResponse(content, headers={"x-one": "1"})
    response.headers.append("set-cookie", "a=1; Path=/")
    response.headers.append("set-cookie", "b=2; Path=/")
    return response


@blueprint.route(route="status/{code}", auth_level=func.AuthLevel.ANONYMOUS)
async def status(req: Request) -> Response:
    return Response(status_code=int(req.path_params["code"]))


@blueprint.route(route="untyped", auth_level=func.AuthLevel.ANONYMOUS)
async def untyped(req: Request) -> Response:
    return Response(b"bytes of no type")


@blueprint.route(route="fail", auth_level=func.AuthLevel.ANONYMOUS)
async def fail(req: Request) -> Response:
    raise RuntimeError("the handler's secret")


@blueprint.route(route="upload", methods=["POST"], auth_level=func.AuthLevel.ANONYMOUS)
async def upload(req: Request) -> Response:
    """Digest a body as it arrives; say in the journal, if there is a tag, that its first part is there."""
    digest, size = hashlib.sha256(), 0
    tag = req.query_params.get("tag")
    async for chunk in req.stream():
        if tag and not size:
            (Path(os.environ["JOURNAL"]) / f"upload-began-{tag}").write_text("")
        digest.update(chunk)
        size += len(chunk)
    return JSONResponse({"sha256": digest.hexdigest(), "size": size})


@blueprint.route(route="slow", auth_level=func.AuthLevel.ANONYMOUS)
async def slow(req: Request) -> Response:
    """Answer after a while; say in the journal when the client gave up first."""
    journal = Path(os.environ["JOURNAL"])
    tag = req.query_params.get("tag", "")
    (journal / f"slow-began-{tag}").write_text(str(os.getpid()))
    deadline = time.monotonic() + float(req.query_params.get("seconds", "1"))
    while time.monotonic() < deadline:
        if await req.is_disconnected():
            (journal / f"slow-gone-{tag}").write_text("")
            break
        await asyncio.sleep(0.02)
    return JSONResponse({"slept": True})


@blueprint.route(route="env/{name}", auth_level=func.AuthLevel.ANONYMOUS)
async def env(req: Request) -> Response:
    return Response(json.dumps(os.environ.get(req.path_params["name"])), media_type="application/json")


@blueprint.route(route="admin-only", methods=["GET"], auth_level=func.AuthLevel.ADMIN)
async def admin_only(req: Request) -> Response:
    return Response("admin")


@blueprint.route(route="keyed", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
async def keyed(req: Request) -> Response:
    return Response("keyed")
