"""Passes over the machines of a deployment that are kept free: what enqueues it, and what is written."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import pytest
from msgspec import structs

from kubewright.api.machine import excess, names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    ClassSpec,
    CurrentStatus,
    Machine,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineSet,
    MachineSetSpec,
    MachineSetStatus,
    MachineSpec,
    MachineStatus,
    MachineTemplateSpec,
)
from kubewright.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kubewright.kube.informer import Informer
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.excess.wiring import MachineTaints
from kubewright.machines.machineset.member import MachineMember, read
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.runtime.events import Recorder
from kubewright.runtime.result import PartlyFailed
from kubewright.testing.acts import Told
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf
from kubewright.wire.errors import Conflict
from kubewright.wire.gvk import Key

NS = "ns"
MD = Key(NS, "d")
FREE = frozenset(excess.EFFECTS)
TAINTS = [{"key": excess.TAINT, "value": "true", "effect": effect} for effect in excess.EFFECTS]


def meta(name: str, owner: str = "", kind: str = "", **more: Any) -> ObjectMeta:
    refs = (
        OwnerReference(api_version="machine.sapcloud.io/v1alpha1", kind=kind, name=owner, uid=f"{owner}-uid",
                       controller=True),
    ) if owner else ()  # fmt: skip
    labels = {"app": "a"}
    return ObjectMeta(
        name=name, namespace=NS, uid=f"{name}-uid", labels=labels, owner_references=refs, **more
    )


def template() -> MachineTemplateSpec:
    spec = MachineSpec(machine_class=ClassSpec(kind="MachineClass", name="small"))
    return MachineTemplateSpec(metadata=ObjectMeta(labels={"app": "a"}), spec=spec)


def deployment(replicas: int, more: int | None) -> MachineDeployment:
    selector = LabelSelector(match_labels={"app": "a"})
    spec = MachineDeploymentSpec(
        replicas=replicas, excess_replicas=more, selector=selector, template=template()
    )
    return MachineDeployment(metadata=meta("d", finalizers=(names.FINALIZER,)), spec=spec)


def machine(number: int, *, free: bool = False, phase: Phase = Phase.RUNNING) -> Machine:
    made = BEGIN + timedelta(seconds=number)
    spec = excess.kept_free(template().spec, free=free)
    status = MachineStatus(current_status=CurrentStatus(phase=phase))
    found = meta(f"m{number}", "s", "MachineSet", creation_timestamp=made)
    return Machine(metadata=found, spec=spec, status=status)


def machine_set(owner: str) -> MachineSet:
    selector = LabelSelector(match_labels={"app": "a"})
    spec = MachineSetSpec(replicas=3, selector=selector, template=template())
    kind = "MachineDeployment" if owner else ""
    return MachineSet(metadata=meta("s", owner, kind, finalizers=(names.FINALIZER,)), spec=spec)


@dataclass
class Controlled:
    """A shelf with a deployment of two replicas and its machines, and the controller of taints beside it."""

    shelf: Shelf
    taints: MachineTaints
    index: MemberIndex[Machine, MachineMember]

    def member(self, name: str) -> MachineMember:
        found = self.index.member(Key(NS, name))
        assert found is not None
        return found


async def controlled(more: int | None, *machines: Machine) -> Controlled:
    shelf = Shelf()
    index = MemberIndex(shelf.caches.get(MACHINE), read, shelf.client.steady())
    recorder = cast("Recorder", Told())
    deployments = Deployments(MACHINE_DEPLOYMENTS, shelf.caches, recorder, index=index)
    taints = MachineTaints(deployments, shelf.client, recorder)
    await shelf.put(MACHINE_DEPLOYMENT, deployment(2, more))
    await shelf.put(MACHINE_SET, machine_set("d"))
    await shelf.put(MACHINE, *machines)
    return Controlled(shelf, taints, index)


async def test_one_write_for_each_machine_whose_taints_change_and_none_after_that() -> None:
    of = await controlled(1, machine(1), machine(2, free=True), machine(3))
    await of.taints.reconcile(MD)
    written = {each.path.rpartition("/")[2]: each.body for each in of.shelf.writes}
    assert list(written) == ["m2", "m3"]
    assert written["m3"]["spec"] == {"nodeTemplate": {"spec": {"taints": TAINTS}}}
    assert written["m2"]["spec"] == {"nodeTemplate": {"spec": {"taints": None}}}
    assert all({"uid", "resourceVersion"} <= body["metadata"].keys() for body in written.values())
    assert [of.member(name).free for name in ("m1", "m2", "m3")] == [frozenset(), frozenset(), FREE]
    await of.taints.reconcile(MD)
    assert len(of.shelf.writes) == 2


async def test_a_machine_that_is_not_written_holds_up_no_other() -> None:
    of = await controlled(2, machine(1), machine(2), machine(3), machine(4))
    path = MACHINE.resource.path(NS, "m3")
    of.shelf.answers[path] = Conflict("m3 has changed")
    with pytest.raises(PartlyFailed):
        await of.taints.reconcile(MD)
    assert of.member("m4").free == FREE


async def test_only_what_may_move_the_taints_enqueues_a_deployment() -> None:
    of = await controlled(1, machine(1), machine(2), machine(3))
    one = of.member("m1")
    pending, failed = (replace(one, phase=phase) for phase in (Phase.PENDING, Phase.FAILED))
    assert of.taints.of_machine(None, one) == of.taints.of_machine(one, None) == {MD}
    assert of.taints.of_machine(one, failed) == of.taints.of_machine(failed, one) == {MD}
    assert of.taints.of_machine(one, replace(one, free=FREE)) == {MD}
    assert of.taints.of_machine(pending, one) == set()


async def test_machines_of_a_deployment_without_excess_enqueue_nothing_unless_they_have_the_taints() -> None:
    of = await controlled(None, machine(1), machine(2, free=True))
    one, tainted = of.member("m1"), of.member("m2")
    assert of.taints.of_machine(None, one) == set()
    assert of.taints.of_machine(None, tainted) == {MD}
    await of.taints.reconcile(MD)
    assert [of.member(name).free for name in ("m1", "m2")] == [frozenset(), frozenset()]


async def test_after_the_field_is_gone_each_machine_counts_until_the_last_taint_is() -> None:
    of = await controlled(None, machine(1), machine(2, free=True), machine(3))
    await of.taints.reconcile(MD)
    assert of.member("m2").free == FREE, "a set that shrinks is to delete it"
    assert of.taints.of_machine(of.member("m3"), None) == {MD}
    await of.shelf.put(MACHINE, machine(3, phase=Phase.FAILED))
    await of.taints.reconcile(MD)
    assert of.member("m2").free == frozenset()
    await of.taints.reconcile(MD)
    assert of.taints.of_machine(of.member("m3"), None) == set()


async def test_machines_of_a_deployment_that_asks_by_annotation_count_as_well() -> None:
    of = await controlled(None, machine(1), machine(2), machine(3))
    noted = deployment(2, None)
    noted = structs.replace(
        noted, metadata=structs.replace(noted.metadata, annotations={excess.KEPT_ANNOTATION: "1"})
    )
    await of.shelf.put(MACHINE_DEPLOYMENT, noted)
    assert of.taints.of_machine(None, of.member("m1")) == {MD}
    await of.taints.reconcile(MD)
    assert of.member("m3").free == FREE


async def test_a_set_that_comes_with_free_machines_is_a_reason_to_look_at_them() -> None:
    of = await controlled(None, machine(1), machine(2, free=True))
    woken: list[Key] = []
    informer: Informer[MachineSet] = of.shelf.caches.get(MACHINE_SET)
    informer.subscribe(lambda change: woken.extend(of.taints.of_set(change)))
    await of.shelf.put(MACHINE_SET, machine_set(""))
    woken.clear()
    await of.taints.reconcile(MD)
    assert not of.shelf.writes
    await of.shelf.put(MACHINE_SET, machine_set("d"))
    assert woken == [MD]
    await of.taints.reconcile(MD)
    assert of.member("m2").free == frozenset()
    await of.shelf.put(MACHINE_SET, structs.replace(machine_set("d"), status=MachineSetStatus(replicas=2)))
    assert woken == [MD]
