"""What must be true of programs at every step: members and data of an etcd, orders of starts and ends.

Theory.      The members of the simulated etcd are known at every moment, so each call of a manager is judged
             by what it has done to them. A manager is not blamed for a member that died a moment ago, which
             it cannot have seen.
             A program that starts finds what it needs; one that ends does so while what it needs is there.
             Only what a manager asks for counts: a program that died is started again by the machine.
Called by    ``rules``.
"""

from collections.abc import Callable
from typing import TypeGuard

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION
from kubewright.controlplanes.component.seen import LONGEST_WAIT
from kubewright.controlplanes.templates.choice import minor
from kubewright.controlplanes.wiring import templates
from simulation.controlplanes import quorum
from simulation.controlplanes.acts import ETCD, MANAGER, PLANE, SERVER, find, name_of
from simulation.controlplanes.etcd import Etcd
from simulation.controlplanes.facts import DELETING, Known, annotated
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.programs import HostedWorkload, Program
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import deleting
from simulation.journal import Happening, HostCall, ProgramStep, Step
from simulation.person import NAMESPACE_NAME

NEEDS = {SERVER: ETCD, MANAGER: SERVER}
"""What each component needs before it starts."""
Release = tuple[int, ...]
LAG_SECONDS = 10.0
"""A program may be started if what it needs answered less than so long ago."""


class Order:
    """These rules, of one run."""

    def __init__(self, known: Known, machine: Callable[[], HostMachine]) -> None:
        self._known = known
        self._machine = machine

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (
            self.what_starts_finds_what_it_needs,
            self.what_ends_has_what_it_needs,
            self.one_at_a_time,
            self.versions_go_in_order,
        )

    def what_starts_finds_what_it_needs(self, step: Step, past: Past) -> str:
        """etcd, then the API server, then the controller manager: each when the one before it answers."""
        if not isinstance(step, ProgramStep) or step.happening is not Happening.STARTS:
            return ""
        needed = next((NEEDS[each] for each in NEEDS if name_of(each) == step.workload), None)
        if needed is None or find(past.journal, needed) is None:
            return ""
        last = self._known.answered.get(needed)
        if last is None:
            return f"{step.workload} starts, and {name_of(needed)} has never answered"
        silent = self._known.silence(last, past)
        return f"{step.workload} starts, and {name_of(needed)} is silent" if silent > LAG_SECONDS else ""

    def what_ends_has_what_it_needs(self, step: Step, past: Past) -> str:
        """Where both are deleted, one ends after the other that needs it, unless that takes too long.

        An etcd that is deleted alone goes with its data only when no API server runs.
        """
        if not isinstance(step, HostCall) or step.verb != "remove":
            return ""
        for component, needed in NEEDS.items():
            if name_of(needed) != step.workload:
                continue
            goes = any(self._known.for_long(each, DELETING, past) for each in (component, PLANE))
            each_waits = [self._known.waits(needed, DELETING, past)]
            if self._known.waits(component, DELETING, past):
                each_waits.append(self._known.waits(component, DELETING, past))
            late = min(each_waits) > LONGEST_WAIT.total_seconds()
            runs = bool(self._machine().instances(NAMESPACE_NAME, name_of(component)))
            if runs and goes and not late:
                return f"{step.workload} is removed while {name_of(component)} runs, which goes too"
            if runs and needed is ETCD and self._is_deleted_alone(past):
                return f"{step.workload} is removed while {name_of(component)} uses its data"
        return ""

    def _is_deleted_alone(self, past: Past) -> bool:
        """Whether an etcd is deleted, with its data, of a control plane of which no other part is."""
        found = find(past.journal, ETCD)
        others = [find(past.journal, each) for each in (PLANE, SERVER)]
        stays = all(each is not None and not deleting(each) for each in others)
        mine = annotated(found, KEEP_DATA_ANNOTATION) or annotated(found, MANAGED_BY_ANNOTATION)
        return stays and not mine

    def one_at_a_time(self, step: Step, past: Past) -> str:
        """An instance that serves is not replaced while another of its component is."""
        if not isinstance(step, HostCall) or step.verb != "replace":
            return ""
        found = self._machine().instances(NAMESPACE_NAME, step.workload)
        others = [each for each in found if each.ordinal != step.ordinal]
        asked = next((each for each in found if each.ordinal == step.ordinal), None)
        if asked is None or not self._machine().serves(asked):
            return ""
        ending = [each.ordinal for each in others if each.ending]
        calm = self._known.silence(0.0, past) > LAG_SECONDS
        return f"{step.workload} {step.ordinal} is replaced, and so are {ending}" if ending and calm else ""

    def versions_go_in_order(self, step: Step, past: Past) -> str:
        """Nothing starts that is newer than what it needs, which follows the control plane's version."""
        if not isinstance(step, ProgramStep) or step.happening is not Happening.STARTS:
            return ""
        which = next((each for each in NEEDS if name_of(each) == step.workload), None)
        spec = (find(past.journal, PLANE) or {}).get("spec", {})
        if which is None or not spec.get("version"):
            return ""
        one = self._machine().instances(NAMESPACE_NAME, step.workload)[-1].workload.version
        needed = self._machine().instances(NAMESPACE_NAME, name_of(NEEDS[which]))
        follows = which is MANAGER or "version" not in (find(past.journal, SERVER) or {}).get("spec", {})
        wanted = _release(one) if which is MANAGER else _etcd_of(one) if follows else ()
        old = [each.workload.version for each in needed if _release(each.workload.version) < wanted]
        return f"{step.workload} starts with {one}, and {name_of(NEEDS[which])} has {old}" if old else ""


def _etcd_of(version: str) -> Release:
    """The release of etcd that belongs to a version of Kubernetes."""
    entries = templates().channels[minor(version)]
    return next(_release(each.version) for each in entries if each.package == ETCD)


def _release(version: str) -> Release:
    return tuple(map(int, version.removeprefix("v").split(".")))


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
