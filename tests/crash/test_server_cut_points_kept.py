"""The same as test_server_cut_points for what is kept: deleting it, items, forks; and for agents, workflows, invocations."""

import os

import pytest

from tests.crash.cut_flows_kept import FLOWS
from tests.crash.cut_points import MODES, Mode, one_clock
from tests.crash.cut_runs import cut_everywhere

ONLY = int(os.environ.get("CUT_POINT", 0)) or None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOWS)
async def test_whatever_is_cut_at_any_write_is_whole_or_gone(
    name: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_clock(monkeypatch)
    writes = await cut_everywhere(FLOWS[name], mode, ONLY)
    assert ONLY or writes > 0, "nothing was cut"
