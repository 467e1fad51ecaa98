"""A version whose agent can't be made: background runs wait for a better one, and at last say whose fault it was."""

import logging

import pytest
from agent_framework import Agent

from demo_agent import create_demo_chat_client
from hosting.responses.envelope import AGENT_FAILED
from hosting.state import AgentState
from tests.server_world import serve, until


class Factory:
    """Raises until it is mended."""

    def __init__(self) -> None:
        self.calls, self.mended = 0, False

    def __call__(self) -> Agent:
        self.calls += 1
        if not self.mended:
            raise RuntimeError("a secret of the app")
        return Agent(client=create_demo_chat_client())


async def test_a_run_ends_failed_with_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hosting")
    factory = Factory()
    async with serve(hosted=AgentState(factory)) as world:
        made = await world.create(background=True)
        await until(lambda: factory.calls > 0)
        await world.advance(300)
        ended = await world.ended(made["id"])
    assert (ended["status"], ended["error"]["message"]) == ("failed", AGENT_FAILED)
    assert factory.calls == 10
    levels = [record.levelno for record in caplog.records]
    assert levels.count(logging.WARNING) == 9
    (error,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert error == f"{made['id']} has failed for good, without an answer: AgentNotLoaded"
    assert "a secret" not in caplog.text


async def test_a_good_version_in_time_saves_the_run() -> None:
    factory = Factory()
    async with serve(hosted=AgentState(factory)) as world:
        made = await world.create(background=True)
        await until(lambda: factory.calls > 0)
        factory.mended = True
        await world.advance(60)
        assert (await world.ended(made["id"]))["status"] == "completed"
