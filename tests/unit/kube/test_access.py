"""Kubeconfigs: read, merged, and refused where they come from a Secret."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.base.errors import InvalidInput
from kubewright.kube import config
from kubewright.kube.access import (
    Access,
    Anonymous,
    Basic,
    Plugin,
    Token,
    TokenFile,
    access,
    impersonation,
    merged,
    with_absolute_paths,
)
from kubewright.kube.sockets import Sockets


def kubeconfig(user: Any = None, cluster: Any = None, name: str = "x") -> dict[str, Any]:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": "https://example.com:6443/", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {"token": "t"}}],
    }


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


EXEC = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "aws",
    "args": ["x"],
    "env": [{"name": "A", "value": "b"}],
}

LOGINS = [
    ("a token", {"token": "t"}, Token("t")),
    ("a token file", {"tokenFile": "/t"}, TokenFile(Path("/t"))),
    ("a token before a token file", {"token": "t", "tokenFile": "/t"}, Token("t")),
    ("a password", {"username": "u", "password": "p"}, Basic("u", "p")),
    ("nothing", {"client-certificate-data": ""}, Anonymous()),
    ("a program", {"exec": EXEC}, Plugin("aws", ("x",), (("A", "b"),), EXEC["apiVersion"])),
    (
        "an id token kept by kubectl",
        {"auth-provider": {"name": "oidc", "config": {"id-token": "i"}}},
        Token("i"),
    ),
]


@pytest.mark.parametrize(("user", "login"), [case[1:] for case in LOGINS], ids=[case[0] for case in LOGINS])
def test_a_user_logs_in_with(user, login) -> None:
    assert access(kubeconfig(user)).login == login


def test_a_cluster_is_read() -> None:
    cluster = {"certificate-authority-data": b64("ca"), "tls-server-name": "s", "proxy-url": "http://p"}
    user = {"client-certificate-data": b64("c"), "client-key-data": b64("k")}
    found = access(kubeconfig(user, cluster))
    assert found == Access("https://example.com:6443", Anonymous(), b"ca", b"c", b"k", False, "s", "http://p")


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        pytest.param({}, [], id="a user that impersonates none"),
        pytest.param({"as": "alice"}, [("impersonate-user", "alice")], id="a name alone"),
        pytest.param(
            {"as": "alice", "as-groups": ["a", "b,c"], "as-uid": "1"},
            [("impersonate-user", "alice"), ("impersonate-group", "a"), ("impersonate-group", "b,c"), ("impersonate-uid", "1")],
            id="groups, each in a header of its own, and a uid",
        ),
        pytest.param(
            {"as": "alice", "as-user-extra": {"acme.org/Team": ["x", "y"]}},
            [("impersonate-user", "alice"), ("impersonate-extra-acme.org%2Fteam", "x"), ("impersonate-extra-acme.org%2Fteam", "y")],
            id="further values by key",
        ),
    ],
)  # fmt: skip
def test_whom_a_user_impersonates(fields, headers) -> None:
    assert impersonation(access(kubeconfig({"token": "t", **fields})).acts_as) == headers


def test_secrets_do_not_show_in_representations() -> None:
    user = {"client-certificate-data": b64("c"), "client-key-data": b64("hush"), "token": "hush"}
    assert "hush" not in repr(access(kubeconfig(user)))
    assert "hush" not in repr(Basic("u", "hush"))


WRONG = [
    ("no context", {"contexts": []}, "no context is chosen"),
    ("an unknown context", {**kubeconfig(), "current-context": "y"}, "there is no context named 'y'"),
    ("a cluster that is missing", {**kubeconfig(), "clusters": None}, "there is no cluster named 'x'"),
    ("no server", kubeconfig(cluster={"server": ""}), "must begin with http"),
    ("broken base64", kubeconfig(cluster={"certificate-authority-data": "%"}), "is not base64"),
    (
        "a missing file",
        kubeconfig(cluster={"certificate-authority": "/no/such"}),
        "cannot read certificate-authority /no/such",
    ),
    ("a program without a name", kubeconfig({"exec": {"apiVersion": "v1"}}), "exec needs a command"),
    (
        "a program of another age",
        kubeconfig({"exec": {**EXEC, "apiVersion": "v1alpha1"}}),
        "unknown apiVersion",
    ),
    (
        "a program that needs a terminal",
        kubeconfig({"exec": {**EXEC, "interactiveMode": "Always"}}),
        "needs an interactive terminal",
    ),
    (
        "a provider that is not supported",
        kubeconfig({"auth-provider": {"name": "gcp"}}),
        "use an exec plugin",
    ),
    ("groups of no user", kubeconfig({"token": "t", "as-groups": ["a"]}), "need as, the name of a user"),
    ("groups that are no list", kubeconfig({"as": "x", "as-groups": "a"}), "as-groups must be a list"),
]


@pytest.mark.parametrize(("wrong", "said"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong_is_said_in_one_sentence(wrong, said) -> None:
    with pytest.raises(InvalidInput, match=said) as error:
        access(wrong, source="file")
    assert str(error.value).startswith("file: ")
    assert "\n" not in str(error.value)


REFUSED = {
    "exec": kubeconfig({"exec": EXEC}),
    "auth-provider": kubeconfig({"auth-provider": {"name": "oidc", "config": {"id-token": "i"}}}),
    "tokenFile": kubeconfig({"tokenFile": "/etc/passwd"}),
    "client-certificate": kubeconfig({"client-certificate": "/etc/passwd"}),
    "client-key": kubeconfig({"client-key": "/etc/passwd"}),
    "certificate-authority": kubeconfig(cluster={"certificate-authority": "/etc/passwd"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_kubeconfig_from_a_secret_may_hold_only_inline_data(name) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is .* may hold only inline data"):
        config.from_secret(yaml.safe_dump(REFUSED[name]).encode())


async def test_an_inline_kubeconfig_from_a_secret_is_good() -> None:
    transport = config.from_secret(yaml.safe_dump(kubeconfig()).encode())
    assert isinstance(transport, Sockets)
    assert transport.access.login == Token("t")
    await transport.close()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a: [", "not YAML in line"),
        (b"\xff\xfe\xfa", "not YAML"),
        (b"- a", "not a kubeconfig"),
        (b"", "not a kubeconfig"),
        (b"[" * 100_000, "not YAML"),
        (b"contexts: 5", "contexts must be a list"),
        (b"clusters: [a]", r"clusters\[0\] must have a name and a cluster"),
        (b"users: [{name: a, user: b}]", r"users\[0\] must have a name and a user"),
        (b"current-context: 1e3", "current-context must be text; put it in quotes"),
        (b"contexts: [{name: 1e3}]", r"contexts\[0\].name must be text; put it in quotes"),
        (b"users: [{name: a, user: {password: 08}}]", r"users\[0\].user.password must be text; put it"),
    ],
)
def test_what_is_no_kubeconfig_is_said(data, said) -> None:
    with pytest.raises(InvalidInput, match=said):
        config.from_secret(data)


def test_relative_paths_are_relative_to_their_file(tmp_path) -> None:
    found = with_absolute_paths(
        kubeconfig({"tokenFile": "t", "exec": {**EXEC, "command": "./login"}}), tmp_path
    )
    assert found["users"][0]["user"]["tokenFile"] == str(tmp_path / "t")
    assert found["users"][0]["user"]["exec"]["command"] == str(tmp_path / "login")
    assert (
        with_absolute_paths(kubeconfig({"exec": EXEC}), tmp_path)["users"][0]["user"]["exec"]["command"]
        == "aws"
    )


def test_the_first_kubeconfig_that_sets_a_value_wins() -> None:
    first, second = kubeconfig({"token": "1"}, name="a"), kubeconfig({"token": "2"}, name="b")
    both = merged(first, second)
    assert access(both).login == Token("1")
    assert access(both, "b").login == Token("2")
    assert access(merged(kubeconfig({"token": "3"}, name="b"), both), "b").login == Token("3")


async def test_files_are_found_where_kubectl_finds_them(tmp_path, monkeypatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(yaml.safe_dump(kubeconfig({"token": name}, name=name)))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{tmp_path}/a:{tmp_path}/b")
    assert config.load().access.login == Token("a")
    assert config.load(context="b").access.login == Token("b")
    assert config.load(tmp_path / "b").access.login == Token("b")
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InvalidInput, match="there is no kubeconfig at"):
        config.load()


async def test_a_pod_uses_its_service_account(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidInput, match="does not run in a Kubernetes pod"):
        config.in_cluster()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(InvalidInput, match=r"cannot read .*ca\.crt"):
        config.in_cluster()
    (tmp_path / "ca.crt").write_text("")
    (tmp_path / "token").write_text("t")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    found = config.load().access
    assert (found.server, found.login) == ("https://[fd00::1]:443", TokenFile(tmp_path / "token"))
