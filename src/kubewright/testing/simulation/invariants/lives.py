"""What must be true of one machine's life: it goes one way, and nobody who is well is given up.

Called by    ``invariants``, whose table these rules stand in.
"""

from kubewright.testing.simulation.invariants.facts import node_name, phase
from kubewright.testing.simulation.invariants.past import Past
from kubewright.testing.simulation.journal import MACHINES, ApiStep, Step

YOUNG = ("", "Pending", "CrashLoopBackOff")
"""Phases of a machine that has not been up yet."""
GROWN = ("Running", "Unknown")
"""Phases of one that has."""


def no_way_back(step: Step, _past: Past) -> str:
    """A machine that was up is never young again, and one that is leaving does nothing else."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is None or step.new is None:
        return ""
    before, after = phase(step.old), phase(step.new)
    if not (before in GROWN and after in YOUNG) and not before == "Terminating" != after:
        return ""
    return f"machine {step.key} was {before} and is {after or 'new'}"


def a_well_machine_is_not_given_up(step: Step, past: Past) -> str:
    """No machine is called Failed while its node is Ready, and has been for as long as anybody must know."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.new is None:
        return ""
    if phase(step.new) != "Failed" or (step.old is not None and phase(step.old) == "Failed"):
        return ""
    ready = past.ready.get(node_name(step.new))
    if ready is None or ready >= past.since():
        return ""
    return f"machine {step.key} is Failed, and its node has been Ready for {past.now() - ready:.0f} s"
