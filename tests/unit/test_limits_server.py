"""The limits at the routes of the server: nothing is kept by a request that has ended, however it ended."""

import asyncio
from collections.abc import AsyncIterator

from hosting.server import Response, ResponsesServer
from tests.unit.test_server import post, serve

ROUTE = "v1/responses"


def body(response: Response) -> AsyncIterator[bytes]:
    assert not isinstance(response.body, bytes)
    return response.body


async def nothing_runs(server: ResponsesServer) -> None:
    async with asyncio.timeout(30):
        while server.limits.seats["runs"]:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)


async def test_answers_say_what_is_left_of_the_minute_and_so_do_refusals_of_the_request() -> None:
    server = serve(HOSTING_RUNS_PER_MINUTE="100")
    answer = await server.handle(ROUTE, post({"input": "hi"}))
    assert (answer.status, answer.headers["x-ratelimit-remaining-requests"]) == (200, "99")
    answer = await server.handle(ROUTE, post({"input": "hi", "previous_response_id": "resp_x"}))
    assert (answer.status, answer.headers["x-ratelimit-remaining-requests"]) == (400, "98")


async def test_a_stream_has_its_place_until_its_run_has_ended() -> None:
    server = serve(HOSTING_MAX_RUNS_PER_TENANT="1")
    answer = await server.handle(ROUTE, post({"input": "hi", "stream": True}))
    assert (await server.handle(ROUTE, post({"input": "hi"}))).status == 429
    assert [chunk async for chunk in body(answer)]
    await nothing_runs(server)
    assert (await server.handle(ROUTE, post({"input": "hi"}))).status == 200


async def test_a_client_that_goes_gives_the_place_of_its_run_back() -> None:
    server = serve()
    answer = await server.handle(ROUTE, post({"input": "hi", "stream": True}))
    await anext(body(answer))
    await body(answer).aclose()  # type: ignore[attr-defined]
    await nothing_runs(server)


async def test_a_request_over_the_rate_is_refused_before_anything_is_read_or_claimed() -> None:
    server = serve(HOSTING_RUNS_PER_MINUTE="1")
    await server.handle(ROUTE, post({"input": "hi"}))
    answer = await server.handle(ROUTE, post({"input": "hi", "previous_response_id": "resp_unknown"}))
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) in range(1, 61)


async def test_too_many_items_are_a_400() -> None:
    server = serve(HOSTING_MAX_INPUT_ITEMS="1")
    answer = await server.handle(ROUTE, post({"input": [{"role": "user", "content": "hi"}] * 2}))
    assert answer.status == 400
