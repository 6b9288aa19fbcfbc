"""What must be true at every step of every world, one readable function each.

Theory.      An invariant hears each step right after it happened and answers what is wrong, or
             nothing. What it needs to know of the past is in ``Past``. Some things are promised only
             as long as nobody hurts the nodes; ``Past.hurt`` says that somebody does, and a manager
             that is fed old news (a silent watch) may act on a wish as old as ``Past.stale``.
To add one   write a function ``(step, past) -> str`` and put it into ``INVARIANTS``; then break the
             product on purpose (``tests/sim/test_mutations.py``) and see that it is caught.
Called by    ``judge``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubewright.api.machine import names
from kubewright.providers.sim.vm import Vm
from kubewright.testing.simulation.journal import (
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    PODS,
    ApiStep,
    Journal,
    Object,
    Step,
    VmStep,
)

CONFIRM_SECONDS = 30.0
"""How long a VM may live without a machine: its creation was under way when the machine went."""


@dataclass(slots=True)
class Past:
    """What invariants know beside the step. ``forgiven`` holds names that people deleted themselves."""

    journal: Journal
    now: Callable[[], float]
    hurt: bool = False
    stale: float = 5.0
    forgiven: set[str] = field(default_factory=set)
    uids: dict[str, str] = field(default_factory=dict)
    """Machines that exist: uid to key."""
    vms: dict[str, dict[str, None]] = field(default_factory=dict)
    """Ids of VMs by the uid of their machine."""
    lonely: dict[str, float] = field(default_factory=dict)
    """VMs of nobody, and since when."""
    wishes: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)
    """By key of a deployment: since when how many machines at most, and how many available at least."""
    machines: int = 0
    """How many there ever were."""
    left: list[tuple[float, str]] = field(default_factory=list)
    """When a machine went, and the uid of the set that it belonged to."""

    def learn(self, step: Step) -> None:
        """Take a step in, before anybody judges it."""
        if isinstance(step, ApiStep) and step.resource == MACHINES:
            self._machine(step)
        elif isinstance(step, ApiStep) and step.resource == MACHINE_DEPLOYMENTS and step.new is not None:
            self._wish(step.key, step.new)
        elif isinstance(step, VmStep):
            self._vm(step)

    def _machine(self, step: ApiStep) -> None:
        if step.new is not None:
            self.uids[step.new["metadata"]["uid"]] = step.key
            self.machines += step.old is None
        elif step.old is not None:
            uid = step.old["metadata"]["uid"]
            self.uids.pop(uid, None)
            self.left.append((self.now(), _owner(step.old)))
            left = (vm_id for vm_id in self.vms.get(uid, ()) if self.journal.vms[vm_id].gone_at is None)
            self.lonely.update((vm_id, self.now()) for vm_id in left)

    def _vm(self, step: VmStep) -> None:
        """VMs are never handed from one machine to another."""
        if step.new is None:
            assert step.old is not None
            self.vms.get(step.old.owner_uid, {}).pop(step.old.id, None)
            self.lonely.pop(step.old.id, None)
            return
        vm = step.new
        self.vms.setdefault(vm.owner_uid, {})[vm.id] = None
        if vm.gone_at is not None:
            self.lonely.pop(vm.id, None)
        elif vm.owner_uid not in self.uids:
            self.lonely.setdefault(vm.id, self.now())

    def _wish(self, key: str, deployment: Object) -> None:
        spec = deployment["spec"]
        rolling = spec.get("strategy", {}).get("rollingUpdate") or {}
        recreate = spec.get("strategy", {}).get("type") == "Recreate"
        replicas = int(spec.get("replicas", 0))
        surge = _share(rolling.get("maxSurge", 0), replicas, up=True)
        floor = 0 if recreate else replicas - _share(rolling.get("maxUnavailable", 0), replicas, up=False)
        known = self.wishes.setdefault(key, [])
        if not known or known[-1][1:] != (replicas + surge, floor):
            known.append((self.now(), replicas + surge, floor))

    def living_vms(self, owner_uid: str) -> list[str]:
        """The VMs of a machine that nobody is deleting."""
        return [vm_id for vm_id in self.vms.get(owner_uid, ()) if self.journal.vms[vm_id].gone_at is None]

    def recent(self, key: str) -> list[tuple[int, int]]:
        """The bounds of a deployment that somebody may still believe in."""
        known = self.wishes.get(key, [])
        since = self.now() - self.stale
        return [
            (most, least)
            for number, (_, most, least) in enumerate(known)
            if number + 1 == len(known) or known[number + 1][0] >= since
        ]

    def deployment_of(self, machine: Object) -> str:
        """The key of the deployment behind a machine; empty for none."""
        for key, found in self.journal.objects[MACHINE_SETS].items():
            if found["metadata"]["uid"] == _owner(machine):
                owners = found["metadata"].get("ownerReferences") or ({"name": ""},)
                return f"{key.partition('/')[0]}/{owners[0]['name']}"
        return ""

    def machines_of(self, deployment: str) -> list[Object]:
        """All machines behind a deployment, leaving ones included."""
        return [m for m in self.journal.objects[MACHINES].values() if self.deployment_of(m) == deployment]


Invariant = Callable[[Step, Past], str]


def one_vm_for_a_machine(step: Step, past: Past) -> str:
    """At most one VM lives for one machine."""
    if not isinstance(step, VmStep) or step.old is not None or step.new is None:
        return ""
    owner = step.new.owner_uid
    twins = past.living_vms(owner)
    return f"machine {step.new.name} has {len(twins)} VMs: {twins}" if len(twins) > 1 else ""


def no_vm_without_a_machine(_step: Step, past: Past) -> str:
    """A VM lives for a machine, or will not live long."""
    for vm_id, since in past.lonely.items():
        if vm_id in past.journal.vms and past.now() - since > CONFIRM_SECONDS:
            return f"{vm_id} has lived for {past.now() - since:.0f} s without a machine"
    return ""


def a_living_machine_keeps_its_vm(step: Step, past: Past) -> str:
    """No VM is deleted while its machine should live."""
    if not isinstance(step, VmStep) or not _ended(step) or step.new is None:
        return ""
    key = past.uids.get(step.new.owner_uid)
    if key is None or "deletionTimestamp" in past.journal.objects[MACHINES][key]["metadata"]:
        return ""
    return f"{step.new.id} is deleted, and machine {key} is not"


def the_finalizer_goes_last(step: Step, past: Past) -> str:
    """Our finalizer leaves a machine when no VM of it is left."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is None:
        return ""
    held = names.FINALIZER in step.old["metadata"].get("finalizers", ())
    still = step.new is not None and names.FINALIZER in step.new["metadata"].get("finalizers", ())
    if not held or still:
        return ""
    uid = step.old["metadata"]["uid"]
    left = past.living_vms(uid)
    return f"machine {step.key} lost our finalizer, and {left} still live" if left else ""


def not_too_many(step: Step, past: Past) -> str:
    """A new machine does not take its deployment above replicas + surge."""
    if not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is not None:
        return ""
    assert step.new is not None
    deployment = past.deployment_of(step.new)
    bounds = past.recent(deployment)
    alive = [m for m in past.machines_of(deployment) if "deletionTimestamp" not in m["metadata"]]
    if not bounds or len(alive) <= max(most for most, _ in bounds):
        return ""
    return f"{deployment} has {len(alive)} machines, more than {max(most for most, _ in bounds)}"


def not_too_few(step: Step, past: Past) -> str:
    """No running machine is deleted that takes its deployment below what must be available."""
    if past.hurt or not isinstance(step, ApiStep) or step.resource != MACHINES or step.old is None:
        return ""
    began = step.new is None or "deletionTimestamp" in step.new["metadata"]
    if "deletionTimestamp" in step.old["metadata"] or not began or not _running(step.old):
        return ""
    deployment = past.deployment_of(step.old)
    if step.old["metadata"]["name"] in past.forgiven or _leaving(past, deployment):
        return ""
    bounds = past.recent(deployment)
    machines = [m for m in past.machines_of(deployment) if "deletionTimestamp" not in m["metadata"]]
    available = [m for m in machines if _running(m)]
    if not bounds or len(available) >= min(least for _, least in bounds):
        return ""
    return f"{deployment} keeps {len(available)} of at least {min(least for _, least in bounds)} available"


def a_drained_vm(step: Step, past: Past) -> str:
    """A VM with pods on it is not deleted."""
    if past.hurt or not isinstance(step, VmStep) or not _ended(step) or step.new is None:
        return ""
    pods = [key for key, pod in past.journal.objects[PODS].items() if _runs_on(pod, step.new)]
    return f"{step.new.id} is deleted under {pods}" if pods else ""


def a_true_count(step: Step, past: Past) -> str:
    """A set's status counts no machine that does not exist."""
    if not isinstance(step, ApiStep) or step.resource != MACHINE_SETS or step.new is None:
        return ""
    told = int(step.new.get("status", {}).get("replicas", 0))
    if step.old is not None and told <= int(step.old.get("status", {}).get("replicas", 0)):
        return ""
    uid = step.new["metadata"]["uid"]
    there = sum(_owner(m) == uid for m in past.journal.objects[MACHINES].values())
    since = past.now() - past.stale
    late = sum(at >= since and owner == uid for at, owner in past.left)
    return f"{step.key} counts {told} machines of {there}" if told > there + late else ""


INVARIANTS: tuple[Invariant, ...] = (
    one_vm_for_a_machine,
    no_vm_without_a_machine,
    a_living_machine_keeps_its_vm,
    the_finalizer_goes_last,
    not_too_many,
    not_too_few,
    a_drained_vm,
    a_true_count,
)


def judge(step: Step, past: Past, invariants: Iterable[Invariant] = INVARIANTS) -> list[str]:
    """What is wrong after a step: one sentence for each invariant that does not hold."""
    return [f"{rule.__name__}: {wrong}" for rule in invariants if (wrong := rule(step, past))]


def _share(value: int | str, of: int, *, up: bool) -> int:
    """A number, or a percentage of the replicas; rounded as Kubernetes does."""
    if isinstance(value, int):
        return value
    hundredths = of * int(value.rstrip("%"))
    return -(-hundredths // 100) if up else hundredths // 100


def _ended(step: VmStep) -> bool:
    """Whether somebody asked for the VM's end just now."""
    old, new = step.old, step.new
    return old is not None and new is not None and old.gone_at is None and new.gone_at is not None


def _owner(machine: Object) -> str:
    refs: list[Mapping[str, Any]] = machine["metadata"].get("ownerReferences") or []
    return next((str(ref["uid"]) for ref in refs if ref.get("controller")), "")


def _running(machine: Object) -> bool:
    return bool(machine.get("status", {}).get("currentStatus", {}).get("phase") == "Running")


def _leaving(past: Past, deployment: str) -> bool:
    found = past.journal.objects[MACHINE_DEPLOYMENTS].get(deployment)
    return found is None or "deletionTimestamp" in found["metadata"]


def _runs_on(pod: Object, vm: Vm) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return pod["spec"].get("nodeName") == vm.node_name and not ended
