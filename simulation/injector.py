"""Faults of a manager's requests, watches and driver calls: numbered ones, and ones that last for a while.

Theory.      Numbers in a schedule count attempts: of requests (but for events) and calls since the story
             began, of watches since the world began. Other faults last for a while and hit many attempts: a
             storm every other request, a cloud that is down every call. Slow watches bring every event
             late, and a client that is cut off receives nothing.
Called by    ``world`` (the connection of every manager asks here), ``incidents`` and ``outages`` (which
             begin the faults that last).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson

from kubewright.base.limits import REQUEST_SECONDS
from kubewright.machines.world import Half
from kubewright.testing.faults import Delay, ExecuteLate, is_watch
from kubewright.testing.faults import Fault as WireFault
from kubewright.wire.http import Request
from simulation.clock import SimClock
from simulation.journal import Journal
from simulation.loop import Process
from simulation.schedule import API, STEADY, WATCH, Schedule
from simulation.tally import MANAGER, Tally, writes_event

SLOW_SECONDS = 1.5
"""How late events are while watches are slow."""
AFTER_SILENCE = 0.1
"""How long after the end of ``silent-watches`` the events that a watch holds back would come."""
STORM_SHARE = 0.5
"""The share of requests that a storm hits."""

Aim = Callable[[str, Request], bool]
"""Whether a fault may hit a client's request."""


@dataclass(frozen=True, slots=True)
class _Storm:
    word: str
    until: float
    share: float
    aim: Aim


@dataclass(frozen=True, slots=True)
class _CallFault:
    word: str
    until: float
    verbs: tuple[str, ...]


class Injector:
    """For one world. Until ``begin`` only watches get faults."""

    def __init__(self, schedule: Schedule, tally: Tally, journal: Journal, clock: SimClock) -> None:
        self._numbered = {place: schedule.at(place) for place in ("api", "watch", "call")}
        self._tally = tally
        self._journal = journal
        self._clock = clock
        self._begun = False
        self._attempts = self._watches = 0
        self._slow_until = self._silent_until = 0.0
        self._storms: list[_Storm] = []
        self._call_faults: list[_CallFault] = []
        self._away: dict[str, float] = {}
        self._answered: dict[str, float] = {}
        """When each client has, or has given up, the answers that were delayed."""
        self.late_creations: dict[str, str] = {}
        """Names of objects whose creation is carried out late, with the manager that sent it."""

    # ------------------------------------------------------------ faults that last

    def begin(self) -> None:
        """The story begins."""
        self._begun, self._attempts = True, 0

    def slow(self, seconds: float) -> None:
        """Watches bring every event late for so long."""
        self._slow_until = self._now + seconds

    def silence_watches(self, seconds: float) -> None:
        """Watches bring nothing for so long, and are ended then (``Host.expire``)."""
        self._silent_until = self._now + seconds + AFTER_SILENCE

    def fail_requests(
        self,
        word: str,
        seconds: float,
        *,
        share: float = STORM_SHARE,
        aim: Aim = lambda _client, _asked: True,
    ) -> None:
        """A storm: a share of the requests that ``aim`` chooses gets the fault ``word``."""
        self._storms.append(_Storm(word, self._now + seconds, share, aim))

    def fail_calls(self, word: str, seconds: float, *verbs: str) -> None:
        """Every call of these verbs (none: of all) gets the fault ``word``."""
        self._call_faults.append(_CallFault(word, self._now + seconds, verbs))

    def cut_off(self, client: str, seconds: float) -> None:
        """A client reaches no API server for so long."""
        self._away[client] = self._now + seconds

    # ------------------------------------------------------------ asked for managers

    def lateness(self, client: Process) -> float:
        """By how many seconds a watch's next chunk is late."""
        if not client.name.startswith(MANAGER):
            return 0.0
        return max(SLOW_SECONDS if self._now < self._slow_until else 0.0, self._silent_until - self._now)

    def away(self, client: Process) -> float:
        """For how many seconds more a client is cut off."""
        return max(0.0, self._away.get(client.name, 0.0) - self._now)

    def delayed_until(self, clients: Iterable[Process]) -> float:
        """When the last of these clients has the answers that were delayed; 0.0: none was."""
        return max((self._answered.get(each.name, 0.0) for each in clients), default=0.0)

    def of_request(self, client: str, request: Request) -> WireFault | None:
        """The fault of this request, if any."""
        self._tally.sends(client, request)
        if is_watch(request):
            self._watches += 1
            word = self._numbered["watch"].pop(self._watches, "")
            return self._injected("watch", word, WATCH.get(word))
        if not self._begun:
            return None
        word = ""
        if not writes_event(request):
            self._attempts += 1
            word = self._numbered["api"].pop(self._attempts, "")
        word = word or self._storm(client, request)
        fault = API.get(word)
        if isinstance(fault, ExecuteLate) and request.method == "POST":
            self.late_creations[str(orjson.loads(request.body)["metadata"].get("name", ""))] = client
        if isinstance(fault, Delay):
            answered = self._now + min(fault.seconds, REQUEST_SECONDS)
            self._answered[client] = max(self._answered.get(client, 0.0), answered)
        return self._injected("api", word, fault or STEADY.get(word))

    def of_call(self, client: str, verb: str, name: str, half: Half = Half.MACHINES) -> str:
        """The fault of this call of a driver, or of a host, by the leader of ``half``; empty for none."""
        self._tally.acts(client, half, f"asks to {verb} {name}")
        if not self._begun:
            return ""
        counts = self._tally.counts
        counts.calls += 1
        word = self._numbered["call"].pop(counts.calls, "") or self._call_fault(verb)
        if word:
            counts.note_fault(f"call:{word}")
            self._journal.say("world", f"{word}: {verb} of {name}")
        return word

    @property
    def _now(self) -> float:
        return self._clock.monotonic()

    def _storm(self, client: str, request: Request) -> str:
        self._storms = [storm for storm in self._storms if storm.until > self._now]
        hits = (storm for storm in self._storms if storm.aim(client, request))
        return next((storm.word for storm in hits if self._clock.random.random() < storm.share), "")

    def _call_fault(self, verb: str) -> str:
        lasting = (each for each in self._call_faults if each.until > self._now)
        return next((each.word for each in lasting if not each.verbs or verb in each.verbs), "")

    def _injected(self, place: str, word: str, fault: WireFault | None) -> WireFault | None:
        if word:
            self._tally.counts.note_fault(f"{place}:{word}")
            self._journal.say("world", f"{place} {word}")
        return fault
