"""Clients and options in, controllers and a manager out.

Theory.      The same kit serves both ways to run. ``control`` has the machines, ``target`` their
             nodes; when both are one server, they share one client and one set of caches.
Called by    ``embedded`` and ``cluster``.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from kubewright.api.core import LEASE, PDB
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
from kubewright.machines.machineset.members import Census
from kubewright.machines.orphans import wiring as orphans
from kubewright.machines.parts import Parts
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.manager import Task
from kubewright.runtime.metrics import Metrics

MACHINE_CONTROLLERS = (
    "machinedeployment",
    "machineset",
    "machine",
    "machineclass",
    "secret",
    "orphanvms",
    "orphannodes",
)
COMPONENT = "machine-controller-manager"
"""Who our events come from, as MCM's do (mcm.md §2.6)."""
KINDS = (MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT, MACHINE_CLASS, PDB, LEASE)
"""What events may be about."""


@dataclass(slots=True)
class Kit:
    """The machine controllers, and everything that must run beside them.

    ``background`` runs while leading, ``services`` always (see ``runtime.manager``).
    """

    controllers: Sequence[Controller]
    informers: Sequence[Informers]
    recorder: Recorder
    metrics: Metrics
    background: list[Task] = field(default_factory=list)
    services: list[Task] = field(default_factory=list)


def machine_kit(
    control: Client,
    target: Client,
    driver: Driver,
    options: Options,
    metrics: Metrics,
    *,
    entitled: Entitled | None = None,
) -> Kit:
    """Wire the machine controllers that ``options`` asks for.

    ``entitled``, where a leader is elected, is asked before anything is written or a cloud is called.

    Raises:
        InvalidInput: ``options.controllers`` names none that exist.
    """
    chosen = select(MACHINE_CONTROLLERS, options.controllers)
    clock = control.clock
    if entitled is not None:
        control, target = _fenced(control, target, entitled)
    control_caches = Informers(control, namespace=options.namespace)
    target_caches = control_caches if target is control else Informers(target)
    caches = [control_caches, *([target_caches] if target is not control else [])]
    for each in caches:
        metrics.informers(each)
    recorder = Recorder(control, clock, COMPONENT, kinds=KINDS)
    parts = Parts(
        control=control,
        target=target,
        control_caches=control_caches,
        target_caches=target_caches,
        driver=Fenced(
            driver,
            clock,
            on_end=DriverMetrics(metrics.registry).of(options.driver),
            entitled=entitled or (lambda: True),
        ),
        recorder=recorder,
        clock=clock,
        settings=options.machine,
        metrics=metrics,
    )
    kit = Kit([], caches, recorder, metrics, services=[recorder.run])
    kit.controllers = _controllers(parts, chosen, kit, options)
    if isinstance(driver, Background):
        kit.background.append(lambda: driver.run(target_caches))
    return kit


def _fenced(control: Client, target: Client, entitled: Entitled) -> tuple[Client, Client]:
    """Clients on the same connections, that write only while we lead. One stays one."""

    def fenced(client: Client) -> Client:
        return Client(FencedTransport(client.transport, entitled), client.clock, name=client.name)

    ours = fenced(control)
    return ours, ours if target is control else fenced(target)


def _controllers(parts: Parts, chosen: Sequence[str], kit: Kit, options: Options) -> list[Controller]:
    found: list[Controller] = []
    census = Census(parts.control_caches.get(MACHINE), parts.control.steady())
    if "machinedeployment" in chosen:
        found.append(deployment.wire(parts, census=census))
    if "machineset" in chosen:
        found.append(machineset.wire(parts, census=census))
    if set(MACHINE_CONTROLLERS[2:]) & set(chosen):
        machines = Caches(parts.control_caches, parts.target_caches)
        controller, calls = machine.wire(parts, machines)
        classes, secrets = machineclass.wire(parts, machines)
        vms, nodes = orphans.wire(parts, machines, options.orphans, calls.busy)
        found += [each for each in (controller, classes, secrets, vms, nodes) if each.name in chosen]
        kit.background.append(calls.run)
    return found


async def close(driver: Driver, seconds: float = 2.0) -> None:
    """Let a driver put its things away, within a deadline."""
    if isinstance(driver, Closing):
        async with asyncio.timeout(seconds):
            await driver.close()
