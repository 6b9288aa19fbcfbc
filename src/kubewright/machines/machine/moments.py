"""When things began, on a clock that no step of the wall clock can move.

Theory.      A creation time-out counts from a time that the server wrote, a drain's from another, the
             health time-out from one that some manager wrote. Compared with our wall clock they would be
             wrong once that clock is set: a step of an hour would fail every machine that is being
             made and end every drain. But this process sees most of what matters begin: a machine is
             created, is deleted, becomes unhealthy. It notes the moment on its own monotonic clock
             (``base.witness``); of what began before its start it has only the dates.
Invariants.  What is known here is knowledge of this process, on its ``SteadyClock``; it is written nowhere.
Called by    ``reconciler`` (tells of changes), ``look`` (asks); ``machines.orphans.cleanup`` (NodeStates).
"""

from collections.abc import Callable
from datetime import datetime

from msgspec import structs

from kubewright.api.core import Node, NodeCondition
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.clock import SteadyClock
from kubewright.base.witness import Witness
from kubewright.kube.informer import Change
from kubewright.machines.machine.seen import Begun, reported
from kubewright.machines.machine.settings import HEALTHY


class NodeStates:
    """Since when nodes are in the state by which a drain gives them up. ``now`` reads a ``SteadyClock``."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._witness = Witness(now)

    def since(self, key: str, node: Node | None) -> datetime | None:
        """When this process saw the node of ``key`` come to its state; None: not seen, so its dates count."""
        return self._witness.began(key, _state(node), _dated(node))

    def forget(self, key: str) -> None:
        """It is gone for good."""
        self._witness.forget(key)


def as_seen(node: Node, since: datetime | None) -> tuple[NodeCondition, ...]:
    """A node's conditions, dated by our own clock if this process saw them change (``NodeStates.since``)."""
    if since is None:
        return node.status.conditions
    return tuple(structs.replace(each, last_transition_time=since) for each in node.status.conditions)


class Moments:
    """What this process saw begin, by uid; losing it costs nothing but the protection."""

    def __init__(self, clock: SteadyClock) -> None:
        self.now = clock.now
        self.monotonic = clock.monotonic
        self._created: dict[str, datetime] = {}
        self._deleted: dict[str, datetime] = {}
        self._phases = Witness(clock.now)
        self._nodes = NodeStates(clock.now)

    def of(self, machine: Machine, node: Node | None) -> Begun:
        """The moments of one machine; notes the phase and the node state of now."""
        uid, phase = machine.metadata.uid, machine.status.current_status.phase
        created = self._created.get(uid)
        phase_since = self._phases.began(uid, phase, reported(machine) if created is None else None)
        node_since = self._nodes.since(uid, node)
        return Begun(created, self._deleted.get(uid), phase_since or created, node_since)

    def forget(self, uid: str) -> None:
        """The machine is gone for good."""
        for known in (self._created, self._deleted):
            known.pop(uid, None)
        self._phases.forget(uid)
        self._nodes.forget(uid)

    def on_change(self, change: Change[Machine], *, live: bool) -> None:
        """A machine has changed. ``live``: it happened now; what a first list shows did not."""
        old, new = change.old, change.new
        if new is None:
            self.forget(old.uid if old is not None else "")
        elif not live:
            return
        elif old is None or old.uid != new.uid:
            self._created[new.uid] = self.now()
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
