"""What a turn leaves of a workflow, in the place of an agent's session: where its checkpoint is and what it waits for.

It is stored in the transaction of the turn, and so is the checkpoint. A turn that continues an older response reads that
response's, so each branch of a conversation goes on from its own checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from hosting.responses import CreateRequest
from hosting.responses.workflow_answers import split_answers
from hosting.responses.workflow_requests import OpenRequest
from hosting.storage import Json

__all__ = ["WorkflowSession", "check_workflow_answers"]

_TYPE = "workflow"


@dataclass(frozen=True, slots=True)
class WorkflowSession:
    """The document. `read` gives None for what is no workflow's: an agent's session, or none."""

    workflow: str
    graph: str
    """The signature of the graph: a checkpoint of another graph can't be restored."""
    bucket: str
    """The session id of the checkpoint storage: the id of the response whose run made the checkpoint."""
    checkpoint_id: str
    requests: Sequence[OpenRequest] = ()
    unseen: Sequence[Json] = ()
    """Messages of turns after the checkpoint, which were stopped: the workflow is told them with the next input."""

    @staticmethod
    def read(document: Json) -> "WorkflowSession | None":
        """From what a turn has stored."""
        if not isinstance(document, Mapping) or document.get("type") != _TYPE:
            return None
        stored = cast("Mapping[str, Any]", document)
        return WorkflowSession(
            stored["workflow"],
            stored["graph"],
            stored["bucket"],
            stored["checkpoint_id"],
            [OpenRequest.from_document(entry) for entry in stored["requests"]],
            stored["unseen"],
        )

    def to_document(self) -> dict[str, Json]:
        """As JSON."""
        return {
            "type": _TYPE,
            "workflow": self.workflow,
            "graph": self.graph,
            "bucket": self.bucket,
            "checkpoint_id": self.checkpoint_id,
            "requests": [cast("Json", request.to_document()) for request in self.requests],
            "unseen": list(self.unseen),
        }

    def with_unseen(self, messages: Sequence[Json]) -> "WorkflowSession":
        """After a turn that was stopped, so that the workflow stands where it was."""
        return replace(self, unseen=[*self.unseen, *messages])


def check_workflow_answers(session: Json, request: CreateRequest) -> None:
    """Raises InvalidRequest (400) with param `input` when the request answers something that the paused workflow of `session`
    (`Turn.session`) does not wait for, or answers it twice. Nothing for any other session.
    """
    if (paused := WorkflowSession.read(session)) is not None:
        split_answers(request.input_items, paused.requests)
