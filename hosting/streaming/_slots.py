"""The streams that a process holds, by key."""

from collections import OrderedDict
from weakref import WeakValueDictionary

__all__ = ["Slots"]


class Slots[Stream]:
    """Everybody who asks for a key gets the same object, for as long as anybody has it, and the last `keep` in any case.

    So a registry does not grow with every id it has seen, and an app that looks its stream up for every emit does not
    open it every time. `keep=None` keeps all: then the objects are the only place where the events are.
    """

    def __init__(self, keep: int | None) -> None:
        self._keep = keep
        self._all: WeakValueDictionary[str, Stream] = WeakValueDictionary()
        self._recent: OrderedDict[str, Stream] = OrderedDict()

    def get(self, key: str) -> Stream | None:
        """The object of a key."""
        found = self._all.get(key)
        if found is not None:
            self._touch(key, found)
        return found

    def put(self, key: str, stream: Stream) -> None:
        """Have a new object under a key."""
        self._all[key] = stream
        self._touch(key, stream)

    def remove(self, key: str) -> None:
        """Forget a key."""
        self._all.pop(key, None)
        self._recent.pop(key, None)

    def values(self) -> list[Stream]:
        """All of them."""
        return list(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def _touch(self, key: str, stream: Stream) -> None:
        self._recent[key] = stream
        self._recent.move_to_end(key)
        if self._keep is not None and len(self._recent) > self._keep:
            self._recent.popitem(last=False)
