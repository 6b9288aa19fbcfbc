"""The policy of MachineSets: what ``replicas.set`` has to know to keep as many Machines as a set says.

Theory.      The generic controller does the work; what is particular is what a machine needs before it
             exists, what keeps a set from making machines, and that the set replaces unhealthy ones.
Invariants.  A machine that is being deleted is a replica until it is gone, so its successor comes after it.
             An unhealthy machine is deleted only while another one could be made. A set of
             workers never adopts machines of a control plane, even if its selector matches everything.
Source       capi.md §7.1-7.8; appendix F (HEAD: finalizer, ranks, preflight checks).
Called by    ``clusters.replicas``.
"""

from msgspec import structs

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import MACHINE_SET_COMPONENT
from kubewright.api.cluster.v1beta1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Machine,
    MachineSet,
)
from kubewright.api.cluster.validate import default_set, validate_set
from kubewright.api.faults import summary
from kubewright.api.meta import LabelSelector
from kubewright.base.plan import Plan, in_seconds
from kubewright.clusters import owned, paces
from kubewright.clusters.machineset import clones, propagation
from kubewright.clusters.machineset.around import Around, obstacle, replacement_obstacle
from kubewright.clusters.machineset.clones import parts
from kubewright.clusters.machineset.look import Looker
from kubewright.clusters.machineset.member import MachineMember, ranking
from kubewright.clusters.machineset.propagation import MachineSetSeen
from kubewright.clusters.machineset.status import set_status
from kubewright.kube.client import Client
from kubewright.replicas.objects import key_of
from kubewright.replicas.set.policy import Deletions, Propagation, SetPolicy, Words
from kubewright.replicas.set.seen import PatchObject, Step, Wait
from kubewright.wire.gvk import Key


def with_defaults(machine_set: MachineSet) -> MachineSet:
    """The set with its defaults; its selector and its template have the label of its cluster."""
    found = default_set(machine_set)
    spec, own = found.spec, {names.CLUSTER_NAME_LABEL: found.spec.cluster_name}
    selector = spec.selector or LabelSelector()
    meta = spec.template.metadata
    template = structs.replace(spec.template, metadata=structs.replace(meta, labels={**meta.labels, **own}))
    selector = structs.replace(selector, match_labels={**selector.match_labels, **own})
    return structs.replace(found, spec=structs.replace(spec, selector=selector, template=template))


def set_cluster_owner(seen: MachineSetSeen) -> Plan[Step]:
    """Write the cluster's label onto the set, and its owner reference onto a set without a deployment.

    It never had one, or that is gone and has left it (``--cascade=orphan``).
    """
    meta, around = seen.set.metadata, _around(seen)
    alone = meta.controller is None and not around.deployed
    after = owned.with_cluster_ownership(meta, around.cluster, seen.set.spec.cluster_name, owned=alone)
    body = owned.metadata_patch(meta, after)
    if not body:
        return Plan()
    return Plan((PatchObject(MACHINE_SET, key_of(seen.set), body),), because="the set is its cluster's")


def own_templates(seen: MachineSetSeen) -> Plan[Step]:
    """Make the cluster an owner of the templates, so that they go and move with it."""
    around, steps = _around(seen), []
    for template in parts(around).values():
        body = owned.template_owner_patch(template, around.cluster) if around.cluster is not None else {}
        if body and template.kind is not None:
            steps.append(PatchObject(template.kind, Key(seen.set.namespace, template.ref.name), body))
    return Plan(tuple(steps), because="its templates are the cluster's" if steps else "")


def to_delete(seen: MachineSetSeen) -> Deletions[MachineMember]:
    """The machines that health checks want replaced, those first that users ask for, then the youngest."""
    to_replace = [member for member in seen.alive if member.remediate]
    if not to_replace:
        return Deletions()
    if (waits := replacement_obstacle(seen.set, _around(seen))) is not None:
        wake = in_seconds(waits.seconds) if waits.seconds is not None else None
        return Deletions((), f"{len(to_replace)} to be replaced, but {waits.message}", wake)
    ordered = sorted(to_replace, key=_remediation_order)
    return Deletions(tuple(ordered), f"{len(to_replace)} to be replaced")


def _remediation_order(member: MachineMember) -> tuple[bool, float, str]:
    return names.REMEDIATE_MACHINE_ANNOTATION not in member.annotations, -member.created, member.name


def adopts(machine_set: MachineSet, member: MachineMember) -> bool:
    """Machines of a control plane are adopted only by a set that makes such machines itself."""
    mine = machine_set.spec.template.metadata.labels
    return names.CONTROL_PLANE_LABEL not in member.labels or names.CONTROL_PLANE_LABEL in mine


def blocked(machine_set: MachineSet, around: Around) -> Wait | None:
    """Why no machine is made or deleted now; None if nothing is in the way."""
    found = obstacle(machine_set, around)
    return Wait(found.message, found.seconds, found.awaits) if found is not None else None


def _around(seen: MachineSetSeen) -> Around:
    found: Around = seen.around
    return found


def policy(looker: Looker) -> SetPolicy[MachineSet, MachineMember, Machine]:
    """The policy, with what it looks at."""

    async def create(client: Client, machine_set: MachineSet, name: str) -> None:
        await clones.create(client, machine_set, looker.look(machine_set), name)

    async def discard(client: Client, machine_set: MachineSet, name: str) -> None:
        await clones.discard(client, machine_set, looker.look(machine_set), name)

    return SetPolicy(
        name="clustermachineset",
        component=MACHINE_SET_COMPONENT,
        words=Words("machine", "machines", created='Created machine "{}"', deleted='Deleted machine "{}"'),
        kind=MACHINE_SET,
        member_kind=MACHINE,
        validate=lambda machine_set: summary(validate_set(machine_set)),
        with_defaults=with_defaults,
        idle=lambda machine_set: owned.paused_because(machine_set, looker.cluster(machine_set)),
        look=looker.look,
        forget=looker.forget,
        status=set_status,
        ranking=ranking,
        create=create,
        discard=discard,
        to_delete=to_delete,
        finalizer=names.MACHINE_SET_FINALIZER,
        adopts=adopts,
        number_annotation=names.LAST_NUMBER_ANNOTATION,
        keeps_controlled=True,
        counts_deleting=True,
        blocked=blocked,
        pace=paces.SETS,
        owner=MACHINE_DEPLOYMENT,
        desired_annotation=names.DESIRED_REPLICAS_ANNOTATION,
        propagation=Propagation(propagation.stale, propagation.patch, clones.propagate),
        deciders=(set_cluster_owner, own_templates),
    )
