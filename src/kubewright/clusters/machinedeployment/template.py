"""When two templates of a MachineDeployment are the same, and what reaches a set without a rollout. Pure.

Theory.      A rollout replaces machines, so it happens only for what cannot be changed on a living
             machine. Labels, annotations and three timeouts flow down to machines as they are, so they
             take no part; nor does the version of a reference, which names how an object is served and
             not which one it is. A set is found by its template, never by its hash, so the hash may be
             any stable one.
Invariants.  The name of a set depends on its template, on ``rolloutAfter`` and on collisions: a rollout
             that ``rolloutAfter`` asks for makes a set of another name.
Source       capi.md §7.9.
Called by    ``policy``.
"""

from datetime import datetime

import msgspec
from msgspec import structs

from kubewright.api.cluster import names
from kubewright.api.cluster.names import DeletePolicy
from kubewright.api.cluster.v1beta1 import (
    MachineDeployment,
    MachineSet,
    MachineSpec,
    MachineTemplateSpec,
    ObjectReference,
)
from kubewright.api.meta import LabelSelector, integer
from kubewright.base.names import child_name, fnv32a, safe_encode
from kubewright.replicas.objects import read_selector, with_hash

NAME_LETTERS = 5


def identity(template: MachineTemplateSpec) -> bytes:
    """Equal for templates between which nothing is to be rolled out."""
    spec = template.spec
    kept = structs.replace(
        spec,
        bootstrap=structs.replace(spec.bootstrap, config_ref=_object_of(spec.bootstrap.config_ref)),
        infrastructure_ref=_object_of(spec.infrastructure_ref) or ObjectReference(),
        node_drain_timeout=None,
        node_volume_detach_timeout=None,
        node_deletion_timeout=None,
    )
    return msgspec.json.encode(kept, order="deterministic")


def name_and_hash(deployment: MachineDeployment) -> tuple[str, str]:
    """``<deployment>-<five letters>``, and ``<number>-<five letters>`` for the label."""
    spec = deployment.spec
    after = spec.rollout_after.isoformat() if spec.rollout_after is not None else ""
    collisions = integer(deployment.metadata.annotations, names.COLLISIONS_ANNOTATION)
    number = fnv32a(b"\0".join((identity(spec.template), after.encode(), str(collisions).encode())))
    letters = safe_encode(str(number))[:NAME_LETTERS]
    return child_name(deployment.name, letters), f"{number}-{letters}"


def outdated(deployment: MachineDeployment, machine_set: MachineSet, now: datetime) -> bool:
    """Whether a set is from before the time at which the deployment wanted to be rolled out."""
    after, created = deployment.spec.rollout_after, machine_set.metadata.creation_timestamp
    return after is not None and after <= now and created is not None and created < after


def propagated(machine_set: MachineSet, deployment: MachineDeployment) -> MachineSet:
    """The set with everything that it takes over without a rollout: labels, the template's metadata and
    timeouts, the deployment's watch filter, and which machines are deleted first.

    Labels that have left the template leave the set.
    """
    wanted, meta = deployment.spec, machine_set.metadata
    own = {
        names.DEPLOYMENT_NAME_LABEL: deployment.name,
        names.CLUSTER_NAME_LABEL: wanted.cluster_name,
    }
    template = _template(machine_set, deployment)
    spec = structs.replace(
        machine_set.spec,
        cluster_name=wanted.cluster_name,
        delete_policy=_delete_policy(deployment),
        selector=_selector(machine_set, deployment, template),
        template=template,
    )
    if ours := deployment.metadata.labels.get(names.WATCH_FILTER_LABEL):
        own[names.WATCH_FILTER_LABEL] = ours
    left = machine_set.spec.template.metadata.labels.keys() - template.metadata.labels.keys()
    kept = {key: text for key, text in meta.labels.items() if key not in left}
    labels = {**kept, **template.metadata.labels, **own}
    return structs.replace(machine_set, metadata=structs.replace(meta, labels=labels), spec=spec)


def _selector(
    machine_set: MachineSet, deployment: MachineDeployment, template: MachineTemplateSpec
) -> LabelSelector | None:
    """The set's own selector while it selects what the set makes; else the deployment's, with the set's hash.

    A deployment whose selector and labels were changed together needs no new machines for that.
    """
    labels, mine = template.metadata.labels, machine_set.spec.selector
    selector, problem = read_selector(mine)
    wanted = deployment.spec.selector
    if (not problem and selector.matches(labels)) or wanted is None:
        return mine
    hashed = labels.get(names.TEMPLATE_HASH_LABEL)
    own = {names.TEMPLATE_HASH_LABEL: hashed} if hashed else {}
    return structs.replace(wanted, match_labels={**wanted.match_labels, **own})


def _template(machine_set: MachineSet, deployment: MachineDeployment) -> MachineTemplateSpec:
    mine, wanted = machine_set.spec.template, deployment.spec.template
    hashed = mine.metadata.labels.get(names.TEMPLATE_HASH_LABEL, "")
    metadata = with_hash(wanted, names.TEMPLATE_HASH_LABEL, hashed).metadata
    spec: MachineSpec = structs.replace(
        mine.spec,
        node_drain_timeout=wanted.spec.node_drain_timeout,
        node_volume_detach_timeout=wanted.spec.node_volume_detach_timeout,
        node_deletion_timeout=wanted.spec.node_deletion_timeout,
    )
    return MachineTemplateSpec(metadata=metadata, spec=spec)


def _delete_policy(deployment: MachineDeployment) -> str:
    strategy = deployment.spec.strategy
    rolling = strategy.rolling_update if strategy is not None else None
    given = rolling.delete_policy if rolling is not None else None
    return given or DeletePolicy.RANDOM.value


def _object_of(ref: ObjectReference | None) -> ObjectReference | None:
    """Which object a reference means, in the words that all its spellings share."""
    if ref is None:
        return None
    return ObjectReference(api_version=ref.group, kind=ref.kind, name=ref.name)
