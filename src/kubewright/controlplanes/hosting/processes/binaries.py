"""Where the programs of components are on this machine, in the version that is wanted.

Theory.      There may be several versions of a program, so it is looked for by its name in several folders,
             and each of ``VERSIONED`` that is found is asked for its version. The folders are, in this order:
             those of an option and of ``KUBEWRIGHT_ASSETS``, with or without a folder for each version; the
             cache that ``make kube`` fills; those of PATH. A program that the user names by a path is taken
             without being asked.
Invariants.  Nothing is downloaded. A program is asked once, with a deadline; the answer is remembered by
             path, size and time of change. Only the wanted version is used; ``missing`` names the others that
             were found.
Called by    ``host``.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kubewright.processes.life import MIB

ASSETS = "KUBEWRIGHT_ASSETS"
"""The environment variable with folders of programs, separated as in PATH."""
CACHE = "kubewright/kube"
ANSWER_SECONDS = 20.0
MOST_VERSIONS = 64
"""How many folders of versions are looked into, at most, in each folder."""
ANSWER_BYTES = MIB
VERSIONED = ("etcd", "kube-apiserver", "kube-controller-manager")
"""The programs that have to have the wanted version; they answer ``--version``."""

_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+[0-9A-Za-z.+-]*)")

Stamp = tuple[str, int, int]
"""A program: its path, its size, and when it was changed, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no program of that version; ``message`` says which were found, and how to get it."""

    message: str


@dataclass(frozen=True, slots=True)
class Places:
    """The folders to look in, in order. ``flat``: those of PATH, whose subfolders are not looked into."""

    versioned: tuple[Path, ...] = ()
    flat: tuple[Path, ...] = ()


def places(environ: Mapping[str, str], folders: Iterable[str] = ()) -> Places:
    """Where to look: ``folders`` of an option come first."""
    named = [*folders, *environ.get(ASSETS, "").split(os.pathsep)]
    cache = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '~')}/.cache"
    versioned = [Path(each).expanduser() for each in (*named, f"{cache}/{CACHE}") if each]
    searched = [Path(each) for each in environ.get("PATH", "").split(os.pathsep) if each]
    return Places(tuple(versioned), tuple(searched))


def candidates(program: str, version: str, where: Places) -> Iterator[Path]:
    """The programs of this name: in each folder itself, then in its subfolders, that of the version first."""
    for folder in where.versioned:
        below = sorted(_below(folder), key=lambda each: each.name.removeprefix("v") != version)
        yield from _executable(each / program for each in (folder, *below[:MOST_VERSIONS]))
    yield from _executable(folder / program for folder in where.flat)


def version_in(said: str) -> str:
    """The version in the output of a program, without a leading v; empty if there is none."""
    found = _VERSION.search(said)
    return found[1] if found else ""


def missing(program: str, version: str, found: Mapping[Path, str]) -> Missing:
    """What to tell a user whose version does not exist on this machine."""
    others = ", ".join(f"{path} is {said or 'of unknown version'}" for path, said in found.items())
    return Missing(
        f"there is no {program} of version {version} on this machine ({others or 'none was found'}): run "
        f"`make kube`, put it into a folder that {ASSETS} names, or name it in spec.binary"
    )


class Binaries:
    """The programs of this machine, and the versions that they have answered."""

    def __init__(self, where: Places) -> None:
        self._where = where
        self._said: dict[Stamp, str] = {}

    def known(self, program: str, version: str) -> Path | Missing | None:
        """The program of this version, without asking any; None: some were not asked yet."""
        if "/" in program:
            there = os.access(program, os.X_OK) and Path(program).is_file()
            return Path(program) if there else Missing(f"{program} is no program that can be executed")
        found: dict[Path, str] = {}
        for path in candidates(program, version, self._where):
            if program not in VERSIONED:
                return path
            if (said := self._said.get(_stamp(path))) is None:
                return None
            if said == version.removeprefix("v"):
                return path
            found[path] = said
        return missing(program, version, found)

    async def find(self, program: str, version: str) -> Path | Missing:
        """The program of this version; programs that were not asked yet are asked."""
        for path in candidates(program, version, self._where):
            if self.known(program, version) is not None:
                break
            if (stamp := _stamp(path)) not in self._said:
                self._said[stamp] = await _asked(path)
        return self.known(program, version) or Missing(f"{program} is being changed on this machine")


def _executable(paths: Iterable[Path]) -> Iterator[Path]:
    yield from (path for path in paths if os.access(path, os.X_OK) and path.is_file())


def _below(folder: Path) -> list[Path]:
    try:
        return [each for each in sorted(folder.iterdir(), reverse=True) if each.is_dir()]
    except OSError:
        return []


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:  # gone since it was listed
        return str(path), 0, 0
    return str(path), found.st_size, found.st_mtime_ns


async def _asked(path: Path) -> str:
    """Ask a program for its version; empty if it does not answer in time."""
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            "--version",
            env={},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return version_in(said[:ANSWER_BYTES].decode(errors="replace"))
