"""A tool that calls `sys.exit()` fails, and no more than that.

agent-framework runs tools in tasks of their own, and asyncio lets a SystemExit out of a task end the whole process, with all
that others run in it. So it is caught where the tool is called.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from agent_framework import FunctionInvocationContext, FunctionMiddleware

__all__ = ["NoExit"]


class NoExit(FunctionMiddleware):
    """Makes an ordinary failure of it, which the model is told of as of any other."""

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[Any]]) -> None:
        try:
            await call_next()
        except SystemExit as error:
            raise RuntimeError(f"the tool {context.function.name!r} called sys.exit()") from error
