"""What the owner of a provider object reports about it: the object's own Ready, or what is waited for. Pure.

Theory.      A condition of the owner (``InfrastructureReady``) mirrors the Ready of the object. Where that
             cannot be read, the condition says why, in words that name the object; so a user who looks at
             the owner knows where to look next.
Invariants.  What is only not known yet (our caches, a paused object) changes no condition.
Source       capi.md §4.5 (mirror), §5.3, §5.4; S0-48.
Called by    the conditions of ``machine`` and ``cluster``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubewright.api.cluster.conditions import ERROR, INFO, false_condition, mirror, true_condition
from kubewright.api.cluster.reasons import ConditionType, Reason
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.meta import OwnerReference
from kubewright.clusters.references.external import External, claim


@dataclass(frozen=True, slots=True)
class Part:
    """The condition about one object.

    ``type``       of the condition
    ``waiting``    its reason while the provider has not done its part
    ``was_ready``  the object was ready when it was last seen
    ``failed``     what a step of this pass could not do with the object
    """

    type: ConditionType
    waiting: Reason
    was_ready: bool = False
    failed: str = ""


def living(
    part: Part, external: External, owner: OwnerReference, cluster: str, *, drop: Iterable[str] = ()
) -> Condition | None:
    """While its owner lives. None: the condition stays as it is. ``drop`` is as in ``claim``."""
    if wrong := part.failed or claim(external, owner, cluster, drop=drop).problem:
        return false_condition(part.type, Reason.INCORRECT_EXTERNAL_REF, ERROR, wrong)
    if external.transient or external.paused:
        return None
    if external.found is None and external.gone and part.was_ready:
        return false_condition(
            part.type, Reason.DELETED, ERROR, f"{external} was ready and has been deleted since"
        )
    if external.found is None:
        return false_condition(part.type, part.waiting, INFO, f"waiting: {external.problem}")
    if external.deleting:
        return false_condition(part.type, Reason.DELETING, INFO, f"{external} is being deleted")
    if wrong := external.misread:
        return false_condition(part.type, part.waiting, ERROR, f"waiting for {external} to be ready: {wrong}")
    waiting = false_condition(
        part.type, part.waiting, INFO, f"waiting for {external} to report that it is ready"
    )
    return mirror(
        part.type, external.ready_condition, true_condition(part.type) if external.ready else waiting
    )


def deleted(part: Part, external: External) -> Condition | None:
    """While the object is deleted with its owner; None before its turn comes."""
    if external.gone:
        return false_condition(part.type, Reason.DELETED, INFO)
    if not external.deleting:
        return None
    said = false_condition(part.type, Reason.DELETING, INFO, f"waiting for {external} to be deleted")
    found = mirror(part.type, external.ready_condition, said)
    return said if found is None or found.status == true_condition(part.type).status else found
