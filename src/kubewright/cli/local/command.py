"""``local setup`` and ``local restore``: look, plan, write; thin around ``plan``.

Theory.      ``setup`` gets both kubeconfigs, looks at the Deployment and at the files, writes the record, and
             then acts: files first, then one patch that names the version it was computed from, then it waits
             until the manager's pods are gone. ``restore`` goes the other way, and needs the control cluster
             once more: where Gardener gave the kubeconfig, which may have expired, it asks for a new one that
             is kept in memory.
Invariants.  The record is written before each change, in one piece, and removed last. One process at a time
             works in a project: it holds a lock on the folder, but not while it only waits for pods to end.
Called by    ``cli.local``, whose switches are the options.
"""

import asyncio
import base64
import binascii
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api.apps import DEPLOYMENT, Deployment
from kubewright.api.core import POD, Pod
from kubewright.apiserver.http.pki import OWNER_ONLY_FOLDER, write_private
from kubewright.base.clock import Clock, SystemClock
from kubewright.base.errors import InvalidInput, Unwritten
from kubewright.cli.asking import require_namespace
from kubewright.cli.local import plan
from kubewright.cli.local.plan import Options, Record, Replaced, Scaled, Settled, Shoot
from kubewright.kube import config
from kubewright.kube.access import access, with_absolute_paths
from kubewright.kube.client import Client
from kubewright.kube.config import inline_access
from kubewright.kube.patches import onto
from kubewright.wire import goyaml, selectors
from kubewright.wire.errors import Conflict, Forbidden, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import NOTHING

GROUP_VERSION = "authentication.gardener.cloud/v1alpha1"
SHORTEST = 600
"""Seconds: less than that Gardener refuses."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A kubeconfig, and until when it is good, as Gardener writes it."""

    kubeconfig: bytes
    until: str

    def __repr__(self) -> str:
        return f"Issued(until={self.until!r})"


def shoot(garden: tuple[Path, str], project: str, name: str) -> Shoot:
    """The shoot of a project, in a garden: a kubeconfig and its context. Project ``garden`` has seeds."""
    namespace = "garden" if project == "garden" else f"garden-{project}"
    return Shoot(garden=str(garden[0]), context=garden[1], namespace=namespace, name=name)


def path(of: Shoot) -> str:
    """Where a kubeconfig for this shoot is asked for."""
    return f"/apis/core.gardener.cloud/v1beta1/namespaces/{of.namespace}/shoots/{of.name}/adminkubeconfig"


def body(seconds: int) -> bytes:
    """What is posted there."""
    spec = {"expirationSeconds": seconds}
    return msgspec.json.encode({"apiVersion": GROUP_VERSION, "kind": "AdminKubeconfigRequest", "spec": spec})


def issued(answer: bytes, of: Shoot) -> Issued:
    """The kubeconfig in an answer.

    Raises:
        InvalidInput: there is none, or one that would run a program or read a file.
    """
    source = f"the kubeconfig that the garden gave for {of.namespace}/{of.name}"
    try:
        status = msgspec.json.decode(answer, type=dict[str, Any]).get("status")
        if not isinstance(status, Mapping):
            raise ValueError("no status")
        content = base64.b64decode(status.get("kubeconfig") or "", validate=True)
    except (msgspec.DecodeError, binascii.Error, TypeError, ValueError):
        raise InvalidInput(f"{source} cannot be read") from None
    if not content:
        raise InvalidInput(f"{source} is empty")
    inline_access(content, source=source)
    until = status.get("expirationTimestamp")
    return Issued(
        content, until if isinstance(until, str) and len(until) < 40 and until.isprintable() else "?"
    )


async def ask(client: Client, of: Shoot, seconds: int) -> Issued:
    """Ask a garden for a kubeconfig.

    Raises:
        InvalidInput: there is no such shoot, we may not have its kubeconfig, or the answer is no kubeconfig.
        ApiError, TransportError: the garden refused for another reason, or did not answer.
    """
    try:
        answer = await client.send(client.request("POST", path(of), body(seconds)), safe=True)
    except NotFound:
        raise InvalidInput(
            f"{client.name} has no shoot {of.name} in namespace {of.namespace}, or is no garden"
        ) from None
    except Forbidden:
        raise InvalidInput(
            f"{client.name} gives you no admin kubeconfig of shoot {of.name} in namespace {of.namespace}"
        ) from None
    return issued(answer.body, of)


def garden_of(landscape: str, config: bytes, source: str) -> tuple[Path, str]:
    """The kubeconfig of a garden and its context, from the configuration of gardenctl.

    Raises:
        InvalidInput: it cannot be read, or has no such garden.
    """
    try:
        found = goyaml.loads(config)
    except goyaml.Unreadable as error:
        raise InvalidInput(f"{source}: not YAML{f' in line {error.line}' if error.line else ''}") from None
    entries = found.get("gardens") if isinstance(found, Mapping) else None
    gardens = {
        str(each.get("identity")): each
        for each in (entries if isinstance(entries, list) else ())
        if isinstance(each, Mapping) and each.get("identity") and isinstance(each.get("kubeconfig"), str)
    }
    entry = gardens.get(landscape) or gardens.get(f"sap-landscape-{landscape}")
    if entry is None:
        known = ", ".join(sorted(gardens)) or "none"
        raise InvalidInput(f"{source} has no garden {landscape!r}; there are: {known}")
    return Path(entry["kubeconfig"]).expanduser(), str(entry.get("context") or "")


POLL_SECONDS = 0.3
WRITES = 5
"""How often a Deployment is looked at again that changes while we patch it."""
FILE_BYTES = 4 * 1024 * 1024
"""Largest file that is kept in the record, or read."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Clusters:
    """The kubeconfigs of both clusters, and how the first is reached again; a repr without secrets."""

    control: bytes
    target: bytes
    record: Record
    until: str = ""

    def __repr__(self) -> str:
        return f"Clusters({plan.told(self.record)})"


def set_up(options: Options, seconds: float, *, dry_run: bool = False) -> bool:
    """Take over; return whether the manager's pods are gone within ``seconds``. Prints what is done.

    Raises:
        InvalidInput: the options do not fit, or what they name is not there; nothing was changed.
        ApiError, TransportError: a server refused, or did not answer.
    """
    second = plan.second_project(options)
    wanted = plan.settled(options, {second: second.is_dir()} if second else {})
    return asyncio.run(taken_over(options, wanted, seconds, SystemClock(), print, dry_run=dry_run))


def give_back(here: Path, *, with_deployment: bool, dry_run: bool = False) -> None:
    """Undo what ``setup`` did in the project ``here``. Prints what is done.

    Raises:
        InvalidInput, ApiError, TransportError: as ``set_up``; what is not undone is still in the record.
    """
    work = restored(here, SystemClock(), print, with_deployment=with_deployment, dry_run=dry_run)
    asyncio.run(work)


async def taken_over(
    options: Options, wanted: Settled, seconds: float, clock: Clock, say: Say, *, dry_run: bool
) -> bool:
    """As ``set_up``, with settled options and a clock."""
    if wanted.skipped:
        say(wanted.skipped)
    shown = replace(options, expiry=SHORTEST) if dry_run else options
    async with AsyncExitStack() as closed:
        with _alone(options.here):
            recorded = _recorded(options.here)
            clusters = await _clusters(shown, wanted, clock)
            if recorded is not None and not plan.same_place(recorded, clusters.record):
                told = plan.told(recorded)
                raise InvalidInput(f"this folder is set up for {told}; `kubewright local restore` first")
            client = _client(clusters.control, clock)
            closed.push_async_callback(client.close)
            now = await _deployment(client, clusters.record)
            files = plan.contents(wanted, options, clusters.control, clusters.target)
            record = _next(recorded, clusters.record, files, now)
            if dry_run:
                _say_setup(record, files, now, say)
                return True
            _write_record(options.here, record)
            _write_files(record, files, say)
            if clusters.until:
                say(f"the kubeconfigs are good until {clusters.until}")
            if now is None:
                return True
            await _scale_down(client, options.here, record, say)
        return await _gone(client, record, seconds, clock, say)


async def restored(
    here: Path, clock: Clock, say: Say, *, with_deployment: bool, dry_run: bool = False
) -> None:
    """As ``give_back``, with a clock."""
    with _alone(here):
        await _restored(here, clock, say, with_deployment=with_deployment, dry_run=dry_run)


async def _restored(here: Path, clock: Clock, say: Say, *, with_deployment: bool, dry_run: bool) -> None:
    record = _recorded(here)
    if record is None:
        say(f"nothing to restore: setup has left no {plan.RECORD} in {here}")
        return
    if record.found is not None and with_deployment:
        await _scale_up(record, record.found, clock, say, dry_run=dry_run)
    for each in record.files:
        step = plan.undone(each, _content(Path(each.path)))
        if step is not None and not step.stays and not dry_run:
            _put(step.path, step.content, each.mode)
        if step is not None:
            say(step.would if dry_run else str(step))
    if dry_run:
        return
    _remove(record.folders, here / plan.RECORD)
    say("restored")


# ---------------------------------------------------------------- the Deployment


async def _scale_down(client: Client, here: Path, record: Record, say: Say) -> None:
    key = Key(record.namespace, record.deployment)
    for _ in range(WRITES):
        now = await client.get(DEPLOYMENT, key)
        known = msgspec.structs.replace(record, found=plan.scaled(record.found, now))
        if known != record:
            record = known
            _write_record(here, record)
        patch = plan.taken(now)
        if not patch:
            say(f"{record.deployment} in {record.namespace} is scaled to 0 already")
            return
        try:
            await client.patch(DEPLOYMENT, key, onto(patch, now.metadata))
        except Conflict:
            continue  # what was found may be another value by now
        say(f"scaled {record.deployment} in {record.namespace} from {now.spec.replicas} to 0")
        return
    raise InvalidInput(f"{record.deployment} in {record.namespace} changes all the time; try again")


async def _gone(client: Client, record: Record, seconds: float, clock: Clock, say: Say) -> bool:
    end = clock.monotonic() + seconds
    while True:
        now = await client.get(DEPLOYMENT, Key(record.namespace, record.deployment))
        if not now.status.replicas and not now.status.terminating_replicas:
            return True
        if clock.monotonic() >= end:
            counted = max(now.status.replicas, now.status.terminating_replicas or 0)
            say(plan.still_there(await _pods(client, now), counted, seconds))
            return False
        await clock.sleep(min(POLL_SECONDS, max(0.0, end - clock.monotonic())))


async def _pods(client: Client, of: Deployment) -> list[Pod]:
    """The pods of a Deployment; none where we may not read them, as they are only to be named."""
    selector = selectors.from_object(msgspec.to_builtins(of.spec.selector)) if of.spec.selector else NOTHING
    try:
        found = await client.list(POD, of.namespace)
    except Forbidden:
        return []
    return [each for each in found if selector.matches(each.metadata.labels)]


async def _scale_up(record: Record, found: Scaled, clock: Clock, say: Say, *, dry_run: bool) -> None:
    client = _client(await _control(record, clock), clock)
    what, key = f"{record.deployment} in {record.namespace}", Key(record.namespace, record.deployment)
    try:
        for _ in range(WRITES):
            now = await _present(client, key)
            if now is None:
                say(f"{what} is gone")
                return
            patch, stays = plan.given_back(found, now)
            try:
                if patch and not dry_run:
                    await client.patch(DEPLOYMENT, key, onto(patch, now.metadata))
            except Conflict:
                continue
            for each in stays:
                say(f"{what}: {each}")
            if patch:
                say(f"{'would put' if dry_run else 'put'} {what} back to {found.replicas} replicas")
            return
        raise InvalidInput(f"{what} changes all the time; try again")
    finally:
        await client.close()


async def _deployment(client: Client, record: Record) -> Deployment | None:
    if not record.deployment:
        return None
    now = await _present(client, Key(record.namespace, record.deployment))
    if now is None:
        await require_namespace(client, record.namespace)
        raise InvalidInput(
            f"there is no Deployment {record.deployment} in namespace {record.namespace}; "
            "--deployment NAME names another, --deployment '' says that none runs"
        )
    return now


async def _present(client: Client, key: Key) -> Deployment | None:
    try:
        return await client.get(DEPLOYMENT, key)
    except NotFound as error:
        if not error.names(key.name):
            raise
        return None


# ---------------------------------------------------------------- kubeconfigs


async def _clusters(options: Options, wanted: Settled, clock: Clock) -> Clusters:
    """Both kubeconfigs, read or asked for, and a record of how the control cluster is reached."""
    place = Record(namespace=wanted.namespace, deployment=options.deployment)
    control = b"" if wanted.control is None else _localized(wanted.control)
    if wanted.control is not None:
        place = msgspec.structs.replace(place, control=str(wanted.control))
    if not wanted.gardener:
        return Clusters(control, _localized(options.here / wanted.target), place)
    where = _garden(options)
    client = Client(config.load(*where, clock=clock), clock, name=f"the garden of {where[0]}")
    try:
        target = await ask(client, shoot(where, options.project, wanted.target), options.expiry)
        if wanted.control is None:
            seed = shoot(where, "garden", options.seed)
            place = msgspec.structs.replace(place, seed=seed)
            control = (await ask(client, seed, options.expiry)).kubeconfig
    finally:
        await client.close()
    return Clusters(control, target.kubeconfig, place, target.until)


async def _control(record: Record, clock: Clock) -> bytes:
    """The kubeconfig with which the Deployment is put back."""
    if record.seed is None:
        ours = [Path(each.path) for each in record.files if Path(each.path).name == plan.CONTROL]
        there = [path for path in (Path(record.control), *ours) if path.is_file()]
        return _localized(there[0] if there else Path(record.control))
    where = (Path(record.seed.garden), record.seed.context)
    client = Client(config.load(*where, clock=clock), clock, name=f"the garden of {where[0]}")
    try:
        return (await ask(client, record.seed, SHORTEST)).kubeconfig
    finally:
        await client.close()


def _garden(options: Options) -> tuple[Path, str]:
    if options.garden is not None:
        return options.garden, ""
    home = Path(os.environ.get("GCTL_HOME") or Path.home() / ".garden")
    path = home / f"{os.environ.get('GCTL_CONFIG_NAME') or 'gardenctl-v2'}.yaml"
    content = _content(path)
    if content is None:
        raise InvalidInput(f"there is no {path} that names gardens; say --garden-kubeconfig PATH")
    return garden_of(options.landscape, content, str(path))


def _localized(path: Path) -> bytes:
    """A user's kubeconfig as it means the same in another folder."""
    content = _content(path)
    if content is None:
        raise InvalidInput(f"there is no kubeconfig at {path}")
    parsed = config.parsed(content, str(path))
    absolute = with_absolute_paths(parsed, path.parent)
    whole = {**parsed, "clusters": parsed.get("clusters") or [], "users": parsed.get("users") or []}
    return content if absolute == whole else goyaml.dumped(absolute).encode()


def _client(kubeconfig: bytes, clock: Clock) -> Client:
    source = "the kubeconfig of the control cluster"
    transport = config.connect(access(config.parsed(kubeconfig, source), source=source), clock=clock)
    return Client(transport, clock, name=transport.access.server)


# ---------------------------------------------------------------- files


@contextmanager
def _alone(here: Path) -> Iterator[None]:
    """Hold the folder of a project: two at once would each take what the other wrote for what was found.

    Raises:
        InvalidInput: another one holds it.
    """
    try:
        folder = os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidInput(f"cannot read {here}: {error.strerror or error}") from None
    try:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInput(
                    f"another `kubewright local` is at work in {here}; try again when it has ended"
                ) from None
        yield
    finally:
        os.close(folder)


def _next(recorded: Record | None, place: Record, files: dict[Path, bytes], now: Deployment | None) -> Record:
    """The record before the next change: what an earlier one has found, and what is found now."""
    known = {each.path: each for each in recorded.files} if recorded else {}
    entries = {
        str(path): plan.replaced(known.get(str(path)), path, plan.File(_content(path), _mode(path)), wanted)
        for path, wanted in files.items()
    }
    missing = plan.missing_folders(
        iter(files), {folder: folder.is_dir() for path in files for folder in path.parents}
    )
    kept = recorded.folders if recorded else ()
    return msgspec.structs.replace(
        place,
        found=plan.scaled(recorded.found if recorded else None, now),
        files=tuple(each for each in {**known, **entries}.values() if each is not None),
        folders=tuple(dict.fromkeys((*kept, *missing))),
    )


def _write_files(record: Record, files: dict[Path, bytes], say: Say) -> None:
    for folder in record.folders:
        try:
            Path(folder).mkdir(mode=OWNER_ONLY_FOLDER, exist_ok=True)
        except OSError as error:
            raise Unwritten(f"cannot make {folder}: {error.strerror or error}") from None
    for path, content, may in _due(record, files):
        if may:
            write_private(path, content)
        say(f"wrote {path}" if may else f"left {path}: it was changed since setup")


def _due(record: Record, files: dict[Path, bytes]) -> list[tuple[Path, bytes, bool]]:
    """The files that are not as they are to be, and whether we may write each."""
    entries: dict[str, Replaced] = {each.path: each for each in record.files}
    found = []
    for path, content in files.items():
        entry, now = entries.get(str(path)), _content(path)
        if entry is not None and now != content:
            found.append((path, content, plan.is_written(entry, now)))
    return found


def _say_setup(record: Record, files: dict[Path, bytes], now: Deployment | None, say: Say) -> None:
    due, patch = _due(record, files), plan.taken(now) if now is not None else {}
    for path, _, may in due:
        say(f"would write {path}" if may else f"would leave {path}: it was changed since setup")
    if now is not None and patch:
        marks = f", with the annotation {plan.IGNORED_BY_WATCHDOG}" if "metadata" in patch else ""
        say(f"would scale {record.deployment} in {record.namespace} from {now.spec.replicas} to 0{marks}")
    if not due and not patch:
        say("nothing would be changed")


def _recorded(here: Path) -> Record | None:
    path = here / plan.RECORD
    content = _content(path)
    if content is None:
        return None
    try:
        found = msgspec.json.decode(content, type=Record)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
    if found.version != Record(namespace="", deployment="").version:
        raise InvalidInput(f"{path} was written by another version of Kubewright")
    return found


def _write_record(here: Path, record: Record) -> None:
    write_private(here / plan.RECORD, msgspec.json.encode(record))


def _put(path: Path, content: bytes | None, mode: int) -> None:
    if content is not None:
        write_private(path, content)
    try:
        if content is not None:
            path.chmod(mode)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise Unwritten(f"cannot put {path} back: {error.strerror or error}") from None


def _remove(folders: tuple[str, ...], record: Path) -> None:
    """The folders that we have made, where they are empty; then the record."""
    for folder in reversed(folders):
        try:
            Path(folder).rmdir()
        except OSError:
            continue  # not empty: something else is in it; or gone
    record.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """The rights of a file; those of a private one where there is none."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return plan.PRIVATE


def _content(path: Path) -> bytes | None:
    """What is in a file; None: there is none.

    Raises:
        InvalidInput: it cannot be read, or is too large to be what it is taken for.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > FILE_BYTES:
        raise InvalidInput(f"{path} has more than {FILE_BYTES // 1024 // 1024} MiB")
    return content
