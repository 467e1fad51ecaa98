"""What users say and the keys that they say it with are in no log record, span or measurement, and in no error of ours."""

import logging
import traceback
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from hosting.storage import StorageError
from hosting.telemetry import allow_content, content_allowed
from tests.security.world import Answer, Secured, SpyTables, secured
from tests.telemetry_recorder import Recorder, recorder

__all__ = ["recorder"]

WORD = "canary7f3a"


@pytest.fixture
async def world() -> AsyncGenerator[Secured]:
    before = content_allowed()
    allow_content(False)
    try:
        async with secured() as made:
            yield made
    finally:
        allow_content(before)


def logged(record: logging.LogRecord) -> str:
    """All that a log handler could write of a record, also the traceback."""
    parts = [record.getMessage(), repr(record.args), repr(record.__dict__)]
    if record.exc_info and record.exc_info[1] is not None:
        parts += traceback.format_exception(record.exc_info[1])
    return "\n".join(parts)


def secret_of(world: Secured) -> str:
    return world.victim.headers["authorization"].removeprefix("Bearer ")


def check(world: Secured, caplog: pytest.LogCaptureFixture, recorder: Recorder) -> None:
    for word in (WORD, secret_of(world)):
        for record in caplog.records:
            assert word not in logged(record), (record.name, record.msg)
        for span in recorder.spans:
            assert word not in span.to_json(), span.name
        data = recorder._reader.get_metrics_data()  # pyright: ignore[reportPrivateUsage]
        assert data is None or word not in data.to_json()


async def ask(world: Secured, body: Any, **given: Any) -> Answer:
    return await world.victim.send("POST", "v1/responses", body, **given)


async def test_a_request_that_succeeds_leaves_no_trace_of_its_content(
    world: Secured, caplog: pytest.LogCaptureFixture, recorder: Recorder
) -> None:
    caplog.set_level(logging.DEBUG)
    for extra in ({}, {"stream": True}, {"background": True}):
        body = {"input": f"use open_tool {WORD}", "metadata": {"note": WORD}, "instructions": WORD, **extra}
        headers = {"idempotency-key": f"{WORD}{len(extra)}{list(extra)}", "user-agent": WORD, "x-other": WORD}
        answer = await ask(world, body, headers=headers, query={"q": [WORD]})
        assert answer.status == 200
        if "background" in extra:
            await world.ended(world.victim, answer.json["id"])
    check(world, caplog, recorder)


@pytest.mark.parametrize("extra", [{}, {"stream": True}, {"background": True}])
async def test_an_agent_that_raises_with_the_content_tells_nobody(
    world: Secured, caplog: pytest.LogCaptureFixture, recorder: Recorder, extra: dict[str, bool]
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await ask(world, {"input": f"fail {WORD}", "metadata": {"note": "x"}, **extra})
    if "background" in extra:
        ended = await world.ended(world.victim, answer.json["id"])
        assert ended["status"] == "failed"
        assert WORD not in repr(ended["error"])
    assert "the model refuses" not in answer.text
    check(world, caplog, recorder)


async def test_a_storage_that_fails_with_the_content_tells_nobody(
    world: Secured, caplog: pytest.LogCaptureFixture, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*given: Any, **options: Any) -> Any:
        raise StorageError(f"refused {WORD}")

    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(SpyTables, "transact", broken)
    answer = await ask(world, {"input": WORD})
    assert answer.status >= 500 or answer.json["status"] == "failed"
    assert f"refused {WORD}" not in answer.text
    monkeypatch.undo()
    check(world, caplog, recorder)


@pytest.mark.parametrize("body", [f'{{"input": "{WORD}'.encode(), b"\xff" + WORD.encode(), f'["{WORD}"]'.encode()])
async def test_malformed_json_is_not_repeated(
    world: Secured, caplog: pytest.LogCaptureFixture, recorder: Recorder, body: bytes
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await ask(world, body)
    assert answer.status == 400
    assert WORD not in answer.error["message"]
    check(world, caplog, recorder)


async def test_a_wrong_key_is_neither_repeated_nor_logged(
    world: Secured, caplog: pytest.LogCaptureFixture, recorder: Recorder
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = secret_of(world)[:-4] + WORD
    answer = await ask(world, {"input": WORD}, anonymous=True, headers={"authorization": f"Bearer {wrong}"})
    assert answer.status == 401
    assert WORD not in answer.text
    check(world, caplog, recorder)
