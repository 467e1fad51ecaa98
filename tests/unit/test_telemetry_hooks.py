"""The app's create_span_hook."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from hosting.telemetry import HookedSpan, create_tags, turn

TAGS = create_tags(response_id="resp_1", agent="helper", provider="contoso", model="m", conversation="conv_1")


class Hook:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_span_start(self, name: str, tags: Mapping[str, Any]) -> None:
        self.calls.append(("start", name, tags))

    def on_span_end(self, name: str, tags: Mapping[str, Any], error: BaseException | None) -> None:
        self.calls.append(("end", name, tags, error))


class BrokenHook(Hook):
    def on_span_start(self, name: str, tags: Mapping[str, Any]) -> None:
        raise RuntimeError("SECRET")

    def on_span_end(self, name: str, tags: Mapping[str, Any], error: BaseException | None) -> None:
        raise RuntimeError("SECRET")


def test_a_hook_is_told_of_the_beginning_and_the_end_with_the_genai_tags():
    hook = Hook()
    with HookedSpan(hook, "helper", TAGS):
        assert [call[0] for call in hook.calls] == ["start"]
    expected = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "contoso",
        "gen_ai.agent.name": "helper",
        "gen_ai.response.id": "resp_1",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "conv_1",
    }
    assert hook.calls == [("start", "invoke_agent helper", expected), ("end", "invoke_agent helper", expected, None)]


def test_a_hook_is_told_what_the_request_failed_with():
    hook, error = Hook(), ValueError("x")
    with pytest.raises(ValueError, match="x"), HookedSpan(hook, "helper", TAGS):
        raise error
    assert hook.calls[-1][-1] is error


def test_the_end_is_told_once():
    hook = Hook()
    with HookedSpan(hook, "helper", TAGS) as hooked:
        hooked.end()
    assert [call[0] for call in hook.calls] == ["start", "end"]


def test_a_hook_that_raises_breaks_nothing_and_is_logged_without_its_message(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR), HookedSpan(BrokenHook(), "helper", TAGS):
        pass
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "RuntimeError" in caplog.text
    assert "SECRET" not in caplog.text


def test_a_hook_can_not_change_the_tags_of_the_span():
    class Changing(Hook):
        def on_span_start(self, name: str, tags: Any) -> None:
            tags.clear()

    hooked = HookedSpan(Changing(), "helper", TAGS)
    with hooked:
        assert hooked.tags == TAGS


def test_a_turn_tells_its_hook_also_when_nothing_is_exported():
    hook = Hook()
    with turn(response_id="resp_1", agent="helper", mode="foreground", hook=hook) as running:
        running.ended("completed", {"input_tokens": 3, "output_tokens": 4})
    start, end = hook.calls
    assert start[1] == "invoke_agent helper"
    assert end[2]["gen_ai.usage.output_tokens"] == 4


def test_a_turn_tells_its_hook_the_error_that_the_response_failed_with():
    hook, error = Hook(), ValueError("x")
    with turn(response_id="resp_1", agent="helper", mode="foreground", hook=hook) as running:
        running.ended("failed", error=error)
    assert hook.calls[-1][-1] is error
