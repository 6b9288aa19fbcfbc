"""A member: what sets and deployments know about one child of theirs. Pure.

Theory.      Most of what happens to a child (an address, a heartbeat, a description) means nothing to its
             set. The facts here are those that every API has; a policy adds its own by inheritance.
Called by    every decision about replicas; ``members`` reads each version of a child once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kubewright.api.meta import KubeObject
from kubewright.wire.gvk import Key


@dataclass(frozen=True, slots=True)
class Member:
    """One child, as far as replicas are concerned. A policy's own facts are added by inheritance.

    ``ready_since`` is when it became ready, on the index's clock; None while it is not. ``number`` is its
    index among the members that its set has ever had; 0 if the set did not count it (``naming``). ``moved``:
    it came from another set, and the size of its own may not count it yet (``rollout.planner``).
    """

    key: Key
    uid: str
    owner_uid: str
    labels: Mapping[str, str]
    deleting: bool
    created: float = 0.0
    ready_since: float | None = None
    number: int = 0
    moved: bool = False
    version: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def alive(self) -> bool:
        """Not being deleted."""
        return not self.deleting

    @property
    def takes_place(self) -> bool:
        """Whether it may still use something that a rollout must not have too much of."""
        return True

    @property
    def ready(self) -> bool:
        """Ready now, in the sense of its API."""
        return self.ready_since is not None

    @property
    def up(self) -> bool:
        """Alive and ready, or as near to ready as a member of its API can come."""
        return self.alive and self.ready

    def available_at(self, now: float, min_ready: float) -> bool:
        """Up for at least ``min_ready`` seconds; a member that is being deleted is not available."""
        if not self.up:
            return False
        return min_ready <= 0 or (self.ready_since is not None and self.ready_since + min_ready <= now)


Obj = TypeVar("Obj", bound=KubeObject)
"""The object of a member."""
M = TypeVar("M", bound=Member)


def until_available(members: Iterable[Member], min_ready: float, now: float) -> float | None:
    """Seconds until the next member has been ready for long enough; None when there is none to wait for."""
    if min_ready <= 0:
        return None
    waits = [
        member.ready_since + min_ready - now
        for member in members
        if member.up and member.ready_since is not None and member.ready_since + min_ready > now
    ]
    return min(waits, default=None)
