"""A background response that can't be read when it is to be run: it ends all the same."""

from typing import Any

from hosting.storage import MemoryBlobs, MemoryTables, StorageUnavailable, Store
from tests.server_world import serve
from tests.unit.test_idempotency_after_delete import Counting


class Blobs(MemoryBlobs):
    away = False

    async def get(self, *args: Any, **options: Any) -> Any:
        if self.away:
            raise StorageUnavailable("away")
        return await super().get(*args, **options)


async def test_a_response_whose_input_is_away_for_good_ends_failed_and_lets_its_conversation_go() -> None:
    blobs = Blobs()
    async with serve(Counting(), store=Store(MemoryTables(), blobs)) as world:
        conversation = await world.conversation()
        blobs.away = True
        made = await world.create("x" * 2_000_000, background=True, conversation=conversation)
        for _ in range(30):
            await world.advance(10)
        assert (await world.get(made["id"]))["status"] == "failed"
        await world.create(conversation=conversation)
