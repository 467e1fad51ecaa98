"""Cancelling a response as its own client would: the same code, in a process that has no agent and no task hub."""

from typing import Any

from hosting.admin.account import Account
from hosting.server.cancel_response import cancel_response
from hosting.state import Turns
from hosting.streaming import StreamRegistry

__all__ = ["cancel"]


async def cancel(account: Account, scope: str, response: str) -> dict[str, Any]:
    """The response, as it is then: cancelled, or as it ended before. Also one that a request waits for, behind another turn.

    Raises ApiError for an unknown id and for a response that no task runs, and StorageError.
    """
    streams = StreamRegistry()
    streams.use_blob_replay(
        lambda: account.blobs, scope=lambda: scope, cursor_fn=lambda event: event["sequence_number"]
    )
    turns = Turns(account.store, scope)
    return await cancel_response(turns, response, engine=account.engine, streams=streams, foreground=True)
