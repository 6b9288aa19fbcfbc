"""Decide that a machine goes because its node says so: the trigger for people who cannot reach machines.

Theory.      An annotation on the node deletes the machine as ``kubectl delete machine`` would: drained, with
             all time-outs, and replaced by its set. It asks for this one node: where the machine's own node
             template carries it, every replacement would be deleted as soon as its node is there, so
             there it is not obeyed.
Source       seed 004, FAQ "How to delete machine object immedietly"; mcm.md §2.2, §15.1.
Called by    ``decide``.
"""

from datetime import datetime

from kubewright.api.machine import names
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import DeleteMachine, Plan


def delete_when_triggered(seen: Seen, _now: datetime) -> Plan | None:
    """The machine is deleted once its own node is annotated; that it was done shows in the next look."""
    if seen.node is None or not names.deletion_triggered(seen.node.metadata.annotations):
        return None
    if names.deletion_triggered(seen.machine.spec.node_template.metadata.annotations):
        return None
    name = seen.node.metadata.name
    because = f'node {name} is annotated with {names.TRIGGER_DELETION_ANNOTATION}: "true"'
    return Plan((DeleteMachine(f"The machine is deleted: {because}"),), because=because)
