"""What must be true of whole clusters at every step: owners, numbers, orders, secrets, VMs, pauses.

Theory.      The stories have one Cluster and a handful of objects, so a rule may look at all of them. What
             a rule must remember of the past is in the object that has it, of which each run has its own.
             What a user writes is no violation: the rules about writes get those of managers only.
             A manager may act on a number that it knew a while ago, so what counts is the largest and the
             smallest that was wanted within ``WINDOW_SECONDS``; stories change numbers far less often.
Invariants.  What is secret is read from the world's own Secrets and from what VMs boot from, never from a
             list in this file. A rule's answer names the place, and not what it found there.
Called by    tests, as ``invariants`` of ``run.simulate``.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from kubewright.api.cluster import names
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, DEPLOYMENT_NAME_LABEL
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.providers.sim.vm import Vm
from kubewright.rollout.model import resolve
from simulation.clusterapi.whole import facts
from simulation.clusterapi.whole.facts import (
    cluster_is_deleted,
    controllers_of,
    find,
    name_of,
    owners_of,
    runs,
    uid_of,
    vms_of_clusters,
)
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both, deleting
from simulation.journal import (
    CONTROL,
    EVENTS,
    WORKLOAD,
    ApiStep,
    Logged,
    Object,
    Step,
    VmStep,
    Written,
)
from simulation.person import NAMESPACE_NAME

JOINED_SECONDS = 60.0
"""How long a token may still be kept for a machine that has joined: the manager may not know it yet."""
TOKENS = "/api/v1/namespaces/kube-system/secrets"

_TOKEN = re.compile(rb"\b[a-z0-9]{6}\.([a-z0-9]{16})\b")
_TOKEN_ID = re.compile(rb"bootstrap-token-([a-z0-9]{6})\b")
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(.+?)-----END", re.DOTALL)
_LINE = re.compile(rb"[A-Za-z0-9+/=]{24,}")


class Secrecy:
    """The rules, and what they remember."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._joined: dict[str, float] = {}

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return self.secrets_stay_secret, self.a_token_is_needed

    def secrets_stay_secret(self, step: Step, _past: Past) -> str:
        """No key, token or bootstrap data is in an event, in a status or in a log line."""
        if isinstance(step, Logged):
            return "a log line has a secret" if self._tells(step.text) else ""
        if isinstance(step, VmStep) and step.old is None and step.new is not None and step.new.bootstrap:
            self._secrets.update(_sensitive(step.new.bootstrap.data))
        if not isinstance(step, ApiStep) or step.new is None:
            return ""
        if step.resource == facts.SECRETS:
            for each in _values(step.new):
                self._secrets.update(_sensitive(each))
            return ""
        shown = step.new if step.resource == EVENTS else step.new.get("status")
        told = self._tells(orjson.dumps(shown).decode())
        return f"{step.resource} {step.key} tells a secret" if told else ""

    def a_token_is_needed(self, step: Step, past: Past) -> str:
        """A token is made or kept for one machine, which joins by it and has not joined yet."""
        _, machine = both(step, facts.MACHINES)
        if machine is not None and "nodeRef" in machine.get("status", {}):
            self._joined.setdefault(uid_of(machine), past.now())
        if not isinstance(step, Written) or step.cluster != WORKLOAD or not step.path.startswith(TOKENS):
            return ""
        if step.method == "DELETE":
            return ""
        found = _TOKEN_ID.search(step.path.encode()) or _TOKEN_ID.search(step.body)
        token = found[1].decode() if found is not None else ""
        configs = [each for each in past.journal.objects[facts.CONFIGS].values() if _token_id(each) == token]
        if len(configs) != 1:
            return f"a token is kept for {len(configs)} KubeadmConfigs"
        wanted = [str(each["uid"]) for each in controllers_of(configs[0])]
        late = [each for each in wanted if past.now() - self._joined.get(each, past.now()) > JOINED_SECONDS]
        return f"a token is kept for {name_of(configs[0])}, which has joined" if late else ""

    def _tells(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)


def _token_id(config: Object) -> str:
    join = config["spec"].get("joinConfiguration", {})
    token = join.get("discovery", {}).get("bootstrapToken", {}).get("token", "")
    return str(token).partition(".")[0]


def _sensitive(data: bytes) -> Iterator[str]:
    """What of this content no one else may see: the lines of private keys, and the secrets of tokens."""
    for found in _TOKEN.finditer(data):
        yield found[1].decode()
    for found in _KEY.finditer(data):
        yield from (line.decode() for line in _LINE.findall(found[1]))


def _values(secret: Object) -> Iterable[bytes]:
    data: Mapping[str, Any] = secret.get("data") or {}
    decoded = [b64decode(each) for each in data.values()]
    inner = [b64decode(found) for each in decoded for found in re.findall(rb"client-key-data: *(\S+)", each)]
    return [*decoded, *inner]


CLUSTER_KIND = CLUSTER.resource.kind
CONTROLLED: Mapping[str, str] = {
    facts.CONFIGS: "Machine",
    facts.INFRA_MACHINES: "Machine",
    facts.INFRA_CLUSTERS: CLUSTER_KIND,
    facts.SETS: "MachineDeployment",
    facts.MACHINES: "MachineSet",
}
"""By what objects of a kind are controlled, if anything controls them."""
OWNED_BY_CLUSTER = (
    facts.DEPLOYMENTS,
    facts.CHECKS,
    facts.CONFIG_TEMPLATES,
    facts.INFRA_TEMPLATES,
)
"""What the Cluster owns and does not control."""
SECRETS = f"/api/v1/namespaces/{NAMESPACE_NAME}/secrets"


class Ownership:
    """The rules, and what they remember."""

    def __init__(self) -> None:
        self._controllers: dict[str, str] = {}
        self._known: set[tuple[str, str, str]] = set()
        self._made: set[str] = set()
        """Keys of Secrets that managers have made."""

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return self.an_object_has_one_controller, self.an_owner_is_real, self.what_runs_is_owned

    def an_object_has_one_controller(self, step: Step, past: Past) -> str:
        """It gets its controller once, of the right kind, and keeps it, unless a user has it left behind."""
        if not isinstance(step, ApiStep) or step.resource not in CONTROLLED or step.new is None:
            return ""
        found = controllers_of(step.new)
        if len(found) > 1:
            return f"{step.resource} {step.key} has {len(found)} controllers"
        uid, known = uid_of(step.new), "".join(str(each["uid"]) for each in found)
        if found and found[0]["kind"] != CONTROLLED[step.resource]:
            return f"{step.resource} {step.key} is controlled by a {found[0]['kind']}"
        if not known and self._controllers.get(uid) in past.deleted_by_users:
            del self._controllers[uid]
        before = self._controllers.setdefault(uid, known) or known
        self._controllers[uid] = known or before
        return f"{step.resource} {step.key} has lost or changed its controller" if before != known else ""

    def an_owner_is_real(self, step: Step, _past: Past) -> str:
        """Each new owner is, or was, an object of this name and uid: else the garbage collector deletes."""
        if not isinstance(step, ApiStep) or step.new is None:
            return ""
        kind = str(step.new.get("kind", ""))
        self._known.add((kind, name_of(step.new), uid_of(step.new)))
        known = {each[0] for each in self._known}
        before = owners_of(step.old) if step.old is not None else []
        for each in owners_of(step.new):
            named = (str(each["kind"]), str(each["name"]), str(each["uid"]))
            if each not in before and named[0] in known and named not in self._known:
                return f"{step.resource} {step.key} is owned by {named[0]} {named[1]} of an unknown uid"
        return ""

    def what_runs_is_owned(self, step: Step, past: Past) -> str:
        """When a machine is Running, all that it needs has the owners that it should have."""
        if isinstance(step, Written) and step.method == "POST" and step.path == SECRETS:
            self._made.add(f"{NAMESPACE_NAME}/{json.loads(step.body)['metadata']['name']}")
        old, new = both(step, facts.MACHINES)
        if new is None or runs(old) or not runs(new):
            return ""
        made = past.journal.objects[facts.SECRETS].items()
        lonely = [name for name, found in made if name in self._made and not owners_of(found)]
        wrong = [f"Secret {name} has no owner" for name in lonely]
        wrong += [*_wrong_around(new, past), *_wrong_with(new, past)]
        return f"{name_of(new)} runs, but {', '.join(wrong)}" if wrong else ""


def _wrong_with(machine: Object, past: Past) -> Iterator[str]:
    """What is wrong with the machine and its own objects."""
    spec, name = machine["spec"], name_of(machine)
    infra = find(past, facts.INFRA_MACHINES, str(spec["infrastructureRef"]["name"]))
    yield from _not_controlled(infra, machine, f"KubewrightMachine of {name}")
    if "configRef" in spec["bootstrap"]:
        config = find(past, facts.CONFIGS, str(spec["bootstrap"]["configRef"]["name"]))
        yield from _not_controlled(config, machine, f"KubeadmConfig of {name}")
        data = find(past, facts.SECRETS, str(spec["bootstrap"]["dataSecretName"]))
        if config is not None:
            yield from _not_controlled(data, config, f"data Secret of {name}")
    if not controllers_of(machine) and not _is_owned(machine, past):
        yield "it has no owner"
    if CLUSTER_NAME_LABEL not in machine["metadata"].get("labels", {}):
        yield "it has no label of its cluster"


def _wrong_around(machine: Object, past: Past) -> Iterator[str]:
    """What is wrong with the objects that all machines of the cluster share."""
    cluster = find(past, facts.CLUSTERS, str(machine["spec"]["clusterName"]))
    if cluster is not None:
        infra = find(past, facts.INFRA_CLUSTERS, str(cluster["spec"]["infrastructureRef"]["name"]))
        yield from _not_controlled(infra, cluster, "KubewrightCluster")
    if controllers_of(machine):
        for resource in OWNED_BY_CLUSTER:
            for name, found in past.journal.objects[resource].items():
                if not _is_owned(found, past):
                    yield f"{resource} {name} is not the cluster's"


def _not_controlled(found: Object | None, by: Object, what: str) -> Iterator[str]:
    if found is None or [str(each["uid"]) for each in controllers_of(found)] != [uid_of(by)]:
        yield f"the {what} is {'gone' if found is None else 'not controlled by it'}"


def _is_owned(found: Object, past: Past) -> bool:
    """Whether the Cluster is an owner that does not control."""
    uids = {uid_of(each) for each in past.journal.objects[facts.CLUSTERS].values()}
    return any(
        each["kind"] == CLUSTER_KIND and each["uid"] in uids and not each.get("controller")
        for each in owners_of(found)
    )


NODES = "/api/v1/nodes/"


class DeletionOrder:
    """The rules; they remember nothing."""

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (
            self.hooks_hold_a_machine,
            self.bootstrap_goes_after_the_vm,
            self.a_node_goes_after_its_vm,
            self.a_machine_goes_last,
        )

    def hooks_hold_a_machine(self, step: Step, past: Past) -> str:
        """No VM is given up while its machine lives, or an annotation holds up the deletion of it."""
        old, new = both(step, facts.INFRA_MACHINES)
        machine = _machine(new, past)
        if machine is None or new is None or not deleting(new) or deleting(old):
            return ""
        if not deleting(machine):
            return f"KubewrightMachine {name_of(new)} is deleted, and its Machine is not"
        notes = machine["metadata"].get("annotations", {})
        held = [each for each in notes if each.startswith(names.PRE_TERMINATE_HOOK_PREFIX)]
        if "nodeRef" in machine.get("status", {}) and not cluster_is_deleted(past):
            held += [each for each in notes if each.startswith(names.PRE_DRAIN_HOOK_PREFIX)]
        return f"KubewrightMachine {name_of(new)} is deleted in spite of {held}" if held else ""

    def bootstrap_goes_after_the_vm(self, step: Step, past: Past) -> str:
        """The KubeadmConfig of a machine is deleted when its KubewrightMachine is gone."""
        old, new = both(step, facts.CONFIGS)
        found = new or old
        if found is None or old is None or not (new is None or (deleting(new) and not deleting(old))):
            return ""
        machine = _machine(found, past)
        if machine is None or uid_of(found) in past.deleted_by_users:
            return ""
        left = find(past, facts.INFRA_MACHINES, str(machine["spec"]["infrastructureRef"]["name"]))
        return f"KubeadmConfig {name_of(found)} goes before its KubewrightMachine" if left else ""

    def a_node_goes_after_its_vm(self, step: Step, past: Past) -> str:
        """No manager deletes a Node whose VM lives."""
        if not isinstance(step, Written) or (step.cluster, step.method) != (WORKLOAD, "DELETE"):
            return ""
        node = step.path.removeprefix(NODES)
        lives = any(vm.node_name == node and vm.gone_at is None for vm in vms_of_clusters(past))
        return f"Node {node} is deleted, and its VM lives" if lives else ""

    def a_machine_goes_last(self, step: Step, past: Past) -> str:
        """A Machine loses its finalizer when its objects are gone."""
        old, new = both(step, facts.MACHINES)
        if old is None or uid_of(old) in past.deleted_by_users or not _held(old) or (new and _held(new)):
            return ""
        left = [
            str(found["kind"])
            for resource in (facts.INFRA_MACHINES, facts.CONFIGS)
            for found in past.journal.objects[resource].values()
            if any(each["uid"] == uid_of(old) for each in found["metadata"].get("ownerReferences", ()))
        ]
        return f"Machine {name_of(old)} goes before its {' and its '.join(left)}" if left else ""


def _held(machine: Object) -> bool:
    return names.MACHINE_FINALIZER in machine["metadata"].get("finalizers", ())


def _machine(found: Object | None, past: Past) -> Object | None:
    """The Machine that controls an object, while it is there."""
    owners = found["metadata"].get("ownerReferences", ()) if found is not None else ()
    uids = {str(each["uid"]) for each in owners if each.get("controller")}
    machines = past.journal.objects[facts.MACHINES].values()
    return next((each for each in machines if uid_of(each) in uids), None)


WINDOW_SECONDS = 120.0
DEFAULTS = {"maxSurge": 1, "maxUnavailable": 0}


class Bounds:
    """The rules, and the numbers that were wanted: by deployment, when, how many."""

    def __init__(self) -> None:
        self._wanted: dict[str, list[tuple[float, int]]] = {}

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return self.not_too_many_workers, self.not_too_few_workers

    def not_too_many_workers(self, step: Step, past: Past) -> str:
        """A machine is made only within the wanted number and the surge; one that is deleted still counts."""
        self._learn(step, past)
        old, new = both(step, facts.MACHINES)
        deployment = _deployment(new, past)
        if old is not None or new is None or deployment is None or past.late_creation(name_of(new)):
            return ""
        wanted = max(self._recently(deployment, past))
        most = wanted + _bound(deployment, "maxSurge", wanted)
        count = len(_members(past, deployment))
        return f"{count} machines of {name_of(deployment)}, more than {most}" if count > most else ""

    def not_too_few_workers(self, step: Step, past: Past) -> str:
        """A machine that runs is deleted only if enough others run; not so if a user or a check wants it."""
        old, new = both(step, facts.MACHINES)
        deployment = _deployment(new, past)
        if new is None or deployment is None or not deleting(new) or deleting(old) or not runs(old):
            return ""
        if name_of(new) in past.deleted_by_users or _unhealthy(new) or cluster_is_deleted(past):
            return ""
        if deleting(deployment):
            return ""
        wanted = min(self._recently(deployment, past))
        least = wanted - _bound(deployment, "maxUnavailable", wanted)
        count = sum(runs(each) and not deleting(each) for each in _members(past, deployment))
        return f"{count} machines of {name_of(deployment)} run, fewer than {least}" if count < least else ""

    def _learn(self, step: Step, past: Past) -> None:
        _, new = both(step, facts.DEPLOYMENTS)
        if new is not None:
            self._wanted.setdefault(name_of(new), []).append((past.now(), int(new["spec"]["replicas"])))

    def _recently(self, deployment: Object, past: Past) -> list[int]:
        """The numbers that were wanted within the window, and the one that was wanted when it began."""
        known, since = self._wanted[name_of(deployment)], past.now() - WINDOW_SECONDS
        earlier = [number for at, number in known if at < since]
        return [*earlier[-1:], *(number for at, number in known if at >= since)]


def _deployment(machine: Object | None, past: Past) -> Object | None:
    """The deployment of a machine, if one makes its set."""
    if machine is None:
        return None
    return find(
        past, facts.DEPLOYMENTS, str(machine["metadata"].get("labels", {}).get(DEPLOYMENT_NAME_LABEL, ""))
    )


def _members(past: Past, deployment: Object) -> list[Object]:
    """All machines of a deployment."""
    machines, name = past.journal.objects[facts.MACHINES].values(), name_of(deployment)
    return [
        each for each in machines if each["metadata"].get("labels", {}).get(DEPLOYMENT_NAME_LABEL) == name
    ]


def _bound(deployment: Object, which: str, of: int) -> int:
    """A bound of a rolling update; OnDelete makes no machine beyond the number, and deletes none."""
    strategy = deployment["spec"].get("strategy", {})
    if strategy.get("type") == "OnDelete":
        return 0
    given = strategy.get("rollingUpdate", {})
    surge, unavailable = (given.get(each, DEFAULTS[each]) for each in DEFAULTS)
    resolved = resolve(surge, of, up=True), resolve(unavailable, of, up=False)
    return resolved[which != "maxSurge"] if any(resolved) else int(which != "maxSurge")


def _unhealthy(machine: Object) -> bool:
    conditions = machine.get("status", {}).get("conditions", ())
    return any(
        each["type"] in ("HealthCheckSucceeded", "OwnerRemediated")
        for each in conditions
        if each["status"] != "True"
    )


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
        old, new = both(step, facts.INFRA_MACHINES)
        vms = vms_of_clusters(past)
        if old is not None and new is None:
            name, uid = str(old["metadata"]["name"]), str(old["metadata"]["uid"])
            moved = uid in past.deleted_by_users
            if not moved and any(_owner(vm) == uid and vm.gone_at is None for vm in vms):
                return f"KubewrightMachine {name} goes, and its VM lives"
        machines = past.journal.objects[facts.INFRA_MACHINES].values()
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
        old, new = both(step, facts.SECRETS)
        if new is None or not str(new["metadata"]["name"]).endswith(CERTIFICATES):
            return ""
        name, data = str(new["metadata"]["name"]), new.get("data")
        if self._certificates.setdefault(name, data) == data:
            return ""
        return f"Secret {name} is {'changed' if old else 'made anew'}"

    def nothing_of_a_paused_cluster_is_written(self, step: Step, past: Past) -> str:
        """While a Cluster is paused, no controller writes it or its objects, nor its workload cluster."""
        old, new = both(step, facts.CLUSTERS)
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
    of_clusters = (*facts.OBJECTS, *facts.GARBAGE_COLLECTED)
    return found is not None and f"{found['plural']}.{found['group']}" in of_clusters


def _owner(vm: Vm) -> str:
    """The uid of its KubewrightMachine."""
    return vm.owner_uid.rpartition(".")[2]
