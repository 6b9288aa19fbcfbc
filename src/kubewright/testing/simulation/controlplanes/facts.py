"""What the rules of control planes know beside the step that they judge.

Theory.      What is true now is compared with what a manager may know: each fact has the moment since which
             it holds; a manager knows of it ``SEEN_SECONDS`` later, counted from when no fault disturbs it.
Called by    ``rules`` and ``order``.
"""

from collections.abc import Iterator

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION, PAUSED_ANNOTATION
from kubewright.api.controlplane.names import Component
from kubewright.testing.simulation.controlplanes import acts
from kubewright.testing.simulation.controlplanes.acts import ORDER, PLANE, find, name_of
from kubewright.testing.simulation.controlplanes.machine import Machine
from kubewright.testing.simulation.invariants import Past
from kubewright.testing.simulation.invariants.facts import deleting
from kubewright.testing.simulation.journal import Object
from kubewright.testing.simulation.person import NAMESPACE_NAME

SEEN_SECONDS, SEEN_AT_ONCE_SECONDS = 3.0, 0.1
"""After so long a manager knows of a change, and what it began before is done; and where there was no fault
yet: a watch that lags does so for as long as it lives."""
AUTHORITIES = ("-ca", "-etcd", "-proxy", "-sa")
"""How the names of the Secrets end that everything else of a control plane depends on."""

DELETING, PAUSED, FOREIGN = "is deleted", "is paused", "is another program's"


class Known:
    """Of one run; ``learn`` is called with each step before any rule judges it."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._well: set[str] = set()
        """Those that answer since the last step: until the next one nothing changes."""
        self.answered: dict[str, float] = {}
        """When each of the four last answered its clients."""

    def learn(self, past: Past, machine: Machine) -> None:
        """Take in how the world is now."""
        now = past.now()
        holds = set(_facts(past))
        self._since = {each: self._since.get(each, now) for each in sorted(holds)}
        well = {which for which in ORDER if answers(which, past, machine)}
        self.answered.update(dict.fromkeys(well | self._well, now))
        self._well = well

    def for_long(self, which: str, fact: str, past: Past) -> bool:
        """Whether a fact holds for so long that every manager knows."""
        since = self._since.get((which, fact))
        lag = SEEN_SECONDS if past.undisturbed_since() else SEEN_AT_ONCE_SECONDS
        return since is not None and self.silence(since, past) > lag

    def waits(self, which: str, fact: str, past: Past) -> float:
        """For how many seconds a fact holds; 0 if it does not."""
        return past.now() - self._since.get((which, fact), past.now())

    @staticmethod
    def silence(since: float, past: Past) -> float:
        """For how long something is so, without the time in which faults disturbed the managers."""
        return past.now() - max(since, past.undisturbed_since())


def answers(which: str, past: Past, machine: Machine) -> bool:
    """Whether what an object stands for answers its clients."""
    if which != PLANE:
        return machine.answers(NAMESPACE_NAME, name_of(which))
    named = (find(past.journal, PLANE) or {}).get("spec", {})
    parts = [each for each in Component if acts.FIELDS[each] in named]
    well = all(machine.answers(NAMESPACE_NAME, name_of(each)) for each in parts)
    return bool(parts) and well and acts.clients_get_in(past.journal, machine)


def _facts(past: Past) -> Iterator[tuple[str, str]]:
    for which in ORDER:
        found = find(past.journal, which)
        if found is None:
            continue
        if deleting(found):
            yield which, DELETING
        if PAUSED_ANNOTATION in _annotations(found):
            yield which, PAUSED
        if MANAGED_BY_ANNOTATION in _annotations(found):
            yield which, FOREIGN


def _annotations(found: Object) -> Object:
    return found["metadata"].get("annotations") or {}


def annotated(found: Object | None, annotation: str) -> bool:
    """Whether an object is there, with this annotation."""
    return found is not None and annotation in _annotations(found)
