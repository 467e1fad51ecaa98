"""Awaiting several things that are worth nothing one without the other."""

import asyncio
from collections.abc import Coroutine
from typing import Any, overload

__all__ = ["gather_all"]

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
