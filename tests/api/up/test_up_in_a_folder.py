"""``up`` and its data folder: one address for good, and no work on a folder that is gone."""

import asyncio
import resource
import shutil
import socket
from pathlib import Path

import pytest
import yaml

from kubewright.apiserver.server import ApiServer
from kubewright.base.errors import InvalidInput
from kubewright.compose.embedded import Embedded
from kubewright.compose.folder import Claims, DiskFailed, FolderGone
from kubewright.compose.kept_planes import KeptPlanes
from kubewright.compose.options import Options, ServerConfig
from kubewright.providers.sim.tls_bootstrap import PlaneRequest
from kubewright.testing.clocks import LoopClock


async def served_at(config: ServerConfig) -> str:
    """Where a world listens; it is closed again."""
    async with Embedded(config, Options(), LoopClock()) as world:
        (cluster,) = yaml.safe_load(world.kubeconfig.read_bytes())["clusters"]
        assert cluster["cluster"]["server"] == world.url
        return world.url


async def test_the_port_stays_with_the_data(tmp_path: Path) -> None:
    first = await served_at(ServerConfig(tmp_path / "one"))
    assert await served_at(ServerConfig(tmp_path / "one")) == first
    assert await served_at(ServerConfig(tmp_path / "one", kubeconfig=tmp_path / "elsewhere")) == first


async def test_a_port_that_is_asked_for_stays_from_then_on(tmp_path: Path) -> None:
    first = await served_at(ServerConfig(tmp_path))
    with socket.create_server(("127.0.0.1", int(first.rpartition(":")[2]))):
        second = await served_at(ServerConfig(tmp_path, port=0))
    assert second != first
    assert await served_at(ServerConfig(tmp_path)) == second


async def test_a_port_that_another_program_took_meanwhile_is_said_with_what_to_do(tmp_path: Path) -> None:
    url = await served_at(ServerConfig(tmp_path))
    port = int(url.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(InvalidInput) as refused:
            await served_at(ServerConfig(tmp_path))
        assert f"port {port}, where {tmp_path} was served so far, is taken by another program" in str(
            refused.value
        )
        assert "--port 0" in str(refused.value)
        with pytest.raises(InvalidInput, match="choose another with --port"):
            await served_at(ServerConfig(tmp_path, port=port))
    assert await served_at(ServerConfig(tmp_path)) == url


def take_away(path: Path) -> None:
    """A folder, or a database with all that SQLite has beside it."""
    if path.is_dir():
        shutil.rmtree(path)
        return
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        pytest.param(
            ["server"], "/server/objects.db is empty or missing, and with it all objects", id="server"
        ),
        pytest.param(["server/objects.db"], "as of version 0, and version", id="the database"),
        pytest.param(
            ["server/objects.db", "server/committed"],
            "was used before, and objects.db in it is empty or missing",
            id="the database and its mark",
        ),
        pytest.param(
            ["server/objects.db", "server/committed", "server/token.key"],
            "was served before (it has up.json)",
            id="all of the server's files",
        ),
        pytest.param(["server", "up.json"], "was served before (it has pki/ca.pem)", id="and the address"),
        pytest.param(
            ["server", "up.json", "pki"], "was served before (it has cloud.db)", id="and the certificates"
        ),
        pytest.param(
            ["server/committed"], "server/committed is missing: without it nothing tells", id="mark"
        ),
        pytest.param(["server/token.key"], "server/token.key is missing: with another key every", id="key"),
        pytest.param(["pki"], "pki/ca.pem is missing: with another certificate authority no", id="pki"),
        pytest.param(["pki/ca.pem"], "pki/ca.pem is missing: with another certificate", id="the authority"),
        pytest.param(
            ["cloud.db"], "cloud.db is missing or empty: without it the simulated cloud", id="cloud"
        ),
    ],
)
async def test_a_folder_that_lost_a_file_is_served_only_when_that_is_accepted(
    tmp_path: Path, gone: list[str], words: str
) -> None:
    """Otherwise the VMs of all machines would be deleted, or all of them made anew, or every client locked out."""
    url = await served_at(ServerConfig(tmp_path))
    for each in gone:
        take_away(tmp_path / each)
    for _ in range(2):
        with pytest.raises(InvalidInput) as refused:
            await served_at(ServerConfig(tmp_path))
        assert words in str(refused.value)
        assert "start `kubewright up` with --accept-data-loss" in str(refused.value)
    accepted = await served_at(ServerConfig(tmp_path, accept_loss=True))
    assert accepted == url or "up.json" in gone
    assert await served_at(ServerConfig(tmp_path)) == accepted


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("clusters", "/objects.db is missing: all objects in it are lost"),
        ("nested.json", "/nested.json is missing: what is in it cannot be told from the objects"),
    ],
)
async def test_what_control_planes_have_in_the_folder_is_missed_too(
    tmp_path: Path, gone: str, words: str
) -> None:
    async with Embedded(ServerConfig(tmp_path), Options(), LoopClock()) as world:
        address = world.planes.reserve("demo")
        await world.planes.begin(PlaneRequest(address))
        KeptPlanes(tmp_path, Claims(world.server)).add("default/nested", "127.0.0.1:1")
    take_away(tmp_path / gone)
    for _ in range(2):
        with pytest.raises(InvalidInput) as refused:
            await served_at(ServerConfig(tmp_path))
        assert words in str(refused.value)
        assert f"{tmp_path}/{gone}" in str(refused.value)
    await served_at(ServerConfig(tmp_path, accept_loss=True))
    await served_at(ServerConfig(tmp_path))


async def test_a_control_plane_that_has_ended_is_not_missed(tmp_path: Path) -> None:
    async with Embedded(ServerConfig(tmp_path), Options(), LoopClock()) as world:
        address = world.planes.reserve("demo")
        await world.planes.begin(PlaneRequest(address))
        await world.planes.end(address)
    assert not list((tmp_path / "clusters").iterdir())
    await served_at(ServerConfig(tmp_path))


async def test_an_empty_cloud_counts_as_lost(tmp_path: Path) -> None:
    await served_at(ServerConfig(tmp_path))
    (tmp_path / "cloud.db").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"cloud\.db is missing or empty"):
            await served_at(ServerConfig(tmp_path))


async def test_a_first_start_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    """It has its own objects, and has made no certificates and no cloud yet."""
    server = ApiServer(LoopClock(), path=tmp_path / "server")
    await server.start()
    await server.close()
    await served_at(ServerConfig(tmp_path))


@pytest.mark.parametrize("gone", ["", "server", "server/objects.db", "cloud.db"])
async def test_a_folder_that_is_deleted_ends_the_server_with_an_error(tmp_path: Path, gone: str) -> None:
    folder = tmp_path / "data"

    def delete() -> None:
        victim = folder / gone
        shutil.rmtree(victim) if victim.is_dir() else victim.unlink()

    began = asyncio.get_running_loop().time()
    with pytest.raises(FolderGone, match="was deleted or moved away while it was in use"):
        async with Embedded(ServerConfig(folder), Options(), LoopClock()) as world:
            await world.serve(asyncio.Event(), delete)
    assert asyncio.get_running_loop().time() - began < 10


async def test_a_full_disk_ends_the_server_with_the_true_cause(tmp_path: Path) -> None:
    """Not with what follows from it, such as a Lease that could not be renewed."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        written = max(file.stat().st_size for file in (tmp_path / "server").iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (written, most))

    try:
        with pytest.raises(DiskFailed, match="the data folder cannot be written") as ended:
            async with Embedded(ServerConfig(tmp_path), Options(), LoopClock()) as world:
                await world.serve(asyncio.Event(), fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    assert str(ended.value).endswith("; free the disk and restart")
