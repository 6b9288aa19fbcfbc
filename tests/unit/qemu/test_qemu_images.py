"""Which images a VM may have, and how those come that are fetched."""

import asyncio
import hashlib
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubewright.driver.errors import Code, DriverError, InvalidArgument
from kubewright.providers.qemu import images
from kubewright.providers.qemu.images import (
    AGAIN,
    Answer,
    Images,
    Kept,
    backing_of,
    forget_parts,
    inspected,
    qcow2_problem,
)
from kubewright.providers.qemu.spec import parse_spec
from kubewright.testing.clocks import ManualClock

CONTENT = b"an image"
HASH = hashlib.sha256(CONTENT).hexdigest()
URL = "https://images.example.com/debian"


def qcow2(
    *, version: int = 3, backing: int = 0, size: int = 4096, crypt: int = 0, features: int = 0
) -> bytes:
    """The header of a qcow2 file."""
    begin = struct.pack(">4sIQIIQI", b"QFI\xfb", version, backing, 0, 16, size, crypt)
    return begin.ljust(72, b"\0") + struct.pack(">Q", features).ljust(32, b"\0")


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (qcow2(), ""),
        (qcow2(version=2)[:72], ""),
        (qcow2(features=1), ""),
        (qcow2(backing=512), "refers to another file"),
        (qcow2(version=2, backing=512), "refers to another file"),
        (qcow2(features=4), "refers to another file"),
        (qcow2(crypt=2), "is encrypted"),
        (qcow2(version=9), "is of version 9 of qcow2"),
        (qcow2()[:103], "is cut off"),
        (qcow2()[:20], "is cut off"),
    ],
    ids=[
        "version 3",
        "version 2",
        "one that was not closed",
        "a backing file",
        "a backing file, version 2",
        "an external data file",
        "encrypted",
        "a later version",
        "half a header",
        "less",
    ],
)
def test_a_qcow2_that_a_vm_may_have(head, says):
    assert qcow2_problem(head).startswith(says)
    assert bool(qcow2_problem(head)) == bool(says)


def test_what_a_file_is(tmp_path: Path):
    path = tmp_path / "i"
    path.write_bytes(qcow2(size=12345))
    found = inspected(path, "i")
    assert (found.format, found.size) == ("qcow2", 12345)
    path.write_bytes(b"\xeb\x63" + bytes(510))
    found = inspected(path, "i")
    assert (found.format, found.size) == ("raw", 512)
    path.write_bytes(b"")
    with pytest.raises(InvalidArgument, match="image i is empty"):
        inspected(path, "i")
    path.write_bytes(qcow2(size=2**63))
    with pytest.raises(InvalidArgument, match="image i is a disk of 9223372036854775808 bytes"):
        inspected(path, "i")
    path.write_bytes(qcow2(backing=512))
    with pytest.raises(InvalidArgument, match="image i refers to another file; make one file of it"):
        inspected(path, "i")


class Server:
    """Servers of images: what each URL answers."""

    def __init__(self, **answers: object) -> None:
        self.pages: dict[str, tuple[int, str, list[bytes]]] = {URL: (200, "", [CONTENT])}
        self.asked: list[str] = []
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    @asynccontextmanager
    async def get(self, url: str) -> AsyncIterator[Answer]:
        self.asked.append(url)
        status, location, pieces = self.pages[url]

        async def sent() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece
                await self.goes_on.wait()

        yield Answer(status, location, sum(map(len, pieces)), sent())


class Fetched:
    """Images of which some are fetched, and their server."""

    def __init__(self, folder: Path) -> None:
        self.server, self.clock = Server(), ManualClock()
        allowed = ("https://images.example.com/", "https://mirror.example.com/")
        self.images = Images((folder / "images",), folder / "fetched", allowed, self.clock, self.server.get)
        self.kept = folder / "fetched"

    async def ask(self, url: str = URL, sha256: str = HASH) -> str:
        """What becomes of it: ``raw`` if it is there, else the code and the sentence."""
        try:
            return (await self.images.of(parse_spec({"image": url, "sha256": sha256}))).format
        except DriverError as error:
            return f"{error.code.name}: {error.message}"

    async def settled(self, sha256: str = HASH) -> str:
        """The same, once the fetch has ended."""
        for _ in range(1_000):
            if "is being fetched" not in (said := await self.ask(sha256=sha256)):
                return said
            await asyncio.to_thread(lambda: None)
        raise AssertionError("it is being fetched for ever")


@pytest.fixture
async def fetched(tmp_path: Path) -> AsyncIterator[Fetched]:
    found = Fetched(tmp_path)
    yield found
    await found.images.close()


async def test_an_image_is_fetched_once_for_all_who_ask(fetched: Fetched):
    fetched.server.goes_on.clear()
    said = [await fetched.ask() for _ in range(3)]
    assert [each.partition(":")[0] for each in said] == ["Unavailable"] * 3
    assert said[0] == f"Unavailable: image {URL} is being fetched: 0 MiB so far"
    fetched.server.goes_on.set()
    assert await fetched.settled() == "raw"
    assert fetched.server.asked == [URL]
    assert [each.name for each in fetched.kept.iterdir()] == [HASH]


async def test_what_is_not_what_the_class_says_is_not_kept(fetched: Fetched):
    other = "0" * 64
    assert await fetched.settled(other) == (
        f"InvalidArgument: what {URL} sends has sha256 {HASH}, and the class says {other}"
    )
    assert list(fetched.kept.iterdir()) == []


async def test_a_failed_fetch_is_repeated_after_a_while(fetched: Fetched):
    fetched.server.pages[URL] = (503, "", [])
    assert await fetched.settled() == f"Unavailable: {URL} answers with status 503"
    fetched.server.pages[URL] = (200, "", [CONTENT])
    assert "503" in await fetched.ask()
    fetched.clock.passed += AGAIN
    assert await fetched.settled() == "raw"


async def test_a_redirect_is_followed_to_where_the_administrator_allows(fetched: Fetched):
    fetched.server.pages[URL] = (302, "https://mirror.example.com/d", [])
    fetched.server.pages["https://mirror.example.com/d"] = (200, "", [CONTENT])
    assert await fetched.settled() == "raw"


@pytest.mark.parametrize("to", ["https://elsewhere.example.com/d", "http://169.254.169.254/latest", "/../x"])
async def test_and_to_nowhere_else(fetched: Fetched, to: str):
    fetched.server.pages[URL] = (302, to, [])
    fetched.server.pages["https://images.example.com/x"] = (404, "", [])
    assert "raw" not in await fetched.settled()
    assert set(fetched.server.asked) <= {URL, "https://images.example.com/x"}


@pytest.mark.parametrize("to", ["https://[", "https://images.example.com:x/"])
async def test_a_redirect_to_what_is_no_url_ends_a_fetch(fetched: Fetched, to: str):
    fetched.server.pages[URL] = (302, to, [])
    said = await fetched.settled()
    assert said.startswith(("Unavailable: image", "InvalidArgument: the image lies at"))


@pytest.mark.parametrize(
    "path", ["../secret", "a/../../secret", "%2e%2e/secret", ".%2E/secret", ".\n./secret", "..", "./a"]
)
def test_no_way_leads_out_of_a_folder_that_is_allowed(tmp_path: Path, path: str):
    images = Images((), tmp_path, ("https://images.example.com/debian/",), ManualClock())
    assert images.allowed("https://images.example.com/debian/12/a..b.qcow2")
    assert not images.allowed(f"https://images.example.com/debian/{path}")


async def test_a_server_that_sends_for_ever_is_given_up(fetched: Fetched, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(images, "FETCH_SECONDS", 0.0)
    fetched.server.goes_on.clear()
    assert await fetched.settled() == f"Unavailable: image {URL} cannot be fetched: TimeoutError"


async def test_what_is_kept_and_has_changed_is_fetched_again(fetched: Fetched):
    fetched.kept.mkdir()
    (fetched.kept / HASH).write_bytes(CONTENT[:3])
    assert await fetched.settled() == "raw"
    assert (fetched.kept / HASH).read_bytes() == CONTENT


async def test_few_images_are_fetched_at_one_time(fetched: Fetched):
    fetched.server.goes_on.clear()
    for number in range(20):
        await fetched.ask(sha256=f"{number:064x}")
    for _ in range(50):
        await asyncio.to_thread(lambda: None)
    assert len(fetched.server.asked) == images.FETCHES


async def test_few_images_wait_to_be_fetched(fetched: Fetched):
    fetched.server.goes_on.clear()
    said = [await fetched.ask(sha256=f"{number:064x}") for number in range(images.WAITING + 1)]
    assert all("is being fetched" in each for each in said[:-1])
    assert said[-1] == f"Unavailable: {images.WAITING} other images wait to be fetched already"
    assert "is being fetched" in await fetched.ask(sha256=f"{0:064x}"), "those that wait go on"


def names(*numbers: int) -> list[str]:
    return [f"{each:064x}" for each in numbers]


ONE, TWO, THREE = names(1, 2, 3)
THERE = [Kept(TWO, 10, 200.0), Kept(ONE, 10, 100.0), Kept(THREE, 10, 300.0), Kept(f"{ONE}.part", 99, 1.0)]


@pytest.mark.parametrize(
    ("in_use", "wanted", "before", "going"),
    [
        ([], 0, 1e9, []),
        ([], -5, 1e9, []),
        ([], 1, 1e9, [ONE]),
        ([], 11, 1e9, [ONE, TWO]),
        ([], 99, 1e9, [ONE, TWO, THREE]),
        ([ONE], 1, 1e9, [TWO]),
        ([], 99, 250.0, [ONE, TWO]),
    ],
    ids=[
        "there is room",
        "there is more than enough",
        "the one that was used longest ago",
        "as many as are needed",
        "all of them where that is not enough, and nothing else that lies there",
        "not the one that a VM has an overlay of",
        "not the one that was used a moment ago",
    ],
)
def test_which_images_go_for_another(in_use: list[str], wanted: int, before: float, going: list[str]):
    found = images.to_evict(THERE, frozenset(in_use), wanted, before)
    assert [each.name for each in found] == going


async def test_an_image_that_no_vm_needs_goes_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(images, "KEPT", 2 * len(CONTENT))
    fetched = Fetched(tmp_path)
    fetched.images.in_use = lambda: {ONE}
    fetched.kept.mkdir()
    for name in (ONE, TWO):
        (fetched.kept / name).write_bytes(CONTENT)
        os.utime(fetched.kept / name, (0, 0))
    assert await fetched.settled() == "raw"
    assert sorted(each.name for each in fetched.kept.iterdir()) == sorted((ONE, HASH))
    fetched.images.in_use = lambda: {ONE, HASH}
    more = await fetched.settled(THREE)
    assert more.startswith("ResourceExhausted: the image has more than the 0 MiB for which there is room")
    await fetched.images.close()


async def test_no_image_goes_where_it_is_not_known_which_are_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def unknown() -> set[str]:
        raise OSError(5, "Input/output error")

    fetched = Fetched(tmp_path)
    fetched.images.in_use = unknown
    fetched.kept.mkdir()
    (fetched.kept / ONE).write_bytes(CONTENT)
    os.utime(fetched.kept / ONE, (0, 0))
    assert await fetched.settled() == "raw", "there is room, so it is not asked"
    monkeypatch.setattr(images, "KEPT", 2 * len(CONTENT))
    assert (await fetched.settled(THREE)).endswith("Input/output error")
    assert (fetched.kept / ONE).exists()
    await fetched.images.close()


def test_the_image_of_which_a_disk_is_an_overlay(tmp_path: Path):
    disk, name = tmp_path / "disk", b"/images/debian.qcow2"
    begin = struct.pack(">4sIQIIQI", b"QFI\xfb", 3, 200, len(name), 16, 4096, 0)
    disk.write_bytes(begin.ljust(200, b"\0") + name)
    assert backing_of(disk) == "/images/debian.qcow2"
    disk.write_bytes(qcow2())
    assert backing_of(disk) == ""
    disk.write_bytes(b"QFI\xfb")
    assert backing_of(disk) == ""
    assert backing_of(tmp_path / "none") == ""
    with pytest.raises(
        OSError, match="directory"
    ):  # as an input error: whether an image is in use is not known
        backing_of(tmp_path)


async def test_redirects_in_a_circle_end(fetched: Fetched):
    fetched.server.pages[URL] = (302, URL, [])
    assert "more than 5 redirects" in await fetched.settled()


async def test_what_is_not_allowed_is_never_asked_for(fetched: Fetched):
    for url in ("https://images.example.com.evil.example/d", "http://images.example.com/d"):
        assert (await fetched.ask(url)).startswith("InvalidArgument: image: the administrator")
    assert fetched.server.asked == []


async def test_a_named_image_is_compared_again_only_when_it_has_changed(fetched: Fetched, tmp_path: Path):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "debian").write_bytes(CONTENT)
    assert await fetched.ask("debian") == "raw"
    (folder / "debian").write_bytes(b"changed!!")
    assert "correct one of them" in await fetched.ask("debian")


async def test_a_named_image_that_is_not_there_says_where_it_was_looked_for(fetched: Fetched, tmp_path: Path):
    assert await fetched.ask("debian", "") == (
        f"FailedPrecondition: there is no image debian in {tmp_path / 'images'}; put it there"
    )


def test_what_an_earlier_process_had_begun_to_fetch_is_forgotten(tmp_path: Path):
    (tmp_path / f"{HASH}.part").touch()
    (tmp_path / HASH).touch()
    forget_parts(tmp_path)
    forget_parts(tmp_path / "missing")
    assert [each.name for each in tmp_path.iterdir()] == [HASH]


async def test_codes_of_what_is_missing(fetched: Fetched):
    with pytest.raises(DriverError) as said:
        fetched.images.named("nothing")
    assert said.value.code == Code.FailedPrecondition
