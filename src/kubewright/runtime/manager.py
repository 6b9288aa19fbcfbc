"""The manager: runs the controllers of one process, from their start to an orderly stop.

Theory.      *Services* (health, events) and *informers* run all the time; inside them run the *groups* of
             controllers, each under a Lease of its own or under none (``group``). A stop goes in this
             order: no pass begins, running ones get time to finish, the rest is cancelled, the
             Leases are released, the services end.
Invariants.  Every task lives in a TaskGroup of ``run``; when ``run`` returns nothing is left. One group's
             lost Lease stops no other group.
Called by    the composition root, with the event that its signal handlers set.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from kubewright.base.errors import single
from kubewright.kube.informer import Informers
from kubewright.runtime.group import Group, Phase, Runnable, cancel, start
from kubewright.runtime.records import Answer, answer

URGENT_FIRST = (Phase.STARTING, Phase.SYNCING, Phase.STOPPING, Phase.STOPPED, Phase.CANDIDATE, Phase.WORKING)
"""A manager has the phase of that group which comes first here: what a probe should hear of before the
rest."""


class Manager:
    """Runs ``groups`` of controllers, and beside them ``services`` and ``informers`` from start to end.

    ``driver_of`` says for people which driver makes the VMs of classes with a provider.
    """

    def __init__(
        self,
        informers: Sequence[Informers],
        groups: Sequence[Group],
        *,
        services: Sequence[Runnable] = (),
        driver_of: Callable[[str], str] = lambda _provider: "",
    ) -> None:
        self._informers = informers
        self._groups = groups
        self._services = services
        self._driver_of = driver_of
        self._ended = False

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then end: within ``limits.SHUTDOWN_SECONDS`` if all servers answer.
        Each step has a deadline of its own, but a task that ignores its cancellation has none.

        Raises:
            LostLease: a group lost its Lease, and does not stand for it again.
            NotSynced: caches were not synced within ``sync_seconds``.
        """
        try:
            async with asyncio.TaskGroup() as outer:
                background = [
                    start(outer, each) for each in (*self._services, *(each.run for each in self._informers))
                ]
                try:
                    async with asyncio.TaskGroup() as inner:
                        for each in self._groups:
                            inner.create_task(each.run(stop), name=each.name)
                finally:
                    cancel(background)
        except BaseExceptionGroup as errors:
            raise single(errors) from None
        finally:
            self._ended = True

    @property
    def phase(self) -> Phase:
        """That of its groups that comes first in ``URGENT_FIRST``; there is at least one group."""
        if self._ended:
            return Phase.STOPPED
        return min((each.phase for each in self._groups), key=URGENT_FIRST.index)

    async def settled(self) -> None:
        """Wait until every group works, or stands by because another process holds its Lease."""
        for each in self._groups:
            await each.settled.wait()

    def waits_for(self) -> list[tuple[str, str]]:
        """For each group that stands by: the Lease that it waits for, and the holder of that Lease."""
        waiting = (each.elector for each in self._groups if each.phase is Phase.CANDIDATE)
        return [(str(elector.key), elector.holder) for elector in waiting if elector is not None]

    def not_ready(self) -> str:
        """Why a readiness probe should fail; empty when ready, as a candidate for a Lease is."""
        return "" if self.phase in {Phase.CANDIDATE, Phase.WORKING} else self.phase.value

    def plans(
        self, *, namespace: str = "", name: str = "", waits: int = 0, provider: str | None = None
    ) -> Answer:
        """The content of ``/debug/plans``: the last passes of this namespace and name; empty: any.

        ``waits``: only those with so many of the longest waits, if it is not 0. ``provider``: of classes;
        the answer says which driver that is, for people.
        All of 100,000 records are 40 MB, and take a third of a second in which nothing else happens.
        """
        kept = (controller.passes for each in self._groups for controller in each.work.controllers)
        found = (record for each in kept for record in each.find(namespace=namespace, name=name))
        driver = "" if provider is None else self._driver_of(provider)
        return answer(found, self.waits_for(), waits, driver)

    def status(self) -> dict[str, Any]:
        """The content of ``/statusz``: the phase, each Lease and its holder, queues and caches."""
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
