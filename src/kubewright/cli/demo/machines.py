"""The story of a few machines: they come up, one fails, they scale, roll and go.

Called by    ``demo``.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kubewright.api.core import NODE, Node
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, Machine
from kubewright.cli.counts import ready, state
from kubewright.cli.demo.story import Chapter, Demo, Story
from kubewright.cli.demo.view import GONE, Row, View, Words
from kubewright.compose.options import Options
from kubewright.machines.settings import MachineSettings
from kubewright.wire.gvk import Key

WORKERS = Key("default", "workers")

WORDS = Words(
    "A machine is an object in the API that asks for one VM; the cloud makes the VM, here a simulated one; "
    "and once the VM has joined Kubernetes it is a node.",
    "class",
    {
        Phase.UNKNOWN: ("its node is silent", "their nodes are silent"),
        Phase.FAILED: ("its node stayed silent", "their nodes stayed silent"),
        Phase.TERMINATING: ("its node is drained", "their nodes are drained"),
        GONE: ("its VM is deleted", "their VMs are deleted"),
        Phase.PENDING: ("its VM is being made", "their VMs are being made"),
        Phase.RUNNING: ("its node is ready", "their nodes are ready"),
    },
)

OPTIONS = Options(
    driver_options={"leaseSeconds": "2"},
    machine=MachineSettings(health_timeout=timedelta(seconds=3), report_after=timedelta(milliseconds=200)),
    grace=3.0,
)
"""Short enough for a terminal: a silent node counts as failed after seconds, not minutes."""


def deployment(replicas: int, machine_class: str) -> dict[str, Any]:
    """The one manifest of the story."""
    labels = {"pool": "workers"}
    return {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineDeployment",
        "metadata": {"name": WORKERS.name, "namespace": WORKERS.namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"class": {"kind": "MachineClass", "name": machine_class}},
            },
        },
    }


def view(machines: Sequence[Machine], nodes: Sequence[Node], vms: int) -> View:
    """Count what is there."""
    rows = tuple(
        Row(
            machine.metadata.name,
            machine.spec.machine_class.name,
            state(machine),
            names.node_name(machine.metadata.labels),
        )
        for machine in sorted(machines, key=lambda machine: machine.metadata.name)
    )
    return View(rows, sum(map(ready, nodes)), len(nodes), vms)


class Machines(Demo):
    """A deployment of machines, which join the cluster that they are written down in."""

    __slots__ = ()

    async def look(self) -> View:
        """What is there now."""
        client = self.embedded.client
        machines = await client.list(MACHINE, WORKERS.namespace)
        return view(machines, await client.list(NODE), len(self.cloud.vms))

    async def create(self) -> None:
        await self.embedded.client.create(MACHINE_DEPLOYMENT, deployment(3, "sim-small"))

    async def kill_one(self) -> None:
        self.kill((await self.look()).rows[0].name)

    async def scale(self) -> None:
        await self.embedded.client.patch(MACHINE_DEPLOYMENT, WORKERS, {"spec": {"replicas": 5}})

    async def roll(self) -> None:
        await self.count_anew()
        template = {"spec": {"class": {"name": "sim-large"}}}
        await self.embedded.client.patch(MACHINE_DEPLOYMENT, WORKERS, {"spec": {"template": template}})

    async def delete(self) -> None:
        await self.embedded.client.delete(MACHINE_DEPLOYMENT, WORKERS)


CHAPTERS = (
    Chapter(
        "Three machines come up",
        "kubectl apply -f workers.yaml",
        Machines.create,
        lambda _demo, now: now.settled(3),
    ),
    Chapter(
        "One VM dies, and is replaced",
        "(one VM is powered off)",
        Machines.kill_one,
        lambda demo, now: now.settled(3) and not demo.survived(now),
    ),
    Chapter(
        "Scale to five",
        "kubectl scale mcd workers --replicas 5",
        Machines.scale,
        lambda _demo, now: now.settled(5),
    ),
    Chapter(
        "Roll to a larger class, at most 2 more and 1 less",
        "kubectl patch mcd workers --type merge "
        '-p \'{"spec": {"template": {"spec": {"class": {"name": "sim-large"}}}}}\'',
        Machines.roll,
        lambda _demo, now: now.settled(5, "sim-large"),
        remark=lambda demo: demo.extremes,
    ),
    Chapter(
        "Delete everything",
        "kubectl delete mcd workers",
        Machines.delete,
        lambda _demo, now: now.empty,
    ),
)

MACHINES = Story(WORDS, OPTIONS, Machines, CHAPTERS)
