"""Turns in the background and in the foreground, several at once, and cancelling: stories that a client can go on with,
whatever its server does."""

from tests.crash.cut_audit import heard
from tests.crash.cut_client import Client
from tests.crash.cut_flow import BIG, STEERED, Flow, a_conversation, said
from tests.server_world import texts, until

__all__ = ["FLOWS", "a_long_streamed_one"]


# --- background


async def background(client: Client) -> None:
    made = await client.create("one", key="k", background=True)
    assert texts(await client.ended(made["id"])) == ["re: one", "more"]
    again = await client.create("one", key="k", background=True)
    assert again["id"] == made["id"]
    assert await heard(client, made["id"]) == ["one", "re: one", "more"]


async def background_without_key(client: Client) -> None:
    made = await client.create("one", background=True)
    await client.ended(made["id"])


async def background_stream(client: Client) -> None:
    final = await client.listen("one", key="k", background=True)
    assert texts(final) == ["re: one", "more"]
    assert (await client.get(final["id"])) == final


async def background_stream_without_key(client: Client) -> None:
    await client.listen("one", background=True)


async def background_chain(client: Client) -> None:
    first = await client.create("one", key="k1", background=True)
    await client.ended(first["id"])
    second = await client.listen("noted two", key="k2", background=True, previous_response_id=first["id"])
    assert await heard(client, second["id"]) == ["one", "re: one", "more", "noted two", "re: noted two", "more"]


async def background_not_resilient(client: Client) -> None:
    final = await client.listen("one", key="k1", background=True)
    assert final["status"] in ("completed", "failed")
    second = await client.create("two", key="k2", background=True, previous_response_id=final["id"])
    await client.ended(second["id"])
    known = ["one", "re: one", "more"] if final["status"] == "completed" else []
    assert (await heard(client, second["id"]))[: len(known)] == known


async def background_conversation(client: Client) -> None:
    conversation = client.ids["conversation"]
    first = await client.create("one", key="k1", background=True, conversation=conversation)
    await client.ended(first["id"])
    second = await client.listen("two", key="k2", background=True, conversation=conversation)
    assert second["status"] == "completed"
    assert await said(client) == ["by hand", "one", "re: one", "more", "two", "re: two", "more"]


async def large(client: Client) -> None:
    final = await client.listen(BIG, key="k1", background=True)
    second = await client.create("two", key="k2", previous_response_id=final["id"])
    assert await heard(client, second["id"]) == [BIG, f"re: {BIG}", "more", "two", "re: two", "more"]


# --- several at once


async def steering(client: Client) -> None:
    first = await client.create("long one", key="k1", background=True)
    second = await client.create("two", key="k2", background=True, previous_response_id=first["id"])
    final = await client.ended(second["id"])
    assert (await client.ended(first["id"]))["status"] == "completed"
    assert texts(final) == ["re: two", "more"]
    assert await heard(client, second["id"]) == ["long one", "re: long one", "more", "two", "re: two", "more"]


async def steering_in_conversation(client: Client) -> None:
    conversation = client.ids["conversation"]
    first = await client.create("long one", key="k1", background=True, conversation=conversation)
    final = await client.listen("two", key="k2", background=True, conversation=conversation)
    assert (await client.ended(first["id"]))["status"] == "completed"
    assert final["status"] == "completed"
    assert await said(client) == ["by hand", "long one", "re: long one", "more", "two", "re: two", "more"]


async def foreground_behind(client: Client) -> None:
    first = await client.create("long one", key="k1", background=True)
    second = await client.create("two", key="k2", previous_response_id=first["id"])
    assert second["status"] == "completed"
    assert (await client.ended(first["id"]))["status"] == "completed"
    assert await heard(client, second["id"]) == ["long one", "re: long one", "more", "two", "re: two", "more"]


# --- cancelling


async def a_long_one(client: Client) -> None:
    """A response that runs."""
    made = await client.create("long one", background=True)
    client.ids["long"] = made["id"]

    async def begun() -> bool:
        return len((await client.world.get(made["id"]))["output"]) > 0

    await until(begun)


async def a_long_streamed_one(client: Client) -> None:
    """The same, and somebody has seen what it says."""
    reader = await client.world.stream("long one", background=True)
    await reader.until("output_item.done", 2)
    client.ids["long"] = reader.events[0]["response"]["id"]
    client.events[client.ids["long"]] |= {event["sequence_number"]: event for event in reader.events}
    await reader.hang_up()


async def cancel(client: Client) -> None:
    found = await client.cancel(client.ids["long"])
    assert found["status"] == "cancelled"
    assert (await client.ended(client.ids["long"]))["status"] == "cancelled"
    await client.cancel(client.ids["long"])


async def a_dead_one(client: Client) -> None:
    await a_long_streamed_one(client)
    await client.process.again()


async def a_queued_one(client: Client) -> None:
    await a_long_streamed_one(client)
    made = await client.create("two", background=True, previous_response_id=client.ids["long"])
    client.ids["queued"] = made["id"]


async def cancel_queued(client: Client) -> None:
    first = await client.create("long one", key="k1", background=True)
    second = await client.create("long two", key="k2", background=True, previous_response_id=first["id"])
    third = await client.create("three", key="k3", background=True, previous_response_id=second["id"])
    await client.cancel(second["id"])
    assert (await client.ended(first["id"]))["status"] == "completed"
    final = await client.ended(third["id"])
    assert final["status"] == "completed"
    assert (await client.get(second["id"]))["status"] in ("cancelled", "completed")


async def cancel_in_conversation(client: Client) -> None:
    conversation = client.ids["conversation"]
    made = await client.create("long one", key="k1", background=True, conversation=conversation)
    await client.cancel(made["id"])
    second = await client.create("two", key="k2", conversation=conversation)
    assert second["status"] == "completed"
    assert await said(client) == ["by hand", "two", "re: two", "more"]


# --- foreground


async def foreground(client: Client) -> None:
    first = await client.create("one", key="k1")
    second = await client.listen("two", key="k2", previous_response_id=first["id"])
    assert second["status"] == "completed"
    assert await heard(client, second["id"]) == ["one", "re: one", "more", "two", "re: two", "more"]


async def foreground_without_key(client: Client) -> None:
    await client.create("one")


async def foreground_conversation(client: Client) -> None:
    conversation = client.ids["conversation"]
    await client.create("one", key="k1", conversation=conversation)
    await client.listen("noted two", key="k2", conversation=conversation)
    assert await said(client) == ["by hand", "one", "re: one", "more", "noted two", "re: noted two", "more"]


async def foreground_hang_up(client: Client) -> None:
    """A client goes away in mid-run: the turn has no place in the conversation, which goes on."""
    conversation = client.ids["conversation"]
    await client.leave("long one", conversation=conversation)
    await client.create("two", key="k2", conversation=conversation)
    assert await said(client) == ["by hand", "two", "re: two", "more"]


FLOWS: dict[str, Flow] = {
    "background": Flow(background),
    "background-without-key": Flow(background_without_key),
    "background-stream": Flow(background_stream),
    "background-stream-without-key": Flow(background_stream_without_key),
    "background-chain": Flow(background_chain),
    "background-not-resilient": Flow(background_not_resilient, options={}),
    "background-conversation": Flow(background_conversation, a_conversation),
    "large": Flow(large),
    "steering": Flow(steering, options=STEERED),
    "steering-conversation": Flow(steering_in_conversation, a_conversation, options=STEERED),
    "foreground-behind": Flow(foreground_behind, options=STEERED),
    "cancel": Flow(cancel, a_long_one),
    "cancel-stream": Flow(cancel, a_long_streamed_one),
    "cancel-dead": Flow(cancel, a_dead_one),
    "cancel-queued": Flow(cancel_queued, options=STEERED),
    "cancel-conversation": Flow(cancel_in_conversation, a_conversation),
    "foreground": Flow(foreground),
    "foreground-without-key": Flow(foreground_without_key),
    "foreground-conversation": Flow(foreground_conversation, a_conversation),
    "foreground-hang-up": Flow(foreground_hang_up, a_conversation),
}
