"""The controllers of a nested control plane in this process: those that kube-controller-manager has.

Theory.      They reach its API server by a call, not by a socket, under a name of their own. One task runs
             all of them; it ends when it is told to, and otherwise only by a defect.
Called by    ``task_hosting``, which begins that task, and begins it again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kubewright import builtin
from kubewright.base.clock import Clock
from kubewright.compose.api_servers import Plane
from kubewright.kube.client import Client
from kubewright.kube.informers import Informers
from kubewright.kube.inprocess import InProcess
from kubewright.runtime.events import Recorder
from kubewright.runtime.group import Group, Work
from kubewright.runtime.manager import Manager

CONTROLLER_MANAGER = "kube-controller-manager"
"""The reporting component in the events of these controllers, as in Kubernetes."""

RunControllers = Callable[[Plane, asyncio.Event], Awaitable[None]]
"""Runs the controllers of a control plane until the event is set."""


def controllers_of(settings: builtin.Settings, clock: Clock) -> RunControllers:
    """Those of ``builtin``, with these settings."""

    async def run(plane: Plane, ending: asyncio.Event) -> None:
        client = Client(InProcess(plane.server.handle), clock, name=f"{CONTROLLER_MANAGER} {plane.address}")
        informers = Informers(client)
        recorder = Recorder(client, clock, CONTROLLER_MANAGER, kinds=builtin.EVENT_KINDS)
        made = builtin.controllers(informers, settings=settings, recorder=recorder)
        work = Work(made.controllers, [informers], made.background)
        group = Group(CONTROLLER_MANAGER, clock, lambda: work)
        await Manager([informers], [group], services=[recorder.run]).run(ending)

    return run
