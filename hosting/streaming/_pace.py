"""How long a follower waits before it looks for news again."""

from hosting.streaming._options import StreamTuning

__all__ = ["Pace"]

_GROWTH = 1.5


class Pace:
    """`wait` seconds from now; `looked` says what came of it. The options are explained in StreamTuning."""

    def __init__(self, tuning: StreamTuning) -> None:
        self._active = tuning.poll_active.total_seconds()
        self._idle = tuning.poll_idle.total_seconds()
        self._settle = max(self._active, tuning.flush_interval.total_seconds() * 0.75)
        self.wait = self._active
        self._fresh = False

    def looked(self, *, news: bool) -> None:
        """After each look."""
        if news:
            self.wait, self._fresh = min(self._settle, self._idle), True
        else:
            self.wait = self._active if self._fresh else min(self.wait * _GROWTH, self._idle)
            self._fresh = False
