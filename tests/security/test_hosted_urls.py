"""URLs in items that say what a service has done: a client can send them too, and they become contents as any image does."""

from typing import Any

import pytest

from tests.security.world import secured

type Json = dict[str, Any]

_INSIDE = ["http://169.254.169.254/metadata", "http://localhost/a.png", "file:///etc/passwd", "gopher://10.0.0.1/"]


def interpreted(url: str) -> Json:
    return {"type": "code_interpreter_call", "code": "plot()", "outputs": [{"type": "image", "url": url}]}


def generated(url: str) -> Json:
    return {"type": "image_generation_call", "id": "ig_1", "result": url}


@pytest.mark.parametrize("url", _INSIDE)
@pytest.mark.parametrize("made", [interpreted, generated])
async def test_a_url_that_leads_inside_is_refused_in_the_work_of_a_service_too(made: Any, url: str) -> None:
    async with secured() as world:
        for route, member in (("v1/responses", "input"), ("v1/conversations", "items")):
            body = {member: [made(url), {"role": "user", "content": "hi"}]}
            answer = await world.attacker.send("POST", route, body)
            assert answer.status == 400, answer.body
            assert answer.error["param"].startswith(f"{member}[0].")


@pytest.mark.parametrize("item", [interpreted("https://example.com/a.png"), generated("https://example.com/a.png")])
async def test_one_that_does_not_is_taken(item: Json) -> None:
    async with secured() as world:
        await world.attacker.create([item, {"role": "user", "content": "hi"}])


@pytest.mark.parametrize("item", [interpreted("data:image/png;base64,AAAA"), generated("AAAA"), generated("")])
async def test_so_is_an_image_that_comes_along(item: Json) -> None:
    async with secured() as world:
        await world.attacker.create([item, {"role": "user", "content": "hi"}])
