"""Where the task hub differs from the backend of durabletask that it is made of."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import durabletask.internal.orchestrator_service_pb2 as pb
import grpc
import pytest
from durabletask.client import TaskHubGrpcClient
from google.protobuf.timestamp_pb2 import Timestamp

from devhost.hub import HubCallError, TaskHub


@pytest.fixture
async def hub() -> AsyncIterator[TaskHub]:
    hub = TaskHub()
    yield hub
    await asyncio.to_thread(hub.close)


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_start_time_in_the_future_is_kept(hub: TaskHub):
    seen: list[float] = []

    def pull() -> None:
        for _ in hub.work():
            seen.append(time.time())

    threading.Thread(target=pull, daemon=True).start()
    at = datetime.now(UTC) + timedelta(seconds=0.4)
    stamp = Timestamp()
    stamp.FromDatetime(at)
    hub.StartInstance(pb.CreateInstanceRequest(instanceId="late", name="f", scheduledStartTimestamp=stamp), hub.call)
    await until(lambda: seen)
    assert seen[0] >= at.timestamp()


async def test_running_orchestration_keeps_its_id_and_a_finished_one_does_not(hub: TaskHub):
    request = pb.CreateInstanceRequest(instanceId="one", name="f")
    hub.StartInstance(request, hub.call)
    with pytest.raises(HubCallError) as refused:
        hub.StartInstance(pb.CreateInstanceRequest(instanceId="one", name="f"), hub.call)
    assert refused.value.code == grpc.StatusCode.ALREADY_EXISTS
    hub._instances["one"].status = pb.ORCHESTRATION_STATUS_COMPLETED
    hub.StartInstance(pb.CreateInstanceRequest(instanceId="one", name="g"), hub.call)
    assert hub._instances["one"].name == "g"


async def test_any_state_lets_a_running_orchestration_be_replaced():
    hub = TaskHub("AnyState")
    hub.StartInstance(pb.CreateInstanceRequest(instanceId="one", name="f"), hub.call)
    hub.StartInstance(pb.CreateInstanceRequest(instanceId="one", name="g"), hub.call)
    assert hub._instances["one"].name == "g"


async def test_many_waiting_clients_do_not_keep_others_out_nor_the_hub_from_closing(hub: TaskHub):
    client = TaskHubGrpcClient(host_address=hub.serve())
    instance_id = await asyncio.to_thread(client.schedule_new_orchestration, "f")
    ends: list[object] = []

    def wait() -> None:
        try:
            client.wait_for_orchestration_completion(instance_id, timeout=60)
        except Exception as error:
            ends.append(error)

    waiting = [threading.Thread(target=wait, daemon=True) for _ in range(40)]
    for thread in waiting:
        thread.start()
    await asyncio.sleep(0.3)
    state = await asyncio.wait_for(asyncio.to_thread(client.get_orchestration_state, instance_id), 30)
    assert state is not None
    await asyncio.to_thread(hub.close)
    await until(lambda: len(ends) == 40)
    client.close()


async def test_wipe_forgets_everything_and_starts_another_epoch(hub: TaskHub):
    hub.StartInstance(pb.CreateInstanceRequest(instanceId="one", name="f"), hub.call)
    before = hub.epoch
    hub.wipe()
    assert not hub.GetInstance(pb.GetInstanceRequest(instanceId="one"), hub.call).exists
    assert hub.epoch == before + 1
