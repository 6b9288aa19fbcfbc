"""Decide what comes next for one component, from everything that is seen of it. Pure.

Theory.      While the component lives: our finalizer, then what its addresses come from, then certificates,
             then what should run, then the replacement of one instance after another, then the change of one
             etcd member after another.
             Certificates are made even while the component waits for another one, so that it starts at once
             later. On deletion: the host ends what runs, then the finalizer goes. Where all components are
             deleted at once, each waits for the one that needs it; and an etcd that is deleted alone, for the
             API server that uses its data (``obstacles``).
Invariants.  Of an object that is paused only the condition Paused is written; one that another program
             manages is not written at all, and of it only what we may have started ourselves is ended when it
             is deleted. A copy of a component that its control plane names runs nothing and ends nothing; nor
             does one whose name the component of another control plane has. A deletion needs no Cluster, no
             control plane and no Secret, and waits for another component that is deleted too no longer than
             ``LONGEST_WAIT``. Every plan has a reason.
Source       S3-31 to S3-41.
Called by    ``act``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import FINALIZER, KEEP_DATA_ANNOTATION, Reason
from kubewright.base import delays, plan
from kubewright.base.plan import AT_ONCE, Awaited, in_order
from kubewright.controlplanes import members
from kubewright.controlplanes.component.obstacles import (
    awaited,
    deleted_after,
    dependent,
    first_obstacle,
    in_use,
    obstacles,
    restored_first,
)
from kubewright.controlplanes.component.seen import Seen, counted
from kubewright.controlplanes.component.workload import next_instance
from kubewright.controlplanes.family import ComponentObject
from kubewright.controlplanes.hosting.contract import Workload


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add our finalizer, and the label with the cluster name that its workload is named after."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Reserve:
    """Have the host make what its addresses come from, such as Services."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class KeepCertificates:
    """Make or renew certificates and kubeconfigs."""

    steps: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Apply:
    """Tell the host what should run."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class Replace:
    """End one instance; the host starts it again with what was applied last."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class ChangeMembers:
    """Add, promote or remove one member of an etcd."""

    change: members.Step


@dataclass(frozen=True, slots=True)
class Remove:
    """End all instances."""

    keep_data: bool


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer: nothing runs any more."""


HostStep = Reserve | Apply | Replace | Remove
"""What a host does."""
OutsideStep = HostStep | ChangeMembers
"""What no API server refuses to a process that does not lead any more, so that it has to ask itself."""
Step = AddFinalizer | KeepCertificates | OutsideStep | RemoveFinalizer


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now with a component."""


def _first(*steps: Step, because: str) -> Plan:
    """Steps that change what would be decided next, and what the status says: both wait for the next look."""
    return Plan(steps, AT_ONCE, because, last=True, silent=True)


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    meta = seen.component.metadata
    foreign = MANAGED_BY_ANNOTATION in meta.annotations
    if seen.pause is not None:
        return Plan(because=f"paused: {seen.pause.because}", silent=seen.pause.moved or foreign)
    if meta.deleting:
        return _deleted(seen)
    if foreign:
        return Plan(because="another program manages it", silent=True)
    deciders = _STOPPING if seen.stops_after or seen.ends_first else _DECIDERS
    return in_order(deciders, seen, Plan(), otherwise="what should run was applied")


def _finalizer(seen: Seen) -> Plan | None:
    if seen.identity is None:
        return None
    meta, cluster = seen.component.metadata, seen.identity.cluster
    if FINALIZER in meta.finalizers and meta.labels.get(CLUSTER_NAME_LABEL) == cluster:
        return None
    return _first(AddFinalizer(cluster), because="it has no finalizer of ours, or no label of its cluster")


def _reserved(seen: Seen) -> Plan | None:
    """Make what its addresses come from, before its certificates, which name them, and its first start."""
    if seen.to_reserve is not None and not any(each.fault for each in obstacles(seen)):
        told = "its Services are not there, or not as its spec says"
        return _first(Reserve(seen.to_reserve), because=told)
    return None


def _certificates(seen: Seen) -> Plan | None:
    found = seen.certificates
    if any(each.reason is Reason.WAITING_FOR_ADDRESS for each in obstacles(seen)):
        return None
    if found.steps:
        return _first(KeepCertificates(found.steps), because="certificates are missing or due")
    if found.wake is None:
        return None
    return Plan(wake=min(found.wake, delays.DATED), because="the next certificate is due then, or later")


def _applied(seen: Seen) -> Plan | None:
    held = first_obstacle(seen)
    if held is not None:
        again = any(each.fault or each.reason in _UNHEARD for each in obstacles(seen))
        wake = delays.UNHEARD if again else None
        return Plan(wake=wake, because=held.message, awaits=(awaited(held),))
    workload, running = seen.workload, seen.running
    if workload is None:
        return Plan(because="what should run is not known yet")
    if not workload.replicas and not running.applied:
        return Plan(because=seen.why_none)
    if (running.applied, running.replicas) == (workload.fingerprint, workload.replicas):
        return None
    told = f"{counted(workload.replicas)} of version {workload.version} should run"
    return _first(Apply(workload), because=told)


def _stopped(seen: Seen) -> Plan | None:
    """A component that should have no instance waits for another one, until it has waited for long enough."""
    if (found := seen.stops_after) is not None:
        told = f"it is to stop, and {dependent(seen, found)} ends before it"
        return Plan(wake=delays.UNHEARD, because=told, awaits=(_end_of(seen, found),))
    found = seen.ends_first
    if found is None:
        return None
    told = f"it should have no instance, and {dependent(seen, found)} ends before it"
    wake = seen.patience - seen.none_for + delays.JUST_PAST
    return Plan(wake=wake, because=told, awaits=(_end_of(seen, found),))


def _end_of(seen: Seen, found: ComponentObject) -> Awaited:
    """The end of the component that needs this one."""
    return Awaited(f"{dependent(seen, found)} to end", "see its conditions")


def _rolled_out(seen: Seen) -> Plan | None:
    if seen.workload is None or first_obstacle(seen) is not None:
        return None
    ordinal = _to_replace(seen, seen.workload)
    if ordinal is None:
        return None
    return Plan(
        (Replace(ordinal),), because=f"instance {ordinal} runs with other settings than its spec asks for"
    )


def _to_replace(seen: Seen, workload: Workload) -> int | None:
    """The instance to replace now; None: there is none, or it has to wait.

    While an etcd has two voters on its way to another number, a ready one waits: without it there would be
    no majority.
    """
    ordinal, found = next_instance(workload, seen.running), seen.membership
    ready = any(each.ready for each in seen.running.instances if each.ordinal == ordinal)
    return None if ready and found is not None and found.needs_all else ordinal


def _resized(seen: Seen) -> Plan | None:
    """The next change of members; there is none while an instance has to be replaced."""
    found, workload = seen.membership, seen.workload
    if found is None or found.settled or workload is None or first_obstacle(seen) is not None:
        return None
    if _to_replace(seen, workload) is not None:
        return None
    if not found.plan.steps:
        return Plan(wake=delays.SOON, because=found.plan.because)
    return _first(*map(ChangeMembers, found.plan.steps), because=found.plan.because)


_UNHEARD = (Reason.WAITING_FOR_FILES, Reason.WAITING_FOR_CERTIFICATES)
"""Obstacles that a user may end by writing a Secret without the label of its cluster: no watch shows it."""

_DECIDERS = (_finalizer, _reserved, _certificates, _applied, _rolled_out, _resized)
_STOPPING = (_finalizer, _certificates, _stopped)
"""Of a component that is about to stop. What runs stays as it is: new settings would only start it again."""


def _deleted(seen: Seen) -> Plan:
    meta = seen.component.metadata
    if FINALIZER not in meta.finalizers:
        return Plan(because="it is being deleted and has no finalizer of ours", silent=True)
    if seen.original:
        told = f"what runs is that of {seen.original}, which its control plane names"
        return Plan((RemoveFinalizer(),), because=told, silent=True)
    if seen.rival:
        return Plan((RemoveFinalizer(),), because=f"what runs is that of {seen.rival}", silent=True)
    if seen.running.exists:
        since = meta.deletion_timestamp
        if told := in_use(seen) or restored_first(seen):
            release = Awaited("its data to be free", f"as said here: {told}", since)
            return Plan(wake=delays.UNHEARD, because=told, awaits=(release,))
        if told := deleted_after(seen):
            other = Awaited("the component that needs it to end", f"see this: {told}", since)
            return Plan(wake=delays.SOON, because=told, awaits=(other,))
        keep = KEEP_DATA_ANNOTATION in meta.annotations
        return Plan((Remove(keep),), _LOOK_AGAIN, "it is being deleted, and something of it runs")
    return Plan((RemoveFinalizer(),), because="nothing of it is left", silent=True)


_LOOK_AGAIN = delays.SOON
"""When to look again. Usually the host reports the end before; a host that was restarted may not."""
