"""What a node may do: what its pods refer to, where they refer to it, and what a node may not write."""

import pytest

from kubewright.apiserver.authorization.defaults import NODE_ROLE, RULES
from kubewright.apiserver.authorization.nodes import NodeRights, node_of, references, wrong_write
from kubewright.apiserver.authorization.policy import Attributes
from kubewright.wire.http import User

NODE = User("system:node:a", ("system:nodes", "system:authenticated"))
VOLUMES = {
    "a Secret": ({"secret": {"secretName": "x"}}, {("secrets", "x")}),
    "a ConfigMap": ({"configMap": {"name": "x"}}, {("configmaps", "x")}),
    "a claim": ({"persistentVolumeClaim": {"claimName": "x"}}, {("persistentvolumeclaims", "x")}),
    "a claim of its own": ({"name": "v", "ephemeral": {}}, {("persistentvolumeclaims", "p-v")}),
    "a driver's Secret": ({"csi": {"nodePublishSecretRef": {"name": "x"}}}, {("secrets", "x")}),
    "an older driver's Secret": ({"rbd": {"secretRef": {"name": "x"}}}, {("secrets", "x")}),
    "a share's Secret": ({"azureFile": {"secretName": "x"}}, {("secrets", "x")}),
    "several": (
        {"projected": {"sources": [{"secret": {"name": "x"}}, {"configMap": {"name": "y"}}, {"serviceAccountToken": {}}]}},
        {("secrets", "x"), ("configmaps", "y")},
    ),
    "nothing": ({"emptyDir": {}}, set()),
}  # fmt: skip


def pod(**spec):
    return {"metadata": {"name": "p", "namespace": "n"}, "spec": spec}


@pytest.mark.parametrize("what", VOLUMES)
def test_a_volume_refers_to(what):
    volume, found = VOLUMES[what]
    assert set(references(pod(volumes=[volume]))) == found


@pytest.mark.parametrize("part", ["containers", "initContainers", "ephemeralContainers"])
def test_variables_of_each_sort_of_container_count(part):
    container = {
        "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}],
        "env": [
            {"name": "plain", "value": "x"},
            {"valueFrom": {"secretKeyRef": {"name": "c"}}},
            {"valueFrom": {"configMapKeyRef": {"name": "d"}}},
            {"valueFrom": {"fieldRef": {"fieldPath": "e"}}},
        ],
    }
    wanted = {("secrets", "a"), ("configmaps", "b"), ("secrets", "c"), ("configmaps", "d")}
    assert set(references(pod(**{part: [container]}))) == wanted


def test_a_mirror_pod_refers_to_nothing():
    mirror = pod(serviceAccountName="x", volumes=[{"secret": {"secretName": "x"}}])
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "h"}
    assert list(references(mirror)) == []


VOLUME = {
    "metadata": {"name": "volume"},
    "spec": {
        "claimRef": {"namespace": "n", "name": "claim"},
        "csi": {
            "nodeStageSecretRef": {"namespace": "drivers", "name": "stage"},
            "controllerPublishSecretRef": {"namespace": "drivers", "name": "controller"},
        },
        "rbd": {"secretRef": {"name": "usual"}},
        "azureFile": {"secretName": "share", "secretNamespace": "m"},
    },
}


class Objects:
    """One pod on node ``a``, whose claim is bound; an attachment and a slice of it."""

    def pods_on(self, node):
        volumes = [{"persistentVolumeClaim": {"claimName": "claim"}}]
        claims = [{"name": "d", "resourceClaimName": "device"}]
        return [pod(volumes=volumes, resourceClaims=claims)] if node == "a" else []

    def volume_of(self, namespace, claim):
        return VOLUME if (namespace, claim) == ("n", "claim") else {}

    def node_of(self, resource, name, namespace=""):
        return {"mine": "a", "theirs": "b"}.get(name, "") if namespace in ("", "n") else ""


RIGHTS = NodeRights(RULES[NODE_ROLE], Objects())
STORAGE, DEVICES = "storage.k8s.io", "resource.k8s.io"
ASKED = [
    (("get", "", "persistentvolumeclaims", "", "n", "claim"), True),
    (("get", "", "persistentvolumeclaims", "", "m", "claim"), False),
    (("patch", "", "persistentvolumeclaims", "status", "n", "claim"), True),
    (("patch", "", "persistentvolumeclaims", "", "n", "claim"), False),
    (("get", "", "secrets", "", "drivers", "stage"), True),
    (("get", "", "secrets", "", "drivers", "controller"), False),
    (("get", "", "secrets", "", "n", "usual"), True),
    (("get", "", "secrets", "", "m", "share"), True),
    (("get", "", "secrets", "", "n", "share"), False),
    (("list", "", "secrets", "", "n", ""), False),
    (("get", "", "persistentvolumes", "", "", "volume"), True),
    (("get", "", "persistentvolumes", "", "", "another"), False),
    (("get", "", "persistentvolumes", "", "", ""), False),
    (("get", STORAGE, "volumeattachments", "", "", "mine"), True),
    (("get", STORAGE, "volumeattachments", "", "", "theirs"), False),
    (("get", STORAGE, "volumeattachments", "", "", ""), False),
    (("get", "", "pods", "", "n", "mine"), True),
    (("patch", "", "pods", "status", "n", "mine"), True),
    (("get", "", "pods", "", "m", "mine"), False),
    (("delete", "", "pods", "", "n", "theirs"), False),
    (("create", "", "pods", "eviction", "n", "theirs"), False),
    (("create", "", "pods", "eviction", "n", "mine"), True),
    (("create", "", "pods", "", "n", ""), True),
    (("list", "", "pods", "", "n", ""), False),
    (("get", DEVICES, "resourceclaims", "", "n", "device"), True),
    (("get", DEVICES, "resourceclaims", "", "n", "another"), False),
    (("delete", "", "nodes", "", "", "a"), False),
    (("update", "", "secrets", "", "n", "x"), False),
    (("get", "", "services", "", "", ""), True),
    (("create", "", "events", "", "n", ""), True),
    (("list", "rbac.authorization.k8s.io", "roles", "", "n", ""), False),
]


@pytest.mark.parametrize(
    ("asked", "allowed"), ASKED, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_node_may(asked, allowed):
    assert RIGHTS.allows(Attributes(NODE, *asked)) is allowed
    assert not RIGHTS.allows(Attributes(User("ann", NODE.groups), *asked))


@pytest.mark.parametrize(
    ("user", "node"),
    [
        (NODE, "a"),
        (User("system:node:a", ("system:authenticated",)), ""),
        (User("ann", ("system:nodes",)), ""),
        (User("system:node:", ("system:nodes",)), ""),
    ],
)
def test_who_is_a_node(user, node):
    assert node_of(Attributes(user, "get")) == node


def test_a_node_says_in_one_sentence_what_it_may_not_write():
    before = {"metadata": {"name": "a", "labels": {"x.node-restriction.kubernetes.io/y": "z"}}}
    after = {"metadata": {"name": "a", "labels": {}}}
    assert "labels: x.node-restriction.kubernetes.io/y" in wrong_write("a", "Node", after, before)
    assert wrong_write("a", "Node", {"metadata": {"name": "a", "labels": {"own": "b"}}}, after) == ""
    assert "another's Lease" in wrong_write("a", "Lease", {"metadata": {"name": "b"}}, None)
    assert "slices" in wrong_write("a", "ResourceSlice", {"metadata": {}, "spec": {"nodeName": "b"}}, None)
    assert wrong_write("a", "Event", {"metadata": {"name": "b"}}, None) == ""
