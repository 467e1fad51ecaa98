"""A process of the Responses server that is cut off at every single write of a turn, one after the other (see cut_points).

A second process finds what was left, and the client goes on as clients do: it asks again, with the same key. What it was told
must hold in the end, and nothing may be left over (see cut_audit). `CUT_POINT=7` cuts the chosen tests at that write only.
"""

import pytest

from tests.crash.cut_flows_turns import FLOWS
from tests.crash.cut_points import MODES, Mode
from tests.crash.cut_runs import cut_everywhere


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOWS)
async def test_a_turn_that_is_cut_at_any_write_keeps_what_was_promised(
    name: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_everywhere(FLOWS[name], mode, monkeypatch)
