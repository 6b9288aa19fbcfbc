"""The clean-up: what the test has made is deleted, and what it has changed is as it was.

Theory.      Deployment first, then sets and machines, which the manager takes down with their VMs; when none
             is left, the classes and Secrets, then the manager that was started here, the CRDs that were
             created here, and the Deployment of a seed. Each step is tried whatever came of the one before,
             for as long as the clean-up may take. What is left then is named.
Invariants.  Only what the test made is deleted: what ``Made`` has, and objects with its label and of its
             names, but these not if it was refused before it made any, since they may be of another test.
             CRDs go only if no object of their kind is left in any namespace. No VM is let go of: no
             finalizer is taken off but the test's own.
Called by    ``run``, after the cases, and before them for what an earlier run has left.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.core import CRD, SECRET
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.integration.bench import MACHINE_NAME, TELL_SECONDS, Bench
from kubewright.integration.cases import release
from kubewright.integration.classes import SELECTOR
from kubewright.integration.furnish import ESTABLISHED_SECONDS, KINDS, Made, wake_manager
from kubewright.integration.managers import Managers
from kubewright.kube.client import Client
from kubewright.wire.errors import Forbidden, NotFound, Unauthorized
from kubewright.wire.gvk import Key

OWNERS_FIRST: tuple[Kind[Any], ...] = (MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE)


async def delete_objects(bench: Bench, deadline: float) -> list[str]:
    """Delete deployments, sets and machines of the test, and wait until they are gone; what is left then."""
    clock, told, told_at, began = bench.control.clock, "", 0.0, bench.control.clock.monotonic()
    while True:
        try:
            await release(bench)
            left = await _deleting(bench)
        except KubewrightError as error:
            if not bench.made or isinstance(error, Forbidden | Unauthorized):
                return list(bench.made)  # nothing was made, or waiting does not help
            left = [*bench.made, f"(not known for sure, because of: {error})"]
        if not left or clock.monotonic() >= deadline:
            return left
        now, line = clock.monotonic(), ", ".join(left[:6])
        if line != told or now - told_at >= TELL_SECONDS:
            told, told_at = line, now
            bench.tell(f"{now - began:6.1f} s  cleaning up, {len(left)} left: {line}")
        await clock.sleep(bench.settings.limits.poll)


async def clean_up(bench: Bench, made: Made, managers: Managers) -> list[str]:
    """Undo all; what is left, as words for a user."""
    clock = bench.control.clock
    deadline = clock.monotonic() + bench.settings.limits.clean
    left: list[str] = []
    try:
        if managers.dead():
            await managers.start()
        left = await delete_objects(bench, deadline) if made.ours else []
        if not left:
            left = await _delete_classes(bench, made, deadline)
    except KubewrightError as error:
        left.append(f"(the clean-up was refused: {error})")
    finally:
        await managers.stop()
    for undo in (_delete_crds, wake_manager):
        try:
            await undo(bench, made)
        except KubewrightError as error:
            left.append(str(error))
    return left


async def of_test(bench: Bench) -> list[tuple[Kind[Any], str, Mapping[str, Any]]]:
    """Deployments, sets and machines with the test's label and names: kind, words for a user, metadata."""
    found = []
    for kind in OWNERS_FIRST:
        plain = dynamic(kind.resource)
        for each in await bench.control.list(plain, bench.settings.namespace, labels=SELECTOR):
            meta = each["metadata"]
            if meta["name"].startswith(MACHINE_NAME):
                found.append((plain, f"{kind.resource.kind} {meta['name']}", meta))
    return found


async def _deleting(bench: Bench) -> list[str]:
    """Ask for the deletion of what is there; its names."""
    left = []
    for kind, told, meta in await of_test(bench):
        left.append(told)
        if not meta.get("deletionTimestamp"):
            await _deleted(bench.control, kind, bench.key(meta["name"]))
    names = set(left)
    for known in [each for each in bench.made if each.split()[0] in ("Machine", "MachineDeployment")]:
        kind_name, place = known.split(" ", 1)
        if f"{kind_name} {place.rpartition('/')[2]}" not in names:
            del bench.made[known]
    return left


async def _delete_classes(bench: Bench, made: Made, deadline: float) -> list[str]:
    """Delete the classes and Secrets that the test made, and wait until they are gone."""
    wanted: list[tuple[Kind[Any], Key]] = [
        *((dynamic(MACHINE_CLASS.resource), bench.key(name)) for name in made.classes),
        *((dynamic(SECRET.resource), key) for key in made.secrets),
    ]
    clock = bench.control.clock
    while True:
        left = []
        for kind, key in wanted:
            if await _deleted(bench.control, kind, key):
                left.append(f"{kind.resource.kind} {key.name}")
            else:
                bench.gone(kind, key.name, key.namespace)
        if not left or clock.monotonic() >= deadline:
            return left
        await clock.sleep(bench.settings.limits.poll)


async def _delete_crds(bench: Bench, made: Made) -> None:
    """Delete the CRDs that the test created, where no object needs them."""
    for name in made.crds:
        bench.gone(dynamic(CRD.resource), name, "")
    if bench.settings.preserve_crds or not made.crds:
        return
    for kind in KINDS:
        if await bench.control.list(dynamic(kind.resource)):
            bench.tell(f"the CRDs stay, since there are {kind.resource.plural}")
            return
    clock, crd = bench.control.clock, dynamic(CRD.resource)
    deadline = clock.monotonic() + ESTABLISHED_SECONDS
    while left := [name for name in made.crds if await _deleted(bench.control, crd, Key("", name))]:
        if clock.monotonic() >= deadline:
            raise InvalidInput(f"CRDs that do not go: {', '.join(left)}")
        await clock.sleep(bench.settings.limits.poll)
    made.crds.clear()


async def _deleted(client: Client, kind: Kind[Any], key: Key) -> bool:
    """Ask for the deletion of an object; whether it was there."""
    try:
        await client.delete(kind, key)
    except NotFound:
        return False
    return True
