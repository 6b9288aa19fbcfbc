"""When things began, on a clock that no step of the wall clock can move.

Theory.      A creation time-out counts from a time that the server wrote, a drain's from another, the
             health time-out from one that some manager wrote. To subtract them from our wall clock is
             right as long as nobody sets it: a step of an hour would fail every machine that is being
             made and end every drain. But most of what matters begins before our eyes: a machine is
             made, is deleted, falls ill, and we hear of it at once. Of that we keep the moment on our
             own monotonic clock (``base.witness``); what had begun before us is as old as its dates say.
Invariants.  What is known here is knowledge of this process, on its ``SteadyClock``; it is written nowhere.
Called by    ``reconciler`` (tells of changes), ``look`` (asks).
"""

from datetime import datetime

from kubewright.api.core import Node
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.clock import SteadyClock
from kubewright.base.witness import Witness
from kubewright.kube.informer import Change
from kubewright.machines.machine.observe import Begun, reported
from kubewright.machines.machine.settings import HEALTHY


class Moments:
    """What this process saw begin, by uid; losing it costs nothing but the protection."""

    def __init__(self, clock: SteadyClock) -> None:
        self.now = clock.now
        self.monotonic = clock.monotonic
        self._born: dict[str, datetime] = {}
        self._deleted: dict[str, datetime] = {}
        self._phases = Witness(clock.now)
        self._nodes = Witness(clock.now)

    def of(self, machine: Machine, node: Node | None) -> Begun:
        """The moments of one machine; whoever asks tells by the way how it and its node are now."""
        uid, phase = machine.metadata.uid, machine.status.current_status.phase
        born = self._born.get(uid)
        turned = self._phases.began(uid, phase, reported(machine) if born is None else None)
        shown = self._nodes.began(uid, _state(node), _dated(node))
        return Begun(born, self._deleted.get(uid), turned or born, shown)

    def forget(self, uid: str) -> None:
        """The machine is gone for good."""
        for known in (self._born, self._deleted):
            known.pop(uid, None)
        for witness in (self._phases, self._nodes):
            witness.forget(uid)

    def hear(self, change: Change[Machine], *, live: bool) -> None:
        """A machine has changed. ``live``: it happened now; what a first list shows did not."""
        old, new = change.old, change.new
        if new is None:
            self.forget(old.uid if old is not None else "")
        elif not live:
            return
        elif old is None or old.uid != new.uid:
            self._born[new.uid] = self.now()
        elif new.deleting and not old.deleting:
            self._deleted[new.uid] = self.now()


def _dated(node: Node | None) -> datetime | None:
    """The last date of a node's state."""
    conditions = node.status.conditions if node is not None else ()
    dates = (each.last_transition_time for each in conditions if each.type in HEALTHY)
    return max((date for date in dates if date is not None), default=None)


def _state(node: Node | None) -> tuple[tuple[str, str], ...]:
    """The conditions by which a node is given up, without the dates that others gave them."""
    conditions = node.status.conditions if node is not None else ()
    return tuple((each.type, each.status) for each in conditions if each.type in HEALTHY)
