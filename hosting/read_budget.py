"""How many bytes may be read on somebody's behalf: from a socket, a table or a blob.

What is stored can be far larger than any request that asks for it, and a process has memory for a few of those only. Whoever
reads calls `charge` with the bytes, before it keeps them; whoever answers for the memory says so around it:

    with charging(share.take):              # counts them, may refuse
        with read_at_most(limit):           # raises ReadTooLarge
            ...

Both hold for all that is awaited inside, and for tasks that are made inside, however deep; so a new read can't be forgotten.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["ReadBudget", "ReadTooLarge", "charge", "charging", "read_at_most"]


class ReadTooLarge(Exception):
    """There is more to read than the reader takes, `limit` bytes. No StorageError: trying again would not help."""

    def __init__(self, budget: "ReadBudget") -> None:
        super().__init__(f"more than {budget.limit:,} bytes are to be read")
        self.budget = budget


class ReadBudget:
    """Counts what is read inside one `read_at_most`, and passes it on to what is around that."""

    def __init__(self, limit: int, around: Callable[[int], None]) -> None:
        self.limit, self.spent = limit, 0
        self._around, self._limited = around, True

    def charge(self, size: int) -> None:
        """Count `size` bytes. Raises ReadTooLarge, and whatever the counters around raise."""
        if self._limited and self.spent + size > self.limit:
            raise ReadTooLarge(self)
        self._around(size)
        self.spent += size

    def refund(self, size: int | None = None) -> None:
        """What was read here, or `size` bytes of it, is no longer kept."""
        size = self.spent if size is None else min(size, self.spent)
        self._around(-size)
        self.spent -= size

    def end(self) -> None:
        """Count on, without a limit: tasks that were made inside may live much longer than what the limit was for."""
        self._limited = False


def _nobody_counts(size: int) -> None:
    """Outside of any budget."""


_charge: ContextVar[Callable[[int], None]] = ContextVar("hosting_charge_read", default=_nobody_counts)


def charge(size: int) -> None:
    """Count `size` bytes that are about to be kept. Raises ReadTooLarge, and what the counter of `charging` raises."""
    _charge.get()(size)


@contextmanager
def charging(counter: Callable[[int], None]) -> Generator[None]:
    """Have `counter` called with the sizes that are read inside; a negative one takes an earlier one back."""
    token = _charge.set(counter)
    try:
        yield
    finally:
        _charge.reset(token)


@contextmanager
def read_at_most(limit: int) -> Generator[ReadBudget]:
    """Allow `limit` bytes inside. When the block raises, what it read counts no longer: nobody has it."""
    budget = ReadBudget(limit, _charge.get())
    with charging(budget.charge):
        try:
            yield budget
        except BaseException:
            budget.refund()
            raise
        finally:
            budget.end()
