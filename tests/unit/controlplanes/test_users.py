"""What is decided about a user of a control plane, from everything that is seen; and what a token says."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import FINALIZER
from kubewright.api.controlplane.v1alpha4 import (
    ControlPlaneUser,
    ControlPlaneUserSpec,
    ControlPlaneUserStatus,
    NestedControlPlane,
    NestedControlPlaneSpec,
)
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.users import kubeconfigs
from kubewright.controlplanes.users.decide import decide, status_of
from kubewright.controlplanes.users.seen import (
    AccountObjects,
    AddFinalizer,
    Grant,
    Issue,
    RemoveFinalizer,
    Revoke,
    Seen,
    account_of,
    binding_of,
    role_of,
)
from kubewright.pki.keys import KeyPair
from kubewright.runtime.credentials.values import Found
from kubewright.wire.http import User

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = OwnerReference(
    api_version="controlplane.cluster.x-k8s.io/v1alpha4",
    kind="ControlPlaneUser",
    name="alice",
    uid="1",
    controller=True,
)
SLEEPS = "NestedControlPlane demo sleeps"
ALICE = User("alice", ("a", "b"))


def user(*, deleting: bool = False, finalizer: bool = True, expires: float | None = None, **spec: Any):
    meta = ObjectMeta(
        name="alice",
        namespace="default",
        uid="1",
        finalizers=(FINALIZER,) if finalizer else (),
        deletion_timestamp=NOW if deleting else None,
    )
    status = ControlPlaneUserStatus(expires_at=None if expires is None else NOW + timedelta(hours=expires))
    given = {"control_plane_name": "demo", "groups": ALICE.groups, **spec}
    return ControlPlaneUser(metadata=meta, spec=ControlPlaneUserSpec(**given), status=status)


def token(uid: str = "7", *, issued: float = 0, expires: float = 24) -> str:
    """Hours from now."""
    claims = {
        "iat": int((NOW + timedelta(hours=issued)).timestamp()),
        "exp": int((NOW + timedelta(hours=expires)).timestamp()),
        "kubernetes.io": {"namespace": "kube-system", "serviceaccount": {"name": "x", "uid": uid}},
    }
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


def secret(
    text: str | None = None, *, server: str = "https://127.0.0.1:1", ca: bytes = b"CA", owner=OWNER, who=ALICE
):
    value = kubeconfigs.render("demo", server, ca, who, token() if text is None else text)
    meta = ObjectMeta(name="demo-user-alice", owner_references=(owner,) if owner is not None else ())
    return Found({"value": value}, KeyPair(b"", b""), metadata=meta)


def objects(uid: str = "7", who: ControlPlaneUser | None = None) -> AccountObjects:
    mine = who or user()
    there = {**account_of(mine), "metadata": {**account_of(mine)["metadata"], "uid": uid}}
    return AccountObjects(there, role_of(mine), binding_of(mine))


def seen(mine: ControlPlaneUser | None = None, kubeconfig: Found | None = None, **fields: Any) -> Seen:
    """One with all that there should be; ``fields`` replace parts of it."""
    plane = NestedControlPlane(
        metadata=ObjectMeta(name="demo", deletion_timestamp=NOW if fields.pop("plane_goes", False) else None),
        spec=NestedControlPlaneSpec(control_plane_endpoint=ApiEndpoint(host="127.0.0.1", port=1)),
    )
    authority = Found({}, KeyPair(b"CA", b""), metadata=ObjectMeta(name="demo-ca"))
    found = {"demo-ca": authority, "demo-user-alice": kubeconfig or secret()}
    given = {"family": Family(plane), "found": found, "objects": objects(), **fields}
    kept = given["found"].get("demo-user-alice")
    held = kubeconfigs.read(kept.contents["value"]) if kept is not None else None
    return Seen(mine or user(), NOW, held=held, **given)


NONE = {"demo-ca": Found({}, KeyPair(b"CA", b""), metadata=ObjectMeta(name="demo-ca"))}
STEPS = [
    ("all as it should be", seen(), ()),
    ("the finalizer comes first", seen(user(finalizer=False), objects=None), (AddFinalizer,)),
    ("nothing there and no Secret", seen(found=NONE, objects=AccountObjects()), (Grant, Issue)),
    ("no role there", seen(objects=AccountObjects(objects().account, None, objects().binding)), (Grant,)),
    ("another group", seen(user(groups=("a",)), secret(who=User("alice", ("a",)))), (Grant,)),
    ("a Secret for other groups", seen(kubeconfig=secret(who=User("alice", ("a",)))), (Issue,)),
    ("half of its life is over", seen(kubeconfig=secret(token(issued=-12, expires=12))), (Issue,)),
    ("a minute before that", seen(kubeconfig=secret(token(issued=-11.98, expires=12.02))), ()),
    ("a server elsewhere", seen(kubeconfig=secret(server="https://127.0.0.1:2")), (Issue,)),
    ("another authority", seen(kubeconfig=secret(ca=b"former")), (Issue,)),
    ("a token of another account", seen(kubeconfig=secret(token("6"))), (Revoke, Grant, Issue)),
    ("an account of which no token is kept", seen(found=NONE), (Revoke, Grant, Issue)),
    ("a token that the API server does not accept", seen(objects=replace(objects(), refuses=True)), (Issue,)),
    ("no account any more", seen(objects=AccountObjects()), (Grant, Issue)),
    ("a shorter lifetime", seen(user(lifetime="1h")), (Revoke, Grant, Issue)),
    ("a longer lifetime", seen(user(lifetime="48h")), ()),
    ("a Secret with another content", seen(kubeconfig=secret("no token")), (Revoke, Grant, Issue)),
    ("it sleeps, and the token is good", seen(objects=None, unreachable=SLEEPS), ()),
    ("it sleeps, and there is none", seen(found=NONE, objects=None, unreachable=SLEEPS), ()),
    ("it is deleted", seen(user(deleting=True)), (Revoke, RemoveFinalizer)),
    ("it is deleted, and had nothing there", seen(user(deleting=True, finalizer=False), objects=None), ()),
    ("it is deleted while it sleeps", seen(user(deleting=True), objects=None, unreachable=SLEEPS), ()),
    ("it is deleted while it sleeps, and no token is good", seen(user(deleting=True, expires=-1), secret(token(issued=-25, expires=-1)), objects=None, unreachable=SLEEPS), (RemoveFinalizer,)),
    ("it is deleted, and none was ever kept", seen(user(deleting=True), found=NONE, objects=None, unreachable=SLEEPS), (RemoveFinalizer,)),
    ("it is deleted with its control plane", seen(user(deleting=True), plane_goes=True, objects=None, unreachable=SLEEPS), (RemoveFinalizer,)),
    ("it is deleted after its control plane", seen(user(deleting=True), family=None, found={}, objects=None, unreachable="there is none"), (RemoveFinalizer,)),
    ("a certificate is asked for instead", seen(user(credential="Certificate")), (Revoke, RemoveFinalizer)),
    ("a Secret of another object", seen(kubeconfig=secret(owner=None)), ()),
    ("an account of another program", seen(objects=AccountObjects({"metadata": {"uid": "7"}}, None, None)), ()),
]  # fmt: skip


@pytest.mark.parametrize(("given", "steps"), [each[1:] for each in STEPS], ids=[each[0] for each in STEPS])
def test_the_steps_of_a_plan(given: Seen, steps: tuple[type, ...]) -> None:
    plan = decide(given)
    assert tuple(type(each) for each in plan.steps) == steps
    assert plan.because
    assert plan == decide(given)


SAID = [
    ("all as it should be", seen(), (True, "True", "")),
    ("no control plane", seen(family=None, found={}, objects=None, unreachable="x"), (False, "False", "there is no NestedControlPlane demo")),
    ("it sleeps, and there is none", seen(found=NONE, objects=None, unreachable=SLEEPS), (False, "False", f"there is no Secret demo-user-alice; {SLEEPS}")),
    ("it sleeps, and the token is good", seen(objects=None, unreachable=SLEEPS), (True, "True", "")),
    ("it sleeps, and the token has expired", seen(kubeconfig=secret(token(issued=-25, expires=-1)), objects=None, unreachable=SLEEPS), (False, "False", f"half of the token's life is over; {SLEEPS}")),
    ("it cannot be reached, and half is over", seen(kubeconfig=secret(token(issued=-13, expires=11)), objects=None, unreachable="no answer", unheard=True), (True, "True", "")),
    ("it refuses us", seen(objects=None, unreachable="it refuses", refused="it refuses"), (False, "False", "it refuses")),
    ("deleted while it sleeps", seen(user(deleting=True), objects=None, unreachable=SLEEPS), (False, "False", f"its account cannot be deleted yet: {SLEEPS}")),
    ("a Secret of another object", seen(kubeconfig=secret(owner=None)), (False, "False", "Secret demo-user-alice is not ours to write")),
    ("an account of another program", seen(objects=AccountObjects({"metadata": {"uid": "7"}}, None, None)), (False, "False", "ServiceAccount kube-system/kubewright-user-alice of the control plane is not ours")),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), [each[1:] for each in SAID], ids=[each[0] for each in SAID])
def test_what_the_status_says(given: Seen, said: tuple[bool, str, str]) -> None:
    status = status_of(given, decide(given))
    assert (status.ready, status.conditions[0].status, status.conditions[0].message) == said


WAKES = [
    ("half of a short life", seen(user(lifetime="1h"), secret(token(expires=1))), timedelta(minutes=30)),
    ("an hour, at most, since a restore is not told", seen(), timedelta(hours=1)),
    ("the end of the token, while it sleeps", seen(objects=None, unreachable=SLEEPS), timedelta(hours=24)),
    ("soon, while it cannot be reached and half is over", seen(kubeconfig=secret(token(issued=-13, expires=11)), objects=None, unreachable="no answer", unheard=True), timedelta(seconds=30)),
    ("soon, while the authority is missing, which a user may restore unlabelled", replace(seen(), found={}), timedelta(seconds=30)),
    ("the end of the last token, while a deletion waits", seen(user(deleting=True, expires=2), secret(token(expires=1)), objects=None, unreachable=SLEEPS), timedelta(hours=2)),
]  # fmt: skip


@pytest.mark.parametrize(("given", "wake"), [each[1:] for each in WAKES], ids=[each[0] for each in WAKES])
def test_when_it_is_looked_at_again(given: Seen, wake: timedelta) -> None:
    assert decide(given).wake == wake


def test_the_account_may_impersonate_this_name_and_these_groups_and_nothing_else() -> None:
    rules = role_of(user(user="alice@example"))["rules"]
    assert [(each["resources"], each["resourceNames"], each["verbs"]) for each in rules] == [
        (["users"], ["alice@example"], ["impersonate"]),
        (["groups"], ["a", "b"], ["impersonate"]),
    ]


def test_a_user_without_groups_may_not_choose_one() -> None:
    rules = role_of(user(groups=()))["rules"]
    assert [(each["resources"], each["resourceNames"]) for each in rules] == [(["users"], ["alice"])]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(kubeconfigs.render("demo", "https://a:1", b"CA", ALICE, "token"), id="a token without claims"),
        pytest.param(kubeconfigs.render("demo", "https://a:1", b"CA", ALICE, "a.e30.c"), id="a token of no account"),
        pytest.param(kubeconfigs.render("demo", "https://a:1", b"CA", User("", ()), token()), id="no user to impersonate"),
    ],
)  # fmt: skip
def test_what_is_no_kubeconfig_with_a_token(value: bytes) -> None:
    assert kubeconfigs.read(value) is None
