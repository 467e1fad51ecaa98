"""A version whose workflow can't be made: background runs wait for a better one, as with an agent."""

from hosting.responses.envelope import AGENT_FAILED
from hosting.state import WorkflowState
from tests.server_world import serve, until


async def test_a_run_is_tried_again_and_ends_failed_by_its_workflow() -> None:
    calls: list[str] = []

    def factory() -> None:
        calls.append("made")
        raise RuntimeError

    async with serve(hosted=WorkflowState(factory)) as world:
        made = await world.create(background=True)
        await until(lambda: bool(calls))
        await world.advance(300)
        ended = await world.ended(made["id"])
    assert (ended["status"], ended["error"]["message"], len(calls)) == ("failed", AGENT_FAILED, 10)
