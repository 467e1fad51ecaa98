"""TaskMetadata as a mapping, and the settings of the engine."""

from datetime import timedelta
from typing import Any

import pytest

from hosting.tasks import TaskMetadata
from hosting.tasks._metadata import MetadataSpaces
from hosting.tasks._options import TaskOptions


def spaces(stored: dict[str, Any] | None = None) -> MetadataSpaces:
    async def flush(space: TaskMetadata) -> None:
        flushed.append(space.name)

    flushed: list[str] = []
    made = MetadataSpaces(stored or {}, flush)
    made.flushed = flushed  # type: ignore[attr-defined]
    return made


def test_it_is_a_mapping():
    data = spaces({"": {"a": 1}}).get("")
    data["b"] = 2
    del data["a"]
    assert (dict(data), len(data), "b" in data, data.get("x", 9)) == ({"b": 2}, 1, True, 9)


def test_increment_and_append_begin_at_nothing():
    data = spaces().get("")
    data.increment("n")
    data.increment("n", 4)
    data.append("l", "x")
    data.append("l", "y")
    assert data.to_dict() == {"n": 5, "l": ["x", "y"]}


def test_append_does_not_change_a_list_that_somebody_else_holds():
    data, held = spaces().get(""), ["x"]
    data["l"] = held
    data.append("l", "y")
    assert held == ["x"]


def test_a_key_is_a_str_and_a_namespace_too():
    data = spaces().get("")
    with pytest.raises(TypeError):
        data.set(1, "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        data[None] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        data(3)  # type: ignore[arg-type]


def test_calling_gives_the_same_namespace_every_time():
    data = spaces().get("")
    data("a")["x"] = 1
    assert data("a") is data("a")
    assert data("b")("a")["x"] == 1
    assert data() is data


def test_only_namespaces_that_differ_from_what_is_stored_are_dirty():
    made = spaces({"": {"a": [1]}, "other": {"b": 2}})
    assert made.dirty() == {}
    made.get("")["a"].append(2)
    assert made.dirty() == {"": {"a": [1, 2]}}
    made.saved(made.dirty())
    assert made.dirty() == {}
    made.get("other")["b"] = 3
    made.get("other")["b"] = 2
    assert made.dirty() == {}


def test_what_is_no_json_is_named_by_its_path():
    made = spaces()
    made.get("ns")["a"] = {"b": object()}
    with pytest.raises(TypeError, match=r"metadata\('ns'\)\['a'\]\['b'\] is a object"):
        made.dirty()


def test_the_names_of_namespaces_have_a_limit():
    made = spaces()
    for number in range(40):
        made.get(f"{number}" * 200)["x"] = 1
    with pytest.raises(ValueError, match="8,000"):
        made.dirty()


async def test_flush_is_for_one_namespace():
    made = spaces()
    await made.get("a").flush()
    assert made.flushed == ["a"]  # type: ignore[attr-defined]


def test_settings_override_the_defaults_in_seconds():
    options = TaskOptions.from_environment({"TASKS_LEASE_SECONDS": "4.5", "TASKS_SKEW_SECONDS": "", "OTHER": "x"})
    assert (options.lease, options.heartbeat) == (timedelta(seconds=4.5), timedelta(seconds=1.5))
    assert options.skew == TaskOptions().skew


@pytest.mark.parametrize("wrong", ["soon", "-1", "nan", "inf"])
def test_a_setting_that_is_no_time_is_named(wrong: str):
    with pytest.raises(ValueError, match="TASKS_LEASE_SECONDS"):
        TaskOptions.from_environment({"TASKS_LEASE_SECONDS": wrong})


@pytest.mark.parametrize("name", ["LEASE", "CONTROL", "POLL_FIRST", "POLL_LAST", "UNKNOWN_TASK"])
def test_a_pause_of_nothing_is_refused_because_it_would_be_a_busy_loop(name: str) -> None:
    with pytest.raises(ValueError, match=r"0\.01 or more"):
        TaskOptions.from_environment({f"TASKS_{name}_SECONDS": "0"})
