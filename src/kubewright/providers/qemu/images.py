"""Disk images: files in the administrator's folders by their names, and images that are fetched and kept.

Theory.      An image is a backing file that no VM writes to; each VM has an overlay of it. Two things of an
             image are hostile until they were looked at. Its content may be another than the class says:
             ``sha256`` is compared, once for each state of a file. And a qcow2 file may name further files of
             the machine as a part of itself, which its VM could then read: the header is read here, before
             any program opens the image, and one that refers to another file is refused. Fetching takes
             minutes, and a driver's call may not: it goes on by itself, and a call that needs the image says
             how far it is. What was fetched lies under its own hash, so two classes share it. It is kept
             until the room is needed for another image: then those go that no VM's disk is an overlay of,
             the ones that were used longest ago first.
Invariants.  Only from addresses that the administrator allows, redirects included; never more than
             ``LARGEST`` bytes of one image or ``KEPT`` of all. Nothing stands under a hash that it does not
             have. A fetch that failed is begun again after ``AGAIN`` seconds at the soonest. No image goes
             that a VM needs, or that a VM may just be made of.
Source       the header of qcow2: QEMU's docs/interop/qcow2.txt, versions 2 and 3.
Called by    ``driver``.
"""

import asyncio
import hashlib
import os
import re
import shutil
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urljoin

import aiohttp
import structlog

from kubewright.base.clock import Clock
from kubewright.driver.errors import Code, DriverError, Exhausted, InvalidArgument
from kubewright.providers.qemu.spec import GIB, LARGEST_DISK, LEAST_FREE, MIB, QemuSpec

log = structlog.get_logger(__name__)

LARGEST, KEPT = 16 * GIB, 128 * GIB
AGAIN = 60.0
CONNECT_SECONDS, SILENT_SECONDS = 30.0, 60.0
FETCH_SECONDS = 4 * 3600.0
"""How long the fetch of one image may take at the most."""
FETCHES, WAITING = 4, 64
"""Images that are fetched at one time, and those that are fetched or wait for that or for another try."""
JUST_USED = 3600.0
"""Seconds after its last use in which an image does not go: a VM may be in the making of it."""
ELSEWHERE = re.compile(r"[\x00-\x1f\x7f\\]|/\.\.?([/?#]|\Z)")
"""In a URL: what is taken out of it, or leads out of its folder, before it is asked for."""
PIECE = 4 * MIB
REDIRECTS = 5
MAGIC = b"QFI\xfb"
MOST_PATH = 1023
"""Bytes of a backing file's name, by the format."""
DATA_FILE = 1 << 2
"""Among the incompatible features of a qcow2 file: its content lies in another file."""


@dataclass(frozen=True, slots=True)
class Image:
    """A file that QEMU opens as ``format`` (``qcow2`` or ``raw``); ``size`` is that of the disk, in bytes."""

    path: Path
    format: str
    size: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server of images says: status, where it points to instead, how much follows, and the bytes."""

    status: int
    location: str
    length: int | None
    pieces: AsyncIterator[bytes]


Get = Callable[[str], AbstractAsyncContextManager[Answer]]


@asynccontextmanager
async def over_http(url: str) -> AsyncIterator[Answer]:
    """GET, without following redirects.

    Raises:
        aiohttp.ClientError, TimeoutError: the server cannot be reached, or falls silent.
    """
    limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=limits, trust_env=True) as session,
        session.get(url, allow_redirects=False) as got,
    ):
        pieces = got.content.iter_chunked(PIECE)
        yield Answer(got.status, got.headers.get("Location", ""), got.content_length, pieces)


@dataclass
class _Fetch:
    """One image on its way. ``failed``: why it did not come, and ``at``: when that was."""

    task: asyncio.Task[None] | None = None
    done: int = 0
    total: int | None = None
    failed: DriverError | None = None
    at: float = 0.0


@dataclass
class Images:
    """All images of one machine.

    ``folders``   the administrator's
    ``kept``      where fetched images lie
    ``prefixes``  what a URL may begin with
    ``in_use``    the names of those fetched images that VMs have overlays of; it is asked in a thread, and
                  raises an OSError where it cannot tell: then none goes
    """

    folders: Sequence[Path]
    kept: Path
    prefixes: Sequence[str]
    clock: Clock
    get: Get = over_http
    in_use: Callable[[], Set[str]] = frozenset
    _fetches: dict[str, _Fetch] = field(default_factory=dict)
    _hashes: dict[tuple[int, ...], str] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FETCHES))

    async def of(self, spec: QemuSpec) -> Image:
        """The image of a class.

        Raises:
            DriverError: ``FailedPrecondition`` if it is not there, ``InvalidArgument`` if it is not what the
                class says or no image that a VM may have, ``Unavailable`` while it is being fetched.
        """
        if spec.url:
            path = self.kept / spec.sha256
            if path.exists() and await self._hash(path) != spec.sha256:
                path.unlink(missing_ok=True)  # as a power failure may leave it
            if not path.exists():
                raise self._fetching(spec)
            await asyncio.to_thread(_used_at, path, self.clock.now().timestamp())
        else:
            path = self.named(spec.image)
            await self._compare(path, spec)
        return await asyncio.to_thread(inspected, path, spec.image)

    def named(self, name: str) -> Path:
        """The file of this name.

        Raises:
            DriverError: no folder has it (``FailedPrecondition``).
        """
        for folder in self.folders:
            if (path := folder / name).is_file():
                return path
        where = " or ".join(str(each) for each in self.folders)
        raise DriverError.of(Code.FailedPrecondition, f"there is no image {name} in {where}; put it there")

    def allowed(self, url: str) -> bool:
        """Whether the administrator lets images be fetched from there."""
        return not ELSEWHERE.search(unquote(url)) and any(url.startswith(each) for each in self.prefixes)

    async def close(self) -> None:
        """End what is being fetched; it is begun anew by the next process."""
        tasks = [each.task for each in self._fetches.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _compare(self, path: Path, spec: QemuSpec) -> None:
        if not spec.sha256:
            return
        if (found := await self._hash(path)) != spec.sha256:
            raise InvalidArgument(
                f"image {spec.image} has sha256 {found}, and the class says {spec.sha256}: "
                "correct one of them"
            )

    async def _hash(self, path: Path) -> str:
        """That of its content; it is read once for each state of the file."""
        state = await asyncio.to_thread(path.stat)
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        if key not in self._hashes:
            if len(self._hashes) >= 1_000:
                self._hashes.clear()
            self._hashes[key] = await asyncio.to_thread(_sha256, path)
        return self._hashes[key]

    def _fetching(self, spec: QemuSpec) -> DriverError:
        """Begin to fetch unless that has begun; what a caller is told meanwhile."""
        if not self.allowed(spec.url):
            return InvalidArgument(
                f"image: the administrator of this machine does not let {spec.url} be fetched "
                "(driver option imageUrls)"
            )
        found, now = self._fetches.get(spec.sha256), self.clock.monotonic()
        if found is not None and found.failed is not None and now < found.at + AGAIN:
            return found.failed
        if found is None or found.failed is not None:
            old = [key for key, each in self._fetches.items() if each.failed and now >= each.at + AGAIN]
            for key in old:
                del self._fetches[key]
            if found is None and len(self._fetches) >= WAITING:
                return DriverError.of(Code.Unavailable, f"{WAITING} other images wait to be fetched already")
            found = self._fetches[spec.sha256] = _Fetch()
            found.task = asyncio.create_task(self._fetch(spec.url, spec.sha256, found))
        far = f"{found.done / MIB:.0f} MiB" + (f" of {found.total / MIB:.0f}" if found.total else "")
        return DriverError.of(Code.Unavailable, f"image {spec.url} is being fetched: {far} so far")

    async def _fetch(self, url: str, sha256: str, fetch: _Fetch) -> None:
        part = self.kept / f"{sha256}.part"
        try:
            self.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
            async with self._slots, asyncio.timeout(FETCH_SECONDS):
                found = await self._download(url, part, fetch)
            if found != sha256:
                raise InvalidArgument(f"what {url} sends has sha256 {found}, and the class says {sha256}")
            part.replace(self.kept / sha256)
            del self._fetches[sha256]
        except DriverError as error:
            fetch.failed = error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:  # the last one: of no URL
            said = str(error) or type(error).__name__
            fetch.failed = DriverError.of(Code.Unavailable, f"image {url} cannot be fetched: {said}")
        except OSError as error:
            fetch.failed = Exhausted(f"image {url} cannot be kept in {self.kept}: {error.strerror}")
        finally:
            fetch.at = self.clock.monotonic()
            part.unlink(missing_ok=True)

    async def _download(self, url: str, part: Path, fetch: _Fetch) -> str:
        """The sha256 of what came."""
        for _ in range(REDIRECTS):
            async with self.get(url) as answer:
                if answer.status in (301, 302, 303, 307, 308):
                    url = urljoin(url, answer.location)
                    if not self.allowed(url):
                        raise InvalidArgument(
                            f"the image lies at {url} now, which is not allowed (imageUrls)"
                        )
                    continue
                if answer.status != 200:
                    raise DriverError.of(Code.Unavailable, f"{url} answers with status {answer.status}")
                fetch.total = answer.length
                room = await asyncio.to_thread(self._room, min(answer.length or LARGEST, LARGEST))
                return await _written(answer, part, min(LARGEST, room), fetch)
        raise DriverError.of(Code.Unavailable, f"{url}: more than {REDIRECTS} redirects")

    def _room(self, wanted: int) -> int:
        """How many bytes there are for a further image, after others have gone for it."""
        files = [(each.name, each.stat()) for each in self.kept.iterdir()]
        there = [Kept(name, state.st_size, state.st_atime) for name, state in files]
        free = min(KEPT - sum(each.size for each in there), shutil.disk_usage(self.kept).free - LEAST_FREE)
        before = self.clock.now().timestamp() - JUST_USED
        in_use = self.in_use() if wanted > free else frozenset[str]()
        for each in to_evict(there, in_use, wanted - free, before):
            log.info("an image that no VM needs goes for another", image=each.name, bytes=each.size)
            (self.kept / each.name).unlink(missing_ok=True)
            free += each.size
        return max(free, 0)


@dataclass(frozen=True, slots=True)
class Kept:
    """A fetched image: ``size`` in bytes, and when it was ``used`` last, in seconds since the epoch."""

    name: str
    size: int
    used: float


def to_evict(there: Iterable[Kept], in_use: Set[str], bytes_wanted: int, before: float) -> list[Kept]:
    """Which of the images go for so many bytes: no more than are needed for that, and none that is in use or
    was used since ``before``. Pure."""
    unused = [each for each in there if each.name not in in_use and each.used < before]
    may_go = [each for each in unused if _is_hash(each.name)]
    going: list[Kept] = []
    for each in sorted(may_go, key=lambda one: one.used):
        if sum(one.size for one in going) >= bytes_wanted:
            break
        going.append(each)
    return going


def _is_hash(name: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", name) is not None


def _used_at(path: Path, now: float) -> None:
    """Write down that it was used; its content's time stays, by which its hash is known."""
    with suppress(OSError):
        os.utime(path, ns=(int(now * 1e9), path.stat().st_mtime_ns))


def backing_of(disk: Path) -> str:
    """The image of which a VM's disk is an overlay: its path; empty if it is none, or gone.

    Raises:
        OSError: it is there and cannot be read.
    """
    with suppress(FileNotFoundError, struct.error), disk.open("rb") as file:
        head = file.read(104)
        if head.startswith(MAGIC):
            offset, length = struct.unpack_from(">QI", head, 8)
            file.seek(offset)
            return file.read(min(length, MOST_PATH)).decode(errors="replace") if offset else ""
    return ""


async def _written(answer: Answer, part: Path, most: int, fetch: _Fetch) -> str:
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
        async for piece in answer.pieces:
            fetch.done += len(piece)
            if fetch.done > most:
                raise Exhausted(f"the image has more than the {most / MIB:.0f} MiB for which there is room")
            await asyncio.to_thread(_take, file.write, digest.update, piece)
    return digest.hexdigest()


def _take(write: Callable[[bytes], object], update: Callable[[bytes], object], piece: bytes) -> None:
    write(piece)
    update(piece)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def inspected(path: Path, name: str) -> Image:
    """What a file is.

    Raises:
        InvalidArgument: it is a qcow2 that no VM may have, or empty.
        DriverError: it cannot be read (``FailedPrecondition``).
    """
    try:
        with path.open("rb") as file:
            head, size = file.read(104), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise DriverError.of(Code.FailedPrecondition, f"image {name}: {error.strerror}") from None
    if not head.startswith(MAGIC):
        if not size:
            raise InvalidArgument(f"image {name} is empty")
        return Image(path, "raw", size)
    if problem := qcow2_problem(head):
        raise InvalidArgument(f"image {name} {problem}")
    size = struct.unpack_from(">Q", head, 24)[0]
    if not 0 < size <= LARGEST_DISK:
        raise InvalidArgument(
            f"image {name} is a disk of {size} bytes; it may have {LARGEST_DISK // GIB} GiB"
        )
    return Image(path, "qcow2", size)


def qcow2_problem(head: bytes) -> str:
    """Why a VM may not have a qcow2 file that begins so; empty if it may."""
    if len(head) < 72:
        return "is cut off"
    version, backing = struct.unpack_from(">IQ", head, 4)
    if version not in (2, 3):
        return f"is of version {version} of qcow2, which is not known here"
    if version == 3 and len(head) < 104:
        return "is cut off"
    if struct.unpack_from(">I", head, 32)[0]:
        return "is encrypted"
    features = struct.unpack_from(">Q", head, 72)[0] if version == 3 else 0
    if backing or features & DATA_FILE:
        return "refers to another file; make one file of it (qemu-img convert)"
    return ""


def forget_parts(kept: Path) -> None:
    """Delete what an earlier process had begun to fetch."""
    for each in kept.glob("*.part") if kept.is_dir() else ():
        with suppress(OSError):
            each.unlink()
