"""What the rules of nested control planes remember: since when something is so, when each object last
answered, and how members, files and authorities were before.

Theory.      A rule may blame a manager only for what the manager can have seen. So each fact is remembered
             with the moment since which it holds, and every manager has seen it ``SEEN_SECONDS`` later;
             time in which faults disturbed the managers does not count.
Called by    ``table`` names it; read by ``programs``, ``owners`` and ``secrets``.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION, PAUSED_ANNOTATION
from kubewright.api.controlplane.names import Component
from simulation.controlplanes import parts, quorum
from simulation.controlplanes.etcd import Content, Etcd
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD, ORDER, PLANE, find, name_of_part
from simulation.controlplanes.programs import HostedWorkload, Program
from simulation.journal import DIES, ENDED, ENDS, NAMESPACE_NAME, PROGRAMS, SERVES, Write
from simulation.resources import SECRETS, SNAPSHOTS
from simulation.rules.facts import deleting, notes_of, status_of, uid_of
from simulation.rules.past import Past

Entries = Mapping[str, bytes]
ETCD_NAME = (NAMESPACE_NAME, name_of_part(ETCD))
SEEN_SECONDS, SEEN_AT_ONCE_SECONDS = 3.0, 0.1
"""After so long a manager has seen a change, and has ended what it was doing. The second one holds while no
fault has come yet; after a fault a watch may lag for as long as it lives."""
UNSEEN_SECONDS = 5.0
"""For so long a manager may not know that a member died: a probe has to fail first."""
AUTHORITIES = frozenset(f"{parts.CLUSTER}{end}" for end in ("-ca", "-etcd", "-proxy", "-sa"))
"""The Secrets with certificate authorities and the key of service accounts."""
DELETING, PAUSED, ELSEWHERE, ASLEEP = "is deleted", "is paused", "is another program's", "sleeps"


class PlanePast:
    """Of one run.

    ``answered``     when each of the four objects last answered its clients
    ``authorities``  what the Secrets of authorities had before
    ``contents``     what clients of the etcd ever read, in order
    ``asked``        how many of these there were when a snapshot was asked for, by its uid
    ``learners``, ``had_majority``  how the members were before this entry
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._well: set[str] = set()
        """The objects that answered at the last entry; until the next one nothing changes."""
        self._died: dict[int, float] = {}
        self.answered: dict[str, float] = {}
        self.authorities: dict[str, Entries] = {}
        self.contents: list[Content] = []
        self.asked: dict[str, int] = {}
        self.learners = 0
        self.had_majority = False

    def learn(self, write: Write, past: Past) -> None:
        """As ``past.Memory``."""
        now, machine = past.now(), past.part(HostMachine)
        self._since = {each: self._since.get(each, now) for each in sorted(set(_facts(past)))}
        well = {which for which in ORDER if answers(which, past, machine)}
        self.answered.update(dict.fromkeys(well | self._well, now))
        self._well = well
        if find(past.journal, PLANE) is None:
            self.authorities.clear()
        content = machine.content(*ETCD_NAME)
        if content is not None and (not self.contents or self.contents[-1] != content):
            self.contents.append(content)
        if write.kind == SNAPSHOTS and write.committed and write.after is not None:
            self.asked.setdefault(uid_of(write.after), max(0, len(self.contents) - 1))

    def remember(self, write: Write, past: Past) -> None:
        """As ``past.Memory``. The end of a program belongs to the call before it."""
        if (
            write.kind == SECRETS
            and write.committed
            and write.after is not None
            and write.name in AUTHORITIES
        ):
            self.authorities[write.name] = entries(write.after)
        if write.kind == PROGRAMS and write.key == "/".join(ETCD_NAME):
            if write.verb == DIES:
                self._died[write.number] = past.now()
            elif write.verb in (SERVES, ENDED):
                self._died.pop(write.number, None)
            if write.verb == ENDS:
                return
        found = past.part(HostMachine).etcd_of(ETCD_NAME)
        self.learners = len(found[1].learners) if found is not None else 0
        self.had_majority = found is not None and self.has_majority(*found, past)

    def for_long(self, which: str, fact: str, past: Past) -> bool:
        """Whether a fact holds for so long that every manager has seen it."""
        since = self._since.get((which, fact))
        lag = SEEN_SECONDS if past.undisturbed_since() else SEEN_AT_ONCE_SECONDS
        return since is not None and silence(since, past) > lag

    def waits(self, which: str, fact: str, past: Past, *, calm: bool = False) -> float:
        """For how many seconds a fact holds; 0 if it does not. ``calm``: those without faults."""
        since = self._since.get((which, fact), past.now())
        return silence(since, past) if calm else past.now() - since

    def has_majority(self, hosted: HostedWorkload, etcd: Etcd, past: Past) -> bool:
        """Whether more than half of the voters run, as far as a manager can know."""
        members = (p for p in hosted.programs.values() if not p.ending and quorum.is_member(hosted, etcd, p))
        return etcd.has_majority(hosted.data[p.ordinal].member for p in members if self._is_there(p, past))

    def _is_there(self, one: Program, past: Past) -> bool:
        died = self._died.get(one.ordinal)
        return one.up or (died is not None and silence(died, past) < UNSEEN_SECONDS)


def silence(since: float, past: Past) -> float:
    """The seconds since then, without those in which faults disturbed the managers."""
    return past.now() - max(since, past.undisturbed_since())


def answers(which: str, past: Past, machine: HostMachine) -> bool:
    """Whether what an object stands for answers its clients."""
    if which != PLANE:
        return machine.answers(NAMESPACE_NAME, name_of_part(which))
    named = (find(past.journal, PLANE) or {}).get("spec", {})
    needed = [each for each in Component if parts.FIELDS[each] in named]
    well = all(machine.answers(NAMESPACE_NAME, name_of_part(each)) for each in needed)
    return bool(needed) and well and parts.clients_get_in(past.journal, machine)


def entries(secret: Mapping[str, Any]) -> Entries:
    """What is in a Secret."""
    return {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}


def _facts(past: Past) -> Iterator[tuple[str, str]]:
    for which in ORDER:
        found = find(past.journal, which)
        if found is None:
            continue
        holds = {
            DELETING: deleting(found),
            PAUSED: PAUSED_ANNOTATION in notes_of(found),
            ELSEWHERE: MANAGED_BY_ANNOTATION in notes_of(found),
            ASLEEP: bool(status_of(found).get("asleep")),
        }
        yield from ((which, fact) for fact, so in holds.items() if so)
