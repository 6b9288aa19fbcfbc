"""The ten cases of MCM's integration test, and what the author of a driver adds to them.

Theory.      A case is a sentence and a function of a ``Bench``: it changes something, and waits until the
             clusters are as they should be. The cases are a list, in order, since one leaves what the next
             one needs; one that lacks that is skipped and says why. Cases of other authors stand before the
             last one, which looks for what all of them left in the cloud.
Invariants.  A case ends in bounded time, with ``CaseFailed`` if something is not as it should be.
Source       ITS-02, ITS-04. Unlike there, ``minReadySeconds`` is 0, since
             Kubewright waits for so many seconds, and a freeze is brought about by machines that something
             keeps (a finalizer), since Kubewright freezes no set for being scaled down.
Called by    ``run``.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, Machine
from kubewright.integration import expectations as expect
from kubewright.integration.bench import (
    ABSENT_MACHINE,
    DEPLOYMENT_NAME,
    MACHINE_NAME,
    Bench,
    CaseFailed,
    Skipped,
)
from kubewright.integration.classes import CLASS_V1, CLASS_V2, LABELS, SELECTOR
from kubewright.integration.expectations import View
from kubewright.integration.tracker import Tracked
from kubewright.kube.patches import with_uid, with_version
from kubewright.wire.errors import ApiError, Conflict, NotFound

KEEPER = "kubewright.dev/driver-test"
"""A finalizer that keeps deleted machines, so that a set has more of them than it may."""

FREEZE_ROUNDS = 8
"""So often are the machines of the deployment deleted and kept, at most, until their set is frozen."""

LOOKS_AT_NODES = 10
"""So often are nodes looked at that should not change."""

Try = Callable[[Bench], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """One case. ``name``: what should happen, in words; ``identity``: its name in the report."""

    identity: str
    name: str
    run: Try


async def create_machine(bench: Bench) -> None:
    """Create a machine: one more node."""
    bench.initial = len((await bench.look()).nodes)
    body = {
        "metadata": {**_meta(bench, MACHINE_NAME), "labels": dict(LABELS)},
        "spec": {"class": {"kind": "MachineClass", "name": CLASS_V1}},
    }
    await bench.make(MACHINE, body)
    await bench.until("one more node", expect.nodes(bench.initial + 1))


async def delete_machine(bench: Bench) -> None:
    """Delete it: the object goes, and its node."""
    try:
        await bench.control.delete(MACHINE, bench.key(MACHINE_NAME))
    except NotFound:
        raise Skipped(f"there is no machine {MACHINE_NAME}") from None
    await bench.until(f"machine {MACHINE_NAME} to go", expect.machine_gone(MACHINE_NAME))
    bench.gone(MACHINE, MACHINE_NAME)
    await bench.until("its node to go", expect.nodes(bench.initial))


async def delete_absent_machine(bench: Bench) -> None:
    """Delete a machine that does not exist: an error, and the nodes stay as they are."""
    before = await bench.look()
    if before.machines:
        raise Skipped(f"there are machines: {expect.named([each.metadata.name for each in before.machines])}")
    try:
        await bench.control.delete(MACHINE, bench.key(ABSENT_MACHINE))
    except NotFound:
        pass
    else:
        raise CaseFailed(f"the server says that machine {ABSENT_MACHINE} was there, and deleted")
    for _ in range(LOOKS_AT_NODES):
        await bench.until("the nodes to stay as they are", expect.same_nodes(before.node_names))
        await bench.control.clock.sleep(bench.settings.limits.poll)


async def create_deployment(bench: Bench) -> None:
    """Create a deployment without machines, then with one."""
    bench.initial = len((await bench.look()).nodes)
    template = {
        "metadata": {"labels": dict(LABELS)},
        "spec": {"class": {"kind": "MachineClass", "name": CLASS_V1}},
    }
    spec = {
        "replicas": 0,
        "minReadySeconds": 0,
        "selector": {"matchLabels": dict(LABELS)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}},
        "template": template,
    }
    meta = {**_meta(bench, DEPLOYMENT_NAME), "labels": dict(LABELS)}
    await bench.make(MACHINE_DEPLOYMENT, {"metadata": meta, "spec": spec})
    await bench.until("its set", expect.one_set)
    await bench.scale(1)
    await bench.until(
        "an available machine and one more node",
        expect.all_of(expect.available(1), expect.nodes(bench.initial + 1)),
    )


async def scale_to(bench: Bench, replicas: int) -> None:
    """Scale the deployment: so many more nodes than before it."""
    await _deployment(bench)
    await bench.scale(replicas)
    await bench.until(f"{replicas} more nodes than at first", expect.nodes(bench.initial + replicas))


async def freeze(bench: Bench) -> None:
    """Give a set more machines than it may have: it is frozen, and unfrozen when they are gone."""
    found = await _deployment(bench)
    await bench.until("the machines to run", expect.running(found.spec.replicas))
    events = (await bench.look()).freezes
    try:
        view = await _keep_until_frozen(bench, found.spec.replicas)
        events = expect.freezes_before(view, events)
        await bench.until("the VMs of deleted machines to go", _only_kept)
    finally:
        await release(bench)
    await bench.until("the set to be unfrozen, with two events", expect.unfrozen(events))
    await bench.until("the machines to run again", expect.nodes(bench.initial + found.spec.replicas))


async def roll(bench: Bench) -> None:
    """Go to the other class, with four machines."""
    await _deployment(bench)
    await bench.scale(4, spec={"class": {"kind": "MachineClass", "name": CLASS_V2}})
    await bench.until(
        f"4 available machines of {CLASS_V2}, and 4 more nodes than at first",
        expect.all_of(expect.rolled(4), expect.nodes(bench.initial + 4)),
    )


async def delete_deployment(bench: Bench) -> None:
    """Delete the deployment: the nodes are those from before it."""
    await _deployment(bench)
    await bench.control.delete(MACHINE_DEPLOYMENT, bench.key(DEPLOYMENT_NAME))
    await bench.until("the deployment to go, and its machines", expect.deployment_gone)
    bench.gone(MACHINE_DEPLOYMENT, DEPLOYMENT_NAME)
    await bench.until("the nodes to be those from before", expect.nodes(bench.initial))


async def find_orphans(bench: Bench, tracked: Tracked) -> None:
    """Ask the tracker what the test has left in the cloud."""
    if tracked.why_not:
        raise Skipped(tracked.why_not)
    clock, limits = bench.control.clock, bench.settings.limits
    deadline, told = clock.monotonic() + limits.wait, ""
    while left := await tracked.left():
        if clock.monotonic() >= deadline:
            raise CaseFailed(f"left in the cloud after {limits.wait:g} s: {expect.named(left)}")
        if told != (told := expect.named(left)):
            bench.tell(f"waiting for what is left in the cloud: {told}")
        await clock.sleep(max(limits.poll, tracked.pause))


def cases(tracked: Tracked, more: Sequence[Case] = ()) -> list[Case]:
    """All cases, in order; ``more``: those of other authors."""
    return [
        Case("machine-creation", "a machine is created and adds a node", create_machine),
        Case("machine-deletion", "it is deleted, and its node goes", delete_machine),
        Case("absent-machine", "a machine that does not exist is deleted", delete_absent_machine),
        Case("deployment-creation", "a deployment is created, of 0 machines and then 1", create_deployment),
        Case("scale-up", "it is scaled to 6", partial(scale_to, replicas=6)),
        Case("scale-down", "it is scaled to 2", partial(scale_to, replicas=2)),
        Case("freeze", "its set is frozen and unfrozen", freeze),
        Case("class-update", f"it goes to {CLASS_V2}, with 4 machines", roll),
        Case("deployment-deletion", "it is deleted, and its nodes go", delete_deployment),
        *more,
        Case("orphans", "nothing is left in the cloud", partial(find_orphans, tracked=tracked)),
    ]


async def release(bench: Bench) -> None:
    """Let go of all machines that the test keeps."""
    for machine in await bench.control.list(MACHINE, bench.settings.namespace, labels=SELECTOR):
        await _with_finalizers(bench, machine, lambda had: tuple(each for each in had if each != KEEPER))


async def _keep_until_frozen(bench: Bench, replicas: int) -> View:
    """Delete the machines of the deployment again and again, and keep the objects, until no more come."""
    for _ in range(FREEZE_ROUNDS):
        view = await bench.look()
        alive = [each for each in view.pool if not each.metadata.deleting]
        for machine in alive:
            await _with_finalizers(bench, machine, lambda had: (*dict.fromkeys((*had, KEEPER)),))
            await bench.control.delete(MACHINE, bench.key(machine.metadata.name))
        view = await bench.until("its set to be frozen, or to make others", partial(_more, replicas))
        if expect.frozen(view):
            return view
    raise CaseFailed(f"its set is not frozen, and has {len(view.pool)} machines by now")


def _more(replicas: int, view: View) -> expect.Answer:
    return expect.MET if expect.frozen(view) else expect.running(replicas)(view)


def _only_kept(view: View) -> expect.Answer:
    """Of the machines that are deleted nothing is left but the objects, which we keep."""
    busy = [
        each.metadata.name
        for each in view.pool
        if each.metadata.deleting and names.FINALIZER in each.metadata.finalizers
    ]
    return expect.Answer(f"being deleted: {expect.named(busy)}") if busy else expect.MET


async def _with_finalizers(
    bench: Bench, machine: Machine, change: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> None:
    """Write other finalizers; a machine that changes meanwhile is read again, one that is gone is left."""
    key, had = bench.key(machine.metadata.name), tuple(machine.metadata.finalizers)
    for _ in range(10):
        if (wanted := change(had)) == had:
            return
        body: dict[str, Any] = {"metadata": {"finalizers": list(wanted) or None}}
        meta = machine.metadata
        try:
            await bench.control.patch(
                MACHINE, key, with_version(with_uid(body, meta.uid), meta.resource_version)
            )
        except Conflict:
            machine = await bench.control.get(MACHINE, key)
            had = tuple(machine.metadata.finalizers)
        except NotFound:
            return
        else:
            return
    raise CaseFailed(f"the finalizers of machine {key.name} cannot be written: it changes all the time")


async def _deployment(bench: Bench) -> Any:
    """The deployment of the test.

    Raises:
        Skipped: there is none.
    """
    try:
        key = bench.key(DEPLOYMENT_NAME)
        found = await bench.patiently(lambda: bench.control.get(MACHINE_DEPLOYMENT, key))
    except NotFound:
        raise Skipped(f"there is no deployment {DEPLOYMENT_NAME}") from None
    except ApiError as error:
        raise CaseFailed(str(error)) from None
    return found


def _meta(bench: Bench, name: str) -> dict[str, str]:
    return {"name": name, "namespace": bench.settings.namespace}
