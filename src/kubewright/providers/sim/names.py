"""Names that choose a behaviour, so that every state of a machine can be shown on purpose.

Theory.      The first word of a machine's name (up to the first dash) is looked up here. A
             MachineDeployment called ``quota-workers`` has machines that the cloud refuses for lack
             of quota; no class has to be written for it.
Invariants.  The table only adds to what the class says. An unknown word changes nothing.
Called by    ``cloud``; the documentation lists the table (a test compares them).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kubewright.providers.sim.spec import Fault, Lifecycle, SimSpec

_FOR_EVER = 86_400.0
"""Longer than any deadline: for calls that never answer."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a word does: ``shows`` is the sentence for people."""

    shows: str
    faults: tuple[Fault, ...] = ()
    lifecycle: Lifecycle | None = None
    more_boot_seconds: float = 0
    needs_initialize: bool = False


def _refused(code: str, message: str) -> tuple[Fault, ...]:
    return (msgspec.convert({"operation": "create", "code": code, "message": message}, Fault),)


def _each_call(**fault: Any) -> tuple[Fault, ...]:
    calls = ("create", "delete", "status")
    return tuple(msgspec.convert({"operation": each, **fault}, Fault) for each in calls)


BEHAVIOURS: Mapping[str, Behaviour] = {
    "quota": Behaviour(
        "creation is refused: the quota is used up (ResourceExhausted, retried late)",
        _refused("ResourceExhausted", "quota of the simulated account is used up"),
    ),
    "capacity": Behaviour(
        "creation is refused: the zone has no VM of this type left (ResourceExhausted)",
        _refused("ResourceExhausted", "no capacity for this instance type in this zone"),
    ),
    "denied": Behaviour(
        "creation is refused: the credentials may not (PermissionDenied, retried in minutes)",
        _refused("PermissionDenied", "these credentials may not create VMs"),
    ),
    "invalid": Behaviour(
        "creation is refused: the class asks for something that does not exist (InvalidArgument)",
        _refused("InvalidArgument", "there is no such image"),
    ),
    "throttle": Behaviour(
        "the first three creations, deletions and look-ups of each machine are throttled (Unavailable)",
        _each_call(message="request rate exceeded", times=3),
    ),
    "flaky": Behaviour(
        "every call fails with a chance of 30 % (Unavailable)",
        _each_call(message="please try again", chance=0.3),
    ),
    "hang": Behaviour(
        "creation never answers and makes nothing",
        (Fault(operation="create", code="DeadlineExceeded", message="no answer", hang_seconds=_FOR_EVER),),
    ),
    "lost": Behaviour(
        "creation makes the VM, and the first answer is lost; the next look finds the VM",
        (Fault(operation="create", message="connection reset", times=1, after_success=True),),
    ),
    "partial": Behaviour(
        "the VM is made, and its initialization fails twice (Uninitialized) before it works",
        (Fault(operation="initialize", code="Uninitialized", message="network is not set up yet", times=2),),
        needs_initialize=True,
    ),
    "stuck": Behaviour(
        "the first three deletions fail (Unavailable), then the VM goes",
        (Fault(operation="delete", message="the hypervisor is busy", times=3),),
    ),
    "lostdelete": Behaviour(
        "deletion works, and the first answer is lost",
        (Fault(operation="delete", message="connection reset", times=1, after_success=True),),
    ),
    "halfdone": Behaviour(
        "the first two updates in place reach the VM's own tags and fail (Unavailable) before its interface "
        "and its disk",
        (Fault(operation="update", message="please try again", times=2, after_objects=1),),
    ),
    "slowboot": Behaviour("the boot takes two minutes longer", more_boot_seconds=120),
    "neverjoin": Behaviour("the VM runs, and no node ever joins", lifecycle=Lifecycle(joins=False)),
    "dies": Behaviour(
        "the VM dies twenty seconds after it came up", lifecycle=Lifecycle(dies_after_seconds=20)
    ),
    "silent": Behaviour(
        "the kubelet stops twenty seconds after it came up; the VM runs on",
        lifecycle=Lifecycle(kubelet_stops_after_seconds=20),
    ),
    "diskpressure": Behaviour(
        "the node reports DiskPressure twenty seconds after it came up",
        lifecycle=Lifecycle(condition="DiskPressure", condition_after_seconds=20),
    ),
    "readonly": Behaviour(
        "the node reports ReadonlyFilesystem twenty seconds after it came up",
        lifecycle=Lifecycle(condition="ReadonlyFilesystem", condition_after_seconds=20),
    ),
    "notready": Behaviour(
        "the node joins and turns NotReady twenty seconds later",
        lifecycle=Lifecycle(condition="NotReady", condition_after_seconds=20),
    ),
}


def shaped_by(name: str, spec: SimSpec) -> SimSpec:
    """The spec of a machine of that name: the class's, with what its first word adds."""
    if (behaviour := BEHAVIOURS.get(name.partition("-")[0])) is None:
        return spec
    return msgspec.structs.replace(
        spec,
        faults=(*spec.faults, *behaviour.faults),
        lifecycle=behaviour.lifecycle or spec.lifecycle,
        boot_seconds=spec.boot_seconds + behaviour.more_boot_seconds,
        needs_initialize=spec.needs_initialize or behaviour.needs_initialize,
    )
