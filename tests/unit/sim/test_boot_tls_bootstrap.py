"""When a simulated VM trusts what a cluster says of itself: signed by its token, and of the right authority."""

import hmac
from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime
from hashlib import sha256

import pytest
import yaml

from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import public_key_hashes
from kubewright.pki.keys import Algorithm
from kubewright.providers.sim.kubeadm import Join, NodeSetup, Unbootable
from kubewright.providers.sim.tls_bootstrap import NotYet, trusted

CA = new_cluster_authority(datetime(2030, 1, 1, tzinfo=UTC), Algorithm.EC).certificate
HASHES = tuple(public_key_hashes(CA))
TOKEN = "abcdef.0123456789abcdef"


def encoded(raw):
    return urlsafe_b64encode(raw).decode().rstrip("=")


def info(secret="0123456789abcdef", text=None):
    """A ConfigMap cluster-info, signed as kube-controller-manager signs it."""
    cluster = {"server": "https://10.0.0.1:6443", "certificate-authority-data": b64encode(CA).decode()}
    text = text or yaml.safe_dump({"clusters": [{"name": "", "cluster": cluster}]})
    head = encoded(b'{"alg":"HS256","kid":"abcdef"}')
    signature = hmac.digest(secret.encode(), f"{head}.{encoded(text.encode())}".encode(), sha256)
    return {"kubeconfig": text, "jws-kubeconfig-abcdef": f"{head}..{encoded(signature)}"}


def join(hashes=HASHES, **more):
    return Join("10.0.0.1:6443", NodeSetup(), TOKEN, hashes, **more)


def test_what_is_signed_by_the_token_and_has_the_right_authority_is_trusted():
    assert trusted(info(), join()) == CA


def test_without_hashes_the_token_is_enough_if_the_machine_was_told_so():
    assert trusted(info(), join((), unsafe=True)) == CA


REFUSED = [
    ("nothing is signed yet", {**info(), "jws-kubeconfig-abcdef": ""}, join(), NotYet, "not signed by its bootstrap token yet"),
    ("nothing is there yet", {}, join(), NotYet, "not signed by its bootstrap token yet"),
    ("another token has signed it", info("another-secret00"), join(), NotYet, "not by its bootstrap token"),
    ("its signature is no text of base64", {**info(), "jws-kubeconfig-abcdef": "é..ü"}, join(), NotYet, "not by its bootstrap token"),
    ("it was changed after that", {**info(), "kubeconfig": "{}"}, join(), NotYet, "not by its bootstrap token"),
    ("it is of another authority", info(), join(("sha256:00",)), Unbootable, "none of the caCertHashes"),
    ("it has no authority", info(text="clusters: []"), join(), Unbootable, "has no authority"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "joining", "error", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_not_trusted(found, joining, error, said):
    with pytest.raises(error, match=said) as raised:
        trusted(found, joining)
    assert "0123456789abcdef" not in str(raised.value)
