"""The same as test_server_cut_points for what is kept: deleting it, items, forks; and for agents, workflows, invocations."""

import pytest

from tests.crash.cut_flows_kept import FLOWS
from tests.crash.cut_points import MODES, Mode
from tests.crash.cut_runs import cut_everywhere


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOWS)
async def test_whatever_is_cut_at_any_write_is_whole_or_gone(
    name: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_everywhere(FLOWS[name], mode, monkeypatch)
