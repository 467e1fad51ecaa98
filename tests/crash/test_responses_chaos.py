"""Background streams under kill -9: whoever follows, however often it is cut off, puts together exactly what is stored.

`RESPONSES_CHAOS_SCALE=5` does five times as much. The seed is printed and can be given back as `RESPONSES_CHAOS_SEED`.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from typing import Any

import httpx2 as httpx
import pytest

from devhost.azurite import Azurite
from devhost.testing import DevHost
from tests.conftest import ROOT
from tests.crash.responses_followers import NOBODY_THERE, Broken, Follower, Run, said

SCALE = float(os.environ.get("RESPONSES_CHAOS_SCALE", "1"))
RUNS = round(100 * SCALE)
HARMS = round(10 * SCALE)
"""How often something is done to the workers, spread over the runs: a slow machine does not see more of it."""
CLIENTS = 12
"""Clients who are there at the same time, each with one run after the other."""
PATIENCE = 90.0
"""Seconds in which a follower must have come to the end."""

SETTINGS = {
    "TASKS_LEASE_SECONDS": "3",
    "TASKS_SKEW_SECONDS": "0.2",
    "TASKS_CONTROL_SECONDS": "0.3",
    "TASKS_LOST_GRACE_SECONDS": "0.5",
    # What a frozen worker holds is found by the scan: its host does not know that anything is wrong.
    "TASKS_IDLE_SECONDS": "1",
    "TASKS_RECOVERY_SCHEDULE": "* * * * * *",
}
FROZEN = 5.0
"""Seconds for which a worker is stopped and then goes on as if nothing had happened: longer than its leases."""


class Chaos:
    """The runs, their followers, and what is done to the workers meanwhile."""

    def __init__(self, host: DevHost, http: httpx.AsyncClient, rng: random.Random) -> None:
        self.host, self.http, self.rng = host, http, rng
        self.counts: Counter[str] = Counter()
        self.left = RUNS
        # After how many runs something is done, and the signal to do it; None is the end.
        self.moments = [(number + rng.random()) * RUNS / HARMS for number in range(HARMS)]
        self.due: asyncio.Queue[float | None] = asyncio.Queue()

    async def client(self) -> None:
        while self.left > 0:
            self.left -= 1
            await self.one_run(self.rng.choice([2, 5, 10, 20, 30]), self.rng.choice([5, 30, 60, 100]))

    async def one_run(self, words: int, milliseconds: int) -> None:
        first, second = self.follower(), self.follower()
        run = await first.create(words, milliseconds)
        await asyncio.gather(first.follow(run, PATIENCE), self.late(second, run), self.maybe_cancel(run))
        stored = await self.stored(run)
        self.counts["cancelled"] += stored["status"] == "cancelled"
        for follower in (first, second):
            follower.check(stored)
            self.counts["ended"] += 1
        if first.attempts != second.attempts or sorted(run.seen) != list(range(len(run.seen))):
            raise Broken(f"{run.id}: {first.attempts} and {second.attempts} attempts seen, numbers {sorted(run.seen)}")
        await first.reread(run)
        self.counts["runs"] += 1
        while self.moments and self.moments[0] <= self.counts["runs"]:
            self.due.put_nowait(self.moments.pop(0))
        self.counts["resets"] += first.attempts - 1
        self.counts["distinct events"] += len(run.seen)

    def follower(self) -> Follower:
        return Follower(self.http, random.Random(self.rng.random()), self.counts)

    async def late(self, follower: Follower, run: Run) -> None:
        await asyncio.sleep(follower.rng.choice([0, 0.5, 2.0]))
        await follower.follow(run, PATIENCE)

    async def maybe_cancel(self, run: Run) -> None:
        """Cancel a few runs, which may have ended by then, and may not have been heard of when the answer is lost."""
        if self.rng.random() > 0.12:
            return
        run.may_be_cancelled = True
        await asyncio.sleep(1.5 * self.rng.random())
        try:
            answer = await self.http.post(f"/v1/responses/{run.id}/cancel")
        except httpx.TransportError:
            return
        if answer.status_code != 200 and answer.status_code not in NOBODY_THERE:
            raise Broken(f"{run.id}: cancel: status {answer.status_code}: {answer.text}")

    async def stored(self, run: Run) -> dict[str, Any]:
        while True:
            try:
                answer = await self.http.get(f"/v1/responses/{run.id}")
                if answer.status_code == 200:
                    return answer.json()
                if answer.status_code not in NOBODY_THERE:
                    raise Broken(f"{run.id}: status {answer.status_code}: {answer.text}")
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)

    async def harm(self) -> None:
        """Kill a worker, or both, or freeze one beyond its leases, now and then until the clients are done."""
        deck: list[str] = []
        while await self.due.get() is not None:
            await asyncio.sleep(1.5 * self.rng.random())
            if not deck:
                deck = ["one", "one", "one", "both", "frozen"]
                self.rng.shuffle(deck)
            workers = await asyncio.to_thread(self.host.status)
            pids = {number: worker["pid"] for number, worker in workers.items()}
            numbers = sorted(pids)
            self.rng.shuffle(numbers)
            match deck.pop():
                case "frozen":
                    os.kill(pids[numbers[0]], signal.SIGSTOP)
                    await asyncio.sleep(FROZEN)
                    os.kill(pids[numbers[0]], signal.SIGCONT)
                    self.counts["freezes"] += 1
                case "both":
                    await self.kill(pids)
                case _:
                    await self.kill({numbers[0]: pids[numbers[0]]})

    async def kill(self, pids: dict[int, int]) -> None:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            self.counts["kills"] += 1
        for number, pid in pids.items():
            await asyncio.to_thread(self.host.wait_for_worker, number, instead_of=pid)

    async def go(self) -> None:
        async with asyncio.TaskGroup() as group:
            harm = group.create_task(self.harm())
            clients = [group.create_task(self.client()) for _ in range(CLIENTS)]
            await asyncio.gather(*clients)
            self.due.put_nowait(None)
            await harm


@pytest.mark.timeout(200 + 200 * SCALE)
async def test_every_follower_puts_together_what_is_stored_whatever_is_killed(
    azurite: Azurite, capfd: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("RESPONSES_CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    began = time.monotonic()
    timeout = httpx.Timeout(60, connect=10)
    limits = httpx.Limits(max_connections=200)
    async with DevHost(ROOT, workers=2, env=SETTINGS, storage=azurite.connection_string) as host:
        async with httpx.AsyncClient(base_url=host.base_url, timeout=timeout, limits=limits) as http:
            chaos = Chaos(host, http, random.Random(seed))
            try:
                await chaos.go()
            except BaseException:
                print(f"chaos run, seed {seed}, so far {dict(chaos.counts)}\n{host.logs}")
                raise
    counts = chaos.counts
    with capfd.disabled():
        facts = ", ".join(
            f"{counts[name]} {name}"
            for name in ("runs", "kills", "freezes", "resets", "cancelled", "ended", "connections", "events")
        )
        print(f"\nresponses chaos, seed {seed}: {facts}, {dict(counts)}, {time.monotonic() - began:.0f} s")
    assert (counts["runs"], counts["ended"]) == (RUNS, 2 * RUNS)
    assert counts["kills"] > 0
    assert counts["resets"] > 0


@pytest.mark.timeout(180)
async def test_a_worker_that_was_frozen_beyond_its_lease_does_not_answer_for_work_it_has_lost(azurite: Azurite) -> None:
    """Nobody else was there to take the work over, so nothing fences what the thawed attempt would say: it must say nothing."""
    async with (
        DevHost(ROOT, env=SETTINGS, storage=azurite.connection_string) as host,
        httpx.AsyncClient(base_url=host.base_url, timeout=60) as http,
    ):
        body = {"model": "agent", "input": "[[slow 60 100]]", "background": True}
        run = Run((await http.post("/v1/responses", json=body)).json()["id"], 60)

        await beyond(http, run, "queued")
        os.kill(host.workers[0], signal.SIGSTOP)
        await asyncio.sleep(FROZEN)
        os.kill(host.workers[0], signal.SIGCONT)
        response = await beyond(http, run, "in_progress")
    assert (response["status"], said(response)) == ("completed", run.text)


async def beyond(http: httpx.AsyncClient, run: Run, status: str) -> dict[str, Any]:
    """The response, once it has another status than this."""
    while True:
        response = (await http.get(f"/v1/responses/{run.id}")).json()
        if response["status"] != status:
            return response
        await asyncio.sleep(0.1)
