"""How AgentState and WorkflowState resolve what they were given."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from hosting.state._targets import Target


class Runner:
    """Something to run."""

    async def run(self) -> str:
        return "ran"


class CallableRunner(Runner):
    def __call__(self) -> Runner:
        raise AssertionError("a target that runs is no factory")


class AwaitableRunner(Runner):
    def __await__(self) -> Generator[Any, None, Runner]:
        raise AssertionError("a target that runs is not awaited")


class Builder:
    def __init__(self) -> None:
        self.built = 0

    def build(self) -> Runner:
        self.built += 1
        return Runner()


class BuilderThatRuns(Runner):
    def build(self) -> Runner:
        raise AssertionError("a target that runs is not built")


def cached(source: Any, *, builders: bool = False) -> Target[Any]:
    return Target(source, cache_target=True, builders=builders)


def uncached(source: Any, *, builders: bool = False) -> Target[Any]:
    return Target(source, cache_target=False, builders=builders)


@pytest.mark.parametrize("make", [cached, uncached])
@pytest.mark.parametrize("kind", [Runner, CallableRunner, AwaitableRunner])
async def test_an_instance_is_the_target_at_once(make: Callable[[Any], Target[Any]], kind: type[Runner]) -> None:
    runner = kind()
    target = make(runner)
    assert target.available is runner
    assert await target.get() is runner


async def test_an_object_that_is_neither_callable_nor_awaitable_is_taken_as_it_is() -> None:
    thing = object()
    assert await cached(thing).get() is thing


async def test_a_class_is_a_factory_although_it_has_run() -> None:
    assert type(await cached(Runner).get()) is Runner


async def test_a_factory_is_called_once_when_cached() -> None:
    made: list[Runner] = []
    target = cached(lambda: made.append(Runner()) or made[-1])
    assert await target.get() is await target.get() is made[0]
    assert len(made) == 1
    assert target.available is made[0]


async def test_a_factory_is_called_each_time_when_not_cached() -> None:
    target = uncached(Runner)
    assert await target.get() is not await target.get()
    with pytest.raises(RuntimeError, match="get_target"):
        _ = target.available


async def test_an_async_factory_is_awaited() -> None:
    async def make() -> Runner:
        return Runner()

    assert type(await cached(make).get()) is Runner
    assert type(await uncached(make).get()) is Runner


async def test_an_object_that_runs_is_not_awaited_when_a_factory_gives_it() -> None:
    runner = AwaitableRunner()
    assert await cached(lambda: runner).get() is runner


async def test_an_awaitable_is_awaited_once() -> None:
    async def make() -> Runner:
        return Runner()

    target = cached(make())
    assert await target.get() is await target.get()


async def test_nothing_is_available_before_it_is_resolved() -> None:
    with pytest.raises(RuntimeError, match="get_target"):
        _ = cached(Runner).available


async def test_an_awaitable_without_cache_is_refused_and_leaves_no_warning() -> None:
    async def make() -> Runner:
        return Runner()

    with pytest.raises(ValueError, match="cache_target=False"):
        uncached(make())


def test_none_is_refused() -> None:
    with pytest.raises(TypeError, match="None"):
        cached(None)


async def test_a_factory_that_forgets_to_return_is_named() -> None:
    for target in (cached(lambda: None), uncached(lambda: None)):
        with pytest.raises(TypeError, match="gave None"):
            await target.get()


async def test_concurrent_first_callers_resolve_once() -> None:
    calls, go = 0, asyncio.Event()

    async def make() -> Runner:
        nonlocal calls
        calls += 1
        await go.wait()
        return Runner()

    target = cached(make)
    waiting = [asyncio.create_task(target.get()) for _ in range(5)]
    await asyncio.sleep(0)
    go.set()
    assert len(set(map(id, await asyncio.gather(*waiting)))) == 1
    assert calls == 1


async def test_a_factory_that_failed_is_called_again() -> None:
    attempts = 0

    def make() -> Runner:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError("not yet")
        return Runner()

    target = cached(make)
    with pytest.raises(OSError, match="not yet"):
        await target.get()
    assert type(await target.get()) is Runner


async def test_an_awaitable_that_failed_raises_its_error_again() -> None:
    async def make() -> Runner:
        raise OSError("broken")

    target = cached(make())
    for _ in range(2):
        with pytest.raises(OSError, match="broken"):
            await target.get()


@pytest.mark.parametrize("as_awaitable", [True, False])
async def test_a_cancelled_first_caller_takes_nothing_from_the_next(as_awaitable: bool) -> None:
    calls, entered, go = 0, asyncio.Event(), asyncio.Event()

    async def make() -> Runner:
        nonlocal calls
        calls += 1
        entered.set()
        await go.wait()
        return Runner()

    target = cached(make() if as_awaitable else make)
    first = asyncio.create_task(target.get())
    await entered.wait()
    second = asyncio.create_task(target.get())
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go.set()
    assert await second is await target.get()
    assert calls == 1


async def test_an_error_that_nobody_waits_for_is_no_complaint_of_the_loop() -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    entered, go = asyncio.Event(), asyncio.Event()

    async def make() -> Runner:
        entered.set()
        await go.wait()
        raise OSError("broken")

    target = cached(make)
    only = asyncio.create_task(target.get())
    await entered.wait()
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    go.set()
    with pytest.raises(OSError, match="broken"):
        await target.get()  # waits for the same resolution
    del target
    assert complaints == []


async def test_a_resolution_that_is_itself_cancelled_is_an_error_not_a_cancellation() -> None:
    async def make() -> Runner:
        raise asyncio.CancelledError

    for target in (cached(make()), cached(make)):
        with pytest.raises(RuntimeError, match="cancelled"):
            await target.get()


def test_a_factory_is_resolved_again_in_another_event_loop() -> None:
    calls = 0

    async def make() -> Runner:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        return Runner()

    target = cached(make)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(target.get(), 0.01)

    asyncio.run(give_up())
    assert type(asyncio.run(target.get())) is Runner


async def test_builders_are_built_wherever_they_come_from() -> None:
    async def later() -> Builder:
        return Builder()

    sources: list[Builder | Callable[[], Any] | Awaitable[Any]] = [Builder(), Builder, later, later()]
    for source in sources:
        assert type(await cached(source, builders=True).get()) is Runner


async def test_a_builder_builds_once_with_a_cache_and_each_time_without() -> None:
    once, each = Builder(), Builder()
    for builder, target in ((once, cached(once, builders=True)), (each, uncached(each, builders=True))):
        await target.get()
        await target.get()
        assert builder.built == (1 if builder is once else 2)


async def test_what_runs_is_not_built() -> None:
    target = BuilderThatRuns()
    assert await cached(target, builders=True).get() is target
