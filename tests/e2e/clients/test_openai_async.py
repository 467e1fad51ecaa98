"""The official `openai` client, asynchronous."""

import asyncio

import pytest

from tests.e2e.clients.conftest import Connect


async def test_twenty_requests_at_once(connect: Connect) -> None:
    async with connect() as client:
        made = await asyncio.gather(*(client.responses.create(model="agent", input=f"number {n}") for n in range(20)))
    assert [response.output_text for response in made] == [f"Echo: number {n}" for n in range(20)]
    assert len({response.id for response in made}) == 20


async def test_twenty_streams_at_once(connect: Connect) -> None:
    async def read(number: int) -> str:
        async with client.responses.stream(model="agent", input=f"[[slow 5 20]] {number}") as stream:
            return (await stream.get_final_response()).output_text

    async with connect() as client:
        texts = await asyncio.gather(*(read(number) for number in range(20)))
    assert texts == [" ".join(f"tick{n}" for n in range(5))] * 20


async def test_a_background_stream_has_several_followers(connect: Connect) -> None:
    async def follow(identifier: str) -> str:
        text = ""
        async for event in await client.responses.retrieve(identifier, stream=True):
            if event.type == "response.output_text.delta":
                text += event.delta
        return text

    async with connect() as client:
        stream = await client.responses.create(model="agent", input="[[slow 8 40]]", background=True, stream=True)
        created = await anext(aiter(stream))
        assert created.type == "response.created"
        texts = await asyncio.gather(*(follow(created.response.id) for _ in range(4)))
        await stream.close()
    assert texts == [" ".join(f"tick{n}" for n in range(8))] * 4


async def test_a_background_response_is_polled(connect: Connect) -> None:
    async with connect() as client:
        made = await client.responses.create(model="agent", input="[[slow 3 30]]", background=True)
        async with asyncio.timeout(30):
            while made.status in ("queued", "in_progress"):
                await asyncio.sleep(0.05)
                made = await client.responses.retrieve(made.id)
    assert made.output_text == "tick0 tick1 tick2"


async def test_items_page_by_themselves(connect: Connect) -> None:
    async with connect() as client:
        made = await client.responses.create(
            model="agent", input=[{"role": "user", "content": f"line {n}"} for n in range(30)]
        )
        listed = [item async for item in client.responses.input_items.list(made.id, limit=8, order="asc")]
        assert [item.content[0].text for item in listed] == [f"line {n}" for n in range(30)]  # type: ignore[union-attr]


@pytest.mark.parametrize("background", [False, True])
async def test_parallel_turns_of_one_conversation_never_interleave(connect: Connect, background: bool) -> None:
    """careme#379. A turn has the conversation or is told that another one has it; in the background it waits."""
    async with connect(max_retries=0) as client:
        conversation = await client.conversations.create()

        async def turn(number: int) -> str | None:
            import openai

            try:
                made = await client.responses.create(
                    model="agent", input=f"turn {number}", conversation=conversation.id, background=background
                )
            except (openai.ConflictError, openai.BadRequestError) as refused:
                assert refused.code == "conversation_locked"
                return None
            async with asyncio.timeout(30):
                while made.status in ("queued", "in_progress"):
                    await asyncio.sleep(0.05)
                    made = await client.responses.retrieve(made.id)
            return made.output_text

        answers = [text for text in await asyncio.gather(*(turn(number) for number in range(4))) if text is not None]
        items = [item async for item in client.conversations.items.list(conversation.id, order="asc")]
    assert answers
    texts = [item.content[0].text for item in items]  # type: ignore[union-attr]
    assert sorted(texts[1::2]) == sorted(answers)
    assert texts[1::2] == [f"Echo: {text}" for text in texts[::2]]
