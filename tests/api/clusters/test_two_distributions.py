"""Two distributions of Kubernetes on one infrastructure: kubeadm's, and one whose data only its own images read.

The second one's bootstrap provider is this test: a kind that Kubewright does not know, and a Secret in a format of
its own.
"""

import asyncio
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import yaml

from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT
from kubewright.api.core import CRD, SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE_TEMPLATE
from kubewright.api.kinds import dynamic
from kubewright.compose.worlds import every_word
from kubewright.testing.world import SHORT_TIMEOUTS, embedded_world
from kubewright.wire.gvk import Key, Resource

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster.yaml"
OPTIONS = replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS))
NS, GROUP = "default", "bootstrap.cluster.x-k8s.io"
CONFIG = dynamic(Resource(GROUP, "v1alpha3", "otherconfigs", "OtherConfig"))
TEMPLATE = dynamic(Resource(GROUP, "v1alpha3", "otherconfigtemplates", "OtherConfigTemplate"))
DATA = b"\x00version: v1alpha1\nmachine: {type: worker}\n"


def definition(kind):
    """The CRD of a provider's kind, which follows the contract v1beta1."""
    resource = kind.resource
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": open_schema},
        "subresources": {"status": {}},
    }
    return {
        "metadata": {"name": str(resource), "labels": {"cluster.x-k8s.io/v1beta1": resource.version}},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def ref(kind, name):
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


async def make(client, kind, name, spec):
    await client.create(dynamic(kind.resource), {"metadata": {"name": name}, "spec": spec}, namespace=NS)


async def provide(client):
    """What the other bootstrap provider does for each of its objects that a Machine owns."""
    for each in await client.list(CONFIG, NS):
        name = each["metadata"]["name"]
        data = {"value": b64encode(DATA).decode(), "format": b64encode(b"other").decode()}
        await client.create(
            dynamic(SECRET.resource), {"metadata": {"name": name}, "data": data}, namespace=NS
        )
        status = {"ready": True, "dataSecretName": name}
        await client.patch(CONFIG, Key(NS, name), {"status": status}, subresource="status")


async def test_another_distribution_runs_beside_kubeadms_on_the_same_infrastructure():
    async with embedded_world(OPTIONS) as world:
        client = world.client
        for kind in (CONFIG, TEMPLATE):
            await client.create(CRD, definition(kind))
        for body in yaml.safe_load_all(EXAMPLE.read_text()):
            plural = {"KubeadmConfig": "kubeadmconfigs"}.get(body["kind"], f"{body['kind'].lower()}s")
            group, _, version = body["apiVersion"].partition("/")
            kind = dynamic(Resource(group, version, plural, body["kind"]))
            await client.create(kind, body, namespace=NS)
        await make(
            client, KUBEWRIGHT_CLUSTER, "other", {"controlPlaneEndpoint": {"host": "10.9.9.9", "port": 6443}}
        )
        await make(client, CLUSTER, "other", {"infrastructureRef": ref(KUBEWRIGHT_CLUSTER, "other")})
        await make(client, KUBEWRIGHT_MACHINE_TEMPLATE, "other", {"template": {"spec": {"providerSpec": {}}}})
        await make(client, TEMPLATE, "other", {"template": {"spec": {}}})
        spec = {
            "clusterName": "other",
            "bootstrap": {"configRef": ref(TEMPLATE, "other")},
            "infrastructureRef": ref(KUBEWRIGHT_MACHINE_TEMPLATE, "other"),
        }
        deployment = {"clusterName": "other", "replicas": 2, "selector": {}, "template": {"spec": spec}}
        await make(client, MACHINE_DEPLOYMENT, "other", deployment)
        await asyncio.sleep(20)
        await provide(client)
        await asyncio.sleep(60)

        found = await client.list(MACHINE, NS)
        phases = {"blue": [], "other": []}
        for each in found:
            phases[each.spec.cluster_name].append(each.status.phase)
        assert phases == {"blue": ["Running"] * 4, "other": ["Provisioned"] * 2}
        vms = {vm.name: vm.bootstrap for vm in world.cloud.vms.values()}
        booted = [(each.spec.cluster_name, vms[each.name]) for each in found]
        assert {boot.data for cluster, boot in booted if cluster == "other"} == {DATA}
        assert {(cluster, boot.format) for cluster, boot in booted} == {
            ("blue", "cloud-config"),
            ("other", "other"),
        }
