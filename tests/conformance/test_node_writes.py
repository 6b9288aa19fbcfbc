"""What a node may write into its own objects, and what into no object: NodeRestriction, on both servers."""

from typing import Any

from tests.conformance.conftest import Begun

from kubewright.testing.api import Api, Object


def bound_pod(name: str, node: str, **metadata: Any) -> Object:
    spec = {
        "nodeName": node,
        "containers": [{"name": "c", "image": "i"}],
        "automountServiceAccountToken": False,
    }
    return {"metadata": {"name": name, **metadata}, "spec": spec}


async def test_a_node_writes_its_own_objects_only(begun: Begun) -> None:
    async with begun() as api:
        own, other = f"own-{api.namespace}", f"other-{api.namespace}"
        kubelet = api.as_user(f"system:node:{own}", group="system:nodes")
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        nodes, pods, csi = "/api/v1/nodes", api.at("pods"), "/apis/storage.k8s.io/v1/csinodes"
        (await api.post(nodes, {"metadata": {"name": other}})).ok()
        seen = {}
        for name in (own, other):
            seen["node", name] = (await kubelet.post(nodes, {"metadata": {"name": name}})).code
            seen["lease", name] = (await kubelet.post(leases, {"metadata": {"name": name}, "spec": {}})).code
            seen["csi", name] = (
                await kubelet.post(csi, {"metadata": {"name": name}, "spec": {"drivers": []}})
            ).code
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            seen["status", name] = (await kubelet.patch(f"{nodes}/{name}/status", ready)).code
            seen["label", name] = (
                await kubelet.patch(f"{nodes}/{name}", {"metadata": {"labels": {"a.b/c": "d"}}})
            ).code
            for pod in ("p", "q"):
                (await api.post(pods, bound_pod(f"{pod}-{name}", name))).ok()
            running = {"status": {"phase": "Running"}}
            seen["pod", name] = (await kubelet.patch(f"{pods}/p-{name}/status", running)).code
            gone = {"gracePeriodSeconds": 0}
            seen["end", name] = (await kubelet.call("DELETE", f"{pods}/q-{name}", gone)).code
        theirs = {what for (what, name), code in seen.items() if name == own and code < 300}
        assert theirs == {"node", "lease", "csi", "status", "label", "pod", "end"}
        assert {code for (_, name), code in seen.items() if name == other} == {403}


async def test_a_node_makes_mirror_pods_and_gives_itself_no_marks(begun: Begun) -> None:
    async with begun() as api:
        own = f"mirrors-{api.namespace}"
        kubelet = api.as_user(f"system:node:{own}", group="system:nodes")
        node = (await kubelet.post("/api/v1/nodes", {"metadata": {"name": own}})).ok()
        owner = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": own,
            "uid": node["metadata"]["uid"],
            "controller": True,
        }
        mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
        pods = api.at("pods")
        assert (await kubelet.post(pods, bound_pod("mirror", own, **mirror))).code == 201
        assert (await kubelet.post(pods, bound_pod("other", "another", **mirror))).code == 403
        assert (await kubelet.post(pods, bound_pod("plain", own))).code == 403
        secret = bound_pod("secret", own, **mirror)
        secret["spec"]["volumes"] = [{"name": "s", "secret": {"secretName": "any"}}]
        assert (await kubelet.post(pods, secret)).code == 403
        at = f"/api/v1/nodes/{own}"
        marked = {"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}}
        assert (await kubelet.patch(at, marked)).code == 403
        taint = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
        assert (await kubelet.patch(at, taint)).code == 403
        assert (await kubelet.delete(at)).code == 403


def node_of(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}}


GIVEN_TO_ITSELF = {
    "kubernetes.io/hostname": True,
    "topology.kubernetes.io/zone": True,
    "node.kubernetes.io/instance-type": True,
    "a.node.kubernetes.io/b": True,
    "a.kubelet.kubernetes.io/b": True,
    "beta.kubernetes.io/arch": True,
    "example.com/a": True,
    "plain": True,
    "node-restriction.kubernetes.io/a": False,
    "a.node-restriction.kubernetes.io/a": False,
    "node-role.kubernetes.io/control-plane": False,
    "kubernetes.io/role": False,
    "a.k8s.io/b": False,
}
"""By label, whether a node may give it to itself."""


async def test_a_node_gives_itself_no_label_by_which_others_choose_nodes(begun: Begun) -> None:
    async with begun() as api:
        own, nodes = f"labels-{api.namespace}", "/api/v1/nodes"
        kubelet, at = api.as_user(f"system:node:{own}", group="system:nodes"), f"{nodes}/{own}"
        made, changed, reported = set(), set(), set()
        for label in GIVEN_TO_ITSELF:
            labels = {"labels": {label: "x"}}
            if (await kubelet.post(nodes, node_of(own, **labels))).code == 201:
                made.add(label)
                (await api.delete(at)).ok()
            (await api.post(nodes, node_of(own))).ok()
            for found, path in ((reported, f"{at}/status"), (changed, at)):
                if (await kubelet.patch(path, {"metadata": labels})).code == 200:
                    found.add(label)
            (await api.delete(at)).ok()
        wanted = {label for label, allowed in GIVEN_TO_ITSELF.items() if allowed}
        assert (made, changed, reported) == (wanted, wanted, wanted)


async def test_a_node_gives_itself_no_owner(begun: Begun) -> None:
    """With one that is not there, it would be deleted, and could come back with taints of its own."""
    async with begun() as api:
        own, nodes = f"owned-{api.namespace}", "/api/v1/nodes"
        kubelet = api.as_user(f"system:node:{own}", group="system:nodes")
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "no-uid"}
        (await kubelet.post(nodes, node_of(own))).ok()
        patch = {"metadata": {"ownerReferences": [owner]}}
        assert (await kubelet.patch(f"{nodes}/{own}", patch)).code == 403


async def test_a_node_reports_on_a_pod_and_gives_it_no_rights(begun: Begun) -> None:
    async with begun() as api:
        own = f"reports-{api.namespace}"
        kubelet = api.as_user(f"system:node:{own}", group="system:nodes")
        pod = bound_pod("p", own, labels={"app": "a"})
        pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "t"}]
        pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]
        (await api.post(api.at("pods"), pod)).ok()
        resources = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        (await api.post(api.at("persistentvolumeclaims"), {**node_of("v"), "spec": resources})).ok()
        at, claim = f"{api.at('pods', 'p')}/status", f"{api.at('persistentvolumeclaims', 'v')}/status"
        claims = [{"name": "c", "resourceClaimName": "of-another-pod"}]
        seen = {
            "phase": await kubelet.patch(at, {"status": {"phase": "Running"}}),
            "note": await kubelet.patch(at, {"metadata": {"annotations": {"a": "b"}}}),
            "label": await kubelet.patch(at, {"metadata": {"labels": {"app": "b"}}}),
            "claims": await kubelet.patch(at, {"status": {"resourceClaimStatuses": claims}}),
            "size": await kubelet.patch(claim, {"status": {"capacity": {"storage": "1Gi"}}}),
            "claim's label": await kubelet.patch(claim, {"metadata": {"labels": {"app": "b"}}}),
            "claim's phase": await kubelet.patch(claim, {"status": {"phase": "Lost"}}),
        }
        refused = {what for what, answer in seen.items() if answer.code == 403}
        assert refused == {"label", "claims", "claim's label", "claim's phase"}
        assert {answer.code for what, answer in seen.items() if what not in refused} == {200}


async def test_a_nodes_tokens_are_bound_to_its_pods(begun: Begun) -> None:
    """So they end with the pods; one of an account alone would let a node keep what its pods had."""
    async with begun() as api:
        own = f"tokens-{api.namespace}"
        kubelet = api.as_user(f"system:node:{own}", group="system:nodes")
        (await api.post(api.at("serviceaccounts"), node_of("a"))).ok()
        token = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
        uids = {}
        for name, node in (("mine", own), ("theirs", "another")):
            pod = bound_pod(name, node)
            pod["spec"] |= {"serviceAccountName": "a", "volumes": [token]}
            uids[name] = (await api.post(api.at("pods"), pod)).ok()["metadata"]["uid"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": uids["mine"]}
        asked: dict[str, Any] = {
            "bound": {"boundObjectRef": bound},
            "to a pod of any uid": {"boundObjectRef": {**bound, "uid": ""}},
            "to another's pod": {"boundObjectRef": {**bound, "name": "theirs", "uid": uids["theirs"]}},
            "to a node": {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": own}},
            "unbound": {},
        }
        at = f"{api.at('serviceaccounts', 'a')}/token"
        await api.eventually(lambda: is_issued(kubelet, at, asked["bound"]), "the server knows the pod")
        codes = {what: (await kubelet.post(at, {"spec": spec})).code for what, spec in asked.items()}
        assert codes == {**dict.fromkeys(asked, 403), "bound": 201}


async def is_issued(api: Api, path: str, spec: Object) -> bool:
    return (await api.post(path, {"spec": spec})).code == 201


async def test_a_mirror_pod_belongs_to_its_node_alone(begun: Begun) -> None:
    async with begun() as api:
        own = f"owner-{api.namespace}"
        kubelet = api.as_user(f"system:node:{own}", group="system:nodes")
        uid = (await kubelet.post("/api/v1/nodes", node_of(own))).ok()["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": own, "uid": uid, "controller": True}
        wrong = [[], [owner, {**owner, "kind": "Pod", "controller": False}]]
        wrong += [[{**owner, **each}] for each in (
            {"uid": "another"}, {"kind": "Pod"}, {"name": "b"}, {"controller": False}, {"blockOwnerDeletion": True},
        )]  # fmt: skip
        mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
        pods = api.at("pods")
        refused = [
            (await kubelet.post(pods, bound_pod("m", own, **mirror, ownerReferences=owners))).code
            for owners in wrong
        ]
        assert refused == [403] * len(wrong)
        made = await kubelet.post(pods, bound_pod("m", own, **mirror, ownerReferences=[owner]))
        assert made.code == 201


async def test_a_node_that_may_write_roles_gives_no_right_that_it_has_not(begun: Begun) -> None:
    async with begun() as api:
        own, roles = f"roles-{api.namespace}", "/apis/rbac.authorization.k8s.io/v1"
        group, name = "rbac.authorization.k8s.io", f"writers-{api.namespace}"
        rules = [{"apiGroups": [group], "resources": ["clusterroles"], "verbs": ["create"]}]
        (await api.post(f"{roles}/clusterroles", {**node_of(name), "rules": rules})).ok()
        subject = {"kind": "User", "apiGroup": group, "name": f"system:node:{own}"}
        ref = {"kind": "ClusterRole", "apiGroup": group, "name": name}
        bound = {**node_of(name), "subjects": [subject], "roleRef": ref}
        (await api.post(f"{roles}/clusterrolebindings", bound)).ok()
        kubelet = api.as_user(f"system:node:{own}", group="system:nodes")
        more = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}

        async def refused() -> bool:
            answer = await kubelet.post(f"{roles}/clusterroles", {**node_of(f"all-{own}"), **more})
            return answer.code == 403 and "attempting to grant RBAC permissions" in answer.message

        await api.eventually(refused, "it is refused for what it would grant")
