"""A server that is written to without pause: run by test_durability in a process of its own.

Prints ``ready``, then one line ``ok <name> <resourceVersion>`` per acknowledged write, or
``refused <code>`` and ends. With an argument N its files may not grow beyond N bytes.
"""

import asyncio
import resource
import signal
import sys
from pathlib import Path

import orjson

from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import SystemClock
from kubewright.wire.http import Request

PATH = "/api/v1/namespaces/default/configmaps"


def say(*words: object) -> None:
    """A whole line at once: what was said before a kill -9 was said."""
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


async def write(server: ApiServer, writer: int) -> None:
    for n in range(100_000):
        name = f"w{writer}-{n}"
        body = {"metadata": {"name": name}, "data": {"v": "x" * 1_000}}
        answer = await server.handle(Request("POST", PATH, body=orjson.dumps(body)))
        if answer.status != 201:
            say("refused", answer.status)
            return
        say("ok", name, orjson.loads(answer.body)["metadata"]["resourceVersion"])


async def main(folder: str, most: str = "") -> None:
    if most:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    server = ApiServer(SystemClock(), path=Path(folder))
    await server.start()
    say("ready")
    await asyncio.gather(*(write(server, writer) for writer in range(8)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
