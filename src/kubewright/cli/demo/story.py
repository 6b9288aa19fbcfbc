"""The chapters: what a user would type, what is done, and when the chapter has ended."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kubewright.api.core import NODE
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT
from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.view import TERMINATING, View, view
from kubewright.compose.embedded import Embedded
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.wire.gvk import Key

WORKERS = Key("default", "workers")
LOOK = 0.1
"""Seconds between two looks at the machines."""


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


@dataclass(slots=True)
class Demo:
    """The demo's server, and what the chapters remember of it."""

    embedded: Embedded
    victim: str = ""
    most: int = 0
    fewest_running: int = 0

    @property
    def cloud(self) -> Cloud:
        """The simulated cloud, as its operators see it."""
        driver = self.embedded.driver
        assert isinstance(driver, SimDriver), "the demo runs on the simulated cloud"
        return driver.cloud

    async def look(self) -> View:
        """What is there now."""
        client = self.embedded.client
        machines = await client.list(MACHINE, WORKERS.namespace)
        return view(machines, await client.list(NODE), len(self.cloud.vms))

    def note(self, now: View) -> None:
        """Remember the extremes, for the chapter that reports them."""
        self.most = max(self.most, len(now.rows) - now.count(TERMINATING))
        self.fewest_running = min(self.fewest_running, now.count(Phase.RUNNING))

    async def create(self) -> None:
        await self.embedded.client.create(MACHINE_DEPLOYMENT, deployment(3, "sim-small"))

    async def kill_one(self) -> None:
        """Power one VM off: its kubelet stops without notice."""
        row = (await self.look()).rows[0]
        self.victim = row.name
        if (vm := self.cloud.named(row.name)) is not None:
            self.cloud.kill(vm.id)

    async def scale(self) -> None:
        await self.embedded.client.patch(MACHINE_DEPLOYMENT, WORKERS, {"spec": {"replicas": 5}})

    async def roll(self) -> None:
        now = await self.look()
        self.most = self.fewest_running = len(now.rows)
        template = {"spec": {"class": {"name": "sim-large"}}}
        await self.embedded.client.patch(MACHINE_DEPLOYMENT, WORKERS, {"spec": {"template": template}})

    async def delete(self) -> None:
        await self.embedded.client.delete(MACHINE_DEPLOYMENT, WORKERS)


@dataclass(frozen=True, slots=True)
class Chapter:
    """``types`` is what a user would type; ``ends`` whether it has ended well, ``within`` seconds at most."""

    title: str
    types: str
    act: Callable[[Demo], Awaitable[None]]
    ends: Callable[[Demo, View], bool]
    within: float = 20.0
    remark: Callable[[Demo], str] = lambda _demo: ""


CHAPTERS = (
    Chapter(
        "Three machines come up",
        "kubectl apply -f workers.yaml",
        Demo.create,
        lambda _demo, now: now.settled(3),
    ),
    Chapter(
        "One VM dies, and is replaced",
        "(one VM is powered off)",
        Demo.kill_one,
        lambda demo, now: now.settled(3) and all(row.name != demo.victim for row in now.rows),
    ),
    Chapter(
        "Scale to five",
        "kubectl scale mcd workers --replicas 5",
        Demo.scale,
        lambda _demo, now: now.settled(5),
    ),
    Chapter(
        "Roll to a larger class, at most 2 more and 1 less",
        "kubectl patch mcd workers --type merge "
        '-p \'{"spec": {"template": {"spec": {"class": {"name": "sim-large"}}}}}\'',
        Demo.roll,
        lambda _demo, now: now.settled(5, "sim-large"),
        remark=lambda demo: f"at most {demo.most} machines, at least {demo.fewest_running} Running",
    ),
    Chapter(
        "Delete everything",
        "kubectl delete mcd workers",
        Demo.delete,
        lambda _demo, now: now.empty,
    ),
)


async def tell(demo: Demo, stage: Stage) -> bool:
    """All chapters in order; stops at the first that does not end in time."""
    with stage:
        for chapter in CHAPTERS:
            if not await _chapter(demo, stage, chapter):
                return False
    stage.summary(await demo.look())
    return True


async def _chapter(demo: Demo, stage: Stage, chapter: Chapter) -> bool:
    clock = demo.embedded.clock
    began = clock.monotonic()
    stage.open(chapter.title, chapter.types)
    await chapter.act(demo)
    while True:
        now = await demo.look()
        took = clock.monotonic() - began
        demo.note(now)
        stage.show(now, took)
        if chapter.ends(demo, now):
            stage.close(took, chapter.remark(demo))
            return True
        if took > chapter.within:
            stage.fail(chapter.title, now, chapter.within)
            return False
        await clock.sleep(LOOK)
