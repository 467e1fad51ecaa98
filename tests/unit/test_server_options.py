"""ResponsesServerOptions: the seed's fields and defaults, and values that can't work."""

import dataclasses

import pytest

from hosting.server.options import ResponsesServerOptions


def test_defaults_are_the_seeds() -> None:
    options = ResponsesServerOptions()
    assert dataclasses.asdict(options) == {
        "resilient_background": False,
        "steerable_conversations": False,
        "default_fetch_history_count": 100,
        "sse_keep_alive_interval_seconds": None,
        "shutdown_grace_period_seconds": 10,
        "default_model": None,
        "additional_server_version": None,
        "create_span_hook": None,
    }


def test_the_call_of_the_seed_works() -> None:
    options = ResponsesServerOptions(
        resilient_background=True,
        steerable_conversations=True,
        default_fetch_history_count=100,
        sse_keep_alive_interval_seconds=None,
        shutdown_grace_period_seconds=10,
    )
    assert options.resilient_background
    assert options.steerable_conversations


@pytest.mark.parametrize("name", ["sse_keep_alive_interval_seconds", "shutdown_grace_period_seconds"])
@pytest.mark.parametrize("value", [0, -1, -0.5, float("nan")])
def test_seconds_are_above_zero(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        ResponsesServerOptions(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("default_fetch_history_count", -2),
        ("default_model", " "),
        ("additional_server_version", ""),
        ("additional_server_version", "a\r\nx: y"),
        ("additional_server_version", "é"),
    ],
)
def test_other_values_that_can_not_work_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        ResponsesServerOptions(**{name: value})


@pytest.mark.parametrize(("count", "limit"), [(100, 100), (0, 0), (-1, None)])
def test_minus_one_is_no_limit(count: int, limit: int | None) -> None:
    assert ResponsesServerOptions(default_fetch_history_count=count).history_limit == limit


def test_options_are_keyword_only_and_frozen() -> None:
    with pytest.raises(TypeError):
        ResponsesServerOptions(True)  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ResponsesServerOptions().resilient_background = True  # type: ignore[misc]
