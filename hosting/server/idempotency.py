"""`Idempotency-Key`: a request that is sent again gets the answer of the first one instead of a second run."""

import hashlib
import time

from hosting.responses import ApiError
from hosting.server.http import Request
from hosting.state import Turn
from hosting.state.idempotency import ABANDONED, IdempotencyKeys

__all__ = ["earlier_response"]

_LONGEST_KEY = 255


async def earlier_response(claims: IdempotencyKeys, request: Request, body: bytes, turn: Turn) -> str | None:
    """The id of the response that an earlier request with the same key made; None when this is the first one, or has no key.

    Raises ApiError 400 for a malformed key, 409 for a key that was used with another body or is about to be taken over.
    """
    key = request.headers.get("idempotency-key", "")
    if not key:
        return None
    if len(key) > _LONGEST_KEY:
        raise ApiError.invalid_value(
            "Idempotency-Key", f"The Idempotency-Key is longer than {_LONGEST_KEY} characters."
        )
    now = time.time()
    fingerprint = hashlib.sha256(body).hexdigest()
    claim = await claims.claim(key, fingerprint, turn.response_id, now)
    if claim is None:
        return None
    if claim.fingerprint != fingerprint:
        raise ApiError.conflict(
            "This Idempotency-Key was used with another request body.", code="idempotency_key_reused"
        )
    if now - claim.claimed_at > ABANDONED.total_seconds() and await claims.take_over(key, claim, turn.response_id, now):
        return None
    return claim.response_id
