"""The one word for the state of a machine and of a node, wherever a command shows it. Pure."""

from kubewright.api.core import Node
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine


def state(machine: Machine) -> str:
    """The phase, or what kubectl shows if this lasts: a state that passes quickly is not written down."""
    if machine.metadata.deleting:
        return Phase.TERMINATING.value
    return machine.status.current_status.phase or Phase.PENDING.value


def ready(node: Node) -> bool:
    """Whether a node says that it is."""
    return any(item.type == "Ready" and item.status == "True" for item in node.status.conditions)
