"""A tool that calls `sys.exit()`, or lets out a GeneratorExit, fails, and no more than that.

agent-framework runs tools in tasks of their own. asyncio lets a SystemExit out of a task end the whole process, with all that
others run in it, and a GeneratorExit is no Exception that anybody waits for. So they are caught where the tool is called.
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
        except (SystemExit, GeneratorExit) as error:
            raise RuntimeError(f"the tool {context.function.name!r} raised {type(error).__name__}") from error
