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

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import structs

from kubewright.api.conditions import condition_of
from kubewright.api.core import Node, NodeCondition
from kubewright.api.machine.names import NodeConditionType
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.clock import SteadyClock
from kubewright.base.witness import Witness
from kubewright.kube.informer import Change, Informer
from kubewright.machines.machine.seen import Begun, reported
from kubewright.machines.settings import HEALTHY


class NodeStates:
    """Since when the conditions of nodes that let a drain use force (Ready, ReadonlyFilesystem) are as they
    are, each by itself. ``now`` reads a ``SteadyClock``."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._witness = Witness(now)

    def since(self, key: str, node: Node | None) -> Mapping[str, datetime]:
        """When this process saw conditions of the node of ``key`` change, by their types; of those that are
        missing it did not, so their dates count."""
        seen: dict[str, datetime] = {}
        for kind in HEALTHY:
            found = condition_of(node.status.conditions, kind) if node else None
            status, dated = (found.status, found.last_transition_time) if found else ("", None)
            if (began := self._witness.began(f"{key}/{kind}", status, dated)) is not None:
                seen[kind] = began
        return seen

    def forget(self, key: str) -> None:
        """It is gone for good."""
        for kind in HEALTHY:
            self._witness.forget(f"{key}/{kind}")


def as_seen(node: Node, since: Mapping[str, datetime]) -> tuple[NodeCondition, ...]:
    """A node's conditions, dated by our clock where this process saw them change (``NodeStates.since``)."""
    return tuple(
        structs.replace(each, last_transition_time=since.get(each.type, each.last_transition_time))
        for each in node.status.conditions
    )


class Moments:
    """What this process saw begin, by uid; losing it costs nothing but the protection."""

    def __init__(self, clock: SteadyClock) -> None:
        self.now = clock.now
        self.monotonic = clock.monotonic
        self._created: dict[str, datetime] = {}
        self._deleted: dict[str, datetime] = {}
        self._phases = Witness(clock.now)
        self._nodes = NodeStates(clock.now)
        self._updates = Witness(clock.now)

    def of(self, machine: Machine, node: Node | None) -> Begun:
        """The moments of one machine; notes its phase, and the state of its node, as they are now."""
        uid, phase = machine.metadata.uid, machine.status.current_status.phase
        created = self._created.get(uid)
        phase_since = self._phases.began(uid, phase, reported(machine) if created is None else None)
        told = condition_of(node.status.conditions, NodeConditionType.IN_PLACE_UPDATE) if node else None
        stage, dated = (told.reason, told.last_transition_time) if told else ("", None)
        return Begun(
            created=created,
            deleted=self._deleted.get(uid),
            phase_since=phase_since or created,
            node_since=self._nodes.since(uid, node),
            update_since=self._updates.began(uid, stage, dated),
        )

    def forget(self, uid: str) -> None:
        """The machine is gone for good."""
        for known in (self._created, self._deleted):
            known.pop(uid, None)
        self._phases.forget(uid)
        self._nodes.forget(uid)
        self._updates.forget(uid)

    def follow(self, machines: Informer[Machine]) -> None:
        """Note the changes of these machines. What is there already, or a first list shows, did not happen
        now."""
        replayed = True
        machines.subscribe(lambda change: self.on_change(change, live=machines.synced and not replayed))
        replayed = False

    def on_change(self, change: Change[Machine], *, live: bool) -> None:
        """A machine has changed. ``live``: it happened now."""
        old, new = change.old, change.new
        if new is None:
            self.forget(old.uid if old is not None else "")
        elif not live:
            return
        elif old is None or old.uid != new.uid:
            self._created[new.uid] = self.now()
        elif new.deleting and not old.deleting:
            self._deleted[new.uid] = self.now()
