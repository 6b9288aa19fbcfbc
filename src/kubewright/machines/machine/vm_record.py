"""Which VM a machine has: what stands on its record, and what the driver has answered. Pure.

Called by    ``look``.
"""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.seen import VmSeen


def is_recorded(machine: Machine) -> bool:
    """Whether VM and node name are on record."""
    return bool(machine.spec.provider_id and names.node_name(machine.metadata.labels))


def believed(vm: VmSeen, others: Sequence[Machine]) -> VmSeen:
    """What is known of a VM; ``others`` are machines that have the VM on record that the driver has found."""
    if vm.instance is None or not others:
        return vm
    whose = ", ".join(sorted(f"{each.metadata.namespace}/{each.metadata.name}" for each in others))
    text = f"the driver answered with VM {vm.instance.provider_id}, which is on record for machine {whose}"
    return replace(vm, instance=None, error=DriverError.of(Code.Internal, text))


def as_recorded(machine: Machine, vm: VmSeen) -> Machine:
    """The machine with the VM that the driver found, so that its node is found before that is on record."""
    found = vm.instance
    if found is None or is_recorded(machine):
        return machine
    labels = {**machine.metadata.labels, names.NODE_LABEL: found.node_name}
    return structs.replace(
        machine,
        metadata=structs.replace(machine.metadata, labels=labels),
        spec=structs.replace(machine.spec, provider_id=machine.spec.provider_id or found.provider_id),
    )
