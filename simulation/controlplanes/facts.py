"""What the rules of control planes remember: since when something is so, and when each object last answered.

Theory.      A rule may blame a manager only for what the manager can have seen. So each fact is remembered
             with the moment since which it holds, and every manager has seen it ``SEEN_SECONDS`` later;
             time in which faults disturbed the managers does not count.
Called by    ``rules`` and ``replication``.
"""

from collections.abc import Iterator

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION, PAUSED_ANNOTATION
from kubewright.api.controlplane.names import Component
from simulation.controlplanes import acts
from simulation.controlplanes.acts import ORDER, PLANE, find, name_of
from simulation.controlplanes.machine import HostMachine
from simulation.invariants import Past
from simulation.invariants.facts import deleting
from simulation.journal import Object
from simulation.person import NAMESPACE_NAME

SEEN_SECONDS, SEEN_AT_ONCE_SECONDS = 3.0, 0.1
"""After so long a manager has seen a change, and has ended what it was doing. The second one holds while no
fault has come yet; after a fault a watch may lag for as long as it lives."""
AUTHORITIES = ("-ca", "-etcd", "-proxy", "-sa")
"""The ends of the names of the Secrets with certificate authorities and the key of service accounts."""

DELETING, PAUSED, FOREIGN, ASLEEP = "is deleted", "is paused", "is another program's", "sleeps"


class Known:
    """What the rules of one run remember; ``learn`` is called with each step before any rule judges it."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._well: set[str] = set()
        """The objects that answered at the last step; until the next step nothing changes."""
        self.answered: dict[str, float] = {}
        """When each of the four objects last answered its clients."""

    def learn(self, past: Past, machine: HostMachine) -> None:
        """Remember how the world is now."""
        now = past.now()
        holds = set(_facts(past))
        self._since = {each: self._since.get(each, now) for each in sorted(holds)}
        well = {which for which in ORDER if answers(which, past, machine)}
        self.answered.update(dict.fromkeys(well | self._well, now))
        self._well = well

    def for_long(self, which: str, fact: str, past: Past) -> bool:
        """Whether a fact holds for so long that every manager has seen it."""
        since = self._since.get((which, fact))
        lag = SEEN_SECONDS if past.undisturbed_since() else SEEN_AT_ONCE_SECONDS
        return since is not None and self.silence(since, past) > lag

    def waits(self, which: str, fact: str, past: Past, *, calm: bool = False) -> float:
        """For how many seconds a fact holds; 0 if it does not. ``calm``: those without faults."""
        since = self._since.get((which, fact), past.now())
        return self.silence(since, past) if calm else past.now() - since

    @staticmethod
    def silence(since: float, past: Past) -> float:
        """The seconds since then, without those in which faults disturbed the managers."""
        return past.now() - max(since, past.undisturbed_since())


def answers(which: str, past: Past, machine: HostMachine) -> bool:
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
        if found.get("status", {}).get("asleep"):
            yield which, ASLEEP


def _annotations(found: Object) -> Object:
    return found["metadata"].get("annotations") or {}


def annotated(found: Object | None, annotation: str) -> bool:
    """Whether an object is there, with this annotation."""
    return found is not None and annotation in _annotations(found)
