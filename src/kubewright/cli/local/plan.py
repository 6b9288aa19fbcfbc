"""What ``local setup`` changes and what ``local restore`` undoes. Pure.

Theory.      Everything that can be changed has three values: what was found before us (written into the
             record), what we wrote, and what is there now. Where the present value is ours, ``restore`` puts
             back what was found; where it is neither, another hand has changed it since, and it stays. So
             both commands can be repeated, and begun again after an end at any moment: a change that the
             record tells of and that was not made yet looks as found, and there is nothing to undo.
Invariants.  What was equal to what we want before us is never in the record. A present value that is not ours
             replaces what the record says was found; ours never does. A Deployment with another uid is
             another one, and is not touched.
Called by    ``command``.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api.apps import Deployment
from kubewright.api.core import Pod
from kubewright.base.errors import InvalidInput

IGNORED_BY_WATCHDOG = "dependency-watchdog.gardener.cloud/ignore-scaling"
"""Gardener's dependency watchdog scales Deployments up that it finds scaled down, but for those with it."""
MARKED = "true"
PRIVATE = 0o600
NAMED = 3
"""How many pods, and how many nodes, a sentence names."""
ENDED = ("Succeeded", "Failed")
RECORD = ".kubewright-local.json"
CONTROL, TARGET = "kubeconfig_control.yaml", "kubeconfig_target.yaml"
PLAIN_PATH = re.compile(r"[\w./@+:,=~-]+")
"""Paths that mean the same to make, to shells and to what reads ``.env`` otherwise."""
PLAIN_WORD = re.compile(r"[\w./-]*")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of ``setup`` as typed."""

    here: Path
    folder: str = "dev/kube-configs"
    other: Path | None = None
    provider: str = ""
    project: str = ""
    target: str = ""
    seed: str = ""
    landscape: str = "dev"
    garden: Path | None = None
    expiry: int = 3600
    namespace: str = ""
    control: Path | None = None
    machine_class: str = ""
    deployment: str = "machine-controller-manager"


class Shoot(msgspec.Struct, frozen=True, kw_only=True):
    """Where Gardener is asked for the kubeconfig of a cluster."""

    garden: str
    context: str = ""
    namespace: str
    name: str


class Scaled(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a Deployment that is scaled to 0. ``mark``: its annotation's value; None: absent."""

    uid: str
    replicas: int
    mark: str | None = None


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """A file that we write: what was there (None: nothing), digests of what we wrote and may be writing."""

    path: str
    before: bytes | None = None
    mode: int = PRIVATE
    ours: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What ``setup`` found before it changed anything, and how to reach the cluster again."""

    version: int = 1
    control: str = ""
    """The kubeconfig of the control cluster; empty: Gardener is asked for one for ``seed``."""
    seed: Shoot | None = None
    namespace: str
    deployment: str
    found: Scaled | None = None
    files: tuple[Replaced, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders that we make, the outer one first."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Options that fit together. ``gardener``: a garden is asked for kubeconfigs, where no path is given."""

    gardener: bool
    namespace: str
    control: Path | None
    target: str
    projects: tuple[Path, ...]
    folder: str
    skipped: str = ""
    """Of a second project that is not there: what is said about it."""


def settled(options: Options, exists: Mapping[Path, bool]) -> Settled:
    """The options, completed. ``exists``: of the folders that ``projects`` names.

    Raises:
        InvalidInput: something is missing, or is for the other of the two ways.
    """
    gardener = bool(options.project)
    lacking = [
        (not options.target, "-t: the shoot" if gardener else "-t: the kubeconfig of the target cluster"),
        (gardener and not options.seed and not options.control, "-d: the seed"),
        (
            not gardener and not options.control,
            "-c: the kubeconfig of the control cluster (or -p for Gardener)",
        ),
        (not gardener and not options.namespace, "-n: the namespace of the manager"),
    ]
    if missing := [text for absent, text in lacking if absent]:
        raise InvalidInput(f"missing: {'; '.join(missing)}")
    if not gardener and (options.seed or options.garden):
        raise InvalidInput("-d and --garden-kubeconfig are for Gardener; name its project too: -p PROJECT")
    if gardener and options.seed and options.control:
        raise InvalidInput("-d and -c name the control cluster twice; leave one out")
    namespace = options.namespace or f"shoot--{options.project}--{options.target}"
    names = [options.project, options.seed, options.target if gardener else "", namespace]
    if wrong := next((each for each in names if each and not DNS_LABEL.fullmatch(each)), ""):
        raise InvalidInput(f"{wrong!r} is not a name in Kubernetes: lower-case letters, digits and '-'")
    if not PLAIN_WORD.fullmatch(options.machine_class):
        raise InvalidInput(
            f"--machineclass {options.machine_class!r}: no spaces or quotes, since .env has it"
        )
    projects, skipped = _projects(options, exists)
    return Settled(gardener, namespace, options.control, options.target, projects, _inside(options), skipped)


def second_project(options: Options) -> Path | None:
    """The folder of the provider's project that the options mean, whether or not it is there."""
    if options.other is not None:
        return options.here / options.other
    if not options.provider:
        return None
    return options.here.parent / f"machine-controller-manager-provider-{options.provider}"


def _projects(options: Options, exists: Mapping[Path, bool]) -> tuple[tuple[Path, ...], str]:
    second = second_project(options)
    if second is not None and not exists.get(second):
        if options.other is not None:
            raise InvalidInput(f"-m {options.other}: there is no such folder")
        return _plain((options.here,)), f"there is no folder {second}; nothing is written there"
    found = (options.here, *([second] if second is not None and second != options.here else []))
    return _plain(found), ""


def _plain(projects: tuple[Path, ...]) -> tuple[Path, ...]:
    for each in projects:
        if not PLAIN_PATH.fullmatch(str(each)):
            raise InvalidInput(
                f"{each}: .env cannot have a path with spaces, quotes or '$' for all who read it"
            )
    return projects


def _inside(options: Options) -> str:
    parts = Path(options.folder).parts
    if (
        not parts
        or Path(options.folder).is_absolute()
        or ".." in parts
        or not PLAIN_PATH.fullmatch(options.folder)
    ):
        raise InvalidInput(
            f"-k {options.folder!r} has to be a folder inside the project, such as dev/kube-configs"
        )
    return options.folder


def contents(wanted: Settled, options: Options, control: bytes, target: bytes) -> dict[Path, bytes]:
    """The files that are to be there: of each project the two kubeconfigs and ``.env``."""
    found: dict[Path, bytes] = {}
    for project in wanted.projects:
        folder = project / wanted.folder
        lines = {
            "IS_CONTROL_CLUSTER_SEED": "true" if wanted.gardener else "false",
            "CONTROL_NAMESPACE": wanted.namespace,
            "CONTROL_KUBECONFIG": str(folder / CONTROL),
            "TARGET_KUBECONFIG": str(folder / TARGET),
            "MACHINECLASS_V1": options.machine_class,
            "MACHINE_CONTROLLER_MANAGER_DEPLOYMENT_NAME": options.deployment,
        }
        found |= {folder / CONTROL: control, folder / TARGET: target}
        found[project / ".env"] = "".join(
            f"{name}={value}\n" for name, value in lines.items() if value
        ).encode()
    return found


def digest(content: bytes) -> str:
    """How a file that we wrote is known again."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class File:
    """What is in a file (None: there is none), and its rights."""

    content: bytes | None = None
    mode: int = PRIVATE


def replaced(recorded: Replaced | None, path: Path, now: File, wanted: bytes) -> Replaced | None:
    """What the record is to say of a file that ``setup`` writes; None where what was found is wanted."""
    content = now.content
    if recorded is not None and content is not None and digest(content) in recorded.ours:
        ours = tuple(dict.fromkeys((digest(content), digest(wanted))))
        return msgspec.structs.replace(recorded, ours=ours)
    if recorded is not None and content != recorded.before:
        return recorded  # another hand's: it stays
    if content == wanted:
        return None
    return Replaced(path=str(path), before=content, mode=now.mode, ours=(digest(wanted),))


def is_written(record: Replaced, now: bytes | None) -> bool:
    """Whether ``setup`` may write this file: what is there is what was found, or ours."""
    return now == record.before or (now is not None and digest(now) in record.ours)


def scaled(recorded: Scaled | None, now: Deployment | None) -> Scaled | None:
    """What the record is to say of the Deployment before it is scaled to 0."""
    if now is None:
        return None
    mark, uid = now.metadata.annotations.get(IGNORED_BY_WATCHDOG), now.metadata.uid
    if recorded is None or recorded.uid != uid:
        return Scaled(uid=uid, replicas=now.spec.replicas, mark=mark)
    return Scaled(
        uid=uid,
        replicas=now.spec.replicas or recorded.replicas,
        mark=recorded.mark if mark == MARKED else mark,
    )


def taken(now: Deployment) -> dict[str, Any]:
    """The patch that takes the machines over; empty where nothing is left to do.

    Both changes are one write, so the watchdog never sees a Deployment that is scaled down and not marked."""
    patch: dict[str, Any] = {}
    if now.metadata.annotations.get(IGNORED_BY_WATCHDOG) != MARKED:
        patch["metadata"] = {"annotations": {IGNORED_BY_WATCHDOG: MARKED}}
    if now.spec.replicas:
        patch["spec"] = {"replicas": 0}
    return patch


def given_back(found: Scaled, now: Deployment) -> tuple[dict[str, Any], list[str]]:
    """The patch that undoes what ``taken`` did, and what stays because another hand has changed it."""
    if now.metadata.uid != found.uid:
        return {}, ["another Deployment has its name by now; it stays as it is"]
    patch: dict[str, Any] = {}
    stays = []
    mark, replicas = now.metadata.annotations.get(IGNORED_BY_WATCHDOG), now.spec.replicas
    if mark != found.mark and mark == MARKED:
        patch["metadata"] = {"annotations": {IGNORED_BY_WATCHDOG: found.mark}}
    elif mark != found.mark:
        stays.append(f"its annotation {IGNORED_BY_WATCHDOG} was changed since, and stays as it is")
    if replicas != found.replicas and replicas == 0:
        patch["spec"] = {"replicas": found.replicas}
    elif replicas != found.replicas:
        stays.append(
            f"it has {replicas} replicas by now, and keeps them; before setup there were {found.replicas}"
        )
    return patch, stays


@dataclass(frozen=True, slots=True)
class Undone:
    """What ``restore`` does with a file: put ``content`` there (None: remove it), or leave it, and why."""

    path: Path
    content: bytes | None = None
    stays: str = ""

    def __str__(self) -> str:
        """What was done."""
        return self._said("left", "removed")

    @property
    def would(self) -> str:
        """What would be done."""
        return f"would {self._said('leave', 'remove')}"

    def _said(self, left: str, removed: str) -> str:
        if self.stays:
            return f"{left} {self.path}: {self.stays}"
        if self.content is None:
            return f"{removed} {self.path}"
        return f"put back the {self.path.name} that was in {self.path.parent}"


def undone(record: Replaced, now: bytes | None) -> Undone | None:
    """What ``restore`` does with a file; None where it is as it was found."""
    path = Path(record.path)
    if now == record.before:
        return None
    if now is None:
        return Undone(path, stays="it was there before setup, and has been removed since")
    if digest(now) in record.ours:
        return Undone(path, record.before)
    return Undone(path, stays="it was changed since setup")


def missing_folders(paths: Iterator[Path], exists: Mapping[Path, bool]) -> tuple[str, ...]:
    """The folders above these files that are not there, the outer ones first."""
    above = {folder for path in paths for folder in path.parents if not exists.get(folder, True)}
    return tuple(sorted((str(each) for each in above), key=lambda text: (text.count("/"), text)))


def same_place(record: Record, other: Record) -> bool:
    """Whether both are about the same Deployment of the same cluster."""
    return (record.control, record.seed, record.namespace, record.deployment) == (
        other.control,
        other.seed,
        other.namespace,
        other.deployment,
    )


def told(record: Record) -> str:
    """A record's Deployment, in a clause."""
    where = record.control or (f"the seed {record.seed.name}" if record.seed else "a cluster")
    return f"{record.deployment or 'no manager'} in namespace {record.namespace} of {where}"


def still_there(pods: Iterable[Pod], counted: int, seconds: float) -> str:
    """What is said of the manager's pods that have not ended. ``counted``: how many there are by the
    Deployment's status, for a user who may not read pods."""
    left = [each for each in pods if each.status.phase not in ENDED]
    number = len(left) or counted
    pods_are = "1 pod of the manager is" if number == 1 else f"{number} pods of the manager are"
    names = f": {_some([each.name for each in left])}, on {_nodes(left)}" if left else ""
    return f"{pods_are} still there after {seconds:g} s{names}; run setup again to wait on"


def _nodes(pods: Iterable[Pod]) -> str:
    names = {each.spec.node_name for each in pods} - {""}
    if not names:
        return "no node"
    return f"{len(names)} node{'s' if len(names) > 1 else ''}: {_some(names)}"


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(sorted(names)[:NAMED]) + more
