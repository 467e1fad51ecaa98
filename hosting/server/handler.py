"""The contract of response handlers, and how one is run (reference 6.1, 7.3).

A handler is an async function of (request, context, cancellation_signal). It is either an async generator of events, or
it returns a TextResponse, an async iterable of events, or a generator of them.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from typing import Any, Literal, cast

from hosting import telemetry
from hosting.responses.builders import CHECKPOINT, closing
from hosting.server.answer import Checkpoint, Emit
from hosting.server.context import ExitForRecovery, ResponseContext
from hosting.server.transcript import INTERRUPTED, HandlerFault, Transcript

__all__ = ["Ending", "ResponseHandler", "ResponseNotCreated", "check_handler", "run_handler"]

_log = logging.getLogger(__name__)

type Json = dict[str, Any]

type ResponseHandler = Callable[[Mapping[str, Any], ResponseContext, asyncio.Event], Any]
"""See above. The request is the parsed body."""

type Ending = Literal["finished", "cancelled", "deferred"]
"""How a run ended. finished, cancelled: the transcript is final. deferred: it is not; another process goes on."""

_END = object()


class ResponseNotCreated(Exception):
    """The handler ended, or broke the contract, before `response.created`: there is no response to speak of.

    A server answers 500, or an `error` event on a stream; the cause is in its log and in `__cause__`. Where the response
    must exist all the same, in the background, `transcript.fail()` makes it a failed one.
    """


def check_handler[Handler: Callable[..., Any]](handler: Handler) -> Handler:
    """The handler itself. Raises TypeError unless it is an async function of exactly three positional parameters."""
    if not (_is_async(handler) or _is_async(getattr(handler, "__call__", None))):  # noqa: B004 (an object may be one)
        raise TypeError("a response handler is an async function: async def handler(request, context, signal)")
    parameters = inspect.signature(handler).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = [p for p in parameters if p not in positional]
    if (
        len(positional) != 3
        or any(p.kind is p.VAR_POSITIONAL for p in others)
        or any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in others)
    ):
        raise TypeError("a response handler has exactly three positional parameters: request, context, signal")
    return handler


async def run_handler(
    handler: ResponseHandler,
    request: Mapping[str, Any],
    context: ResponseContext,
    cancellation_signal: asyncio.Event,
    emit: Emit,
    transcript: Transcript,
    *,
    checkpoint: Checkpoint | None = None,
    after_terminal_seconds: float = 30.0,
) -> Ending:
    """Run a handler to its end; its events go to `emit`, all but the terminal one.

    After "finished" and "cancelled", `transcript.snapshot` is to be stored and then `transcript.terminal()` emitted, in
    this order, so that nobody sees a response complete that is not stored. The handler's code after its terminal event
    has run by then, for at most `after_terminal_seconds`; nothing that it still yields or raises counts.

    However a handler fails, the response fails, with a fixed sentence; exceptions go to the log only. A run that ends
    without a terminal event while this process stops is "deferred" when the context is recoverable.

    `checkpoint` is called for checkpoints of the handler, unless nothing has changed since the last one; when it raises,
    that is logged and the run goes on: the earlier checkpoint stands. None ignores them.

    Raises ResponseNotCreated; what `emit` raises; CancelledError when the task is cancelled, also if the handler swallows
    it: then the transcript stands where the handler left it, for the server to `cancel` or to leave to another process.
    The handler's generator is closed in every case.
    """
    run = _Run(context, emit, transcript, checkpoint, after_terminal_seconds)
    events = _events_of(handler, request, context, cancellation_signal)
    try:
        return await run.drive(events)
    finally:
        await run.close(events)


class _Run:
    """What the steps of one run share."""

    def __init__(
        self,
        context: ResponseContext,
        emit: Emit,
        transcript: Transcript,
        checkpoint: Checkpoint | None,
        after_terminal_seconds: float,
    ) -> None:
        self._context = context
        self._emit = emit
        self._transcript = transcript
        self._checkpoint = checkpoint
        self._saved: Json | None = None
        self._after_terminal_seconds = after_terminal_seconds
        self._cancelling = _cancelling()

    async def drive(self, events: AsyncGenerator[object]) -> Ending:
        transcript = self._transcript
        while True:
            try:
                event = await anext(events, _END)
            except BaseException as error:
                if self._is_for_the_task(error):
                    raise
                return await self._without_terminal(error)
            if self._task_is_cancelled():
                raise asyncio.CancelledError  # the handler swallowed it
            if event is _END:
                return await self._without_terminal(None)
            if self._context.client_cancelled:
                await asyncio.sleep(0)  # a handler that never waits must not hold up the others for its wind-down
                continue  # the client has been told that it is over
            try:
                wire = transcript.accept(event)
            except HandlerFault as fault:
                return await self._without_terminal(fault)
            if wire:
                await self._emit(wire)
            if transcript.ended:
                await self._drain(events)
                return "finished"
            if cast("Mapping[str, Any]", event)["type"] == CHECKPOINT:
                await self._save()

    async def close(self, events: AsyncGenerator[object]) -> None:
        try:
            await events.aclose()
        except BaseException as error:
            if self._is_for_the_task(error):
                raise
            _log.error("The handler of %s failed in its clean-up: %s", self._context.response_id, _said(error))

    async def _without_terminal(self, error: BaseException | None) -> Ending:
        """The handler is over and has not said how its response ends."""
        context, transcript = self._context, self._transcript
        leaves = _exits_for_recovery(error)
        if error is not None and not leaves:
            _log.error("The handler of %s failed: %s", context.response_id, _said(error))
        if context.client_cancelled:
            await self._emit(transcript.cancel())
            return "cancelled"
        if context.recoverable and (leaves or context.shutdown.is_set()):
            return "deferred"
        if error is None and transcript.silent and not context.is_recovery and not context.shutdown.is_set():
            await self._emit(transcript.complete_silently())
            return "finished"
        if not transcript.announced:
            raise ResponseNotCreated(f"the handler of {context.response_id} ended before response.created") from error
        if error is None:
            _log.error("The handler of %s ended without a terminal event", context.response_id)
        await self._emit(transcript.fail(message=INTERRUPTED if context.shutdown.is_set() else None))
        return "finished"

    async def _drain(self, events: AsyncGenerator[object]) -> None:
        """Let the handler's code after its terminal event run."""
        ignored = 0
        try:
            async with asyncio.timeout(self._after_terminal_seconds) as limit:
                async for _ in events:
                    ignored += 1
                    if limit.expired():  # the handler swallowed it
                        break
        except BaseException as error:
            if self._is_for_the_task(error):
                raise
            if not _exits_for_recovery(error):
                _log.warning(
                    "After its terminal event the handler of %s failed: %s", self._context.response_id, _said(error)
                )
        if ignored:
            _log.warning("%d events of %s came after its terminal event", ignored, self._context.response_id)

    async def _save(self) -> None:
        snapshot = self._transcript.snapshot
        if self._checkpoint is None or snapshot == self._saved:
            return
        try:
            await self._checkpoint(snapshot)
            self._saved = snapshot
        except Exception as error:
            _log.error("A checkpoint of %s could not be stored: %s", self._context.response_id, _said(error))

    def _task_is_cancelled(self) -> bool:
        return _cancelling() > self._cancelling

    def _is_for_the_task(self, error: BaseException) -> bool:
        """Whether an exception is not the handler's to raise: this task is cancelled, or the process ends.

        A CancelledError alone does not say so: it also comes of a task that the handler itself awaits.
        """
        if isinstance(error, asyncio.CancelledError):
            return self._task_is_cancelled()
        return isinstance(error, (KeyboardInterrupt, SystemExit))


async def _events_of(
    handler: ResponseHandler, request: Mapping[str, Any], context: ResponseContext, signal: asyncio.Event
) -> AsyncGenerator[object]:
    """The events of a handler of either kind. Closing it closes the handler's own generator."""
    given: Any = handler(request, context, signal)
    if inspect.isawaitable(given):
        given = await given
    if isinstance(given, AsyncIterable):
        async with closing(aiter(cast("AsyncIterable[object]", given))) as source:
            async for event in source:
                yield event
    elif isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping)):
        for event in cast("Iterable[object]", given):  # a generator is closed when this one is: nobody else holds it
            yield event
            await asyncio.sleep(0)  # a long one must not hold up the others
    else:
        raise TypeError(
            f"a response handler gives a TextResponse or events, not {type(cast('object', given)).__name__}"
        )


def _said(error: BaseException) -> str:
    """What a log may say: our own words about a broken contract, or where it happened."""
    return str(error) if isinstance(error, HandlerFault) else telemetry.describe(error)


def _exits_for_recovery(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):  # out of a TaskGroup of the handler
        return any(map(_exits_for_recovery, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, ExitForRecovery)


def _cancelling() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
