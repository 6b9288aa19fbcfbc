"""An unmodified kubectl does what it does with a real Kubernetes: on both servers, the same tests.

Where the embedded server's answer is compared with a real one, ``make test-kube`` has run the very
same assertion there.
"""

import json
import subprocess
import threading
from typing import Any

import pytest
from tests.conformance.converters import V1, V2, conversion, version, webhook

from kubewright.testing.kubectl import Kubectl

pytestmark = pytest.mark.kubectl

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {tier: front}}
data: {k: v, l: w}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 1
  paused: true
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: one}, {name: e, image: two}]}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: p}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: i}]
"""


@pytest.fixture
def filled(kubectl: Kubectl) -> Kubectl:
    """A ConfigMap ``a`` that was applied."""
    kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    return kubectl


@pytest.fixture
def node(kubectl: Kubectl) -> Any:
    name = f"{kubectl.namespace}-node"
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    yield name
    kubectl("delete", "node", name, "--wait=false")


def loaded(kubectl: Kubectl, *words: str) -> Any:
    return json.loads(kubectl("get", *words, "-o", "json"))


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# ---------------------------------------------------------------- get


def test_get_shows_a_table(filled: Kubectl) -> None:
    header, *found = rows(filled("get", "configmap", "a"))
    assert header == ["NAME", "DATA", "AGE"]
    assert [row[:2] for row in found] == [["a", "2"]]


def test_get_shows_more_when_wide_and_labels_when_asked(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    header, row = rows(kubectl("get", "deployment", "d", "-o", "wide"))
    assert header == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert (row[0], row[-3:]) == ("d", ["c,e", "one,two", "app=d"])
    header, row = rows(kubectl("get", "deployment", "d", "--show-labels"))
    assert (header[-1], row[-1]) == ("LABELS", "<none>")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("name", "configmap/a\n"),
        ("jsonpath={.data.k}", "v"),
        ("go-template={{.metadata.name}} {{.data.l}}", "a w"),
        ("custom-columns=NAME:.metadata.name,K:.data.k", "NAME   K\na      v\n"),
    ],
)
def test_get_prints_in_every_form(filled: Kubectl, output: str, expected: str) -> None:
    assert filled("get", "configmap", "a", "-o", output) == expected


def test_get_prints_json_and_yaml(filled: Kubectl) -> None:
    assert loaded(filled, "configmap", "a")["data"] == {"k": "v", "l": "w"}
    assert "\n  k: v\n" in filled("get", "configmap", "a", "-o", "yaml")


def test_get_selects_by_label_and_field_and_pages(kubectl: Kubectl) -> None:
    for n in range(5):
        kubectl("create", "configmap", f"c{n}")
    kubectl("label", "configmap", "c1", "c3", "odd=yes")
    words = ("get", "configmaps", "-o", "name")
    assert kubectl(*words, "-l", "odd=yes").split() == ["configmap/c1", "configmap/c3"]
    assert kubectl(*words, "-l", "!odd").split()[-3:] == [f"configmap/c{n}" for n in (0, 2, 4)]
    assert kubectl(*words, "--field-selector", "metadata.name=c2").split() == ["configmap/c2"]
    assert kubectl(*words, "--chunk-size=2") == kubectl(*words)


def test_get_looks_into_all_namespaces(filled: Kubectl) -> None:
    found = rows(filled("get", "configmaps", "-A"))
    assert found[0][:2] == ["NAMESPACE", "NAME"]
    assert [filled.namespace, "a"] in [row[:2] for row in found]


def test_get_of_several_kinds_and_of_all(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl("create", "configmap", "a")
    assert kubectl("get", "deployments,configmaps", "-o", "name").split()[0] == "deployment.apps/d"
    assert "deployment.apps/d" in kubectl("get", "all")


def test_get_of_nothing_says_so(kubectl: Kubectl) -> None:
    done = kubectl.run("get", "secrets")
    assert (done.returncode, done.stderr) == (0, f"No resources found in {kubectl.namespace} namespace.\n")
    assert kubectl.refused("get", "secret", "zz") == 'Error from server (NotFound): secrets "zz" not found\n'
    assert 'the server doesn\'t have a resource type "foos"' in kubectl.refused("get", "foos")


def test_get_watches(kubectl: Kubectl) -> None:
    watching = kubectl.start("get", "configmaps", "-w", "--output-watch-events", "-o", "name")
    assert watching.stdout is not None
    try:
        kubectl("create", "configmap", "a")
        told = [watching.stdout.readline().strip()]
        while told[-1] != "configmap/a" and len(told) < 10:
            told.append(watching.stdout.readline().strip())
        assert told[-1] == "configmap/a"
    finally:
        watching.kill()
        watching.communicate()


# ---------------------------------------------------------------- apply and other writes


def test_apply_creates_changes_and_removes_a_field(filled: Kubectl) -> None:
    assert filled("apply", "-f", "-", stdin=CONFIG_MAP) == "configmap/a unchanged\n"
    changed = CONFIG_MAP.replace("{k: v, l: w}", "{k: new}").replace(", labels: {tier: front}", "")
    assert filled("apply", "-f", "-", stdin=changed) == "configmap/a configured\n"
    found = loaded(filled, "configmap", "a")
    assert found["data"] == {"k": "new"}
    assert "labels" not in found["metadata"]


def test_apply_leaves_what_others_added(filled: Kubectl) -> None:
    filled("label", "configmap", "a", "theirs=1")
    filled("apply", "-f", "-", stdin=CONFIG_MAP.replace("k: v", "k: new"))
    found = loaded(filled, "configmap", "a")
    assert found["metadata"]["labels"] == {"tier": "front", "theirs": "1"}
    assert found["data"] == {"k": "new", "l": "w"}


def test_apply_merges_lists_by_their_keys(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT.replace("image: two", "image: three"))
    containers = loaded(kubectl, "deployment", "d")["spec"]["template"]["spec"]["containers"]
    assert [(c["name"], c["image"]) for c in containers] == [("c", "one"), ("e", "three")]
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT.replace(", {name: e, image: two}", ""))
    containers = loaded(kubectl, "deployment", "d")["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in containers] == ["c"]


def test_apply_checks_before_it_sends(kubectl: Kubectl) -> None:
    said = kubectl.refused("apply", "-f", "-", stdin=CONFIG_MAP.replace("\ndata:", "\ndota:"))
    assert 'unknown field "dota"' in said
    assert kubectl.run("get", "configmap", "a").returncode != 0


def test_apply_in_a_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    said = kubectl("apply", "--dry-run=server", "-f", "-", stdin=CONFIG_MAP)
    assert said == "configmap/a created (server dry run)\n"
    assert kubectl.run("get", "configmap", "a").returncode != 0


def test_diff_shows_what_would_change(filled: Kubectl) -> None:
    done = filled.run("diff", "-f", "-", stdin=CONFIG_MAP.replace("k: v", "k: new"))
    assert done.returncode == 1, done.stderr
    assert "+  k: new" in done.stdout


def test_create_refuses_what_is_there(filled: Kubectl) -> None:
    said = filled.refused("create", "-f", "-", stdin=CONFIG_MAP)
    assert said == (
        'Error from server (AlreadyExists): error when creating "STDIN": configmaps "a" already exists\n'
    )


def test_create_makes_the_everyday_kinds(kubectl: Kubectl) -> None:
    kubectl("create", "secret", "generic", "s", "--from-literal=k=v")
    assert loaded(kubectl, "secret", "s")["data"] == {"k": "dg=="}
    kubectl("create", "serviceaccount", "sa")
    kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "rb", "--role=r", f"--serviceaccount={kubectl.namespace}:sa")
    kubectl("create", "poddisruptionbudget", "b", "--selector=app=p", "--min-available=1")
    assert kubectl("create", "deployment", "e", "--image=i", "--replicas=0") == "deployment.apps/e created\n"


def test_edit_writes_back_what_the_editor_made(filled: Kubectl) -> None:
    said = filled("edit", "configmap", "a", KUBE_EDITOR="sed -i s/k:.v/k:\\ edited/")
    assert said == "configmap/a edited\n"
    assert loaded(filled, "configmap", "a")["data"]["k"] == "edited"


@pytest.mark.parametrize(
    ("type_", "patch", "data"),
    [
        ("merge", '{"data":{"k":null,"m":"1"}}', {"l": "w", "m": "1"}),
        ("json", '[{"op":"replace","path":"/data/k","value":"2"}]', {"k": "2", "l": "w"}),
        ("strategic", '{"data":{"m":"3"}}', {"k": "v", "l": "w", "m": "3"}),
    ],
)
def test_patch(filled: Kubectl, type_: str, patch: str, data: dict[str, str]) -> None:
    assert filled("patch", "configmap", "a", f"--type={type_}", "-p", patch) == "configmap/a patched\n"
    assert loaded(filled, "configmap", "a")["data"] == data


def test_replace(filled: Kubectl) -> None:
    found = loaded(filled, "configmap", "a")
    body = json.dumps({**found, "data": {"only": "1"}})
    assert filled("replace", "-f", "-", stdin=body) == "configmap/a replaced\n"
    assert loaded(filled, "configmap", "a")["data"] == {"only": "1"}
    assert "the object has been modified" in filled.refused("replace", "-f", "-", stdin=body)
    forced = filled("replace", "--force", "-f", "-", stdin=CONFIG_MAP)
    assert forced == 'configmap "a" deleted\nconfigmap/a replaced\n' or "replaced" in forced


def test_label_and_annotate(filled: Kubectl) -> None:
    assert filled("label", "configmap", "a", "n=1") == "configmap/a labeled\n"
    assert "already has a value (1)" in filled.refused("label", "configmap", "a", "n=2")
    assert filled("label", "configmap", "a", "n=2", "--overwrite", "tier-").startswith("configmap/a ")
    assert filled("annotate", "configmap", "a", "note=hello") == "configmap/a annotated\n"
    found = loaded(filled, "configmap", "a")["metadata"]
    assert found["labels"] == {"n": "2"}
    assert found["annotations"]["note"] == "hello"


def test_scale(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl("scale", "deployment/d", "--replicas=3") == "deployment.apps/d scaled\n"
    assert loaded(kubectl, "deployment", "d")["spec"]["replicas"] == 3
    said = kubectl.refused("scale", "deployment/d", "--replicas=5", "--current-replicas=9")
    assert "Expected replicas to be 9, was 3" in said


# ---------------------------------------------------------------- delete and wait


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_delete_deletes_dependents(filled: Kubectl, cascade: str) -> None:
    owned(filled, "child")
    assert filled("delete", "configmap", "a", f"--cascade={cascade}").startswith('configmap "a" deleted')
    filled("wait", "--for=delete", "configmap/child", "--timeout=30s")
    assert filled.run("get", "configmap", "child").returncode != 0


def test_delete_leaves_orphans(filled: Kubectl) -> None:
    owned(filled, "child")
    filled("delete", "configmap", "a", "--cascade=orphan")
    assert "ownerReferences" not in loaded(filled, "configmap", "child")["metadata"]


def test_delete_waits_for_finalizers_unless_asked_not_to(filled: Kubectl) -> None:
    filled("patch", "configmap", "a", "--type=merge", "-p", '{"metadata":{"finalizers":["example.io/hold"]}}')
    filled("delete", "configmap", "a", "--wait=false")
    said = filled.refused("delete", "configmap", "a", "--timeout=1s")
    assert "timed out waiting for the condition" in said
    filled("patch", "configmap", "a", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    filled("wait", "--for=delete", "configmap/a", "--timeout=20s")


def test_delete_by_label_and_of_nothing(filled: Kubectl) -> None:
    assert filled("delete", "configmaps", "-l", "tier=back") == "No resources found\n"
    assert filled("delete", "configmaps", "-l", "tier=front").startswith('configmap "a" deleted')
    assert filled("delete", "configmap", "zz", "--ignore-not-found") == ""


def test_delete_forces_a_pod_off_its_node(kubectl: Kubectl) -> None:
    manifest = POD.replace("NAME", "p").replace("NODE", "nowhere").replace("Seconds: 0", "Seconds: 30")
    kubectl("create", "-f", "-", stdin=manifest)
    kubectl("delete", "pod", "p", "--wait=false")
    assert "Terminating" in kubectl("get", "pod", "p")
    kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    assert kubectl.run("get", "pod", "p").returncode != 0


def test_wait_for_a_condition_and_a_value(kubectl: Kubectl, node: str) -> None:
    waiting = kubectl.start("wait", "--for=condition=Ready", f"node/{node}", "--timeout=20s")
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", ready)
    assert waiting.communicate(timeout=25)[0] == f"node/{node} condition met\n"
    kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    assert kubectl("wait", "--for=jsonpath={.data.k}=v", "configmap/a", "--timeout=5s").endswith(
        "condition met\n"
    )
    assert "timed out" in kubectl.refused("wait", "--for=jsonpath={.data.k}=x", "configmap/a", "--timeout=1s")


# ---------------------------------------------------------------- nodes


def test_taint(kubectl: Kubectl, node: str) -> None:
    assert kubectl("taint", "node", node, "k=v:NoSchedule") == f"node/{node} tainted\n"
    taints = {
        (t["key"], t.get("value"), t["effect"]) for t in loaded(kubectl, "node", node)["spec"]["taints"]
    }
    assert ("k", "v", "NoSchedule") in taints
    assert kubectl("taint", "node", node, "k-") == f"node/{node} untainted\n"


def test_cordon_and_uncordon(kubectl: Kubectl, node: str) -> None:
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert "SchedulingDisabled" in kubectl("get", "node", node)
    assert kubectl("cordon", node) == f"node/{node} already cordoned\n"
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"


def test_drain_evicts_what_is_there(kubectl: Kubectl, node: str) -> None:
    for name in ("p", "q"):
        kubectl("create", "-f", "-", stdin=POD.replace("NAME", name).replace("NODE", node))
    said = kubectl("drain", node, "--force", "--grace-period=0", "--timeout=30s")
    assert f"node/{node} cordoned" in said
    assert f"node/{node} drained" in said
    assert kubectl("get", "pods", "-o", "name") == ""


def test_drain_respects_a_budget(kubectl: Kubectl, node: str) -> None:
    kubectl("create", "-f", "-", stdin=POD.replace("NAME", "p").replace("NODE", node))
    ready = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", ready)
    kubectl("create", "poddisruptionbudget", "b", "--selector=app=p", "--min-available=1")
    kubectl("wait", "--for=jsonpath={.status.currentHealthy}=1", "pdb/b", "--timeout=10s")
    said = kubectl.refused("drain", node, "--force", "--timeout=2s")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in said
    assert loaded(kubectl, "pod", "p")["metadata"].get("deletionTimestamp") is None


# ---------------------------------------------------------------- looking around


def test_describe(filled: Kubectl, node: str) -> None:
    said = filled("describe", "configmap", "a")
    assert said.splitlines()[0].split() == ["Name:", "a"]
    assert "\nk:\n----\nv\n" in said
    assert "Taints:" in filled("describe", "node", node)
    filled("create", "-f", "-", stdin=POD.replace("NAME", "p").replace("NODE", node))
    assert f" {node}/" in filled("describe", "pod", "p")


def test_describe_shows_events(filled: Kubectl) -> None:
    uid = loaded(filled, "configmap", "a")["metadata"]["uid"]
    about = {"kind": "ConfigMap", "apiVersion": "v1", "name": "a", "namespace": filled.namespace, "uid": uid}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1"},
        "involvedObject": about,
        "reason": "Tested",
        "message": "this is a test",
        "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    filled("create", "-f", "-", stdin=json.dumps(event))
    assert "this is a test" in filled("describe", "configmap", "a")
    assert "Tested" in filled("events", "--for", "configmap/a")
    header, row = rows(filled("get", "events"))
    assert header == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row[1:4] == ["Normal", "Tested", "configmap/a"]


def test_explain(kubectl: Kubectl) -> None:
    said = kubectl("explain", "deployment.spec.replicas")
    assert "GROUP:      apps" in said
    assert "KIND:       Deployment" in said
    assert "replicas <integer>" in said
    assert "containers" in kubectl("explain", "pod.spec")
    assert 'field "nothing" does not exist' in kubectl.refused("explain", "pod.nothing")


def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    header, *found = rows(kubectl("api-resources"))
    assert header == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in found
    assert {"nodes", "pods", "leases"} <= {row[0] for row in found}
    assert {"v1", "apps/v1", "coordination.k8s.io/v1"} <= set(kubectl("api-versions").split())


def test_who_may_do_what(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "nodes").split()[-1] == "yes"
    assert "system:masters" in kubectl("auth", "whoami")
    assert "*.*" in kubectl("auth", "can-i", "--list")


def test_config_and_version(kubectl: Kubectl) -> None:
    assert "server: https://127.0.0.1:" in kubectl("config", "view")
    version = json.loads(kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"].startswith("v1.")
    assert kubectl("cluster-info").splitlines()[0].startswith("\x1b") or "running at" in kubectl(
        "cluster-info"
    )


def test_a_short_lived_kubectl_needs_few_requests(filled: Kubectl) -> None:
    done = filled.run("get", "configmap", "a", "-v=6")
    asked = [line for line in done.stderr.splitlines() if "https://" in line and "GET" in line]
    assert done.returncode == 0
    assert len(asked) == 1, asked


def owned(kubectl: Kubectl, name: str) -> None:
    """A ConfigMap that belongs to ConfigMap a."""
    uid = loaded(kubectl, "configmap", "a")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid, "blockOwnerDeletion": True}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]}}
    kubectl("create", "-f", "-", stdin=json.dumps(body))


def until(kubectl: Kubectl, *words: str) -> str:
    """What kubectl prints once it succeeds; ten tries, then its last error."""
    for _ in range(10):
        if (done := kubectl.run(*words)).returncode == 0:
            return done.stdout
        threading.Event().wait(0.5)
    raise AssertionError(done.stderr)


def test_our_definitions_are_taken(kubectl: Kubectl) -> None:
    """The four CRDs, applied as a user would; then one object of each that is known."""
    from kubewright.api.machine.manifests import manifest

    kubectl("apply", "-f", "-", stdin=manifest())
    kubectl(
        "wait", "--for=condition=Established", "crd/machinedeployments.machine.sapcloud.io", "--timeout=20s"
    )
    for kind in ("machinedeployment", "machineclass"):  # a real server takes a moment to publish it
        assert "spec" in until(kubectl, "explain", kind) or "provider" in until(kubectl, "explain", kind)
    assert "mcd" in kubectl("api-resources", "--api-group=machine.sapcloud.io", "--cached=false")
    done: subprocess.CompletedProcess[str] = kubectl.run("apply", "-f", "-", stdin=manifest())
    assert done.stdout.count("unchanged") == 4, done.stdout


def test_a_kind_is_read_and_applied_in_each_of_its_versions(kubectl: Kubectl) -> None:
    group = f"{kubectl.namespace}.example.io"
    names = {"plural": "gates", "singular": "gate", "kind": "Gate"}
    with webhook() as hook:
        spec: dict[str, Any] = {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "conversion": conversion(hook),
        }
        spec["versions"] = [version("v1", V1), version("v2", V2, storage=True)]
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        definition = {**kind, "metadata": {"name": f"gates.{group}"}, "spec": spec}
        kubectl("apply", "-f", "-", stdin=json.dumps(definition))
        kubectl("wait", "--for=condition=Established", f"crd/gates.{group}", "--timeout=20s")

        def applied(version: str, spec: dict[str, Any]) -> str:
            gate = {
                "apiVersion": f"{group}/{version}",
                "kind": "Gate",
                "metadata": {"name": "a"},
                "spec": spec,
            }
            return kubectl("apply", "-f", "-", stdin=json.dumps(gate))

        def shown(resource: str) -> Any:
            return json.loads(kubectl("get", resource, "a", "-o", "json"))["spec"]

        assert applied("v1", {"size": "3m"}).endswith("created\n")
        assert shown(f"gates.v2.{group}") == {"length": 3, "unit": "m"}
        assert applied("v2", {"length": 4, "unit": "k", "color": "red"}).endswith("configured\n")
        assert shown(f"gates.v1.{group}") == {"size": "4k"}
        assert applied("v1", {"size": "5k"}).endswith("configured\n")
        assert shown(f"gates.{group}") == {"length": 5, "unit": "k", "color": "red"}, "v2 comes first"
        said = until(kubectl, "explain", "gates.spec", f"--api-version={group}/v1")
        assert "size\t<string>" in said
        assert "color" not in said
        kubectl("delete", f"gates.v1.{group}", "a")
        kubectl("delete", "crd", f"gates.{group}")
