"""A program that balances the TCP connections to one address over several instances of a server.

    python -m kubewright.processes.balancer --listen=ADDRESS:PORT INSTANCE...

Theory.      It is a process of its own, so it serves while no supervisor runs, and it has no state: the
             addresses of all instances that there may ever be are its arguments, and it asks each of them
             whether it is ready. So an instance joins by becoming ready and leaves by ceasing to be, without
             a message to the balancer. Where nothing can say before which addresses there will be, a file
             says which there are (``--instances``). TLS is passed through: it holds no key and reads no
             request.
             Whether an instance is ready is asked as a kubelet's readiness probe does: no certificate is
             checked, a status from 200 to 399 is good. It is one HTTPS request after the other on a
             connection that stays open, so that none costs the server a TLS handshake, and so that the end
             of the server is noticed at once.
             A connection is opened to an instance when the client has sent its first message, and may go to
             another instance until the first answer: what was sent until then is a TLS ClientHello, which
             changes nothing. First those in rotation are tried, the one with the fewest connections in front:
             they are ready, and no attempt has failed in the last second. All others follow, because an
             instance that is not ready is better than none: while etcd does not answer, every API server
             answers that it is not ready, and still serves some requests. After the first answer two
             protocols copy, each at the pace of the other one: a reader is paused while the other side has
             more to send than fits into its buffer.
             It ends at SIGTERM: it accepts no further connection, and waits, with a deadline, for the open
             ones. As long as another process has its address it tries again, with a deadline: the one that
             has it may be an instance that is just being replaced.
Invariants.  Only the standard library, ``base`` and ``pki.tls`` are imported: an interpreter without packages
             is small and starts fast. All is imported before the rights of root are given up, because the
             other user may not reach the files.
             At most ``most`` connections; further clients wait in the queue of the listening socket. Every
             wait but that between two messages of an open connection has a deadline, also that for the second
             direction of a connection to end. A client that sends nothing, such as a probe, reaches no
             instance.
             An instance is ready only while its probe's connection is open and its last answer was good. One
             that a file no longer names gets no new connection; what is open stays open. A file that cannot
             be read changes nothing. Why: decision 0032.
Called by    the hosts of processes of ``controlplanes`` and ``providers.qemu``, as a program of a supervisor.
"""

import argparse
import asyncio
import codecs
import errno
import logging
import os
import re
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import cast

from kubewright.base.clock import Clock, SystemClock
from kubewright.pki.tls import unchecked

log = logging.getLogger("balancer")

# ---------------------------------------------------------------- which instance gets a connection

NEVER = float("-inf")
AVOIDED_SECONDS = 1.0
"""For how long an instance that failed is out of rotation; it is asked meanwhile."""


@dataclass(slots=True)
class Instance:
    """One instance, as the balancer sees it.

    ``ready``        what it has answered last; true where instances are not asked
    ``connections``  how many are open to it
    ``failed``       when an attempt to use it failed last, in seconds of a monotonic clock
    """

    host: str
    ready: bool = False
    connections: int = 0
    failed: float = NEVER


def in_rotation(instance: Instance, now: float) -> bool:
    """Whether new connections go to this instance."""
    return instance.ready and now >= instance.failed + AVOIDED_SECONDS


def order(instances: Sequence[Instance], now: float) -> list[Instance]:
    """All instances, the ones to try first in front."""
    return sorted(instances, key=lambda each: (not in_rotation(each, now), each.connections))


# ---------------------------------------------------------------- connections: opened, and copied

FIRST_MESSAGE_SECONDS = 10.0
"""For the first message of a client."""
CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 5.0
"""For the first answer of an instance. Go clients wait ten seconds for a TLS handshake: two instances."""
HALF_OPEN_SECONDS = 60.0
"""The time that kube-apiserver gives a request by default."""
PAUSE_SECONDS = 0.1
"""After the system could not accept a connection: it may have no file descriptor left."""
CHUNK = 64 * 1024
TLS_HANDSHAKE, TLS_HEADER, LONGEST_FIRST_MESSAGE = 22, 5, 16 * 1024 + 5


class Relay:
    """The connections of one listening socket. ``most``: how many at one time."""

    def __init__(self, instances: Sequence[Instance], port: int, clock: Clock, *, most: int) -> None:
        self._instances = instances
        self._port = port
        self._clock = clock
        self._slots = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, listener: socket.socket) -> None:
        """Serve the clients of this socket, until cancelled; open connections go on after that."""
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError:
                self._slots.release()
                await self._clock.sleep(PAUSE_SECONDS)
                continue
            except asyncio.CancelledError:
                self._slots.release()
                raise
            task = loop.create_task(self._serve(client))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    async def ended(self, seconds: float) -> None:
        """Wait until all connections have ended; cut off those that are left after so many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()

    async def _serve(self, client: socket.socket) -> None:
        """Serve one client, from its first message until both directions have ended."""
        with client, suppress(OSError, TimeoutError):
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(FIRST_MESSAGE_SECONDS):
                message = await _first_message(client)
            if not message or (opened := await self._opened(message)) is None:
                return
            instance, server, answer = opened
            instance.connections += 1
            try:
                with server:
                    await _joined(client, server, answer)
            finally:
                instance.connections -= 1

    async def _opened(self, message: bytes) -> tuple[Instance, socket.socket, bytes] | None:
        """The instance that answered, a connection with it, and its first answer; None: none answered."""
        for instance in order(self._instances, self._clock.monotonic()):
            server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            answer = b""
            try:
                answer = await self._tried(server, instance, message)
            except (OSError, TimeoutError) as error:
                if instance.ready:
                    log.info("%s failed: %s", instance.host, repr(error))
                instance.failed = self._clock.monotonic()
            finally:
                if not answer:
                    server.close()
            if answer:
                return instance, server, answer
        return None

    async def _tried(self, server: socket.socket, instance: Instance, message: bytes) -> bytes:
        """Connect to one instance, and send it the message. Returns its first answer; empty: it ended."""
        loop = asyncio.get_running_loop()
        server.setblocking(False)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(CONNECT_SECONDS):
            await loop.sock_connect(server, (instance.host, self._port))
        async with asyncio.timeout(ANSWER_SECONDS):
            await loop.sock_sendall(server, message)
            return await loop.sock_recv(server, CHUNK)


async def _first_message(client: socket.socket) -> bytes:
    """The first message of a client: of TLS the whole first record, else what came first; empty: none."""
    loop, found = asyncio.get_running_loop(), b""
    while len(found) < _wanted(found):
        more = await loop.sock_recv(client, LONGEST_FIRST_MESSAGE - len(found))
        if not more:
            return b""
        found += more
    return found


def _wanted(found: bytes) -> int:
    """How many bytes the first message has, as far as that is known."""
    if not found or found[0] != TLS_HANDSHAKE:
        return 1
    if len(found) < TLS_HEADER:
        return TLS_HEADER
    return min(TLS_HEADER + int.from_bytes(found[3:TLS_HEADER]), LONGEST_FIRST_MESSAGE)


async def _joined(client: socket.socket, server: socket.socket, answer: bytes) -> None:
    """Copy in both directions until both have ended. ``answer``: the first bytes for the client."""
    pair = _Pair()
    try:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: pair.of_client, client)
        await loop.create_connection(lambda: pair.of_server, sock=server)
        pair.begin(answer)
        await pair.ended.wait()
    finally:
        pair.cut()


class _Pair:
    """The two sides of one connection. ``ended`` is set when both are closed."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.of_client, self.of_server = _Side(self), _Side(self)
        self.of_client.other, self.of_server.other = self.of_server, self.of_client
        self._deadline: asyncio.TimerHandle | None = None

    def begin(self, answer: bytes) -> None:
        self.of_client.send(answer)
        for side in (self.of_client, self.of_server):
            side.resume()

    def half_open(self) -> None:
        """Give the other direction a deadline, after one has ended."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(HALF_OPEN_SECONDS, self.cut)

    def closed(self) -> None:
        self.half_open()
        if self.of_client.closed and self.of_server.closed:
            self.ended.set()

    def cut(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for side in (self.of_client, self.of_server):
            if side.transport is not None:
                side.transport.abort()


class _Side(asyncio.Protocol):
    """One side: what is read here is written to the other one."""

    def __init__(self, pair: _Pair) -> None:
        self.other: _Side
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self._eof = False
        self._pair = pair

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.other.send(data)

    def eof_received(self) -> bool:
        """True keeps the other direction open; False closes this side after what is left to send."""
        self._eof = True
        self._pair.half_open()
        other = self.other.transport
        if other is None or other.is_closing():
            return False
        if self.other._eof:
            other.close()
            return False
        other.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        other = self.other.transport
        if other is not None:
            other.close() if exc is None else other.abort()
        self._pair.closed()

    def pause_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.other.resume()

    def resume(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()

    def send(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)


# ---------------------------------------------------------------- which instances there are, and are ready

PROBE_PERIOD = 0.5
ABSENT_SECONDS = 1.0
"""From a failed attempt to the next one. Most of the addresses have no instance, so most attempts fail."""
PROBE_SECONDS = 2.0
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
    async with asyncio.timeout(PROBE_SECONDS):
        reader, writer = await asyncio.open_connection(instance.host, port, ssl=tls, limit=LONGEST_ANSWER)
    try:
        ends = b" "
        while ends:
            async with asyncio.timeout(PROBE_SECONDS):
                writer.write(request)
                await writer.drain()
                _set_ready(instance, await _answer(reader))
            ends = b" "
            with suppress(TimeoutError):
                async with asyncio.timeout(PROBE_PERIOD):
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


# ---------------------------------------------------------------- the program

MOST_CONNECTIONS = 2000
DESCRIPTORS_BESIDE = 64
"""File descriptors for other things than connections, of which each has two."""
LISTEN_SECONDS, LISTEN_PAUSE = 30.0, 0.05
END_SECONDS = 10.0
BACKLOG = 128


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments, and serve."""
    parser = argparse.ArgumentParser("kubewright-balancer", allow_abbrev=False)
    parser.add_argument("--listen", required=True, help="address and port, the latter also of the instances")
    parser.add_argument("--ready", default="", help="path that answers over HTTPS; empty: all count as ready")
    parser.add_argument("--user", default="", help="uid and gid to become, as UID:GID")
    parser.add_argument("--instances", default="", metavar="FILE", help="one address a line, read again")
    parser.add_argument("fixed", nargs="*", metavar="ADDRESS")
    chosen = parser.parse_args(arguments)
    if bool(chosen.instances) == bool(chosen.fixed):
        parser.error("name the instances, or a file of them")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    host, _, port = chosen.listen.rpartition(":")
    instances = [Instance(each, ready=not chosen.ready) for each in chosen.fixed]
    try:
        asyncio.run(_run((host, int(port)), instances, chosen))
    except OSError as error:
        sys.exit(f"Error: listen {chosen.listen}: {os.strerror(error.errno or 0)}")


async def _run(address: tuple[str, int], instances: list[Instance], chosen: argparse.Namespace) -> None:
    clock, ending, path = SystemClock(), asyncio.Event(), chosen.ready
    loop = asyncio.get_running_loop()
    relay = Relay(instances, address[1], clock, most=_connections())
    with await listening(address, clock, LISTEN_SECONDS) as listener:
        loop.add_signal_handler(signal.SIGTERM, ending.set)
        _drop_privileges(chosen.user)
        tasks = [loop.create_task(ending.wait()), loop.create_task(relay.accept(listener))]
        tasks += [loop.create_task(watch(each, address[1], path, clock)) for each in instances if path]
        if chosen.instances:
            tasks.append(loop.create_task(follow(chosen.instances, instances, address[1], path, clock)))
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        task.result()  # all of them but the first run until they are cancelled, or raise a bug of ours
    await relay.ended(END_SECONDS)


async def listening(address: tuple[str, int], clock: Clock, seconds: float) -> socket.socket:
    """A socket that listens there; for so many seconds it waits for an address that another one has.

    Raises:
        OSError: it cannot listen there.
    """
    until = clock.monotonic() + seconds
    while True:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            found.setblocking(False)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(BACKLOG)
        except OSError as error:
            found.close()
            if error.errno != errno.EADDRINUSE or clock.monotonic() >= until:
                raise
            await clock.sleep(LISTEN_PAUSE)
        else:
            return found


def _connections() -> int:
    """How many connections there may be: as many as the system lets us have descriptors for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS + DESCRIPTORS_BESIDE
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, (allowed - DESCRIPTORS_BESIDE) // 2)


def _drop_privileges(user: str) -> None:
    """Become another user. ``user``: ``UID:GID``; empty: stay as we are."""
    codecs.lookup("idna")  # is loaded for the first TLS connection, and may be out of reach by then
    if user:
        uid, gid = map(int, user.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


if __name__ == "__main__":
    main(sys.argv[1:])
