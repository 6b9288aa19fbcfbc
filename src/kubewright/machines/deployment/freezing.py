"""A decider of deployments: copy the label ``freeze`` from the sets, and a request to unfreeze to them. Pure.

Theory.      A deployment has the label ``freeze`` while one of its sets has it, because dashboards and users
             look there first. The label of the deployment itself stops nothing; frozen sets create no
             machines. A user who wants all sets unfrozen annotates the deployment: the controller writes the
             annotation onto the frozen sets, and then removes it from the deployment.
Invariants.  A set that is not frozen is not annotated. The deployment loses the annotation after the sets
             have it, so a process that ends between the two writes repeats the first. A set that becomes
             frozen after that stays so: the request was about those that were.
Source       mcm.md §9.3. The condition Frozen is copied from a set (``status``).
Called by    ``replicas.deployment.decide``, by way of ``policy``.
"""

from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.status import is_frozen
from kubewright.replicas.deployment.seen import ChangeDeployment, ChangeSet, Seen, Step
from kubewright.replicas.objects import annotated


def follow_freeze(seen: Seen[MachineDeployment, MachineSet, MachineMember]) -> Plan[Step]:
    """Pass a request to unfreeze on to the sets, and keep the label in line with theirs."""
    key, written = names.UNFREEZE_ANNOTATION, seen.written
    if key in written.metadata.annotations:
        frozen_sets = [s for s in seen.sets if names.FREEZE_LABEL in s.metadata.labels or is_frozen(s.status)]
        asked = tuple(
            ChangeSet(s, annotated(s, key, names.TRUE))
            for s in frozen_sets
            if key not in s.metadata.annotations
        )
        after = annotated(written, key, "")
        return Plan((*asked, ChangeDeployment(after)), AT_ONCE, "a user asks to unfreeze its sets")
    frozen = any(names.frozen(each.metadata.labels) for each in seen.sets)
    if frozen == (names.FREEZE_LABEL in written.metadata.labels):
        return Plan()
    labels = {name: text for name, text in written.metadata.labels.items() if name != names.FREEZE_LABEL}
    wanted = {**labels, names.FREEZE_LABEL: names.TRUE} if frozen else labels
    after = structs.replace(written, metadata=structs.replace(written.metadata, labels=wanted))
    because = "a set of it is frozen" if frozen else "no set of it is frozen"
    return Plan((ChangeDeployment(after),), AT_ONCE, because)
