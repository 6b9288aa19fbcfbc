"""What is decided alike for every object that is carried out once, as a Job is: snapshots and restores. Pure.

Theory.      Both kinds get our finalizer, then their own steps are performed, and after that nothing is done
             any more.
Invariants.  Nothing is done to an object that is paused, and only that it is paused is written. Our finalizer
             is there before anything is done, and is removed last.
Called by    ``taking``, ``restoring``; ``act``, whose ``Once`` carries them out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from kubewright.api.cluster.conditions import ERROR, INFO, READY, false_condition, true_condition
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.controlplane.names import FINALIZER, Reason
from kubewright.api.meta import KubeObject
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.controlplanes.family import Pause

Found = TypeVar("Found", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class Seen(Generic[Found]):
    """One object, and what every kind reads of its surroundings.

    ``found``    the object
    ``pause``    by what it, its control plane or its Cluster is paused
    ``problem``  how its spec breaks the rules of its kind, a sentence
    ``failed``   why the last step of this pass failed, a sentence
    """

    found: Found
    now: datetime
    pause: Pause | None = None
    problem: str = ""
    failed: str = ""


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add our finalizer."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer."""


def paused_or_deleted(
    seen: Seen[Any], last: Sequence[Any] = (), *, unfinished: bool = False
) -> Plan[Any] | None:
    """The plan for an object that is paused or being deleted; None: there is work to do.

    Args:
        last: the steps of a deletion, before our finalizer goes.
        unfinished: it has begun work that must be completed, so its deletion waits for that.
    """
    meta = seen.found.metadata
    if seen.pause is not None:
        return Plan(because=f"paused: {seen.pause.because}", silent=seen.pause.moved)
    if not meta.deleting:
        return None
    if FINALIZER not in meta.finalizers:
        return Plan(because="it is being deleted and has no finalizer of ours", silent=True)
    if unfinished:
        return None
    return Plan((*last, RemoveFinalizer()), because="it is being deleted", silent=True)


def finalizer(seen: Seen[Any]) -> Plan[Any] | None:
    """The plan that adds our finalizer; None: it is there."""
    if FINALIZER in seen.found.metadata.finalizers:
        return None
    return Plan((AddFinalizer(),), AT_ONCE, "it has no finalizer of ours", last=True, silent=True)


def condition(seen: Seen[Any], *, ready: bool, reason: Reason, told: str) -> Condition:
    """The condition ``Ready``. ``reason`` and ``told``: what it waits for, where nothing is wrong."""
    if ready:
        return true_condition(READY)
    if seen.problem:
        return false_condition(READY, Reason.INVALID_CONFIGURATION, ERROR, seen.problem[:MESSAGE_CHARS])
    if seen.failed:
        return false_condition(READY, Reason.FAILED_TO_APPLY, ERROR, seen.failed[:MESSAGE_CHARS])
    return false_condition(READY, reason, INFO, told[:MESSAGE_CHARS])
