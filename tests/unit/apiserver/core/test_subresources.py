"""Subresources as pure functions: scale, eviction, binding, tokens, reviews."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from kubewright.apiserver.authorization.policy import Binding, Policy, Rule, Subject
from kubewright.apiserver.registry import subresources
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.subresources import ISSUER, Delete, Judged, UpdateBudget
from kubewright.apiserver.registry.tokens import Account, Tokens
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record, record_of
from kubewright.base.clock import Clock, rfc3339
from kubewright.testing.clocks import LoopClock, ManualClock
from kubewright.wire.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, TooManyRequests
from kubewright.wire.http import ADMIN, User

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DEPLOYMENT = builtin_catalog().find("apps", "v1", "deployments")
OBJ = {
    "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": {"x": "y"}},
    "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}},
    "status": {"replicas": 2},
}


def test_a_scale_is_a_view() -> None:
    assert DEPLOYMENT is not None
    assert subresources.scale_of(DEPLOYMENT, OBJ) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "5"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "a=b"},
    }


@pytest.mark.parametrize(
    ("wanted", "outcome"),
    [
        ({"spec": {"replicas": 7}}, 7),
        ({"spec": {}}, 0),
        ({"spec": {"replicas": -1}}, Invalid),
        ({"spec": {"replicas": "3"}}, BadRequest),
        ({"spec": {"replicas": True}}, BadRequest),
        ({"spec": [1]}, BadRequest),
        ({"metadata": {"name": "other"}, "spec": {"replicas": 1}}, BadRequest),
        ([], BadRequest),
    ],
    ids=str,
)
def test_a_scale_is_written(wanted: Any, outcome: Any) -> None:
    assert DEPLOYMENT is not None
    edit = subresources.scaling(DEPLOYMENT, lambda _before: wanted, patched=False)
    if isinstance(outcome, int):
        after = edit(OBJ)
        assert (after["spec"]["replicas"], after["metadata"]) == (outcome, OBJ["metadata"])
    else:
        with pytest.raises(outcome):
            edit(OBJ)


def test_a_scale_passes_its_resource_version_on() -> None:
    assert DEPLOYMENT is not None
    wanted = {"metadata": {"resourceVersion": "4"}, "spec": {"replicas": 1}}
    assert (
        subresources.scaling(DEPLOYMENT, lambda _before: wanted, patched=False)(OBJ)["metadata"][
            "resourceVersion"
        ]
        == "4"
    )


def pod(phase: str = "Running", ready: bool = True, **metadata: Any) -> Object:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": "p", "labels": {"a": "b"}, **metadata},
        "status": {"phase": phase, "conditions": conditions},
    }


def budget(allowed: int = 1, spec: Object | None = None, generation: int = 1, **status: Any) -> Object:
    return {
        "metadata": {"name": "pdb", "generation": generation},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, **(spec or {})},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, **status},
    }


STRAINED = {"desiredHealthy": 2, "currentHealthy": 1}


@pytest.mark.parametrize(
    ("of", "budgets", "outcome"),
    [
        pytest.param(pod(), [], Delete, id="no budget selects it"),
        pytest.param(pod(), [budget(1)], UpdateBudget, id="the budget allows it"),
        pytest.param(pod(), [budget(0)], TooManyRequests, id="the budget does not allow it"),
        pytest.param(pod("Pending"), [budget(0)], Delete, id="pending"),
        pytest.param(pod("Failed"), [budget(0)], Delete, id="finished"),
        pytest.param(pod(deletionTimestamp="t"), [budget(0)], Delete, id="already being deleted"),
        pytest.param(pod(), [budget(5, generation=2)], TooManyRequests, id="the budget is not computed yet"),
        pytest.param(pod(), [budget(-1)], Forbidden, id="the budget's status is invalid"),
        pytest.param(pod(), [budget(), budget()], ApiError, id="two budgets"),
        pytest.param(
            pod(ready=False),
            [budget(0, **STRAINED)],
            TooManyRequests,
            id="unready, and too few are healthy",
        ),
        pytest.param(
            pod(ready=False),
            [budget(0, desiredHealthy=1, currentHealthy=1)],
            Delete,
            id="unready, and enough are healthy",
        ),
        pytest.param(
            pod(ready=False),
            [budget(0, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, **STRAINED)],
            Delete,
            id="unready, with AlwaysAllow",
        ),
    ],
)
def test_an_eviction(of: Object, budgets: list[Object], outcome: Any) -> None:
    if issubclass(outcome, ApiError):
        with pytest.raises(outcome):
            subresources.decide_eviction(of, budgets, NOW)
    else:
        assert isinstance(subresources.decide_eviction(of, budgets, NOW), outcome)


def test_an_eviction_is_written_into_its_budget() -> None:
    decision = subresources.decide_eviction(pod(), [budget(1)], NOW)
    assert isinstance(decision, UpdateBudget)
    status = decision.budget["status"]
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (0, {"p": "2030-01-01T00:00:00Z"})
    assert status["conditions"][0]["type"] == "DisruptionAllowed"


FAILED_SYNC = {
    "observedGeneration": 9,
    "currentHealthy": 3,
    "desiredHealthy": 2,
    "conditions": [
        {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}
    ],
}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (FAILED_SYNC, "does not allow evicting pods currently because it failed sync: no scale"),
        ({**FAILED_SYNC, "conditions": []}, "does not allow evicting pods currently"),
        ({"currentHealthy": 1, "desiredHealthy": 2}, "needs 2 healthy pods and has 1 currently"),
    ],
    ids=["failed sync", "no reason", "too few"],
)
def test_a_refused_eviction_says_why(status: Object, words: str) -> None:
    with pytest.raises(TooManyRequests) as refused:
        subresources.decide_eviction(
            pod(), [{**budget(0), "status": {"observedGeneration": 9, **status}}], NOW
        )
    assert refused.value.causes[0]["message"] == f"The disruption budget pdb {words}"


def test_a_budget_that_cannot_be_read_does_not_stop_the_evictions_of_others() -> None:
    unreadable = {**budget(0), "spec": {"selector": {"matchExpressions": [{"key": "a b", "operator": "In"}]}}}
    assert subresources.budgets_for(pod(), [unreadable, budget(3)]) == [budget(3)]


def test_only_budgets_that_select_a_pod_count() -> None:
    other = budget(0, {"selector": {"matchLabels": {"a": "c"}}})
    nothing = budget(0, {"selector": None})
    assert subresources.budgets_for(pod(), [other, nothing, budget(3)]) == [budget(3)]


def test_a_binding_gives_a_node_once() -> None:
    edit = subresources.bind({"target": {"kind": "Node", "name": "n1"}}, "p", NOW)
    bound = edit({"metadata": {"name": "p"}, "spec": {}})
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(Conflict, match='pod p is already assigned to node "n1"'):
        edit(bound)


@pytest.mark.parametrize(
    "sent", [{}, {"target": "n"}, {"target": {}}, {"target": {"name": "n", "kind": "Pod"}}], ids=str
)
def test_a_malformed_binding_is_refused(sent: Object) -> None:
    with pytest.raises(ApiError) as refused:
        subresources.bind(sent, "p", NOW)
    assert refused.value.code in (400, 422)


ACCOUNT = Account("n", "sa", "uid-1")
KEY = b"k" * 32
Objects = dict[tuple[str, str, str], Record]


def kept(resource: str, name: str, uid: str, **metadata: Any) -> Record:
    obj = {"metadata": {"name": name, "uid": uid, **metadata}}
    return record_of(resource, name, 1, orjson.dumps(obj))


def accounts() -> Objects:
    return {("serviceaccounts", "n", "sa"): kept("serviceaccounts", "sa", "uid-1")}


def tokens_of(objects: Objects, clock: Clock, key: bytes = KEY) -> Tokens:
    return Tokens(key, clock, lambda resource, namespace, name: objects.get((str(resource), namespace, name)))


async def test_a_token_speaks_for_its_account_until_it_ends() -> None:
    clock, objects = LoopClock(), accounts()
    tokens = tokens_of(objects, clock)
    answer = tokens.answer({"spec": {"expirationSeconds": 600}}, ACCOUNT)
    token = answer["status"]["token"]
    user = tokens.user(token)
    assert user is not None
    assert user.name == "system:serviceaccount:n:sa"
    assert "system:serviceaccounts:n" in user.groups
    assert tokens.user(token[:-2] + "xx") is None
    assert tokens_of(objects, clock, b"o" * 32).user(token) is None
    assert tokens.user("nonsense") is None
    await clock.sleep(601)
    assert tokens.judge(token).refusal == "[invalid bearer token, service account token has expired]"
    lasting = tokens.token(ACCOUNT, [ISSUER], clock.now() + timedelta(hours=1))
    objects["serviceaccounts", "n", "sa"] = kept("serviceaccounts", "sa", "uid-2")
    assert tokens.user(lasting) is None


@pytest.mark.parametrize(("seconds", "counts"), [(59, True), (61, False)], ids=["leeway", "too early"])
def test_a_token_counts_from_its_nbf_on(seconds: int, counts: bool) -> None:
    clock = ManualClock()
    tokens = tokens_of(accounts(), clock)
    token = tokens.token(ACCOUNT, [ISSUER], clock.now() + timedelta(hours=1))
    clock.ahead = -seconds
    assert (tokens.user(token) is not None) is counts


@pytest.mark.parametrize(("seconds", "counts"), [(59, True), (61, False)], ids=["leeway", "long ago"])
def test_what_a_token_is_bound_to_counts_a_minute_beyond_the_end_of_its_deletion(
    seconds: int, counts: bool
) -> None:
    clock, objects = ManualClock(), accounts()
    objects["secrets", "n", "s"] = kept("secrets", "s", "uid-s")
    tokens = tokens_of(objects, clock)
    bound = {"boundObjectRef": {"kind": "Secret", "name": "s"}}
    token = tokens.answer({"spec": bound}, ACCOUNT)["status"]["token"]
    objects["secrets", "n", "s"] = kept("secrets", "s", "uid-s", deletionTimestamp=rfc3339(clock.now()))
    clock.passed = seconds
    assert (tokens.user(token) is not None) is counts


def test_a_token_of_more_than_a_day_is_shortened_and_says_so() -> None:
    warnings: list[str] = []
    sent = {"spec": {"expirationSeconds": 90_000}}
    answer = tokens_of(accounts(), ManualClock()).answer(sent, ACCOUNT, warnings)
    assert answer["spec"]["expirationSeconds"] == 86_400
    assert warnings == ["requested expiration of 90000 seconds shortened to 86400 seconds"]


@pytest.mark.parametrize(
    "spec", [{"expirationSeconds": 5}, {"expirationSeconds": "x"}, {"audiences": "x"}, [1]], ids=str
)
async def test_a_malformed_token_request_is_refused(spec: Any) -> None:
    with pytest.raises(ApiError):
        tokens_of(accounts(), ManualClock()).answer({"spec": spec}, ACCOUNT)


SOMETHING = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "n"}}
READS_PODS = {("n", "reader"): (Rule(("get",), ("",), ("pods",)),)}
POLICY = Policy(
    READS_PODS,
    [Binding("n", "b", "Role", "reader", (Subject("User", "ann"), Subject("Group", "readers")))],
)
ALLOWED = {"allowed": True, "reason": 'RBAC: allowed by RoleBinding "b/n" of Role "reader" to User "ann"'}


def reviewed(kind: str, spec: Object, user: User) -> Object:
    found = next(each for each in builtin_catalog() if each.resource.kind == kind)
    asking = subresources.ReviewContext(
        found,
        user,
        POLICY,
        lambda token, _audiences: Judged(User("who"), (ISSUER,)) if token == "t" else Judged(refusal="no"),
        "n" if "Local" in kind else "",
    )
    return subresources.review(asking, {"spec": spec})["status"]


@pytest.mark.parametrize(
    ("kind", "spec", "user", "status"),
    [
        ("SelfSubjectAccessReview", SOMETHING, ADMIN, {"allowed": True}),
        ("SelfSubjectAccessReview", SOMETHING, User("ann", ()), ALLOWED),
        ("SelfSubjectAccessReview", SOMETHING, User(), {"allowed": False}),
        ("SubjectAccessReview", {**SOMETHING, "user": "x"}, ADMIN, {"allowed": False}),
        ("SubjectAccessReview", {**SOMETHING, "user": "x", "groups": ["readers"]}, ADMIN, {"allowed": True}),
        ("LocalSubjectAccessReview", {**SOMETHING, "user": "ann"}, ADMIN, ALLOWED),
        ("SelfSubjectReview", {}, User("me", ("g",)), {"userInfo": {"username": "me", "groups": ["g"]}}),
        ("TokenReview", {"token": "t"}, ADMIN, {"authenticated": True}),
        ("TokenReview", {"token": "u"}, ADMIN, {"error": "no"}),
        ("SelfSubjectRulesReview", {"namespace": "n"}, User(), {"resourceRules": []}),
        (
            "SelfSubjectRulesReview",
            {"namespace": "n"},
            User("ann", ()),
            {"resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
        ),
    ],
    ids=str,
)
def test_a_review(kind: str, spec: Object, user: User, status: Object) -> None:
    assert reviewed(kind, spec, user).items() >= status.items()
