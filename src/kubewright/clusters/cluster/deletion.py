"""How a Cluster is deleted: what belongs to it in a fixed order, and its finalizer last. Pure.

Theory.      Its machines, and what makes machines, are deleted first, then its control plane, then its
             infrastructure: each of them needs what comes after it. A stage begins when nothing of the one
             before is left; the watches of what is waited for enqueue the Cluster. A timer does only where
             none shows whether there is an object of a provider.
             Whatever of its machines and of what makes them is waited for is deleted from here, unless
             something else of the Cluster controls it and will: so it does not matter who owns it, or owned
             it once. A Machine is deleted once its controller has begun with it, which finds the objects of
             its providers.
Invariants.  An object of a provider that another owner controls is not deleted. What could not be looked at
             counts as there. Machines of the control plane are its provider's while that is there.
Source       capi.md §6.4; appendix F: the reasons are those of HEAD, the order is v1.7.1's.
Called by    ``decide``; ``status`` shows ``stage``.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import Reason
from kubewright.base.plan import Awaited, Plan
from kubewright.clusters.cluster.seen import (
    CONTROL_PLANE,
    INFRASTRUCTURE,
    Child,
    DeleteChild,
    DeleteExternal,
    RemoveFinalizer,
    Seen,
    Step,
)
from kubewright.clusters.external.mirroring import awaited_in_deletion
from kubewright.clusters.external.object import External

NAMES_SHOWN = 5
"""Names of one kind in a message; of the rest only the number is told."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a deletion is: a reason for programs, what is waited for, and what to do about it.

    ``awaits``: the first of that, each with what a user can do. ``wake``: in how long to look again; None:
    a watch tells.
    """

    reason: str
    waits_for: str
    steps: tuple[Step, ...] = ()
    awaits: tuple[Awaited, ...] = ()
    wake: timedelta | None = None


def decide(seen: Seen) -> Plan[Step]:
    """Delete what is to be deleted in this stage; the Cluster itself after the last."""
    now = stage(seen)
    because = now.waits_for or "nothing of the cluster is left"
    return Plan(now.steps, now.wake, because, awaits=now.awaits)


def stage(seen: Seen) -> Stage:
    """The first stage that is not over."""
    if found := _children(seen):
        return found
    for about, external, reason in (
        (CONTROL_PLANE, seen.control_plane, Reason.WAITING_FOR_CONTROL_PLANE_DELETION),
        (INFRASTRUCTURE, seen.infrastructure, Reason.WAITING_FOR_INFRASTRUCTURE_DELETION),
    ):
        if external is not None and not is_over(external, seen):
            return _external(about, external, reason)
    return Stage(Reason.DELETION_COMPLETED, "", (RemoveFinalizer(),))


def is_over(external: External, seen: Seen) -> bool:
    """The object of a reference is gone, or another owner controls it."""
    return external.gone or bool(external.other_controller(seen.owner))


def _children(seen: Seen) -> Stage | None:
    """Everything that makes machines, and machines; None once there are none left."""
    provider = seen.control_plane
    provided = provider is not None and not is_over(provider, seen)
    counted = [each for each in seen.children if not (provided and each.control_plane)]
    if not counted:
        return None
    controllers = {each.uid for each in counted}
    ours = (each for each in counted if each.controller not in controllers)
    steps = tuple(DeleteChild(each) for each in ours if each.begun and not each.deleting)
    workers = any(not each.control_plane for each in counted)
    reason = Reason.WAITING_FOR_WORKERS_DELETION if workers else Reason.WAITING_FOR_CONTROL_PLANE_DELETION
    awaits = tuple(map(_awaited, counted[:NAMES_SHOWN]))
    return Stage(reason, f"waiting for {_listed(counted)} to be deleted", steps, awaits)


def _awaited(child: Child) -> Awaited:
    remedy = "see its condition Deleting, and its finalizers"
    if child.paused:
        remedy = f"remove its annotation {names.PAUSED_ANNOTATION}"
    return Awaited(f"{child.kind_name} {child.name} to be deleted", remedy, child.deleted_at)


def _external(about: str, external: External, reason: str) -> Stage:
    awaits = (awaited_in_deletion(external),)
    if external.found is None:
        told = f"waiting to see whether {external} is deleted: {external.absence}"
        return Stage(reason, told, awaits=awaits, wake=external.unheard)
    steps = () if external.deleting else (DeleteExternal(about, external),)
    return Stage(reason, f"waiting for {external} to be deleted", steps, awaits)


def _listed(children: list[Child]) -> str:
    """``MachineDeployment a; Machine b, c and 3 more``."""
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for each in children:
        by_kind[each.kind_name].append(f"{each.name} (paused)" if each.paused else each.name)
    return "; ".join(f"{kind} {_some(found)}" for kind, found in by_kind.items())


def _some(found: list[str]) -> str:
    shown, more = ", ".join(found[:NAMES_SHOWN]), len(found) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
