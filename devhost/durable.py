"""From the task hub to the workers and back: orchestrators, activities and entities.

An item is handed to a worker and stays here until the answer is in the hub. When the worker dies first, the item goes
to another one, or to the same after its restart: at least once, as in Azure. An answer for work that the hub has
forgotten meanwhile (wiped, continued as new) is dropped.
"""

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import durabletask.internal.orchestrator_service_pb2 as pb
from durabletask.internal import helpers
from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import StringValue

from devhost.background import Background
from devhost.config import HostJson
from devhost.console import Console
from devhost.errors import WorkerDied
from devhost.functions import Function
from devhost.hub import HubCallError, TaskHub
from devhost.protocol import unpack
from devhost.worker_process import InvocationResult
from devhost.workers import Workers

__all__ = ["DurablePump", "client_binding"]


def client_binding(hub_name: str, rpc_address: str, base_url: str, max_message_bytes: int) -> str:
    """The value of a durableClient binding, a JSON string, as version 2 of azure-functions-durable reads it."""
    webhooks = f"{base_url}/runtime/webhooks/durabletask"
    return json.dumps(
        {
            "taskHubName": hub_name,
            "connectionName": "Storage",
            "rpcBaseUrl": f"http://{rpc_address}",
            "baseUrl": webhooks,
            "httpBaseUrl": webhooks,
            "requiredQueryStringParameters": f"taskHub={hub_name}&connection=Storage",
            "maxGrpcMessageSizeInBytes": max_message_bytes,
        }
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """One work item. `epoch` and `execution` say whether the hub still waits for it."""

    kind: str
    name: str
    work: pb.WorkItem
    epoch: int
    execution: object | None = None


class DurablePump:
    """Runs what the hub has to do."""

    def __init__(
        self,
        hub: TaskHub,
        workers: Workers,
        host_json: Callable[[], HostJson],
        inputs: Callable[[Function], dict[str, dict[str, Any] | None]],
        console: Console,
    ) -> None:
        self._hub = hub
        self._workers = workers
        self._console = console
        self._inputs = inputs
        self._host_json = host_json
        self._queues: dict[str, asyncio.Queue[_Item]] = {
            kind: asyncio.Queue() for kind in ("orchestration", "activity", "entity")
        }
        self._background = Background(console)
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Begin to take work from the hub."""
        threading.Thread(target=self._pull, name="devhost-hub", daemon=True).start()
        for kind in self._queues:
            self._background.spawn(self._dispatch(kind))

    def stop(self) -> None:
        """Hand out nothing more. What runs may still answer."""
        self._background.cancel()

    def wipe(self) -> None:
        """Empty the hub, and with it what waits here."""
        self._hub.wipe()
        for queue in self._queues.values():
            while not queue.empty():
                queue.get_nowait()

    def _pull(self) -> None:
        for work in self._hub.work():
            item = self._item(work)
            with contextlib.suppress(RuntimeError):  # The loop is closed: devhost ends.
                self._loop.call_soon_threadsafe(self._queues[item.kind].put_nowait, item)

    def _item(self, work: pb.WorkItem) -> _Item:
        epoch = self._hub.epoch
        if work.HasField("orchestratorRequest"):
            request = work.orchestratorRequest
            events = [*request.pastEvents, *request.newEvents]
            names = [e.executionStarted.name for e in events if e.HasField("executionStarted")]
            return _Item("orchestration", names[-1] if names else "", work, epoch)
        if work.HasField("activityRequest"):
            request = work.activityRequest
            execution = self._hub.execution_of(request.orchestrationInstance.instanceId)
            return _Item("activity", request.name, work, epoch, execution)
        return _Item("entity", work.entityRequestV2.instanceId.split("@")[1], work, epoch)

    async def _dispatch(self, kind: str) -> None:
        while True:
            item = await self._queues[kind].get()
            function = self._find(kind, item.name)
            if function is None:
                self._fail(item, f"{kind} function {item.name!r} does not exist in this app")
                continue
            worker = await self._workers.acquire(kind, limit=self._limit(kind))
            # It counts as running from here on, so the next item sees the room that is left.
            invocation = worker.begin(function, {function.trigger["name"]: self._input(item), **self._inputs(function)})
            self._background.spawn(self._finish(item, function, invocation))

    def _limit(self, kind: str) -> int:
        host_json = self._host_json()
        limits = {"orchestration": host_json.max_orchestrators, "activity": host_json.max_activities}
        return limits.get(kind, host_json.max_entities)

    def _find(self, kind: str, name: str) -> Function | None:
        return next((f for f in self._workers.functions if f.kind == kind and f.durable_name == name.lower()), None)

    def _input(self, item: _Item) -> dict[str, Any]:
        work = item.work
        if item.kind == "activity":
            has_input = work.activityRequest.HasField("input")
            return {"string": work.activityRequest.input.value if has_input else "null"}
        if item.kind == "orchestration":
            message = work.orchestratorRequest
        else:
            message, _ = helpers.convert_to_entity_batch_request(work.entityRequestV2)
        return {"string": base64.b64encode(message.SerializeToString()).decode()}

    async def _finish(self, item: _Item, function: Function, invocation: asyncio.Future[InvocationResult]) -> None:
        try:
            result = await asyncio.shield(invocation)
        except WorkerDied:
            if item.epoch == self._hub.epoch:
                self._console.say(f"{item.kind} {function.name} is delivered again: its worker died")
                self._queues[item.kind].put_nowait(item)
            return
        finally:
            await self._workers.notify()
        if item.epoch != self._hub.epoch:
            return
        if not result.ok:
            self._console.error(f"{item.kind} {function.name} failed: {result.error}\n{result.stack.rstrip()}")
            self._fail(item, result.error, result.stack)
            return
        kind, content = unpack(result.value)
        try:
            self._complete(item, kind, content)
        except (DecodeError, ValueError) as error:
            self._fail(item, f"{function.name} returned what no {item.kind} returns: {error}")

    def _complete(self, item: _Item, kind: str | None, content: Any) -> None:
        if item.kind == "activity":
            text = content if kind in {"string", "json"} else None if kind is None else json.dumps(content)
            self._complete_activity(item, pb.ActivityResponse(result=StringValue(value=text) if text else None))
        elif item.kind == "orchestration":
            response = pb.OrchestratorResponse.FromString(base64.b64decode(content or ""))
            self._report_failure(response, item)
            self._complete_orchestrator(item, response)
        else:
            self._complete_entity(item, pb.EntityBatchResult.FromString(base64.b64decode(content or "")))

    def _fail(self, item: _Item, error: str, stack: str = "") -> None:
        """Complete the item as failed. `error` is `Type: message`, of which only the first line is kept, as in Azure."""
        kind, found, message = error.partition(": ")
        details = pb.TaskFailureDetails(
            errorType=kind if found else "(unknown)",
            errorMessage=(message if found else error).split("\n")[0] or kind,
            stackTrace=StringValue(value=stack) if stack else None,
        )
        if item.kind == "activity":
            self._complete_activity(item, pb.ActivityResponse(failureDetails=details))
        elif item.kind == "orchestration":
            action = pb.OrchestratorAction(
                completeOrchestration=pb.CompleteOrchestrationAction(
                    orchestrationStatus=pb.ORCHESTRATION_STATUS_FAILED, failureDetails=details
                )
            )
            self._complete_orchestrator(item, pb.OrchestratorResponse(actions=[action]))
        else:
            request = item.work.entityRequestV2
            failure = pb.OperationResult(failure=pb.OperationResultFailure(failureDetails=details))
            results = [failure] * len(request.operationRequests)
            state = request.entityState if request.HasField("entityState") else None
            self._complete_entity(item, pb.EntityBatchResult(results=results, entityState=state))

    def _complete_activity(self, item: _Item, response: pb.ActivityResponse) -> None:
        request = item.work.activityRequest
        response.instanceId = request.orchestrationInstance.instanceId
        response.taskId = request.taskId
        if self._hub.execution_of(response.instanceId) is item.execution:
            self._call(self._hub.CompleteActivityTask, response)

    def _complete_orchestrator(self, item: _Item, response: pb.OrchestratorResponse) -> None:
        response.instanceId = item.work.orchestratorRequest.instanceId
        response.completionToken = item.work.completionToken
        self._call(self._hub.CompleteOrchestratorTask, response)

    def _complete_entity(self, item: _Item, response: pb.EntityBatchResult) -> None:
        _, infos = helpers.convert_to_entity_batch_request(item.work.entityRequestV2)
        del response.operationInfos[:]
        response.operationInfos.extend(infos)
        response.completionToken = item.work.completionToken
        self._call(self._hub.CompleteEntityTask, response)

    def _call(self, method: Callable[[Any, Any], Any], message: Any) -> None:
        try:
            method(message, self._hub.call)
        except HubCallError as error:
            self._console.error(f"the task hub refused an answer: {error}")

    def _report_failure(self, response: pb.OrchestratorResponse, item: _Item) -> None:
        for action in response.actions:
            done = action.completeOrchestration
            if action.HasField("completeOrchestration") and done.orchestrationStatus == pb.ORCHESTRATION_STATUS_FAILED:
                details = done.failureDetails
                self._console.error(
                    f"orchestration {item.name} ({response.instanceId or item.work.orchestratorRequest.instanceId})"
                    f" failed: {details.errorType}: {details.errorMessage}"
                )
