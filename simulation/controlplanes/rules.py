"""What must be true of control planes at every step; the order of starts and ends is in ``order``.

Theory.      The stories have one control plane, and what the machine runs is known at every moment, so a rule
             compares what objects say with what is. A manager sees a change a moment later, and later still
             while faults last: a rule that a manager could break before it has seen it waits for so long.
Invariants.  Nothing here disturbs the world. What a user does is no violation.
Called by    ``stories.run``, as ``invariants`` of ``run.simulate``.
"""

import re

from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION, Component
from simulation.controlplanes import acts
from simulation.controlplanes.acts import ORDER, PLANE, find, name_of, ready
from simulation.controlplanes.facts import (
    ASLEEP,
    FOREIGN,
    PAUSED,
    Known,
    annotated,
)
from simulation.controlplanes.files import Files
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.order import Order
from simulation.controlplanes.pods import ServiceRules
from simulation.controlplanes.replication import EtcdRules
from simulation.controlplanes.setup import COMPONENTS, PLANES, SECRETS
from simulation.controlplanes.trust import Trust
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both, deleting
from simulation.journal import (
    Happening,
    HostCall,
    ProgramStep,
    Step,
    Written,
)
from simulation.person import NAMESPACE_NAME

LAG_SECONDS = 10.0
"""For so long an object may be ready though its program does not answer: a probe has to fail first."""

REPLACED_SECONDS = 5.0
"""For so long an instance may end that was asked to be replaced before: it starts after that."""
FALLS_ASLEEP_SECONDS = 120.0
"""For so long programs may run after a control plane should sleep: each ends after the one that needs it."""

_OBJECT = re.compile(r"/apis/[^/]+/[^/]+/namespaces/[^/]+/(?P<plural>[^/]+)/(?P<name>[^/]+)")
_RESOURCES: dict[str, str] = {PLANE: PLANES} | {str(each): found for each, found in COMPONENTS.items()}


class Rules:
    """The rules of one run, and what they remember. ``machine`` is set before the run begins."""

    machine: HostMachine

    def __init__(self) -> None:
        self._known = Known()
        self._etcd = EtcdRules(self._known, lambda: self.machine)
        self._trust = Trust(lambda: self.machine)
        self.files = Files(lambda: self.machine)

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged; the first and the last one only learn."""
        return (
            self._learn,
            self.nothing_is_ready_that_does_not_answer,
            *self._trust.all,
            *self.files.all,
            *ServiceRules(lambda: self.machine).all,
            self.a_users_secret_stays,
            self.nothing_outlives_its_component,
            self.what_others_manage_is_left_alone,
            self.nothing_of_a_paused_plane_is_touched,
            self.what_sleeps_runs_nothing,
            *Order(self._known, lambda: self.machine).all,
            *self._etcd.all,
            self._remember,
        )

    def _learn(self, _step: Step, past: Past) -> str:
        self._known.learn(past, self.machine)
        return ""

    def _remember(self, step: Step, past: Past) -> str:
        self._etcd.remember(step, past)
        return ""

    def nothing_is_ready_that_does_not_answer(self, step: Step, past: Past) -> str:
        """An object is ready only if it answered its clients less than ``LAG_SECONDS`` ago."""
        for which in ORDER:
            found = find(past.journal, which)
            if not ready(found) or self._known.for_long(which, FOREIGN, past):
                continue
            last = self._known.answered.get(which)
            if last is None:
                return f"{name_of(which)} is ready and has never answered"
            silent = self._known.silence(last, past)
            if silent > LAG_SECONDS and not self._known.for_long(PLANE, PAUSED, past):
                return f"{name_of(which)} is ready and has not answered for {silent:.1f} s"
        return ""

    def a_users_secret_stays(self, step: Step, past: Past) -> str:
        """No controller writes, owns or deletes a Secret that a user made."""
        old, new = both(step, SECRETS)
        if old is None or old["metadata"].get("ownerReferences"):
            return ""
        name = str(old["metadata"]["name"])
        if new is None:
            gone = acts.secret(name) not in past.deleted_by_users
            return f"the user's Secret {name} is deleted" if gone else ""
        same = old.get("data") == new.get("data") and not new["metadata"].get("ownerReferences")
        return "" if same else f"the user's Secret {name} is changed"

    def nothing_outlives_its_component(self, step: Step, past: Past) -> str:
        """A component goes after its programs and their data."""
        del past
        for component, resource in COMPONENTS.items():
            old, new = both(step, resource)
            name = (NAMESPACE_NAME, name_of(component))
            if old is None or new is not None or old["metadata"]["name"] != name_of(component):
                continue
            if name in self.machine.workloads:
                return f"{name_of(component)} is gone, and something of it runs"
            if name in self.machine.retained and not annotated(old, KEEP_DATA_ANNOTATION):
                return f"{name_of(component)} is gone, and its data is there"
        return ""

    def what_others_manage_is_left_alone(self, step: Step, past: Past) -> str:
        """Of a component that another program manages, ours write nothing and run nothing."""
        which = _touched(step)
        if which is None or not self._known.for_long(which, FOREIGN, past):
            return ""
        over = deleting(find(past.journal, which)) or deleting(find(past.journal, PLANE))
        return "" if over else f"{_told(step)}, which another program manages"

    def what_sleeps_runs_nothing(self, step: Step, past: Past) -> str:
        """While a control plane sleeps nothing of it is started, and what ran ends soon."""
        if not self._known.for_long(PLANE, ASLEEP, past):
            return ""
        told = isinstance(step, HostCall) or self._known.waits(PLANE, ASLEEP, past) > REPLACED_SECONDS
        if _is_start(step) and isinstance(step, HostCall | ProgramStep) and told:
            return f"{step.workload} is started, and its control plane sleeps"
        if self._known.for_long(PLANE, PAUSED, past) or self._foreign(past):
            return ""
        late = self._known.waits(PLANE, ASLEEP, past, calm=True) > FALLS_ASLEEP_SECONDS
        runs = [name for (_, name), each in self.machine.workloads.items() if each.programs]
        return f"{', '.join(runs)} runs, and its control plane sleeps" if late and runs else ""

    def _foreign(self, past: Past) -> bool:
        return any(self._known.for_long(each, FOREIGN, past) for each in Component)

    def nothing_of_a_paused_plane_is_touched(self, step: Step, past: Past) -> str:
        """While it is paused, nothing of a control plane is written, nor asked of a host."""
        which = _touched(step)
        if which is None or not self._known.for_long(PLANE, PAUSED, past):
            return ""
        return f"{_told(step)} of a paused control plane"


def _is_start(step: Step) -> bool:
    """Whether an instance starts, or is asked for."""
    if isinstance(step, HostCall):
        return step.verb == "replace" or bool(step.replicas)
    return isinstance(step, ProgramStep) and step.happening is Happening.STARTS


def _touched(step: Step) -> str | None:
    """Which of the four a manager writes, or asks a host to change."""
    if isinstance(step, HostCall):
        return next((each for each in Component if name_of(each) == step.workload), None)
    found = _OBJECT.match(step.path) if isinstance(step, Written) else None
    if found is None:
        return None
    named = ((each, f"{found['plural']}.") for each in ORDER if name_of(each) == found["name"])
    return next((each for each, plural in named if _RESOURCES[each].startswith(plural)), None)


def _told(step: Step) -> str:
    if isinstance(step, HostCall):
        return f"{step.client} asks to {step.verb} {step.workload}"
    return f"{step.client} writes {step.path}" if isinstance(step, Written) else ""
