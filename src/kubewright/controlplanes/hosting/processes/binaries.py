"""Where the programs of components are on this machine, in the version that is wanted.

Theory.      There may be several versions of a program, so it is looked for by its name in several folders,
             and each of ``VERSIONED`` that is found is asked for its version. The folders are, in this order:
             those of an option and of ``KUBEWRIGHT_ASSETS``, with or without a folder for each version; the
             cache that ``make kube`` fills; those of PATH. A user who may edit a component may name another
             program than the usual one. So a name is looked for, never a path; and one that does not begin
             with that of the usual program only in folders that the administrator named for such programs:
             those of PATH have shells and the like.
Invariants.  Nothing is run that is not in one of these folders under the name that was asked for. Nothing is
             downloaded. A program is asked once, with a deadline; the answer is remembered by path, size and
             time of change. Only the wanted version is used; ``missing`` names the others that were found.
Called by    ``host``.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kubewright.processes.program import MIB

ASSETS = "KUBEWRIGHT_ASSETS"
"""The environment variable with folders of programs, separated as in PATH."""
CACHE = "kubewright/kube"
ANSWER_SECONDS = 20.0
MOST_VERSIONS = 64
"""How many folders of versions are looked into, at most, in each folder."""
ANSWER_BYTES = MIB
VERSIONED = ("etcd", "kube-apiserver", "kube-controller-manager")
"""The programs that have to have the wanted version; they answer ``--version``."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
LONGEST_NAME = 100
TOOLS = frozenset({"kubectl", "kubeadm", "kubelet", "etcdctl", "etcdutl", "helm", "clusterctl"})
"""Programs that lie beside those of components, and that run what their arguments and settings say."""
SYSTEM = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")

_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+[0-9A-Za-z.+-]*)")

Stamp = tuple[str, int, int]
"""A program: its path, its size, and when it was changed, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no program of that version; ``message`` says which were found, and how to get it."""

    message: str


@dataclass(frozen=True, slots=True)
class Places:
    """The folders to look in, in order.

    ``flat``   those of PATH, whose subfolders are not looked into
    ``named``  those of the first that the administrator named, and that are neither in PATH nor the cache:
               programs of any name may be taken from there
    """

    versioned: tuple[Path, ...] = ()
    flat: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()


def places(environ: Mapping[str, str], folders: Iterable[str] = ()) -> Places:
    """Where to look: ``folders`` of an option come first."""
    texts = [*folders, *environ.get(ASSETS, "").split(os.pathsep)]
    named = [Path(each).expanduser() for each in texts if each]
    home = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '~')}/.cache"
    cache = Path(f"{home}/{CACHE}").expanduser()
    searched = [Path(each) for each in environ.get("PATH", "").split(os.pathsep) if each]
    public = {each.resolve() for each in (*searched, *map(Path, SYSTEM), cache)}
    own = [each for each in named if public.isdisjoint({each.resolve(), *each.resolve().parents})]
    return Places((*named, cache), tuple(searched), tuple(own))


def admitted(program: str, usual: str) -> bool:
    """Whether this is the usual program of a component, or a variant of it: ``etcd`` or ``etcd-fips``."""
    return program == usual or program.startswith(f"{usual}-")


def _folders(program: str, usual: str, where: Places) -> Places:
    """Those of the folders from which a component may have this program instead of the usual one."""
    if admitted(program, usual):
        return where
    return Places(() if program in TOOLS else where.named)


def candidates(program: str, version: str, where: Places, usual: str = "") -> Iterator[Path]:
    """The programs of this name: in each folder itself, then in its subfolders, that of the version first."""
    where = _folders(program, usual or program, where)
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
        f"`make kube`, or put it into a folder that --component-programs or {ASSETS} names"
    )


def unknown(program: str, usual: str) -> Missing:
    """What to tell a user who names another program than the usual one."""
    return Missing(
        f"there is no program {program} for {usual} on this machine: spec.binary names {usual}, a program "
        f"whose name begins with {usual}-, or one in a folder of --component-programs or {ASSETS} that is "
        "neither in PATH nor the cache"
    )


class Binaries:
    """The programs of this machine, and the versions that they have answered."""

    def __init__(self, where: Places) -> None:
        self._where = where
        self._said: dict[Stamp, str] = {}

    def admits(self, path: Path, usual: str) -> bool:
        """Whether a program of a component that has this one may be started again from this path.

        The folders are those that ``candidates`` looks into, so what is started again could be found again.
        """
        where = _folders(path.name, usual, self._where)
        above = [each.resolve() for each in (path.parent, path.parent.parent)]
        return ".." not in path.parts and (
            any(each.resolve() in above for each in where.versioned)
            or any(each.resolve() == above[0] for each in where.flat)
        )

    def known(self, program: str, version: str, usual: str = "") -> Path | Missing | None:
        """The program of this version, without asking any; None: some were not asked yet.

        ``usual``: the program that the component has where the user names none; empty: this one.
        """
        if not NAME.fullmatch(program):
            return Missing(f"{program[:LONGEST_NAME]!r} is not the name of a program")
        found: dict[Path, str] = {}
        for path in candidates(program, version, self._where, usual):
            if program not in VERSIONED:
                return path
            if (said := self._said.get(_stamp(path))) is None:
                return None
            if said == version.removeprefix("v"):
                return path
            found[path] = said
        if program in VERSIONED:
            return missing(program, version, found)
        return unknown(program, usual or program)

    async def find(self, program: str, version: str, usual: str = "") -> Path | Missing:
        """The program of this version; programs that were not asked yet are asked."""
        for path in candidates(program, version, self._where, usual):
            if self.known(program, version, usual) is not None:
                break
            if (stamp := _stamp(path)) not in self._said:
                self._said[stamp] = await _asked(path)
        return self.known(program, version, usual) or Missing(f"{program} is being changed on this machine")


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
