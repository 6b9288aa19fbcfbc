"""Drivers that dial a manager over real sockets: Unix, TLS and plain, with grpcio at both ends."""

import asyncio
import os
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from kubewright.api.core import Secret
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.base.clock import SystemClock
from kubewright.driver.contract import stub
from kubewright.driver.errors import Code, DriverError, InvalidArgument
from kubewright.driver.registry import Settings, load
from kubewright.pki.certificates import new_authority, new_client, new_server
from kubewright.providers.grpc.client import DriverOffer, Target, serve
from kubewright.providers.grpc.dispatch import GrpcDriver
from kubewright.providers.grpc.messages import (
    MESSAGE_BYTES,
    Content,
    DriverSide,
    Listed,
    ListedVm,
    MachineClassMeta,
    MCMside,
    Registration,
    SecretMeta,
    decode,
    encode,
)
from kubewright.providers.sim import driver as make_sim
from kubewright.testing.scenes import class_request
from kubewright.wire.http import User

pytestmark = pytest.mark.looptime(False)
CLOCK = SystemClock()


@asynccontextmanager
async def leading(folder: Path, **options: str) -> AsyncIterator[GrpcDriver]:
    """A manager's driver ``grpc`` that lets drivers in."""
    driver = load("grpc", Settings(CLOCK, folder, options))
    assert isinstance(driver, GrpcDriver)
    term = asyncio.create_task(driver.lead())
    try:
        yield driver
    finally:
        term.cancel()
        await asyncio.gather(term, return_exceptions=True)
        await driver.close()


@asynccontextmanager
async def serving(target: Target, name: str = "sim") -> AsyncIterator[asyncio.Event]:
    """A simulated cloud that dials a manager."""
    cloud, stop = make_sim(Settings(CLOCK)), asyncio.Event()
    task = asyncio.create_task(serve(DriverOffer(cloud, CLOCK, name), target, CLOCK, stop))
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)
        await cloud.close()


async def until_served(driver: GrpcDriver) -> None:
    """Wait for a driver of class ``small``."""
    async with asyncio.timeout(20):
        while True:
            try:
                await driver.list(class_request("small"))
                return
            except DriverError as error:
                if error.code is not Code.Unavailable:
                    raise
                await asyncio.sleep(0.02)


async def until_missed(driver: GrpcDriver) -> DriverError:
    """Wait until the manager has let the driver of class ``small`` go; what it says then."""
    async with asyncio.timeout(20):
        while True:
            try:
                await driver.list(class_request("small"))
            except DriverError as error:
                if "no driver for it is connected" in error.message:
                    return error
            await asyncio.sleep(0.02)


async def test_a_vm_is_made_and_deleted_through_a_unix_socket_that_is_ours_alone(tmp_path: Path) -> None:
    async with leading(tmp_path) as driver:
        path = tmp_path / "grpc" / "drivers.sock"
        async with serving(Target(f"unix:{path}")):
            await until_served(driver)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            request = class_request("small").of(stub("m1", "ns", "uid-1"))
            made = await driver.create(request)
            assert [each.provider_id for each in await driver.list(class_request("small"))] == [
                made.provider_id
            ]
            tagged = class_request("small", tags={"disk": {"backup": "daily"}, "network": {"A": ""}})
            assert list(driver.hot_fields(tagged.machine_class)) == ["tags", "sourceDestCheck"]
            with pytest.raises(InvalidArgument, match=r"tags\.network: 'A': a key has at most 63 lower-case"):
                await driver.update(tagged.of(request.machine), {})
            await driver.update(request, None)
            await driver.delete(request)
            assert await driver.list(class_request("small")) == []
    assert not path.exists()


async def told_of(lines: list[Any], words: str) -> list[Any]:
    """Wait for a line of the log; all that have its words."""
    async with asyncio.timeout(20):
        while True:
            if found := [each for each in lines if each["event"] == words]:
                return found
            await asyncio.sleep(0.02)


async def test_a_driver_says_when_it_is_registered_also_where_nothing_is_asked_of_it(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'grpc' / 'drivers.sock'}"
    with capture_logs() as lines:
        async with leading(tmp_path), serving(Target(address)):
            (line,) = await told_of(lines, "registered with the manager")
    assert (line["driver"], line["address"], line["log_level"]) == ("sim", address, "info")


async def test_a_driver_that_is_not_let_in_does_not_say_that_it_is_registered(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'grpc' / 'drivers.sock'}"
    with capture_logs() as lines:
        async with leading(tmp_path), serving(Target(address)):
            await told_of(lines, "registered with the manager")
            async with serving(Target(address)):
                (line,) = await told_of(lines, "the manager is not there; dialling again")
    assert "ALREADY_EXISTS" in line["reason"]
    assert len([each for each in lines if each["event"] == "registered with the manager"]) == 1


OPEN = """
import os, socket, sys
if len(sys.argv) > 2:
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


async def opened(path: Path, *user: str) -> str:
    """What a process says that connects to a socket, as another user if one is given; empty if it can."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", OPEN, str(path), *user), stderr=asyncio.subprocess.PIPE
    )
    _, said = await program.communicate()
    lines = [
        line for line in said.decode().splitlines() if "fork_posix" not in line
    ]  # gRPC's, of our own fork
    return lines[-1] if lines else ""


@pytest.fixture
def volume() -> Iterator[Path]:
    """A folder that is open to all, as an emptyDir is; pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder)
        found.chmod(0o777)
        yield found


async def test_no_other_user_of_a_pod_can_open_the_socket_in_their_common_volume(volume: Path) -> None:
    path = volume / "grpc" / "drivers.sock"
    async with leading(volume):
        assert await opened(path) == ""
        if os.getuid() == 0:
            assert await opened(path, "65533") == "PermissionError: [Errno 13] Permission denied"
            path.parent.chmod(0o777)
            assert "PermissionError" in await opened(path, "65533"), "the socket's own rights"
            path.chmod(0o666)
            assert await opened(path, "65533") == "", "it was the rights and nothing else"


async def test_a_driver_that_went_is_missed_and_welcome_again(tmp_path: Path) -> None:
    async with leading(tmp_path) as driver:
        target = Target(f"unix:{tmp_path / 'grpc' / 'drivers.sock'}")
        async with serving(target):
            await until_served(driver)
        assert not (await until_missed(driver)).begun
        async with serving(target):
            await until_served(driver)


async def test_who_does_not_lead_lets_no_driver_in(tmp_path: Path) -> None:
    path = tmp_path / "grpc" / "drivers.sock"
    async with leading(tmp_path) as driver, serving(Target(f"unix:{path}")):
        await until_served(driver)
    other = load("grpc", Settings(CLOCK, tmp_path))
    assert isinstance(other, GrpcDriver)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await called(f"unix:{path}", "service.Servicegrpc/GetSecret", encode(SecretMeta("s", "ns")))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    await other.close()


async def called(address: str, method: str, data: bytes, credentials: Any = None) -> bytes:
    channel = (
        grpc.aio.insecure_channel(address)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials)
    )
    async with channel:
        return bytes(await channel.unary_unary(f"/{method}")(data, timeout=1))


@pytest.mark.parametrize("service", ["service.Servicegrpc", "infra.Infragrpc"])
async def test_both_names_of_the_service_answer_alike(tmp_path: Path, service: str) -> None:
    async with leading(tmp_path) as driver:
        meta = driver.contents.put(class_request("small"))
        address = f"unix:{tmp_path / 'grpc' / 'drivers.sock'}"
        await until_listening(address)
        found = await called(address, f"{service}/GetMachineClass", encode(meta))
        assert '"name":"small"' in decode(Content, found).data
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.stream_stream(f"/{service}/Register")()
            assert decode(MCMside, await call.read()) == MCMside(1, "register")
            await call.write(encode(DriverSide(1, "register", Registration(kind="AWSMachineClass"))))
            await asyncio.sleep(0.1)
            async with grpc.aio.insecure_channel(address) as second:
                other = second.stream_stream(f"/{service}/Register")()
                await other.read()
                await other.write(encode(DriverSide(1, "register", Registration(kind="AWSMachineClass"))))
                with pytest.raises(grpc.aio.AioRpcError, match="its stream lives") as refused:
                    await other.read()
                assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS


async def until_listening(address: str) -> None:
    async with asyncio.timeout(10), grpc.aio.insecure_channel(address) as channel:
        await channel.channel_ready()


async def test_a_secret_without_a_name_and_a_class_of_no_operation_are_refused_with_a_sentence(
    tmp_path: Path,
) -> None:
    async with leading(tmp_path):
        address = f"unix:{tmp_path / 'grpc' / 'drivers.sock'}"
        await until_listening(address)
        for method, data, code in (
            ("GetSecret", encode(SecretMeta("", "ns")), grpc.StatusCode.INVALID_ARGUMENT),
            ("GetCloudConfig", encode(SecretMeta("none", "ns")), grpc.StatusCode.NOT_FOUND),
            ("GetMachineClass", encode(MachineClassMeta("none")), grpc.StatusCode.NOT_FOUND),
            ("GetMachineClass", b"\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await called(address, f"infra.Infragrpc/{method}", data)
            assert refused.value.code() is code
            assert refused.value.details()


async def test_a_message_of_five_mebibytes_ends_its_stream_and_nothing_else(tmp_path: Path) -> None:
    async with leading(tmp_path) as driver:
        address = f"unix:{tmp_path / 'grpc' / 'drivers.sock'}"
        await until_listening(address)
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.stream_stream("/service.Servicegrpc/Register")()
            await call.read()
            await call.write(encode(DriverSide(1, "x" * (MESSAGE_BYTES + (1 << 20)))))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call.read()
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with serving(Target(address)):
            await until_served(driver)


@asynccontextmanager
async def cut_after(count: int, path: Path, manager: Path) -> AsyncIterator[None]:
    """A socket that carries so many bytes from a driver to its manager, and then is dead for both."""

    async def carried(driver: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        answers, to_manager = await asyncio.open_unix_connection(manager)
        left = count

        async def there() -> None:
            nonlocal left
            while left and (data := await driver.read(left)):
                left -= len(data)
                to_manager.write(data)
                await to_manager.drain()

        async def here() -> None:
            while data := await answers.read(1 << 16):
                back.write(data)
                await back.drain()

        both = [asyncio.ensure_future(each) for each in (there(), here())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        for end in (back, to_manager):
            end.transport.abort()

    server = await asyncio.start_unix_server(carried, path)
    try:
        yield
    finally:
        server.close()


async def answered_once(address: str) -> bool:
    """A driver of class ``small`` that answers one list; False: its stream ended before."""
    alone = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
    async with grpc.aio.insecure_channel(address, options=alone) as channel, asyncio.timeout(20):
        call = channel.stream_stream("/service.Servicegrpc/Register")()
        try:
            await call.read()
            registration = Registration("sim", "machine.sapcloud.io", "MachineClass", "v1alpha1")
            await call.write(encode(DriverSide(1, "register", registration)))
            asked = await call.read()
            if not isinstance(asked, bytes):
                return False
            answer = Listed(vms=(ListedVm("p-1", "m1"),))
            await call.write(encode(DriverSide(decode(MCMside, asked).operation_id, "list", answer)))
            await call.done_writing()
            return not isinstance(await call.read(), bytes)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return False


async def test_a_driver_may_die_at_any_byte_and_the_next_one_is_let_in(tmp_path: Path) -> None:
    """All of a connection has some hundred bytes; each of the places where it may end is one of a run's."""
    manager = tmp_path / "grpc" / "drivers.sock"
    async with leading(tmp_path) as driver:
        await until_listening(f"unix:{manager}")
        died = 0
        for count in range(1, 2000, 3):
            path = tmp_path / f"{count}.sock"
            async with cut_after(count, path, manager):
                asking = asyncio.create_task(until_served(driver))
                whole = await answered_once(f"unix:{path}")
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            if whole:
                break
            died += 1
        assert whole, "in the end all bytes are carried"
        assert died > 10
        async with serving(Target(f"unix:{manager}")):
            await until_served(driver)


async def test_class_and_secret_are_told_within_a_second_where_no_api_server_is(tmp_path: Path) -> None:
    """This driver has none at all: what it tells came with the operations, and what did not is an error at once."""
    async with leading(tmp_path) as driver:
        address = f"unix:{tmp_path / 'grpc' / 'drivers.sock'}"
        await until_listening(address)
        request = replace(class_request("small"), secret=Secret(data={"userData": b"setup"}))
        meta = driver.contents.put(request)
        ref = MACHINE_CLASS.decode(driver.contents.machine_class(meta).encode()).secret_ref
        assert ref is not None
        known, unknown = SecretMeta(ref.name, ref.namespace, meta.revision), SecretMeta("other", "ns")
        assert decode(
            Content, await called(address, "service.Servicegrpc/GetMachineClass", encode(meta))
        ).data
        assert decode(Content, await called(address, "service.Servicegrpc/GetSecret", encode(known))).data
        with pytest.raises(grpc.aio.AioRpcError, match="no operation was about") as refused:
            await called(address, "service.Servicegrpc/GetSecret", encode(unknown))
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


# ---------------------------------------------------------------- TLS


class Keys:
    """An authority, a manager's certificate for loopback, and one for each of some drivers, as files."""

    def __init__(self, folder: Path, *drivers: str) -> None:
        folder.mkdir()
        now, day = CLOCK.now(), timedelta(days=1)
        authority = new_authority("drivers", now, day)
        self.folder = folder
        (folder / "ca.crt").write_bytes(authority.certificate)
        manager = new_server(authority, ["127.0.0.1", "localhost"], now, day, common_name="manager")
        for name, found in (
            ("manager", manager),
            *((each, new_client(authority, User(each, ()), now, day)) for each in drivers),
        ):
            (folder / f"{name}.crt").write_bytes(found.certificate)
            (folder / f"{name}.key").write_bytes(found.key)

    def manager(self) -> dict[str, str]:
        files = {"certificate": "manager.crt", "key": "manager.key", "clientAuthorities": "ca.crt"}
        return {name: str(self.folder / file) for name, file in files.items()}

    def target(self, port: int, driver: str, authority: "Keys | None" = None) -> Target:
        folder = self.folder
        ca = (authority or self).folder / "ca.crt"
        return Target(f"127.0.0.1:{port}", ca, folder / f"{driver}.crt", folder / f"{driver}.key")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def refused_with(target: Target) -> str:
    """Why a driver is not let in."""
    async with grpc.aio.secure_channel(target.address, target.credentials()) as channel:
        call = channel.stream_stream("/service.Servicegrpc/Register")(timeout=5)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
        return f"{refused.value.code().name}: {refused.value.details()}"


async def test_over_tls_a_driver_shows_a_certificate_of_the_authority_with_a_name_that_may_come(
    tmp_path: Path,
) -> None:
    keys, strangers, port = (
        Keys(tmp_path / "keys", "sim", "other"),
        Keys(tmp_path / "strange", "sim"),
        free_port(),
    )
    options = {"listen": f"127.0.0.1:{port}", "clients": "sim, aws", **keys.manager()}
    async with leading(tmp_path, **options) as driver:
        async with serving(keys.target(port, "sim")):
            await until_served(driver)
        assert (
            await refused_with(keys.target(port, "other"))
            == "PERMISSION_DENIED: none of these names may come: other"
        )
        assert (await refused_with(strangers.target(port, "sim", keys))).startswith("UNAVAILABLE")
        with pytest.raises(grpc.aio.AioRpcError):
            await called(f"127.0.0.1:{port}", "service.Servicegrpc/GetSecret", encode(SecretMeta("s", "ns")))


async def test_a_refusal_that_quotes_a_long_name_reaches_the_driver_each_time(tmp_path: Path) -> None:
    asked = encode(SecretMeta("näme" * 4_000, "ns"))
    async with leading(tmp_path):
        address = f"unix:{tmp_path / 'grpc' / 'drivers.sock'}"
        await until_listening(address)
        for _ in range(30):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await called(address, "service.Servicegrpc/GetSecret", asked)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND, refused.value.details()


async def test_renewed_certificates_serve_the_next_connection_without_a_restart(tmp_path: Path) -> None:
    old, new, port = Keys(tmp_path / "keys", "sim"), Keys(tmp_path / "new", "sim"), free_port()
    async with leading(tmp_path, listen=f"127.0.0.1:{port}", **old.manager()) as driver:
        async with serving(old.target(port, "sim")):
            await until_served(driver)
        for each in new.folder.iterdir():
            (old.folder / each.name).write_bytes(each.read_bytes())
        async with serving(new.target(port, "sim")):
            await until_served(driver)


async def test_a_port_in_plain_text_takes_the_words_that_say_what_that_means(tmp_path: Path) -> None:
    port = free_port()
    options = {"listen": f"127.0.0.1:{port}", "plaintext": "secrets-can-be-read"}
    async with leading(tmp_path, **options) as driver, serving(Target(f"127.0.0.1:{port}")):
        await until_served(driver)


async def test_a_port_that_another_program_has_is_taken_when_it_is_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        driver = load(
            "grpc",
            Settings(CLOCK, tmp_path, {"listen": f"127.0.0.1:{port}", "plaintext": "secrets-can-be-read"}),
        )
        assert isinstance(driver, GrpcDriver)
        term = asyncio.create_task(driver.lead())
        await asyncio.sleep(0.3)
        assert not term.done()
    try:
        async with serving(Target(f"127.0.0.1:{port}")):
            await until_served(driver)
    finally:
        term.cancel()
        await asyncio.gather(term, return_exceptions=True)


async def test_a_socket_in_a_folder_that_others_may_enter_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "grpc").mkdir(mode=0o755)
    async with leading(tmp_path):
        await asyncio.sleep(0.3)
        assert not (tmp_path / "grpc" / "drivers.sock").exists()
