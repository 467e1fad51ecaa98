"""`Idempotency-Key`: a request that is sent again gets the answer of the first one instead of a second run."""

import hashlib
import time

from hosting.responses import ApiError
from hosting.server.http import Request
from hosting.state import StoredResponse, Turn
from hosting.state.idempotency import ABANDONED, Claim, IdempotencyKeys

__all__ = ["RepeatableRequest", "body_digest", "check_replayable", "response_deleted"]

_LONGEST_KEY = 255


def body_digest(request: Request, body: bytes) -> str:
    """By which a repetition is told from another request; empty when there is no key."""
    return hashlib.sha256(body).hexdigest() if request.headers.get("idempotency-key") else ""


class RepeatableRequest:
    """A request whose client may send it again under the same key. Without a key nothing here costs anything."""

    def __init__(self, claims: IdempotencyKeys, request: Request, digest: str) -> None:
        """`digest` is that of the body. Raises ApiError 400 for a malformed key."""
        self._key = request.headers.get("idempotency-key", "")
        if len(self._key) > _LONGEST_KEY:
            raise ApiError.invalid_value(
                "Idempotency-Key", f"The Idempotency-Key is longer than {_LONGEST_KEY} characters."
            )
        self._claims = claims
        self._fingerprint = digest
        self._moved: str | None = None

    async def known(self) -> str | None:
        """The id of the response that an earlier request has claimed the key for. To be asked before anything else is looked
        at: what that request has changed must not make its repetition an error. One read.

        Raises ApiError 409 for a key that was used with another body, and StorageError.
        """
        claim = await self._claims.find(self._key) if self._key else None
        return self._checked(claim).response_id if claim is not None else None

    async def claim(self, turn: Turn) -> str | None:
        """Claim the key for a turn; None when it is ours, or there is no key, else the id of the response that has it.

        A claim that is old and may be of a dead process is taken over; who calls this has found no response for it. Raises
        ApiError 409, and StorageError.
        """
        if not self._key:
            return None
        now = time.time()
        found = await self._claims.claim(self._key, self._fingerprint, turn.response_id, now)
        if found is None:
            return None
        claim = self._checked(found)
        old = now - claim.claimed_at > ABANDONED.total_seconds()
        if old and await self._claims.take_over(self._key, claim, turn.response_id, now):
            return None
        return claim.response_id

    async def move(self, response_id: str, to: str) -> None:
        """The turn that the key was claimed for gets another id before it is accepted. If the process dies between the two, a
        repeat accepts it under the new one. Raises StorageError."""
        claim = await self._claims.find(self._key) if self._key else None
        if claim is None or claim.response_id != response_id:
            return
        if await self._claims.take_over(self._key, claim, to, claim.claimed_at):
            self._moved = to

    async def release(self, turn: Turn) -> None:
        """The turn was refused before anything of it ran: the key is free for another try. Raises StorageError."""
        if self._key:
            await self._claims.release(self._key, self._moved or turn.response_id)

    def _checked(self, claim: Claim) -> Claim:
        if claim.fingerprint != self._fingerprint:
            raise ApiError.conflict(
                "This Idempotency-Key was used with another request body.", code="idempotency_key_reused"
            )
        return claim


def response_deleted() -> ApiError:
    """409: there is nothing to give, and the request is not run a second time."""
    message = "The response to the first request with this Idempotency-Key was deleted."
    return ApiError.conflict(message, code="idempotency_response_deleted")


def check_replayable(stored: StoredResponse) -> None:
    """Raises ApiError 409 for a response that was cancelled because its client had gone: its end is no answer to the request,
    and as a 200 would be taken for one."""
    if not stored.response["background"] and stored.response["status"] == "cancelled":
        message = (
            "The first request with this Idempotency-Key was cancelled, because its client went away before the end. Use "
            "another key to run it again, or `background` for a run that outlives its connection."
        )
        raise ApiError.conflict(message, code="idempotency_response_cancelled")
