"""The index of members: what sets and deployments know about each child of theirs, by owner.

Theory.      Most of what happens to a member (an address, a heartbeat, a description) means nothing to its
             set. So each version of it is read once into a ``Member``: the facts that all APIs have, and
             those that a policy adds. Listeners are called only when a fact has changed, and a pass over five
             hundred members decodes none of them. The members of each owner are in the order of their
             names, so a change costs the same for ten members and for ten thousand, and equal caches give
             equal lists. How long a member has been ready is counted from when this process saw it become
             so (``base.clock``).
Invariants.  The index never answers older facts than the cache holds. An object that its type cannot
             read is still counted: not counting it would create another one.
Called by    ``look`` and ``wiring`` of sets and deployments. How a member is read is passed in.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Generic

from kubewright.api.kinds import Undecodable
from kubewright.base.clock import SteadyClock
from kubewright.base.witness import Witness
from kubewright.kube.cache import Change
from kubewright.kube.header import Header
from kubewright.kube.informer import Informer
from kubewright.replicas.objects import BY_UID, WITHOUT_CONTROLLER, M, Member, Obj, namespace_if_uncontrolled
from kubewright.replicas.writes import Creations
from kubewright.runtime.controller import Controller
from kubewright.runtime.pace import FEW_MEMBERS
from kubewright.wire.gvk import Key

SECONDS_PER_MEMBER = 50e-6
"""How much longer changes of members are gathered before a pass, for each member of their set: a pass reads
all of them, about 2 µs each, and without the wait the passes of a large set would use all of the CPU."""

Reader = Callable[[Header, Obj | None], M]
"""Reads an object into its facts; the object is None when its type cannot read it."""

Listener = Callable[[M | None, M | None], None]
"""Gets a member's facts before and after; None for a member that was not there, or is gone."""


KeysOf = Callable[[M | None, M | None], Iterable[Key]]
"""Which sets or deployments a member's facts before and after concern."""


def owners_of(*members: Member | None) -> list[str]:
    """The uids of the owners of some members, which may be those of one before and after a change."""
    return [member.owner_uid for member in members if member is not None and member.owner_uid]


class MemberIndex(Generic[Obj, M]):
    """The facts about all objects in a cache, each read once per version."""

    def __init__(self, objects: Informer[Obj], read: Reader[Obj, M], clock: SteadyClock) -> None:
        self.clock = clock
        self.objects = objects
        self._reader = read
        self._witness = Witness(self.time)
        self._read: dict[Key, M] = {}
        self._owned: dict[str, list[M]] = {}
        self._listeners: list[Listener[M]] = []
        self.creations = Creations()
        self._last: dict[str, int] = {}
        objects.index(WITHOUT_CONTROLLER, namespace_if_uncontrolled)
        objects.subscribe(self._changed)

    def time(self) -> float:
        """Now, in seconds since the epoch, on the clock that ages are measured with: it does not step."""
        return self.clock.now().timestamp()

    def listen(self, listener: Listener[M]) -> None:
        """Call ``listener`` whenever a fact about a member changes."""
        self._listeners.append(listener)

    def wake(self, controller: Controller, keys_of: KeysOf[M], least: float, why: str) -> None:
        """Let changed facts enqueue what they concern, after ``least`` seconds or more."""

        def changed(before: M | None, after: M | None) -> None:
            wait = self.gather_seconds(least, *owners_of(before, after))
            for key in sorted(keys_of(before, after), key=str):
                controller.enqueue(key, why, after=wait, at_latest=True)

        self.listen(changed)

    def owned_by(self, uid: str) -> tuple[M, ...]:
        """The members that the object of this uid controls, in the order of their names."""
        return tuple(self._owned.get(uid, ()))

    def member(self, key: Key) -> M | None:
        """The member of this name."""
        return self._read.get(key)

    def without_controller(self, namespace: str) -> list[M]:
        """The members without a controller, in the order of their names."""
        keys = self.objects.keys_by(WITHOUT_CONTROLLER, namespace)
        return [self._read[key] for key in sorted(keys, key=lambda key: key.name)]

    def gather_seconds(self, least: float, *owners: str) -> float:
        """How long to gather more changes before all members of these owners are read, in seconds."""
        most = max((len(self._owned.get(uid, ())) for uid in owners), default=0)
        return max(least, SECONDS_PER_MEMBER * most) if most > FEW_MEMBERS else least

    def doubted(self, uid: str) -> tuple[str, ...]:
        """The names of members of a set that may exist, and that the cache has not shown yet.

        The doubts about members that the cache shows by now are resolved on the way.
        """
        owned = self._owned.get(uid, [])
        for name in self.creations.open(uid):
            if _has(owned, name):
                self.creations.resolved(uid, name)
        return self.creations.open(uid)

    def forget_owner(self, uid: str) -> None:
        """The set of this uid is gone, and its doubts with it."""
        self.creations.forget(uid)
        self._last.pop(uid, None)

    def follow(self, sets: Informer[Any]) -> None:
        """Forget the highest number of a set when the set and its last member are gone.

        That includes sets on which another process works, for which ``forget_owner`` is never called.
        ``sets`` has the index ``BY_UID``.
        """

        def gone(uid: str) -> None:
            if uid not in self._owned and not sets.keys_by(BY_UID, uid):
                self._last.pop(uid, None)

        def set_changed(change: Change[Any]) -> None:
            if change.old is not None:
                gone(change.old.uid)

        def member_changed(before: M | None, _after: M | None) -> None:
            if before is not None:
                gone(before.owner_uid)

        sets.subscribe(set_changed)
        self.listen(member_changed)

    def last_number(self, uid: str) -> int:
        """The highest number of any member of this set that was ever seen here."""
        return self._last.get(uid, 0)

    def _changed(self, change: Change[Obj]) -> None:
        before = self._read.get(change.key)
        after = self._fresh(change.new) if change.new is not None else None
        self._store(before, after)
        if before != after:
            for listener in self._listeners:
                listener(before, after)

    def _store(self, before: M | None, after: M | None) -> None:
        """Replace the facts of a member, under its key and under its owner's uid."""
        if before is not None and (after is None or after.owner_uid != before.owner_uid):
            self._remove(before)
        if before is not None and (after is None or after.uid != before.uid):
            self._witness.forget(before.uid)
        if after is None:
            if before is not None:
                del self._read[before.key]
            return
        self._read[after.key] = after
        if after.owner_uid:
            _put(self._owned.setdefault(after.owner_uid, []), after)
            if after.number > self.last_number(after.owner_uid):
                self._last[after.owner_uid] = after.number

    def _remove(self, member: M) -> None:
        if member.owner_uid:
            owned = self._owned[member.owner_uid]
            del owned[bisect_left(owned, _place(member), key=_place)]
            if not owned:
                del self._owned[member.owner_uid]

    def _fresh(self, header: Header) -> M:
        try:
            found = self.objects.get(header.key)
        except Undecodable:
            found = None
        if found is None or found.metadata.uid != header.uid:
            return self._reader(header, None)
        member = self._reader(header, found)
        since = self._witness.since(member.uid, member.ready_since)
        return member if since == member.ready_since else replace(member, ready_since=since)


def _place(member: Member) -> tuple[str, str]:
    return member.key.name, member.key.namespace


def _put(owned: list[M], member: M) -> None:
    """Insert a member at its place, or replace its older version."""
    at = bisect_left(owned, _place(member), key=_place)
    if at < len(owned) and owned[at].key == member.key:
        owned[at] = member
    else:
        owned.insert(at, member)


def _has(owned: list[M], name: str) -> bool:
    at = bisect_left(owned, (name, ""), key=_place)
    return at < len(owned) and owned[at].key.name == name
