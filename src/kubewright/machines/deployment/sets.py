"""A deployment's sets: how a new one looks, and what flows from the deployment into the current one. Pure.

Source       mcm.md §7.3, §7.5.
"""

from collections.abc import Mapping

from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import (
    MACHINE_DEPLOYMENT,
    MachineDeployment,
    MachineSet,
    MachineSetSpec,
)
from kubewright.api.meta import LabelSelector, ObjectMeta, owner_of
from kubewright.machines.deployment.template import pushed_down, set_name, template_hash, with_hash
from kubewright.rollout.model import Plan
from kubewright.rollout.revisions import Revision, read_history, write_history

_NOT_COPIED = frozenset(
    (
        names.LAST_APPLIED_CONFIG_ANNOTATION,
        names.REVISION_ANNOTATION,
        names.REVISION_HISTORY_ANNOTATION,
        names.DESIRED_REPLICAS_ANNOTATION,
        names.MAX_REPLICAS_ANNOTATION,
        names.PREFER_NO_SCHEDULE,
        names.UNFREEZE_ANNOTATION,
        names.TRIGGER_DELETION_ANNOTATION,
        names.LAST_NUMBER_ANNOTATION,
    )
)
"""Annotations that belong to one object alone."""


def copied(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that deployment and sets share."""
    return {key: value for key, value in annotations.items() if key not in _NOT_COPIED}


def new_set(deployment: MachineDeployment, size: int, revision: int, plan: Plan) -> MachineSet:
    """The set for the deployment's template, complete: finalizer, owner, hash, marks and revision."""
    meta, spec = deployment.metadata, deployment.spec
    hashed = template_hash(spec.template, deployment.status.collision_count)
    template = with_hash(spec.template, hashed)
    selector = spec.selector or LabelSelector()
    labels = {**selector.match_labels, names.TEMPLATE_HASH_LABEL: hashed}
    resource = MACHINE_DEPLOYMENT.resource
    return MachineSet(
        metadata=ObjectMeta(
            name=set_name(meta.name, hashed),
            namespace=meta.namespace,
            labels=template.metadata.labels,
            annotations={
                **copied(meta.annotations),
                **_marks(plan),
                names.REVISION_ANNOTATION: str(revision),
            },
            finalizers=(names.FINALIZER,),
            owner_references=(owner_of(deployment, resource.api_version, resource.kind),),
        ),
        spec=MachineSetSpec(
            replicas=size,
            selector=structs.replace(selector, match_labels=labels),
            template=template,
            min_ready_seconds=spec.min_ready_seconds,
            auto_preserve_failed_machine_max=spec.auto_preserve_failed_machine_max,
        ),
    )


def revision_of(annotations: Mapping[str, str]) -> Revision:
    """A set's number and history."""
    history = read_history(annotations.get(names.REVISION_HISTORY_ANNOTATION, ""))
    return Revision(names.integer(annotations, names.REVISION_ANNOTATION), history)


def refreshed(current: MachineSet, deployment: MachineDeployment, revision: int) -> MachineSet:
    """The current set with all that flows down without a rollout, and with at least this revision."""
    spec = deployment.spec
    raised = revision_of(current.metadata.annotations).raised(revision)
    annotations = {**current.metadata.annotations, **copied(deployment.metadata.annotations)}
    annotations[names.REVISION_ANNOTATION] = str(raised.number)
    if raised.history:
        annotations[names.REVISION_HISTORY_ANNOTATION] = write_history(raised.history)
    return structs.replace(
        current,
        metadata=structs.replace(current.metadata, annotations=annotations),
        spec=structs.replace(
            current.spec,
            min_ready_seconds=spec.min_ready_seconds,
            auto_preserve_failed_machine_max=spec.auto_preserve_failed_machine_max,
            template=pushed_down(current.spec.template, spec.template),
        ),
    )


def sized(machine_set: MachineSet, plan: Plan, size: int | None = None) -> MachineSet:
    """The set with the plan's marks and, unless None, another size."""
    meta, spec = machine_set.metadata, machine_set.spec
    return structs.replace(
        machine_set,
        metadata=structs.replace(meta, annotations={**meta.annotations, **_marks(plan)}),
        spec=spec if size is None else structs.replace(spec, replicas=size),
    )


def _marks(plan: Plan) -> dict[str, str]:
    return {
        names.DESIRED_REPLICAS_ANNOTATION: str(plan.goal),
        names.MAX_REPLICAS_ANNOTATION: str(plan.ceiling),
    }
