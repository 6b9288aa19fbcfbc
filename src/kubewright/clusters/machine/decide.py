"""What is to be done about one Machine. Pure.

Theory.      Providers make bootstrap data and VM; the Machine becomes the controller of their objects, and
             copies what they report. When the VM has joined, its Node gets labels, annotations and taints.
             Every pass attends to all parts, whatever became of the others; the status says what each waits
             for.
Invariants.  A paused Machine is never written, and not deleted either. What changes the Machine itself goes
             first: it gets our finalizer before anything is claimed.
Called by    ``act``. Continues in ``deletion``.
"""

from collections.abc import Iterator

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.conditions import since_not_true
from kubewright.base.delays import UNHEARD
from kubewright.base.plan import Awaited, Plan, in_order
from kubewright.clusters.external.mirroring import awaited
from kubewright.clusters.external.object import claim
from kubewright.clusters.machine import deletion, wanted
from kubewright.clusters.machine.seen import (
    BOOTSTRAP,
    INFRASTRUCTURE,
    Claim,
    PatchNode,
    Seen,
    Step,
    UpdateMachine,
    cluster_awaited,
)


def decide(seen: Seen) -> Plan[Step]:
    """The plan for one pass."""
    meta = seen.machine.metadata
    if seen.paused:
        return Plan(because="the machine or its cluster is paused", silent=True)
    if seen.incomplete and (names.MACHINE_FINALIZER in meta.finalizers or meta.deleting):
        return Plan(because="objects that it refers to are not read yet", silent=True)
    if meta.deleting:
        return deletion.decide(seen)
    return in_order((_update_machine, _claim_objects, _sync_node, _await_others), seen, Plan())


def _update_machine(seen: Seen) -> Plan[Step] | None:
    """Write the metadata and spec that the Machine should have."""
    patch = wanted.machine_patch(seen)
    if not patch:
        return None
    data = wanted.data_to_store(seen)
    steps = (UpdateMachine(patch),) if data is None else (data, UpdateMachine(patch))
    return Plan(steps, because=f"the machine lacks {' and '.join(sorted(_touched(patch)))}")


def _touched(patch: dict[str, dict[str, object]]) -> Iterator[str]:
    for part in patch.values():
        yield from part


def _claim_objects(seen: Seen) -> Plan[Step] | None:
    """Become the controller of what the references name."""
    former = wanted.former_owners(seen)
    steps: list[Claim] = []
    for about, external in ((BOOTSTRAP, seen.bootstrap), (INFRASTRUCTURE, seen.infrastructure)):
        if external is not None:
            found = claim(external, seen.owner, seen.machine.spec.cluster_name, former_owners=former)
            if found.patch is not None:
                steps.append(Claim(about, external, found.patch))
    if not steps:
        return None
    because = f"{' and '.join(str(each.external) for each in steps)} is the machine's"
    return Plan(tuple(steps), because=because)


def _sync_node(seen: Seen) -> Plan[Step] | None:
    """Write the labels, annotations and taints of the Node, once it is there."""
    if seen.workload.unreachable and seen.machine.spec.provider_id:
        return Plan(wake=UNHEARD, because=seen.workload.unreachable)
    found = seen.workload.node
    if found is None or found.metadata.deleting or not seen.machine.spec.provider_id:
        return None
    patch = wanted.sync(seen, found)
    return Plan((PatchNode(found, patch),), because=f"Node {found.name} differs") if patch else None


def _await_others(seen: Seen) -> Plan[Step] | None:
    """Name what has to come from providers, users and the workload cluster until the machine is a Node."""
    found = tuple(_awaited(seen))
    if not found:
        return None
    return Plan(because=f"waits for {' and '.join(each.what for each in found)}", awaits=found)


def _awaited(seen: Seen) -> Iterator[Awaited]:
    spec, conditions = seen.machine.spec, seen.machine.status.conditions
    if seen.cluster is None:
        yield Awaited(f"Cluster {seen.cluster_key}", "create it, or delete the Machine")
        return
    if spec.bootstrap.data_secret_name is None:
        since = since_not_true(conditions, ConditionType.BOOTSTRAP_READY)
        if seen.bootstrap is None:
            yield Awaited("spec.bootstrap.dataSecretName", "set it, or spec.bootstrap.configRef", since)
        elif (found := awaited(seen.bootstrap, seen.owner, since)) is not None:
            yield found
    since = since_not_true(conditions, ConditionType.INFRASTRUCTURE_READY)
    if (found := awaited(seen.infrastructure, seen.owner, since)) is not None:
        yield found
    elif spec.provider_id and seen.workload.node is None:
        yield _awaited_node(seen)


def _awaited_node(seen: Seen) -> Awaited:
    """The Node of a machine that has a VM, or the cluster in which it would be."""
    since, workload = (
        since_not_true(seen.machine.status.conditions, ConditionType.NODE_HEALTHY),
        seen.workload,
    )
    if workload.unreachable:
        return cluster_awaited(seen)
    if workload.taken_by or len(workload.nodes) > 1:
        remedy = (
            f"correct spec.providerID of Machine {workload.taken_by or seen.machine.name}, or of the Node"
        )
        return Awaited("a Node that no other machine has", remedy, since)
    what = (
        f"Node {seen.node_name}"
        if seen.node_name
        else f"a Node with the providerID {seen.machine.spec.provider_id}"
    )
    return Awaited(
        what, "see the console of the VM, and whether its kubelet joins with this providerID", since
    )
