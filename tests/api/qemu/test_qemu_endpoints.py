"""Addresses of clusters and their balancers where files are lost: on loopback, so that no bridge is needed."""

import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs

from kubewright.base.clock import SystemClock
from kubewright.driver.contract import ClassRequest
from kubewright.driver.errors import Code, DriverError
from kubewright.providers.qemu.endpoints import INSTANCES, RECORD, Balancers, Bridge, Known, key_of
from kubewright.providers.qemu.spec import parse_options
from kubewright.testing.scenes import class_request

pytestmark = pytest.mark.looptime(False)
FIRST = "127.98.0.2"


class Loopback(Bridge):
    """All of its addresses are this machine's already."""

    async def open(self) -> None:
        """It is there."""

    async def hold(self, address: str) -> None:
        self.held.add(address)

    async def let_go(self, address: str) -> None:
        self.held.discard(address)


def of(name: str) -> ClassRequest:
    """What stands for a cluster."""
    found = class_request("tiny", provider="qemu", image="tiny").machine_class
    return ClassRequest(structs.replace(found, metadata=structs.replace(found.metadata, name=name, uid=name)))


class Site:
    """``members``: the addresses of the VMs of every control plane."""

    def __init__(self, folder: Path) -> None:
        self.root, self.members = folder / "endpoints", ["127.98.0.9"]
        self.bridge = Loopback(parse_options({"network": "bridge", "subnet": "127.98.0.0/24"}))
        self.balancers = self.another()

    def another(self) -> Balancers:
        known = Known(tuple, lambda _owner: self.members)
        return Balancers(self.root, SystemClock(), self.bridge, known)

    async def restarted(self) -> None:
        await self.balancers.close()
        self.balancers = self.another()
        await self.balancers.open()

    def file(self, name: str, cluster: str = "a") -> Path:
        return self.root / key_of(of(cluster)) / name


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Site]:
    """A site with the endpoint of cluster ``a``, which is released in the end."""
    site = Site(folder)
    await site.balancers.open()
    try:
        assert await site.balancers.reserve(of("a")) == FIRST
        yield site
    finally:
        for each in ("a", "b"):
            await site.balancers.release(of(each))
        await site.balancers.close()


def listens(address: str = FIRST) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((address, 6443)) == 0


async def test_what_a_balancer_could_not_be_told_it_is_told_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        site.file(INSTANCES).unlink()
        site.file(INSTANCES).mkdir()  # no file can be written there now
        site.members = ["127.98.0.8"]
        await site.balancers.follow("a")
        site.file(INSTANCES).rmdir()
        await site.balancers.tend()
        assert site.file(INSTANCES).read_text() == "127.98.0.8\n"


async def test_a_folder_that_was_deleted_is_made_again_and_keeps_its_address(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        shutil.rmtree(site.root)
        await site.balancers.tend()
        assert site.file(RECORD).exists()
        assert await site.balancers.reserve(of("a")) == FIRST
        await site.restarted()
        assert await site.balancers.reserve(of("b")) != FIRST
        assert await site.balancers.reserve(of("a")) == FIRST


async def test_an_endpoint_whose_folder_is_gone_is_released(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        shutil.rmtree(site.root)
        await site.balancers.release(of("a"))
        assert (site.balancers.addresses, listens(), site.bridge.held) == ([], False, set())


@pytest.mark.parametrize("cut", [5, 1_000], ids=["without its end", "empty"])
async def test_an_endpoint_whose_record_cannot_be_read_goes_on_until_it_is_released(
    tmp_path: Path, cut: int
) -> None:
    async with opened(tmp_path) as site:
        kept = site.file(RECORD).read_bytes()
        site.file(RECORD).write_bytes(kept[:-cut])
        await site.restarted()
        assert listens()
        with pytest.raises(DriverError, match=r"endpoint\.json cannot be read") as told:
            await site.balancers.reserve(of("a"))
        assert told.value.code is Code.DataLoss
        site.file(RECORD).write_bytes(kept)
        await site.balancers.tend()
        assert await site.balancers.reserve(of("a")) == FIRST
        site.file(RECORD).write_bytes(kept[:-cut])
        await site.restarted()
        await site.balancers.release(of("a"))
        assert (site.balancers.addresses, listens(), site.file(RECORD).exists()) == ([], False, False)


async def test_a_balancer_whose_record_is_gone_is_ended_when_its_endpoint_is_released(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        await site.balancers.close()
        site.file(RECORD).unlink()
        await site.restarted()
        await site.balancers.release(of("a"))
        assert (listens(), site.file(INSTANCES).exists()) == (False, False)


async def test_the_address_in_a_record_that_cannot_be_read_stays_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        site.file(RECORD).write_bytes(b'{"later": {}, "address": "127.98.0.2", "owner": 1}')
        await site.restarted()
        assert await site.balancers.reserve(of("b")) == "127.98.0.3"


async def test_an_address_that_cannot_be_put_on_record_is_given_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        (site.root / key_of(of("b"))).write_text("no folder")
        with pytest.raises(DriverError, match="the record of the endpoint cannot be kept"):
            await site.balancers.reserve(of("b"))
        assert (site.balancers.addresses, site.bridge.held) == ([FIRST], {FIRST})
