"""Authorization of users without credentials: in process, by ``Request.user``."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from kubewright.apiserver.server import ApiServer
from kubewright.testing.clocks import LoopClock
from kubewright.wire.http import ADMIN, AUTHENTICATED, Request, User

RBAC = "/apis/rbac.authorization.k8s.io/v1"
BOB = User("bob", (AUTHENTICATED,))
PODS = "/api/v1/namespaces/default/pods"


async def ask(
    server: ApiServer,
    user: User,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    raw = b"" if body is None else orjson.dumps(body)
    answer = await server.handle(Request(method, path, (), headers or {}, raw, user))
    return answer.status, str(orjson.loads(answer.body).get("message", ""))


async def grant(server: ApiServer, rules: list[dict[str, Any]]) -> None:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bob"}
    subject = {"kind": "User", "name": "bob", "apiGroup": ref["apiGroup"]}
    await ask(server, ADMIN, "POST", f"{RBAC}/clusterroles", {"metadata": {"name": "bob"}, "rules": rules})
    body = {"metadata": {"name": "bob"}, "roleRef": ref, "subjects": [subject]}
    assert (await ask(server, ADMIN, "POST", f"{RBAC}/clusterrolebindings", body))[0] == 201


@pytest.fixture
async def server() -> Any:
    made = ApiServer(LoopClock())
    await made.start()
    yield made
    await made.close()


def to_impersonate(resource: str, name: str, group: str = "") -> dict[str, Any]:
    return {"verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": [name]}


ANN = {"impersonate-user": "ann"}
CANNOT = '{} is forbidden: User "bob" cannot impersonate resource "{}" in API group "{}" at the cluster scope'
AUTHN = "authentication.k8s.io"


@pytest.mark.parametrize(
    ("rules", "headers", "said"),
    [
        pytest.param([], ANN, CANNOT.format('users "ann"', "users", ""), id="no right at all"),
        pytest.param(
            [to_impersonate("users", "eve")],
            ANN,
            CANNOT.format('users "ann"', "users", ""),
            id="another user",
        ),
        pytest.param(
            [to_impersonate("users", "ann")],
            {**ANN, "impersonate-group": "devs"},
            CANNOT.format('groups "devs"', "groups", ""),
            id="a group besides",
        ),
        pytest.param(
            [to_impersonate("users", "ann")],
            {**ANN, "impersonate-uid": "7"},
            CANNOT.format('uids.authentication.k8s.io "7"', "uids", AUTHN),
            id="a uid besides",
        ),
        pytest.param(
            [to_impersonate("users", "ann")],
            {**ANN, "impersonate-extra-scope": "x"},
            CANNOT.format('userextras.authentication.k8s.io "x"', "userextras/scope", AUTHN),
            id="extra words besides",
        ),
        pytest.param(
            [to_impersonate("users", "ann")],
            ANN,
            'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"',
            id="what is asked for is then asked of the other",
        ),
        pytest.param(
            [to_impersonate("groups", "system:masters")],
            {**ANN, "impersonate-group": "system:masters"},
            CANNOT.format('users "ann"', "users", ""),
            id="the way to all rights needs every step",
        ),
    ],
)
async def test_to_be_taken_for_another_must_be_allowed(
    server: ApiServer, rules: list[dict[str, Any]], headers: dict[str, str], said: str
) -> None:
    await grant(server, rules)
    assert await ask(server, BOB, "GET", PODS, headers=headers) == (403, said)


async def test_who_may_impersonate_is_answered_as_the_other(server: ApiServer) -> None:
    rules = [to_impersonate("users", "ann"), to_impersonate("groups", "system:masters")]
    await grant(server, rules)
    assert (await ask(server, BOB, "GET", PODS))[0] == 403
    headers = {**ANN, "impersonate-group": "system:masters"}
    assert (await ask(server, BOB, "GET", PODS, headers=headers))[0] == 200


async def test_a_right_counts_from_the_answer_to_its_binding(server: ApiServer) -> None:
    assert (await ask(server, BOB, "GET", PODS))[0] == 403
    await grant(server, [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}])
    assert (await ask(server, BOB, "GET", PODS))[0] == 200
    await ask(server, ADMIN, "DELETE", f"{RBAC}/clusterroles/bob")
    assert await ask(server, BOB, "GET", PODS) == (
        403,
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default": '
        'RBAC: clusterrole.rbac.authorization.k8s.io "bob" not found',
    )


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("path", [PODS, f"{PODS}/a", f"{PODS}/a/status", "/metrics", "/no/such/path"])
async def test_who_has_no_rights_learns_nothing_by_any_method(
    server: ApiServer, method: str, path: str
) -> None:
    answer = await server.handle(Request(method, path, user=BOB))
    assert answer.status == 403
