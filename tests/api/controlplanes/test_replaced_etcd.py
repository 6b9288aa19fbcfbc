"""The data of the members of an etcd, replaced by a script that plays etcdutl, cut short at every step."""

import asyncio
import os
import stat
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.api.interruptions import cut_short

from kubewright.controlplanes.hosting.contract import Replacement
from kubewright.controlplanes.hosting.processes import restoring
from kubewright.controlplanes.hosting.processes.binaries import Binaries, Places

pytestmark = pytest.mark.looptime(False)
PLAYED = f"""#!{sys.executable}
import os, sys
if open(sys.argv[3]).read() != "good": sys.exit("expected sha256 of the snapshot")
flags = dict(each[2:].split("=", 1) for each in sys.argv[4:] if "=" in each)
os.makedirs(flags["data-dir"] + "/member")
with open(flags["data-dir"] + "/member/db", "w") as file:
    print(flags["name"], flags["initial-cluster"], flags["initial-advertise-peer-urls"], file=file)
"""


class Etcd:
    """Two members with data, a snapshot, and the program that puts it in place."""

    def __init__(self, folder: Path) -> None:
        self.program, self.source = folder / "bin" / "etcdutl", folder / "snapshot"
        self.program.parent.mkdir()
        self.program.write_text(PLAYED)
        self.program.chmod(0o755)
        self.source.write_text("good")
        self.fetched = 0
        self.binaries = Binaries(Places((self.program.parent,)))
        self.members = [
            restoring.Member(f"demo-etcd-{n}", f"https://127.0.0.{n + 2}:2380", folder / f"etcd-{n}")
            for n in range(2)
        ]
        for member in self.members:
            (member.data / "member").mkdir(parents=True)
            (member.data / "member" / "db").write_text("former")

    @asynccontextmanager
    async def fetch(self):
        self.fetched += 1
        yield self.source

    async def replace(self, mark: str = "mark") -> Path | None:
        by = Replacement(mark, len(self.members), self.fetch, lambda: asyncio.sleep(0))
        return await restoring.replace(self.binaries, self.members, by, None)

    def data(self) -> list[str]:
        return [(each.data / "member" / "db").read_text().strip() for each in self.members]

    def former(self, mark: str = "mark") -> list[str]:
        return [
            (each.folder / "volumes" / f"before-{mark}" / "member" / "db").read_text()
            for each in self.members
        ]


ALL = "demo-etcd-0=https://127.0.0.2:2380,demo-etcd-1=https://127.0.0.3:2380"
NEW = [f"demo-etcd-{n} {ALL} https://127.0.0.{n + 2}:2380" for n in range(2)]


@pytest.fixture
def etcd(tmp_path):
    return Etcd(tmp_path)


async def test_each_member_begins_with_the_snapshot_and_the_former_data_is_aside(etcd):
    assert await etcd.replace() == etcd.members[0].folder / "volumes" / "before-mark"
    assert (etcd.data(), etcd.former()) == (NEW, ["former"] * 2)


async def test_the_same_mark_replaces_once_and_another_mark_again(etcd):
    await etcd.replace()
    (etcd.members[0].data / "member" / "db").write_text("later")
    await etcd.replace()
    assert etcd.data()[0] == "later"
    await etcd.replace("other")
    assert (etcd.data(), etcd.former("other")[0]) == (NEW, "later")


async def test_a_snapshot_is_fetched_only_while_a_member_lacks_its_data(etcd):
    for mark, expected in (("mark", 1), ("mark", 1), ("other", 2)):
        await etcd.replace(mark)
        assert etcd.fetched == expected


async def test_what_the_program_refuses_replaces_nothing_and_is_told(etcd):
    etcd.source.write_text("bad")
    with pytest.raises(restoring.NotReplaced, match="etcdutl refuses the snapshot: expected sha256"):
        await etcd.replace()
    assert etcd.data() == ["former"] * 2


async def test_a_machine_without_the_program_says_how_to_get_it(etcd):
    etcd.program.chmod(stat.S_IRUSR)
    etcd.program.unlink()
    assert "run `make kube`" in restoring.needs(etcd.binaries)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("where", "name"), [(Path, "rename"), (os, "fsync"), (Path, "write_text")])
async def test_whatever_call_is_the_last_before_the_program_ends_the_next_try_completes_it(
    etcd, monkeypatch, where, name, number, when
):
    with cut_short(monkeypatch, where, name, number, when):
        await etcd.replace()
    await etcd.replace()
    assert (etcd.data(), etcd.former()) == (NEW, ["former"] * 2)
