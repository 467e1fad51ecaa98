"""What a workflow says, out of its events: only what its output executors yield, each message whole and by one author.

Executors run at the same time and their updates come mixed. A client reads one message after the other, so one executor is
live and what others say meanwhile is held until it has completed. What executors exchange, and what they yield as
intermediate, is no answer; of the latter only the token usage counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hosting.responses.workflow_values import json_text

if TYPE_CHECKING:
    from agent_framework import Content, WorkflowEvent

__all__ = ["WorkflowOutput"]

_COMPLETED = frozenset({"executor_completed", "executor_failed"})
_UNSAID_ROLES = frozenset({"user", "system", "developer"})


@dataclass(slots=True)
class _Said:
    """A message, in the form that ResponseRenderer takes: it has no merge mode, by which an update is recognised."""

    contents: "list[Content]"
    role: str | None = "assistant"
    author_name: str | None = None
    message_id: str | None = None
    finish_reason: str | None = None
    raw_representation: object = None


@dataclass(slots=True)
class _Update(_Said):
    merge_mode: str | None = None


@dataclass(slots=True)
class _Speaker:
    """An executor, and what it has said that nobody has heard yet."""

    runs: int = 0
    author: str | None = None
    authors: int = 0
    completed: bool = False
    held: list[_Said] = field(default_factory=list["_Said"])


class WorkflowOutput:
    """The outputs of one run. What `feed` and `finish` return is for `ResponseRenderer.feed`, one by one."""

    def __init__(self) -> None:
        self._speakers: dict[str, _Speaker] = {}
        self._waiting: list[str] = []
        self._live: str | None = None

    def feed(self, event: "WorkflowEvent[Any]") -> list[object]:
        """What can be said after this event."""
        if event.type == "output":
            return self._say(event.executor_id or "", event.data)
        if event.type in ("intermediate", "data"):
            return _usage_only(event.data)
        if event.type in _COMPLETED:
            return self._completed(event.executor_id or "")
        return self.finish() if event.type == "superstep_completed" else []

    def finish(self) -> list[object]:
        """What is still held: nobody is speaking any more."""
        for speaker in self._speakers.values():
            speaker.completed = True
        return self._next_speaker()

    def _say(self, executor: str, data: object) -> list[object]:
        speaker = self._speakers.setdefault(executor, _Speaker())
        if speaker.completed:
            speaker.completed, speaker.author = False, None
            speaker.runs += 1
        said = [self._by(speaker, executor, piece) for piece in _pieces(data)]
        if self._live is None:
            self._live = executor
        if self._live == executor:
            return [*said]
        if executor not in self._waiting:
            self._waiting.append(executor)
        speaker.held += said
        return []

    def _by(self, speaker: _Speaker, executor: str, piece: _Said) -> _Said:
        """Named so that another executor, another run of it or another author begins another message."""
        if piece.author_name and speaker.author and piece.author_name != speaker.author:
            speaker.authors += 1
        speaker.author = piece.author_name or speaker.author
        piece.author_name = f"{executor}/{speaker.runs}/{speaker.authors}"
        return piece

    def _completed(self, executor: str) -> list[object]:
        if executor in self._speakers:
            self._speakers[executor].completed = True
        return self._next_speaker() if executor == self._live else []

    def _next_speaker(self) -> list[object]:
        """Those that have completed have their say; the first that has not goes on live."""
        said: list[object] = []
        self._live = None
        while self._waiting and self._live is None:
            executor = self._waiting.pop(0)
            speaker = self._speakers[executor]
            said += speaker.held
            speaker.held = []
            self._live = None if speaker.completed else executor
        return said


def _pieces(data: Any) -> Iterator[_Said]:
    """Messages, updates, contents and texts as they are, anything else as JSON."""
    if data is None:
        return
    if (response := _attribute(data, "agent_response")) is not None:  # an AgentExecutorResponse
        data = response
    if (messages := _attribute(data, "messages")) is not None:
        yield from _transcript(messages)
        yield from _ending(data)
    elif isinstance(data, str):
        yield _Said([cast("Content", _Text(data))])
    elif _is_message(data):
        yield _said(data)
    elif _is_content(data):
        yield _Said([data])
    elif isinstance(data, list) and data and all(map(_is_message, cast("list[object]", data))):
        yield from _transcript(cast("list[Any]", data))
    elif isinstance(data, list) and data and all(map(_is_sayable, cast("list[object]", data))):
        for entry in cast("list[Any]", data):
            yield from _pieces(entry)
    else:
        yield _Said([cast("Content", _Text(json_text(cast("object", data))))])


def _transcript(messages: Iterable[Any]) -> Iterator[_Said]:
    """A conversation: what the user has said in it, or the app, is no answer. A participant of that role has a name."""
    for message in messages:
        if str(message.role) not in _UNSAID_ROLES or _attribute(message, "author_name"):
            yield _said(message)


def _said(message: Any) -> _Said:
    made = _Update if hasattr(message, "merge_mode") else _Said
    piece = made(
        list(message.contents),
        str(message.role) if message.role else None,
        _attribute(message, "author_name"),
        _attribute(message, "message_id"),
        _attribute(message, "finish_reason"),
        message,
    )
    if isinstance(piece, _Update):
        piece.merge_mode = message.merge_mode
    return piece


def _ending(response: Any) -> Iterator[_Said]:
    """What a whole response says beside its messages."""
    usage, reason = _attribute(response, "usage_details"), _attribute(response, "finish_reason")
    if usage or reason:
        contents = [cast("Content", _Usage(usage))] if usage else []
        yield _Update(contents, finish_reason=reason, raw_representation=response)


def _usage_only(data: Any) -> list[object]:
    contents: list[Any] = [content for content in _attribute(data, "contents") or () if content.type == "usage"]
    return [_Update(contents)] if contents else [*_ending(data)]


class _Text:
    """A bare text, with the attributes that rendering reads."""

    type = "text"
    annotations = None
    merge_mode = None
    id = None
    additional_properties: dict[str, Any] = {}  # noqa: RUF012 (never written to)

    def __init__(self, text: str) -> None:
        self.text = text


class _Usage:
    """Token counts, with the attributes that rendering reads."""

    type = "usage"
    merge_mode = None

    def __init__(self, usage_details: Any) -> None:
        self.usage_details = usage_details


def _is_message(value: object) -> bool:
    return _attribute(value, "contents") is not None and hasattr(value, "role")


def _is_content(value: object) -> bool:
    return hasattr(value, "additional_properties") and isinstance(getattr(value, "type", None), str)


def _is_sayable(value: object) -> bool:
    return isinstance(value, str) or _is_message(value) or _is_content(value)


def _attribute(value: object, name: str) -> Any:
    return getattr(value, name, None)
