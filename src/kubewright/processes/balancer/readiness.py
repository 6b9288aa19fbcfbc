"""Asks each instance periodically whether it is ready, as a kubelet's readiness probe does.

Theory.      The probe is one HTTPS request on a connection that stays open, so that it costs the server no
             TLS handshake each time, and so that the end of the server is noticed at once: its connections
             end. Like a kubelet it checks no certificate and accepts a status from 200 to 399.
Invariants.  An instance is ready only while this connection is open and its last answer was good. Each
             attempt has a deadline. An answer that is too long or has no length ends the connection. Where
             a file says which instances there are, what it no longer names gets no new connection; what is
             open stays open. A file that cannot be read changes nothing.
Called by    ``__main__``: ``watch`` once for each instance, or ``follow`` for those of a file.
"""

import asyncio
import logging
import re
import ssl
from contextlib import suppress
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path

from kubewright.base.clock import Clock
from kubewright.pki.tls import unchecked
from kubewright.processes.balancer.relay import Instance

log = logging.getLogger("balancer")

PERIOD = 0.5
ABSENT_SECONDS = 1.0
"""From a failed attempt to the next one. Most of the addresses have no instance, so most attempts fail."""
ANSWER_SECONDS = 2.0
LONGEST_ANSWER = 64 * 1024
"""Bytes: the list of what is not ready is a few thousand."""
FILE_SECONDS = 0.5
"""How often a file of instances is read again."""
MOST_INSTANCES, LONGEST_FILE = 64, 4 * 1024
_STATUS = re.compile(rb"HTTP/1\.1 ([23])\d\d ")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class Unusable(Exception):
    """An answer that cannot be read."""


async def follow(file: str, instances: list[Instance], port: int, path: str, clock: Clock) -> None:
    """Keep ``instances`` as the file says, and each of them watched, until cancelled."""
    watches: dict[str, asyncio.Task[None]] = {}
    try:
        while True:
            with suppress(OSError):
                new = adjust(instances, addresses_in(_read(file)), ready=not path)
                for each in new if path else ():
                    watches[each.host] = asyncio.create_task(watch(each, port, path, clock))
            for gone in watches.keys() - {each.host for each in instances}:
                watches.pop(gone).cancel()
            await clock.sleep(FILE_SECONDS)
    finally:
        for task in watches.values():
            task.cancel()
        await asyncio.gather(*watches.values(), return_exceptions=True)


def addresses_in(text: str) -> list[str]:
    """The addresses of a file: one a line, each once; what is none is left out."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        with suppress(ValueError):
            found[str(IPv4Address(line.strip()))] = None
    return list(found)[:MOST_INSTANCES]


def _read(file: str) -> str:
    with Path(file).open("rb") as opened:
        return opened.read(LONGEST_FILE).decode(errors="replace")


def adjust(instances: list[Instance], wanted: list[str], *, ready: bool) -> list[Instance]:
    """Begin with the instances that are new, which are answered, and end with those that are gone."""
    known = {each.host for each in instances}
    new = [Instance(each, ready=ready) for each in wanted if each not in known]
    instances[:] = [*(each for each in instances if each.host in wanted), *new]
    return new


async def watch(instance: Instance, port: int, path: str, clock: Clock) -> None:
    """Keep ``instance.ready`` up to date, until cancelled. ``path``: of the probe, such as ``/readyz``."""
    request = f"GET {path} HTTP/1.1\r\nHost: {instance.host}\r\nUser-Agent: kubewright-balancer\r\n\r\n"
    while True:
        try:
            await _ask_while_open(instance, port, request.encode(), _unchecked())
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, Unusable):
            pass
        finally:
            _set_ready(instance, False)
        await clock.sleep(ABSENT_SECONDS)


async def _ask_while_open(instance: Instance, port: int, request: bytes, tls: ssl.SSLContext) -> None:
    """Send the request each ``PERIOD`` over one connection, until the instance ends that or fails."""
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection(instance.host, port, ssl=tls, limit=LONGEST_ANSWER)
    try:
        ends = b" "
        while ends:
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(request)
                await writer.drain()
                _set_ready(instance, await _answer(reader))
            ends = b" "
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD):
                    ends = await reader.read(1)
    finally:
        writer.transport.abort()


async def _answer(reader: asyncio.StreamReader) -> bool:
    """Read one answer to its end. Returns whether its status is from 200 to 399."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if length is None or int(length[1]) > LONGEST_ANSWER:
        raise Unusable
    await reader.readexactly(int(length[1]))
    return _STATUS.match(head) is not None


@cache
def _unchecked() -> ssl.SSLContext:
    """TLS without verification, one for all."""
    return unchecked()


def _set_ready(instance: Instance, ready: bool) -> None:
    if ready is not instance.ready:
        instance.ready = ready
        log.info("%s %s", instance.host, "is ready" if ready else "is not ready")
