"""Entries that a test writes by hand, for tables of rules: no server, no cloud, no managers.

Theory.      Each method of a ``Tape`` makes one entry and lets all rules judge it. What a case is not about
             has a default that breaks no rule: machine ``m`` of set ``s`` of deployment ``pool``, with VM 1.
Called by    tests/sim; authors of further rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from typing import Any

from msgspec.structs import replace

from kubewright.api.machine import names
from kubewright.providers.sim.spec import SimSpec
from kubewright.providers.sim.vm import Vm
from simulation.journal import (
    ATTACHMENTS,
    BUDGETS,
    CHANGED,
    DELETES,
    EVICTS,
    GONE,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    MADE,
    NODES,
    PODS,
    VMS,
    Asked,
    Journal,
    Write,
)
from simulation.rules import judge
from simulation.rules.facts import volume_of
from simulation.rules.past import Past
from simulation.rules.table import OF_MACHINES

STALE_SECONDS = 60.0
"""How stale a manager is whose watches are silent, in these tables."""


@dataclass
class Tape:
    """A world that a test changes step by step. ``wrong`` has the rules that the last step broke."""

    time: float = 100.0
    unobserved: bool = False
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = Journal(lambda: self.time)
        self.past = Past(self.journal, lambda: self.time, self._since)
        self.wait(10)

    def _since(self) -> float:
        return self.time - (STALE_SECONDS if self.unobserved else 1.0)

    def wait(self, seconds: float) -> None:
        self.time += seconds

    def _play(self, write: Write) -> None:
        dated = dataclass_replace(write, at=self.time)
        self.past.learn(dated)
        self.wrong = [found.partition(":")[0] for found in judge(dated, self.past, OF_MACHINES)]

    def put(self, resource: str, key: str, found: Mapping[str, Any] | None) -> None:
        known = self.journal.objects[resource]
        before = known.pop(key, None)
        if found is not None:
            known[key] = found
        verb = GONE if found is None else MADE if before is None else CHANGED
        self._play(Write(resource, key, verb, before, found))

    def deployment(self, wanted: int = 2, *, surge: int = 1, missing: int = 1, **more: Any) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}
        spec = {"replicas": wanted, "strategy": strategy, "template": _template(more.pop("of", "small"))}
        meta = _meta("pool", finalizers=more.pop("finalizers", [names.FINALIZER]), **more.pop("meta", {}))
        spec["paused"] = more.pop("paused", False)
        spec["excessReplicas"] = more.pop("excess", None)
        self.put(MACHINE_DEPLOYMENTS, "ns/pool", {"metadata": meta, "spec": spec, "status": more})

    def set(self, size: int = 2, name: str = "s", of: str = "small", **more: Any) -> None:
        owner = {"kind": "MachineDeployment", "name": "pool", "uid": "d", "controller": True}
        finalizers, revision = more.pop("finalizers", [names.FINALIZER]), more.pop("revision", 1)
        notes = {names.REVISION_ANNOTATION: str(revision)}
        meta = _meta(name, ownerReferences=[owner], finalizers=finalizers, annotations=notes)
        spec = {"replicas": size, "template": _template(of)}
        self.put(MACHINE_SETS, f"ns/{name}", {"metadata": meta, "spec": spec, "status": more})

    def machine(self, name: str = "m", phase: str = "Running", owner: str = "s", **more: Any) -> None:
        refs = [{"kind": "MachineSet", "name": owner, "uid": f"uid-{owner}", "controller": True}]
        labels = {names.NODE_LABEL: more.pop("node", name), **more.pop("labels", {})}
        meta = _meta(
            name, ownerReferences=refs, labels=labels, finalizers=more.pop("finalizers", [names.FINALIZER])
        )
        if more.pop("leaving", False):
            meta["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        operation = {"type": more.pop("operation", "HealthCheck")}
        spec = {"providerID": more.pop("vm", f"sim:///r/{name}"), **more}
        status = {"currentStatus": {"phase": phase}, "lastOperation": operation}
        self.put(MACHINES, f"ns/{name}", {"metadata": meta, "spec": spec, "status": status})

    def node(self, name: str = "m", vm: str = "vm-000001", *, ready: bool = True) -> None:
        status = {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
        spec = {"providerID": f"sim:///r/{vm}"}
        self.put(NODES, name, {"metadata": {"name": name}, "spec": spec, "status": status})

    def pod(self, node: str = "m", phase: str = "Running", name: str = "p", **more: Any) -> None:
        """A pod that is Ready; ``claim`` is its volume's, ``leaving`` whether it is being deleted."""
        meta = _meta(name, labels={"app": "web"})
        if more.pop("leaving", False):
            meta["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": more.get("claim")}}
        spec = {"nodeName": node, "volumes": [claim] if "claim" in more else []}
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
        self.put(PODS, f"ns/{name}", {"metadata": meta, "spec": spec, "status": status})

    def asks(self, name: str = "p", resource: str = PODS, **more: Any) -> None:
        """A manager asks for a removal: of a pod by eviction, of other objects by their uid."""
        verb = EVICTS if more.pop("eviction", resource == PODS) else DELETES
        asked = Asked(**{"uid": f"uid-{name}", **more})
        self._play(Write(resource, f"ns/{name}", verb, actor="manager-1", asked=asked))

    def evicted(self, name: str = "p", **more: Any) -> None:
        """A manager evicts a pod, and it begins to leave."""
        self.asks(name)
        self.pod(name=name, leaving=True, **more)

    def budget(self, least: int) -> None:
        """So many pods of the app must be healthy."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}
        self.put(BUDGETS, "ns/web", {"metadata": _meta("web"), "spec": spec})

    def attached(self, node: str = "m", claim: str = "a") -> None:
        """The volume of a claim is attached to a node."""
        spec = {"nodeName": node, "source": {"persistentVolumeName": volume_of(claim)}}
        self.put(ATTACHMENTS, "csi", {"metadata": {"name": "csi"}, "spec": spec})

    def vm(self, name: str = "m", serial: int = 1, **more: Any) -> None:
        vm = Vm(serial=serial, name=name, owner_uid=f"uid-{name}", spec=SimSpec(), created_at=0, up_at=0)
        vm = replace(vm, **more)
        before = self.journal.vms.get(vm.id)
        self.journal.vms[vm.id] = vm
        self._play(Write(VMS, vm.id, MADE if before is None else CHANGED, before, vm))

    def ends(self, name: str = "m", serial: int = 1) -> None:
        """The cloud is asked to delete a VM."""
        self.vm(name, serial, gone_at=self.time, powered=False)

    def vanishes(self, serial: int = 1) -> None:
        vm = self.journal.vms.pop(f"vm-{serial:06d}")
        self._play(Write(VMS, vm.id, GONE, vm))

    def pool(self, *phases: str, size: int | None = None, **more: Any) -> None:
        """A deployment, its set, and machines ``a``, ``b``... in these phases."""
        size = len(phases) if size is None else size
        self.deployment(size, **more)
        self.set(size)
        for name, phase in zip("abcdef", phases, strict=False):
            self.machine(name, phase)
        self.wait(10)

    def up(self, phase: str = "Running", **more: Any) -> None:
        """A machine with its VM and node."""
        self.machine("m", phase, **more)
        self.vm()
        self.node()
        self.wait(10)


def _meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more}


def _template(of: str) -> dict[str, Any]:
    return {"spec": {"class": {"kind": "MachineClass", "name": of}}}


@dataclass(frozen=True)
class Case:
    """A row. ``play`` ends with the step that is judged; ``wrong`` names the rules that it breaks."""

    name: str
    play: Callable[[Tape], object]
    wrong: str = ""


def steps(*acts: Callable[[Tape], object]) -> Callable[[Tape], object]:
    """One after the other."""
    return lambda tape: [act(tape) for act in acts]
