"""A drain's session: what a pass does on a server that says yes, no, or nothing, and what is remembered."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.core import POD, NodeCondition
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.nodes.drain.budgets import Budgets
from kubewright.nodes.drain.decide import PODS_PER_PASS
from kubewright.nodes.drain.plan import DrainPlan, Try
from kubewright.nodes.drain.policy import DrainPolicy, Force
from kubewright.nodes.drain.session import DrainSession
from kubewright.nodes.drain.volumes import Attached
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    Unavailable,
    to_status,
)
from kubewright.wire.http import Request, Response

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SUCCESS = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success"}).encode()


def pod(name, namespace="default"):
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return POD.from_plain({"metadata": metadata, "spec": {"nodeName": "n"}})


class Server:
    """Answers for each pod what the test says; remembers who was asked to do what. It has ``budgets``."""

    def __init__(self, budgets=(), claims=(), **answers):
        self.answers = answers
        self.asked = []
        self.listed = []
        self.budgets = budgets
        self.claims = dict(claims)
        self.pods = {}

    async def handle(self, request: Request) -> Response:
        parts = request.path.split("/")
        if parts[-1] == "poddisruptionbudgets":
            self.listed.append(request.path)
            if isinstance(self.budgets, ApiError):
                return Response(self.budgets.code, json.dumps(to_status(self.budgets)).encode())
            listed = {"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "items": self.budgets}
            return Response(200, json.dumps({**listed, "metadata": {"resourceVersion": "1"}}).encode())
        if parts[-2] == "persistentvolumeclaims":
            self.listed.append(parts[-1])
            found = self.claims.get(parts[-1], NotFound("no such claim"))
            if isinstance(found, ApiError):
                return Response(found.code, json.dumps(to_status(found)).encode())
            claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": parts[-1]}}
            return Response(200, json.dumps({**claim, "spec": {"volumeName": found}}).encode())
        if parts[-1] == "pods":
            of = self.pods.get(request.param("fieldSelector").removeprefix("spec.nodeName="), ())
            items = [json.loads(POD.encode(each)) for each in of]
            listed = {"kind": "PodList", "apiVersion": "v1", "items": items}
            return Response(200, json.dumps({**listed, "metadata": {"resourceVersion": "1"}}).encode())
        name, verb = (parts[-2], "evict") if parts[-1] == "eviction" else (parts[-1], "delete")
        self.asked.append((verb, name, json.loads(request.body)))
        if error := self.answers.get(name):
            return Response(error.code, json.dumps(to_status(error)).encode())
        return Response(201, SUCCESS)


def client_of(server):
    return Client(InProcess(server.handle), LoopClock())


async def look(session, pods, policy, now=NOW, **more):
    """A look of a drain that began at ``NOW``, on a node with these pods."""
    server = Server()
    server.pods = {"n": pods}
    return await session.look(client_of(server), "n", policy, now=now, started=NOW, **more)


@pytest.fixture
def passed():
    async def perform(plan, server, tries=None):
        session, client = DrainSession(tries or {}), client_of(server)
        await session.explain(await session.send(plan, client, now=NOW), Budgets(client))
        return session.tries

    return perform


async def test_evicts_and_deletes_the_very_pods_that_were_planned(passed):
    server = Server()
    tries = await passed(DrainPlan(evict=(pod("a"),), delete=(pod("b"),)), server)
    evicted, deleted = (body for _, _, body in sorted(server.asked, key=lambda asked: asked[1]))
    assert evicted["deleteOptions"]["preconditions"] == {"uid": "uid-a"}
    assert deleted["preconditions"] == {"uid": "uid-b"}
    assert deleted["gracePeriodSeconds"] == 0
    assert sorted((verb, name) for verb, name, _ in server.asked) == [("delete", "b"), ("evict", "a")]
    assert tries == {}


async def test_a_pod_that_is_gone_is_success(passed):
    assert await passed(DrainPlan(evict=(pod("a"),)), Server(a=NotFound("pods a not found"))) == {}


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TooManyRequests("the budget says no", retry_after=10), "the budget says no"),
        (ServerError("webhook broke"), "webhook broke scheduled on node n"),
        (Conflict("another uid"), "another uid scheduled on node n"),
    ],
    ids=["TooManyRequests", "ServerError", "Conflict"],
)
async def test_one_refusal_is_noted_and_stops_no_other(passed, error, why):
    server = Server(a=error)
    tries = await passed(DrainPlan(evict=(pod("a"), pod("b"))), server)
    assert tries == {"uid-a": Try(1, NOW)}
    assert {name for _, name, _ in server.asked} == {"a", "b"}
    assert tries["uid-a"].why.why == why


async def test_refusals_add_up_and_are_forgotten_with_the_pod(passed):
    tries = {"uid-a": Try(2, NOW), "uid-gone": Try(7, NOW), "uid-rests": Try(1, NOW)}
    server = Server(a=TooManyRequests("no"))
    after = await passed(DrainPlan(evict=(pod("a"),), waiting=(pod("rests"),)), server, tries)
    assert after == {"uid-a": Try(3, NOW), "uid-rests": Try(1, NOW)}


@pytest.mark.parametrize(
    ("error", "refused"),
    [(Conflict("held"), False), (ServerError("etcd is away"), False), (Forbidden("no role"), True)],
)
async def test_a_forced_deletion_that_fails_is_noted_and_as_refused_only_if_a_rule_forbids_it(
    passed, error, refused
):
    plan = DrainPlan(delete=(pod("a"),), forced=True)
    tried = (await passed(plan, Server(a=error), {"uid-a": Try(3, NOW, forced=1)}))["uid-a"]
    assert (tried.failed, tried.forced, tried.refused) == (4, 2, refused)


async def test_a_forced_drain_is_not_over_while_the_server_fails_for_a_moment():
    session, now = DrainSession(), NOW
    for answers in ({"a": Unavailable("busy")}, {"a": ServerError("etcd is away")}, {}):
        planned = await look(session, [pod("a")], FORCED, now=now)
        assert [each.name for each in planned.delete] == ["a"]
        await session.send(planned, client_of(Server(**answers)), now=now)
        now += timedelta(minutes=1)


NEVER = {
    "metadata": {"name": "web", "namespace": "default", "generation": 1},
    "spec": {"selector": {}, "maxUnavailable": 0},
}
CAUSE = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 1 healthy pods and has 1"}
REFUSED = TooManyRequests("Cannot evict pod.", details={"causes": [CAUSE]})


async def test_a_refusal_is_explained_by_the_budget_behind_it(passed):
    tries = await passed(DrainPlan(evict=(pod("a"),)), Server([NEVER], a=REFUSED))
    why = tries["uid-a"].why
    assert why.firm
    assert "default/web is misconfigured" in why.why
    assert tries["uid-a"].first == NOW


ONE = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ALL = "/apis/policy/v1/poddisruptionbudgets"


@pytest.mark.parametrize(
    ("answers", "listed"),
    [
        pytest.param({"a": REFUSED, "b": REFUSED}, [ONE], id="of the namespace, once"),
        pytest.param({"a": REFUSED, "c": REFUSED}, [ALL], id="of all, for two namespaces"),
        pytest.param(
            {"a": ServerError("This pod has more than one PodDisruptionBudget, which")},
            [ONE],
            id="if there may be several for a pod",
        ),
        pytest.param({"a": Conflict("another uid")}, [], id="not if no budget can be the cause"),
    ],
)
async def test_which_budgets_are_read(passed, answers, listed):
    server = Server(**answers)
    await passed(DrainPlan(evict=(pod("a"), pod("b"), pod("c", "other"))), server)
    assert server.listed == listed


async def test_where_budgets_cannot_be_read_the_servers_words_must_do(passed):
    forbidden = Forbidden("poddisruptionbudgets is forbidden")
    why = (await passed(DrainPlan(evict=(pod("a"),)), Server(forbidden, a=REFUSED)))["uid-a"].why
    assert not why.firm
    assert why.why == f"Cannot evict pod. {CAUSE['message']}"


async def test_the_time_of_the_first_refusal_stays(passed):
    tries = {"uid-a": Try(1, NOW, first=NOW - timedelta(minutes=1))}
    after = await passed(DrainPlan(evict=(pod("a"),)), Server(a=TooManyRequests("no")), tries)
    assert after["uid-a"].first == NOW - timedelta(minutes=1)


def many(number):
    return [pod(f"p{each}") for each in range(number)]


LIMITED = DrainPolicy(timedelta(hours=2), Force(at_timeout=True, refusals=9))
FORCED = DrainPolicy(force=Force(requested=True))


async def test_a_forced_drain_of_more_pods_than_one_pass_takes_ends_though_all_are_refused():
    pods, session, passes = many(PODS_PER_PASS + 50), DrainSession(), 0
    client = client_of(Server(**{each.name: Forbidden("no role") for each in pods}))
    while not (planned := await look(session, pods, FORCED)).done:
        await session.send(planned, client, now=NOW)
        passes += 1
        assert passes <= 2


async def test_the_refusals_of_pods_beyond_the_batch_are_kept():
    pods = many(PODS_PER_PASS + 50)
    session = DrainSession({each.metadata.uid: Try(9, NOW - timedelta(minutes=1)) for each in pods})
    planned = await look(session, pods, LIMITED)
    await session.send(planned, client_of(Server()), now=NOW)
    assert [each.name for each in planned.delete] == [f"p{each}" for each in range(PODS_PER_PASS)]
    assert {uid: tried.failed for uid, tried in session.tries.items()} == {
        f"uid-p{each}": 9 for each in range(PODS_PER_PASS, PODS_PER_PASS + 50)
    }


async def test_a_session_plans_with_the_conditions_of_the_node():
    policy = DrainPolicy(force=Force(sick_after=timedelta(minutes=5), healthy={"Ready": "True"}))
    silent = NodeCondition(type="Ready", status="Unknown", last_transition_time=NOW - timedelta(hours=1))
    assert (await look(DrainSession(), [pod("a")], policy, conditions=[silent])).forced


async def test_a_session_plans_with_what_it_remembers_and_notes_when_the_drain_was_over():
    session, later = DrainSession({"uid-a": Try(9, NOW - timedelta(hours=1))}), NOW + timedelta(minutes=1)
    planned = await look(session, [pod("a")], LIMITED)
    assert ([each.name for each in planned.delete], session.drained_since) == (["a"], None)
    assert (await look(session, [], LIMITED, later)).done
    assert (await look(session, [], LIMITED, later + timedelta(hours=1))).done
    assert session.drained_since == later


async def test_a_session_looks_at_the_pods_of_its_node_alone():
    server = Server()
    server.pods = {"n1": [pod("a")], "n2": [pod("b")]}
    planned = await DrainSession().look(client_of(server), "n1", DrainPolicy(), now=NOW, started=NOW)
    assert [each.name for each in planned.evict] == ["a"]


def with_claim(name, claim):
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return POD.from_plain(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"volumes": [volume]},
        }
    )


async def moved(session, server, *pods, here=()):
    """One look at a node with these pods and these volumes."""
    server.pods = {"n": pods}
    attached = Attached(frozenset(here))
    return await session.look(client_of(server), "n", DrainPolicy(), now=NOW, started=NOW, attached=attached)


async def test_claims_are_read_once_and_only_where_volumes_are_attached():
    server, session = Server(claims={"one": "pv-1", "two": "pv-2"}), DrainSession()
    pods = [with_claim("a", "one"), with_claim("b", "two")]
    await moved(session, server, *pods)
    assert server.listed == []
    assert not (await moved(session, server, *pods, here=["pv-1", "pv-2"])).moving
    plan = await moved(session, server, pods[1], here=["pv-1", "pv-2"])
    assert sorted(server.listed) == ["one", "two"]
    assert [str(trip) for trip in plan.moving.detaching] == ["pv-1 of default/a"]
    assert plan.evict == ()


async def test_a_claim_that_is_gone_or_has_no_volume_yet_is_asked_for_again():
    server, session = Server(claims={"new": ""}), DrainSession()
    pods = [with_claim("a", "new"), with_claim("b", "gone")]
    for _ in range(2):
        await moved(session, server, *pods, here=["pv-x"])
    assert sorted(server.listed) == ["gone", "gone", "new", "new"]


async def test_where_claims_may_not_be_read_no_pod_waits_for_volumes():
    server, session = Server(claims={"one": Forbidden("no role")}), DrainSession()
    plan = await moved(session, server, with_claim("a", "one"), here=["pv-1"])
    assert [each.name for each in plan.evict] == ["a"]


async def test_a_server_that_fails_to_answer_about_claims_is_asked_again():
    server, session = Server(claims={"one": ServerError("etcd is away")}), DrainSession()
    with pytest.raises(ApiError, match="etcd is away"):
        await moved(session, server, with_claim("a", "one"), here=["pv-1"])
