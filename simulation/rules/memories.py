"""What the rules of whole clusters remember of a run.

Theory.      The stories have one Cluster and a handful of objects, so a memory may look at all of them.
Invariants.  What is secret is read from the world's own Secrets and from what VMs boot from, never from a
             list in this file.
Called by    ``table`` names them; read by ``lives``, ``numbers``, ``owners`` and ``secrets``.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubewright.providers.sim.vm import Vm
from simulation.journal import CONTROL, POST, VMS, Object, Write
from simulation.resources import (
    CLUSTER_DEPLOYMENTS,
    CLUSTER_MACHINES,
    CLUSTER_OBJECTS,
    CLUSTERS,
    INFRA_MACHINES,
    SECRETS,
)
from simulation.rules.facts import controllers_of, deleting, name_of, status_of, uid_of
from simulation.rules.past import Past

CERTIFICATES = ("-ca", "-etcd", "-sa", "-proxy")
"""How the names of the Secrets end whose certificates and keys a cluster has for ever."""
INIT = b"kubeadm init"
WINDOW_SECONDS = 120.0
"""For so long a manager may act on a number that was wanted before."""

_TOKEN = re.compile(rb"\b[a-z0-9]{6}\.([a-z0-9]{16})\b")
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(.+?)-----END", re.DOTALL)
_LINE = re.compile(rb"[A-Za-z0-9+/=]{24,}")


class ClusterPast:
    """Of one run.

    ``wanted``       by deployment, when which number of machines was wanted
    ``unowned``      since when VMs have no KubewrightMachine, by id
    ``initialized``  the machines that ran ``kubeadm init``, by the uid of their VM's owner
    ``joined``       since when machines are Nodes, by uid
    ``made``         keys of Secrets that managers have made
    ``known``        kind, name and uid of every object there ever was
    ``controllers``  the uid of what controls an object, by its own uid
    ``secrets``      what must be seen by no one else
    ``paused``       since when the Cluster is paused
    ``kept``         the content of authorities when they were made, by the name of their Secret
    """

    def __init__(self) -> None:
        self.wanted: dict[str, list[tuple[float, int]]] = {}
        self.unowned: dict[str, float] = {}
        self.initialized: dict[str, str] = {}
        self.joined: dict[str, float] = {}
        self.made: set[str] = set()
        self.known: set[tuple[str, str, str]] = set()
        self.controllers: dict[str, str] = {}
        self.secrets: set[str] = set()
        self.paused: float | None = None
        self.kept: dict[str, object] = {}

    def learn(self, write: Write, past: Past) -> None:
        """As ``past.Memory``."""
        self._find_orphans(past)
        if write.kind == VMS and write.committed:
            self._boots(write.after)
        elif write.committed and write.after is not None:
            self._object(write, write.after, past)
        elif (write.verb, write.kind, write.where) == (POST, SECRETS, CONTROL):
            self.made.add(write.key)

    def remember(self, write: Write, past: Past) -> None:
        """As ``past.Memory``."""
        if write.committed and write.kind in CLUSTER_OBJECTS and write.after is not None:
            uid = uid_of(write.after)
            now = "".join(str(each["uid"]) for each in controllers_of(write.after))
            left = not now and self.controllers.get(uid) in past.deleted_by_users
            self.controllers[uid] = now if left else now or self.controllers.get(uid, "")

    def recently(self, deployment: str, past: Past) -> list[int]:
        """The numbers that were wanted within the window, and the one that was wanted when it began."""
        known, since = self.wanted[deployment], past.now() - WINDOW_SECONDS
        earlier = [number for at, number in known if at < since]
        return [*earlier[-1:], *(number for at, number in known if at >= since)]

    def tells(self, text: str) -> bool:
        """Whether a text has a secret in it."""
        return any(secret in text for secret in self.secrets)

    def _find_orphans(self, past: Past) -> None:
        machines = list(past.all(INFRA_MACHINES))
        owners = set(map(uid_of, machines))
        recorded = {str(each["spec"].get("providerID", "")) for each in machines}
        self.unowned = {
            vm.id: self.unowned.get(vm.id, past.now())
            for vm in vms_of_clusters(past)
            if owner_of(vm) not in owners and vm.provider_id not in recorded
        }

    def _boots(self, vm: Vm | None) -> None:
        if vm is not None and vm.bootstrap is not None:
            self.secrets.update(_sensitive(vm.bootstrap.data))
            if INIT in vm.bootstrap.data:
                self.initialized[vm.owner_uid] = vm.name

    def _object(self, write: Write, found: Object, past: Past) -> None:
        self.known.add((str(found.get("kind", "")), name_of(found), uid_of(found)))
        if write.kind == CLUSTER_DEPLOYMENTS:
            self.wanted.setdefault(name_of(found), []).append((past.now(), int(found["spec"]["replicas"])))
        elif write.kind == CLUSTER_MACHINES and "nodeRef" in status_of(found):
            self.joined.setdefault(uid_of(found), past.now())
        elif write.kind == SECRETS:
            for each in _values(found):
                self.secrets.update(_sensitive(each))
            if name_of(found).endswith(CERTIFICATES):
                self.kept.setdefault(name_of(found), found.get("data"))
        elif write.kind == CLUSTERS:
            since = self.paused if write.before is not None and self.paused is not None else past.now()
            self.paused = since if found["spec"].get("paused") else None


def vms_of_clusters(past: Past) -> list[Vm]:
    """The VMs that boot from data: those of MachineClasses do not."""
    return [vm for vm in past.journal.vms.values() if vm.bootstrap is not None]


def owner_of(vm: Vm) -> str:
    """The uid of its KubewrightMachine."""
    return vm.owner_uid.rpartition(".")[2]


def cluster_is_deleted(past: Past) -> bool:
    """Whether a Cluster is being deleted, or is gone."""
    clusters = list(past.all(CLUSTERS))
    return not clusters or any(map(deleting, clusters))


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
