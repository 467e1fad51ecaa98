"""What happens when the platform asks the process to end."""

import asyncio
import logging

import pytest

from hosting.functions.shutdown import Shutdown


async def test_hooks_run_side_by_side_and_the_last_ones_after_them() -> None:
    said: list[str] = []
    both = asyncio.Event()
    shutdown = Shutdown()

    async def close() -> None:
        said.append("closed")

    async def first() -> None:
        await asyncio.wait_for(both.wait(), 30)  # comes only if the other one runs too
        said.append("first")

    async def second() -> None:
        both.set()
        said.append("second")

    shutdown.add(close, last=True)
    shutdown.add(first)
    shutdown.add(second)
    await shutdown._run(end_process=False)  # pyright: ignore[reportPrivateUsage]
    assert said == ["second", "first", "closed"]


async def test_a_hook_that_fails_keeps_no_other_from_running(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    shutdown = Shutdown()

    async def fails() -> None:
        raise RuntimeError("no")

    async def closes() -> None:
        said.append("closed")

    shutdown.add(fails)
    shutdown.add(fails, last=True)
    shutdown.add(closes, last=True)
    with caplog.at_level(logging.ERROR):
        await shutdown._run(end_process=False)  # pyright: ignore[reportPrivateUsage]
    assert said == ["closed"]
    assert len(caplog.records) == 2
