"""Impersonation: the rights that it needs, and the user that results."""

import pytest

from kubewright.apiserver.http import authn
from kubewright.wire.errors import BadRequest
from kubewright.wire.http import AUTHENTICATED, UNAUTHENTICATED, User

ROOT = User("root", ("admins",))
ROBOT = "system:serviceaccount:n:sa"
ALL_OF_IT = {
    "impersonate-user": "ann",
    "impersonate-group": "a,b\nc",
    "impersonate-uid": "7",
    "impersonate-extra-x%2fY": "1\n2",
    "accept": "*/*",
}


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        pytest.param({"impersonate-user": "ann"}, User("ann", (AUTHENTICATED,)), id="a user"),
        pytest.param(
            ALL_OF_IT, User("ann", ("a,b", "c", AUTHENTICATED), "7", (("x/y", ("1", "2")),)), id="all of it"
        ),
        pytest.param({"impersonate-user": "system:anonymous"}, User(), id="the anonymous one"),
        pytest.param(
            {"impersonate-user": "ann", "impersonate-group": UNAUTHENTICATED},
            User("ann", (UNAUTHENTICATED,)),
            id="a client without a credential",
        ),
        pytest.param(
            {"impersonate-user": ROBOT},
            User(ROBOT, ("system:serviceaccounts", "system:serviceaccounts:n", AUTHENTICATED)),
            id="a service account has its groups",
        ),
        pytest.param(
            {"impersonate-user": ROBOT, "impersonate-group": "g"},
            User(ROBOT, ("g", AUTHENTICATED)),
            id="unless others are asked for",
        ),
    ],
)
def test_the_impersonated_user(headers: dict[str, str], user: User) -> None:
    target = authn.requested(headers)
    assert target is not None
    assert authn.impersonated(target) == user


def test_without_a_user_header_there_is_no_impersonation() -> None:
    assert authn.requested({"accept": "*/*"}) is None
    assert authn.requested({"impersonate-user": ""}) is None


@pytest.mark.parametrize("header", ["impersonate-group", "impersonate-uid", "impersonate-extra-x"])
def test_a_group_without_a_user_is_refused(header: str) -> None:
    with pytest.raises(BadRequest, match="without impersonating a user name"):
        authn.requested({header: "x"})


def test_user_groups_uid_and_extra_must_each_be_allowed() -> None:
    target = authn.requested(ALL_OF_IT)
    assert target is not None
    asked = [(each.verb, each.group, each.combined, each.name) for each in authn.needed(ROOT, target)]
    assert asked == [
        ("impersonate", "", "users", "ann"),
        ("impersonate", "", "groups", "a,b"),
        ("impersonate", "", "groups", "c"),
        ("impersonate", "authentication.k8s.io", "userextras/x/y", "1"),
        ("impersonate", "authentication.k8s.io", "userextras/x/y", "2"),
        ("impersonate", "authentication.k8s.io", "uids", "7"),
    ]
    (account,) = authn.needed(ROOT, User(ROBOT, ()))
    assert (account.resource, account.namespace, account.name) == ("serviceaccounts", "n", "sa")
