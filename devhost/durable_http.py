"""The Durable extension's HTTP API, as far as `create_check_status_response` hands out links to it.

Status, list, start, raise an event, terminate, suspend, resume, rewind, restart and purge of orchestrations. The
entities part and filters other than by status are left out.
"""

import json
from datetime import UTC
from typing import Any
from urllib.parse import unquote

import durabletask.internal.orchestrator_service_pb2 as pb
import grpc
from aiohttp import web
from google.protobuf.wrappers_pb2 import StringValue

from devhost.hub import HubCallError, TaskHub

__all__ = ["PREFIX", "DurableHttp"]

PREFIX = "/runtime/webhooks/durabletask/"

_STATUS_NAMES = {
    pb.ORCHESTRATION_STATUS_RUNNING: "Running",
    pb.ORCHESTRATION_STATUS_COMPLETED: "Completed",
    pb.ORCHESTRATION_STATUS_CONTINUED_AS_NEW: "ContinuedAsNew",
    pb.ORCHESTRATION_STATUS_FAILED: "Failed",
    pb.ORCHESTRATION_STATUS_CANCELED: "Canceled",
    pb.ORCHESTRATION_STATUS_TERMINATED: "Terminated",
    pb.ORCHESTRATION_STATUS_PENDING: "Pending",
    pb.ORCHESTRATION_STATUS_SUSPENDED: "Suspended",
}
_GOING_ON = {"Running", "Pending", "ContinuedAsNew", "Suspended"}
_HTTP_STATUS = {
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 410,
    grpc.StatusCode.ALREADY_EXISTS: 409,
}


class DurableHttp:
    """Answers requests under PREFIX."""

    def __init__(self, hub: TaskHub) -> None:
        self._hub = hub

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to one request; 404 for what is not emulated."""
        parts = [unquote(part) for part in request.rel_url.raw_path.removeprefix(PREFIX).strip("/").split("/")]
        body = (await request.read()).decode(errors="replace")
        try:
            match (request.method, *parts):
                case ("GET", "instances"):
                    return web.json_response(self._list(request.query.getall("runtimeStatus", [])))
                case ("GET", "instances", instance_id):
                    return self._status(request, instance_id)
                case ("DELETE", "instances", instance_id):
                    purged = self._hub.PurgeInstances(pb.PurgeInstancesRequest(instanceId=instance_id), self._hub.call)
                    count = purged.deletedInstanceCount
                    return web.json_response({"instancesDeleted": count}, status=200 if count else 404)
                case ("POST", "orchestrators", name, *rest):
                    return self._start(request, name, rest[0] if rest else None, body)
                case ("POST", "instances", instance_id, action, *rest):
                    return self._act(instance_id, action, rest, body, request.query.get("reason"))
        except HubCallError as error:
            return web.Response(status=_HTTP_STATUS.get(error.code, 500), text=str(error))
        return web.Response(status=404)

    def _state(self, instance_id: str) -> pb.OrchestrationState | None:
        request = pb.GetInstanceRequest(instanceId=instance_id, getInputsAndOutputs=True)
        response = self._hub.GetInstance(request, self._hub.call)
        return response.orchestrationState if response.exists else None

    def _list(self, wanted: list[str]) -> list[dict[str, Any]]:
        query = pb.InstanceQuery(fetchInputsAndOutputs=True)
        response = self._hub.QueryInstances(pb.QueryInstancesRequest(query=query), self._hub.call)
        names = {name.strip().lower() for entry in wanted for name in entry.split(",")}
        states = [_as_json(state) for state in response.orchestrationState]
        return [state for state in states if not names or state["runtimeStatus"].lower() in names]

    def _status(self, request: web.BaseRequest, instance_id: str) -> web.Response:
        state = self._state(instance_id)
        if state is None:
            return web.Response(status=404)
        content = _as_json(state)
        if content["runtimeStatus"] in _GOING_ON:
            return web.json_response(content, status=202, headers={"Location": str(request.url), "Retry-After": "10"})
        failed = content["runtimeStatus"] == "Failed"
        as_error = request.query.get("returnInternalServerErrorOnFailure", "").lower() == "true"
        return web.json_response(content, status=500 if failed and as_error else 200)

    def _start(self, request: web.BaseRequest, name: str, instance_id: str | None, body: str) -> web.Response:
        started = self._hub.StartInstance(
            pb.CreateInstanceRequest(
                instanceId=instance_id or "", name=name, input=StringValue(value=body) if body else None
            ),
            self._hub.call,
        )
        link = f"{request.scheme}://{request.host}{PREFIX}instances/{started.instanceId}"
        payload = {"id": started.instanceId, "statusQueryGetUri": link}
        return web.json_response(payload, status=202, headers={"Location": link, "Retry-After": "10"})

    def _act(self, instance_id: str, action: str, rest: list[str], body: str, reason: str | None) -> web.Response:
        state = self._state(instance_id)
        if state is None:
            return web.Response(status=404)
        hub, call, text = self._hub, self._hub.call, StringValue(value=reason) if reason else None
        finished = _STATUS_NAMES[state.orchestrationStatus] not in _GOING_ON
        if finished and action not in {"rewind", "restart"}:
            return web.Response(status=410)
        match (action, *rest):
            case ("raiseEvent", name):
                data = StringValue(value=body) if body else None
                hub.RaiseEvent(pb.RaiseEventRequest(instanceId=instance_id, name=name, input=data), call)
            case ("terminate",):
                output = StringValue(value=json.dumps(reason)) if reason else None
                hub.TerminateInstance(pb.TerminateRequest(instanceId=instance_id, output=output), call)
            case ("suspend",):
                hub.SuspendInstance(pb.SuspendRequest(instanceId=instance_id, reason=text), call)
            case ("resume",):
                hub.ResumeInstance(pb.ResumeRequest(instanceId=instance_id, reason=text), call)
            case ("rewind",):
                hub.RewindInstance(pb.RewindInstanceRequest(instanceId=instance_id, reason=text), call)
            case ("restart",):
                hub.RestartInstance(pb.RestartInstanceRequest(instanceId=instance_id), call)
            case _:
                return web.Response(status=404)
        return web.Response(status=202)


def _as_json(state: pb.OrchestrationState) -> dict[str, Any]:
    def value(holder: Any) -> Any:
        try:
            return json.loads(holder.value) if holder.value else None
        except ValueError:
            return holder.value

    def moment(stamp: Any) -> str:
        return stamp.ToDatetime(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    failed = state.orchestrationStatus == pb.ORCHESTRATION_STATUS_FAILED
    return {
        "name": state.name,
        "instanceId": state.instanceId,
        "runtimeStatus": _STATUS_NAMES[state.orchestrationStatus],
        "input": value(state.input),
        "customStatus": value(state.customStatus),
        "output": state.failureDetails.errorMessage if failed else value(state.output),
        "createdTime": moment(state.createdTimestamp),
        "lastUpdatedTime": moment(state.lastUpdatedTimestamp),
    }
