"""Runs a flow once for each of its writes, cut off at it."""

import os
import traceback
from contextlib import suppress

import pytest

from tests.crash.cut_audit import at_rest, audit, retained
from tests.crash.cut_client import Client, GaveUp
from tests.crash.cut_flow import Flow
from tests.crash.cut_points import Mode, one_clock, process

__all__ = ["cut_everywhere"]

_ONLY = int(os.environ.get("CUT_POINT", 0)) or None
"""The write at which to cut, if not at each."""

_MOST = 120
"""More writes than any flow has."""


async def cut_everywhere(flow: Flow, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the flow at every write, or at the one that `CUT_POINT` names. AssertionError names all that broke something."""
    one_clock(monkeypatch)
    broken: list[str] = []
    for point in range(1, _MOST) if _ONLY is None else [_ONLY]:
        what, problem = await _cut(flow, point, mode)
        if problem:
            broken.append(f"  {point}, {what or 'nothing'}: {problem}")
        if not what:
            break
    else:
        assert _ONLY is not None, "the flow has more writes than points"
    assert not broken, f"cut at {len(broken)} of {point - 1} writes:\n" + "\n".join(broken)
    assert _ONLY or point > 1, "nothing was cut"


async def _cut(flow: Flow, point: int, mode: Mode) -> tuple[str, str]:
    """One life that is cut at this write, and what came after it: the write, "" when there was none; what broke, or ""."""
    hosted = flow.hosted() if flow.hosted is not None else None
    handler = flow.handler() if flow.handler is not None else None
    async with process(handler, hosted=hosted, invocations=flow.invocations, **flow.options) as made:
        client = Client(made)
        if flow.setup is not None:
            await flow.setup(client)
        gate = made.gate
        gate.arm(point, mode)
        try:
            with suppress(GaveUp):
                await flow.story(client)
            await at_rest(client)
            await audit(client)
            await retained(made.account)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)[-4:]
            where = " > ".join(f"{frame.name}:{frame.lineno}" for frame in frames)
            return gate.what, f"{type(error).__name__}: {str(error)[:600]} at {where}"
        return gate.what, ""
