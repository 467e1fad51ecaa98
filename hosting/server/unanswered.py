"""A background response whose task has failed for good without an answer: what its client reads, and what is logged."""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any

from hosting.responses.envelope import AGENT_FAILED
from hosting.server.transcript import INTERRUPTED
from hosting.storage import StorageError
from hosting.tasks.engine import Outcome

__all__ = ["AgentNotLoaded", "load_agent", "without_answer"]

_log = logging.getLogger(__name__)


class AgentNotLoaded(RuntimeError):
    """The app's factory raised. The response has not begun to run, so the attempt can be made again, later or elsewhere."""


async def load_agent[T](loading: Awaitable[T], identifier: str) -> T:
    """What is loaded. Raises StorageError as it is, and AgentNotLoaded for anything else."""
    try:
        return await loading
    except StorageError:
        raise
    except Exception as error:
        raise AgentNotLoaded(f"nothing here answers {identifier}") from error


def without_answer(response: Mapping[str, Any], outcome: Outcome, *, log: bool) -> dict[str, Any]:
    """The response as failed: by its agent, which could not be loaded, or by storage, which was away for many minutes."""
    said = outcome.error or {}
    reason = str(said.get("last_error_type") or said.get("type") or outcome.kind)
    if log:
        _log.error("%s has failed for good, without an answer: %s", response["id"], reason)
    message = AGENT_FAILED if reason == AgentNotLoaded.__name__ else INTERRUPTED
    error = {"code": "server_error", "message": message, "type": "server_error", "param": None}
    return {**response, "status": "failed", "error": error, "output": []}
