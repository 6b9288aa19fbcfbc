"""What a user does in a story, and what a user can see of the world.

Theory.      The requests of a ``Person``, a simulated user, get no injected faults, and are tried again when
             the server is away or refuses them. A person reads the journal, not a cache.
Called by    ``stories``.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import orjson

from kubewright.api.core import CRD, NAMESPACE, NODE, PDB, POD, SECRET
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine import names
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.base.clock import rfc3339
from kubewright.kube.errors import TransportError
from kubewright.providers.sim import manifests
from kubewright.providers.sim.inventory import VmRequest
from kubewright.providers.sim.spec import parse_spec
from kubewright.providers.sim.vm import Vm
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound
from kubewright.wire.gvk import Key
from simulation.journal import MACHINES, NAMESPACE_NAME, NODES, Object
from simulation.schedule import CLOCK_FAULTS, NODE_FAULTS
from simulation.workloads import App, Workloads
from simulation.world import World

CLASSES = ("small", "large", "huge")
MADE = {"made-by": "person"}
"""The labels of the pods that a person runs."""
PACE = 0.1
"""How slow the simulated cloud is: creation 0.05 s, boot 0.15 s, deletion 0.05 s."""

ATTEMPTS = 600
"""How often a person tries again, every half second: long enough for an outage of minutes."""

Met = Callable[[], bool]


class Late(Exception):
    """The condition that a story waited for was not met."""


class Person:
    """The actions of stories. Each returns when the server has accepted it."""

    def __init__(self, world: World, stop: Callable[[], bool] = lambda: False) -> None:
        self.world = world
        self.workloads = Workloads(world)
        self.victim = ""
        """Name of the machine that the story is about; several with spaces between them."""
        self.deleted: set[str] = set()
        """Names of machines, and of nodes after ``nodes/``, that the person deleted."""
        self.broken = ""
        """What a person saw on the way that must not be: the story fails then."""
        self.held = 0.0
        """For how many seconds the story keeps pods on their nodes, of all nodes together (``work.HELD``)."""
        self.node_faults = world.plot.schedule.has(NODE_FAULTS)
        """The schedule has faults of VMs or nodes; which of them are left cannot be predicted."""
        self.clock_faults = world.plot.schedule.has(CLOCK_FAULTS)
        """The schedule sets clocks; what has a date may end before its time."""
        self._clock = world.clock("patience")
        self._stop = stop

    # ------------------------------------------------------------ actions

    async def furnish(self) -> None:
        """Create what a story needs: CRDs, a namespace, and ``CLASSES`` with their Secret in it."""
        client, worlds = self.world.client, self.world.managers.extra_worlds
        for crd in (*crds(), *(crd for each in worlds for crd in each.definitions())):
            await client.create(dynamic(CRD.resource), crd)
        await client.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
        if self.world.nodes is not client:
            await self.world.nodes.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
        await client.create(SECRET, manifests.secret(NAMESPACE_NAME))
        for name in CLASSES:
            await self.make_class(name)

    async def make_class(self, name: str, secret: str = manifests.SECRET_NAME, *, pace: float = PACE) -> None:
        """Create a MachineClass of the simulated cloud."""
        body = manifests.machine_class(name, NAMESPACE_NAME, pace=pace)
        body["secretRef"]["name"] = secret
        await self._with_retries(f"makes class {name}", lambda: self.world.client.create(MACHINE_CLASS, body))

    async def change_class(self, name: str, provider_spec: Mapping[str, Any]) -> None:
        """Patch the providerSpec of a MachineClass; None takes a field out."""
        key, body = Key(NAMESPACE_NAME, name), {"providerSpec": provider_spec}
        told = f"changes class {name}: {orjson.dumps(provider_spec).decode()}"
        await self._with_retries(told, lambda: self.world.client.patch(MACHINE_CLASS, key, body))

    async def force(self, name: str) -> None:
        """Label a machine so that its deletion is forced."""
        key, body = Key(NAMESPACE_NAME, name), {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
        await self._with_retries(
            f"forces the deletion of machine {name}", lambda: self.world.client.patch(MACHINE, key, body)
        )

    async def delete_class(self, name: str) -> None:
        """Delete a MachineClass."""
        key, told = Key(NAMESPACE_NAME, name), f"deletes class {name}"
        await self._with_retries(told, lambda: self.world.client.delete(MACHINE_CLASS, key))

    async def make_secret(self, name: str) -> None:
        """Create a Secret such as classes need."""
        secret = manifests.secret(NAMESPACE_NAME)
        secret["metadata"]["name"] = name
        await self._with_retries(f"makes secret {name}", lambda: self.world.client.create(SECRET, secret))

    async def force_secret_away(self, name: str) -> None:
        """Delete a Secret, and take off the finalizers that keep it."""
        key, client = Key(NAMESPACE_NAME, name), self.world.client
        await self._with_retries(f"deletes secret {name}", lambda: client.delete(SECRET, key))
        free = {"metadata": {"finalizers": None}}
        told = f"takes the finalizers off secret {name}"
        await self._with_retries(told, lambda: client.patch(SECRET, key, free))

    async def make_vm(self, name: str) -> None:
        """Make a VM of class ``small`` for a machine that does not exist."""
        spec = parse_spec(manifests.machine_class("small", NAMESPACE_NAME, pace=PACE)["providerSpec"])
        await self.world.cloud.create(VmRequest(name, NAMESPACE_NAME, f"lost {name}", "small", spec))

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
        told = f"makes deployment {name} with {replicas} replicas of class {machine_class}"
        await self._with_retries(told, lambda: self.world.client.create(MACHINE_DEPLOYMENT, body))

    async def make_set(self, name: str, replicas: int) -> None:
        """Create a MachineSet without an owner."""
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE_NAME},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"pool": name}},
                "template": self._template(name, "small"),
            },
        }
        told = f"makes set {name} with {replicas} replicas"
        await self._with_retries(told, lambda: self.world.client.create(MACHINE_SET, body))

    async def make_machine(self, name: str, pool: str, **spec: Any) -> None:
        """Create a Machine without an owner; ``spec`` adds to its spec's fields."""
        template = self._template(pool, "small")
        meta = {**template["metadata"], "name": name, "namespace": NAMESPACE_NAME}
        body = {"metadata": meta, "spec": {**template["spec"], **spec}}
        await self._with_retries(f"makes machine {name}", lambda: self.world.client.create(MACHINE, body))

    async def change(self, name: str, **spec: Any) -> None:
        """Patch a MachineDeployment's spec."""
        await self.amend(name, {"spec": spec})

    async def amend(self, name: str, patch: Mapping[str, Any]) -> None:
        """Patch anything of a MachineDeployment."""
        key = Key(NAMESPACE_NAME, name)
        told = f"changes deployment {name}: {orjson.dumps(patch).decode()}"
        await self._with_retries(told, lambda: self.world.client.patch(MACHINE_DEPLOYMENT, key, patch))

    async def roll(self, name: str, machine_class: str) -> None:
        """Change a deployment to another class."""
        await self.change(name, template={"spec": {"class": {"name": machine_class}}})

    async def delete(self, name: str, propagation: str = "") -> None:
        """Delete a deployment; with ``propagation`` ``Orphan`` its sets are kept."""
        key = Key(NAMESPACE_NAME, name)
        await self._with_retries(
            f"deletes deployment {name}" + (f" ({propagation})" if propagation else ""),
            lambda: self.world.client.delete(MACHINE_DEPLOYMENT, key, propagation=propagation),
        )

    async def delete_set(self, name: str, propagation: str = "") -> None:
        """Delete a set; with ``propagation`` ``Orphan`` its machines are kept."""
        key = Key(NAMESPACE_NAME, name)
        await self._with_retries(
            f"deletes set {name}" + (f" ({propagation})" if propagation else ""),
            lambda: self.world.client.delete(MACHINE_SET, key, propagation=propagation),
        )

    async def delete_machine(self, name: str) -> None:
        """Delete a machine by hand."""
        self.deleted.add(name)
        key = Key(NAMESPACE_NAME, name)
        await self._with_retries(f"deletes machine {name}", lambda: self.world.client.delete(MACHINE, key))

    async def delete_node(self, name: str) -> None:
        """Delete a Node object by hand; its kubelet will register again."""
        self.deleted.add(f"{NODES}/{name}")
        await self._with_retries(f"deletes node {name}", lambda: self.world.nodes.delete(NODE, Key("", name)))

    async def note_node(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Annotate a node; None takes an annotation off."""
        body = {"metadata": {"annotations": dict(annotations)}}
        told = f"annotates node {name}: {orjson.dumps(annotations).decode()}"
        await self._with_retries(told, lambda: self.world.nodes.patch(NODE, Key("", name), body))

    async def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Label a node; None takes a label off."""
        body, told = (
            {"metadata": {"labels": dict(labels)}},
            f"labels node {name}: {orjson.dumps(labels).decode()}",
        )
        await self._with_retries(told, lambda: self.world.nodes.patch(NODE, Key("", name), body))

    async def note_machine(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Annotate a machine; None takes an annotation off."""
        body, key = {"metadata": {"annotations": dict(annotations)}}, Key(NAMESPACE_NAME, name)
        told = f"annotates machine {name}: {orjson.dumps(annotations).decode()}"
        await self._with_retries(told, lambda: self.world.client.patch(MACHINE, key, body))

    async def make_budget(self, name: str, labels: Mapping[str, str] = MADE, **spec: Any) -> None:
        """A disruption budget for pods with these labels. Without ``spec`` it never lets one of them go."""
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE_NAME},
            "spec": {**(spec or {"maxUnavailable": 0}), "selector": {"matchLabels": dict(labels)}},
        }
        await self._with_retries(f"makes budget {name}", lambda: self.world.nodes.create(PDB, body))

    async def delete_budget(self, name: str) -> None:
        """Delete a disruption budget."""
        key = Key(NAMESPACE_NAME, name)
        await self._with_retries(f"deletes budget {name}", lambda: self.world.nodes.delete(PDB, key))

    async def run_pod(self, name: str, node: str, *, seconds: int, claim: str = "") -> None:
        """A pod on a node, that takes so long to end when it is asked to. ``claim`` names its volume."""
        spec: dict[str, Any] = {
            "nodeName": node,
            "terminationGracePeriodSeconds": seconds,
            "containers": [{"name": "main", "image": "busybox"}],
        }
        if claim:
            self.workloads.begin()
            made = partial(self.workloads.claim, claim, NAMESPACE_NAME)
            await self._with_retries(f"makes claim {claim}", made)
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        meta = {"name": name, "namespace": NAMESPACE_NAME, "labels": MADE}
        told = f"makes pod {name} on {node}"
        await self._with_retries(told, lambda: self.world.nodes.create(POD, {"metadata": meta, "spec": spec}))

    async def run_app(self, name: str, count: int, *, seconds: int, claims: bool = False) -> None:
        """So many pods, made again elsewhere when they leave; with ``claims`` each has a volume."""
        self.world.journal.say("person", f"runs {count} pods of {name}")
        self.workloads.keep(App(name, NAMESPACE_NAME, count, seconds, claims))
        await self.until(self.workloads.whole, f"{count} pods of {name}")

    async def make(self, kind: Kind[Any], name: str, **body: Any) -> None:
        """Create an object of any kind."""
        made = {"metadata": {"name": name, "namespace": NAMESPACE_NAME}, **body}
        told = f"makes {kind.resource.kind} {name}: {orjson.dumps(body).decode()}"
        await self._with_retries(told, lambda: self.world.client.create(kind, made))

    async def patch(
        self, kind: Kind[Any], name: str, patch: Mapping[str, Any], subresource: str = ""
    ) -> None:
        """Patch an object of any kind."""
        key, client = Key(NAMESPACE_NAME, name), self.world.client
        told = f"changes {kind.resource.kind} {name}: {orjson.dumps(patch).decode()}"
        await self._with_retries(told, lambda: client.patch(kind, key, patch, subresource=subresource))

    async def remove(self, kind: Kind[Any], name: str, *, propagation: str = "") -> None:
        """Delete an object of any kind; ``propagation`` as of the API: ``Orphan`` keeps what it owns."""
        key, told = Key(NAMESPACE_NAME, name), f"deletes {kind.resource.kind} {name}"
        client = self.world.client
        await self._with_retries(told, lambda: client.delete(kind, key, propagation=propagation))

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await self._clock.sleep(seconds)

    def date(self) -> str:
        """Now, as annotations have it."""
        return rfc3339(self._clock.now())

    async def until(self, met: Met, what: str, *, seconds: float = 3600.0) -> None:
        """Wait until a condition is met.

        Raises:
            Late: it was not met within ``seconds`` of virtual time.
        """
        deadline = self._clock.monotonic() + seconds
        while not met():
            if self._stop() or self._clock.monotonic() > deadline:
                raise Late(f"not within {seconds:g} s: {self.broken or what}; there are {self.picture()}")
            await self._clock.sleep(0.05)

    # ------------------------------------------------------------ what exists

    @property
    def machines(self) -> list[Object]:
        """All machines, by name."""
        found = self.world.journal.objects[MACHINES]
        return [found[key] for key in sorted(found)]

    @property
    def vms(self) -> list[Vm]:
        """All VMs that are not being deleted, oldest first."""
        return [vm for vm in self.world.journal.vms.values() if vm.gone_at is None]

    def settled(self, count: int, machine_class: str = "") -> bool:
        """So many machines, all up (of that class), each with its VM and its node, if VMs join; no more."""
        journal, joins = self.world.journal, self.world.joins
        machines, nodes = journal.objects[MACHINES], journal.objects[NODES]
        if not len(machines) == len(journal.vms) == count or len(nodes) != (count if joins else 0):
            return False
        up = "Running" if joins else "Available"
        well = (m for m in machines.values() if phase(m) == up and not going(m))
        return sum(machine_class in ("", of_class(m)) for m in well) == count

    def empty(self, resource: str) -> bool:
        """Nothing of this kind is left."""
        return not self.world.journal.objects[resource]

    def picture(self) -> str:
        """The machines, nodes and VMs that exist, in a line."""
        told = [f"{m['metadata']['name']} {phase(m) or '-'}{going(m)}" for m in self.machines]
        vms = [vm.name for vm in self.world.journal.vms.values()]
        return f"machines {told}, nodes {sorted(self.world.journal.objects[NODES])}, vms {vms}"

    @staticmethod
    def _template(pool: str, machine_class: str) -> dict[str, Any]:
        return {
            "metadata": {"labels": {"pool": pool}},
            "spec": {"class": {"kind": "MachineClass", "name": machine_class}},
        }

    async def _with_retries(self, told: str, act: Callable[[], Awaitable[Any]]) -> None:
        self.world.journal.say("person", told)
        for _ in range(ATTEMPTS):
            try:
                await act()
            except (AlreadyExists, NotFound):
                return
            except (TransportError, ApiError):
                await self._clock.sleep(0.5)
            else:
                return
        raise Late("the server refuses a user's request for five minutes")


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
