"""Which of the agent's messages is being rendered, and what belongs to it."""

from typing import Any

from hosting.responses.logprobs import has_logprobs
from hosting.responses.marks import is_refusal
from hosting.responses.updates import Piece

__all__ = ["MessageScope"]


class MessageScope:
    """The current message. Messages are told apart as agent-framework does when it puts updates together."""

    def __init__(self) -> None:
        self.number = 0
        """Counts the messages; 0 before the first one."""
        self.is_empty = False
        """Whether nothing of the message has been rendered yet."""
        self.first_index = 0
        """How many items there were before it."""
        self._id: str | None = None
        self._author: str | None = None
        self._role: str | None = None

    def enter(self, piece: Piece) -> None:
        """Go on to the message of `piece`, which may be the current one."""
        if self._begins(piece):
            self.number += 1
            self.is_empty = True
            self._id, self._author, self._role = None, None, "assistant"
        self._id = piece.message_id or self._id
        self._author = piece.author_name or self._author
        self._role = piece.role or self._role

    def _begins(self, piece: Piece) -> bool:
        return bool(
            piece.whole
            or self.number == 0
            or (piece.message_id and self._id and piece.message_id != self._id)
            or (piece.author_name and self._author and piece.author_name != self._author)
            or (piece.role and piece.role != self._role)
        )

    def plain_text(self, update: Any, *, wants_model: bool) -> str | None:
        """The text of an update that only adds text to this message, as nearly all updates of a stream do.

        None for everything else: another message, other contents, marks, citations, or a source to ask for its model.
        """
        if self.is_empty:
            return None
        try:
            [content] = update.contents
            text, properties, more = content.text, content.additional_properties, update.additional_properties
            if (
                content.type != "text"
                or type(text) is not str
                or content.annotations
                or content.merge_mode == "replace"
                or update.merge_mode is not None
                or update.finish_reason is not None
                or (update.message_id is not None and update.message_id != self._id)
                or (update.author_name is not None and update.author_name != self._author)
                or (update.role is not None and update.role != self._role)
                or (properties and (is_refusal(content) or has_logprobs(properties)))
                or (more and has_logprobs(more))
                or (wants_model and (more or update.raw_representation is not None))
            ):
                return None
        except Exception:  # of foreign objects: the long way knows what to do with them
            return None
        return text or None
