"""What the cases need: kinds, classes and their Secret; and in a seed its own manager at rest.

Theory.      Outside of a seed the control cluster may have nothing of machines yet, so the CRDs are created
             where they are missing, and a file has the class. In a seed (Gardener) both are there: a class is
             copied, and while the test starts its own manager the Deployment of the one that runs there is
             scaled to 0, which the dependency watchdog is told to leave so.
Invariants.  What was there before is not changed, but for that Deployment, which gets back what it had. What
             is made is kept in ``Made``, so that the clean-up deletes that, and no more. An object of another
             owner under a name of the test is refused.
Source       ITS-05, ITS-06, ITS-09, ITS-10.
Called by    ``run``; ``cleaning`` undoes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api import apps
from kubewright.api.core import CRD, LEASE, SECRET
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine import names
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MachineClass,
)
from kubewright.base.errors import InvalidInput
from kubewright.integration import classes
from kubewright.integration.bench import DEPLOYMENT_NAME, MACHINE_NAME, TELL_SECONDS, Bench
from kubewright.integration.classes import CLASS_V1, CLASS_V2, LABELS
from kubewright.kube.client import Client
from kubewright.wire.errors import AlreadyExists, NotFound
from kubewright.wire.goyaml import Unreadable, loads
from kubewright.wire.gvk import Key

KINDS: tuple[Kind[Any], ...] = (MACHINE_CLASS, MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT)
CLASS = dynamic(MACHINE_CLASS.resource)
WATCHDOG = "dependency-watchdog.gardener.cloud/ignore-scaling"
"""The annotation by which Gardener's dependency watchdog leaves a Deployment as it is scaled."""

REST = "kubewright.dev/driver-test-rest"
"""The annotation that says what a Deployment at rest had: a test that is killed gives nothing back, and the
next one does."""

PATCH_FILE = Path(".ci/controllers-test/machine-class-patch.json")
"""Where the patch of a copied class is, where no other file is named."""

LEASES = (names.SETS_LEASE, names.MACHINES_LEASE)
LEASE_SECONDS = 90.0
"""How long a Lease may take to run out, whose holder was ended at once."""

ESTABLISHED_SECONDS = 60.0
"""How long an API server may take to serve a kind after its CRD."""


@dataclass(slots=True)
class Made:
    """What the test has made or changed, for the clean-up.

    ``ours``      objects with the test's label are its own: no other test's manager works in the namespace
    ``replicas``  how many the manager's Deployment had; ``ignored``: the value of the watchdog's annotation
    """

    ours: bool = False

    crds: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    secrets: list[Key] = field(default_factory=list)
    replicas: int | None = None
    ignored: str | None = None


async def install_kinds(bench: Bench, made: Made) -> None:
    """Create the CRDs that are missing, and wait until their kinds are served."""
    for definition, kind in zip(crds(), _in_order(), strict=True):
        if await _served(bench.control, kind, bench.settings.namespace):
            continue
        if bench.settings.seed:
            raise InvalidInput(f"{bench.control.name} does not serve {kind.resource}: it is no seed")
        try:
            await bench.make(dynamic(CRD.resource), definition)
            made.crds.append(definition["metadata"]["name"])
        except AlreadyExists:
            bench.gone(dynamic(CRD.resource), definition["metadata"]["name"], "")
        await _until_served(bench, kind)


async def make_classes(bench: Bench, made: Made) -> tuple[MachineClass, MachineClass]:
    """Create both classes, and Secrets that stand beside them in their files; answer the classes.

    Raises:
        InvalidInput: a file has not the right class, or a class or its Secret is not as it should be.
    """
    given = Given(await _copies(bench)) if bench.settings.seed else from_files(bench)
    for body in given.secrets:
        if await _made(bench, SECRET, body):
            made.secrets.append(Key(body["metadata"]["namespace"], body["metadata"]["name"]))
    for body in given.classes.values():
        if await _made(bench, CLASS, body):
            made.classes.append(body["metadata"]["name"])
    first, second = [MACHINE_CLASS.from_plain(dict(given.classes[name])) for name in (CLASS_V1, CLASS_V2)]
    return first, second


async def refuse_strangers(bench: Bench) -> None:
    """Refuse a namespace that has an object of another owner under a name of the test.

    Raises:
        InvalidInput: it has one.
    """
    named = ((MACHINE, MACHINE_NAME), (MACHINE_DEPLOYMENT, DEPLOYMENT_NAME))
    for kind, name in named:
        try:
            found = await bench.control.get(dynamic(kind.resource), bench.key(name))
        except NotFound:
            continue
        if not LABELS.items() <= (found["metadata"].get("labels") or {}).items():
            raise InvalidInput(
                f"there is a {kind.resource.kind} {name} in namespace {bench.settings.namespace}, which is "
                "not of this test; it uses that name, so choose another namespace"
            )


async def await_leases(bench: Bench) -> None:
    """Wait until no other manager holds a Lease for which those that are started here would wait.

    Raises:
        InvalidInput: another one holds it all the time.
    """
    clock = bench.control.clock
    deadline = clock.monotonic() + LEASE_SECONDS
    while holders := [told for name in LEASES if (told := await _holder(bench, name))]:
        if clock.monotonic() >= deadline:
            raise InvalidInput(
                f"another manager runs already: {'; '.join(holders)}. End it, or test it without starting one"
            )
        bench.tell(f"waiting for {'; '.join(holders)}")
        await clock.sleep(TELL_SECONDS)


async def _holder(bench: Bench, name: str) -> str:
    """Who holds a Lease, as a clause; empty where it is free or has run out."""
    try:
        spec = (await bench.control.get(LEASE, bench.key(name))).spec
    except NotFound:
        return ""
    if not spec.holder_identity or spec.renew_time is None:
        return ""
    until = spec.renew_time + timedelta(seconds=spec.lease_duration_seconds or 0)
    return f"Lease {name} is held by {spec.holder_identity}" if bench.control.clock.now() < until else ""


async def rest_manager(bench: Bench, made: Made) -> None:
    """Scale the manager's Deployment in the seed to 0.

    Raises:
        InvalidInput: there is no such Deployment.
    """
    name = bench.settings.manager_deployment
    try:
        found = await bench.control.get(apps.DEPLOYMENT, bench.key(name))
    except NotFound:
        raise InvalidInput(
            f"there is no Deployment {name} in namespace {bench.settings.namespace} of the control cluster; "
            "MACHINE_CONTROLLER_MANAGER_DEPLOYMENT_NAME says its name"
        ) from None
    made.replicas, made.ignored = before_rest(found)
    bench.made[_at_rest(name)] = None
    note = msgspec.json.encode((made.replicas, made.ignored)).decode()
    body = {"metadata": {"annotations": {WATCHDOG: "true", REST: note}}, "spec": {"replicas": 0}}
    await bench.control.patch(apps.DEPLOYMENT, bench.key(name), body)
    bench.tell(f"Deployment {name} is scaled to 0, from {made.replicas}")


def before_rest(found: apps.Deployment) -> tuple[int, str | None]:
    """The replicas and the value of the watchdog's annotation that a Deployment has, or had until a test that
    was killed has scaled it to 0."""
    has = (found.spec.replicas, found.metadata.annotations.get(WATCHDOG))
    try:
        noted = msgspec.json.decode(found.metadata.annotations.get(REST, ""), type=tuple[int, str | None])
    except msgspec.MsgspecError:
        return has
    return noted if found.spec.replicas == 0 else has


async def wake_manager(bench: Bench, made: Made) -> None:
    """Give the Deployment back what it had."""
    if made.replicas is None:
        return
    name = bench.settings.manager_deployment
    annotations = {WATCHDOG: made.ignored, REST: None}
    body = {"metadata": {"annotations": annotations}, "spec": {"replicas": made.replicas}}
    await bench.control.patch(apps.DEPLOYMENT, bench.key(name), body)
    bench.made.pop(_at_rest(name), None)
    bench.tell(f"Deployment {name} is scaled to {made.replicas} again")
    made.replicas = None


@dataclass(frozen=True, slots=True)
class Given:
    """The objects to create: both classes by name, and Secrets."""

    classes: Mapping[str, Mapping[str, Any]]
    secrets: tuple[Mapping[str, Any], ...] = ()


def _at_rest(name: str) -> str:
    return f"Deployment {name} with 0 replicas and the annotation {WATCHDOG}"


def from_files(bench: Bench) -> Given:
    """Both classes, and the Secrets, of the files that a user gives.

    Raises:
        InvalidInput: a file is missing, or has not the right class.
    """
    settings = bench.settings
    if settings.class_v1 is None:
        raise InvalidInput("MACHINECLASS_V1 is not set: which MachineClass should be tested?")
    first, secrets = _from_file(settings.class_v1, CLASS_V1, settings.namespace)
    if settings.class_v2 is None:
        return Given({CLASS_V1: first, CLASS_V2: classes.copied(first, CLASS_V2)}, tuple(secrets.values()))
    second, more = _from_file(settings.class_v2, CLASS_V2, settings.namespace)
    return Given({CLASS_V1: first, CLASS_V2: second}, tuple({**secrets, **more}.values()))


def _from_file(path: Path, name: str, namespace: str) -> tuple[dict[str, Any], dict[Key, dict[str, Any]]]:
    """The class of a file, and the Secrets beside it, as they are created."""
    found = classes.read_file(_text(path), str(path))
    typed = classes.checked(found.machine_class, name, str(path))
    secrets = {}
    for each in found.secrets:
        place = Key(classes.secret_place(each, typed, namespace), each["metadata"]["name"])
        secrets[place] = classes.placed(each, place.namespace)
    return classes.placed(found.machine_class, namespace), secrets


async def _copies(bench: Bench) -> Mapping[str, Mapping[str, Any]]:
    """Both classes as copies of one that is there, with the patch of a file, or marked by a tag."""
    settings = bench.settings
    found: list[classes.Object] = [*await bench.control.list(CLASS, settings.namespace)]
    model = classes.model_of(found, settings.namespace)
    patch = _patch(settings.class_patch)
    if patch is None:
        patch = classes.marking(model, tags_are_strings=settings.tags_are_strings)
    bench.tell(f"MachineClass {model['metadata']['name']} is copied")
    return {name: classes.copied(model, name, patch) for name in (CLASS_V1, CLASS_V2)}


def _patch(named: Path | None) -> Mapping[str, Any] | None:
    path = named or PATCH_FILE
    if named is None and not path.exists():
        return None
    try:
        patch = loads(_text(path))
    except Unreadable as error:
        raise InvalidInput(f"{path}: {error}") from None
    if not isinstance(patch, dict):
        raise InvalidInput(f"{path}: a merge patch is an object")
    return patch


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from None


async def _made(bench: Bench, kind: Kind[Any], body: Mapping[str, Any]) -> bool:
    """Create an object, in place of one that an earlier run has left; whether it is the test's now.

    A Secret that a user has put there by hand is used as it is.
    """
    meta = body["metadata"]
    try:
        await bench.make(kind, body)
    except AlreadyExists:
        key = Key(meta["namespace"], meta["name"])
        found = await bench.control.get(dynamic(kind.resource), key)
        ours = LABELS.items() <= (found["metadata"].get("labels") or {}).items()
        if not ours and kind is not SECRET:
            raise InvalidInput(
                f"there is a {kind.resource.kind} {key.name} in namespace {key.namespace}, which is not of "
                "this test; delete it, or choose another namespace"
            ) from None
        if not ours:
            bench.gone(kind, key.name, key.namespace)
            return False
        await _replaced(bench, kind, key, body)
    return True


async def _replaced(bench: Bench, kind: Kind[Any], key: Key, body: Mapping[str, Any]) -> None:
    """Put an object in the place of one that an earlier run has left, once that is gone."""
    clock = bench.control.clock
    deadline = clock.monotonic() + ESTABLISHED_SECONDS
    while True:
        try:
            await bench.control.delete(kind, key)
        except NotFound:
            break
        if clock.monotonic() >= deadline:
            raise InvalidInput(f"{kind.resource.kind} {key.name} of an earlier run does not go")
        await clock.sleep(bench.settings.limits.poll)
    await bench.make(kind, body)


async def _served(client: Client, kind: Kind[Any], namespace: str) -> bool:
    try:
        await client.list(dynamic(kind.resource), namespace)
    except NotFound:
        return False
    return True


async def _until_served(bench: Bench, kind: Kind[Any]) -> None:
    clock = bench.control.clock
    deadline = clock.monotonic() + ESTABLISHED_SECONDS
    while not await _served(bench.control, kind, bench.settings.namespace):
        if clock.monotonic() >= deadline:
            raise InvalidInput(
                f"{bench.control.name} does not serve {kind.resource}, though its CRD is there"
            )
        await clock.sleep(bench.settings.limits.poll)


def _in_order() -> list[Kind[Any]]:
    """Our kinds in the order of ``crds``."""
    by_name = {f"{kind.resource.plural}.{kind.resource.group}": kind for kind in KINDS}
    return [by_name[each["metadata"]["name"]] for each in crds()]
