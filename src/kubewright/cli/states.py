"""The word for the state of a machine or node that every command shows. Pure."""

from kubewright.api.core import Node
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine


def state(machine: Machine) -> str:
    """The phase. Terminating and Pending are told even before a controller has written them."""
    if machine.metadata.deleting:
        return Phase.TERMINATING.value
    return machine.status.current_status.phase or Phase.PENDING.value


def ready(node: Node) -> bool:
    """Whether the node's condition Ready is True."""
    return any(item.type == "Ready" and item.status == "True" for item in node.status.conditions)
