"""What must be true of whole clusters at every step: VMs, certificates, pauses; and the rules beside these.

Theory.      The stories have one Cluster and a handful of objects, so a rule may look at all of them. What
             a rule must remember of the past is in the object that has it, of which each run has its own.
             What a user writes is no violation: the rules about writes get those of managers only.
Map          ownership.py       who owns what
             bounds.py          how many workers there are
             deletion_order.py  in which order a machine is deleted
             secrecy.py         what is secret, and who gets a token
Called by    tests, as ``invariants`` of ``run.simulate``.
"""

import re

from kubewright.providers.sim.vm import Vm
from simulation.clusterapi.whole import resources
from simulation.clusterapi.whole.bounds import Bounds
from simulation.clusterapi.whole.deletion_order import DeletionOrder
from simulation.clusterapi.whole.facts import vms_of_clusters
from simulation.clusterapi.whole.ownership import Ownership
from simulation.clusterapi.whole.secrecy import Secrecy
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both
from simulation.journal import CONTROL, Step, VmStep, Written

PAUSE_SECONDS = 1.0
"""How long a write may still arrive that was begun before the pause was known."""
FORGOTTEN_SECONDS = 60.0
"""How long a VM may live whose KubewrightMachine is gone."""
CERTIFICATES = ("-ca", "-etcd", "-sa", "-proxy")
"""How the names of the Secrets end whose certificates and keys a cluster has for ever."""
INIT = b"kubeadm init"

_OBJECT = re.compile(r"/apis/(?P<group>[^/]+)/[^/]+/namespaces/[^/]+/(?P<plural>[^/]+)/")


def rules() -> tuple[Invariant, ...]:
    """The rules of one run."""
    return (*WholeRules().all, *Ownership().all, *Bounds().all, *DeletionOrder().all, *Secrecy().all)


class WholeRules:
    """Rules about VMs, certificates and pauses, and what they remember."""

    def __init__(self) -> None:
        self._certificates: dict[str, object] = {}
        self._initialized: dict[str, str] = {}
        self._paused: float | None = None
        self._unowned: dict[str, float] = {}

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (
            self.a_machine_has_one_vm,
            self.no_vm_is_forgotten,
            self.one_machine_runs_init,
            self.no_certificate_is_replaced,
            self.nothing_of_a_paused_cluster_is_written,
        )

    def a_machine_has_one_vm(self, step: Step, past: Past) -> str:
        """No VM is made for a machine while another of it exists."""
        if not isinstance(step, VmStep) or step.old is not None or step.new is None:
            return ""
        same = [vm.id for vm in past.journal.vms.values() if vm.owner_uid == step.new.owner_uid]
        return f"{step.new.name} has {len(same)} VMs: {same}" if len(same) > 1 else ""

    def no_vm_is_forgotten(self, step: Step, past: Past) -> str:
        """A KubewrightMachine goes after its VM; one that comes later all the same is deleted soon."""
        old, new = both(step, resources.INFRA_MACHINES)
        vms = vms_of_clusters(past)
        if old is not None and new is None:
            name, uid = str(old["metadata"]["name"]), str(old["metadata"]["uid"])
            moved = uid in past.deleted_by_users
            if not moved and any(_owner(vm) == uid and vm.gone_at is None for vm in vms):
                return f"KubewrightMachine {name} goes, and its VM lives"
        machines = past.journal.objects[resources.INFRA_MACHINES].values()
        there = {str(each["metadata"]["uid"]) for each in machines}
        recorded = {str(each["spec"].get("providerID", "")) for each in machines}
        for vm in vms:
            if _owner(vm) in there or vm.provider_id in recorded:
                self._unowned.pop(vm.id, None)
            elif past.now() - self._unowned.setdefault(vm.id, past.now()) > FORGOTTEN_SECONDS:
                return f"{vm.id} has had no KubewrightMachine for {FORGOTTEN_SECONDS:g} s"
        return ""

    def one_machine_runs_init(self, step: Step, _past: Past) -> str:
        """Of all machines that a cluster ever has, one runs ``kubeadm init``."""
        if not isinstance(step, VmStep) or step.new is None or step.new.bootstrap is None:
            return ""
        if INIT in step.new.bootstrap.data:
            self._initialized[step.new.owner_uid] = step.new.name
        names = list(self._initialized.values())
        return f"{names} all run kubeadm init" if len(names) > 1 and step.old is None else ""

    def no_certificate_is_replaced(self, step: Step, _past: Past) -> str:
        """The authorities and keys of a cluster are what they were when they were made."""
        old, new = both(step, resources.SECRETS)
        if new is None or not str(new["metadata"]["name"]).endswith(CERTIFICATES):
            return ""
        name, data = str(new["metadata"]["name"]), new.get("data")
        if self._certificates.setdefault(name, data) == data:
            return ""
        return f"Secret {name} is {'changed' if old else 'made anew'}"

    def nothing_of_a_paused_cluster_is_written(self, step: Step, past: Past) -> str:
        """While a Cluster is paused, no controller writes it or its objects, nor its workload cluster."""
        old, new = both(step, resources.CLUSTERS)
        if new is not None:
            paused = bool(new["spec"].get("paused"))
            self._paused = (self._paused if old and self._paused else past.now()) if paused else None
        if not isinstance(step, Written) or self._paused is None:
            return ""
        if past.now() - self._paused < PAUSE_SECONDS or not _of_a_cluster(step):
            return ""
        return f"{step.method} {step.path} ({step.cluster}) while the cluster is paused"


def _of_a_cluster(step: Written) -> bool:
    """Whether something of a cluster is written, and not a Lease, an Event or another API's object."""
    if step.cluster != CONTROL:
        return True
    found = _OBJECT.match(f"{step.path}/")
    of_clusters = (*resources.OBJECTS, *resources.GARBAGE_COLLECTED)
    return found is not None and f"{found['plural']}.{found['group']}" in of_clusters


def _owner(vm: Vm) -> str:
    """The uid of its KubewrightMachine."""
    return vm.owner_uid.rpartition(".")[2]
