"""In which order a machine is deleted: hooks, its VM, its bootstrap object, its Node, itself.

Source       capi.md §5.7.
Called by    ``rules``.
"""

from kubewright.api.cluster import names
from simulation.clusterapi.whole import resources
from simulation.clusterapi.whole.facts import (
    cluster_is_deleted,
    find,
    name_of,
    uid_of,
    vms_of_clusters,
)
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both, deleting
from simulation.journal import WORKLOAD, Object, Step, Written

NODES = "/api/v1/nodes/"


class DeletionOrder:
    """The rules; they remember nothing."""

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (
            self.hooks_hold_a_machine,
            self.bootstrap_goes_after_the_vm,
            self.a_node_goes_after_its_vm,
            self.a_machine_goes_last,
        )

    def hooks_hold_a_machine(self, step: Step, past: Past) -> str:
        """No VM is given up while its machine lives, or an annotation holds up the deletion of it."""
        old, new = both(step, resources.INFRA_MACHINES)
        machine = _machine(new, past)
        if machine is None or new is None or not deleting(new) or deleting(old):
            return ""
        if not deleting(machine):
            return f"KubewrightMachine {name_of(new)} is deleted, and its Machine is not"
        notes = machine["metadata"].get("annotations", {})
        held = [each for each in notes if each.startswith(names.PRE_TERMINATE_HOOK_PREFIX)]
        if "nodeRef" in machine.get("status", {}) and not cluster_is_deleted(past):
            held += [each for each in notes if each.startswith(names.PRE_DRAIN_HOOK_PREFIX)]
        return f"KubewrightMachine {name_of(new)} is deleted in spite of {held}" if held else ""

    def bootstrap_goes_after_the_vm(self, step: Step, past: Past) -> str:
        """The KubeadmConfig of a machine is deleted when its KubewrightMachine is gone."""
        old, new = both(step, resources.CONFIGS)
        found = new or old
        if found is None or old is None or not (new is None or (deleting(new) and not deleting(old))):
            return ""
        machine = _machine(found, past)
        if machine is None or uid_of(found) in past.deleted_by_users:
            return ""
        left = find(past, resources.INFRA_MACHINES, str(machine["spec"]["infrastructureRef"]["name"]))
        return f"KubeadmConfig {name_of(found)} goes before its KubewrightMachine" if left else ""

    def a_node_goes_after_its_vm(self, step: Step, past: Past) -> str:
        """No manager deletes a Node whose VM lives."""
        if not isinstance(step, Written) or (step.cluster, step.method) != (WORKLOAD, "DELETE"):
            return ""
        node = step.path.removeprefix(NODES)
        lives = any(vm.node_name == node and vm.gone_at is None for vm in vms_of_clusters(past))
        return f"Node {node} is deleted, and its VM lives" if lives else ""

    def a_machine_goes_last(self, step: Step, past: Past) -> str:
        """A Machine loses its finalizer when its objects are gone."""
        old, new = both(step, resources.MACHINES)
        if old is None or uid_of(old) in past.deleted_by_users or not _held(old) or (new and _held(new)):
            return ""
        left = [
            str(found["kind"])
            for resource in (resources.INFRA_MACHINES, resources.CONFIGS)
            for found in past.journal.objects[resource].values()
            if any(each["uid"] == uid_of(old) for each in found["metadata"].get("ownerReferences", ()))
        ]
        return f"Machine {name_of(old)} goes before its {' and its '.join(left)}" if left else ""


def _held(machine: Object) -> bool:
    return names.MACHINE_FINALIZER in machine["metadata"].get("finalizers", ())


def _machine(found: Object | None, past: Past) -> Object | None:
    """The Machine that controls an object, while it is there."""
    owners = found["metadata"].get("ownerReferences", ()) if found is not None else ()
    uids = {str(each["uid"]) for each in owners if each.get("controller")}
    machines = past.journal.objects[resources.MACHINES].values()
    return next((each for each in machines if uid_of(each) in uids), None)
