"""The policy of MachineSets: what ``replicas.set`` has to know to keep as many Machines as a set says.

Theory.      The generic controller does the work; what is particular is what a machine needs before it
             exists, what keeps a set from making machines, and that the set replaces unhealthy ones.
Status.      MachinesCreated says whether machines can be made, and if not, what the set waits for; Resized
             whether there are as many as wanted; MachinesReady what the machines say of themselves. Ready
             sums these up.
Invariants.  A machine that is being deleted is a replica until it is gone, so its successor comes after it.
             An unhealthy machine is deleted only while another one could be made. A set of workers never
             adopts machines of a control plane, even if its selector matches everything. An unchanged world
             gives an equal status, so nothing is written. A failure that is over is in no condition.
Called by    ``clusters.world``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs, to_builtins

from kubewright.api import faults
from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import (
    ERROR,
    MACHINE_SET_COMPONENT,
    WARNING,
    ConditionType,
    Reason,
    Source,
    aggregate,
    false_condition,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Cluster,
    Condition,
    Machine,
    MachineDeployment,
    MachineSet,
    MachineSetStatus,
)
from kubewright.api.cluster.validate import default_deployment, default_set, validate_set
from kubewright.api.conditions import condition_of
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import Plan, in_seconds
from kubewright.clusters import owned, paces
from kubewright.clusters.external.object import look_up
from kubewright.clusters.machineset import clones
from kubewright.clusters.machineset.around import Around, obstacle, replacement_obstacle
from kubewright.clusters.machineset.clones import parts
from kubewright.clusters.machineset.member import (
    MachineMember,
    MachineSetSeen,
    propagated_patch,
    ranking,
    stale,
)
from kubewright.clusters.owned import cluster_of
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.replicas.objects import INVALID, key_of, read_selector
from kubewright.replicas.set.seen import (
    Decider,
    Deletions,
    Failure,
    PatchObject,
    SetPolicy,
    Step,
    Wait,
    Words,
    counted,
)
from kubewright.rollout.model import Rank
from kubewright.runtime.references.registry import ControllerLookup
from kubewright.wire import selectors
from kubewright.wire.gvk import Key

READY_OF = (ConditionType.MACHINES_CREATED, ConditionType.RESIZED, ConditionType.MACHINES_READY)


def set_status(seen: MachineSetSeen, failure: Failure | None) -> MachineSetStatus:
    """The status to write; ``failure``: what kept this pass from creating or deleting machines."""
    before = seen.set.status
    counts = counted(seen, seen.members)
    found = with_conditions(
        before.conditions, _conditions(seen, failure, counts["ready_replicas"]), seen.wall
    )
    ready = summary(found, READY_OF)
    failed = failure is not None or bool(seen.problem)
    return structs.replace(
        before,
        **counts,
        selector=_selector(seen),
        observed_generation=before.observed_generation if failed else seen.set.metadata.generation,
        conditions=found if ready is None else with_conditions(found, (ready,), seen.wall),
    )


def _selector(seen: MachineSetSeen) -> str:
    if seen.problem:
        return seen.set.status.selector
    return str(selectors.from_object(to_builtins(seen.set.spec.selector)))


def _conditions(seen: MachineSetSeen, failure: Failure | None, ready: int) -> Iterator[Condition]:
    yield _created(seen, failure)
    resized = _resized(seen, ready)
    if resized is not None:
        yield resized
    sources = (Source("Machine", member.name, member.summary) for member in seen.members)
    machines = aggregate(ConditionType.MACHINES_READY, sources)
    if machines is not None:
        yield structs.replace(machines, message=machines.message[:MESSAGE_CHARS])


def _created(seen: MachineSetSeen, failure: Failure | None) -> Condition:
    """Whether machines can be made: what is wrong, or what is waited for while some are missing."""
    condition_type = ConditionType.MACHINES_CREATED
    if seen.problem:
        return false_condition(condition_type, INVALID, ERROR, seen.problem[:MESSAGE_CHARS])
    around: Around = seen.around
    found = obstacle(seen.set, around) if seen.missing > 0 or _waits(seen) else None
    if found is not None and found.reason:
        return false_condition(condition_type, found.reason, ERROR, found.message[:MESSAGE_CHARS])
    if failure is not None:
        return false_condition(
            condition_type, Reason.MACHINE_CREATION_FAILED, ERROR, failure.message[:MESSAGE_CHARS]
        )
    return true_condition(condition_type)


def _waits(seen: MachineSetSeen) -> bool:
    """Whether machines wait to be replaced."""
    return any(member.alive and member.remediate for member in seen.members)


def _resized(seen: MachineSetSeen, ready: int) -> Condition | None:
    """Whether there are as many machines as wanted; it becomes True when all of them are ready, and stays as
    it is until then."""
    wanted, has = seen.set.spec.replicas, len(seen.members)
    condition_type = ConditionType.RESIZED
    if has < wanted:
        message = f"Scaling up MachineSet to {wanted} replicas (actual {has})"
        return false_condition(condition_type, Reason.SCALING_UP, WARNING, message)
    if has > wanted:
        message = f"Scaling down MachineSet to {wanted} replicas (actual {has})"
        return false_condition(condition_type, Reason.SCALING_DOWN, WARNING, message)
    if ready == wanted:
        return true_condition(condition_type)
    if condition_of(seen.set.status.conditions, condition_type) is not None:
        return None
    message = f"Scaling up MachineSet to {wanted} replicas (ready {ready})"
    return false_condition(condition_type, Reason.SCALING_UP, WARNING, message)


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks at what is around sets."""

    clusters: Informer[Cluster]
    deployments: Informer[MachineDeployment]
    references: ControllerLookup

    def cluster(self, machine_set: MachineSet) -> Cluster | None:
        """The set's cluster, if it exists."""
        return self.clusters.get(cluster_of(machine_set))

    def look(self, machine_set: MachineSet) -> Around:
        """What is there now."""
        key, spec = key_of(machine_set), machine_set.spec.template.spec
        cluster, config = self.cluster(machine_set), spec.bootstrap.config_ref
        control_plane = cluster.spec.control_plane_ref if cluster is not None else None
        return Around(
            cluster,
            look_up(self.references, key, control_plane) if control_plane is not None else None,
            look_up(self.references, key, config) if config is not None else None,
            look_up(self.references, key, spec.infrastructure_ref),
            self._deployed(machine_set.metadata),
        )

    def _deployed(self, meta: ObjectMeta) -> bool:
        name = meta.labels.get(names.DEPLOYMENT_NAME_LABEL, "")
        found = self.deployments.get(Key(meta.namespace, name)) if name else None
        if found is None or found.metadata.deleting:
            return False
        return read_selector(default_deployment(found).spec.selector)[0].matches(meta.labels)

    def forget(self, machine_set: Key) -> None:
        """There is no such set any more."""
        self.references.forget(machine_set)


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


def _remediation_order(member: MachineMember) -> tuple[bool, float, str]:
    return names.REMEDIATE_MACHINE_ANNOTATION not in member.annotations, -member.created, member.name


def _around(seen: MachineSetSeen) -> Around:
    found: Around = seen.around
    return found


class MachineSets(SetPolicy[MachineSet, MachineMember, Machine]):
    """What sets of Machines do; ``looker`` finds what is around them."""

    name = "clustermachineset"
    component = MACHINE_SET_COMPONENT
    words = Words("machine", "machines", created='Created machine "{}"', deleted='Deleted machine "{}"')
    kind = MACHINE_SET
    member_kind = MACHINE
    finalizer = names.MACHINE_SET_FINALIZER
    number_annotation = names.LAST_NUMBER_ANNOTATION
    owner = MACHINE_DEPLOYMENT
    desired_annotation = names.DESIRED_REPLICAS_ANNOTATION
    keeps_controlled = True
    counts_deleting = True
    creates_parts = True
    pace = paces.SETS

    def __init__(self, looker: Looker) -> None:
        self._looker = looker

    def with_defaults(self, found: MachineSet) -> MachineSet:
        """The set with its defaults; its selector and its template have the label of its cluster."""
        found = default_set(found)
        spec, own = found.spec, {names.CLUSTER_NAME_LABEL: found.spec.cluster_name}
        selector = spec.selector or LabelSelector()
        meta = spec.template.metadata
        template = structs.replace(
            spec.template, metadata=structs.replace(meta, labels={**meta.labels, **own})
        )
        selector = structs.replace(selector, match_labels={**selector.match_labels, **own})
        return structs.replace(found, spec=structs.replace(spec, selector=selector, template=template))

    def validate(self, found: MachineSet) -> str:
        """What validation says."""
        return faults.summary(validate_set(found))

    def idle(self, found: MachineSet) -> str:
        """The set, or its cluster, is paused."""
        return owned.paused_because(found, self._looker.cluster(found))

    def look(self, found: MachineSet) -> Around:
        """Its cluster and its templates."""
        return self._looker.look(found)

    def forget(self, key: Key) -> None:
        """The lookups of its templates end."""
        self._looker.forget(key)

    async def create(self, client: Client, owner: MachineSet, name: str) -> None:
        """The machine, and before it clones of its templates."""
        await clones.create(client, owner, self.look(owner), name)

    async def discard(self, client: Client, owner: MachineSet, name: str) -> None:
        """The clones of a machine that was refused."""
        await clones.discard(client, owner, self.look(owner), name)

    def adopts(self, found: MachineSet, member: MachineMember) -> bool:
        """Machines of a control plane are adopted only by a set that makes such machines itself."""
        mine = found.spec.template.metadata.labels
        return names.CONTROL_PLANE_LABEL not in member.labels or names.CONTROL_PLANE_LABEL in mine

    def blocked(self, found: MachineSet, around: Around) -> Wait | None:
        """Why no machine is made or deleted now; None if nothing is in the way."""
        hindrance = obstacle(found, around)
        if hindrance is None:
            return None
        return Wait(hindrance.message, hindrance.seconds, hindrance.awaits)

    def ranking(
        self, of: MachineSet, wall: float, living: Sequence[MachineMember]
    ) -> Callable[[MachineMember], Rank]:
        """As ``member.ranking``."""
        return ranking(of, wall, living)

    def deciders(self) -> tuple[Decider[MachineSet, MachineMember], ...]:
        """What belongs to its cluster is marked as the cluster's."""
        return (set_cluster_owner, own_templates)

    def to_delete(self, seen: MachineSetSeen) -> Deletions[MachineMember]:
        """The machines that health checks want replaced: those first that users ask for, then the young."""
        to_replace = [member for member in seen.alive if member.remediate]
        if not to_replace:
            return Deletions()
        if (waits := replacement_obstacle(seen.set, _around(seen))) is not None:
            wake = in_seconds(waits.seconds) if waits.seconds is not None else None
            return Deletions((), f"{len(to_replace)} to be replaced, but {waits.message}", wake)
        ordered = sorted(to_replace, key=_remediation_order)
        return Deletions(tuple(ordered), f"{len(to_replace)} to be replaced")

    def status(self, seen: MachineSetSeen, failure: Failure | None) -> MachineSetStatus:
        """As ``set_status``."""
        return set_status(seen, failure)

    def stale(self, seen: MachineSetSeen) -> list[MachineMember]:
        """As ``member.stale``."""
        return stale(seen)

    def propagation(self, found: MachineSet, member: Machine) -> dict[str, Any]:
        """As ``member.propagated_patch``."""
        return propagated_patch(found, member)

    async def before_propagation(self, client: Client, found: MachineSet, member: Machine) -> None:
        """The same labels and annotations for the clones."""
        await clones.propagate(client, found, member)
