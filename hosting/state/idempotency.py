"""Which response an `Idempotency-Key` belongs to.

A key is claimed before anything runs, by inserting its row: of two requests with one key exactly one gets it. If the process
dies after the claim and before the turn is stored, nobody can tell whether the agent ran; the key then stays claimed for
`ABANDONED` and can be used again afterwards.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from hosting.storage import Delete, Insert, Replace, RowConflict, RowExists, Store, keys

__all__ = ["ABANDONED", "Claim", "IdempotencyKeys"]

ABANDONED = timedelta(minutes=15)
"""After this a claim without a stored response is taken for the left-over of a dead process. Longer than any foreground
request lives, shorter than a person's patience."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of a key that an earlier request has claimed."""

    response_id: str
    fingerprint: str
    claimed_at: float
    etag: str


class IdempotencyKeys:
    """The keys of one scope."""

    def __init__(self, store: Store, scope: str) -> None:
        self._store, self._scope = store, scope

    async def claim(self, key: str, fingerprint: str, response_id: str, now: float) -> Claim | None:
        """Claim `key` for a response; None when it is ours now, else the earlier claim. One write, one read for a repeat.

        `fingerprint` is a digest of the request. Raises StorageError.
        """
        partition, row = self._place(key)
        fields = {"response_id": response_id, "fingerprint": fingerprint, "claimed_at": now}
        try:
            await self._store.commit(partition, [Insert(row, fields, {})], token=response_id)
        except RowExists:
            # None: it has expired between the two.
            return await self.find(key) or await self.claim(key, fingerprint, response_id, now)
        return None

    async def find(self, key: str) -> Claim | None:
        """The claim of `key`, None when there is none. One read. Raises StorageError."""
        found = await self._store.get(*self._place(key), documents=())
        if found is None:
            return None
        values = found.fields
        claimed_at = float(cast("float", values["claimed_at"]))
        return Claim(str(values["response_id"]), str(values["fingerprint"]), claimed_at, found.etag)

    async def release(self, key: str, response_id: str) -> None:
        """Give a key free that was claimed for a response which will never be. Raises StorageError."""
        claim = await self.find(key)
        if claim is not None and claim.response_id == response_id:
            partition, row = self._place(key)
            with suppress(RowConflict):  # somebody has taken it over
                await self._store.commit(partition, [Delete(row, claim.etag)])

    async def take_over(self, key: str, abandoned: Claim, response_id: str, now: float) -> bool:
        """Take a key from an abandoned claim; False when somebody else was faster. Raises StorageError."""
        partition, row = self._place(key)
        fields = {"response_id": response_id, "fingerprint": abandoned.fingerprint, "claimed_at": now}
        try:
            await self._store.commit(partition, [Replace(row, fields, {}, abandoned.etag)], token=response_id)
        except RowConflict:
            return False
        return True

    def _place(self, key: str) -> tuple[str, str]:
        name = f"idempotency {key}"
        return keys.partition_key(self._scope, keys.chain_of(name)), f"idempotency.{keys.encode_key(key)}"
