"""From what a state holder was given to the object that runs: an instance, a factory, or an awaitable."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

__all__ = ["Target", "TargetSource", "builder", "runs"]

type TargetSource[T] = T | Awaitable[T] | Callable[[], T | Awaitable[T]]


def runs(value: object) -> bool:
    """Whether `value` is itself something to run. A class that has `run` is a factory of such things."""
    return not isinstance(value, type) and callable(getattr(value, "run", None))


def builder(value: object) -> Callable[[], Any] | None:
    """The `build` method of a builder (a WorkflowBuilder, say); None for anything else and for what already runs."""
    if isinstance(value, type) or runs(value):
        return None
    build: Any = getattr(value, "build", None)
    return build if callable(build) else None


class Target[T]:
    """Resolves one source, once or on every call.

    An object that has `run` is the target even when it is also callable; an awaitable is awaited once; any other callable
    is a factory that is called without arguments; any other object is taken as it is.

    The one resolution that a cache needs runs in a task of its own and every caller only waits for it: a caller that is
    cancelled takes nothing away from the others. A factory that failed is called again by the next caller; an awaitable
    can't be, so its error is raised again.
    """

    def __init__(self, source: TargetSource[T], *, cache_target: bool, builders: bool = False) -> None:
        """Raises TypeError for None, and ValueError for `cache_target=False` with an awaitable, which has one result."""
        if source is None:
            raise TypeError("the target is None; pass an object that runs, a factory of it, or an awaitable")
        self._cache = cache_target
        self._builders = builders
        self._value: T | None = None
        self._factory: Callable[[], T | Awaitable[T]] | None = None
        self._awaitable: Awaitable[T] | None = None
        self._resolving: asyncio.Task[T] | None = None
        if runs(source):
            self._value = cast("T", source)
        elif builders and (build := builder(source)) is not None:
            self._factory = build
        elif inspect.isawaitable(source):
            if not cache_target:
                if inspect.iscoroutine(source):
                    source.close()  # nobody else can await it any more, and Python would warn about that
                raise ValueError("cache_target=False needs an instance or a factory: an awaitable has only one result")
            self._awaitable = source
        elif callable(source):
            self._factory = cast("Callable[[], T | Awaitable[T]]", source)
        else:
            self._value = source

    @property
    def available(self) -> T:
        """The target without waiting. Raises RuntimeError while it isn't resolved, which without a cache is always."""
        if self._value is None:
            raise RuntimeError("the target is not resolved yet: use `await state.get_target()`")
        return self._value

    async def get(self) -> T:
        """The target. Raises what the factory or awaitable raises, and TypeError when it gives None."""
        if self._value is not None:
            return self._value
        if not self._cache:
            return await self._resolve()
        task = self._resolving
        if task is None or self._must_start_again(task):
            task = self._resolving = asyncio.ensure_future(self._resolve())
            # When all who waited are gone, nobody is left to hear of an error; the next caller gets a new one.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            resolved = await asyncio.shield(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise RuntimeError("the target's resolution was cancelled; a factory can be resolved again") from None
            raise
        # Two event loops may have resolved a factory at the same time; all callers get the one that was kept.
        if self._value is None:
            self._value = resolved
        return self._value

    def _must_start_again(self, task: asyncio.Task[T]) -> bool:
        if self._factory is None:
            return False  # an awaitable has one task for ever
        return task.done() or task.get_loop() is not asyncio.get_running_loop()

    async def _resolve(self) -> T:
        try:
            made = await self._make()
        except SystemExit as error:  # it would end the process, and all that others run in it
            raise RuntimeError("the target factory called sys.exit()") from error
        if made is None:
            raise TypeError("the target factory gave None; it has to return the object that runs")
        return made

    async def _make(self) -> Any:
        made: Any = self._factory() if self._factory is not None else self._awaitable
        made = await _awaited(made)
        if self._builders and (build := builder(made)) is not None:
            made = await _awaited(build())
        return made


async def _awaited(value: Any) -> Any:
    return value if runs(value) or not inspect.isawaitable(value) else await value
