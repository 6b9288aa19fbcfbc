"""When things began, on a clock that no step of the wall clock can move.

Theory.      A creation time-out counts from a time that the server wrote, a drain's from another, the
             health time-out from one that some manager wrote. To subtract them from our wall clock is
             right as long as nobody sets it: a step of an hour would fail every machine that is being
             made and end every drain. But most of what matters begins before our eyes: a machine is
             made, is deleted, falls ill, and we hear of it at once. Of that we keep the moment on our
             own monotonic clock; what had begun before us is as old as its dates say. A date in the
             future is somebody's wrong clock, and counts as now.
Invariants.  What is known here is knowledge of this process, on its ``SteadyClock``; it is written nowhere.
Called by    ``reconciler`` (tells of changes), ``look`` (asks).
"""

from dataclasses import replace
from datetime import datetime

from kubewright.api.core import Node
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.clock import SteadyClock
from kubewright.kube.informer import Change
from kubewright.machines.machine.observe import Begun, reported
from kubewright.machines.machine.settings import HEALTHY


class Moments:
    """What this process saw begin, by uid; losing it costs nothing but the protection."""

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._begun: dict[str, Begun] = {}

    def now(self) -> datetime:
        """The time on a clock that does not step."""
        return self._clock.now()

    def monotonic(self) -> float:
        """As ``Clock.monotonic``."""
        return self._clock.monotonic()

    def of(self, machine: Machine, node: Node | None) -> Begun:
        """The moments of one machine; whoever asks tells by the way how it and its node are now."""
        begun = self._begun.setdefault(machine.metadata.uid, Begun())
        phase = machine.status.current_status.phase
        if begun.phase != phase:
            begun.turned = self._begins(begun.phase is None, begun.born, reported(machine))
            begun.phase = phase
        state = _state(node)
        if begun.state != state:
            begun.shown = self._begins(begun.state is None, None, _dated(node))
            begun.state = state
        return replace(begun)

    def _begins(self, first: bool, known: datetime | None, dated: datetime | None) -> datetime | None:
        """Since when something is so; None: since its date. ``first``: it was so when we first looked."""
        now = self._clock.now()
        if first and (known is not None or dated is None or dated <= now):
            return known
        return now

    def forget(self, uid: str) -> None:
        """The machine is gone for good."""
        self._begun.pop(uid, None)

    def hear(self, change: Change[Machine], *, live: bool) -> None:
        """A machine has changed. ``live``: it happened now; what a first list shows did not."""
        old, new = change.old, change.new
        if new is None:
            self.forget(old.uid if old is not None else "")
        elif not live:
            return
        elif old is None or old.uid != new.uid:
            self._begun[new.uid] = Begun(born=self._clock.now())
        elif new.deleting and not old.deleting:
            self._begun.setdefault(new.uid, Begun()).deleted = self._clock.now()


def _dated(node: Node | None) -> datetime | None:
    """The last date of a node's state."""
    conditions = node.status.conditions if node is not None else ()
    dates = (each.last_transition_time for each in conditions if each.type in HEALTHY)
    return max((date for date in dates if date is not None), default=None)


def _state(node: Node | None) -> tuple[tuple[str, str], ...]:
    """The conditions by which a node is given up, without the dates that others gave them."""
    conditions = node.status.conditions if node is not None else ()
    return tuple((each.type, each.status) for each in conditions if each.type in HEALTHY)
