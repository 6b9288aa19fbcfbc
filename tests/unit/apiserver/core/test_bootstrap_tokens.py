"""Which bootstrap tokens authenticate a user."""

import base64
import json
from datetime import timedelta

import pytest

from kubewright.apiserver.registry.tokens import BootstrapTokens
from kubewright.base.clock import rfc3339
from kubewright.testing.clocks import BEGIN, ManualClock
from kubewright.wire.http import User

TOKEN = "abcdef.0123456789abcdef"
GOOD = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
TYPE = "bootstrap.kubernetes.io/token"


def tokens(data, kind=TYPE, **metadata):
    coded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    body = json.dumps({"metadata": metadata, "type": kind, "data": coded}).encode()
    known = {("kube-system", "bootstrap-token-abcdef"): body}
    return BootstrapTokens(lambda namespace, name: known.get((namespace, name)), ManualClock())


def ends(**after):
    return {**GOOD, "expiration": rfc3339(BEGIN + timedelta(**after))}


@pytest.mark.parametrize(
    ("data", "groups"),
    [
        pytest.param(GOOD, (), id="it never ends"),
        pytest.param(ends(seconds=1), (), id="it ends later"),
        pytest.param(
            {**GOOD, "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token,system:masters"},
            ("system:bootstrappers:kubeadm:default-node-token",),
            id="it has a group of bootstrappers, and one that it must not have",
        ),
    ],
)
def test_a_token_is_a_users(data, groups):
    assert tokens(data).user(TOKEN) == User("system:bootstrap:abcdef", ("system:bootstrappers", *groups))


@pytest.mark.parametrize(
    ("found", "token"),
    [
        pytest.param(tokens(GOOD), "abcdef.0000000000000000", id="another secret"),
        pytest.param(tokens(GOOD), "fedcba.0123456789abcdef", id="another id"),
        pytest.param(tokens(GOOD), "abcdef", id="no token"),
        pytest.param(tokens(GOOD), "../../.0123456789abcdef", id="a path"),
        pytest.param(tokens({**GOOD, "token-id": "other1"}), TOKEN, id="the Secret has another id"),
        pytest.param(
            tokens({**GOOD, "usage-bootstrap-authentication": "false"}), TOKEN, id="not for this use"
        ),
        pytest.param(tokens(ends(seconds=0)), TOKEN, id="it has ended"),
        pytest.param(tokens({**GOOD, "expiration": "soon"}), TOKEN, id="its end is no time"),
        pytest.param(tokens(GOOD, kind="Opaque"), TOKEN, id="a Secret of another type"),
        pytest.param(tokens(GOOD, deletionTimestamp="2030-01-01T00:00:00Z"), TOKEN, id="it is being deleted"),
        pytest.param(tokens({}), TOKEN, id="an empty Secret"),
    ],
)
def test_a_token_is_nobodys(found, token):
    assert found.user(token) is None
