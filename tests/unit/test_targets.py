"""What an app may host."""

from typing import Any

import pytest

from hosting.server.options import ResponsesServerOptions
from hosting.server.targets import Targets


def create_agent() -> Any:
    raise AssertionError("it is not asked for when the app is loaded")


@pytest.mark.parametrize(
    "hosted", [create_agent, object(), "agent", {"one": create_agent}], ids=["function", "agent", "text", "named"]
)
def test_what_is_neither_agent_state_nor_workflow_state_is_refused_when_the_app_is_loaded(hosted: Any) -> None:
    with pytest.raises(TypeError, match=r"AgentState\(create_agent\)"):
        Targets(hosted, ResponsesServerOptions(), "agent")
