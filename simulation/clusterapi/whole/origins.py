"""Stories of clusters that come from elsewhere: a user's own boot data, a foreign control plane, two worlds.

Theory.      Where a user brings the data that VMs boot from, there is no KubeadmConfig, and nothing is made
             in its place. Where another program runs the control plane, the story plays its part: it fills
             the status of infrastructure and control plane, and brings certificates and kubeconfig.
             In the last story machines of MachineClasses live beside those of a cluster, on one driver, with
             the same tags: each world must leave the VMs of the other alone.
Source       S0-15.
Called by    ``stories`` and ``deletions``.
"""

import json
from collections.abc import Mapping
from typing import Any

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION, SECRET_TYPE
from kubewright.api.cluster.v1beta1 import API_VERSION, CLUSTER, MACHINE, ApiEndpoint
from kubewright.api.core import SECRET, Secret
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.api.meta import OwnerReference
from kubewright.base.clock import Clock
from kubewright.clusters.cluster.act import kubeconfig_secret
from kubewright.compose.api_servers import Planes
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import public_key_hashes
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.providers.sim.tls_bootstrap import PlaneRequest
from kubewright.runtime.credentials.contents import read_secret
from simulation import resources
from simulation.clusterapi.whole import acts
from simulation.clusterapi.whole.acts import OLD, PLANE_LABELS, VM, cluster, ref, running, story
from simulation.clusterapi.whole.setup import BESIDE_A_POOL
from simulation.journal import NAMESPACE_NAME
from simulation.person import Person
from simulation.resources import FOO_PLANE
from simulation.rules.facts import name_of
from simulation.story import then, until

HOST, PORT = "127.0.0.1", 30_001
ENDPOINT = {"host": HOST, "port": PORT}
ADDRESS = f"{HOST}:{PORT}"
TOKEN = "abcdef.0123456789abcdef"
KUBEADM, PKI = "/run/kubeadm.yaml", "/etc/kubernetes/pki"
API = "kubeadm.k8s.io/v1beta4"
LABELS = {CLUSTER_NAME_LABEL: "demo"}


# ---------------------------------------------------------------- boot data that are lost


async def lose_data(person: Person) -> None:
    """The data of a worker are deleted before its VM is asked for: they are made again, and it joins."""
    await person.make(KUBEADM_CONFIG, "w", spec={"joinConfiguration": {}})
    await person.make(MACHINE, "w", spec=acts.machine_spec(KUBEADM_CONFIG, KUBEWRIGHT_MACHINE, "w"))
    secrets, key = person.world.journal.objects[resources.SECRETS], f"{NAMESPACE_NAME}/w"
    await person.until(lambda: key in secrets, "data", seconds=acts.PATIENCE)
    await person.remove(SECRET, "w")
    await person.make(KUBEWRIGHT_MACHINE, "w", spec=VM)


# ---------------------------------------------------------------- boot data of a user's own


async def bring_data(person: Person) -> None:
    """A machine of the control plane boots from a Secret, and a worker from data in the Machine itself."""
    pair = await make_authority(person)
    await person.make(KUBEWRIGHT_CLUSTER, "demo", spec={"controlPlaneEndpoint": ENDPOINT})
    await person.make(CLUSTER, "demo", spec={"infrastructureRef": ref(KUBEWRIGHT_CLUSTER, "demo")})
    files = {f"{PKI}/ca.crt": pair.certificate.decode(), f"{PKI}/ca.key": pair.key.decode()}
    first = {"kind": "InitConfiguration", "bootstrapTokens": [{"token": TOKEN}]}
    init = cloud_config(
        "init", {"kind": "ClusterConfiguration", "controlPlaneEndpoint": ADDRESS}, first, files=files
    )
    meta = {"name": "own-data", "namespace": NAMESPACE_NAME, "labels": LABELS}
    await person.make(SECRET, "own-data", metadata=meta, stringData={"value": init}, type=SECRET_TYPE)
    await _machine(person, "cp", {"dataSecretName": "own-data"}, PLANE_LABELS)
    trust = {
        "token": TOKEN,
        "apiServerEndpoint": ADDRESS,
        "caCertHashes": public_key_hashes(pair.certificate),
    }
    join = cloud_config("join", {"kind": "JoinConfiguration", "discovery": {"bootstrapToken": trust}})
    await _machine(person, "own", {"data": join}, LABELS)


def cloud_config(verb: str, *documents: Mapping[str, Any], files: Mapping[str, str] | None = None) -> str:
    """Data from which a VM runs ``kubeadm``."""
    text = "\n---\n".join(json.dumps({"apiVersion": API, **each}) for each in documents)
    written = [
        {"path": path, "content": content} for path, content in {**(files or {}), KUBEADM: text}.items()
    ]
    return "#cloud-config\n" + json.dumps(
        {"write_files": written, "runcmd": [f"kubeadm {verb} --config {KUBEADM}"]}
    )


async def _machine(
    person: Person, name: str, bootstrap: Mapping[str, str], labels: Mapping[str, str]
) -> None:
    await person.make(KUBEWRIGHT_MACHINE, name, spec=VM)
    meta = {"name": name, "namespace": NAMESPACE_NAME, "labels": labels}
    spec = {"clusterName": "demo", "version": OLD, "bootstrap": bootstrap}
    await person.make(
        MACHINE, name, metadata=meta, spec={**spec, "infrastructureRef": ref(KUBEWRIGHT_MACHINE, name)}
    )


async def make_authority(person: Person) -> KeyPair:
    """The authority of the cluster, as a user or a control plane provider brings it."""
    pair = new_cluster_authority(clock_of(person).now(), Algorithm.EC)
    meta = {"name": "demo-ca", "namespace": NAMESPACE_NAME, "labels": LABELS}
    data = {"tls.crt": pair.certificate.decode(), "tls.key": pair.key.decode()}
    await person.make(SECRET, "demo-ca", metadata=meta, stringData=data, type=SECRET_TYPE)
    return pair


def clock_of(person: Person) -> Clock:
    """The time of servers."""
    return person.world.client.clock


def without_plaintext(person: Person) -> bool:
    """The machines run, and no Machine has its data in itself any more."""
    plain = any("data" in each["spec"]["bootstrap"] for each in acts.machines(person))
    return running(1)(person) and not plain


# ---------------------------------------------------------------- a foreign control plane


async def bring_control_plane(person: Person) -> None:
    """Infrastructure and control plane are other programs'; the workers are ours."""
    pair = await make_authority(person)
    await person.world.part(Planes).begin(PlaneRequest(ADDRESS, pair.certificate, pair.key))
    meta = {"name": "demo", "namespace": NAMESPACE_NAME, "annotations": {MANAGED_BY_ANNOTATION: "terraform"}}
    await person.make(KUBEWRIGHT_CLUSTER, "demo", metadata=meta, spec={"controlPlaneEndpoint": ENDPOINT})
    await person.make(FOO_PLANE, "demo", spec={"version": OLD})
    refs = {"infrastructureRef": ref(KUBEWRIGHT_CLUSTER, "demo"), "controlPlaneRef": ref(FOO_PLANE, "demo")}
    await person.make(CLUSTER, "demo", spec=refs)
    await acts.make_workers(2)(person)
    await person.wait(2)
    await person.patch(KUBEWRIGHT_CLUSTER, "demo", {"status": {"ready": True}}, "status")
    await make_kubeconfig(person, pair)
    told = {"ready": True, "initialized": True, "externalManagedControlPlane": True, "version": OLD}
    await person.patch(FOO_PLANE, "demo", {"status": told}, "status")


async def make_kubeconfig(person: Person, pair: KeyPair) -> None:
    """The kubeconfig of the cluster, as its control plane provider brings it."""
    owned_by = person.world.journal.objects[resources.CLUSTERS][f"{NAMESPACE_NAME}/demo"]
    owner = OwnerReference(
        api_version=API_VERSION, kind="Cluster", name="demo", uid=owned_by["metadata"]["uid"]
    )
    authority = read_secret(Secret(data={"tls.crt": pair.certificate, "tls.key": pair.key}))
    now, place = clock_of(person).now(), ApiEndpoint(host=HOST, port=PORT)
    body = kubeconfig_secret("demo", owner, place, authority, now)
    body["metadata"]["namespace"] = NAMESPACE_NAME
    await person.make(
        SECRET, "demo-kubeconfig", **{part: body[part] for part in ("metadata", "type", "data")}
    )


managed_elsewhere = then(bring_control_plane, until(running(2, planes=0), "a cluster", 300))
"""A cluster whose control plane is managed elsewhere, and that is up."""


remove = then(lambda person: person.remove(CLUSTER, "demo"))
"""The Cluster goes; its infrastructure is not ours to take down, so that nothing holds it."""


# ---------------------------------------------------------------- two worlds


async def grow_both(person: Person) -> None:
    """Both worlds grow, lose a machine and roll at one time; a VM that no machine wants is there too."""
    await person.make_vm("stray")
    await person.roll("pool", "large")
    await acts.roll(person)
    await person.change("pool", replicas=3)
    await acts.scale(3)(person)
    await person.wait(2.0)
    await acts.delete_machine(name_of(acts.workers(person)[0]))(person)
    await person.delete_machine(str(person.machines[0]["metadata"]["name"]))
    await person.wait(200.0)  # longer than it takes until an orphan is found and confirmed


async def make_pool(person: Person) -> None:
    """Two machines of a MachineClass."""
    await person.deploy("pool", 2)
    await person.until(lambda: len(_pool(person)) == 2, "a pool", seconds=300)


def both(person: Person) -> bool:
    """Three machines of each world run, with their VMs, and no VM more."""
    others = [vm for vm in person.vms if vm.bootstrap is None]
    classes = [str(each["spec"]["class"]["name"]) for each in _pool(person)]
    return running(3, acts.NEW)(person) and classes == ["large"] * 3 == [vm.class_name for vm in others]


def _pool(person: Person) -> list[Mapping[str, Any]]:
    found = person.machines
    well = [
        each for each in found if each.get("status", {}).get("currentStatus", {}).get("phase") == "Running"
    ]
    return well if len(well) == len(found) else []


STORIES = (
    story("data-lost", lose_data, running(3), before=cluster()),
    story("own-data", bring_data, without_plaintext),
    story("managed-elsewhere", bring_control_plane, running(2, planes=0)),
    story("managed-elsewhere-gone", remove, acts.nothing_left, before=managed_elsewhere),
    story("beside-a-pool", grow_both, both, cluster(2, make_pool), realm=BESIDE_A_POOL),
)
