"""Small durable state of a task: a mapping per namespace, written with the outcome of a turn, or when flushed."""

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, cast

from hosting.tasks._codec import JSONValue, json_size, plain
from hosting.tasks._options import METADATA_BYTES

__all__ = ["MetadataSpaces", "TaskMetadata"]

_NAMES_CHARACTERS = 8_000


class MetadataSpaces:
    """All namespaces of one task as one attempt, or one handle, sees them."""

    def __init__(
        self, stored: dict[str, dict[str, JSONValue]], flush: "Callable[[TaskMetadata], Awaitable[None]]"
    ) -> None:
        self._flush = flush
        self._spaces: dict[str, TaskMetadata] = {}
        for name, values in stored.items():
            self.get(name).replace_stored(values)

    def get(self, name: str) -> "TaskMetadata":
        if name not in self._spaces:
            self._spaces[name] = TaskMetadata(name, self)
        return self._spaces[name]

    def dirty(self) -> dict[str, dict[str, JSONValue]]:
        """Content of the namespaces that differ from what is stored. Raises TypeError or ValueError, naming the path."""
        changed: dict[str, dict[str, JSONValue]] = {}
        for name, space in self._spaces.items():
            values = space.snapshot()
            if values != space.stored:
                if (size := json_size(cast("JSONValue", values))) > METADATA_BYTES:
                    raise ValueError(
                        f"metadata({name!r}) has {size:,} bytes of JSON, at most {METADATA_BYTES:,} are kept"
                    )
                changed[name] = values
        if sum(len(name) for name in self._spaces) > _NAMES_CHARACTERS:
            raise ValueError(f"the names of all metadata namespaces have more than {_NAMES_CHARACTERS:,} characters")
        return changed

    def saved(self, changed: dict[str, dict[str, JSONValue]]) -> None:
        """The namespaces have been stored with this content."""
        for name, values in changed.items():
            self._spaces[name].stored = values

    async def flush(self, space: "TaskMetadata") -> None:
        await self._flush(space)


class TaskMetadata(MutableMapping[str, Any]):
    """A mapping from str to JSON values that outlives the turn, the process and, for a chain, all of its turns.

    Calling it gives another namespace: `ctx.metadata("billing")["cents"] = 12`; `ctx.metadata()` is the default one. Every
    namespace that has changed, in place too, is stored in the same transaction as the outcome of the turn, and with a retry
    or a deferral. `await flush()` stores one at once. What was not stored when a process dies is lost; the stored one is
    what a recovered attempt sees. It is gone with a one-shot's end and with `delete`.
    """

    def __init__(self, name: str, spaces: MetadataSpaces) -> None:
        self._name = name
        self._spaces = spaces
        self._values: dict[str, Any] = {}
        self.stored: dict[str, JSONValue] = {}
        """What storage has; for the engine."""

    def __call__(self, name: str = "") -> "TaskMetadata":
        """The namespace `name`; any text names one. Raises TypeError for another type."""
        if not isinstance(cast("object", name), str):
            raise TypeError("the name of a metadata namespace is a str")
        return self._spaces.get(name)

    @property
    def name(self) -> str:
        """The name of the namespace; "" for the default one."""
        return self._name

    def set(self, key: str, value: Any) -> None:
        """The same as `metadata[key] = value`. Raises TypeError unless `key` is a str."""
        if not isinstance(cast("object", key), str):
            raise TypeError(f"a metadata key is a str, not {type(key).__name__}")
        self._values[key] = value

    def increment(self, key: str, by: float = 1) -> None:
        """Add to a number; a missing one counts as 0."""
        self.set(key, self._values.get(key, 0) + by)

    def append(self, key: str, value: Any) -> None:
        """Add to a list; a missing one is made."""
        self.set(key, [*self._values.get(key, []), value])

    def to_dict(self) -> dict[str, Any]:
        """A shallow copy."""
        return dict(self._values)

    async def flush(self) -> None:
        """Store this namespace now, if it has changed.

        Raises TypeError or ValueError for content that is no JSON or more than 1 MiB of it, naming the path; RuntimeError
        when this is not the running attempt (a handle in another process, or a lost lease); StorageError.
        """
        await self._spaces.flush(self)

    def snapshot(self) -> dict[str, JSONValue]:
        """A JSON copy; for the engine."""
        label = f"metadata({self._name!r})" if self._name else "metadata"
        return cast("dict[str, JSONValue]", plain(self._values, label))

    def replace_stored(self, values: dict[str, JSONValue]) -> None:
        """Take over what storage has; for the engine."""
        self.stored = values
        self._values = cast("dict[str, Any]", plain(values, "metadata"))

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"TaskMetadata({self._name!r}, {self._values!r})"
