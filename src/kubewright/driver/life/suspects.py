"""What a process remembers of the VMs that no object wants, and the deletions of one pass.

Theory.      The keys are those of the objects whose VMs are listed together: a MachineClass, a cluster. Since
             when a VM is suspect, and when its deletion was last tried, is compared by ``orphans``. A VM that
             several keys list is suspect for each of them, since each may have other credentials.
             A process that starts anew confirms its suspects later, and nothing else changes.
             ``machines.orphans`` keeps VMs that lists lack in the same way: these are confirmed as gone.
Invariants.  Nothing is remembered of a VM that is no suspect. One VM that cannot be deleted delays no other:
             deletions of a pass run at the same time, and none of them raises.
Called by    the reconcilers of ``machines.orphans`` and ``infra.orphans``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta

from kubewright.base.clock import Clock
from kubewright.base.plan import soonest
from kubewright.driver.contract import Instance
from kubewright.driver.life.orphans import OrphanSettings, Try, due, update_suspects
from kubewright.wire.gvk import Key

Collect = Callable[[Instance], Awaitable[timedelta | None]]
"""Goes on with the deletion of a VM. None: it is gone; else how long to wait at least before the next try."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What a list of VMs has changed.

    ``new``        provider ids of VMs that were no suspects of this key before, sorted
    ``cleared``    those that are suspects of no key any more: gone, or wanted
    ``confirmed``  VMs that may be deleted, the oldest suspicion first
    ``wake``       in how many seconds the next suspect can be confirmed; None when there is none
    """

    new: Sequence[str] = ()
    cleared: AbstractSet[str] = frozenset()
    confirmed: Sequence[Instance] = ()
    wake: float | None = None


class Suspects:
    """The suspects of all keys."""

    def __init__(self, settings: OrphanSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._since: dict[Key, Mapping[str, float]] = {}
        self._tries: dict[Key, dict[str, Try]] = {}

    def note(self, key: Key, unwanted: Iterable[Instance], *, began: float) -> Noted:
        """Compare a list, of which nothing wants these VMs, with those before. ``began``: when it was asked
        for, in monotonic seconds; it has just been answered."""
        before = self._since.get(key, {})
        updated = update_suspects(
            unwanted,
            before,
            began=began,
            ended=self._clock.monotonic(),
            confirmation=self._settings.confirmation.total_seconds(),
        )
        self._since[key] = updated.suspects
        tries = self._tries.get(key, {})
        self._tries[key] = {vm: tried for vm, tried in tries.items() if vm in updated.suspects}
        return Noted(
            sorted(updated.suspects.keys() - before.keys()),
            self.unsuspected(before),
            updated.confirmed,
            updated.wake,
        )

    def forget(self, key: Key) -> AbstractSet[str]:
        """No VM of this key is suspect any more; which VMs are so for no other key."""
        self._tries.pop(key, None)
        return self.unsuspected(self._since.pop(key, {}))

    def unsuspected(self, vm_ids: Iterable[str]) -> AbstractSet[str]:
        """Those of these VMs that are suspect for no key."""
        return frozenset(vm_ids).difference(*self._since.values())

    async def collect(self, key: Key, noted: Noted, collect: Collect) -> float | None:
        """Try to delete the VMs that are due, at the same time. In how many seconds the next pass is worth
        its list; None: no suspect is left."""
        tries, began = self._tries[key], self._clock.monotonic()
        some = due(noted.confirmed, tries, now=began, at_once=self._settings.at_once)
        gone: set[str] = set()

        async def attempt(vm: Instance) -> None:
            tries[vm.provider_id] = Try(began, began)  # remembered also if the pass is cut short
            pause = await collect(vm)
            if pause is None:
                gone.add(vm.provider_id)
            else:
                tries[vm.provider_id] = Try(began, self._clock.monotonic() + pause.total_seconds())

        async with asyncio.TaskGroup() as group:
            for vm in some:
                group.create_task(attempt(vm))
        left = [vm.provider_id for vm in noted.confirmed if vm.provider_id not in gone]
        return soonest(noted.wake, self._next_try([tries.get(vm_id) for vm_id in left]))

    def counts(self) -> Iterable[tuple[Key, int]]:
        """How many VMs of each key are suspect now."""
        return [(key, len(since)) for key, since in self._since.items()]

    def _next_try(self, left: Sequence[Try | None]) -> float | None:
        """In how many seconds one of these may be tried: not before ``soon``."""
        if not left:
            return None
        now = self._clock.monotonic()
        first = min(tried.again - now if tried is not None else 0.0 for tried in left)
        return max(self._settings.soon.total_seconds(), first)
