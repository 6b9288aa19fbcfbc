"""The loops on a real kube-apiserver, in the place of its controller manager's.

What the embedded server and the tests beside this one believe about owner references, finalizers,
namespaces, budgets and evictions is what a real server does. Real time: one story, some 20 seconds.
"""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from kubewright.api.apps import DEPLOYMENT, REPLICA_SET
from kubewright.api.core import NAMESPACE, NODE, PDB, POD
from kubewright.api.kinds import dynamic
from kubewright.base.clock import SystemClock, rfc3339
from kubewright.builtin import Settings, controllers
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.kube.informer import Informers
from kubewright.runtime.events import Recorder
from kubewright.runtime.leader import Elector
from kubewright.runtime.lease import Timings
from kubewright.runtime.manager import Work
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.servers import alone
from kubewright.testing.workloads import NOWHERE, real_workloads, revision
from kubewright.wire.errors import AlreadyExists, TooManyRequests
from kubewright.wire.gvk import Key, Resource

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(180)]

CONFIG_MAP = dynamic(Resource("", "v1", "configmaps", "ConfigMap"))
SERVICE_ACCOUNT = dynamic(Resource("", "v1", "serviceaccounts", "ServiceAccount"))
KINDS = (CONFIG_MAP, NAMESPACE, NODE, PDB, POD, SERVICE_ACCOUNT)
CONFIG_MAPS, NAMESPACES, NODES, BUDGETS, PODS, ACCOUNTS = (dynamic(kind.resource) for kind in KINDS)
QUICK = Settings(nodes=NodeSettings(grace=3, startup=3, taints=True), pod_quarantine=1, run_apps=True)
LEASE_KEY = Key("kube-system", "kubewright-builtin")


@asynccontextmanager
async def controlled(real_kubernetes):
    """A user's client; meanwhile our loops run as the elected leader."""
    clock = SystemClock()
    client = Client(load(real_kubernetes.kubeconfig), clock, name="real")
    informers = Informers(client)
    recorder = Recorder(client, clock, "kubewright", kinds=(DEPLOYMENT, REPLICA_SET))
    built = controllers(informers, settings=QUICK, recorder=recorder)
    elector = Elector(client, clock, LEASE_KEY, identity="me", timings=Timings(6, 4, 2))
    work = Work(built.controllers, [informers], built.background)
    manager = alone(clock, work, services=[recorder.run], elector=elector)
    stop = asyncio.Event()
    task = asyncio.create_task(manager.run(stop))
    try:
        async with asyncio.timeout(30):
            await manager.settled()
        yield client
    finally:
        stop.set()
        await task
        await client.close()


async def until(check, what, seconds=20.0):
    async def ask():
        while not await check():  # noqa: ASYNC110  a real server
            await asyncio.sleep(0.1)

    try:
        await asyncio.wait_for(ask(), seconds)
    except TimeoutError:
        pytest.fail(f"not within {seconds:g} s: {what}")


async def names(client, kind, namespace="default"):
    return {each["metadata"]["name"] for each in await client.list(kind, namespace)}


async def gone(client, kind, *who, namespace="default"):
    async def absent():
        return not set(who) & await names(client, kind, namespace)

    await until(absent, f"{who} gone")


async def config_map(client, name, *owners, namespace="default", **metadata):
    refs = [
        {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
        | {part: owner["metadata"][part] for part in ("name", "uid")}
        for owner in owners
    ]
    metadata = {"name": name, **({"ownerReferences": refs} if refs else {}), **metadata}
    return await client.create(CONFIG_MAPS, {"metadata": metadata}, namespace=namespace)


async def test_the_loops_do_their_work_on_a_real_server():
    options = Options(fsync=False, controllers=("serviceaccount-controller",))
    async with (
        RealKubernetes(find(), SystemClock(), options) as real_kubernetes,
        controlled(real_kubernetes) as client,
    ):
        await owners_and_dependents(client)
        await end_of_a_namespace(client)
        await a_silent_node_and_its_pods(client)


async def owners_and_dependents(client):
    key = Key("default", "a")
    b = await config_map(client, "b", await config_map(client, "a"))
    await config_map(client, "c", b)
    await client.delete(CONFIG_MAPS, key)
    await gone(client, CONFIG_MAPS, "a", "b", "c")

    b = await config_map(client, "b", await config_map(client, "a"))
    await config_map(client, "c", b, finalizers=["example.org/hold"])
    await client.delete(CONFIG_MAPS, key, propagation="Foreground")
    await asyncio.sleep(1)
    assert await names(client, CONFIG_MAPS) >= {"a", "b", "c"}
    await client.patch(CONFIG_MAPS, Key("default", "c"), {"metadata": {"finalizers": None}})
    await gone(client, CONFIG_MAPS, "a", "b", "c")

    await config_map(client, "b", await config_map(client, "a"))
    await client.delete(CONFIG_MAPS, key, propagation="Orphan")
    await gone(client, CONFIG_MAPS, "a")
    free = await client.get(CONFIG_MAPS, Key("default", "b"))
    assert "ownerReferences" not in free["metadata"]


async def end_of_a_namespace(client):
    await client.create(NAMESPACES, {"metadata": {"name": "team"}})
    await config_map(client, "held", namespace="team", finalizers=["example.org/hold"])
    await client.delete(NAMESPACES, Key("", "team"))

    async def is_held():
        conditions = (await client.get(NAMESPACES, Key("", "team")))["status"].get("conditions", ())
        return any(each["reason"] == "SomeFinalizersRemain" for each in conditions)

    await until(is_held, "conditions of the namespace")
    await client.patch(CONFIG_MAPS, Key("team", "held"), {"metadata": {"finalizers": None}})
    await gone(client, NAMESPACES, "team", namespace="")


async def a_silent_node_and_its_pods(client):
    node, now = Key("", "n1"), rfc3339(client.clock.now())
    await client.create(NODES, {"metadata": {"name": "n1"}})
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    await client.patch(NODES, node, {"status": {"conditions": [ready]}}, subresource="status")
    await budget_and_evictions(client)

    async def unreachable():
        taints = (await client.get(NODES, node))["spec"].get("taints", ())
        return {each["effect"] for each in taints if each["key"] == "node.kubernetes.io/unreachable"} == {
            "NoSchedule"
        }  # and no taint that evicts, since no other node lives

    await until(unreachable, "node unreachable")
    conditions = (await client.get(NODES, node))["status"]["conditions"]
    assert {each["status"] for each in conditions} == {"Unknown"}
    await client.delete(NODES, node)
    await gone(client, PODS, "p0", "p1", "p2")


async def budget_and_evictions(client):
    with suppress(AlreadyExists):
        await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace="default")
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    for name in ("p0", "p1", "p2"):
        metadata = {"name": name, "labels": {"app": "web"}}
        await client.create(PODS, {"metadata": metadata, "spec": spec}, namespace="default")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(PODS, Key("default", name), {"status": status}, subresource="status")
    budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    await client.create(BUDGETS, {"metadata": {"name": "web"}, "spec": budget}, namespace="default")

    async def counted():
        status = (await client.get(BUDGETS, Key("default", "web"))).get("status", {})
        return (status.get("currentHealthy"), status.get("disruptionsAllowed")) == (3, 1)

    await until(counted, "budget counted")
    await client.evict(Key("default", "p0"))
    with pytest.raises(TooManyRequests):
        await client.evict(Key("default", "p1"))


async def test_deployments_are_rolled_out_on_a_real_server():
    options = Options(fsync=False, controllers=("serviceaccount-controller",))
    async with (
        RealKubernetes(find(), SystemClock(), options) as real_kubernetes,
        controlled(real_kubernetes),
        real_workloads(real_kubernetes) as apps,
    ):
        await apps.deploy("web", 3)
        await apps.rolled_out("web")
        await apps.retemplate("web", **NOWHERE)
        await apps.until("web", lambda found: found["status"].get("unavailableReplicas") == 1, "it is stuck")
        await apps.retemplate("web", "app:3", nodeSelector=None)
        await apps.rolled_out("web")
        await apps.change("web", {"replicas": 1})
        await apps.pods_are("web", 1)
        assert [revision(each) for each in await apps.sets("web")] == [1, 2, 3]
        reasons = {reason for _, _, reason, _ in await apps.events("web")}
        assert reasons == {"ScalingReplicaSet"}
        await apps.delete("deployments", "web", "Foreground")
        await apps.api.gone(apps.api.at("deployments", "web", group="apps"))
        assert await apps.pods("web") == []
