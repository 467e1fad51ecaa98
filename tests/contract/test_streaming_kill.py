"""A writer that is killed with SIGKILL in mid-stream, in a process of its own, and one that goes on after it."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.contract.streaming_kits import collect, open_kit

_WRITER = """
import asyncio, json, os, sys
from datetime import timedelta
from pathlib import Path
from hosting.storage import connect_append_blobs
from hosting.streaming import StreamRegistry, StreamTuning

async def main():
    streams, kind, where = StreamRegistry(), *sys.argv[1:3]
    number = lambda event: event["n"]
    if kind == "file":
        streams.use_file_backed_replay(storage_dir=Path(where), cursor_fn=number)
    else:
        env = {"AzureWebJobsStorage": os.environ["CONNECTION"]}
        tuning = StreamTuning(flush_interval=timedelta(milliseconds=10), segment_bytes=2000)
        streams.use_blob_replay(
            lambda: connect_append_blobs(env, container="streams"), prefix=where, cursor_fn=number, tuning=tuning
        )
    stream = await streams.take_over("s")
    last = await stream.last_cursor()
    n = 0 if last is None else last + 1
    while True:
        for _ in range(7):
            await stream.emit({"n": n, "by": os.getpid()})
            n += 1
        await stream.flush()
        print(n - 1, flush=True)  # confirmed

asyncio.run(main())
"""


@pytest.mark.parametrize(("kind", "kills"), [("file", 3), ("azurite", 1)])
async def test_what_a_killed_writer_had_confirmed_is_there_once(
    kind: str, kills: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    prefix = f"killed-{os.getpid()}/"
    async with open_kit(kind, request, tmp_path) as kit:
        where = str(tmp_path / "streams") if kind == "file" else prefix
        environment = dict(os.environ)
        if kind == "azurite":
            environment["CONNECTION"] = request.getfixturevalue("azurite").connection_string
        confirmed: list[int] = []
        for _ in range(kills):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _WRITER, kind, where, stdout=asyncio.subprocess.PIPE, env=environment
            )
            try:
                assert process.stdout is not None
                async with asyncio.timeout(30):
                    for _ in range(10):
                        confirmed.append(json.loads(await process.stdout.readline()))
            finally:
                process.kill()
                await process.wait()
        streams = kit.registry(prefix=prefix) if kind == "azurite" else kit.registry()
        stream = await streams.take_over("s")
        last = await stream.last_cursor()
        assert last >= confirmed[-1]
        await stream.emit({"n": last + 1, "by": 0}, close=True)
        got = await collect(stream)
        assert [event["n"] for event in got] == list(range(last + 2))
        writers = [event["by"] for event in got]
        assert len(set(writers)) == kills + 1
        assert writers == sorted(writers, key=writers.index)  # each wrote one piece
