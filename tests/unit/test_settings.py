import re

import pytest

from hosting.settings import ConfigurationError, load_settings


def test_every_setting_has_a_default() -> None:
    settings = load_settings({})
    assert (settings.isolation, settings.table, settings.keep_alive_seconds) == ("tenant", "agents", 15.0)


def test_an_empty_value_is_no_value() -> None:
    assert load_settings({"HOSTING_ISOLATION": ""}).isolation == "tenant"


def test_a_wrong_value_is_named_by_its_environment_variable() -> None:
    with pytest.raises(ConfigurationError, match="HOSTING_ISOLATION: Input should be 'tenant' or 'user'"):
        load_settings({"HOSTING_ISOLATION": "planet"})


def test_all_wrong_values_are_named_and_none_is_repeated() -> None:
    with pytest.raises(ConfigurationError) as wrong:
        load_settings({"HOSTING_MAX_RUNS": "abc", "HOSTING_TABLE": "s3-cr3t"})
    assert re.findall(r"HOSTING_\w+", str(wrong.value)) == ["HOSTING_MAX_RUNS", "HOSTING_TABLE"]
    assert "abc" not in str(wrong.value)
    assert "s3-cr3t" not in str(wrong.value)


def test_the_environment_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTING_TABLE", "mytable")
    assert load_settings().table == "mytable"
