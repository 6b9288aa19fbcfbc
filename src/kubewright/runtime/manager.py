"""The manager: one process of controllers, from its first moment to its last.

Theory.      *Services* (health, events) and *informers* run all the time; inside them run the *groups* of
             controllers, each under a Lease of its own or under none (``group``). Stopping goes the other
             way: no more keys, running reconciliations get time to finish, what is left is cancelled,
             the Leases are let go, the services end.
Invariants.  Every task lives in a TaskGroup of ``run``; when ``run`` returns nothing is left. One group's
             lost Lease stops no other group.
Called by    the composition root, with the event that its signal handlers set.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kubewright.base.clock import Clock
from kubewright.base.errors import single
from kubewright.kube.informers import Informers
from kubewright.runtime.controller import Controller
from kubewright.runtime.group import Group, NotSynced, Phase, Settings, Task, Work, cancel, in_words, start
from kubewright.runtime.leader import Elector

__all__ = ["Manager", "NotSynced", "Phase", "Settings", "Task", "in_words"]

PROGRESS = (Phase.STARTING, Phase.SYNCING, Phase.STOPPING, Phase.STOPPED, Phase.CANDIDATE, Phase.WORKING)
"""A manager has come as far as the group that comes first here."""


class Manager:
    """Runs groups of controllers; ``services`` run beside them always.

    Without ``groups`` there is one, of ``controllers`` and ``background``, that exists from the beginning
    and does not stand for a lost Lease again.
    """

    def __init__(
        self,
        clock: Clock,
        controllers: Sequence[Controller],
        informers: Sequence[Informers],
        *,
        background: Sequence[Task] = (),
        services: Sequence[Task] = (),
        elector: Elector | None = None,
        groups: Sequence[Group] = (),
        settings: Settings | None = None,
    ) -> None:
        self._informers = informers
        self._services = services
        self._ended = False
        self._groups = [*groups]
        if not groups:
            work = Work(controllers, informers, background)

            def begin() -> Work:
                """What others wrote before our term is in our caches first: a watch may be late or broken."""
                for each in informers if elector is not None else ():
                    each.refresh()
                return work

            self._groups = [
                Group("controllers", clock, begin, elector=elector, again=False, settings=settings)
            ]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then end within ``limits.SHUTDOWN_SECONDS``.

        Raises:
            LostLease: another replica leads now, and a group does not stand again.
            NotSynced: caches were not full within ``sync_seconds``.
        """
        try:
            async with asyncio.TaskGroup() as group:
                around = [
                    start(group, task) for task in (*self._services, *(each.run for each in self._informers))
                ]
                try:
                    async with asyncio.TaskGroup() as inner:
                        for each in self._groups:
                            inner.create_task(each.run(stop), name=each.name)
                finally:
                    cancel(around)
        except BaseExceptionGroup as errors:
            raise single(errors) from None
        finally:
            self._ended = True

    @property
    def phase(self) -> Phase:
        """How far the group is that is least far; one that waits for a Lease is nearly as far as can be."""
        if self._ended:
            return Phase.STOPPED
        return min((each.phase for each in self._groups), key=PROGRESS.index)

    async def settled(self) -> None:
        """Wait until every group works, or stands by behind another that does."""
        for each in self._groups:
            await each.settled.wait()

    def waits_for(self) -> list[tuple[str, str]]:
        """The groups that stand by: the Lease that each waits for, and who holds it."""
        waiting = (each.elector for each in self._groups if each.phase is Phase.CANDIDATE)
        return [(str(elector.key), elector.holder) for elector in waiting if elector is not None]

    def not_ready(self) -> str:
        """What a readiness probe should hear: empty when all is well. A waiting candidate is ready."""
        return "" if self.phase in {Phase.CANDIDATE, Phase.WORKING} else self.phase.value

    def status(self) -> dict[str, Any]:
        """A picture for people and for ``/statusz``: how far we are, who leads, queues and caches."""
        return {
            "phase": self.phase.value,
            "groups": {each.name: _group_status(each) for each in self._groups},
            "controllers": {
                controller.name: asdict(controller.statistics())
                for each in self._groups
                for controller in each.work.controllers
            },
            "clusters": {
                each.client.name: [asdict(informer) for informer in each.statistics()]
                for each in self._informers
            },
        }


def _group_status(group: Group) -> dict[str, Any]:
    elector = group.elector
    lease = None if elector is None else {"name": str(elector.key), "holder": elector.holder}
    return {"phase": group.phase.value, "lease": lease, "leading": elector is None or elector.leading}
