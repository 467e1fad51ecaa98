"""An agent that looks after machines: it looks by itself, and restarts one only when a human has approved."""

import os
from pathlib import Path
from typing import Annotated

from agent_framework import Agent, tool
from pydantic import Field

MACHINES = {"web-1": "up, load 0.4", "web-2": "up, load 3.9", "db-1": "up, load 1.2"}

Machine = Annotated[str, Field(description="Its name, such as web-1.")]


@tool(approval_mode="never_require")
def machine_status(machine: Machine) -> str:
    """How a machine is doing."""
    return f"{machine} is {MACHINES.get(machine, 'unknown')}"


@tool(approval_mode="always_require")
def restart_machine(machine: Machine) -> str:
    """Restart a machine. Whoever works on it loses what is not saved."""
    # A turn whose process dies is run again, so a real restart asks first whether it has been done.
    if journal := os.environ.get("OPERATOR_JOURNAL"):
        with Path(journal).open("a") as lines:
            lines.write(f"restart {machine} by {os.getpid()}\n")
    return f"{machine} was restarted"


def create_agent() -> Agent:
    """Called once a process. The offline model is a stand-in: `hosting.models.create_chat_client()` gives a real one."""
    from offline_model import OfflineModel

    from hosting.state import TableHistoryProvider

    return Agent(
        client=OfflineModel(),
        name="operator",
        instructions="You look after the machines web-1, web-2 and db-1.",
        tools=[machine_status, restart_machine],
        context_providers=[TableHistoryProvider()],
        default_options={"store": False},
    )
