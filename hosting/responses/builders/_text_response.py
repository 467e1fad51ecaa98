"""TextResponse: for a handler whose whole answer is one text."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Protocol

from hosting.responses.builders._item import closing
from hosting.responses.builders._stream import ResponseEventStream
from hosting.responses.output import Event

__all__ = ["TextResponse", "TextSource"]

type Json = dict[str, Any]
type Text = str | AsyncIterable[str]
type TextSource = Text | Callable[[], Text | Awaitable[Text]]
"""A text, chunks of one as they come, or a function (async or not) that returns either."""


class _HasResponseId(Protocol):
    @property
    def response_id(self) -> str: ...


class TextResponse:
    """The events of a response with one message: `return TextResponse(context, request, text="Hello")`.

    A function as `text` is called when the response is in progress. `configure` gets the Response object before it is
    announced, to change what it likes but the id and the output. A recovered run begins the text again.
    """

    def __init__(
        self,
        context: _HasResponseId,
        request: Mapping[str, Any] | None,
        *,
        text: TextSource,
        configure: Callable[[Json], None] | None = None,
    ) -> None:
        self._response_id = context.response_id
        self._request = request
        self._text = text
        self._configure = configure

    async def __aiter__(self) -> AsyncIterator[Event]:
        stream = ResponseEventStream(response_id=self._response_id, request=self._request, keep_events=False)
        if self._configure is not None:
            self._configure(stream.response)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        text = self._text() if callable(self._text) else self._text
        if isawaitable(text):
            text = await text
        async with closing(aiter(stream.output_item_message(text))) as events:
            async for event in events:
                yield event
        yield stream.emit_completed()
