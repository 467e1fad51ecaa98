"""What all item builders share: an item is added once, then its inner events come, then it is done once."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from hosting.responses.builders._growth import Growth
from hosting.responses.output import Event, Item

__all__ = ["Chunks", "ItemBuilder", "ItemEvents", "OutputItemBuilder", "closing"]

type Json = dict[str, Any]
type Chunks = str | AsyncIterable[str]
"""A text in one piece, or as it comes."""

type Step = Callable[[], Event]


class ItemBuilder:
    """The base of all item builders. Calls in the wrong order raise ValueError, before they can confuse a client."""

    def __init__(self, growth: Growth, prefix: str, item_id: str | None = None) -> None:
        self._growth = growth
        self._is_added = False
        self._is_done = False
        self.output_index = growth.new_index()
        self.item_id = item_id or growth.new_id(prefix)

    def _add(self, item: Item) -> Event:
        if self._is_added:
            raise ValueError(f"{self.item_id} was added before")
        self._is_added = True
        return self._growth.emit("response.output_item.added", output_index=self.output_index, item=item)

    def _finish(self, item: Item) -> Event:
        self._check_open("response.output_item.done")
        self._is_done = True
        event = self._growth.emit("response.output_item.done", output_index=self.output_index, item=item)
        self._growth.item_done(self.output_index, item)
        return event

    def _inner(self, event_type: str, **fields: Any) -> Event:
        self._check_open(event_type)
        return self._growth.emit(event_type, item_id=self.item_id, output_index=self.output_index, **fields)

    def _check_open(self, event_type: str) -> None:
        if not self._is_added:
            raise ValueError(f"{event_type} of {self.item_id} comes before emit_added")
        if self._is_done:
            raise ValueError(f"{event_type} of {self.item_id} comes after its emit_done")


class OutputItemBuilder(ItemBuilder):
    """An item of any type that comes in one piece: the caller gives it whole, at its beginning and at its end."""

    def __init__(self, growth: Growth, prefix: str, item_type: str | None = None, item_id: str | None = None) -> None:
        super().__init__(growth, prefix, item_id)
        self._type = item_type

    def emit_added(self, item: Mapping[str, Any]) -> Event:
        """Announce the item. Its id, and its type where the builder knows it, need not be given."""
        return self._add(self._whole(item))

    def emit_done(self, item: Mapping[str, Any]) -> Event:
        """The item as it is at the end."""
        return self._finish(self._whole(item))

    def _whole(self, item: Mapping[str, Any]) -> Item:
        whole = {"id": self.item_id, **({"type": self._type} if self._type else {}), **item}
        if whole["id"] != self.item_id or not whole.get("type"):
            raise ValueError(f"an item with the id {self.item_id} and a type is wanted")
        return whole


class ItemEvents:
    """Some events in a row, for `for` and for `async for`: `for event in stream.output_item_message("hi"): yield event`.

    With a text that comes in chunks only `async for` works. Iterate once. The source of the chunks is closed in every
    case.
    """

    def __init__(
        self, begin: Sequence[Step], chunks: Chunks, delta: Callable[[str], Event] | None, end: Sequence[Step]
    ) -> None:
        self._begin = begin
        self._chunks = chunks
        self._delta = delta
        self._end = end

    def __iter__(self) -> Iterator[Event]:
        if not isinstance(self._chunks, str):
            raise TypeError("a text that comes in chunks needs `async for`")
        return self._whole(self._chunks)

    async def __aiter__(self) -> AsyncIterator[Event]:
        if isinstance(self._chunks, str):
            for event in self._whole(self._chunks):
                yield event
            return
        async with closing(self._chunks) as chunks:
            for step in self._begin:
                yield step()
            async for chunk in chunks:
                if chunk and self._delta is not None:
                    yield self._delta(chunk)
            for step in self._end:
                yield step()

    def _whole(self, text: str) -> Iterator[Event]:
        # Each event is made when it is asked for: a snapshot taken in between holds what was really emitted.
        for step in self._begin:
            yield step()
        if text and self._delta is not None:
            yield self._delta(text)
        for step in self._end:
            yield step()


class closing[T]:
    """`async with closing(source)`: like contextlib.aclosing, for sources that may have no `aclose`."""

    def __init__(self, source: T) -> None:
        self._source = source

    async def __aenter__(self) -> T:
        return self._source

    async def __aexit__(self, *exc_info: object) -> None:
        close = cast("Any", getattr(self._source, "aclose", None))
        if close is not None:
            await close()
