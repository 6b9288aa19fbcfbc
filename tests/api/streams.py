"""A client's end of a connection, and how long the server keeps it."""

import asyncio

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def seconds_until_the_end(streams: Streams) -> float:
    """Read until the server ends the connection."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        while await streams[0].read(1000):
            pass
    except ConnectionError:
        pass
    streams[1].close()
    return loop.time() - began
