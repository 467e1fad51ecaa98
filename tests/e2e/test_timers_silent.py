"""Timers that do not fire, as on Flex Consumption after a deployment: a process that serves requests does their scan."""

import asyncio
import json
import time
import urllib.request
from typing import Any

from devhost.azurite import Azurite
from devhost.testing import DevHost
from hosting.storage import connect, connect_append_blobs
from tests.conftest import ROOT
from tests.contract.storage_twins import fresh
from tests.server_world import serve


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.loads(response.read())


async def never_run(request: Any, context: Any, signal: Any) -> None:
    raise AssertionError("this process drives nothing")


async def test_work_that_nothing_drives_is_taken_up_while_requests_come(azurite: Azurite) -> None:
    names = fresh("silent")
    env = {
        "AzureWebJobsStorage": azurite.connection_string,
        "HOSTING_TABLE": names,
        "HOSTING_CONTAINER": names,
        "TASKS_RECOVERY_SCHEDULE": "0 0 0 1 1 *",  # at start-up, and not again
        "HOSTING_RECOVERY_OVERDUE_SECONDS": "4",
    }
    store, blobs = connect(env, table=names, container=names), connect_append_blobs(env, container=names)
    async with DevHost(ROOT, env=env, flex=True, storage=azurite.connection_string) as host:
        async with asyncio.timeout(30):
            while await store.get("recovery", "scan") is None:  # noqa: ASYNC110 - the scan at start-up
                await asyncio.sleep(0.1)
        # An app beside it, whose orchestrations get lost.
        async with serve(never_run, store=store, blobs=blobs, resilient_background=True) as other:
            other.clock._now = time.time() - 60
            other.boot(drives=False)
            made = await other.create("hello", background=True)
            url = f"{host.base_url}/v1/responses/{made['id']}"
            async with asyncio.timeout(60):
                while (found := await asyncio.to_thread(fetch, url))["status"] != "completed":  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
        assert "hello" in json.dumps(found["output"])
        assert "no recovery scan has come to its end" in host.logs, host.logs
    await blobs.close()
