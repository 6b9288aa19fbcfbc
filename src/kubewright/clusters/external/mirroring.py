"""The condition of a Cluster or Machine about a provider's object, its Ready; and what is waited for. Pure.

Theory.      A condition of the owner (``InfrastructureReady``) mirrors the condition Ready of the object.
             Where that cannot be read, the message says why and names the object; so a user who looks at the
             owner knows where to look next.
Invariants.  While an object is paused, or our caches are not synced, its condition stays as it is.
Called by    the conditions of ``machine`` and ``cluster``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    ConditionType,
    Reason,
    false_condition,
    mirror,
    true_condition,
)
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.meta import OwnerReference
from kubewright.base.plan import Awaited
from kubewright.clusters.external.object import CORRECT, External, claim

PROVIDER_AT_WORK = "see its conditions and the log of its provider"


@dataclass(frozen=True, slots=True)
class ObjectCondition:
    """Which condition of the owner is about an object, and what it says where it mirrors nothing.

    ``type``       of the condition
    ``waiting``    its reason while the object is not ready
    ``was_ready``  the object was ready when it was last seen
    ``failed``     what a step of this pass could not do with the object
    """

    type: ConditionType
    waiting: Reason
    was_ready: bool = False
    failed: str = ""


def mirrored(
    about: ObjectCondition,
    external: External,
    owner: OwnerReference,
    cluster: str,
    *,
    former_owners: Iterable[str] = (),
) -> Condition | None:
    """The condition while the owner is not being deleted; None: it stays as it is."""
    if wrong := about.failed or claim(external, owner, cluster, former_owners=former_owners).problem:
        return false_condition(about.type, Reason.INCORRECT_EXTERNAL_REF, ERROR, wrong)
    if external.transient or external.paused:
        return None
    if external.found is None and external.gone and about.was_ready:
        return false_condition(
            about.type, Reason.DELETED, ERROR, f"{external} was ready and has been deleted since"
        )
    if external.found is None:
        return false_condition(about.type, about.waiting, INFO, f"waiting: {external.absence}")
    if external.deleting:
        return false_condition(about.type, Reason.DELETING, INFO, f"{external} is being deleted")
    if wrong := external.misread:
        return false_condition(
            about.type, about.waiting, ERROR, f"waiting for {external} to be ready: {wrong}"
        )
    waiting = false_condition(
        about.type, about.waiting, INFO, f"waiting for {external} to report that it is ready"
    )
    return mirror(
        about.type, external.ready_condition, true_condition(about.type) if external.ready else waiting
    )


def mirrored_in_deletion(about: ObjectCondition, external: External) -> Condition | None:
    """The condition while the owner is being deleted; None until the object is being deleted too."""
    if external.gone:
        return false_condition(about.type, Reason.DELETED, INFO)
    if not external.deleting:
        return None
    waiting = false_condition(about.type, Reason.DELETING, INFO, f"waiting for {external} to be deleted")
    found = mirror(about.type, external.ready_condition, waiting)
    return waiting if found is None or found.status == true_condition(about.type).status else found


def awaited(external: External, owner: OwnerReference, since: datetime | None = None) -> Awaited | None:
    """What is waited for until the provider of an object has done its part.

    None: it has, or our caches do not show the object yet.
    """
    if external.transient or (external.ready and not external.deleting):
        return None
    if external.found is None:
        return Awaited(str(external), external.remedy or PROVIDER_AT_WORK, since)
    if other := external.other_controller(owner):
        return Awaited(
            f"{external} to be controlled by {owner.kind} {owner.name}", f"{CORRECT}: {other} has it"
        )
    if external.paused:
        return Awaited(f"{external} to be resumed", f"remove its annotation {names.PAUSED_ANNOTATION}")
    return Awaited(f"{external} to be ready", PROVIDER_AT_WORK, since)


def awaited_in_deletion(external: External) -> Awaited:
    """What an owner that is being deleted waits for."""
    if external.found is None:
        return Awaited(f"to see whether {external} exists", external.remedy or PROVIDER_AT_WORK)
    remedy = f"{PROVIDER_AT_WORK}; its finalizers name who holds it"
    return Awaited(f"{external} to be deleted", remedy, external.deleted_at)
