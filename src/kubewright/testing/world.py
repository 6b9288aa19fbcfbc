"""A world of machines for tests: a server, all machine controllers, a simulated cloud with its kubelets.

Theory.      The same test runs in two worlds: ``embedded_world`` is everything in this process on
             virtual time; ``real_world`` runs the same controllers and the same simulated cloud
             against a real Kubernetes in real time. A test says what a user would do, and
             what must be true in the end; ``World`` has methods for both.
Invariants.  Every wait has a deadline. Nothing of a world outlives its block.
Called by    tests/conformance/test_machines.py, tests/api/machines.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from kubewright.api.admission import Rules
from kubewright.api.catalog import EMBEDDED_RULES
from kubewright.api.core import CRD, EVENT, NAMESPACE, NODE, POD, SECRET, Event, Node
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, Machine
from kubewright.base.clock import Clock, SystemClock
from kubewright.compose.embedded import Embedded
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.driver import registry
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.kube.header import read_page
from kubewright.kube.scope import Namespaces
from kubewright.machines.machine.act import TOKEN_NAMESPACE
from kubewright.machines.settings import MachineSettings
from kubewright.providers import sim
from kubewright.providers.sim import manifests
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Choice, Faulty
from kubewright.testing.real_kubernetes import RealKubernetes
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key

T = TypeVar("T")


def short_timeouts(**seconds: float) -> Options:
    """Options for tests, where real time is dear: silent nodes are lost and sick machines fail within
    seconds. ``seconds`` are durations of ``MachineSettings``."""
    quick = {"health_timeout": 3.0, "report_after": 0.2, "confirm_absent": 2.0, **seconds}
    durations: dict[str, Any] = {name: timedelta(seconds=number) for name, number in quick.items()}
    return Options(driver_options={"leaseSeconds": "4"}, machine=MachineSettings(**durations), grace=6.0)


SHORT_TIMEOUTS = short_timeouts()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The machines, nodes and number of VMs at one moment."""

    machines: tuple[Machine, ...]
    nodes: tuple[Node, ...]
    vms: int

    def settled(self, count: int, machine_class: str = "") -> bool:
        """So many machines, all Running (of that class), each with its node and VM, and nothing else."""
        running = [m for m in self.machines if m.status.current_status.phase == Phase.RUNNING]
        right = [m for m in running if machine_class in ("", m.spec.machine_class.name)]
        return len(right) == len(self.machines) == len(self.nodes) == self.vms == count

    @property
    def phases(self) -> list[str]:
        """The phases of all machines, sorted."""
        return sorted(machine.status.current_status.phase for machine in self.machines)

    @property
    def names(self) -> set[str]:
        return {machine.metadata.name for machine in self.machines}

    @property
    def uids(self) -> set[str]:
        return {machine.metadata.uid for machine in self.machines}

    def told(self) -> str:
        """What is there, for the text of a failure."""
        phases = [(m.metadata.name, m.status.current_status.phase) for m in self.machines]
        return f"{phases}, {[node.metadata.name for node in self.nodes]}"


def in_phase(phase: Phase) -> Callable[[Snapshot], bool]:
    """Whether some machine is in that phase: for ``World.until``."""
    return lambda snapshot: phase in snapshot.phases


class _Seen(Generic[T]):
    """Lists objects of one kind, and decodes only those whose bytes were not in the list before.

    A world is looked at ten times a second, and most of it stands still. Every list is still asked for.
    """

    def __init__(self, kind: Kind[T]) -> None:
        self._kind = kind
        self._known: dict[bytes, T] = {}

    async def list(self, client: Client, namespace: str = "") -> list[T]:
        request = client.request("GET", self._kind.resource.path(namespace))
        page = read_page((await client.send(request, safe=True)).body)
        items = [bytes(item) for item in page.items]
        self._known = {item: self._known.get(item) or self._kind.decode(item) for item in items}
        return [self._known[item] for item in items]


class World:
    """What users do with machines, and what they see. ``namespace`` is the test's own.

    ``client`` is the cluster of the machines, ``target`` that of their nodes.
    """

    def __init__(
        self, client: Client, cloud: Cloud, clock: Clock, namespace: str, *, target: Client | None = None
    ) -> None:
        self.client = client
        self.target = target or client
        self.cloud = cloud
        self.clock = clock
        self.namespace = namespace
        self._machines = _Seen(MACHINE)
        self._nodes = _Seen(NODE)

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    async def deploy(self, name: str, replicas: int, machine_class: str = "small", **spec: Any) -> None:
        """Create a MachineDeployment; ``spec`` adds to or replaces fields of its spec."""
        labels = {"pool": name}
        body = {
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"class": {"kind": "MachineClass", "name": machine_class}},
                },
                **spec,
            },
        }
        await self.client.create(MACHINE_DEPLOYMENT, body)

    async def change(self, name: str, spec: Mapping[str, Any]) -> None:
        """Patch a MachineDeployment's spec."""
        await self.client.patch(MACHINE_DEPLOYMENT, self.key(name), {"spec": spec})

    async def roll(self, name: str, machine_class: str) -> None:
        await self.change(name, {"template": {"spec": {"class": {"name": machine_class}}}})

    async def delete(self, name: str, *, propagation: str = "") -> None:
        await self.client.delete(MACHINE_DEPLOYMENT, self.key(name), propagation=propagation)

    async def make(self, name: str, machine_class: str = "small", **spec: Any) -> None:
        """Create a Machine that no set owns."""
        body = {
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"class": {"kind": "MachineClass", "name": machine_class}, **spec},
        }
        await self.client.create(MACHINE, body)

    async def unmake(self, name: str) -> None:
        await self.client.delete(MACHINE, self.key(name))

    async def run_pod(self, name: str, node: str, **changes: Any) -> None:
        """A pod bound to a node. ``labels``, ``annotations`` and ``owner`` (a kind) go into its metadata,
        everything else into its spec."""
        meta: dict[str, Any] = {k: changes.pop(k) for k in ("labels", "annotations") if k in changes}
        if owner := changes.pop("owner", ""):
            reference = {"apiVersion": "apps/v1", "kind": owner, "name": "it", "uid": "0", "controller": True}
            meta["ownerReferences"] = [reference]
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "app"}], **changes}
        body = {"metadata": {"name": name, "namespace": "default", **meta}, "spec": spec}
        await self.target.create(POD, body)

    async def note_node(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Annotate a node; None takes an annotation off."""
        await self.target.patch(NODE, Key("", name), {"metadata": {"annotations": dict(annotations)}})

    async def events(self, about: str) -> list[Event]:
        """All events of this namespace on objects of that name."""
        found = await self.client.list(EVENT, self.namespace)
        return [event for event in found if event.involved_object.name == about]

    async def warnings(self) -> set[str]:
        """The reasons of all warning events in this namespace."""
        events = await self.client.list(EVENT, self.namespace)
        return {event.reason for event in events if event.type == "Warning"}

    async def machine(self, name: str) -> Machine:
        return await self.client.get(MACHINE, self.key(name))

    async def look(self) -> Snapshot:
        """The machines of this namespace, their nodes, and the VMs of the cloud."""
        machines = await self._machines.list(self.client, self.namespace)
        nodes = await self._nodes.list(self.target)
        mine = [vm for vm in self.cloud.vms.values() if vm.namespace == self.namespace]
        named = {vm.node_name for vm in mine} | {m.metadata.name for m in machines}
        return Snapshot(tuple(machines), tuple(n for n in nodes if n.metadata.name in named), len(mine))

    async def left(self) -> list[str]:
        """Everything of machines that is still there anywhere: a clean world has nothing."""
        machines = [f"machine {m.metadata.name}" for m in await self.client.list(MACHINE, self.namespace)]
        nodes = [f"node {node.metadata.name}" for node in await self.target.list(NODE)]
        secrets = await self.target.list(SECRET, TOKEN_NAMESPACE)
        tokens = [f"token {s.metadata.name}" for s in secrets if s.metadata.name.startswith("bootstrap-")]
        return [*machines, *nodes, *tokens, *(f"VM {vm.name}" for vm in self.cloud.vms.values())]

    async def until(
        self, met: Callable[[Snapshot], bool], what: str, *, seconds: float = 60.0, every: float = 0.1
    ) -> Snapshot:
        """Look until it is true; an assertion error with what is there otherwise."""
        deadline = self.clock.monotonic() + seconds
        while not met(snapshot := await self.look()):
            assert self.clock.monotonic() < deadline, f"not within {seconds:g} s: {what}; {snapshot.told()}"
            await self.clock.sleep(every)
        return snapshot

    async def settled(self, count: int, machine_class: str = "", *, seconds: float = 60.0) -> Snapshot:
        """Wait until there are so many machines and all is well."""
        return await self.until(
            lambda s: s.settled(count, machine_class), f"{count} machines", seconds=seconds
        )

    async def furnish(self, *, pace: float = 0.1) -> None:
        """The namespace's classes: ``small`` and ``large``, quick to boot."""
        await self.client.create(SECRET, manifests.secret(self.namespace))
        for name in ("small", "large"):
            await self.client.create(MACHINE_CLASS, manifests.machine_class(name, self.namespace, pace=pace))


@asynccontextmanager
async def embedded_world(
    options: Options = SHORT_TIMEOUTS,
    *,
    seed: int = 0,
    faults: Choice | None = None,
    admission: Iterable[Rules[Any]] = EMBEDDED_RULES,
) -> AsyncIterator[World]:
    """Everything in this process and in memory, on the event loop's time.

    ``faults`` hit the requests of controllers and kubelets; the test's own requests never fail.
    """
    clock = LoopClock(seed=seed)
    embedded = Embedded(None, options, clock, admission=admission)
    people = embedded.client
    if faults is not None:
        faulty = Faulty(people.transport, clock, faults)
        embedded.client = Client(faulty, clock, name=people.name, one_clock=people.one_clock)
    async with embedded, running(embedded.serve):
        assert isinstance(embedded.driver, SimDriver)
        world = World(people, embedded.driver.cloud, clock, "machines")
        await people.create(NAMESPACE, {"metadata": {"name": world.namespace}})
        await world.furnish()
        yield world


@asynccontextmanager
async def real_world(
    real_kubernetes: RealKubernetes, namespace: str, options: Options = SHORT_TIMEOUTS
) -> AsyncIterator[World]:
    """The machine controllers and a simulated cloud in this process, on a real Kubernetes."""
    clock = SystemClock()
    client = Client(load(real_kubernetes.kubeconfig, clock=clock), clock, name="real")
    try:
        await _install(client, namespace)
        driver = sim.driver(registry.Settings(clock, None, options.driver_options))
        mine = dataclasses.replace(options, namespaces=Namespaces.parsed(namespace))

        async def serve(stop: asyncio.Event) -> None:
            await run_with(client, client, driver, mine, election=Election(enabled=False), stop=stop)

        async with running(serve):
            world = World(client, driver.cloud, clock, namespace)
            await world.furnish()
            yield world
    finally:
        await client.transport.close()


async def _install(client: Client, namespace: str) -> None:
    for crd in crds():
        with suppress(AlreadyExists):
            await client.create(dynamic(CRD.resource), crd)
    await client.create(NAMESPACE, {"metadata": {"name": namespace}})


@asynccontextmanager
async def running(serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run ``serve(stop)`` beside the block, and stop it after; its own failure is raised at the end."""
    stop = asyncio.Event()
    task = asyncio.create_task(serve(stop), name="serving")
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait([task], timeout=20)
        task.cancel()
    await task
