"""The timer function itself: how it is registered, and what it does with errors."""

import logging
from typing import Any

import pytest

from hosting.functions import retention as triggers
from hosting.functions.durable_client import DurableApp
from hosting.functions.shutdown import Shutdown
from hosting.settings import ConfigurationError, load_settings
from hosting.storage import MemoryAppendBlobs, StorageDenied, Store, keys, memory_store
from hosting.tasks._outcome import Outcome
from hosting.tasks._record import Slot
from hosting.tasks._rows import Key


class Registered:
    """An app with the timer, and what the timer opens and closes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Store, **env: str) -> None:
        self.opened: list[Any] = []
        self.closed = 0
        self.shutdown = Shutdown()
        app = DurableApp()

        def connect(env: Any, **names: str) -> MemoryAppendBlobs:
            self.opened.append(names)
            return _Blobs(self)

        monkeypatch.setattr(triggers, "connect_append_blobs", connect)
        triggers.register_retention(app, load_settings(env), lambda: store, self.shutdown)
        [self.function] = [
            function for function in app.get_functions() if function.get_function_name() == triggers.TIMER
        ]

    async def tick(self) -> None:
        await self.function.get_user_function()(timer=None, durable_client_of_this_process="{}")


class _Blobs(MemoryAppendBlobs):
    def __init__(self, owner: Registered) -> None:
        super().__init__()
        self._owner = owner

    async def close(self) -> None:
        self._owner.closed += 1


def test_the_timer_has_a_name_and_the_schedule_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    function = Registered(monkeypatch, memory_store(), HOSTING_RETENTION_SCHEDULE="0 0 3 * * *").function
    trigger = function.get_trigger()
    assert function.get_function_name() == "retention"
    assert trigger is not None
    assert (trigger.get_binding_name(), trigger.get_dict_repr()["schedule"]) == ("timerTrigger", "0 0 3 * * *")
    assert not trigger.get_dict_repr().get("runOnStartup")


async def test_a_tick_does_the_work_over_the_settings_container(monkeypatch: pytest.MonkeyPatch) -> None:
    store = memory_store()
    key = Key(keys.scope("t", None), "job")
    expired = Outcome("completed", output=1).row(key, Slot(1, "i", "n", "fresh"), 1, 0.0, 1.0)
    await store.commit(key.partition, [expired])
    # The row is young; that outcomes are kept for no time is what the setting says.
    monkeypatch.setenv("TASKS_RETENTION_SECONDS", "0")
    registered = Registered(monkeypatch, store, HOSTING_CONTAINER="mine", HOSTING_STORAGE_CONNECTION="Other")
    await registered.tick()
    assert await store.query(key.partition, "", "~") == []
    assert registered.opened == [{"name": "Other", "container": "mine"}]
    await registered.tick()
    assert len(registered.opened) == 1


async def test_an_error_of_storage_is_logged_and_the_next_tick_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = memory_store()
    registered = Registered(monkeypatch, store)
    get = store.get

    async def denied(*args: Any, **options: Any) -> Any:
        raise StorageDenied("no role")

    store.get = denied  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        await registered.tick()
    assert "no role" in caplog.text
    store.get = get  # type: ignore[method-assign]
    await registered.tick()
    assert await store.get("retention", "cursor") is not None


async def test_the_connection_is_closed_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = Registered(monkeypatch, memory_store())
    [close] = registered.shutdown._last
    await close()
    assert registered.closed == 0
    await registered.tick()
    await close()
    assert registered.closed == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOSTING_RETENTION_DAYS", "-1"),
        ("HOSTING_CONVERSATION_DAYS", "soon"),
        ("HOSTING_STREAM_HOURS", "0"),
        ("HOSTING_IDEMPOTENCY_HOURS", "0"),
        ("HOSTING_RETENTION_SHRINK_HOURS", "-1"),
        ("HOSTING_RETENTION_SECONDS", "0"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        load_settings({name: value})
