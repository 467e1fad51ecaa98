"""The life of one transaction: look at what it replaces, write blobs, write rows, tidy up; and what if an answer is lost."""

import asyncio
import logging
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from hosting.gather import gather_all

from ._errors import CorruptValue, RowConflict, RowMissing, StorageError, StorageUnavailable
from ._packing import Delete, Insert, Operation, Put, Replace, pack
from ._seams import Blobs, RawEntity, RawOperation, Tables
from ._values import SPILLED, TOKEN, BlobRef, decode_refs, encode_refs, has_spilled, inner_etag, outer_etag

__all__ = ["Commit"]

_LOG = logging.getLogger("hosting.storage")
_PROBE = [SPILLED, TOKEN]
_PAUSE = 0.2
"""Seconds before the one repetition of a transaction whose outcome is unknown. The SDK repeats what got an answer
(500, 503, 504) but not a POST whose connection broke, which is what a stale keep-alive connection looks like."""
_SUPERSEDED = "W/\"datetime'1601-01-01T00%3A00%3A00.0000000Z'\""
"""The etag of a version that was ours and is gone: well-formed, and no row's, so that a Replace with it conflicts."""


class _Replaced(NamedTuple):
    """What a transaction replaces: blobs that nothing refers to after it (`named`: of versions that an etag names;
    `overwritten`: of whatever was there), and rows that need no delete."""

    named: set[str]
    overwritten: set[str]
    absent: set[str]


class Commit:
    """One call of `Store.commit`; used once.

    Which blobs may be removed follows from three facts. A blob is written for one try of one call (its name says so), so a row
    refers to it only if that try was applied. The versions after that one may go on referring to it, as long as its
    document does not change: so a version that does not is followed by none that does. And the blobs of a replaced version
    were looked up before the transaction: once a conditional operation is applied, the version that its etag names is gone
    for good.
    """

    def __init__(
        self,
        tables: Tables,
        blobs: Blobs,
        slots: asyncio.Semaphore,
        partition: str,
        operations: Sequence[Operation],
        token: str | None,
    ) -> None:
        self._tables, self._blobs, self._slots = tables, blobs, slots
        self._partition, self._operations = partition, operations
        self._token = token or secrets.token_hex(8)
        packed = pack(partition, operations, self._token, secrets.token_hex(6)) if operations else None
        self._raw = packed.operations if packed else []
        self._own = packed.blobs if packed else {}
        self._first_own: Collection[str] = ()
        """The blobs of a first try whose answer was lost."""
        self._in_doubt = False

    async def run(self) -> dict[str, str]:
        """Commit; returns the etag of each row written. See `Store.commit` for what is raised."""
        named, overwritten, absent = await self._prepare()
        raw = [operation for operation in self._raw if operation.row not in absent]
        try:
            etags = await self._transact(raw)
        except RowConflict as conflict:
            etags = await self._read_back(conflict.row)
            if etags is None:
                raise
            # The old versions that were looked up without knowing their etag may be our own, from an earlier call.
            overwritten = set[str]()
        except StorageError:
            if not self._in_doubt:  # else the rows may be there and refer to our blobs
                await self._discard(self._own)
            raise
        await self._discard(named | overwritten | set(self._first_own))
        return etags

    async def _prepare(self) -> _Replaced:
        """Look at what is replaced and write the blobs: at once, unless the look may spare some of them."""
        spilling = {op.row for op in self._raw if SPILLED in op.properties}
        sparing = any(
            isinstance(op, Replace) and op.row in spilling and has_spilled(op.etag) for op in self._operations
        )
        try:
            if sparing:
                replaced, written = await self._look(), await self._write_blobs()
            else:
                replaced, written = await asyncio.gather(self._look(), self._write_blobs(), return_exceptions=True)
            if isinstance(replaced, BaseException):
                raise replaced
            if isinstance(written, BaseException):
                raise written
        except Exception:
            await self._discard(self._own)  # no transaction was sent, so nothing refers to them
            raise
        return replaced

    async def _look(self) -> _Replaced:
        """Read references of what is replaced, and go on using the blobs of documents that stay as they are."""
        unconditional = {op.row for op in self._operations if isinstance(op, Put) or _is_free_delete(op)}
        versions = {
            op.row: inner_etag(op.etag)
            for op in self._operations
            if isinstance(op, Replace | Delete) and op.etag and has_spilled(op.etag)
        }
        rows = [op.row for op in self._operations if op.row in unconditional or op.row in versions]
        found = await self._probe(rows)
        expected = {row: old for row, old in found.items() if old.etag == versions.get(row)}
        named = {name for old in expected.values() for name in _blob_names(old)} - self._keep(expected)
        overwritten = {name for row, old in found.items() if row in unconditional for name in _blob_names(old)}
        absent = {op.row for op in self._operations if _is_free_delete(op) and op.row not in found}
        return _Replaced(named, overwritten, absent)

    def _keep(self, replaced: dict[str, RawEntity]) -> set[str]:
        """Refer to the blobs of the replaced versions that have what would be written anew; returns their names.

        Only where an etag names the old version: then no other writer can take its blobs away unless this transaction fails.
        """
        kept: set[str] = set()
        for n, operation in enumerate(self._raw):
            old = replaced.get(operation.row)
            if old is None or SPILLED not in operation.properties:
                continue
            before = _references(old)
            refs = decode_refs(operation.properties[SPILLED], operation.row)
            same = {name: before[name] for name, ref in refs.items() if name in before and before[name][1:] == ref[1:]}
            for name, ref in same.items():
                del self._own[refs[name].name]
                kept.add(ref.name)
            self._raw[n] = operation._replace(properties={**operation.properties, SPILLED: encode_refs(refs | same)})
        return kept

    async def _write_blobs(self) -> None:
        results = await asyncio.gather(*(self._write(*blob) for blob in self._own.items()), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result

    async def _write(self, name: str, data: bytes) -> None:
        async with self._slots:
            await self._blobs.put(name, data)

    async def _transact(self, raw: list[RawOperation]) -> dict[str, str]:
        while raw:
            try:
                etags = await self._tables.transact(self._partition, raw)
            except StorageUnavailable:
                if self._in_doubt:
                    raise
                self._in_doubt = True
                await asyncio.sleep(_PAUSE)
                raw = await self._with_new_blobs(raw)
            except RowMissing as error:
                remaining = [op for op in raw if op.row != error.row or op.kind != "delete" or op.etag]
                if len(remaining) == len(raw):
                    raise
                raw = remaining  # someone else deleted it after we looked: just as well
            else:
                return {
                    op.row: outer_etag(etag, spilled=SPILLED in op.properties)
                    for op, etag in zip(raw, etags, strict=True)
                    if op.kind != "delete"
                }
        return {}

    async def _with_new_blobs(self, raw: list[RawOperation]) -> list[RawOperation]:
        """The same operations with copies of our blobs. The first try may have been applied, and replaced or deleted since:
        then its blobs are gone or going, and what is about to be written must not refer to them."""
        if not self._own:
            return raw
        attempt = secrets.token_hex(6)
        copies = {name: f"{name.rpartition('-')[0]}-{attempt}" for name in self._own}
        self._first_own, self._own = tuple(self._own), {copies[name]: data for name, data in self._own.items()}
        try:
            await self._write_blobs()
        except StorageError:
            await self._discard(self._own)  # nothing refers to the copies, which is not known of the first ones
            raise
        return [_renamed(operation, copies) for operation in raw]

    async def _read_back(self, conflicting: str) -> dict[str, str] | None:
        """After a conflict: the etags if our transaction was applied by an earlier attempt, None if it was not, or if it can't
        be told any more. Removes those of our blobs that no row refers to.

        One row tells, as the transaction is atomic: preferably an inserted one (who would change it so soon?) that is
        not the one everybody fights for. Before blobs are thrown away, all rows that could refer to them are asked;
        after an answer was lost in this very call, all rows.
        """
        written = [op for op in self._raw if op.kind != "delete"]
        if not written:
            return None  # and no blob
        inserted = [op.row for op in self._operations if isinstance(op, Insert)]
        probe = next((row for row in inserted if row != conflicting), (inserted or [written[0].row])[0])
        asked = [op.row for op in written if self._in_doubt or op.row == probe or SPILLED in op.properties]
        found = await self._probe(asked)
        ours = any(self._is_ours(found.get(row)) for row in asked)
        if ours:
            found |= await self._probe([op.row for op in written if op.row not in asked])
        # Of a row that is not ours, too: if our answer was lost, it may be a successor of what we wrote, with our blobs. And
        # an earlier call with this token wrote its own copies; ours are not needed then.
        in_use = {name for raw in found.values() for name in _blob_names(raw)}
        await self._discard({*self._own, *self._first_own} - in_use)
        self._first_own = ()
        if not ours:
            return None
        current = {
            row: outer_etag(raw.etag, spilled=SPILLED in raw.properties)
            for row, raw in found.items()
            if self._is_ours(raw)
        }
        return {op.row: current.get(op.row, _SUPERSEDED) for op in written}

    def _is_ours(self, raw: RawEntity | None) -> bool:
        return raw is not None and raw.properties.get(TOKEN) == self._token

    async def _probe(self, rows: Sequence[str]) -> dict[str, RawEntity]:
        """Token and blob references of those of the rows that exist."""
        found = await gather_all(*(self._tables.get(self._partition, row, _PROBE) for row in rows))
        return {raw.row: raw for raw in found if raw is not None}

    async def _discard(self, names: Collection[str]) -> None:
        """Remove blobs, as well as it goes: what stays is swept by retention."""
        results = await asyncio.gather(*(self._remove(name) for name in names), return_exceptions=True)
        for name, result in zip(names, results, strict=True):
            if isinstance(result, Exception):
                _LOG.warning("blob %s is left behind: %r", name, result)

    async def _remove(self, name: str) -> bool:
        async with self._slots:
            return await self._blobs.delete(name)


def _is_free_delete(operation: Operation) -> bool:
    return isinstance(operation, Delete) and operation.etag is None


def _renamed(operation: RawOperation, names: Mapping[str, str]) -> RawOperation:
    if SPILLED not in operation.properties:
        return operation
    refs = decode_refs(operation.properties[SPILLED], operation.row)
    refs = {document: ref._replace(name=names.get(ref.name, ref.name)) for document, ref in refs.items()}
    return operation._replace(properties={**operation.properties, SPILLED: encode_refs(refs)})


def _blob_names(raw: RawEntity) -> set[str]:
    return {ref.name for ref in _references(raw).values()}


def _references(raw: RawEntity) -> dict[str, BlobRef]:
    try:
        return decode_refs(raw.properties.get(SPILLED), raw.row)
    except CorruptValue:
        return {}  # a broken row must stay deletable
