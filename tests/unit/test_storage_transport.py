"""Large bodies to storage: they can be sent again over another connection, as aiohttp does when one has gone stale."""

import asyncio

from azure.core.pipeline.transport import HttpRequest

from hosting.storage._transport import new_session, transport_over


async def test_a_large_put_over_a_stale_connection_is_sent_again() -> None:
    lengths: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            (length,) = (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            if len(lengths) == 1:
                lengths.append(-1)
                writer.transport.abort()
                return
            lengths.append(len(await reader.readexactly(length)))
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
    async with new_session() as session:
        for size in (1, 300_000):
            request = HttpRequest("PUT", url)
            request.set_bytes_body(b"x" * size)
            assert (await transport_over(session).send(request)).status_code == 201
    server.close()
    assert lengths == [1, -1, 300_000]
