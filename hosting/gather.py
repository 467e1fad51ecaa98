"""Awaiting several things: those that are worth nothing one without the other, and those of which some at a time are enough."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, overload

__all__ = ["gather_all", "gather_at_most"]

type _Part[T] = Coroutine[Any, Any, T]


@overload
async def gather_all[A, B](first: _Part[A], second: _Part[B], /) -> tuple[A, B]: ...


@overload
async def gather_all[A, B, C](first: _Part[A], second: _Part[B], third: _Part[C], /) -> tuple[A, B, C]: ...


@overload
async def gather_all[A, B, C, D](
    first: _Part[A], second: _Part[B], third: _Part[C], fourth: _Part[D], /
) -> tuple[A, B, C, D]: ...


@overload
async def gather_all[T](*parts: _Part[T]) -> list[T]: ...


async def gather_all(*parts: _Part[Any]) -> Any:
    """The results in order, as of `asyncio.gather`. But when one fails, the others are cancelled and have ended before its
    exception is raised: they do not go on reading what nobody wants."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def gather_at_most[T](limit: int, calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make all calls, at most `limit` at a time; the results in order. What one raises, the first in order, is raised when all
    of them have ended: no other is kept from its end, and nothing goes on behind it."""
    slots = asyncio.Semaphore(limit)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    found: list[T] = []
    for result in await asyncio.gather(*(one(call) for call in calls), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return found
