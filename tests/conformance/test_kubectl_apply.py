"""``kubectl apply --server-side``, as a person types it: on both servers, the same tests."""

import json
from typing import Any

import pytest

from kubewright.apiserver.fields.paths import decoded, shown
from kubewright.testing.kubectl import Kubectl

pytestmark = pytest.mark.kubectl

SERVER_SIDE = ("apply", "--server-side", "-f", "-")


def config(data: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{{data}}}\n"


def managers(kubectl: Kubectl, *words: str) -> dict[str, set[str]]:
    """Manager and operation to the paths."""
    found: Any = json.loads(kubectl("get", *words, "-o", "json", "--show-managed-fields"))
    return {
        f"{entry['manager']} {entry['operation']}": {shown(path) for path in decoded(entry["fieldsV1"])}
        for entry in found["metadata"].get("managedFields", ())
    }


def test_an_object_is_made_and_changed(kubectl: Kubectl) -> None:
    assert kubectl(*SERVER_SIDE, stdin=config("k: v, l: w")) == "configmap/a serverside-applied\n"
    assert kubectl(*SERVER_SIDE, stdin=config("k: w")) == "configmap/a serverside-applied\n"
    assert json.loads(kubectl("get", "cm", "a", "-o", "json"))["data"] == {"k": "w"}
    assert managers(kubectl, "cm", "a") == {"kubectl Apply": {".data.k"}}
    assert "managedFields" not in kubectl("get", "cm", "a", "-o", "yaml")


def test_a_conflict_is_explained_and_can_be_forced(kubectl: Kubectl) -> None:
    kubectl(*SERVER_SIDE, "--field-manager=other", stdin=config("k: v"))
    said = kubectl.refused(*SERVER_SIDE, stdin=config("k: w"))
    assert said.startswith('error: Apply failed with 1 conflict: conflict with "other": .data.k\n')
    assert "--force-conflicts" in said
    kubectl(*SERVER_SIDE, "--force-conflicts", stdin=config("k: w"))
    assert managers(kubectl, "cm", "a") == {"kubectl Apply": {".data.k"}}


def test_what_kubectl_created_conflicts_by_name(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=config("k: v"))
    said = kubectl.refused(*SERVER_SIDE, stdin=config("k: w"))
    assert 'conflict with "kubectl-create" using v1: .data.k' in said


def test_what_was_applied_by_the_client_is_taken_over(kubectl: Kubectl) -> None:
    """kubectl moves its own managers first, so that what is applied no more goes."""
    kubectl("apply", "-f", "-", stdin=config("k: v, l: w"))
    assert "kubectl-client-side-apply Update" in managers(kubectl, "cm", "a")
    kubectl(*SERVER_SIDE, stdin=config("k: w"))
    found = json.loads(kubectl("get", "cm", "a", "-o", "json"))
    assert found["data"] == {"k": "w"}
    assert {name for name, paths in managers(kubectl, "cm", "a").items() if ".data.k" in paths} == {
        "kubectl Apply"
    }
    kubectl("apply", "-f", "-", stdin=config("m: x"))
    assert json.loads(kubectl("get", "cm", "a", "-o", "json"))["data"] == {"m": "x"}


def test_a_difference_and_a_dry_run_change_nothing(kubectl: Kubectl) -> None:
    kubectl(*SERVER_SIDE, stdin=config("k: v"))
    tried = kubectl.run("diff", "--server-side", "-f", "-", stdin=config("k: w"))
    assert (tried.returncode, tried.stderr) == (1, "")
    assert "+  k: w" in tried.stdout
    kubectl(*SERVER_SIDE, "--dry-run=server", stdin=config("k: w"))
    assert json.loads(kubectl("get", "cm", "a", "-o", "json"))["data"] == {"k": "v"}


def test_a_replica_count_that_a_scale_took_is_a_conflict(kubectl: Kubectl) -> None:
    def deployment(replicas: int) -> str:
        pod = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {
            "replicas": replicas,
            "paused": True,
            "selector": {"matchLabels": {"app": "d"}},
            "template": pod,
        }
        return json.dumps(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
        )

    kubectl(*SERVER_SIDE, stdin=deployment(0))
    kubectl("scale", "deployment", "d", "--replicas=1")
    said = kubectl.refused(*SERVER_SIDE, stdin=deployment(0))
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in said


def test_a_typing_error_is_refused(kubectl: Kubectl) -> None:
    said = kubectl.refused(*SERVER_SIDE, stdin=config("k: v").replace("\ndata", "\ndat"))
    assert ".dat: field not declared in schema" in said
