"""Draw the phases of a machine: docs/reference/machine-phases.md, from ``machines.machine.states``.

Called by    ``gen``.
"""

from collections.abc import Iterable, Mapping

from kubewright.api.machine.names import CRITICAL_COMPONENTS_TAINT, Phase
from kubewright.machines.machine.states import (
    BUT_FAILED,
    EVERY,
    HELD_BY_CRITICAL_COMPONENTS,
    MAY_BECOME_RUNNING,
    TABLE,
    Row,
)

HEAD = """# The phases of a machine

Generated from `src/kubewright/machines/machine/states.py` by `make gen`. `status.currentStatus.phase` of a
Machine says where it is in its life, `status.lastOperation` what was last seen of it. In a phase and with a
finding that no row names, the phase stays.
"""

MEANING: Mapping[Phase, str] = {
    Phase.NONE: "Not looked at yet, or its VM is being made.",
    Phase.PENDING: "Its VM is being made for longer than most, or its node is awaited.",
    Phase.AVAILABLE: "Its VM exists, and there is no target cluster. Kubewright does not write this phase.",
    Phase.RUNNING: "Its node has joined and is healthy.",
    Phase.UNKNOWN: "Its node is unhealthy or gone; the health timeout runs.",
    Phase.FAILED: "To be replaced by its set.",
    Phase.CRASH_LOOP_BACK_OFF: "Its VM could not be made; that is tried again.",
    Phase.TERMINATING: "It is being deleted.",
    Phase.IN_PLACE_UPDATING: "Its node is drained, and the agent on it updates it in place.",
    Phase.IN_PLACE_UPDATE_SUCCESSFUL: "The update in place has succeeded.",
    Phase.IN_PLACE_UPDATE_FAILED: "The update in place has failed or lasted too long.",
}
GROUPS = {
    EVERY: ("Any", "any phase"),
    BUT_FAILED: ("AnyButFailed", "any phase but Failed"),
    MAY_BECOME_RUNNING: ("NotRunning", "any phase but Running and those of an update in place"),
}
"""Names, in the diagram and for people, of sets of phases that share rows."""


def files() -> Mapping[str, str]:
    """The page, by its name."""
    parts = (_meanings(), _diagram(), _table(), _notes())
    return {"machine-phases.md": HEAD + "".join("\n" + "\n".join(lines) + "\n" for lines in parts)}


def _meanings() -> Iterable[str]:
    yield from ("| phase | meaning |", "|---|---|")
    yield from (f"| {_named(phase)} | {text} |" for phase, text in MEANING.items())


def _diagram() -> Iterable[str]:
    """Rows as arrows between phases; one that many phases share begins at a box for all of them."""
    yield from ("```mermaid", "stateDiagram-v2")
    yield from (f'    state "{name}" as {node}' for node, name in GROUPS.values())
    yield f'    state "{_named(Phase.NONE)}" as {_node(Phase.NONE)}'
    yield f"    [*] --> {_node(Phase.NONE)}"
    for row in TABLE:
        sources = [GROUPS[row.phases][0]] if row.phases in GROUPS else map(_node, row.phases)
        yield from (f"    {source} --> {_node(row.next)}: {row.finding.value}" for source in sources)
    yield from (f"    {_node(Phase.TERMINATING)} --> [*]", "```")


def _table() -> Iterable[str]:
    yield "| in phase | what is seen | next phase | lastOperation | description |"
    yield "|---|---|---|---|---|"
    for row in TABLE:
        operation = f"{row.operation}, {row.state}" + (f", {row.code}" if row.code else "")
        yield f"| {_phases(row)} | {row.finding.value} | {_named(row.next)} | {operation} | `{row.text}` |"


def _notes() -> Iterable[str]:
    waits = ", ".join(_named(phase) for phase in Phase if phase not in HELD_BY_CRITICAL_COMPONENTS)
    yield "`{text}` is what the driver, an API server or a rule says. In a deletion its last sentence names"
    yield "the step."
    yield ""
    yield f"A machine whose healthy node has the taint `{CRITICAL_COMPONENTS_TAINT}`"
    yield f"becomes Running only if it is {waits}."


def _phases(row: Row) -> str:
    return GROUPS[row.phases][1] if row.phases in GROUPS else ", ".join(map(_named, row.phases))


def _named(phase: Phase) -> str:
    return phase.value or "(none)"


def _node(phase: Phase) -> str:
    return phase.value or "New"
