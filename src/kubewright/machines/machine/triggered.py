"""Delete a machine because its node is annotated so: for users who may write nodes and not machines.

Theory.      An annotation on the node deletes the machine as ``kubectl delete machine`` would: drained, with
             all time-outs, and replaced by its set. It is ignored where the machine's node template carries
             it too: the controller would copy it onto the node of every replacement, and delete each
             of them as soon as its node is there.
Source       seed 004, FAQ "How to delete machine object immedietly"; mcm.md §2.2, §15.1.
Called by    ``decide``.
"""

from kubewright.api.machine import names
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import DeleteMachine, Plan


def delete_when_triggered(seen: Seen) -> Plan | None:
    """Delete the machine once its node carries the annotation; the next pass sees its deletionTimestamp."""
    if seen.node is None or not names.deletion_triggered(seen.node.metadata.annotations):
        return None
    if names.deletion_triggered(seen.machine.spec.node_template.metadata.annotations):
        return None
    name = seen.node.metadata.name
    because = f'node {name} is annotated with {names.TRIGGER_DELETION_ANNOTATION}: "true"'
    return Plan((DeleteMachine(f"The machine is deleted: {because}"),), because=because)
