"""The task hub: durabletask's in-memory backend behind its real gRPC service, in the devhost process.

It outlives the workers, so a worker's death loses no orchestration; it is lost when devhost ends.

The backend is made for unit tests. What differs here from what it does, each because an app would notice:

- its server listens on loopback only, and has threads enough for clients that wait;
- an orchestration may take the id of a finished one, as the Durable extension allows (overridableExistingInstanceStates);
- a start time in the future is kept;
- a parent hears of a sub-orchestration also when that takes longer than 30 s;
- timers are not threads, and a timer or an activity of an execution that has continued as new, or was replaced, does
  not reach the new execution, whose task numbers are the same;
- a completed orchestrator makes waiting events known at once, not after the next poll.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, cast

import durabletask.internal.orchestrator_service_pb2 as pb
import grpc
from durabletask.internal import helpers
from durabletask.internal.orchestrator_service_pb2_grpc import add_TaskHubSidecarServiceServicer_to_server
from durabletask.testing.in_memory_backend import InMemoryOrchestrationBackend, OrchestrationInstance

__all__ = ["HubCallError", "TaskHub"]

_FINISHED = (
    pb.ORCHESTRATION_STATUS_COMPLETED,
    pb.ORCHESTRATION_STATUS_FAILED,
    pb.ORCHESTRATION_STATUS_TERMINATED,
)
_ALL_STATUSES: tuple[Any, ...] = tuple(value.number for value in pb.OrchestrationStatus.DESCRIPTOR.values)
_FOREVER = 10 * 365 * 24 * 3600.0
# How often a queue is looked at again whose first item can't be taken yet, because its orchestrator runs.
_RECHECK_SECONDS = 0.002


class HubCallError(Exception):
    """A call of the hub from inside devhost failed; `code` is what a gRPC client would have got."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


class _LocalCall:
    """Stands for a gRPC call where devhost uses the service itself."""

    def __init__(self) -> None:
        self.active = True

    def is_active(self) -> bool:
        return self.active

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise HubCallError(code, details)

    def time_remaining(self) -> float | None:
        return None


class _WorkSignal(threading.Event):
    """The backend's "there is work"; it looks at it every 0.1 s, which is too long while something is queued."""

    def __init__(self, is_queued: Callable[[], bool]) -> None:
        super().__init__()
        self._is_queued = is_queued

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(_RECHECK_SECONDS if self._is_queued() else timeout)


class TaskHub(InMemoryOrchestrationBackend):
    """The hub. Methods named as in the gRPC service may be called from any thread, `call` for the context argument."""

    call: Any = _LocalCall()

    def __init__(self, overridable_states: str = "NonRunningStates") -> None:
        super().__init__(max_history_size=1_000_000)
        self._loop = asyncio.get_running_loop()
        self._override_running = overridable_states == "AnyState"
        self._work_available = _WorkSignal(lambda: bool(self._orchestration_queue or self._entity_queue))
        self._pull = _LocalCall()
        # Counts wipes: work that was handed out before one is not completed after it.
        self.epoch = 0

    def serve(self) -> str:
        """Open the gRPC service; its address as `host:port`."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._server = grpc.server(ThreadPoolExecutor(max_workers=200), options=options)
        add_TaskHubSidecarServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        return f"127.0.0.1:{port}"

    def close(self) -> None:
        """End the service and the stream of work; open calls are cut."""
        self._pull.active = False
        self.stop(grace=0)
        # Wakes the threads of clients that wait; Python would wait for them at its exit.
        self.reset()

    def work(self) -> Iterator[pb.WorkItem]:
        """Work items as they come up; blocks, so it wants a thread of its own. Ends when the hub is closed."""
        return self.GetWorkItems(pb.GetWorkItemsRequest(), cast(Any, self._pull))

    def wipe(self) -> None:
        """Forget everything, as if somebody had deleted the task hub. Functions that run are not stopped."""
        with self._lock:
            self.epoch += 1
            self.reset()

    def execution_of(self, instance_id: str) -> object | None:
        """What stands for the current execution of an instance: another object after continue-as-new or a restart."""
        with self._lock:
            instance = self._instances.get(instance_id)
            return instance.history if instance else None

    # What follows replaces methods of the backend.

    def StartInstance(self, request: pb.CreateInstanceRequest, context: Any) -> pb.CreateInstanceResponse:
        """Start an orchestration, at once or at its start time."""
        policy = request.orchestrationIdReusePolicy
        if not policy.replaceableStatus:
            policy.replaceableStatus.extend(_ALL_STATUSES if self._override_running else _FINISHED)
        delay = 0.0
        if request.HasField("scheduledStartTimestamp"):
            start = request.scheduledStartTimestamp.ToDatetime(tzinfo=UTC)
            delay = (start - datetime.now(UTC)).total_seconds()
        with self._lock:
            response = super().StartInstance(request, context)
            if delay > 0:
                instance = self._instances[response.instanceId]
                self._orchestration_queue.remove(response.instanceId)
                self._orchestration_queue_set.discard(response.instanceId)
                self._later(delay, instance, instance.history, lambda: self._enqueue_orchestration(response.instanceId))
        return response

    def CompleteOrchestratorTask(self, request: pb.OrchestratorResponse, context: Any) -> pb.CompleteTaskResponse:
        """Take the actions of an orchestrator, then let waiting events of the same instance through."""
        response = super().CompleteOrchestratorTask(request, context)
        self._work_available.set()
        return response

    def _wait_for_state(
        self, instance_id: str, predicate: Callable[[OrchestrationInstance], bool], timeout: float | None
    ) -> OrchestrationInstance | None:
        return super()._wait_for_state(instance_id, predicate, _FOREVER if timeout is None else timeout)

    def _process_complete_orchestration_action(
        self, instance: OrchestrationInstance, complete_action: pb.CompleteOrchestrationAction
    ) -> None:
        super()._process_complete_orchestration_action(instance, complete_action)
        if complete_action.orchestrationStatus == pb.ORCHESTRATION_STATUS_CONTINUED_AS_NEW:
            # A new list: see execution_of.
            instance.history = []

    def _process_create_timer_action(self, instance: OrchestrationInstance, action: pb.OrchestratorAction) -> None:
        fire_at = action.createTimer.fireAt.ToDatetime(tzinfo=UTC)
        instance.history.append(helpers.new_timer_created_event(action.id, fire_at))
        if instance.status == pb.ORCHESTRATION_STATUS_PENDING:
            instance.status = pb.ORCHESTRATION_STATUS_RUNNING

        def fire() -> None:
            instance.pending_events.append(helpers.new_timer_fired_event(action.id, fire_at))
            instance.last_updated_at = datetime.now(UTC)
            if instance.status != pb.ORCHESTRATION_STATUS_SUSPENDED:
                self._enqueue_orchestration(instance.instance_id)

        self._later((fire_at - datetime.now(UTC)).total_seconds(), instance, instance.history, fire)

    def _later(
        self, delay: float, instance: OrchestrationInstance, execution: object, action: Callable[[], None]
    ) -> None:
        """Run `action` under the lock after `delay` seconds, if that execution is still the current one and goes on."""

        def run() -> None:
            with self._lock:
                current = self._instances.get(instance.instance_id)
                if current is instance and instance.history is execution and instance.status not in _FINISHED:
                    action()

        # asyncio keeps timers by a clock that may stand still while the machine sleeps, and fires them up to a clock
        # tick early; an orchestrator that is told of a timer must find the time has come.
        due = time.time() + max(0.0, delay)
        self._loop.call_soon_threadsafe(self._arm, due, run)

    def _arm(self, due: float, run: Callable[[], None]) -> None:
        left = due - time.time()
        if left <= 0:
            run()
        else:
            self._loop.call_later(min(left, 3600.0), self._arm, due, run)
