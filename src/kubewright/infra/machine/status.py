"""Compute a KubewrightMachine's status from what is seen and from the plan's report. Pure.

Invariants.  ``ready`` goes up with the VM's condition and never down: the VM that was complete is there until
             the object is deleted. Equal states give an equal status, so nothing is written for nothing.
Source       capi.md §3.2, §4.5.
Called by    ``act``, once per pass.
"""

from datetime import datetime

from msgspec import structs

from kubewright.api.cluster.conditions import TRUE, summary, with_conditions
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.core import NodeAddress
from kubewright.api.infra.names import ConditionType
from kubewright.api.infra.v1beta1 import KubewrightMachineStatus
from kubewright.infra.machine.seen import Seen


def machine_status(seen: Seen, report: Condition | None, wall: datetime) -> KubewrightMachineStatus:
    """The status to write; equal to the present one when there is nothing new. ``wall`` dates conditions."""
    status = seen.status
    if report is None:
        return status
    if report.status == TRUE and report.type == ConditionType.VM_READY:
        status = _complete(seen, status)
    return structs.replace(
        status,
        conditions=_conditions(status.conditions, report, wall),
        observed_generation=seen.machine.metadata.generation,
    )


def _complete(seen: Seen, status: KubewrightMachineStatus) -> KubewrightMachineStatus:
    """The status of a machine whose VM is complete: with what the driver said of it, if it was asked."""
    found = seen.vm.instance
    if found is None:
        return structs.replace(status, ready=True)
    addresses = tuple(NodeAddress(type=kind, address=address) for kind, address in found.addresses)
    return structs.replace(
        status,
        ready=True,
        addresses=addresses or status.addresses,
        interruptible=found.interruptible,
        node_name=found.node_name,
    )


def _conditions(before: tuple[Condition, ...], report: Condition, wall: datetime) -> tuple[Condition, ...]:
    found = with_conditions(before, (report,), wall)
    ready = summary(found, (ConditionType.VM_READY,))
    return found if ready is None else with_conditions(found, (ready,), wall)
