"""Packages that log what users say are quiet, unless content may be logged or the app has decided otherwise."""

import logging
from collections.abc import Iterator

import pytest

from hosting.functions.log_levels import LEVELS, set_log_levels
from hosting.telemetry import allow_content, content_allowed


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Loggers are the whole process's."""
    allowed, levels = content_allowed(), {name: logging.getLogger(name).level for name in LEVELS}
    for name in LEVELS:
        logging.getLogger(name).setLevel(logging.NOTSET)
    yield
    allow_content(allowed)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def levels() -> dict[str, int]:
    return {name: logging.getLogger(name).level for name in LEVELS}


def test_loggers_without_a_level_get_one() -> None:
    allow_content(False)
    set_log_levels()
    assert levels() == LEVELS
    assert not logging.getLogger("agent_framework.openai").isEnabledFor(logging.DEBUG)


def test_a_level_of_the_app_s_own_stays() -> None:
    allow_content(False)
    logging.getLogger("openai").setLevel(logging.DEBUG)
    set_log_levels()
    assert levels() == {**LEVELS, "openai": logging.DEBUG}


def test_where_content_may_be_logged_nothing_is_quieted() -> None:
    allow_content(True)
    set_log_levels()
    assert set(levels().values()) == {logging.NOTSET}
