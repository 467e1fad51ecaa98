"""Tools that run at the server, with stages to show while they do."""

from collections.abc import AsyncIterable, Mapping, Sequence
from typing import Any

from hosting.responses.builders._calls import Streamed
from hosting.responses.builders._growth import Growth
from hosting.responses.builders._item import Chunks, ItemBuilder, ItemEvents
from hosting.responses.output import Event

__all__ = [
    "OutputItemCodeInterpreterCallBuilder",
    "OutputItemFileSearchCallBuilder",
    "OutputItemImageGenCallBuilder",
    "OutputItemWebSearchCallBuilder",
]

type Json = dict[str, Any]


class OutputItemWebSearchCallBuilder(ItemBuilder):
    """A search in the web: in_progress, searching, completed."""

    def __init__(self, growth: Growth, action: Mapping[str, Any] | None = None) -> None:
        super().__init__(growth, "ws")
        self._action: Json = dict(action or {"type": "search", "query": ""})

    def emit_added(self) -> Event:
        """The search begins."""
        return self._add(self._item("in_progress"))

    def emit_in_progress(self) -> Event:
        """The search was accepted."""
        return self._inner("response.web_search_call.in_progress")

    def emit_searching(self) -> Event:
        """The search runs."""
        return self._inner("response.web_search_call.searching")

    def emit_completed(self) -> Event:
        """The search has its results."""
        return self._inner("response.web_search_call.completed")

    def emit_done(self, *, action: Mapping[str, Any] | None = None, status: str = "completed") -> Event:
        """The item is over. `action` says what was searched, such as `{"type": "search", "query": ...}`."""
        self._action = dict(action or self._action)
        return self._finish(self._item(status))

    def _item(self, status: str) -> Json:
        return {"id": self.item_id, "type": "web_search_call", "status": status, "action": dict(self._action)}


class OutputItemFileSearchCallBuilder(ItemBuilder):
    """A search in files: in_progress, searching, completed."""

    def __init__(self, growth: Growth, queries: Sequence[str] = ()) -> None:
        super().__init__(growth, "fs")
        self._queries = list(queries)

    def emit_added(self) -> Event:
        """The search begins."""
        return self._add(self._item("in_progress", None))

    def emit_in_progress(self) -> Event:
        """The search was accepted."""
        return self._inner("response.file_search_call.in_progress")

    def emit_searching(self) -> Event:
        """The search runs."""
        return self._inner("response.file_search_call.searching")

    def emit_completed(self) -> Event:
        """The search has its results."""
        return self._inner("response.file_search_call.completed")

    def emit_done(
        self,
        *,
        queries: Sequence[str] | None = None,
        results: Sequence[Mapping[str, Any]] | None = None,
        status: str = "completed",
    ) -> Event:
        """The item is over, with what was asked and what was found."""
        self._queries = self._queries if queries is None else list(queries)
        return self._finish(self._item(status, results))

    def _item(self, status: str, results: Sequence[Mapping[str, Any]] | None) -> Json:
        item: Json = {"id": self.item_id, "type": "file_search_call", "status": status, "queries": list(self._queries)}
        return item | {"results": None if results is None else [dict(result) for result in results]}


class OutputItemCodeInterpreterCallBuilder(ItemBuilder):
    """Code that runs in a container: in_progress, interpreting, the code, completed."""

    def __init__(self, growth: Growth, container_id: str = "auto") -> None:
        super().__init__(growth, "ci")
        self.container_id = container_id
        self._code = Streamed()

    def emit_added(self) -> Event:
        """The call begins, without code."""
        return self._add(self._item("in_progress", None, None))

    def emit_in_progress(self) -> Event:
        """The call was accepted."""
        return self._inner("response.code_interpreter_call.in_progress")

    def emit_interpreting(self) -> Event:
        """The code runs."""
        return self._inner("response.code_interpreter_call.interpreting")

    def emit_code_delta(self, delta: str) -> Event:
        """A piece of the code."""
        return self._inner("response.code_interpreter_call_code.delta", delta=self._code.add(delta))

    def emit_code_done(self, code: str | None = None) -> Event:
        """The code: the deltas joined, or `code`, which clients then take instead."""
        return self._inner("response.code_interpreter_call_code.done", code=self._code.finish(code))

    def code(self, code_text: Chunks) -> ItemEvents:
        """The events of the code."""
        return ItemEvents((), code_text, self.emit_code_delta, (self.emit_code_done,))

    def emit_completed(self) -> Event:
        """The code has run."""
        return self._inner("response.code_interpreter_call.completed")

    def emit_done(self, *, outputs: Sequence[Mapping[str, Any]] | None = None, status: str = "completed") -> Event:
        """The item is over. An output is `{"type": "logs", "logs": ...}` or `{"type": "image", "url": ...}`."""
        return self._finish(self._item(status, self._code.text, outputs))

    def _item(self, status: str, code: str | None, outputs: Sequence[Mapping[str, Any]] | None) -> Json:
        item: Json = {"id": self.item_id, "type": "code_interpreter_call", "status": status, "code": code}
        item["container_id"] = self.container_id
        return item | {"outputs": None if outputs is None else [dict(output) for output in outputs]}


class OutputItemImageGenCallBuilder(ItemBuilder):
    """An image: in_progress, generating, partial images, completed."""

    def __init__(self, growth: Growth) -> None:
        super().__init__(growth, "ig")
        self._partials = 0

    def emit_added(self) -> Event:
        """The call begins."""
        return self._add(self._item("in_progress", None))

    def emit_in_progress(self) -> Event:
        """The call was accepted."""
        return self._inner("response.image_generation_call.in_progress")

    def emit_generating(self) -> Event:
        """The image is being made."""
        return self._inner("response.image_generation_call.generating")

    def emit_partial_image(self, partial_image_b64: str) -> Event:
        """What there is of the image, in base64."""
        self._partials += 1
        return self._inner(
            "response.image_generation_call.partial_image",
            partial_image_b64=partial_image_b64,
            partial_image_index=self._partials - 1,
        )

    def emit_completed(self) -> Event:
        """The image is there."""
        return self._inner("response.image_generation_call.completed")

    def emit_done(self, result: str | None, *, status: str = "completed") -> Event:
        """The item is over; `result` is the image in base64."""
        return self._finish(self._item(status, result))

    def whole(self, result: str, partials: AsyncIterable[str] | None = None) -> ItemEvents:
        """All events of the item."""
        return ItemEvents(
            (self.emit_added, self.emit_in_progress, self.emit_generating),
            "" if partials is None else partials,
            self.emit_partial_image,
            (self.emit_completed, lambda: self.emit_done(result)),
        )

    def _item(self, status: str, result: str | None) -> Json:
        return {"id": self.item_id, "type": "image_generation_call", "status": status, "result": result}
