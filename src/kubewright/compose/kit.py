"""Makes the machine controllers from clients, a driver and options.

Theory.      The same kit serves both ways to run. ``control`` has the machines, ``target`` their
             nodes; when both are one server, they share one client and one set of caches. A
             controller keeps what it remembers in itself, so ``term`` can make new controllers for each
             term of leadership, on caches that stay.
Called by    ``embedded``, ``cluster`` and ``halves``.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kubewright.api.core import LEASE, PDB, SECRET
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.compose.options import Options
from kubewright.compose.selection import select
from kubewright.driver.calls import Fenced
from kubewright.driver.capabilities import Background, Closing
from kubewright.driver.contract import Driver
from kubewright.driver.metrics import DriverMetrics
from kubewright.kube.client import Client
from kubewright.kube.fence import Entitled, FencedTransport
from kubewright.kube.informers import Informers
from kubewright.machines.deployment import reconciler as deployment
from kubewright.machines.machine import reconciler as machine
from kubewright.machines.machine.caches import Caches
from kubewright.machines.machineclass import reconciler as machineclass
from kubewright.machines.machineset import reconciler as machineset
from kubewright.machines.machineset.member import members_of
from kubewright.machines.orphans import wiring as orphans
from kubewright.machines.parts import Parts
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.group import Task, Work
from kubewright.runtime.metrics import Metrics

OF_SETS = ("machinedeployment", "machineset")
OF_MACHINES = ("machine", "machineclass", "secret", "orphanvms", "orphannodes")
MACHINE_CONTROLLERS = (*OF_SETS, *OF_MACHINES)
COMPONENT = "machine-controller-manager"
"""The reporting component of our events; MCM's events have the same (mcm.md §2.6)."""
KINDS = (MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT, MACHINE_CLASS, SECRET, PDB, LEASE)
"""The kinds that events may be about."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two clusters: its client and its caches."""

    client: Client
    caches: Informers

    def fenced(self, entitled: Entitled, agent: str) -> "Side":
        """The same cluster for one term: its client writes only while ``entitled``, on borrowed caches."""
        transport = FencedTransport(self.client.transport, entitled)
        client = self.client.behind(transport, user_agent=agent)
        return Side(client, self.caches.borrow(client))


class Kit:
    """The machine controllers that ``options`` asks for, and what they share.

    ``services`` run always, whether this process leads or not.

    Raises:
        InvalidInput: ``options.controllers`` names a controller that does not exist, or leaves none to run.
    """

    def __init__(
        self, control: Client, target: Client, driver: Driver, options: Options, metrics: Metrics
    ) -> None:
        self.chosen = select(MACHINE_CONTROLLERS, options.controllers)
        self.clock = control.clock
        self.metrics = metrics
        self.recorder = Recorder(control, self.clock, COMPONENT, kinds=KINDS)
        self.services: list[Task] = [self.recorder.run]
        self._control = Side(control, Informers(control, namespace=options.namespace))
        self._target = self._control if target is control else Side(target, Informers(target))
        self._driver = driver
        self._on_call = DriverMetrics(metrics.registry).of(options.driver)
        self._options = options
        for each in self.informers:
            metrics.informers(each)

    @property
    def informers(self) -> list[Informers]:
        """The caches of each cluster."""
        return list(dict.fromkeys((self._control.caches, self._target.caches)))

    def work(self, names: Sequence[str]) -> Work:
        """Controllers for as long as the process lives."""
        return self._work(names, self._control, self._target, lambda: True)

    def term(self, names: Sequence[str], half: str, entitled: Entitled) -> Work:
        """Controllers for one term, which remember nothing of an earlier one.

        ``entitled`` is asked before each write to a server and each call of the driver.
        """
        agent = f"kubewright/{half}"
        control = self._control.fenced(entitled, agent)
        target = control if self._target is self._control else self._target.fenced(entitled, agent)
        work = self._work(names, control, target, entitled)

        def end() -> None:
            for informers in work.informers:
                informers.give_back()

        return replace(work, end=end)

    def _work(self, names: Sequence[str], control: Side, target: Side, entitled: Entitled) -> Work:
        parts = Parts(
            control=control.client,
            target=target.client,
            control_caches=control.caches,
            target_caches=target.caches,
            driver=Fenced(self._driver, self.clock, on_end=self._on_call, entitled=entitled),
            recorder=self.recorder,
            clock=self.clock,
            settings=self._options.machine,
            metrics=self.metrics,
        )
        sets, (machines, background) = _sets(parts, names), self._machines(parts, names)
        informers = list(dict.fromkeys((control.caches, target.caches)))
        return Work([*sets, *machines], informers, background)

    def _machines(self, parts: Parts, names: Sequence[str]) -> tuple[list[Controller], list[Task]]:
        if not set(OF_MACHINES) & set(names):
            return [], []
        caches = Caches(parts.control_caches, parts.target_caches)
        controller, calls = machine.wire(parts, caches)
        classes, secrets = machineclass.wire(parts, caches)
        vms, nodes = orphans.wire(parts, caches, self._options.orphans, calls.busy)
        background: list[Task] = [calls.run]
        if isinstance(driver := self._driver, Background):
            background.append(lambda: driver.run(parts.target_caches))
        found = (controller, classes, secrets, vms, nodes)
        return [each for each in found if each.name in names], background


def _sets(parts: Parts, names: Sequence[str]) -> list[Controller]:
    if not set(OF_SETS) & set(names):
        return []
    index = members_of(parts.control_caches.get(MACHINE), parts.control.steady())
    found = (deployment.wire(parts, index=index), machineset.wire(parts, index=index))
    return [each for each in found if each.name in names]


async def close(driver: Driver, seconds: float = 2.0) -> None:
    """Let a driver close what it has open, within ``seconds``."""
    if isinstance(driver, Closing):
        async with asyncio.timeout(seconds):
            await driver.close()
