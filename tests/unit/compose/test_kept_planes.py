"""The file of nested control planes, written by threads: what is acknowledged is in it, at every moment."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kubewright.base.errors import Unwritten
from kubewright.compose import kept_planes
from kubewright.compose.folder import Claims
from kubewright.compose.kept_planes import Kept, KeptPlanes

pytestmark = pytest.mark.looptime(False)
SECONDS = 10
"""The deadline of each wait; none takes milliseconds."""


class Disk:
    """Takes the place of the disk: once it ``stops``, each write waits until it is let through, or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._write: Callable[[Path, bytes], None] = kept_planes.write_private
        self._arrived, self._let_through = threading.Semaphore(0), threading.Semaphore(0)
        self._stopped = self.fails = False
        self.writes = 0
        monkeypatch.setattr(kept_planes, "write_private", self._private)

    def _private(self, path: Path, content: bytes) -> None:
        if self._stopped:
            self._arrived.release()
            assert self._let_through.acquire(timeout=SECONDS)
        if self.fails:
            raise Unwritten("cannot write: No space left on device")
        self.writes += 1
        self._write(path, content)

    def stops(self) -> None:
        self._stopped = True

    async def reached(self) -> None:
        """A thread waits for the disk."""
        assert await asyncio.to_thread(self._arrived.acquire, timeout=SECONDS)

    def lets_one_through(self) -> None:
        self._let_through.release()

    def goes_on(self) -> None:
        self._stopped = False
        self._let_through.release()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def kept(folder: Path, *names: str) -> KeptPlanes:
    planes = KeptPlanes(folder, Claims())
    for number, name in enumerate(names):
        planes.add(name, f"127.0.0.1:{number}")
    return planes


def on_disk(folder: Path) -> dict[str, Kept | None]:
    """What a process would have that starts now, after ``kill -9`` of this one."""
    again = KeptPlanes(folder, Claims())
    return {name: again.get(name) for name in again.addresses()}


async def begun(*calls: "asyncio.Task[None]") -> None:
    """Each has got as far as it gets without the disk."""
    for _ in range(5):
        await asyncio.wait(calls, timeout=0)


async def test_what_is_acknowledged_is_in_the_file(tmp_path: Path, disk: Disk) -> None:
    planes = kept(tmp_path, "a", "b")
    await planes.change("a", data=True)
    assert on_disk(tmp_path)["a"] == planes.get("a") == Kept("127.0.0.1:0", data=True)
    assert on_disk(tmp_path)["b"] == Kept("127.0.0.1:1")


async def test_nothing_is_acknowledged_before_it_is_in_the_file(tmp_path: Path, disk: Disk) -> None:
    planes = kept(tmp_path, "a")
    disk.stops()
    change = asyncio.create_task(planes.change("a", data=True))
    await disk.reached()
    assert not change.done()
    assert planes.get("a") == on_disk(tmp_path)["a"] == Kept("127.0.0.1:0")
    disk.goes_on()
    await change
    assert on_disk(tmp_path)["a"] == Kept("127.0.0.1:0", data=True)


async def test_changes_of_many_that_wait_are_one_write(tmp_path: Path, disk: Disk) -> None:
    names = [f"plane-{number}" for number in range(20)]
    planes, before = kept(tmp_path, *names), len(names)
    disk.stops()
    changes = [asyncio.create_task(planes.change(name, data=True)) for name in names]
    await disk.reached()
    await begun(*changes)
    disk.goes_on()
    await asyncio.gather(*changes)
    assert all(each is not None and each.data for each in on_disk(tmp_path).values())
    assert disk.writes - before == 2


async def test_two_changes_of_one_that_wait_are_both_acknowledged_only_when_they_are_in_the_file(
    tmp_path: Path, disk: Disk
) -> None:
    planes = kept(tmp_path, "a", "other")
    disk.stops()
    others = asyncio.create_task(planes.change("other", data=True))
    await disk.reached()
    changes = [asyncio.create_task(planes.change("a", **{name: True})) for name in ("data", "written")]
    await begun(*changes)
    seen: list[Kept | None] = []
    changes[0].add_done_callback(lambda _task: seen.append(on_disk(tmp_path)["a"]))
    disk.goes_on()
    await asyncio.gather(others, *changes)
    await asyncio.wait(changes)
    assert seen == [Kept("127.0.0.1:0", data=True, written=True)]


async def test_a_crash_between_two_joined_writes_keeps_the_first(tmp_path: Path, disk: Disk) -> None:
    planes = kept(tmp_path, "a", "b")
    disk.stops()
    first = asyncio.create_task(planes.change("a", data=True))
    await disk.reached()
    second = asyncio.create_task(planes.change("b", data=True))
    await begun(second)
    disk.lets_one_through()
    await first
    await disk.reached()
    assert on_disk(tmp_path) == {"a": Kept("127.0.0.1:0", data=True), "b": Kept("127.0.0.1:1")}
    disk.goes_on()
    await second
    assert on_disk(tmp_path)["b"] == Kept("127.0.0.1:1", data=True)


async def test_a_disk_that_fails_acknowledges_nothing_and_the_next_call_writes_it(
    tmp_path: Path, disk: Disk
) -> None:
    planes = kept(tmp_path, "a", "b")
    disk.fails = True
    failed = await asyncio.gather(*(planes.change(name, data=True) for name in "ab"), return_exceptions=True)
    assert [type(each) for each in failed] == [Unwritten, Unwritten]
    assert planes.get("a") == on_disk(tmp_path)["a"] == Kept("127.0.0.1:0")
    disk.fails = False
    await planes.change("a", data=True)
    assert on_disk(tmp_path) == {
        "a": Kept("127.0.0.1:0", data=True),
        "b": Kept("127.0.0.1:1", data=True),
    }


async def test_a_change_that_is_cancelled_while_the_thread_writes_is_made_or_taken_back_by_the_next_call(
    tmp_path: Path, disk: Disk
) -> None:
    planes = kept(tmp_path, "a")
    disk.stops()
    change = asyncio.create_task(planes.change("a", data=True))
    await disk.reached()
    change.cancel()
    await asyncio.wait([change])
    back = asyncio.create_task(planes.change("a", data=False))
    await begun(back)
    disk.goes_on()
    await back
    assert planes.get("a") == on_disk(tmp_path)["a"] == Kept("127.0.0.1:0")
    await planes.change("a", data=True)
    assert on_disk(tmp_path)["a"] == Kept("127.0.0.1:0", data=True)


async def test_a_thread_that_comes_late_does_not_undo_what_was_written_meanwhile(
    tmp_path: Path, disk: Disk
) -> None:
    planes = kept(tmp_path, "a")
    disk.stops()
    change = asyncio.create_task(planes.change("a", data=True))
    await disk.reached()
    change.cancel()
    await asyncio.wait([change])
    adding = asyncio.create_task(asyncio.to_thread(planes.add, "b", "127.0.0.1:1"))
    disk.goes_on()
    await adding
    planes.forget("a")
    assert on_disk(tmp_path) == {"b": Kept("127.0.0.1:1")}


async def test_one_that_is_forgotten_and_added_anew_while_others_are_written_has_its_new_address(
    tmp_path: Path, disk: Disk
) -> None:
    """Its change was cancelled; the write that others wait for had taken it up."""
    planes = kept(tmp_path, "first", "a", "b")
    disk.stops()
    first = asyncio.create_task(planes.change("first", data=True))
    await disk.reached()
    cancelled, others = (asyncio.create_task(planes.change(name, data=True)) for name in ("a", "b"))
    await begun(cancelled, others)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    disk.lets_one_through()
    await first
    await disk.reached()
    disk.goes_on()
    planes.forget("a")
    planes.add("a", "127.0.0.1:9")
    await others
    assert on_disk(tmp_path)["a"] == planes.get("a") == Kept("127.0.0.1:9")
    assert on_disk(tmp_path)["b"] == Kept("127.0.0.1:2", data=True)
