"""In which order programs of a control plane start, are replaced and end.

Theory.      A program that starts finds what it needs; one that ends does so while what it needs is there.
             Only what a manager asks for counts: a program that died is started again by the machine.
Called by    ``rules``.
"""

from collections.abc import Callable

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION
from kubewright.controlplanes.component.seen import LONGEST_WAIT
from kubewright.controlplanes.templates.choice import minor
from kubewright.controlplanes.world import templates
from simulation.controlplanes.acts import ETCD, MANAGER, PLANE, SERVER, find, name_of
from simulation.controlplanes.facts import DELETING, Known, annotated
from simulation.controlplanes.machine import HostMachine
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
