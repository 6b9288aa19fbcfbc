"""A snapshot on its way into the volume of a member: sent and received over TLS, and put in place."""

import asyncio
import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest
from tests.api.interruptions import cut_short

from kubewright.base.clock import SystemClock
from kubewright.controlplanes.etcd import tls_of
from kubewright.controlplanes.hosting.member_data import NotReplaced
from kubewright.controlplanes.hosting.pods import restoring as restore_member
from kubewright.controlplanes.hosting.pods.restoring import Target, listening, send
from kubewright.controlplanes.members import Credentials
from kubewright.pki.certificates import new_authority, new_client, new_leaf
from kubewright.wire.http import User

pytestmark = pytest.mark.looptime(False)
CLOCK, DAY = SystemClock(), timedelta(days=1)
NAME = "demo-etcd-0.demo-etcd.here.svc"
CONTENT = b"a snapshot" * 1_000_000


class Stage:
    """A member that waits for a snapshot, and the credentials of a client, of ours or of another."""

    def __init__(self, folder: Path) -> None:
        now = CLOCK.now()
        authority, other = (new_authority(name, now, DAY) for name in ("etcd", "other"))
        server = new_leaf(authority, User("kube-etcd", ()), now, DAY, names=[NAME])
        for name, content in (
            ("crt", server.certificate),
            ("key", server.key),
            ("ca", authority.certificate),
        ):
            (folder / name).write_bytes(content)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.site = restore_member.Site("127.0.0.1", port, folder / "crt", folder / "key", folder / "ca")
        self.target = Target(f"127.0.0.1:{port}", NAME)
        self.folder, self.file = folder / "volume" / "restoring", folder / "file"
        self.folder.mkdir(parents=True)
        self.file.write_bytes(CONTENT)
        clients = [new_client(each, User("probe", ()), now, DAY) for each in (authority, other)]
        self.ours, self.theirs = (
            tls_of(Credentials(authority.certificate, each.certificate, each.key)) for each in clients
        )

    async def waits(self) -> None:
        async with asyncio.timeout(20):
            while not await listening([self.target], self.ours):
                await CLOCK.sleep(0.02)


@pytest.fixture
def on(tmp_path):
    return Stage(tmp_path)


async def test_a_member_that_waits_is_sent_a_snapshot_and_ends(on):
    (on.folder / "left").write_text("by an earlier pod")
    receiving = asyncio.create_task(restore_member.receive(on.site, on.folder))
    await on.waits()
    await send(on.target, on.ours, on.file)
    async with asyncio.timeout(20):
        await receiving
    assert [each.name for each in on.folder.iterdir()] == ["snapshot"]
    assert (on.folder / "snapshot").read_bytes() == CONTENT
    assert await listening([on.target], on.ours) == []


@pytest.mark.parametrize("who", ["another authority's client", "another member's name"])
async def test_nothing_is_sent_to_or_taken_from_another(on, who):
    receiving = asyncio.create_task(restore_member.receive(on.site, on.folder))
    await on.waits()
    named = on.target.name if who.startswith("another authority") else "demo-etcd-1.demo-etcd.here.svc"
    tls = on.theirs if who.startswith("another authority") else on.ours
    target = Target(on.target.address, named)
    assert await listening([target], tls) == []
    with pytest.raises(NotReplaced, match="was not sent to"):
        await send(target, tls, on.file)
    assert list(on.folder.iterdir()) == []
    receiving.cancel()
    await asyncio.wait([receiving])


def content(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


PLACED = {"data/db": "new", "data/restored": "mark", "before-mark/db": "former"}


def filled(volume: Path) -> tuple[Path, Path]:
    """A volume with former data, a snapshot, and new data beside it."""
    restoring, data = volume / "restoring", volume / "data"
    for folder, text in ((restoring / "data", "new"), (data, "former")):
        folder.mkdir(parents=True)
        (folder / "db").write_text(text)
    (restoring / "snapshot").write_text("the snapshot")
    return restoring, data


def test_new_data_takes_the_place_of_the_former_once(tmp_path):
    restoring, data = filled(tmp_path)
    for _ in range(2):
        restore_member.place(restoring, data, "mark")
        assert content(tmp_path) == PLACED


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(("where", "name"), [(Path, "rename"), (os, "fsync"), (Path, "write_text")])
def test_whatever_call_is_the_last_before_the_pod_ends_the_next_one_completes_it(
    tmp_path, monkeypatch, where, name, number, when
):
    restoring, data = filled(tmp_path)
    with cut_short(monkeypatch, where, name, number, when):
        restore_member.place(restoring, data, "mark")
    restore_member.place(restoring, data, "mark")
    assert content(tmp_path) == PLACED


def test_other_data_is_not_lost_if_the_former_of_this_restore_is_there(tmp_path):
    restoring, data = filled(tmp_path)
    (tmp_path / "before-mark").mkdir()
    with pytest.raises(NotReplaced, match="move one of them away"):
        restore_member.place(restoring, data, "mark")
    assert (data / "db").read_text() == "former"
