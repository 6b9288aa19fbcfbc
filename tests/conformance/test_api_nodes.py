"""What a kubelet may do: its own objects, its pods, and what these refer to. The same on both servers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.testing.api import Api, Object

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CSI = "/apis/storage.k8s.io/v1/csinodes"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NODES = "/api/v1/nodes"


def node(api: Api) -> str:
    return f"n-{api.namespace}"


def other(api: Api) -> str:
    return f"o-{api.namespace}"


def kubelet(api: Api) -> Api:
    return api.as_user(f"system:node:{node(api)}", group="system:nodes")


async def code(api: Api, method: str, path: str, body: Any = None, **query: str) -> int:
    return (await api.call(method, path, body, query=query)).code


def pod(name: str, where: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": where, "containers": [{"name": "c", "image": "i"}], **spec},
    }


@pytest.fixture
async def there(api: Api) -> AsyncIterator[None]:
    """Two nodes; objects in the namespace; a pod of the node refers to those whose names begin with ``mine``."""
    for name in (node(api), other(api)):
        (await api.post(NODES, {"metadata": {"name": name}})).ok()
    for name in ("mine", "mine-env", "mine-pull", "mine-all", "theirs", "free"):
        (await api.post(api.at("secrets"), {"metadata": {"name": name}})).ok()
        (await api.post(api.at("configmaps"), {"metadata": {"name": name}})).ok()
    for name in ("mine", "theirs"):
        (await api.post(api.at("serviceaccounts"), {"metadata": {"name": name}})).ok()
    containers = [{
        "name": "c", "image": "i",
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "mine-env", "key": "a", "optional": True}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "mine-env", "key": "a", "optional": True}}},
        ],
    }]  # fmt: skip
    volumes = [
        {"name": "s", "secret": {"secretName": "mine"}},
        {"name": "m", "configMap": {"name": "mine"}},
        {"name": "p", "projected": {"sources": [
            {"secret": {"name": "mine-all"}}, {"configMap": {"name": "mine-all"}}]}},
    ]  # fmt: skip
    mine = pod(
        "mine",
        node(api),
        serviceAccountName="mine",
        volumes=volumes,
        imagePullSecrets=[{"name": "mine-pull"}],
    )
    mine["spec"]["containers"] = containers
    (await api.post(api.at("pods"), mine)).ok()
    theirs = pod(
        "theirs",
        other(api),
        serviceAccountName="theirs",
        volumes=[{"name": "s", "secret": {"secretName": "theirs"}}],
    )
    (await api.post(api.at("pods"), theirs)).ok()

    async def known() -> bool:
        return await code(kubelet(api), "GET", api.at("secrets", "mine")) == 200

    await api.eventually(known, "the server knows the pod")
    yield
    for name in (node(api), other(api)):
        await api.delete(f"{NODES}/{name}")


READS = [
    ("secrets", "mine", 200), ("secrets", "mine-env", 200), ("secrets", "mine-pull", 200), ("secrets", "mine-all", 200),
    ("secrets", "theirs", 403), ("secrets", "free", 403), ("secrets", "missing", 403),
    ("configmaps", "mine", 200), ("configmaps", "mine-env", 200), ("configmaps", "mine-all", 200),
    ("configmaps", "theirs", 403), ("serviceaccounts", "mine", 200), ("serviceaccounts", "theirs", 403),
    ("pods", "mine", 200), ("pods", "theirs", 403), ("persistentvolumeclaims", "mine", 403),
]  # fmt: skip


async def test_a_kubelet_reads_what_its_pods_refer_to_and_nothing_else(api: Api, there: None) -> None:
    seen = {(kind, name): await code(kubelet(api), "GET", api.at(kind, name)) for kind, name, _ in READS}
    assert seen == {(kind, name): wanted for kind, name, wanted in READS}


async def test_a_kubelet_lists_one_object_of_its_pods_and_its_pods_alone(api: Api, there: None) -> None:
    asking, secrets, pods = kubelet(api), api.at("secrets"), "/api/v1/pods"
    assert await code(asking, "GET", secrets, fieldSelector="metadata.name=mine") == 200
    assert await code(asking, "GET", secrets, fieldSelector="metadata.name=theirs") == 403
    assert await code(asking, "GET", secrets) == 403
    assert await code(asking, "GET", pods, fieldSelector=f"spec.nodeName={node(api)}") == 200
    assert await code(asking, "GET", pods, fieldSelector=f"spec.nodeName={other(api)}") == 403
    assert await code(asking, "GET", pods) == 403
    assert await code(asking, "GET", NODES, fieldSelector=f"metadata.name={node(api)}") == 200
    assert await code(asking, "GET", NODES) == 403
    assert await code(asking, "GET", f"{NODES}/{node(api)}") == 200
    assert await code(asking, "GET", f"{NODES}/{other(api)}") == 403
    for free in (
        "/api/v1/services",
        "/apis/storage.k8s.io/v1/csidrivers",
        "/apis/node.k8s.io/v1/runtimeclasses",
    ):
        assert await code(asking, "GET", free) == 200


async def test_a_kubelet_gets_tokens_for_the_accounts_of_its_pods(api: Api, there: None) -> None:
    uid = (await api.get(api.at("pods", "mine"))).ok()["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": uid}
    body = {"spec": {"audiences": ["https://kubernetes.default.svc"], "boundObjectRef": bound}}
    assert await code(kubelet(api), "POST", api.at("serviceaccounts", "mine") + "/token", body) == 201
    assert await code(kubelet(api), "POST", api.at("serviceaccounts", "theirs") + "/token", body) == 403


async def test_a_kubelet_has_the_lease_and_the_csinode_of_its_name(api: Api, there: None) -> None:
    asking = kubelet(api)
    spec = {"holderIdentity": node(api), "leaseDurationSeconds": 40}
    assert await code(asking, "POST", LEASES, {"metadata": {"name": node(api)}, "spec": spec}) == 201
    assert await code(asking, "GET", f"{LEASES}/{node(api)}") == 200
    assert await code(asking, "GET", f"{LEASES}/{other(api)}") == 403
    assert await code(asking, "GET", LEASES) == 403
    assert (
        await code(
            asking, "POST", LEASES.replace("kube-node-lease", api.namespace), {"metadata": {"name": "a"}}
        )
        == 403
    )
    assert await code(asking, "POST", CSI, {"metadata": {"name": node(api)}, "spec": {"drivers": []}}) == 201
    assert await code(asking, "GET", f"{CSI}/{other(api)}") == 403
    for each in (f"{LEASES}/{node(api)}", f"{CSI}/{node(api)}"):
        assert await code(asking, "DELETE", each) == 200


async def test_a_kubelet_deletes_the_slices_of_its_node_only(api: Api, there: None) -> None:
    asking = kubelet(api)
    assert await code(asking, "DELETE", SLICES, fieldSelector=f"spec.nodeName={node(api)}") == 200
    assert await code(asking, "DELETE", SLICES, fieldSelector=f"spec.nodeName={other(api)}") == 403
    assert await code(asking, "DELETE", SLICES) == 403


async def test_who_only_says_that_they_are_a_node_is_none(api: Api, there: None) -> None:
    named = api.as_user(f"system:node:{node(api)}", group="people")
    grouped = api.as_user("ann", group="system:nodes")
    nameless = api.as_user("system:node:", group="system:nodes")
    for asking in (named, grouped, nameless):
        assert await code(asking, "GET", api.at("secrets", "mine")) == 403
        assert await code(asking, "GET", f"{NODES}/{node(api)}") == 403


async def test_a_review_knows_what_a_node_may(api: Api, there: None) -> None:
    user = {"user": f"system:node:{node(api)}", "groups": ["system:nodes"]}
    for name, wanted in (("mine", True), ("theirs", False)):
        what = {"namespace": api.namespace, "verb": "get", "resource": "secrets", "name": name}
        review = {"spec": {**user, "resourceAttributes": what}}
        answer = (await api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)).ok()
        assert bool(answer["status"].get("allowed")) is wanted


async def test_a_kubelet_reads_volumes_of_its_pods_claims_and_what_their_drivers_need(
    api: Api, there: None
) -> None:
    """A claim may name any volume; a volume is for the claim that it names itself."""
    asking, volumes = kubelet(api), "/api/v1/persistentvolumes"
    size, modes = {"storage": "1Gi"}, {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    names = {each: f"{each}-{api.namespace}" for each in ("bound", "stolen")}
    for claim, volume in names.items():
        csi = {"driver": "a.b", "volumeHandle": "h"}
        for kind in ("nodeStage", "nodePublish", "controllerPublish"):
            csi[f"{kind}SecretRef"] = {"namespace": api.namespace, "name": f"{claim}-{kind.lower()}"}
        of = {"namespace": api.namespace, "name": claim if claim == "bound" else "another"}
        spec = {**modes, "capacity": size, "csi": csi, "claimRef": of}
        (await api.post(volumes, {"metadata": {"name": volume}, "spec": spec})).ok()
        spec = {**modes, "resources": {"requests": size}, "volumeName": volume}
        (await api.post(api.at("persistentvolumeclaims"), {"metadata": {"name": claim}, "spec": spec})).ok()
        used = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        (await api.post(api.at("pods"), pod(f"of-{claim}", node(api), volumes=used))).ok()
    at = f"{volumes}/{names['bound']}"

    async def known() -> bool:
        return await code(asking, "GET", at) == 200

    await api.eventually(known, "the server knows the pod")
    assert await code(asking, "GET", f"{volumes}/{names['stolen']}") == 403
    secrets = [
        f"{claim}-{kind}" for claim in names for kind in ("nodestage", "nodepublish", "controllerpublish")
    ]
    read = {each for each in secrets if await code(asking, "GET", api.at("secrets", each)) == 404}
    assert read == {"bound-nodestage", "bound-nodepublish"}
    for volume in names.values():
        await api.delete(f"{volumes}/{volume}")


async def test_rights_end_with_the_pod(api: Api, there: None) -> None:
    (await api.call("DELETE", api.at("pods", "mine"), {"gracePeriodSeconds": 0})).ok()

    async def ended() -> bool:
        return await code(kubelet(api), "GET", api.at("secrets", "mine")) == 403

    await api.eventually(ended, "the right has ended")
