"""The limits of a process as its routes see them, and as the real openai client does."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import pytest
from openai import APIStatusError, AsyncOpenAI, RateLimitError

from hosting.identity import Caller
from hosting.responses import ApiError, InvalidRequest
from hosting.server import Request, Response
from hosting.server.http import json_response
from hosting.server.limit_leases import Lease, Seat, Seats
from hosting.server.limits import Limits
from hosting.settings import load_settings
from hosting.storage import Store, keys, memory_store

CONTOSO, FABRIKAM = Caller("contoso"), Caller("fabrikam", "anna")
SCOPE = keys.scope("contoso", None)


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


def limits(store: Store | None = None, clock: Clock | None = None, **env: object) -> Limits:
    settings = load_settings({f"HOSTING_{name.upper()}": str(value) for name, value in env.items()})
    return Limits(settings, lambda: store or memory_store(), clock=clock or Clock())


async def frames() -> AsyncIterator[bytes]:
    yield b"one"
    yield b"two"


async def broken() -> AsyncIterator[bytes]:
    yield b"one"
    raise RuntimeError("defect")


async def endless() -> AsyncIterator[bytes]:
    yield b"one"
    await asyncio.Event().wait()


def body(response: Response) -> AsyncIterator[bytes]:
    assert not isinstance(response.body, bytes)
    return response.body


def fault(places: Seats, tenant: str = "contoso") -> ApiError:
    with pytest.raises(ApiError) as caught:
        places.take(tenant)
    return caught.value


# ---- places


def test_a_tenant_with_all_of_its_places_is_a_429_that_sdks_repeat_soon() -> None:
    places = Seats("runs", 10, 2)
    held = [places.take("contoso") for _ in range(2)]
    error = fault(places)
    assert (error.status, error.code, error.headers) == (429, "rate_limit_exceeded", {"retry-after": "1"})
    assert len(held) == 2


def test_a_tenant_with_all_of_its_places_does_not_keep_others_out() -> None:
    places = Seats("runs", 10, 1)
    with places.take("contoso"), places.take("fabrikam"):
        assert places.taken == {"contoso": 1, "fabrikam": 1}


def test_a_full_process_is_a_503_for_a_tenant_that_did_nothing() -> None:
    places = Seats("runs", 1, 5)
    with places.take("contoso"):
        error = fault(places, "fabrikam")
    assert (error.status, error.code, error.headers) == (503, "server_is_overloaded", {"retry-after": "1"})


def test_zero_is_no_limit() -> None:
    places = Seats("runs", 0, 0)
    held = [places.take("contoso") for _ in range(5000)]
    assert len(places) == len(held)


def test_a_place_is_given_back_once_however_often_it_is_released() -> None:
    places = Seats("runs", 2, 2)
    first, second = places.take("contoso"), places.take("contoso")
    for _ in range(3):
        first.release()
    assert len(places) == 1
    second.release()
    assert (len(places), places.taken) == (0, {})


def test_a_place_that_is_forgotten_is_given_back() -> None:
    places = Seats("runs", 1, 1)
    place: Seat | None = places.take("contoso")
    assert place is not None
    del place
    assert len(places) == 0


# ---- leases and bodies


def leased() -> tuple[Seats, Lease]:
    places = Seats("streams", 1, 1)
    return places, Lease(places.take("contoso"))


async def test_a_json_answer_gives_the_place_back_with_the_request() -> None:
    places, lease = leased()
    with lease:
        lease.answer(json_response({}))
        assert len(places) == 1
    assert len(places) == 0


async def test_a_stream_keeps_the_place_until_its_end() -> None:
    places, lease = leased()
    with lease:
        response = lease.answer(Response(200, frames()))
    assert len(places) == 1
    assert [chunk async for chunk in body(response)] == [b"one", b"two"]
    assert len(places) == 0


async def test_a_stream_that_fails_gives_the_place_back() -> None:
    places, lease = leased()
    with lease:
        response = lease.answer(Response(200, broken()))
    with pytest.raises(RuntimeError):
        [chunk async for chunk in body(response)]
    assert len(places) == 0


async def test_a_reader_that_is_cancelled_gives_the_place_back() -> None:
    places, lease = leased()
    with lease:
        response = lease.answer(Response(200, endless()))
    stream = body(response)
    assert await anext(stream) == b"one"
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait({reader})
    assert len(places) == 0


async def test_a_stream_that_is_closed_early_gives_the_place_back_and_is_closed_itself() -> None:
    places, lease = leased()
    source = frames()
    with lease:
        response = lease.answer(Response(200, source))
    stream = body(response)
    assert await anext(stream) == b"one"
    await stream.aclose()  # type: ignore[attr-defined]
    assert len(places) == 0
    assert [chunk async for chunk in source] == []


async def test_a_stream_that_nobody_ever_began_gives_the_place_back() -> None:
    places, lease = leased()
    with lease:
        response: Response | None = lease.answer(Response(200, frames()))
    assert len(places) == 1
    del response, lease
    gc.collect()
    assert len(places) == 0


async def test_a_place_that_a_run_took_over_is_the_runs_to_give_back() -> None:
    places, lease = leased()
    with lease:
        place = lease.hand_over()
        response = lease.answer(Response(200, frames()))
    assert [chunk async for chunk in body(response)] == [b"one", b"two"]
    assert len(places) == 1
    with place, lease.hand_over():
        assert len(places) == 1
    assert len(places) == 0


async def test_an_error_after_the_place_was_taken_gives_it_back() -> None:
    places, lease = leased()
    with pytest.raises(RuntimeError):
        with lease:
            raise RuntimeError("storage")
    assert len(places) == 0


def test_a_refusal_has_the_headers_of_the_lease_and_its_own_before_them() -> None:
    lease = Lease()
    lease.headers = {"x-ratelimit-limit-requests": "5", "retry-after": "7"}
    with pytest.raises(ApiError) as caught:
        with lease:
            raise ApiError.rate_limited("No.", retry_after=3)
    assert caught.value.headers == {"x-ratelimit-limit-requests": "5", "retry-after": "3"}


# ---- the routes


async def test_a_foreground_run_has_a_place_among_the_runs_while_it_lasts() -> None:
    limited = limits()
    async with limited.admit(CONTOSO, SCOPE, stream=True):
        assert limited.seats == {"bodies": 0, "runs": 1, "streams": 0}
    assert limited.seats == {"bodies": 0, "runs": 0, "streams": 0}


async def test_of_a_background_run_only_the_stream_has_a_place() -> None:
    limited = limits()
    async with limited.admit(CONTOSO, SCOPE, background=True, stream=True):
        assert limited.seats["streams"] == 1
        assert limited.seats["runs"] == 0
    async with limited.admit(CONTOSO, SCOPE, background=True):
        assert limited.seats["streams"] == 0


async def test_a_run_that_the_rate_refuses_has_no_place() -> None:
    limited = limits(runs_per_minute=1)
    async with limited.admit(CONTOSO, SCOPE):
        pass
    with pytest.raises(ApiError):
        async with limited.admit(CONTOSO, SCOPE):
            pass
    assert limited.seats["runs"] == 0


async def test_a_run_without_a_place_does_not_count_in_the_rate() -> None:
    limited = limits(runs_per_minute=2, max_runs_per_tenant=1)
    async with limited.admit(CONTOSO, SCOPE):
        for _ in range(5):
            with pytest.raises(ApiError):
                async with limited.admit(CONTOSO, SCOPE):
                    pass
    async with limited.admit(CONTOSO, SCOPE) as lease:
        assert lease.headers["x-ratelimit-remaining-requests"] == "0"


async def test_users_of_a_tenant_share_its_limits() -> None:
    limited = limits(max_runs_per_tenant=1)
    with limited.run(FABRIKAM), pytest.raises(ApiError):
        limited.run(Caller("fabrikam", "bert"))


async def test_by_default_nothing_is_asked_of_storage_and_no_headers_are_sent() -> None:
    store = memory_store()
    limited = limits(store)
    async with limited.admit(CONTOSO, SCOPE, background=True) as lease:
        assert lease.headers == {}
    assert store.meter.operations == 0


async def test_the_shared_rate_is_off_unless_it_is_switched_on() -> None:
    store = memory_store()
    async with limits(store, runs_per_minute=5).admit(CONTOSO, SCOPE):
        pass
    assert store.meter.operations == 0
    async with limits(store, runs_per_minute=5, runs_per_minute_shared="true").admit(CONTOSO, SCOPE):
        pass
    assert store.meter.operations == 2


async def test_followers_of_a_tenant_are_limited() -> None:
    limited = limits(max_streams_per_tenant=2)
    with limited.follow(CONTOSO), limited.follow(CONTOSO):
        with pytest.raises(ApiError) as caught:
            limited.follow(CONTOSO)
        with limited.follow(FABRIKAM), limited.run(CONTOSO):
            pass
    assert caught.value.status == 429


async def test_a_body_on_its_way_has_a_place_and_the_tenant_has_only_so_many() -> None:
    arriving = asyncio.Event()

    async def read(limit: int) -> bytes:
        await arriving.wait()
        return b"{}"

    limited = limits(max_runs_per_tenant=1)
    request = limited.guarded(Request("POST", "/v1/responses", read=read), CONTOSO)
    slow = asyncio.create_task(request.read_body(100))
    await asyncio.sleep(0)
    assert limited.seats["bodies"] == 1
    with pytest.raises(ApiError) as caught:
        await request.read_body(100)
    assert caught.value.status == 429
    arriving.set()
    assert await slow == b"{}"
    assert limited.seats["bodies"] == 0


async def test_a_body_that_takes_too_long_is_a_408_and_gives_its_place_back() -> None:
    async def read(limit: int) -> bytes:
        await asyncio.Event().wait()
        return b""

    limited = limits(request_body_seconds=0.01)
    with pytest.raises(ApiError) as caught:
        await limited.guarded(Request("POST", "/v1/responses", read=read), CONTOSO).read_body(100)
    assert caught.value.status == 408
    assert limited.seats["bodies"] == 0


async def test_a_json_body_with_too_many_values_is_refused_and_any_other_body_is_not() -> None:
    async def read(limit: int) -> bytes:
        return b"[" + b"{}," * 200_000 + b"{}]"

    limited, request = limits(), Request("POST", "/", read=read)
    with pytest.raises(InvalidRequest, match="JSON values"):
        await limited.guarded(request, CONTOSO).read_body(1_000_000)
    assert await limited.guarded(request, CONTOSO, json=False).read_body(1_000_000) == await read(0)


def test_more_items_than_the_limit_are_refused_with_openais_words() -> None:
    limited = limits(max_input_items=2)
    limited.check_items({"input": [{}, {}]})
    with pytest.raises(InvalidRequest) as caught:
        limited.check_items({"input": [{}, {}, {}]})
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, "input", "array_above_max_length")
    assert str(caught.value) == (
        "Invalid 'input': array too long. Expected an array with maximum length 2, but got an array with length 3 instead."
    )


@pytest.mark.parametrize("given", [None, [], "text", {"input": "a long text"}, {"input": None}, {"input": {"a": 1}}])
def test_bodies_without_items_are_left_to_the_parser(given: object) -> None:
    limits(max_input_items=1).check_items(given)


# ---- the real client

ANSWER: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 0,
    "status": "completed",
    "model": "agent",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


class Served:
    """A server with limits behind the real client; its waits move the clock and take no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, max_retries: int = 2, **env: object) -> None:
        self.clock = Clock()
        self.limits = limits(clock=self.clock, **env)
        self.waits: list[float] = []
        self.requests = 0
        monkeypatch.setattr("openai._base_client.anyio.sleep", self._sleep)
        self.client = AsyncOpenAI(
            base_url="http://server/v1",
            api_key="sk-test",
            max_retries=max_retries,
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self._handle)),
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.time += seconds

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        try:
            async with self.limits.admit(CONTOSO, SCOPE) as lease:
                response = lease.answer(json_response(ANSWER))
        except ApiError as error:
            response = json_response(error.body(), error.status, error.headers)
        assert isinstance(response.body, bytes)
        return httpx.Response(response.status, content=response.body, headers=response.headers)


async def test_the_openai_client_waits_as_long_as_it_is_told_and_then_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, runs_per_minute=40)
    async with served.client as client:
        for _ in range(40):
            await client.responses.create(input="hi")
        await client.responses.create(input="hi")
    assert served.waits == [1.5]
    assert served.requests == 42


async def test_the_openai_client_raises_a_rate_limit_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, max_retries=2, max_runs_per_tenant=1)
    async with served.client as client:
        with served.limits.run(CONTOSO), pytest.raises(RateLimitError) as caught:
            await client.responses.create(input="hi")
    assert served.waits == [1.0, 1.0]
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")


async def test_the_openai_client_waits_a_minute_for_a_run_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, runs_per_minute=1)
    async with served.client as client:
        await client.responses.create(input="hi")
        await client.responses.create(input="hi")
    assert served.waits == [60.0]


async def test_the_openai_client_comes_back_to_a_full_process(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, max_runs=1)
    async with served.client as client:
        with served.limits.run(FABRIKAM), pytest.raises(APIStatusError) as caught:
            await client.responses.create(input="hi")
    assert caught.value.status_code == 503
    assert served.waits == [1.0, 1.0]


async def test_the_headers_of_an_answer_are_there_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, runs_per_minute=60)
    async with served.client as client:
        answer = await client.responses.with_raw_response.create(input="hi")
    assert {name: value for name, value in answer.headers.items() if name.startswith("x-ratelimit")} == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
    }
