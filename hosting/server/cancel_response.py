"""Cancel a background response: from any process, whether or not it could run one."""

import logging
from typing import Any

from hosting import telemetry
from hosting.responses import ApiError
from hosting.server.background_run import CANCELLED_GENERATION
from hosting.state import StoredResponse, Turns
from hosting.state.response_row import running_columns
from hosting.storage import Replace, RowConflict, StorageError, keys
from hosting.streaming import EventStreamError, StreamRegistry
from hosting.tasks import use_scope
from hosting.tasks.engine import Key
from hosting.tasks.host import Engine

__all__ = ["cancel_response"]

_log = logging.getLogger(__name__)


async def cancel_response(
    turns: Turns, identifier: str, *, engine: Engine, streams: StreamRegistry, foreground: bool = False
) -> dict[str, Any]:
    """Cancel a background response: it is cancelled for everybody when this returns, and its run ends soon after.

    One that has ended is returned as it is. Raises ApiError for an unknown one, for one that was asked for in the foreground
    unless `foreground`, and StorageError.
    """
    scope = turns.scope
    while True:
        stored = await turns.response(identifier)
        if stored is None:
            raise ApiError.response_not_found(identifier)
        if stored.task is None or not (stored.response["background"] or foreground):
            raise ApiError.not_cancellable()
        if not stored.running:
            if stored.response["status"] == "cancelled":  # whoever cancelled it may have died before its run was told
                await _tell_run(engine, scope, stored)
            return stored.response
        response: dict[str, Any] = {**stored.response, "status": "cancelled", "output": []}
        columns = running_columns(
            response, stored.input or [], stored.place, stored.before, stored.task, stored.opening
        )
        cancelled = Replace(keys.response_row(identifier), *columns, stored.etag)
        try:
            await turns.store.commit(keys.partition_key(scope, stored.place.chain), [cancelled])
        except RowConflict:  # it has just ended, or got on: look again
            continue
        await _end_stream(streams, scope, stored)
        await _tell_run(engine, scope, stored)
        return response


async def _tell_run(engine: Engine, scope: str, stored: StoredResponse) -> None:
    """Where this fails, the run finds its row cancelled when it next stores something, or a second cancel tells it."""
    if stored.task is None:
        return
    try:
        await engine.cancel(Key(scope, stored.task.task_id), stored.task.seq)
    except StorageError as error:
        identifier = stored.response["id"]
        _log.error("The run of %s is not told that it is cancelled: %s", identifier, telemetry.describe(error))


async def _end_stream(streams: StreamRegistry, scope: str, stored: StoredResponse) -> None:
    """Close the stream of a cancelled response: its terminal event has the number after the last one stored, and that must
    not change any more. What the run still emits is refused. If this fails, or the process dies before it, the run or the
    next attempt closes it.
    """
    if stored.task is None or not stored.task.stream:
        return
    try:
        with use_scope(scope):
            stream = await streams.take_over(stored.response["id"], generation=CANCELLED_GENERATION)
        await stream.close()
    except EventStreamError as error:
        _log.warning("The stream of %s could not be closed when it was cancelled: %r", stored.response["id"], error)
