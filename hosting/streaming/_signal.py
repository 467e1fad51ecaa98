"""Waking whoever waits for news."""

import asyncio

__all__ = ["Signal"]


class Signal:
    """`next()` gives the event that the next `fire()` sets. Take it before looking at what it is about: no await may lie
    between the look and the take."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Set at the next `fire`."""
        return self._event

    def fire(self) -> None:
        """Wake all that wait now."""
        event, self._event = self._event, asyncio.Event()
        event.set()
