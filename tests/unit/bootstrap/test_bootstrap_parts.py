"""Tokens, certificates and the init lock: what each is, and what is made of what is there."""

import json
import textwrap
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from random import Random
from urllib.parse import quote

import pytest

from kubewright.api.bootstrap.names import IGNITION_FILE, JOIN_FILE
from kubewright.api.bootstrap.v1beta1 import (
    ClusterConfiguration,
    Etcd,
    ExternalEtcd,
)
from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta
from kubewright.bootstrap import certificates, lock, tokens
from kubewright.bootstrap.certificates import Certificate
from kubewright.bootstrap.tokens import Token
from kubewright.pki.clusters import new_pair
from kubewright.pki.credentials import Purpose
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.runtime.credentials.values import pair_of
from kubewright.testing.keys import unusual_authority

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TTL = timedelta(minutes=15)
PAIRS = {each: new_pair(each, NOW, Algorithm.EC) for each in Purpose}


FOUND = "abcdef.0123456789abcdef"
OTHER = "bootstrapToken:\n  token: ghijkl.0123456789abcdef\n"
JOINS = f"---\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n    apiServerEndpoint: h:1\n    token: {FOUND}\n"


def cloud_config(*files: tuple[str, str], indent: str = "") -> str:
    """Data as a provider writes them, with these files."""
    written = "".join(
        f"{indent}- path: {path}\n{indent}  content: |\n{textwrap.indent(text, f'{indent}    ')}"
        for path, text in files
    )
    return f"## template: jinja\n#cloud-config\n\nwrite_files:\n{written}runcmd:\n- {OTHER!r}\n"


def ignition_config(*sources: tuple[str, str]) -> str:
    files = [{"path": path, "contents": {"source": source}} for path, source in sources]
    return json.dumps({"storage": {"files": files}})


TEXTS = {
    "cloud-config": (cloud_config((JOIN_FILE, JOINS)), FOUND),
    "cloud-config with more indent": (cloud_config(("/a", OTHER), (JOIN_FILE, JOINS), ("/b", OTHER), indent="  "), FOUND),
    "quoted": (cloud_config((JOIN_FILE, JOINS.replace(FOUND, f"'{FOUND}'"))), FOUND),
    "in JSON": (cloud_config((JOIN_FILE, json.dumps({"discovery": {"bootstrapToken": {"token": FOUND}}}) + "\n")), FOUND),
    "after a user's file that has another": (cloud_config(("/a", OTHER), (JOIN_FILE, JOINS)), FOUND),
    "after data of another machine in a user's file": (cloud_config(("/a", cloud_config((JOIN_FILE, OTHER))), (JOIN_FILE, JOINS)), FOUND),
    "after a user's file of the same path": (cloud_config((JOIN_FILE, f"discovery: {{{OTHER}}}\n"), (JOIN_FILE, JOINS)), FOUND),
    "with a statement of Jinja": (cloud_config((JOIN_FILE, JOINS)).replace("kind: J", "kind: |-\n{% if a %}\nJ"), FOUND),
    "a user's file alone has one": (cloud_config(("/a", JOINS)), ""),
    "Ignition": (ignition_config(("/a", f"data:,{quote(OTHER)}"), (IGNITION_FILE, f"data:,{quote(JOINS)}")), FOUND),
    "Ignition in base64": (ignition_config((IGNITION_FILE, f"data:;base64,{b64encode(JOINS.encode()).decode()}")), FOUND),
    "no Ignition": ("{", ""),
    "joining by a file": (cloud_config((JOIN_FILE, "discovery:\n  tlsBootstrapToken: ghijkl.0123456789abcdef\n")), ""),
    "the first machine": (cloud_config((JOIN_FILE, "bootstrapTokens:\n- groups: []\n  token: none\n")), ""),
    "a document that is none": (cloud_config((JOIN_FILE, "- discovery\n")), ""),
    "no data": ("", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "token"), TEXTS.values(), ids=TEXTS)
def test_the_token_that_data_have_is_found(text: str, token: str) -> None:
    found = tokens.token_in_data(text)
    assert (found.text if found is not None else "") == token


def test_a_token_is_drawn_by_a_seed_and_read_again() -> None:
    token = tokens.new_token(Random(1).choice)
    assert token == tokens.new_token(Random(1).choice)
    assert (len(token.id), len(token.secret)) == (6, 16)
    assert tokens.parse_token(token.text) == token
    assert token.secret not in repr(token)


@pytest.mark.parametrize(
    "text", ["", "abcdef", "abcdef.0123456789ABCDEF", "abcde.0123456789abcdef", "a.b.c", "{{ x }}"]
)
def test_what_is_no_token_is_not_read(text: str) -> None:
    assert tokens.parse_token(text) is None


def test_a_cluster_knows_a_token_by_a_secret() -> None:
    secret = tokens.token_secret(Token("abcdef", "0123456789abcdef"), NOW + TTL)
    assert (secret.namespace, secret.name, secret.type) == (
        "kube-system",
        "bootstrap-token-abcdef",
        "bootstrap.kubernetes.io/token",
    )
    texts = {key: value.decode() for key, value in secret.data.items()}
    assert texts.pop("description")
    assert texts == {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "expiration": "2030-01-01T00:15:00Z",
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
    }
    assert tokens.expiration(secret) == NOW + TTL


@pytest.mark.parametrize("data", [{}, {"expiration": b""}, {"expiration": b"soon"}, {"expiration": b"\xff"}])
def test_an_expiration_that_cannot_be_read_is_none(data: dict[str, bytes]) -> None:
    assert tokens.expiration(Secret(data=data)) is None


@pytest.mark.parametrize(
    ("left", "refreshed"),
    [
        pytest.param(None, True, id="one that says nothing is refreshed"),
        pytest.param(timedelta(minutes=-1), True, id="an expired one is refreshed"),
        pytest.param(timedelta(minutes=10), True, id="one with two thirds of its life is refreshed"),
        pytest.param(timedelta(minutes=12.5), True, id="one with five sixths of its life is refreshed"),
        pytest.param(timedelta(minutes=12.6), False, id="one with more is not"),
    ],
)
def test_a_token_is_refreshed_while_two_looks_may_fail(left: timedelta | None, *, refreshed: bool) -> None:
    assert tokens.needs_refresh(None if left is None else NOW + left, TTL, NOW) is refreshed


def test_a_token_is_looked_at_three_times_in_its_life() -> None:
    assert tokens.check_every(TTL) == timedelta(minutes=5)


def paths(wanted: tuple[Certificate, ...]) -> list[str]:
    return [each.path for each in certificates.as_files(wanted, PAIRS)]


def test_a_control_plane_machine_has_all_pairs_in_order() -> None:
    wanted = certificates.of_control_plane(None)
    files = certificates.as_files(wanted, PAIRS)
    assert [(each.path, each.permissions, each.owner) for each in files] == [
        ("/etc/kubernetes/pki/ca.crt", "0640", "root:root"),
        ("/etc/kubernetes/pki/ca.key", "0600", "root:root"),
        ("/etc/kubernetes/pki/etcd/ca.crt", "0640", "root:root"),
        ("/etc/kubernetes/pki/etcd/ca.key", "0600", "root:root"),
        ("/etc/kubernetes/pki/front-proxy-ca.crt", "0640", "root:root"),
        ("/etc/kubernetes/pki/front-proxy-ca.key", "0600", "root:root"),
        ("/etc/kubernetes/pki/sa.pub", "0640", "root:root"),
        ("/etc/kubernetes/pki/sa.key", "0600", "root:root"),
    ]
    assert files[0].content.encode() == PAIRS[Purpose.CA].certificate
    assert files[1].content.encode() == PAIRS[Purpose.CA].key


def test_pairs_stand_where_the_cluster_wants_them() -> None:
    wanted = certificates.of_control_plane(ClusterConfiguration(certificates_dir="/pki/"))
    assert all(path.startswith("/pki/") and "//" not in path for path in paths(wanted))


def test_an_etcd_elsewhere_brings_its_own() -> None:
    etcd = Etcd(external=ExternalEtcd(ca_file="/e/ca.crt", cert_file="/e/c.crt", key_file="/e/c.key"))
    wanted = certificates.of_control_plane(ClusterConfiguration(etcd=etcd))
    assert [path for path in paths(wanted) if path.startswith("/e/")] == ["/e/ca.crt", "/e/c.crt", "/e/c.key"]
    assert [each.purpose for each in wanted if each.external] == [Purpose.ETCD, Purpose.ETCD_CLIENT]


def test_a_worker_needs_the_authority_alone() -> None:
    assert certificates.of_worker("") == (Certificate(Purpose.CA, "/etc/kubernetes/pki/ca.crt"),)
    assert certificates.of_worker("/x") == (Certificate(Purpose.CA, "/x"),)


def test_what_is_missing_and_what_is_wrong_are_told_apart() -> None:
    wanted = certificates.of_control_plane(None)
    pairs = {
        Purpose.CA: KeyPair(PAIRS[Purpose.CA].certificate),
        Purpose.ETCD: KeyPair(b"rubbish", b"x"),
        Purpose.SERVICE_ACCOUNT: PAIRS[Purpose.SERVICE_ACCOUNT],
    }
    assert [each.purpose for each in certificates.missing(wanted, pairs)] == [Purpose.FRONT_PROXY]
    assert certificates.problems(wanted, pairs, "c", NOW) == [
        "Secret c-ca has no tls.key",
        "Secret c-etcd has a tls.crt that is neither a certificate nor a public key in PEM",
    ]


def test_a_workers_cluster_may_keep_its_key() -> None:
    pairs = {Purpose.CA: KeyPair(PAIRS[Purpose.CA].certificate)}
    assert certificates.problems(certificates.of_worker(""), pairs, "c", NOW) == []


@pytest.mark.parametrize("purpose", [Purpose.CA, Purpose.ETCD, Purpose.FRONT_PROXY])
def test_authorities_that_sign_nothing_are_told_with_the_reason(purpose: Purpose) -> None:
    wanted = certificates.of_control_plane(None)
    for unfit, told in [
        (unusual_authority(NOW, basic=False), "is no authority: its basic constraints do not say CA:TRUE"),
        (unusual_authority(NOW, signs=False), "may sign no others: its key usage lacks certSign"),
        (unusual_authority(NOW, begins=timedelta(days=1)), "is valid only from "),
    ]:
        (found,) = certificates.problems(wanted, {**PAIRS, purpose: unfit}, "c", NOW)
        assert found.startswith(f"Secret c-{purpose.value} has a certificate that {told}")


def test_the_authority_of_an_etcd_elsewhere_may_be_what_is_trusted_alone() -> None:
    etcd = Etcd(external=ExternalEtcd(endpoints=("https://e",), ca_file="/ca", cert_file="/c", key_file="/k"))
    wanted = certificates.of_control_plane(ClusterConfiguration(etcd=etcd))
    leaf = unusual_authority(NOW, basic=False, signs=False)
    pairs = {**PAIRS, Purpose.ETCD: KeyPair(leaf.certificate), Purpose.ETCD_CLIENT: leaf}
    assert certificates.problems(wanted, pairs, "c", NOW) == []


def test_the_hash_of_the_authority_is_what_a_machine_trusts_the_cluster_by() -> None:
    pairs = {Purpose.CA: KeyPair(PAIRS[Purpose.CA].certificate)}
    assert certificates.hashes(pairs)[0].startswith("sha256:")


def test_a_pair_is_read_from_its_secret() -> None:
    secret = Secret(data={"tls.crt": b"a", "tls.key": b"b", "ca.crt": b"c"})
    assert pair_of(secret) == KeyPair(b"a", b"b")
    assert pair_of(Secret()) == KeyPair(b"")


def test_the_lock_names_its_holder_in_upstreams_words() -> None:
    cluster = Cluster(metadata=ObjectMeta(name="c", namespace="n", uid="u"))
    made = lock.config_map(cluster, "m-0")
    assert made["metadata"] == {
        "name": "c-lock",
        "namespace": "n",
        "labels": {"cluster.x-k8s.io/cluster-name": "c"},
        "ownerReferences": [
            {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "c", "uid": "u"}
        ],
    }
    assert made["data"] == {"lock-information": '{"machineName":"m-0"}'}
    assert lock.holder_of(made["data"]) == "m-0"


@pytest.mark.parametrize(
    "text", [None, "", "rubbish", "[]", "{}", '{"machineName": 1}', '"m"'], ids=lambda text: f"lock {text}"
)
def test_a_lock_that_cannot_be_read_names_nobody(text: str | None) -> None:
    assert lock.holder_of({} if text is None else {"lock-information": text}) == ""
