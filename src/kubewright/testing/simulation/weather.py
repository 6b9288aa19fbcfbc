"""What befalls a manager's requests, watches and driver calls: the schedule's numbers, and spells.

Theory.      Numbers in a schedule count attempts: of requests (but for events) and calls since the story
             began, of watches since the world did. A spell is a while in which many are struck: a storm takes
             every other request, a cloud that is down every call. While news are slow every watch is
             late, and one who is cut off hears nothing.
Called by    ``world`` (every manager's line asks here), ``fate`` and ``outages`` (which make the weather).
"""

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from kubewright.machines.world import Half
from kubewright.testing.faults import ExecuteLate, is_watch
from kubewright.testing.faults import Fault as Harm
from kubewright.testing.simulation.clock import SimClock
from kubewright.testing.simulation.journal import Journal
from kubewright.testing.simulation.loop import Process
from kubewright.testing.simulation.schedule import API, STEADY, WATCH, Schedule
from kubewright.testing.simulation.tally import MANAGER, Tally, tells
from kubewright.wire.http import Request

SLOW_SECONDS = 1.5
"""How late news are while watches are slow."""
PAST_BLINDNESS = 0.1
"""By how much what a blind watch holds back would come too late."""
STORM_SHARE = 0.5
"""How many requests a storm strikes."""

Aim = Callable[[str, Request], bool]
"""Whether a client's request is struck."""


@dataclass(frozen=True, slots=True)
class _Storm:
    word: str
    until: float
    share: float
    aim: Aim


@dataclass(frozen=True, slots=True)
class _Strike:
    word: str
    until: float
    verbs: tuple[str, ...]


class Weather:
    """For one world. Until ``begin`` only watches are struck."""

    def __init__(self, schedule: Schedule, tally: Tally, journal: Journal, clock: SimClock) -> None:
        self._harm = {place: schedule.at(place) for place in ("api", "watch", "call")}
        self._tally = tally
        self._journal = journal
        self._clock = clock
        self._telling = False
        self._attempts = self._watches = 0
        self._slow_until = self._blind_until = 0.0
        self._storms: list[_Storm] = []
        self._strikes: list[_Strike] = []
        self._away: dict[str, float] = {}
        self.ghosts: dict[str, str] = {}
        """Names of objects whose creation is carried out late, and who asked for it."""

    # ------------------------------------------------------------ made by fate

    def begin(self) -> None:
        """The story begins."""
        self._telling, self._attempts = True, 0

    def slow(self, seconds: float) -> None:
        """Watches bring everything late for so long."""
        self._slow_until = self._now + seconds

    def blind(self, seconds: float) -> None:
        """Watches bring nothing before this is over, and by then they have been ended (``Host.expire``)."""
        self._blind_until = self._now + seconds + PAST_BLINDNESS

    def blow(
        self,
        word: str,
        seconds: float,
        *,
        share: float = STORM_SHARE,
        aim: Aim = lambda _client, _asked: True,
    ) -> None:
        """A storm: a share of the requests that ``aim`` chooses is struck by ``word``."""
        self._storms.append(_Storm(word, self._now + seconds, share, aim))

    def strike_calls(self, word: str, seconds: float, *verbs: str) -> None:
        """Every call of these verbs (none: of all) is struck by ``word``."""
        self._strikes.append(_Strike(word, self._now + seconds, verbs))

    def cut_off(self, client: str, seconds: float) -> None:
        """A client reaches no API server for so long."""
        self._away[client] = self._now + seconds

    # ------------------------------------------------------------ felt by managers

    def lateness(self, client: Process) -> float:
        """By how many seconds a watch's next chunk is late."""
        if not client.name.startswith(MANAGER):
            return 0.0
        return max(SLOW_SECONDS if self._now < self._slow_until else 0.0, self._blind_until - self._now)

    def away(self, client: Process) -> float:
        """For how many seconds more a client is cut off."""
        return max(0.0, self._away.get(client.name, 0.0) - self._now)

    def of_request(self, client: str, request: Request) -> Harm | None:
        """What befalls this request."""
        self._tally.sends(client, request)
        if is_watch(request):
            self._watches += 1
            word = self._harm["watch"].pop(self._watches, "")
            return self._struck("watch", word, WATCH.get(word))
        if not self._telling:
            return None
        word = ""
        if not tells(request):
            self._attempts += 1
            word = self._harm["api"].pop(self._attempts, "")
        word = word or self._gust(client, request)
        if isinstance(API.get(word), ExecuteLate) and request.method == "POST":
            self.ghosts[str(orjson.loads(request.body)["metadata"].get("name", ""))] = client
        return self._struck("api", word, API.get(word) or STEADY.get(word))

    def of_call(self, client: str, verb: str, name: str) -> str:
        """The word for this driver call; empty for none."""
        self._tally.acts(client, Half.MACHINES, f"asks the cloud to {verb} {name}")
        if not self._telling:
            return ""
        counts = self._tally.counts
        counts.calls += 1
        word = self._harm["call"].pop(counts.calls, "") or self._strike(verb)
        if word:
            counts.strike(f"call:{word}")
            self._journal.say("fate", f"{word}: {verb} of {name}")
        return word

    @property
    def _now(self) -> float:
        return self._clock.monotonic()

    def _gust(self, client: str, request: Request) -> str:
        self._storms = [storm for storm in self._storms if storm.until > self._now]
        hits = (storm for storm in self._storms if storm.aim(client, request))
        return next((storm.word for storm in hits if self._clock.random.random() < storm.share), "")

    def _strike(self, verb: str) -> str:
        lasting = (each for each in self._strikes if each.until > self._now)
        return next((each.word for each in lasting if not each.verbs or verb in each.verbs), "")

    def _struck(self, place: str, word: str, harm: Harm | None) -> Harm | None:
        if word:
            self._tally.counts.strike(f"{place}:{word}")
            self._journal.say("fate", f"{place} {word}")
        return harm
