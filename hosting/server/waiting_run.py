"""A background run that waits for memory: it has none meanwhile, and goes when there is nothing left to wait for."""

from collections.abc import Awaitable, Callable
from typing import Any

from hosting.read_budget import charging
from hosting.server.working_memory import NothingToWaitFor, Share
from hosting.state.response_row import RUNNING
from hosting.storage import Store, keys
from hosting.tasks import TaskContext, current_scope

__all__ = ["run_when_there_is_room"]


async def run_when_there_is_room(
    ctx: TaskContext[Any], share: Share, store: Store, work: Callable[[], Awaitable[Any]]
) -> Any:
    """The result of `work`, the run of the response that the task is about. See Share.when_there_is_room."""
    partition, row = keys.partition_key(current_scope(), keys.chain_of(ctx.input_id)), keys.response_row(ctx.input_id)

    async def over() -> bool:
        if ctx.shutdown.is_set():
            return True
        if not ctx.cancel_requested:
            return False
        with charging(lambda size: None):
            found = await store.get(partition, row, documents=())
        return found is None or found.fields["status"] not in RUNNING

    with share, charging(share.take):
        try:
            return await share.when_there_is_room(work, over)
        except NothingToWaitFor:
            # To a process that has room perhaps; or nowhere: the response is final, as its row says.
            return await ctx.exit_for_recovery() if ctx.shutdown.is_set() else None
