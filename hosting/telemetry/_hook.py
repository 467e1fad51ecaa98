"""Calls the app's `create_span_hook`, which must never break a request."""

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from hosting.telemetry._describe import describe

__all__ = ["HookedSpan", "SpanHook", "create_tags"]

_log = logging.getLogger(__name__)


class SpanHook(Protocol):
    """What `hosting.server.CreateSpanHook` is, which lies above this package."""

    def on_span_start(self, name: str, tags: Mapping[str, Any]) -> None: ...

    def on_span_end(self, name: str, tags: Mapping[str, Any], error: BaseException | None) -> None: ...


def create_tags(
    *,
    response_id: str,
    agent: str,
    provider: str,
    model: str | None = None,
    conversation: str | None = None,
) -> dict[str, Any]:
    """The GenAI attributes of a create request."""
    tags: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider,
        "gen_ai.agent.name": agent,
        "gen_ai.response.id": response_id,
    }
    if model is not None:
        tags["gen_ai.request.model"] = model[:128]  # a caller's text
    if conversation is not None:
        tags["gen_ai.conversation.id"] = conversation
    return tags


class HookedSpan:
    """A context manager: tells `hook` of the beginning and of the end, each once. What the hook raises is logged."""

    def __init__(self, hook: SpanHook | None, agent: str, tags: Mapping[str, Any]) -> None:
        self._hook, self._name, self.tags = hook, f"invoke_agent {agent}", dict(tags)

    def __enter__(self) -> Self:
        if (hook := self._hook) is not None:
            self._call(hook.on_span_start, self._name, dict(self.tags))
        return self

    def end(self, error: BaseException | None = None) -> None:
        """The request was answered, or failed."""
        hook, self._hook = self._hook, None
        if hook is not None:
            self._call(hook.on_span_end, self._name, dict(self.tags), error)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.end(error)

    def _call(self, method: Callable[..., None], *arguments: Any) -> None:
        try:
            method(*arguments)
        except Exception as error:
            _log.error("The create_span_hook failed: %s", describe(error))
