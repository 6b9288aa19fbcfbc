"""VMs of the simulated cloud that boot from bootstrap data: a control plane starts, nodes join. Time is virtual."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from tests.api.infra.management import management_cluster

from kubewright.api.core import NODE, SECRET
from kubewright.compose.api_servers import Planes
from kubewright.kube.informer import Informers
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import public_key_hashes
from kubewright.pki.keys import Algorithm
from kubewright.providers.sim.driver import HostingDriver
from kubewright.providers.sim.spec import KubeletSettings
from kubewright.wire.gvk import Key

SENTINEL = "/run/cluster-api/bootstrap-success.complete"
TOKEN = "abcdef.0123456789abcdef"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


class Borrowed(HostingDriver):
    """A driver on a cloud that is not its own."""

    async def close(self):
        """Nothing to put away."""


@dataclass
class Clusters:
    """The management cluster, the control planes, and the data that a bootstrap provider would write."""

    management: object
    planes: Planes
    authority: object

    def vm(self, name):
        return self.management.cloud.named(name)

    def files(self, name):
        """What the commands of a VM have written."""
        return dict(self.vm(name).bootstrap.files)

    async def endpoint(self, name="demo"):
        """Where the cluster's API server is going to be, as the driver has said."""
        for _ in range(100):
            found = (await self.management.infra_cluster(name)).spec.control_plane_endpoint
            if found is not None:
                return str(found)
            await asyncio.sleep(0.1)
        raise AssertionError("no endpoint")

    async def control_plane(self, name="cp", cluster="demo"):
        """The first machine of a cluster."""
        address = await self.endpoint(cluster)
        documents = [
            {"kind": "ClusterConfiguration", "controlPlaneEndpoint": address, "clusterName": cluster},
            {"kind": "InitConfiguration", "bootstrapTokens": [{"token": TOKEN}]},
        ]
        files = {
            "/etc/kubernetes/pki/ca.crt": self.authority.certificate.decode(),
            "/etc/kubernetes/pki/ca.key": self.authority.key.decode(),
            "/run/kubeadm/kubeadm.yaml": "\n---\n".join(map(json.dumps, documents)),
        }
        command = "kubeadm init --config /run/kubeadm/kubeadm.yaml"
        await self.machine(name, cluster, files, command)
        return address

    async def worker(self, name, address, *, token=TOKEN, hashes=None, cluster="demo", **node):
        """A further machine."""
        known = public_key_hashes(self.authority.certificate) if hashes is None else hashes
        by_token = {"apiServerEndpoint": address, "token": token, "caCertHashes": list(known)}
        document = {
            "kind": "JoinConfiguration",
            "discovery": {"bootstrapToken": by_token},
            "nodeRegistration": node,
        }
        await self.machine(name, cluster, {"/j": json.dumps(document)}, "kubeadm join --config /j")

    async def machine(self, name, cluster, files, command):
        body = {
            "write_files": [{"path": path, "content": text} for path, text in files.items()],
            "runcmd": [f"{command} && echo success > {SENTINEL}"],
        }
        await self.management.data(name, value=f"#cloud-config\n{json.dumps(body)}".encode())
        await self.management.machine(name, cluster=cluster, data=name)

    async def nodes(self, address):
        """Which nodes the cluster at this address has, and whether they are ready."""
        plane = self.planes.find(address)
        if plane is None:
            return None
        found = await plane.client.list(NODE)
        return {n.name: next(c.status for c in n.status.conditions if c.type == "Ready") for n in found}

    async def until(self, address, nodes, seconds=60):
        for _ in range(seconds * 2):
            if (found := await self.nodes(address)) == nodes:
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"{found} instead of {nodes}")


@asynccontextmanager
async def simulated():
    """A provider whose cloud runs control planes, and a cluster with an endpoint."""
    async with management_cluster() as management:
        clock = management.clock
        planes = Planes(clock)
        found = Clusters(management, planes, new_cluster_authority(clock.now(), Algorithm.EC))
        async with _cloud(management, planes):
            await management.cluster()
            await management.infrastructure_ready()
            yield found
        await planes.close()


@asynccontextmanager
async def _cloud(management, planes):
    """The provider and the cloud's kubelets."""
    driver = Borrowed(management.cloud, KubeletSettings(lease_seconds=8), planes)
    here = Informers(management.people)
    running = [asyncio.create_task(here.run()), asyncio.create_task(driver.run(here))]
    try:
        async with management.provider(driver):
            yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


async def test_a_cluster_comes_up():
    async with simulated() as clusters:
        address = await clusters.control_plane()
        await clusters.until(address, {"cp": "True"})
        await clusters.worker("w1", address, taints=[{"key": "a", "effect": "NoSchedule"}])
        await clusters.until(address, {"cp": "True", "w1": "True"})

        assert clusters.files("cp") == clusters.files("w1") == {SENTINEL: "success\n"}
        plane = clusters.planes.find(address)
        nodes = {each.name: each for each in await plane.client.list(NODE)}
        assert nodes["cp"].metadata.labels[CONTROL_PLANE] == ""
        assert [each.key for each in nodes["cp"].spec.taints] == [CONTROL_PLANE]
        assert [each.key for each in nodes["w1"].spec.taints] == ["a"]
        infra = await clusters.management.infra("w1")
        assert nodes["w1"].spec.provider_id == infra.spec.provider_id
        assert plane.authority == clusters.authority.certificate
        assert await clusters.management.people.list(NODE) == []


async def test_a_machine_joins_when_the_control_plane_comes_later():
    async with simulated() as clusters:
        address = await clusters.endpoint()
        await clusters.worker("w1", address)
        await asyncio.sleep(20)
        assert clusters.files("w1") == {}
        await clusters.control_plane()
        await clusters.until(address, {"cp": "True", "w1": "True"})


@pytest.mark.parametrize(
    ("wrong", "because"),
    [
        (
            {"token": "abcdef.0000000000000000"},
            "kubeadm join gave up after 300 s: the API server at {} does not know",
        ),
        ({"hashes": ("sha256:00",)}, "none of the caCertHashes is that of the CA of {}"),
        ({"hashes": ()}, "none of the caCertHashes is that of the CA of {}"),
    ],
    ids=["another token", "another hash", "no hash"],
)
async def test_a_machine_with_the_wrong_credentials_does_not_join(wrong, because):
    async with simulated() as clusters:
        address = await clusters.control_plane()
        await clusters.until(address, {"cp": "True"})
        await clusters.worker("w1", address, **wrong)
        await asyncio.sleep(400)

        assert await clusters.nodes(address) == {"cp": "True"}
        assert clusters.files("w1") == {}
        assert clusters.vm("w1").bootstrap.trouble.startswith(because.format(address))
        assert (await clusters.management.infra("w1")).status.ready


async def test_a_machine_with_the_wrong_endpoint_does_not_join():
    async with simulated() as clusters:
        address = await clusters.control_plane()
        await clusters.worker("w1", "127.0.0.1:1")
        await asyncio.sleep(400)

        assert await clusters.nodes(address) == {"cp": "True"}
        assert "no API server answers at 127.0.0.1:1" in clusters.vm("w1").bootstrap.trouble


async def test_an_expired_token_is_not_known():
    async with simulated() as clusters:
        address = await clusters.control_plane()
        await clusters.until(address, {"cp": "True"})
        expired = {"stringData": {"expiration": "2029-01-01T00:00:00Z"}}
        plane = clusters.planes.find(address)
        await plane.client.patch(SECRET, Key("kube-system", "bootstrap-token-abcdef"), expired)
        await clusters.worker("w1", address)
        await asyncio.sleep(20)

        assert await clusters.nodes(address) == {"cp": "True"}


async def test_a_dead_worker_shows_in_its_own_cluster():
    async with simulated() as clusters:
        address = await clusters.control_plane()
        await clusters.worker("w1", address)
        await clusters.until(address, {"cp": "True", "w1": "True"})
        clusters.management.cloud.kill(clusters.vm("w1").id)
        await clusters.until(address, {"cp": "True", "w1": "Unknown"})
        clusters.management.cloud.restart(clusters.vm("w1").id)
        await clusters.until(address, {"cp": "True", "w1": "True"})


async def test_a_control_plane_is_away_while_its_machine_is_off_and_keeps_what_it_has():
    async with simulated() as clusters:
        address = await clusters.control_plane()
        await clusters.worker("w1", address)
        await clusters.until(address, {"cp": "True", "w1": "True"})
        clusters.management.cloud.kill(clusters.vm("cp").id)
        await asyncio.sleep(5)
        assert await clusters.nodes(address) is None
        clusters.management.cloud.restart(clusters.vm("cp").id)
        await clusters.until(address, {"cp": "True", "w1": "True"})


async def test_a_control_plane_ends_with_its_machine():
    async with simulated() as clusters:
        address = await clusters.control_plane()
        await clusters.until(address, {"cp": "True"})
        await clusters.management.delete("cp")
        await clusters.management.until(lambda found: found is None, "cp")
        await asyncio.sleep(1)

        assert clusters.planes.find(address) is None
        assert clusters.management.vms() == []


async def test_a_node_runs_the_version_that_its_machine_asks_for():
    async with simulated() as clusters:
        management = clusters.management
        for name, own, spec in (
            ("asked", {"version": "v1.31.0"}, {}),
            ("named", {"version": "v1.31.0"}, {"providerSpec": {"kubeletVersion": "v1.30.2"}}),
            ("silent", {}, {}),
        ):
            await management.data(name, value=b"#cloud-config\n{}\n")
            await management.machine(name, data=name, spec=spec, **own)
            await management.until(lambda found: found.status.ready, name)
        versions = [clusters.vm(name).spec.kubelet_version for name in ("asked", "named", "silent")]
        assert versions == ["v1.31.0", "v1.30.2", "v1.36.3"]


async def test_two_clusters_have_nothing_in_common():
    async with simulated() as clusters:
        await clusters.management.cluster("other")
        await clusters.management.infrastructure_ready("other")
        one = await clusters.control_plane()
        two = await clusters.control_plane("cp2", "other")
        await clusters.worker("w1", one)
        await clusters.worker("w2", two, cluster="other")

        assert one != two
        await clusters.until(one, {"cp": "True", "w1": "True"})
        await clusters.until(two, {"cp2": "True", "w2": "True"})


async def test_data_that_starts_nothing_makes_a_vm_and_no_node():
    async with simulated() as clusters:
        await clusters.management.data("bare", value=b"#cloud-config\nruncmd: [echo hello]\n")
        await clusters.management.machine("m1", data="bare")
        await clusters.management.until(lambda found: found is not None and found.status.ready)
        await asyncio.sleep(30)

        assert clusters.vm("m1").bootstrap.cluster == ""
        assert await clusters.management.people.list(NODE) == []


@pytest.mark.parametrize(
    "given",
    [{"dataSecretName": "empty"}, {"dataSecretName": ""}],
    ids=["a Secret with an empty value", "an empty name of a Secret"],
)
async def test_empty_data_make_a_vm_that_boots_and_runs_nothing(given):
    async with simulated() as clusters:
        await clusters.management.data("empty", value=b"")
        await clusters.management.machine("m1", data="")
        await clusters.management.change("m1", bootstrap=given)
        await clusters.management.until(lambda found: found is not None and found.status.ready)
        await asyncio.sleep(30)

        booted = clusters.vm("m1").bootstrap
        assert (booted.data, booted.files, booted.cluster, booted.trouble) == (b"", {}, "", "")
        assert await clusters.management.people.list(NODE) == []


async def test_a_process_that_ends_loses_no_cluster():
    async with management_cluster() as management:
        planes = Planes(management.clock)
        clusters = Clusters(management, planes, new_cluster_authority(management.clock.now(), Algorithm.EC))
        async with _cloud(management, planes):
            await management.cluster()
            await management.infrastructure_ready()
            address = await clusters.control_plane()
            await clusters.worker("w1", address)
            await clusters.until(address, {"cp": "True", "w1": "True"})
        await planes.pause(address)
        await asyncio.sleep(60)
        async with _cloud(management, planes):
            await clusters.until(address, {"cp": "True", "w1": "True"})
            assert management.vms() == ["cp", "w1"]
            await clusters.worker("w2", address)
            await clusters.until(address, {"cp": "True", "w1": "True", "w2": "True"})
        await planes.close()


async def test_a_second_machine_of_the_control_plane_keeps_the_cluster():
    async with simulated() as clusters:
        address = await clusters.control_plane()
        await clusters.until(address, {"cp": "True"})
        known = list(public_key_hashes(clusters.authority.certificate))
        by_token = {"apiServerEndpoint": address, "token": TOKEN, "caCertHashes": known}
        document = {
            "kind": "JoinConfiguration",
            "controlPlane": {},
            "discovery": {"bootstrapToken": by_token},
        }
        await clusters.machine("cp2", "demo", {"/j": json.dumps(document)}, "kubeadm join --config /j")
        await clusters.until(address, {"cp": "True", "cp2": "True"})
        clusters.management.cloud.kill(clusters.vm("cp").id)
        await clusters.until(address, {"cp": "Unknown", "cp2": "True"})
        await clusters.management.delete("cp")
        await clusters.management.until(lambda found: found is None, "cp")
        await asyncio.sleep(30)
        assert await clusters.nodes(address) == {"cp": "Unknown", "cp2": "True"}
