"""A client of the server that goes on with what it wants, as clients do, whatever its server does."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hosting.server import Request, Response
from tests.crash.cut_points import Gate, Process
from tests.server_world import FINAL, Json, Reader, World

__all__ = ["Client", "GaveUp"]

_PATIENCE = 60
"""Times that a client asks again, with growing pauses of virtual time: 20 minutes and more."""

_MOMENT = 0.004
"""Seconds of real time in which what needs no virtual time happens, or else happens at the next look."""

_AGAIN = ("conversation_locked", "idempotency_key_in_use", "response_in_progress")
"""Conflicts that end by themselves."""


class GaveUp(Exception):
    """The client has had no answer, and may not send the request again: it has no key."""


class _Died(Exception):
    """The process has died before it answered."""


class Client:
    """Sends again what got no answer, and remembers what was answered."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.accepted: dict[str, Json] = {}
        """Responses by id, as they were answered last."""
        self.cancelled: set[str] = set()
        self.deleted: set[str] = set()
        """Ids whose deletion was answered."""
        self.events: defaultdict[str, dict[int, Json]] = defaultdict(dict)
        """By response and number, what was seen of its events by anyone at any time."""
        self.keyed: dict[str, str] = {}
        """Response by the Idempotency-Key that it was asked for with."""
        self.requests: dict[str, tuple[Any, Json]] = {}
        """Input and body of the requests with a key."""
        self.ids: dict[str, str] = {}
        """Of what a flow has begun with."""

    @property
    def world(self) -> World:
        return self.process.world

    # --- responses

    async def create(self, text: Any, *, key: str | None = None, status: int = 200, **body: Any) -> Json:
        """POST /v1/responses, for JSON."""
        made = _json(await self._send(self._post(text, key, body), again=key is not None), status)
        if status == 200 and body.get("store", True):
            self._note(made, key)
        return made

    async def listen(self, text: Any, *, key: str | None = None, **body: Any) -> Json:
        """The same for events, until the terminal one; the response in it. A broken connection is followed on by GET, or by the
        same request where that can't be."""
        background, identifier = body.get("background", False), ""
        for _ in range(_PATIENCE):
            if identifier and background:
                after = max(self.events[identifier], default=None)
                response = await self._send(lambda i=identifier, a=after: self.world.followed(i, a), again=True)
            else:
                response = await self._send(self._post(text, key, {**body, "stream": True}), again=key is not None)
            read = await self._read(response, identifier if background else None)
            identifier = identifier or read.identifier
            if read.identifier and background:
                self._note({"id": read.identifier}, key)
            if read.final is not None:
                self._note(read.final, key)
                return read.final
            if not identifier and key is None:
                raise GaveUp
        raise AssertionError("the events of a response never end")

    async def leave(self, text: str, **body: Any) -> None:
        """Ask for events, and hang up before the end. Whether it is heard of is for the server to know."""
        with suppress(GaveUp):
            response = await self._send(self._post(text, None, {**body, "stream": True}), again=False)
            assert not isinstance(response.body, bytes)
            reader = Reader(response.body)
            await _first(reader._task, self.process.gate, 5 * _MOMENT)
            if not self.process.gate.died.is_set():
                await _first(asyncio.ensure_future(reader.hang_up()), self.process.gate, 1.0)
        if self.process.gate.died.is_set():
            await self.process.again()

    async def repeat(self, key: str) -> None:
        """Send the request with this key once more: it has the same answer, or is refused for good."""
        text, body = self.requests[key]
        response = await self._send(self._post(text, key, body), again=True)
        if response.status == 409:
            assert isinstance(response.body, bytes)
            code = json.loads(response.body)["error"]["code"]
            assert code in ("idempotency_response_deleted", "idempotency_response_cancelled"), code
        elif isinstance(response.body, bytes):
            assert json.loads(response.body)["id"] == self.keyed[key], "one key, two responses"
        else:
            read = await self._read(response, "" if body.get("background") else None)
            assert read.identifier == self.keyed[key], "one key, two responses"

    async def ended(self, identifier: str) -> Json:
        """Wait until a response is final."""
        for number in range(_PATIENCE):
            found = await self.get(identifier)
            if found["status"] in FINAL:
                return found
            await asyncio.sleep(0.001)
            await self.process.let(_pause(number), scan=number > 3)
        raise AssertionError(f"{identifier} never ends")

    async def get(self, identifier: str, status: int = 200) -> Json:
        found = _json(await self._send(lambda: self.world._of(identifier), again=True), status)
        if status == 200:
            self.accepted[identifier] = found
        return found

    async def cancel(self, identifier: str) -> Json:
        """Cancel a response."""
        found = _json(await self._send(lambda: self.world._of(identifier, "POST", "/cancel"), again=True))
        if found["status"] == "cancelled":
            self.cancelled.add(identifier)
        return found

    async def delete(self, identifier: str) -> None:
        """Delete a response; one that is not there was deleted by a try of ours that had no answer."""
        response = await self._send(lambda: self.world._of(identifier, "DELETE"), again=True)
        assert response.status in (200, 404), response.body
        self.deleted.add(identifier)

    async def call(
        self,
        method: str,
        route: str,
        body: Json | None = None,
        *,
        again: bool = True,
        query: Any = None,
        headers: Mapping[str, str] | None = None,
        **ids: str,
    ) -> tuple[int, Json]:
        """Any other request: the status and the body of the answer."""

        async def read(limit: int) -> bytes:
            return b"" if body is None else json.dumps(body).encode()

        async def send() -> Response:
            request = Request(method, "/" + route.format(**ids), headers or {}, query or {}, path_params=ids, read=read)
            return await self.world.server.handle(route, request)

        response = await self._send(send, again=again)
        assert isinstance(response.body, bytes)
        return response.status, json.loads(response.body or b"{}")

    async def conversation(self, *texts: str) -> str:
        """The id of a new conversation, with messages."""
        items = [{"type": "message", "role": "user", "content": text} for text in texts]
        _, made = await self.call("POST", "v1/conversations", {"items": items}, again=False)
        return made["id"]

    # --- how

    def _post(self, text: Any, key: str | None, body: Json) -> Callable[[], Awaitable[Response]]:
        headers = {} if key is None else {"idempotency-key": key}
        if key is not None:
            self.requests[key] = (text, body)
        return lambda: self.world.post(text, headers=headers, **body)

    def _note(self, made: Json, key: str | None) -> None:
        self.accepted[made["id"]] = made
        if key is not None:
            assert self.keyed.setdefault(key, made["id"]) == made["id"], "one key, two responses"

    async def _send(self, send: Callable[[], Awaitable[Response]], *, again: bool) -> Response:
        pause = 0.5
        for _ in range(_PATIENCE):
            try:
                response = await self._once(send)
            except _Died:
                await self.process.again()
                response = None
            if response is not None:
                if response.status < 400:
                    return response
                assert isinstance(response.body, bytes)
                error = json.loads(response.body)["error"]
                assert response.status != 500, error
                if response.status not in (503, 429) and error["code"] not in _AGAIN:
                    return response
                if error["code"] in _AGAIN or response.status == 429:  # refused: nothing of it was done
                    await self.process.let(pause)
                    pause = min(pause * 2, 120.0)
                    continue
            if not again:
                raise GaveUp
            await self.process.let(pause, scan=False)
        raise AssertionError("the client has no more patience")

    async def _once(self, send: Callable[[], Awaitable[Response]]) -> Response:
        """Raises _Died."""
        gate = self.process.gate
        sending = asyncio.ensure_future(send())
        for number in range(_PATIENCE):
            await _first(sending, gate, _MOMENT)
            if gate.died.is_set():
                raise _Died
            if sending.done():
                return sending.result()
            await self.process.let(_pause(number), scan=number > 3)
        raise AssertionError("a request is never answered")

    async def _read(self, response: Response, identifier: str | None) -> "_Read":
        """Read events until their end, or that of the process. `identifier` is that of their response, "" when it is not known
        yet, None for events of a run that ends with its connection: they are not to be had again."""
        assert not isinstance(response.body, bytes), (response.status, response.body)
        gate, reader = self.process.gate, Reader(response.body)
        heard: list[int] = []
        gate.at_death.append(lambda: heard.append(len(reader.events)))
        for number in range(_PATIENCE):
            await _first(reader._task, gate, _MOMENT)
            if gate.died.is_set() or reader._task.done():
                break
            await self.process.let(_pause(number), scan=number > 3)
        else:
            raise AssertionError(f"a stream neither goes on nor ends: {reader.types}")
        read = _Read(identifier or "")
        for event in reader.events[: heard[0] if heard else None]:
            if event["type"] == "error":
                break
            read.identifier = read.identifier or event["response"]["id"]
            number = event["sequence_number"]
            seen = {} if identifier is None else self.events[read.identifier]
            assert seen.setdefault(number, event) == event, f"two events with number {number}"
            if event["type"] in _TERMINAL:
                read.final = event["response"]
        if gate.died.is_set():
            await self.process.again()
        return read


@dataclass
class _Read:
    """What came of one connection."""

    identifier: str
    final: Json | None = None


_TERMINAL = frozenset(f"response.{name}" for name in ("completed", "failed", "incomplete"))


def _pause(number: int) -> float:
    """Seconds of virtual time before a look that was in vain so often."""
    return min(0.05 * 3**number, 30.0)


async def _first(task: "asyncio.Future[Any]", gate: Gate, seconds: float) -> None:
    died = asyncio.ensure_future(gate.died.wait())
    await asyncio.wait({task, died}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    died.cancel()


def _json(response: Response, status: int = 200) -> Json:
    assert isinstance(response.body, bytes)
    assert response.status == status, (response.status, response.body)
    return json.loads(response.body)
