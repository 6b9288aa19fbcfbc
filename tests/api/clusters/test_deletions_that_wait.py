"""No deletion of a cluster hangs without a reason: what is not there is not waited for, the rest is told."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kubewright.api import catalog
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import CRD, SECRET
from kubewright.api.infra.v1beta1 import GROUP
from kubewright.api.kinds import dynamic
from kubewright.compose.worlds import every_word
from kubewright.testing.world import SHORT_TIMEOUTS, embedded_world
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

EXAMPLES = Path(__file__).parents[3] / "examples"
OPTIONS = replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS))
NS, BLUE = "default", Key("default", "blue")
KINDS = {
    (each.kind.resource.api_version, each.kind.resource.kind): each.kind
    for definitions in catalog.DEFINITIONS.values()
    for each in definitions
}
CONTRACT = "cluster.x-k8s.io/v1beta1"
ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def ref(kind, name="blue"):
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "name": name}


def definition(kind):
    plural = f"{kind.lower()}s"
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": ANYTHING}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}


async def apply(world, *, cluster=None, infrastructure=None, machine=None):
    """The example, with these fields in the specs of some of its objects."""
    changes = {"Cluster": cluster, "KubewrightCluster": infrastructure, "Machine": machine}
    for body in yaml.safe_load_all((EXAMPLES / "cluster.yaml").read_text()):
        body["spec"] = {**body["spec"], **(changes.get(body["kind"]) or {})}
        await world.client.create(KINDS[body["apiVersion"], body["kind"]], body, namespace=NS)
    await asyncio.sleep(60)


async def told_after_deletion(world, kind=CLUSTER, key=BLUE):
    """What the conditions say of an object two minutes after its deletion; None: it is gone."""
    await world.client.delete(kind, key)
    await asyncio.sleep(120)
    try:
        found = await world.client.get(dynamic(kind.resource), key)
    except NotFound:
        return None
    return " ".join(each.get("message", "") for each in found["status"]["conditions"])


NOWHERE = {
    "infrastructure of a kind that is not installed": {"cluster": {"infrastructureRef": ref("FooCluster")}},
    "a control plane of a kind that is not installed": {"cluster": {"controlPlaneRef": ref("FooPlane")}},
    "infrastructure that is not there": {"cluster": {"infrastructureRef": ref("KubewrightCluster", "other")}},
    "a machine of a kind that is not installed": {"machine": {"infrastructureRef": ref("FooMachine")}},
    "a machine that is a ConfigMap": {
        "machine": {"infrastructureRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}
    },
    "bootstrap of a kind that is not installed": {"machine": {"bootstrap": {"configRef": ref("FooConfig")}}},
}


@pytest.mark.parametrize("changes", NOWHERE.values(), ids=NOWHERE)
async def test_what_cannot_be_there_is_not_waited_for(changes) -> None:
    async with embedded_world(OPTIONS) as world:
        await apply(world, **changes)
        assert await told_after_deletion(world) is None
        assert world.cloud.vms == {}


UNSEEN = {
    "Cluster": (CLUSTER, "blue", {"cluster": {"infrastructureRef": ref("FooThing")}}),
    "Machine": (MACHINE, "blue-control-plane", {"machine": {"infrastructureRef": ref("FooThing")}}),
}


@pytest.mark.parametrize(("kind", "name", "changes"), UNSEEN.values(), ids=UNSEEN)
async def test_what_may_be_there_and_cannot_be_seen_is_told_until_it_can(kind, name, changes) -> None:
    async with embedded_world(OPTIONS) as world:
        await world.client.create(CRD, definition("FooThing"))
        await apply(world, **changes)
        told = await told_after_deletion(world, kind, Key(NS, name))
        assert f"foothings.{GROUP} has no versions matching contract v1beta1" in told
        labelled = {"metadata": {"labels": {CONTRACT: "v1beta1"}}}
        await world.client.patch(CRD, Key("", f"foothings.{GROUP}"), labelled)
        await asyncio.sleep(10)
        with pytest.raises(NotFound):
            await world.client.get(kind, Key(NS, name))


async def test_credentials_that_are_gone_are_told_until_they_are_back() -> None:
    async with embedded_world(OPTIONS) as world:
        secret = {"metadata": {"name": "cloud"}, "data": {"key": "eA=="}}
        await world.client.create(SECRET, secret, namespace=NS)
        await apply(world, infrastructure={"credentialsRef": {"name": "cloud"}})
        assert len(world.cloud.vms) == 4
        await world.client.delete(SECRET, Key(NS, "cloud"))
        await world.client.patch(SECRET, Key(NS, "cloud"), {"metadata": {"finalizers": None}})
        assert "Machine blue-control-plane" in await told_after_deletion(world)
        machine = await world.client.get(dynamic(MACHINE.resource), Key(NS, "blue-control-plane"))
        told = " ".join(each.get("message", "") for each in machine["status"]["conditions"])
        assert "its VM cannot be deleted: there is no Secret cloud with credentials" in told
        await world.client.create(SECRET, secret, namespace=NS)
        await asyncio.sleep(120)
        assert world.cloud.vms == {}
        with pytest.raises(NotFound):
            await world.client.get(CLUSTER, BLUE)
