"""What must be true of an etcd at every step: its members, its majority, its data.

Theory.      The members of the simulated etcd are known at every moment, so each call of a manager is judged
             by what it has done to them. A manager is not blamed for a member that died a moment ago, which
             it cannot have seen.
Called by    ``rules``.
"""

from collections.abc import Callable
from typing import TypeGuard

from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION
from simulation.controlplanes import quorum
from simulation.controlplanes.acts import ETCD, find, name_of
from simulation.controlplanes.etcd import Etcd
from simulation.controlplanes.facts import Known, annotated
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.programs import HostedWorkload, Program
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import deleting
from simulation.journal import Happening, HostCall, ProgramStep, Step
from simulation.person import NAMESPACE_NAME

NAME = (NAMESPACE_NAME, name_of(ETCD))
CHANGES = "in"
"""How the verbs of changes of members end."""
UNSEEN_SECONDS = 5.0
"""For so long a manager may not know that a member died: a probe has to fail first."""


class EtcdRules:
    """These rules, of one run."""

    def __init__(self, known: Known, machine: Callable[[], HostMachine]) -> None:
        self._known = known
        self._machine = machine
        self._learners = 0
        self._had_majority = False
        self._died: dict[int, float] = {}

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (
            self.one_change_of_members_at_a_time,
            self.no_majority_is_lost_by_a_change,
            self.etcds_data_is_kept,
        )

    def remember(self, step: Step, past: Past) -> None:
        """How the members are now, for the next step. The end of a program belongs to the call before it."""
        if isinstance(step, ProgramStep) and step.workload == name_of(ETCD):
            if step.happening is Happening.DIES:
                self._died[step.ordinal] = past.now()
            elif step.happening in (Happening.SERVES, Happening.ENDED):
                self._died.pop(step.ordinal, None)
            if step.happening is Happening.ENDS:
                return
        found = self._machine().etcd_of(NAME)
        self._learners = len(found[1].learners) if found is not None else 0
        self._had_majority = found is not None and self._has_majority(*found, past)

    def one_change_of_members_at_a_time(self, step: Step, past: Past) -> str:
        """While a member has no vote yet no other is added or removed."""
        del past
        found = self._machine().etcd_of(NAME)
        if not isinstance(step, HostCall) or not step.verb.endswith(CHANGES) or found is None:
            return ""
        now, before = len(found[1].learners), self._learners
        wrong = before and now >= before
        return f"{step.verb} {step.workload}, which had {before} learners and has {now}" if wrong else ""

    def no_majority_is_lost_by_a_change(self, step: Step, past: Past) -> str:
        """What a manager asks for leaves a majority, unless all is to end, or there is one member."""
        found = self._machine().etcd_of(NAME)
        if not isinstance(step, HostCall) or (step.namespace, step.workload) != NAME or found is None:
            return ""
        hosted, etcd = found
        if not hosted.wanted or not self._had_majority or self._has_majority(hosted, etcd, past):
            return ""
        if len(etcd.voters) == 1 and step.verb == "replace":
            return ""
        return f"{step.verb} of {step.workload} {step.ordinal or step.replicas} leaves no majority"

    def _has_majority(self, hosted: HostedWorkload, etcd: Etcd, past: Past) -> bool:
        """Whether more than half of the voters run, as far as a manager can know."""
        there = (
            hosted.data[each.ordinal].member
            for each in hosted.programs.values()
            if not each.ending and quorum.is_member(hosted, etcd, each) and self._is_there(each, past)
        )
        return etcd.has_majority(there)

    def _is_there(self, one: Program, past: Past) -> bool:
        died = self._died.get(one.ordinal)
        return one.up or (died is not None and self._known.silence(died, past) < UNSEEN_SECONDS)

    def etcds_data_is_kept(self, step: Step, past: Past) -> str:
        """The data of an etcd goes when its object is deleted and does not say that it is to be kept.

        That of one member goes also after it was removed.
        """
        if not _loses_data(step):
            return ""
        found = find(past.journal, ETCD)
        if found is not None and deleting(found):
            kept = annotated(found, KEEP_DATA_ANNOTATION)
            return "etcd's data is deleted, which was to be kept" if kept else ""
        return "" if self._is_removed(step.ordinal) else "etcd's data is deleted, and the NestedEtcd is not"

    def _is_removed(self, ordinal: int) -> bool:
        """Whether an instance is no member of an etcd that goes on."""
        found = self._machine().etcd_of(NAME)
        if found is None:
            return False
        hosted, etcd = found
        return bool(hosted.wanted) and etcd.of(self._machine().address(hosted.identity, ordinal)) is None


def _loses_data(step: Step) -> TypeGuard[ProgramStep]:
    if not isinstance(step, ProgramStep) or step.workload != name_of(ETCD):
        return False
    return step.happening is Happening.DATA_GONE
