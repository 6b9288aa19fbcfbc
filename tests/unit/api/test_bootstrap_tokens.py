"""Bootstrap tokens in their Secrets: which count, and what they sign."""

from datetime import timedelta

import pytest

from kubewright.api.bootstrap.tokens import is_signed, read, secret_of, signature
from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import rfc3339
from kubewright.builtin.joining import corrections
from kubewright.testing.clocks import BEGIN
from kubewright.wire.gvk import Key

KIND = "bootstrap.kubernetes.io/token"
KEY = Key("kube-system", "bootstrap-token-abcdef")
DATA = {
    "token-id": b"abcdef", "token-secret": b"0123456789abcdef", "usage-bootstrap-signing": b"true",
    "usage-bootstrap-authentication": b"true",
}  # fmt: skip


def test_a_token_says_what_it_is_for_and_shows_no_secret():
    token = read(KEY, KIND, {**DATA, "auth-extra-groups": b"system:bootstrappers:a, system:masters"})
    assert token is not None
    assert token.signs
    assert token.authenticates
    assert token.groups == ("system:bootstrappers", "system:bootstrappers:a")
    assert "0123456789abcdef" not in repr(token)
    assert token.is_text("abcdef.0123456789abcdef")
    assert not token.is_text("abcdef.0123456789abcdeg")
    assert secret_of("abcdef.0123456789abcdef") == KEY.name
    assert secret_of("abcdef") == secret_of("../x.0123456789abcdef") == ""


@pytest.mark.parametrize(
    ("key", "kind", "data"),
    [
        pytest.param(KEY, "Opaque", DATA, id="another type"),
        pytest.param(Key("default", KEY.name), KIND, DATA, id="elsewhere"),
        pytest.param(Key("kube-system", "abcdef"), KIND, DATA, id="another name"),
        pytest.param(KEY, KIND, {**DATA, "token-id": b"fedcba"}, id="another id"),
        pytest.param(KEY, KIND, {**DATA, "token-secret": b"short"}, id="no secret of that form"),
        pytest.param(KEY, KIND, {**DATA, "token-secret": "ü".encode() * 8}, id="letters"),
        pytest.param(KEY, KIND, {**DATA, "expiration": b"soon"}, id="an end that is no time"),
        pytest.param(KEY, KIND, {}, id="nothing"),
    ],
)
def test_what_is_no_token(key, kind, data):
    assert read(key, kind, data) is None


def test_a_signature_is_of_one_text_by_one_token():
    made = signature("text", "abcdef", "0123456789abcdef")
    assert is_signed("text", made, "0123456789abcdef")
    assert not is_signed("texts", made, "0123456789abcdef")
    assert not is_signed("text", made, "0123456789abcdeg")
    assert not is_signed("text", "", "0123456789abcdef")
    assert made.startswith(
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9.."
    )  # as kube-controller-manager writes it


def secret(token_id, **data):
    known = {**DATA, "token-id": token_id.encode(), **{key: text.encode() for key, text in data.items()}}
    meta = ObjectMeta(name=f"bootstrap-token-{token_id}", namespace="kube-system")
    return Secret(metadata=meta, type=KIND, data=known)


def test_signatures_that_are_missing_or_wrong_are_written_and_others_taken_out():
    right = signature("text", "aaaaaa", "0123456789abcdef")
    ended = secret("cccccc", expiration=rfc3339(BEGIN - timedelta(seconds=1)))
    mute = secret("dddddd", **{"usage-bootstrap-signing": "false"})
    found = {
        "kubeconfig": "text",
        "jws-kubeconfig-aaaaaa": right,
        "jws-kubeconfig-cccccc": "x",
        "other": "stays",
    }
    tokens = [secret("aaaaaa"), secret("bbbbbb"), ended, mute]
    assert corrections(found, tokens, BEGIN) == {
        "jws-kubeconfig-bbbbbb": signature("text", "bbbbbb", "0123456789abcdef"),
        "jws-kubeconfig-cccccc": None,
    }
    assert corrections({"other": "a"}, tokens, BEGIN) == {}
