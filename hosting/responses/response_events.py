"""A streamed response as server-sent frames, for apps that own their routes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any

from hosting.responses.renderer import ResponseRenderer
from hosting.responses.sse import KEEP_ALIVE, event_frame

__all__ = ["ResponseEvents", "with_keep_alive"]


class ResponseEvents(AsyncIterator[str]):
    """The frames of a streamed response, to be iterated once.

    A failure of the run ends the stream with `response.failed` and a fixed sentence; the exception is kept in `error`
    for the caller to log. The run's stream is closed in every case, also when the consumer goes away early (call
    `aclose`, or let the web framework do it).
    """

    def __init__(self, stream: AsyncIterable[Any], renderer: ResponseRenderer, *, with_id: bool = False) -> None:
        """`with_id` gives every frame an `id:` line with its sequence number."""
        self._renderer = renderer
        self._stream = stream
        self._with_id = with_id
        self._frames = self._render(stream)
        self._finished = False
        self.error: Exception | None = None
        """What the run raised, None when it ended well."""

    @property
    def response(self) -> dict[str, Any]:
        """The Response object, final once the iteration is over."""
        return self._renderer.response

    @property
    def failed(self) -> bool:
        """Whether the turn must not be kept as a success: it failed, or was never read to its end."""
        return not self._finished or self.response["status"] not in ("completed", "incomplete")

    def __anext__(self) -> Awaitable[str]:
        return self._frames.__anext__()

    async def aclose(self) -> None:
        """Stop the run and close its stream."""
        await self._frames.aclose()
        await self._close_stream()  # a generator that never began does not reach its `finally`

    async def _render(self, stream: AsyncIterable[Any]) -> AsyncGenerator[str]:
        renderer = self._renderer
        try:
            for event in renderer.start():
                yield event_frame(event, with_id=self._with_id)
            try:
                async for update in stream:
                    for frame in self._feed(update):
                        yield frame
                final: Any = getattr(stream, "get_final_response", None)
                closing = renderer.finish(await final() if final is not None else None)
            except Exception as error:  # GeneratorExit and CancelledError pass: nobody is there to read a failure
                self.error = error
                closing = renderer.fail()
            for event in [*closing, renderer.terminal()]:
                self._finished = event["type"].removeprefix("response.") in ("completed", "incomplete", "failed")
                yield event_frame(event, with_id=self._with_id)
        finally:
            await self._close_stream()

    def _feed(self, update: object) -> list[str]:
        if not self._with_id:
            return self._renderer.feed_frames(update)
        return [event_frame(event, with_id=True) for event in self._renderer.feed(update)]

    async def _close_stream(self) -> None:
        close: Any = getattr(self._stream, "close", None) or getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


async def with_keep_alive(frames: AsyncIterator[str], seconds: float) -> AsyncGenerator[str]:
    """`frames`, and a comment each time that nothing came for `seconds`: proxies cut connections that are silent.

    The run goes on in a task of its own, so that waiting with a time limit can't disturb it. That task is cancelled when
    this generator is closed.
    """
    ready: asyncio.Queue[str] = asyncio.Queue(1)

    async def read() -> None:
        async for frame in frames:
            await ready.put(frame)

    reading = asyncio.create_task(read())
    getting = asyncio.create_task(ready.get())
    try:
        while True:
            await asyncio.wait({reading, getting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                yield getting.result()
                getting = asyncio.create_task(ready.get())
            elif not reading.done():
                yield KEEP_ALIVE.decode()
            elif ready.empty():
                await reading  # raises what reading the frames has raised
                return
    finally:
        for task in (reading, getting):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
        close: Any = getattr(frames, "aclose", None)
        if close is not None:
            await close()
