"""kubectl's own commands about who may do what, on both servers, the same tests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.testing.kubectl import Kubectl

pytestmark = pytest.mark.kubectl

RECONCILED = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reconciled, namespace: NAMESPACE}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reconciled, namespace: NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reconciled}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: USER}
"""


def user(kubectl: Kubectl) -> str:
    return f"ann-{kubectl.namespace}"


@pytest.fixture(scope="module")
def asking_reader(new_kubectl: Callable[[], Kubectl]) -> Kubectl:
    """A reader for tests that write nothing."""
    return made_reader(new_kubectl())


@pytest.fixture
def reader(kubectl: Kubectl) -> Kubectl:
    """A reader for one test."""
    return made_reader(kubectl)


def made_reader(kubectl: Kubectl) -> Kubectl:
    """A user who may get and list pods, and get one ConfigMap."""
    kubectl("create", "role", "r", "--verb=get,list", "--resource=pods")
    kubectl("create", "role", "one", "--verb=get", "--resource=configmaps", "--resource-name=a")
    for role in ("r", "one"):
        kubectl("create", "rolebinding", role, f"--role={role}", f"--user={user(kubectl)}")
    until(kubectl, "yes", "get", "configmaps/a")
    return kubectl


def until(kubectl: Kubectl, answer: str, *words: str) -> None:
    """Wait until ``auth can-i`` says so: a real server takes a moment to use a new role."""
    for _ in range(20):
        if (done := can_i(kubectl, *words)) == answer:
            return
    raise AssertionError(done)


def can_i(kubectl: Kubectl, *words: str) -> str:
    return kubectl.run("auth", "can-i", *words, "--as", user(kubectl)).stdout.strip()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("list", "pods"), "yes"),
        (("delete", "pods"), "no"),
        (("get", "pods", "--subresource=log"), "no"),
        (("get", "configmaps"), "no"),
        (("get", "configmaps/a"), "yes"),
        (("list", "pods", "-A"), "no"),
        (("get", "/version"), "yes"),
        (("get", "/metrics"), "no"),
        (("*", "*"), "no"),
    ],
    ids=" ".join,
)
def test_can_i(asking_reader: Kubectl, words: tuple[str, ...], answer: str) -> None:
    assert can_i(asking_reader, *words) == answer


def test_an_admin_can(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "*", "*", "-A") == "yes\n"


def test_can_i_lists_what_i_can(asking_reader: Kubectl) -> None:
    rows = [
        line.split()
        for line in asking_reader("auth", "can-i", "--list", "--as", user(asking_reader)).splitlines()
    ]
    assert ["Resources", "Non-Resource", "URLs", "Resource", "Names", "Verbs"] in rows
    assert ["pods", "[]", "[]", "[get", "list]"] in rows
    assert ["configmaps", "[]", "[a]", "[get]"] in rows
    assert ["selfsubjectreviews.authentication.k8s.io", "[]", "[]", "[create]"] in rows
    assert not any("*.*" in row for row in rows)


def test_whoami(kubectl: Kubectl) -> None:
    asked = ("auth", "whoami", "-o", "json", "--as", "ann", "--as-group=b,c", "--as-group=d", "--as-uid=7")
    info = json.loads(kubectl(*asked))["status"]["userInfo"]
    groups = info.pop("groups")
    assert info == {"username": "ann", "uid": "7"}
    assert groups[-1] == "system:authenticated"
    assert "d" in groups
    assert "Username" in kubectl("auth", "whoami")


def test_a_refusal_is_reported_as_it_is(asking_reader: Kubectl) -> None:
    said = asking_reader.refused("get", "nodes", "--as", user(asking_reader))
    assert said == (
        f'Error from server (Forbidden): nodes is forbidden: User "{user(asking_reader)}" cannot list resource "nodes" '
        'in API group "" at the cluster scope\n'
    )
    assert asking_reader("get", "pods", "--as", user(asking_reader)) == ""


def test_roles_and_bindings_are_made(kubectl: Kubectl) -> None:
    name = f"k-{kubectl.namespace}"
    made = kubectl("create", "clusterrole", name, "--verb=get", "--non-resource-url=/metrics")
    assert made == f"clusterrole.rbac.authorization.k8s.io/{name} created\n"
    made = kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={user(kubectl)}")
    assert made == f"clusterrolebinding.rbac.authorization.k8s.io/{name} created\n"
    until(kubectl, "yes", "get", "/metrics")
    rule = kubectl("describe", "clusterrole", name)
    assert "[/metrics]" in rule
    gathers = kubectl("create", "clusterrole", f"{name}-all", "--aggregation-rule=a=b")
    assert gathers == f"clusterrole.rbac.authorization.k8s.io/{name}-all created\n"


def test_reconcile(kubectl: Kubectl) -> None:
    kubectl("create", "role", "reconciled", "--verb=watch", "--resource=pods")
    manifest = RECONCILED.replace("USER", user(kubectl)).replace("NAMESPACE", kubectl.namespace)
    kubectl("auth", "reconcile", "-f", "-", stdin=manifest)
    until(kubectl, "yes", "list", "pods")
    assert can_i(kubectl, "watch", "pods") == "yes"
    kubectl("auth", "reconcile", "-f", "-", "--remove-extra-permissions", stdin=manifest)
    until(kubectl, "no", "watch", "pods")


def test_a_service_account_with_a_token(reader: Kubectl, tmp_path: Path) -> None:
    reader("create", "serviceaccount", "robot")
    reader("create", "rolebinding", "robot", "--role=r", f"--serviceaccount={reader.namespace}:robot")
    config: Any = yaml.safe_load(reader.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": reader("create", "token", "robot").strip()}
    path = tmp_path / "robot"
    path.write_text(yaml.safe_dump(config))
    robot = Kubectl(reader.program, path, reader.home, reader.flavour, reader.namespace)
    for _ in range(20):
        if (done := robot.run("get", "pods")).returncode == 0:
            break
    assert (done.returncode, done.stderr) == (0, f"No resources found in {reader.namespace} namespace.\n")
    name = f"system:serviceaccount:{reader.namespace}:robot"
    info = json.loads(robot("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert (info["username"], "system:authenticated" in info["groups"], bool(info["uid"])) == (
        name,
        True,
        True,
    )
    assert f'User "{name}" cannot list resource "secrets"' in robot.refused("get", "secrets")
    assert "cannot impersonate" in robot.refused("get", "pods", "--as", "bob")


def test_a_user_cannot_grant_rights_beyond_the_own(reader: Kubectl) -> None:
    who = ("--as", user(reader))
    write = ("create", "role", "writes", "--verb=create,get", "--resource=roles,rolebindings")
    reader(*write)
    reader("create", "rolebinding", "writes", "--role=writes", f"--user={user(reader)}")
    until(reader, "yes", "create", "roles")
    said = reader.refused("create", "role", "x", "--verb=get,delete", "--resource=pods", *who)
    assert "is attempting to grant RBAC permissions not currently held:" in said
    assert '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}' in said
    assert reader("create", "role", "x", "--verb=get", "--resource=pods", *who).endswith("created\n")
    assert "not currently held" in reader.refused(
        "create", "rolebinding", "x", "--clusterrole=edit", "--user=y", *who
    )
