"""Small durable state of a conversation chain, as a handler sees it."""

from collections.abc import Iterator, MutableMapping
from typing import Any, Protocol, cast

__all__ = ["ChainMetadata", "MetadataSpace"]


class MetadataSpace(Protocol):
    """What backs it: hosting.tasks.TaskMetadata is one."""

    def __call__(self, name: str = "", /) -> "MetadataSpace": ...
    def __getitem__(self, key: str, /) -> Any: ...
    def __setitem__(self, key: str, value: Any, /) -> None: ...
    def __delitem__(self, key: str, /) -> None: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    async def flush(self) -> None: ...


class ChainMetadata(MutableMapping[str, Any]):
    """References and watermarks that outlive the turn: a mapping from str to JSON values (seed).

    All turns of a conversation share it. Calling it gives another namespace: `metadata("billing")["cents"] = 12`. It is
    stored with the turn, and at once by `await flush()`. Names that begin with `_` are the server's own: ValueError.
    Of a response that is not stored, nothing is.
    """

    def __init__(self, space: MetadataSpace | None = None) -> None:
        self._space: MetadataSpace = space if space is not None else _Unstored({}, "")

    def __call__(self, name: str = "") -> "ChainMetadata":
        """The namespace `name`; without one, the default. TypeError for another type than str."""
        return ChainMetadata(self._space(_checked(name, "the name of a namespace")))

    async def flush(self) -> None:
        """Store this namespace now, if it has changed. Raises what its backing raises (see hosting.tasks.TaskMetadata)."""
        await self._space.flush()

    def __getitem__(self, key: str) -> Any:
        return self._space[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._space[_checked(key, "a key")] = value

    def __delitem__(self, key: str) -> None:
        del self._space[_checked(key, "a key")]

    def __iter__(self) -> Iterator[str]:
        # What the server keeps there for itself is none of the handler's.
        return (key for key in self._space if not key.startswith("_"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"ChainMetadata({dict(self)!r})"


class _Unstored(dict[str, Any]):
    """Namespaces in memory: they end with the turn."""

    def __init__(self, spaces: "dict[str, _Unstored]", name: str) -> None:
        super().__init__()
        self._spaces = spaces
        spaces[name] = self

    def __call__(self, name: str = "") -> "_Unstored":
        return self._spaces[name] if name in self._spaces else _Unstored(self._spaces, name)

    async def flush(self) -> None:
        pass


def _checked(name: str, what: str) -> str:
    if not isinstance(cast("object", name), str):
        raise TypeError(f"{what} of the metadata is a str, not {type(name).__name__}")
    if name.startswith("_"):
        raise ValueError(f"{what} of the metadata must not begin with an underscore: {name!r}")
    return name
