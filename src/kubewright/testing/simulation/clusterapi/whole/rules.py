"""What must be true of whole clusters at every step: VMs, certificates, pauses, owners, secrets.

Theory.      The stories have one Cluster and a handful of objects, so a rule may look at all of them. What
             it must remember of the past is in ``WholeRules``, of which each run has its own.
Invariants.  What is secret is read from the world's own Secrets and from what VMs boot from, never from a
             list in this file. A rule's answer names the place, and not what it found there.
Called by    tests, as ``invariants`` of ``run.simulate``.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.providers.sim.vm import Vm
from kubewright.testing.simulation.clusterapi.whole.entry import (
    CLUSTERS,
    CONFIGS,
    DEPLOYMENTS,
    INFRA_CLUSTERS,
    INFRA_MACHINES,
    OBJECTS,
    SECRETS,
)
from kubewright.testing.simulation.invariants import Invariant, Past
from kubewright.testing.simulation.journal import EVENTS, ApiStep, Logged, Object, Step, VmStep

PAUSE_SECONDS = 1.0
"""How long a write may still arrive that was begun before the pause was known."""
FORGOTTEN_SECONDS = 60.0
"""How long a VM may live whose KubewrightMachine is gone."""
CERTIFICATES = ("-ca", "-etcd", "-sa", "-proxy")
"""How the names of the Secrets end whose certificates and keys a cluster has for ever."""
INIT = b"kubeadm init"
CONTROLLED = {CONFIGS: "Machine", INFRA_MACHINES: "Machine", INFRA_CLUSTERS: CLUSTER.resource.kind}
"""What providers' objects are controlled by."""

_TOKEN = re.compile(rb"\b[a-z0-9]{6}\.([a-z0-9]{16})\b")
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(.+?)-----END", re.DOTALL)
_LINE = re.compile(rb"[A-Za-z0-9+/=]{24,}")


class WholeRules:
    """The rules of one run, and what they remember."""

    def __init__(self) -> None:
        self._certificates: dict[str, object] = {}
        self._initialized: dict[str, str] = {}
        self._paused: dict[str, float] = {}
        self._controllers: dict[str, str] = {}
        self._secrets: set[str] = set()
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
            self.a_provider_object_has_one_controller,
            self.secrets_stay_secret,
        )

    def a_machine_has_one_vm(self, step: Step, past: Past) -> str:
        """No VM is made for a machine while another of it exists."""
        if not isinstance(step, VmStep) or step.old is not None or step.new is None:
            return ""
        same = [vm.id for vm in past.journal.vms.values() if vm.owner_uid == step.new.owner_uid]
        return f"{step.new.name} has {len(same)} VMs: {same}" if len(same) > 1 else ""

    def no_vm_is_forgotten(self, step: Step, past: Past) -> str:
        """A KubewrightMachine goes after its VM; one that comes later all the same is deleted soon."""
        old, new = _both(step, INFRA_MACHINES)
        if old is not None and new is None:
            name, uid = str(old["metadata"]["name"]), str(old["metadata"]["uid"])
            if any(_owner(vm) == uid and vm.gone_at is None for vm in past.journal.vms.values()):
                return f"KubewrightMachine {name} goes, and its VM lives"
        there = {str(each["metadata"]["uid"]) for each in past.journal.objects[INFRA_MACHINES].values()}
        for vm in past.journal.vms.values():
            if _owner(vm) in there:
                self._unowned.pop(vm.id, None)
            elif past.now() - self._unowned.setdefault(vm.id, past.now()) > FORGOTTEN_SECONDS:
                return f"{vm.id} has had no KubewrightMachine for {FORGOTTEN_SECONDS:g} s"
        return ""

    def one_machine_runs_init(self, step: Step, past: Past) -> str:
        """Of all machines that a cluster ever has, one runs ``kubeadm init``."""
        if not isinstance(step, VmStep) or step.new is None or step.new.bootstrap is None:
            return ""
        if INIT in step.new.bootstrap.data:
            self._initialized[step.new.owner_uid] = step.new.name
        names = list(self._initialized.values())
        return f"{names} all run kubeadm init" if len(names) > 1 and step.old is None else ""

    def no_certificate_is_replaced(self, step: Step, _past: Past) -> str:
        """The authorities and keys of a cluster are what they were when they were made."""
        old, new = _both(step, SECRETS)
        if new is None or not str(new["metadata"]["name"]).endswith(CERTIFICATES):
            return ""
        name, data = str(new["metadata"]["name"]), new.get("data")
        if self._certificates.setdefault(name, data) == data:
            return ""
        return f"Secret {name} is {'changed' if old else 'made anew'}"

    def nothing_of_a_paused_cluster_is_written(self, step: Step, past: Past) -> str:
        """While a Cluster is paused, no controller writes it or its objects; users may."""
        if not isinstance(step, ApiStep) or step.resource not in OBJECTS:
            return ""
        old, new = _both(step, CLUSTERS)
        if old or new:
            if not (new and new["spec"].get("paused")):
                self._paused.clear()
                return ""
            if step.key not in self._paused:
                self._paused[step.key] = past.now()
                return ""
        since = next(iter(self._paused.values()), None)
        if since is None or past.now() - since < PAUSE_SECONDS or _by_user(step):
            return ""
        return f"{step.resource} {step.key} is written while its cluster is paused"

    def a_provider_object_has_one_controller(self, step: Step, _past: Past) -> str:
        """It gets its controller once, of the right kind, and keeps it."""
        if not isinstance(step, ApiStep) or step.resource not in CONTROLLED or step.new is None:
            return ""
        owners = [each for each in step.new["metadata"].get("ownerReferences", ()) if each.get("controller")]
        if len(owners) > 1:
            return f"{step.resource} {step.key} has {len(owners)} controllers"
        uid, known = str(step.new["metadata"]["uid"]), "".join(str(each["uid"]) for each in owners)
        if owners and owners[0]["kind"] != CONTROLLED[step.resource]:
            return f"{step.resource} {step.key} is controlled by a {owners[0]['kind']}"
        before = self._controllers.setdefault(uid, known) or known
        self._controllers[uid] = known or before
        return f"{step.resource} {step.key} has lost or changed its controller" if before != known else ""

    def secrets_stay_secret(self, step: Step, past: Past) -> str:
        """No key, token or bootstrap data is in an event, in a status or in a log line."""
        if isinstance(step, Logged):
            return "a log line has a secret" if self._tells(step.text) else ""
        if isinstance(step, VmStep) and step.old is None and step.new is not None and step.new.bootstrap:
            self._secrets.update(_sensitive(step.new.bootstrap.data))
        if not isinstance(step, ApiStep) or step.new is None:
            return ""
        if step.resource == SECRETS:
            for each in _values(step.new):
                self._secrets.update(_sensitive(each))
            return ""
        shown = step.new if step.resource == EVENTS else step.new.get("status")
        return (
            f"{step.resource} {step.key} tells a secret" if self._tells(orjson.dumps(shown).decode()) else ""
        )

    def _tells(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)


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


def _owner(vm: Vm) -> str:
    """The uid of its KubewrightMachine."""
    return vm.owner_uid.rpartition(".")[2]


def _both(step: Step, resource: str) -> tuple[Object | None, Object | None]:
    return (step.old, step.new) if isinstance(step, ApiStep) and step.resource == resource else (None, None)


def _by_user(step: ApiStep) -> bool:
    """A change of what only users set: the spec of a Cluster or of a deployment."""
    old, new = step.old, step.new
    return (
        step.resource in (CLUSTERS, DEPLOYMENTS)
        and old is not None
        and new is not None
        and old["spec"] != new["spec"]
    )
