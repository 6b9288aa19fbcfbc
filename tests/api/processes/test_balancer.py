"""The balancer on loopback: where connections go, what is copied, when they end."""

import asyncio
import os
import signal
import socket
import ssl
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

import kubewright
from kubewright.base.clock import SystemClock
from kubewright.pki.certificates import new_authority, new_server
from kubewright.processes import balancer
from kubewright.processes.balancer import Instance, Relay

pytestmark = [pytest.mark.looptime(False), pytest.mark.timeout(30)]

CLOCK = SystemClock()
NUMBERS = count(1)


def address():
    """A loopback address that no other test uses."""
    number = next(NUMBERS)
    return f"127.60.{os.getpid() % 250}.{number}"


class Server:
    """Answers the first message with its name, and echoes what follows until the client has ended."""

    def __init__(self, name):
        self.name, self.host = name, address()
        self.greetings = []

    async def talk(self, reader, writer):
        self.greetings.append(await reader.read(100))
        writer.write(self.name.encode())
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def hang_up(self, reader, _writer):
        self.greetings.append(await reader.read(100))


@asynccontextmanager
async def serving(talk, host, port=0, **options):
    """A server, and its connections cut off in the end. The port where it listens."""
    tasks = {}

    async def one(reader, writer):
        tasks[asyncio.current_task()] = writer
        with suppress(OSError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(one, host, port, **options) as server:
        yield server.sockets[0].getsockname()[1]
        for writer in tasks.values():
            writer.transport.abort()
        if tasks:
            await asyncio.wait(tasks)


@asynccontextmanager
async def port_of(*talkers):
    """A port at which each of these servers listens on its own address."""
    async with AsyncExitStack() as stack:
        port = 0
        for server, talk in talkers:
            port = await stack.enter_async_context(serving(talk, server.host, port))
        yield port


@asynccontextmanager
async def balancing(port, *instances, most=10):
    """The address at which a balancer listens."""
    listener = socket.create_server((address(), 0))
    listener.setblocking(False)
    relay = Relay(instances, port, CLOCK, most=most)
    task = asyncio.create_task(relay.accept(listener))
    try:
        yield listener.getsockname()
    finally:
        task.cancel()
        await asyncio.wait([task])
        listener.close()
        await relay.ended(0)


@asynccontextmanager
async def connected(endpoint):
    reader, writer = await asyncio.open_connection(*endpoint)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def greeted(endpoint):
    """A connection, and what the instance called itself."""
    async with connected(endpoint) as (reader, writer):
        writer.write(b"hello")
        yield await reader.read(100), reader, writer


async def eventually(true):
    async with asyncio.timeout(10):
        while not true():
            await CLOCK.sleep(0.005)


async def test_all_bytes_arrive_in_both_directions_though_one_of_them_ends_first():
    server, sent = Server("a"), os.urandom(3 << 20)
    async with (
        port_of((server, server.talk)) as port,
        balancing(port, Instance(server.host, True)) as endpoint,
        greeted(endpoint) as (name, reader, writer),
    ):
        echo = asyncio.create_task(reader.read(-1))
        writer.write(sent)
        writer.write_eof()
        assert (name, await echo == sent) == (b"a", True)


async def test_each_connection_goes_to_the_instance_with_the_fewest():
    a, b = Server("a"), Server("b")
    instances = [Instance(each.host, True) for each in (a, b)]
    async with port_of((a, a.talk), (b, b.talk)) as port, balancing(port, *instances) as endpoint:
        async with AsyncExitStack() as stack:
            found = [(await stack.enter_async_context(greeted(endpoint)))[0] for _ in range(4)]
            assert sorted(found) == [b"a", b"a", b"b", b"b"]
        await eventually(lambda: [each.connections for each in instances] == [0, 0])


async def test_the_next_instance_answers_where_one_refuses_and_one_hangs_up():
    gone, broken, good = Server("gone"), Server("broken"), Server("good")
    instances = [Instance(each.host, True) for each in (gone, broken, good)]
    async with (
        port_of((broken, broken.hang_up), (good, good.talk)) as port,
        balancing(port, *instances) as endpoint,
        greeted(endpoint) as (name, _, _),
    ):
        assert (name, broken.greetings, good.greetings) == (b"good", [b"hello"], [b"hello"])


async def test_an_instance_that_does_not_answer_costs_its_deadline_once(monkeypatch):
    monkeypatch.setattr(balancer, "ANSWER_SECONDS", 0.05)
    silent, good = Server("silent"), Server("good")

    async def say_nothing(reader, _writer):
        silent.greetings.append(await reader.read(100))
        await reader.read(100)

    instances = [Instance(each.host, True) for each in (silent, good)]
    async with (
        port_of((silent, say_nothing), (good, good.talk)) as port,
        balancing(port, *instances) as endpoint,
    ):
        for _ in range(2):
            async with greeted(endpoint) as (name, _, _):
                assert name == b"good"
        assert len(silent.greetings) == 1


async def test_a_client_is_let_go_where_no_instance_answers():
    async with balancing(9, Instance(address())) as endpoint, greeted(endpoint) as (name, _, _):
        assert name == b""


async def test_a_client_that_sends_nothing_reaches_no_instance_and_has_a_deadline(monkeypatch):
    monkeypatch.setattr(balancer, "FIRST_MESSAGE_SECONDS", 0.05)
    server = Server("a")
    async with (
        port_of((server, server.talk)) as port,
        balancing(port, Instance(server.host, True)) as endpoint,
        connected(endpoint) as (reader, _),
    ):
        assert (await reader.read(), server.greetings) == (b"", [])


async def test_a_greeting_in_pieces_is_sent_on_as_a_whole():
    server = Server("a")
    pieces = [b"\x16\x03\x01", b"\x00\x0a0123", b"456789"]
    async with (
        port_of((server, server.talk)) as port,
        balancing(port, Instance(server.host, True)) as endpoint,
        connected(endpoint) as (reader, writer),
    ):
        for piece in pieces:
            writer.write(piece)
            await CLOCK.sleep(0.01)
        assert (await reader.read(100), server.greetings) == (b"a", [b"".join(pieces)])


async def test_more_clients_than_there_may_be_wait_for_the_end_of_one():
    server = Server("a")
    async with (
        port_of((server, server.talk)) as port,
        balancing(port, Instance(server.host, True), most=1) as endpoint,
    ):
        async with greeted(endpoint), connected(endpoint) as (reader, writer):
            writer.write(b"second")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(100), 0.05)
            assert server.greetings == [b"hello"]
        async with greeted(endpoint) as (name, _, _):
            assert name == b"a"


async def test_a_connection_of_which_one_half_has_ended_is_cut_after_a_while(monkeypatch):
    monkeypatch.setattr(balancer, "HALF_OPEN_SECONDS", 0.05)
    server, cut = Server("a"), asyncio.Event()

    async def never_end(reader, writer):
        await reader.read(100)
        writer.write(b"a")
        await cut.wait()

    async with (
        port_of((server, never_end)) as port,
        balancing(port, Instance(server.host, True)) as endpoint,
        greeted(endpoint) as (_, reader, writer),
    ):
        writer.write_eof()
        assert await reader.read() == b""
        cut.set()


async def test_a_client_that_does_not_read_stops_its_instance_before_much_is_kept_for_it():
    server, chunk, blocked = Server("a"), b"x" * (1 << 20), asyncio.Event()

    async def talk_on(reader, writer):
        await reader.read(100)
        try:
            for _ in range(64):  # more than all buffers of the kernel
                writer.write(chunk)
                await asyncio.wait_for(writer.drain(), 0.5)
        except TimeoutError:
            blocked.set()

    async with (
        port_of((server, talk_on)) as port,
        balancing(port, Instance(server.host, True)) as endpoint,
        connected(endpoint) as (_, writer),
    ):
        writer.transport.pause_reading()
        writer.write(b"hello")
        await asyncio.wait_for(blocked.wait(), 10)


class Secure:
    """An HTTPS server that answers each request with ``status``."""

    def __init__(self, folder):
        self.status, self.host, self.connections, self.questions = 200, address(), [], 0
        now, day = CLOCK.now(), timedelta(days=1)
        own = new_server(new_authority("any", now, day), [self.host], now, day)
        (folder / "pem").write_bytes(own.certificate + own.key)
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(folder / "pem")

    async def talk(self, reader, writer):
        self.connections.append(writer)
        while await reader.readuntil(b"\r\n\r\n"):
            self.questions += 1
            writer.write(f"HTTP/1.1 {self.status} Any\r\nContent-Length: 2\r\n\r\nok".encode())

    def serving(self):
        return serving(self.talk, self.host, ssl=self.tls)


async def test_an_instance_is_ready_while_it_says_so(tmp_path):
    secure = Secure(tmp_path)
    instance = Instance(secure.host)
    async with secure.serving() as port:
        task = asyncio.create_task(balancer.watch(instance, port, "/readyz", CLOCK))
        await eventually(lambda: instance.ready)
        secure.status = 500
        await eventually(lambda: not instance.ready)
        secure.status = 200
        await eventually(lambda: instance.ready)
        assert len(secure.connections) == 1
        task.cancel()
        await asyncio.wait([task])


async def test_an_instance_that_ends_is_not_ready_at_once_however_rarely_it_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(balancer, "PROBE_PERIOD", 1000.0)
    secure = Secure(tmp_path)
    instance = Instance(secure.host)
    async with secure.serving() as port:
        task = asyncio.create_task(balancer.watch(instance, port, "/readyz", CLOCK))
        await eventually(lambda: instance.ready)
        (connection,) = secure.connections
        connection.transport.abort()
        await eventually(lambda: not instance.ready)
        assert secure.questions == 1
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def program(*arguments):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-S", "-P", "-m", "kubewright.processes.balancer", *arguments),
        env={"PYTHONPATH": str(Path(kubewright.__file__).parents[1])},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def reached(endpoint):
    """As ``greeted``, once the program listens."""
    await eventually(lambda: not refuses(endpoint))
    async with greeted(endpoint) as found:
        yield found


def refuses(endpoint):
    with socket.socket() as client:
        return client.connect_ex(endpoint) != 0


async def test_the_program_ends_when_the_connections_have_that_were_open():
    server = Server("a")
    async with port_of((server, server.talk)) as port:
        endpoint = address(), port
        async with program(f"--listen={endpoint[0]}:{port}", server.host) as process:
            async with reached(endpoint) as (name, reader, writer):
                process.send_signal(signal.SIGTERM)
                await eventually(lambda: refuses(endpoint))
                writer.write(b"still here")
                assert (name, await reader.readexactly(10), process.returncode) == (b"a", b"still here", None)
            assert await process.wait() == 0


async def test_the_program_waits_for_an_address_that_another_process_has():
    server, former = Server("a"), Server("former")
    async with port_of((server, server.talk)) as port:
        endpoint = address(), port
        async with AsyncExitStack() as stack:
            async with serving(former.talk, *endpoint):
                await stack.enter_async_context(program(f"--listen={endpoint[0]}:{port}", server.host))
                async with greeted(endpoint) as (name, _, _):
                    assert name == b"former"
            async with reached(endpoint) as (name, _, _):
                assert name == b"a"


async def test_the_instances_of_a_file_come_and_go_while_open_connections_stay(tmp_path):
    first, second, file = Server("a"), Server("b"), tmp_path / "instances"
    file.write_text(f"{first.host}\n")
    async with port_of((first, first.talk), (second, second.talk)) as port:
        endpoint = address(), port
        async with (
            program(f"--listen={endpoint[0]}:{port}", f"--instances={file}"),
            reached(endpoint) as (name, reader, writer),
        ):
            assert name == b"a"
            (tmp_path / "new").write_text(f"{second.host}\n")
            (tmp_path / "new").replace(file)
            names = [name]
            async with asyncio.timeout(10):
                while names[-1] != b"b":
                    async with greeted(endpoint) as (another, _, _):
                        names.append(another)
            writer.write(b"still here")
            assert await reader.readexactly(10) == b"still here"
            file.unlink()  # changes nothing
            async with greeted(endpoint) as (another, _, _):
                assert another == b"b"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
async def test_the_program_gives_up_the_rights_of_root_and_still_asks_instances(tmp_path):
    secure = Secure(tmp_path)
    async with secure.serving() as port:
        options = f"--listen={address()}:{port}", "--ready=/readyz", "--user=65534:65534", secure.host
        async with program(*options) as process:
            await eventually(lambda: secure.connections)
            assert "Uid:\t65534\t65534\t65534\t65534" in status_of(process.pid)


def status_of(pid):
    return Path(f"/proc/{pid}/status").read_text()
