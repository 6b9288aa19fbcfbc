"""The metadata and spec that a Machine should have: label, finalizer, owner, what providers report. Pure.

Theory.      All that is to be changed in metadata and spec goes into one patch. From the objects of its
             providers, once they are ready and if no other Machine controls them, a Machine copies the name
             of the Secret with the bootstrap data, the providerID and the failure domain. A Machine that no
             other object controls, or is about to adopt, is owned by its Cluster.
             Bootstrap data in the Machine itself is moved into a Secret before anything else, so
             that no plaintext stays. Empty data, or an empty name of a Secret, says that there is
             nothing to boot with: it becomes a Secret with an empty value, since no provider but ours
             knows an empty name.
The Node.    A machine's Node is the one with its providerID. It gets annotations that point back to the
             machine, and those labels of the machine that belong on Nodes; the keys of these stand in an
             annotation, so that a label which goes from the machine goes from the Node. The taint with which
             a worker joins goes once the labels are there: before, pods could be scheduled that the labels
             would have kept away.
Invariants.  A providerID is not changed once the machine is a Node: the Node is found by it. A Secret of the
             user's own is never replaced. Nothing is removed but the plaintext. Labels of others are never
             touched. The patch of a Node that was patched so is empty. A definite complaint of a Node weighs
             more than what is not known; only where nothing at all is known is the Node's health Unknown.
Called by    ``decide``, ``deletion``, ``status``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import (
    WARNING,
    ConditionType,
    Reason,
    false_condition,
    true_condition,
    unknown_condition,
)
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    GROUP,
    MACHINE_SET,
    Bootstrap,
    Condition,
    Machine,
    MachineSpec,
)
from kubewright.api.core import Taint
from kubewright.api.diff import merge_patch
from kubewright.api.meta import ObjectMeta, OwnerReference, with_finalizer
from kubewright.clusters.external import fields
from kubewright.clusters.external.object import External
from kubewright.clusters.machine.seen import Seen, StoreData
from kubewright.clusters.node import ClusterNode
from kubewright.clusters.owned import cluster_reference
from kubewright.nodes import marks
from kubewright.nodes.marks import Desired
from kubewright.wire.gvk import split_api_version

DATA_SUFFIX = "-bootstrap-data"


def machine_patch(seen: Seen) -> dict[str, Any]:
    """The merge patch that the metadata and spec of the Machine lack; empty if they lack nothing."""
    machine = seen.machine
    return merge_patch(machine, replace(machine, metadata=_metadata(seen), spec=_spec(seen)))


def data_to_store(seen: Seen) -> StoreData | None:
    """The data to move into a Secret: the Machine's own; none at all, where the name of the Secret is empty;
    or what its provider wrote in place of a name, as those of v1alpha2 did. None: nothing to move."""
    bootstrap = seen.machine.spec.bootstrap
    if bootstrap.data_secret_name:
        return None
    given = bootstrap.data if bootstrap.data is not None else bootstrap.data_secret_name
    data = given if given is not None else _v1alpha2_data(seen)
    return StoreData(f"{seen.machine.name}{DATA_SUFFIX}", data) if data is not None else None


def _v1alpha2_data(seen: Seen) -> str | None:
    external = seen.bootstrap
    if external is None or not _reports_ready(seen, external) or external.text(fields.DATA_SECRET_NAME):
        return None
    return external.text(fields.BOOTSTRAP_DATA) or None


def former_owners(seen: Seen) -> frozenset[str]:
    """The kinds that own clones until their Machine is there: what made the Machine made them, too."""
    made_by = seen.machine.metadata.controller
    return frozenset({MACHINE_SET.resource.kind, *(() if made_by is None else (made_by.kind,))})


def problem_of_bootstrap(seen: Seen) -> str:
    """What is wrong with a bootstrap object that says it is ready; empty if nothing is."""
    external = seen.bootstrap
    if external is None or not _reports_ready(seen, external) or external.text(fields.DATA_SECRET_NAME):
        return ""
    if _v1alpha2_data(seen) is not None:
        return ""
    return f"{external} is ready, but has no {fields.DATA_SECRET_NAME.path(external.contract)}"


def problem_of_infrastructure(seen: Seen) -> str:
    """What is wrong with an infrastructure object that says it is ready; empty if nothing is."""
    external, known = seen.infrastructure, seen.machine.spec.provider_id
    if not _reports_ready(seen, external):
        return ""
    told = external.text(fields.PROVIDER_ID)
    if not told:
        return f"{external} is ready, but has no {fields.PROVIDER_ID.path(external.contract)}"
    if known and told != known and seen.node_name:
        return f"{external} has the providerID {told}, but the machine became a Node with {known}"
    return ""


def controlled_by_another(seen: Seen, external: External) -> bool:
    """Whether another Machine controls an object, so that what it says is not about this one."""
    return bool(external.other_controller(seen.owner, former_owners(seen)))


def readable(seen: Seen, external: External) -> bool:
    """Whether the status of an object is used: it exists, is not paused, and no other Machine controls it."""
    return external.found is not None and not external.paused and not controlled_by_another(seen, external)


def _reports_ready(seen: Seen, external: External) -> bool:
    return readable(seen, external) and external.ready and not external.deleting


def _metadata(seen: Seen) -> ObjectMeta:
    meta = seen.machine.metadata
    label = {names.CLUSTER_NAME_LABEL: seen.machine.spec.cluster_name}
    return replace(
        meta,
        labels={**meta.labels, **label},
        finalizers=tuple(with_finalizer(meta.finalizers, names.MACHINE_FINALIZER)),
        owner_references=(*meta.owner_references, *_cluster_owner(seen)),
    )


def _cluster_owner(seen: Seen) -> Iterator[OwnerReference]:
    """The reference to the Cluster, for a Machine that has none, and that nothing controls or will adopt."""
    meta, cluster = seen.machine.metadata, seen.cluster
    made = meta.controller is not None or seen.has_maker
    known = any(
        (split_api_version(each.api_version)[0], each.kind) == (GROUP, CLUSTER.resource.kind)
        for each in meta.owner_references
    )
    if cluster is not None and not made and not known:
        yield cluster_reference(cluster)


def _spec(seen: Seen) -> MachineSpec:
    spec, infrastructure = seen.machine.spec, seen.infrastructure
    spec = replace(spec, bootstrap=_bootstrap(seen))
    if not _reports_ready(seen, infrastructure) or problem_of_infrastructure(seen):
        return spec
    domain = infrastructure.text(fields.FAILURE_DOMAIN)
    return replace(
        spec,
        provider_id=infrastructure.text(fields.PROVIDER_ID),
        failure_domain=domain or spec.failure_domain,
    )


def _bootstrap(seen: Seen) -> Bootstrap:
    bootstrap, external = seen.machine.spec.bootstrap, seen.bootstrap
    if (moved := data_to_store(seen)) is not None:
        return replace(bootstrap, data=None, data_secret_name=moved.secret)
    told = (
        external.text(fields.DATA_SECRET_NAME)
        if external is not None and _reports_ready(seen, external)
        else ""
    )
    name = bootstrap.data_secret_name
    return replace(bootstrap, data=None, data_secret_name=name if name is not None else told or None)


HEALTHY = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
"""The conditions of a Node that count, with the status that each should have."""

UNINITIALIZED = Taint(key=names.UNINITIALIZED_TAINT, effect="NoSchedule")
OUTDATED = Taint(key=names.OUTDATED_REVISION_TAINT, effect="PreferNoSchedule")

UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
"""On a Node whose kubelet has been silent: nothing ends its pods."""


def health(node: ClusterNode) -> Condition:
    """The condition NodeHealthy of a Node that is there."""
    found = {each.type: each.status for each in node.status.conditions}
    statuses = {condition_type: found.get(condition_type, "Unknown") for condition_type in HEALTHY}
    complaints = {each: status for each, status in statuses.items() if status != HEALTHY[each]}
    message = "".join(f"Node condition {each} is {status}. " for each, status in complaints.items())
    if any(status != "Unknown" for status in complaints.values()):
        return false_condition(ConditionType.NODE_HEALTHY, Reason.NODE_CONDITIONS_FAILED, WARNING, message)
    if len(complaints) == len(HEALTHY):
        return unknown_condition(ConditionType.NODE_HEALTHY, Reason.NODE_CONDITIONS_FAILED, message)
    return true_condition(ConditionType.NODE_HEALTHY)


def silent(node: ClusterNode) -> bool:
    """Nothing ends the pods of this Node, because its kubelet cannot be reached."""
    return any(taint.key == UNREACHABLE_TAINT for taint in node.spec.taints)


def belongs_on_nodes(label: str) -> bool:
    """Whether a label of a machine is to be on its Node too, by the domain of its key."""
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if domain == names.NODE_ROLE_LABEL_PREFIX:
        return True
    shared = (names.NODE_RESTRICTION_LABEL_DOMAIN, names.MANAGED_NODE_LABEL_DOMAIN)
    return domain in shared or any(domain.endswith(f".{each}") for each in shared)


def sync(seen: Seen, node: ClusterNode) -> dict[str, Any]:
    """The merge patch that a Node lacks of labels, annotations and taints; empty if it lacks none."""
    machine, annotations = seen.machine, node.metadata.annotations
    labels = {key: value for key, value in machine.metadata.labels.items() if belongs_on_nodes(key)}
    before = names.names_in(annotations.get(names.LABELS_FROM_MACHINE_ANNOTATION, ""))
    interruptible = seen.infrastructure.flag(fields.INTERRUPTIBLE)
    wanted = Desired(
        labels={**labels, names.INTERRUPTIBLE_LABEL: ""} if interruptible else labels,
        annotations={
            **_pointers(machine),
            names.LABELS_FROM_MACHINE_ANNOTATION: ",".join(sorted(labels)),
        },
        taints=(OUTDATED,) if seen.outdated else (),
    )
    applied = Desired(labels=dict.fromkeys(before, ""), taints=(UNINITIALIZED, OUTDATED))
    return marks.sync(node, wanted, applied)


def _pointers(machine: Machine) -> Mapping[str, str]:
    """The annotations that say to which machine a Node belongs; they are added and never removed."""
    owner = machine.metadata.controller
    pointers = {
        names.NODE_CLUSTER_NAME_ANNOTATION: machine.spec.cluster_name,
        names.NODE_CLUSTER_NAMESPACE_ANNOTATION: machine.metadata.namespace,
        names.NODE_MACHINE_ANNOTATION: machine.name,
    }
    if owner is not None:
        pointers[names.NODE_OWNER_KIND_ANNOTATION] = owner.kind
        pointers[names.NODE_OWNER_NAME_ANNOTATION] = owner.name
    return pointers
