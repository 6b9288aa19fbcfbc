"""For which other component one waits that is to have no instance, or is deleted. Pure.

Theory.      What needs a component ends before it: an API server whose etcd is gone would end only when it is
             killed. Where both are deleted, or are to have no instance, that is a matter of seconds, and is
             waited for with a bound. An etcd that is deleted alone while an API server uses it waits until a
             user says what is meant, since its data would go with it; as a volume claim that is deleted waits
             for the pods that use it. One whose data is kept waits for a restore of that data.
Invariants.  A deletion waits without bound only for something that a user can end, and says how.
Source       nested.md A11.
Called by    ``decide`` and ``status``.
"""

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION
from kubewright.controlplanes.component.seen import LONGEST_WAIT, Seen
from kubewright.controlplanes.family import KINDS, ComponentObject, references


def in_use(seen: Seen) -> str:
    """Why an etcd that is deleted alone stays, and what a user can do, a sentence; empty: it does not.

    One of another program is let go, and so is one that its control plane does not name any more.
    """
    family, needed_by, meta = seen.family, seen.policy.needed_by, seen.component.metadata
    if not (seen.policy.members and meta.deleting) or family is None or needed_by is None:
        return ""
    named = references(family.plane.spec).get(seen.policy.component)
    leaves = KEEP_DATA_ANNOTATION in meta.annotations or MANAGED_BY_ANNOTATION in meta.annotations
    if family.plane.metadata.deleting or leaves or named is None or named.name != meta.name:
        return ""
    found = family.components.get(needed_by)
    if found is None or found.metadata.deleting or not (found.status.replicas or found.status.ready):
        return ""
    return (
        f"it is being deleted, and {dependent(seen, found)} uses its data: delete that too, set its "
        f"replicas to 0, or keep the data by the annotation {KEEP_DATA_ANNOTATION}"
    )


def restored_first(seen: Seen) -> str:
    """Why a deleted etcd whose data is kept waits for a restore, a sentence; empty: it does not.

    A restore that has begun may have replaced the data of some members only: kept like that, the next etcd
    would start with a mixture.
    """
    meta, restore = seen.component.metadata, seen.family.restore if seen.family is not None else ""
    if not (seen.policy.members and meta.deleting and restore and KEEP_DATA_ANNOTATION in meta.annotations):
        return ""
    return (
        f"it is being deleted, and ControlPlaneRestore {restore} replaces the data that is kept: it goes "
        f"when that is complete; without the annotation {KEEP_DATA_ANNOTATION} it goes at once, with its data"
    )


def deleted_after(seen: Seen) -> str:
    """Which component is deleted too and has to end first; empty: none, or it was waited for long enough."""
    needed_by = seen.policy.needed_by
    if seen.family is None or needed_by is None:
        return ""
    found = seen.family.components.get(needed_by)
    goes = found is not None and (found.metadata.deleting or seen.family.plane.metadata.deleting)
    if found is None or not goes or seen.deleting_for >= LONGEST_WAIT:
        return ""
    return f"it is being deleted, and {dependent(seen, found)} ends before it"


def dependent(seen: Seen, found: ComponentObject) -> str:
    """The component that needs this one, as users know it."""
    needed_by = seen.policy.needed_by
    return f"{KINDS[needed_by].resource.kind} {found.name}" if needed_by is not None else found.name
