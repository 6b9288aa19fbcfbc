"""Going back to an earlier template, when ``spec.rollbackTo`` asks for it: a decider of a pass. Pure.

Theory.      The write that takes the earlier template also clears ``spec.rollbackTo``, so one request causes
             one rollback. The template is a set's, as the deployment wrote it, with the annotations that
             both share. While the deployment is paused the request waits, and no old set is pruned.
Source       mcm.md §7.10.
"""

from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.machines.deployment.template import identity
from kubewright.machines.machineset.member import MachineMember
from kubewright.replicas.deployment.seen import ChangeDeployment, RecordEvent, Seen, Step
from kubewright.replicas.objects import with_annotations, with_hash
from kubewright.rollout.revisions import rollback_target


def roll_back(seen: Seen[MachineDeployment, MachineSet, MachineMember]) -> Plan[Step]:
    """Take an earlier template if ``spec.rollbackTo`` asks for it; while paused it waits."""
    written, request = seen.written, seen.written.spec.rollback_to
    if request is None or written.spec.paused:
        return Plan()
    spec = structs.replace(written.spec, rollback_to=None)
    after = structs.replace(written, spec=spec)
    target = rollback_target(tuple(seen.groups.values()), request.revision)
    if target is None:
        asked = f"revision {request.revision}" if request.revision else "the last revision"
        there = ", ".join(str(found) for found in sorted(g.revision for g in seen.groups.values())) or "none"
        message = f"Unable to find {asked}; revisions that exist: {there}"
        return _refused(after, EventReason.ROLLBACK_REVISION_NOT_FOUND, message)
    source = seen.named(target.name)
    if identity(source.spec.template) == identity(written.spec.template):
        message = f"the template of revision {target.revision} is the one that the deployment has"
        return _refused(after, EventReason.ROLLBACK_TEMPLATE_UNCHANGED, message)
    keys = seen.policy.metadata_keys
    shared = keys.shared(source.metadata.annotations)
    earlier = {key: text for key, text in shared.items() if key not in keys.mirrored}
    template = with_hash(source.spec.template, names.TEMPLATE_HASH_LABEL, "")
    after = structs.replace(after, spec=structs.replace(spec, template=template))
    after = with_annotations(after, {**written.metadata.annotations, **earlier})
    message = f'Rolled back deployment "{written.name}" to revision {target.revision}'
    return Plan((ChangeDeployment(after), RecordEvent(EventReason.ROLLBACK, message)), AT_ONCE, message)


def _refused(after: MachineDeployment, reason: str, message: str) -> Plan[Step]:
    """Clear the request, and then tell why: an event of a write that meets a conflict would be told twice."""
    return Plan((ChangeDeployment(after), RecordEvent(reason, message, warning=True)), AT_ONCE, message)
