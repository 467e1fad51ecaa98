"""Seats, of a limited number of things that go on at a time, and who gives them back.

In memory, so exact and free, and of this process only. A seat is given back when its owner ends, however it ends: seats
are context managers, they can move into the thing that outlives the request (a run, the body of a stream), and one that was
forgotten is given back when nobody refers to it any more.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import TracebackType
from typing import Self

from hosting.responses import ApiError
from hosting.server.http import Response
from hosting.server.working_memory import Share

__all__ = ["Lease", "Seat", "Seats"]

_RETRY_AFTER = 1
"""Seconds. Nobody knows when a seat gets free; the SDKs wait this long twice."""


class Seats:
    """`limit` seats in this process, `per_tenant` of them for one tenant; 0 is as many as there are takers."""

    def __init__(self, what: str, limit: int, per_tenant: int) -> None:
        """`what` stands in messages, such as "runs"."""
        self._what, self._limit, self._per_tenant = what, limit, per_tenant
        # Sets and no numbers: whoever forgets a seat may do so in any thread, where `n -= 1` could lose one for ever.
        self._taken: dict[str, set[object]] = {}
        self._all: set[object] = set()

    def take(self, tenant: str) -> "Seat":
        """A seat, at once. Raises ApiError: 429 when the tenant has all of its own, 503 when this process is full."""
        if 0 < self._per_tenant <= len(self._taken.get(tenant, ())):
            raise ApiError.rate_limited(
                f"Too many {self._what} at a time: the limit is {self._per_tenant}. Please try again in {_RETRY_AFTER}s.",
                retry_after=_RETRY_AFTER,
            )
        if 0 < self._limit <= len(self._all):
            raise ApiError.overloaded(retry_after=_RETRY_AFTER)
        token = object()
        self._all.add(token)
        self._taken.setdefault(tenant, set()).add(token)
        return Seat(self, tenant, token)

    def give_back(self, tenant: str, token: object) -> None:
        """For Seat alone."""
        self._all.discard(token)
        taken = self._taken.get(tenant, set())
        taken.discard(token)
        if not taken:
            self._taken.pop(tenant, None)  # tenants that have nothing here cost nothing

    @property
    def taken(self) -> Mapping[str, int]:
        """Tenant to the seats that it has. Tenants without are not there."""
        return {tenant: len(tokens) for tenant, tokens in self._taken.items()}

    def __len__(self) -> int:
        """How many are taken."""
        return len(self._all)


class Seat:
    """One seat that is taken. Leaving its context gives it back, and so does forgetting it."""

    __slots__ = ("_seats", "_tenant", "_token")

    def __init__(self, seats: Seats, tenant: str, token: object) -> None:
        self._seats, self._tenant, self._token = seats, tenant, token

    def release(self) -> None:
        """Give it back. Any number of times."""
        self._seats.give_back(self._tenant, self._token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


class Lease:
    """What one request holds: leave its context and it is given back, unless it was handed over to what goes on."""

    def __init__(self, seat: Seat | None = None) -> None:
        """None is a request that needs no seat."""
        self._seat = seat
        self.headers: dict[str, str] = {}
        """For the answer, whatever it is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, ApiError):
            error.headers = {**self.headers, **error.headers}
        self.release()

    def release(self) -> None:
        """Give the seat back, unless it was handed over. Any number of times."""
        if self._seat is not None:
            self._seat.release()
            self._seat = None

    def hand_over(self) -> AbstractContextManager[object]:
        """The seat, for what outlives the request: enter it there. A second time it is a context without a seat."""
        seat, self._seat = self._seat, None
        return seat or nullcontext()

    def answer(self, response: Response, share: Share | None = None) -> Response:
        """The answer to the request, with the headers; a streamed body takes the seat and `share` along until it ends."""
        response.headers.update(self.headers)
        if not isinstance(response.body, bytes) and (self._seat or share):
            held = ExitStack()
            held.enter_context(self.hand_over())
            if share is not None:
                held.enter_context(share)
            response.body = _HeldBody(response.body, held)
        return response


class _HeldBody(AsyncIterator[bytes]):
    """A body that holds something until it ends, fails, is closed, or is dropped, even if it was never begun.

    No generator: the `finally` of one that never began does not run.
    """

    def __init__(self, body: AsyncIterator[bytes], held: ExitStack) -> None:
        self._body, self._held = body, held

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._body)
        except BaseException:  # the end, a failure, or the client is gone: nothing follows
            self._held.close()
            raise

    async def aclose(self) -> None:
        try:
            close = getattr(self._body, "aclose", None)
            if close is not None:
                await close()
        finally:
            self._held.close()
