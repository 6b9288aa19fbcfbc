"""What people do in a story, and how they look at the world.

Theory.      A person has a good line to the server and patience: whatever is refused for a reason that
             passes is tried again. A person sees the journal's picture, not a cache.
Called by    ``stories``.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kubewright.api.core import CRD, NAMESPACE, NODE, POD, SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.machine.crds import crds
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.kube.errors import TransportError
from kubewright.providers.sim import manifests
from kubewright.providers.sim.vm import Vm
from kubewright.testing.simulation.journal import MACHINES, NODES, Object
from kubewright.testing.simulation.schedule import NODE_FAULTS
from kubewright.testing.simulation.world import World
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound
from kubewright.wire.gvk import Key

NAMESPACE_NAME = "garden"
CLASSES = ("small", "large", "huge")
PACE = 0.1
"""How slow the simulated cloud is: creation 0.05 s, boot 0.15 s, deletion 0.05 s."""

Met = Callable[[], bool]


class Late(Exception):
    """What a story waited for did not come."""


class Person:
    """Words for stories. All of them return when the server has said yes, ``until`` when it is so."""

    def __init__(self, world: World, stop: Callable[[], bool] = lambda: False) -> None:
        self.world = world
        self.victim = ""
        """Name of the machine that the story is about."""
        self.deleted: set[str] = set()
        """Names of machines that the person deleted: nobody need keep them available."""
        self.hurt = world.plot.schedule.has(NODE_FAULTS)
        """Somebody harms VMs or nodes; which of them are left cannot be told beforehand."""
        self._clock = world.clock("patience")
        self._stop = stop

    # ------------------------------------------------------------ doing

    async def furnish(self) -> None:
        """CRDs, a namespace, and ``CLASSES`` in it."""
        client = self.world.client
        for crd in crds():
            await client.create(dynamic(CRD.resource), crd)
        await client.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
        await client.create(SECRET, manifests.secret(NAMESPACE_NAME))
        for name in CLASSES:
            await self.make_class(name)

    async def make_class(self, name: str) -> None:
        """Create a MachineClass of the simulated cloud."""
        body = manifests.machine_class(name, NAMESPACE_NAME, pace=PACE)
        await self._patiently(lambda: self.world.client.create(MACHINE_CLASS, body))

    async def deploy(self, name: str, replicas: int, machine_class: str = "small", **spec: Any) -> None:
        """Create a MachineDeployment; ``spec`` adds to or replaces its spec's fields."""
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE_NAME},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"pool": name}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
                "template": self._template(name, machine_class),
                **spec,
            },
        }
        await self._patiently(lambda: self.world.client.create(MACHINE_DEPLOYMENT, body))

    async def make_set(self, name: str, replicas: int) -> None:
        """Create a MachineSet that nobody owns."""
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE_NAME},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"pool": name}},
                "template": self._template(name, "small"),
            },
        }
        await self._patiently(lambda: self.world.client.create(MACHINE_SET, body))

    async def make_machine(self, name: str, pool: str) -> None:
        """Create a Machine that nobody owns."""
        template = self._template(pool, "small")
        meta = {**template["metadata"], "name": name, "namespace": NAMESPACE_NAME}
        body = {"metadata": meta, "spec": template["spec"]}
        await self._patiently(lambda: self.world.client.create(MACHINE, body))

    async def change(self, name: str, **spec: Any) -> None:
        """Patch a MachineDeployment's spec."""
        key = Key(NAMESPACE_NAME, name)
        await self._patiently(lambda: self.world.client.patch(MACHINE_DEPLOYMENT, key, {"spec": spec}))

    async def roll(self, name: str, machine_class: str) -> None:
        """Let a deployment go to another class."""
        await self.change(name, template={"spec": {"class": {"name": machine_class}}})

    async def delete(self, name: str) -> None:
        """Delete a deployment."""
        await self._patiently(lambda: self.world.client.delete(MACHINE_DEPLOYMENT, Key(NAMESPACE_NAME, name)))

    async def delete_set(self, name: str) -> None:
        """Delete a set."""
        await self._patiently(lambda: self.world.client.delete(MACHINE_SET, Key(NAMESPACE_NAME, name)))

    async def delete_machine(self, name: str) -> None:
        """Delete a machine by hand."""
        self.deleted.add(name)
        await self._patiently(lambda: self.world.client.delete(MACHINE, Key(NAMESPACE_NAME, name)))

    async def delete_node(self, name: str) -> None:
        """Delete a Node object by hand; its kubelet will register again."""
        await self._patiently(lambda: self.world.client.delete(NODE, Key("", name)))

    async def run_pod(self, name: str, node: str, *, seconds: int) -> None:
        """A pod on a node, that takes so long to end when it is asked to."""
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE_NAME},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": seconds,
                "containers": [{"name": "main", "image": "busybox"}],
            },
        }
        await self._patiently(lambda: self.world.client.create(POD, body))

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await self._clock.sleep(seconds)

    async def until(self, met: Met, what: str, *, seconds: float = 3600.0) -> None:
        """Wait until something is so.

        Raises:
            Late: it was not, within ``seconds`` of virtual time.
        """
        deadline = self._clock.monotonic() + seconds
        while not met():
            if self._stop() or self._clock.monotonic() > deadline:
                raise Late(f"not within {seconds:g} s: {what}; there are {self.picture()}")
            await self._clock.sleep(0.05)

    # ------------------------------------------------------------ seeing

    @property
    def machines(self) -> list[Object]:
        """All machines, by name."""
        found = self.world.journal.objects[MACHINES]
        return [found[key] for key in sorted(found)]

    @property
    def vms(self) -> list[Vm]:
        """All VMs that nobody is deleting, oldest first."""
        return [vm for vm in self.world.journal.vms.values() if vm.gone_at is None]

    def settled(self, count: int, machine_class: str = "") -> bool:
        """So many machines, all running (of that class), each with its node and VM, and nothing else."""
        machines = self.machines
        well = [m for m in machines if phase(m) == "Running" and not going(m)]
        right = [m for m in well if machine_class in ("", of_class(m))]
        nodes = self.world.journal.objects[NODES]
        return len(right) == len(machines) == len(nodes) == len(self.world.journal.vms) == count

    def empty(self, resource: str) -> bool:
        """Nothing of this kind is left."""
        return not self.world.journal.objects[resource]

    def picture(self) -> str:
        """What there is, in a line."""
        told = [f"{m['metadata']['name']} {phase(m) or '-'}{going(m)}" for m in self.machines]
        vms = [vm.name for vm in self.world.journal.vms.values()]
        return f"machines {told}, nodes {sorted(self.world.journal.objects[NODES])}, vms {vms}"

    @staticmethod
    def _template(pool: str, machine_class: str) -> dict[str, Any]:
        return {
            "metadata": {"labels": {"pool": pool}},
            "spec": {"class": {"kind": "MachineClass", "name": machine_class}},
        }

    async def _patiently(self, act: Callable[[], Awaitable[Any]]) -> None:
        for _ in range(100):
            try:
                await act()
            except (AlreadyExists, NotFound):
                return
            except (TransportError, ApiError):
                await self._clock.sleep(0.5)
            else:
                return
        raise Late("the server refuses a person for a minute")


def phase(machine: Object) -> str:
    """A machine's phase."""
    found: Mapping[str, Any] = machine.get("status", {}).get("currentStatus", {})
    return str(found.get("phase", ""))


def of_class(machine: Object) -> str:
    """The name of a machine's class."""
    return str(machine["spec"]["class"]["name"])


def going(obj: Object) -> str:
    """A mark on what is being deleted."""
    return "†" if "deletionTimestamp" in obj["metadata"] else ""
