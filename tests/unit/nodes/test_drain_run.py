"""One pass of a drain against a server that says yes, no, or nothing."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.core import POD
from kubewright.base.clock import LoopClock
from kubewright.kube.client import Client
from kubewright.kube.inprocess import InProcess
from kubewright.nodes.drain.plan import BATCH, DrainPlan, Try, plan
from kubewright.nodes.drain.run import run
from kubewright.wire.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    to_status,
)
from kubewright.wire.http import Request, Response

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SUCCESS = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success"}).encode()


def pod(name):
    return POD.from_plain({"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}})


class Server:
    """Answers for each pod what the test says; remembers who was asked to do what. It has ``budgets``."""

    def __init__(self, budgets=(), **answers):
        self.answers = answers
        self.asked = []
        self.budgets = budgets

    async def handle(self, request: Request) -> Response:
        parts = request.path.split("/")
        if parts[-1] == "poddisruptionbudgets":
            if isinstance(self.budgets, ApiError):
                return Response(self.budgets.code, json.dumps(to_status(self.budgets)).encode())
            listed = {"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "items": self.budgets}
            return Response(200, json.dumps({**listed, "metadata": {"resourceVersion": "1"}}).encode())
        name, verb = (parts[-2], "evict") if parts[-1] == "eviction" else (parts[-1], "delete")
        self.asked.append((verb, name, json.loads(request.body)))
        if error := self.answers.get(name):
            return Response(error.code, json.dumps(to_status(error)).encode())
        return Response(201, SUCCESS)


@pytest.fixture
def passed():
    async def perform(plan, server, tries=None):
        return await run(plan, Client(InProcess(server.handle), LoopClock()), now=NOW, tries=tries)

    return perform


async def test_evicts_and_deletes_the_very_pods_that_were_planned(passed):
    server = Server()
    outcome = await passed(DrainPlan(evict=(pod("a"),), delete=(pod("b"),)), server)
    evicted, deleted = (body for _, _, body in sorted(server.asked, key=lambda asked: asked[1]))
    assert evicted["deleteOptions"]["preconditions"] == {"uid": "uid-a"}
    assert deleted["preconditions"] == {"uid": "uid-b"}
    assert deleted["gracePeriodSeconds"] == 0
    assert [item.name for item in outcome.accepted] == ["a", "b"]
    assert outcome.tries == {}


async def test_a_pod_that_is_gone_is_success(passed):
    outcome = await passed(DrainPlan(evict=(pod("a"),)), Server(a=NotFound("pods a not found")))
    assert not outcome.refused


@pytest.mark.parametrize(
    "error",
    [
        TooManyRequests("the budget says no", retry_after=10),
        ServerError("webhook broke"),
        Conflict("another uid"),
    ],
    ids=lambda error: error.reason,
)
async def test_one_refusal_is_noted_and_stops_nobody(passed, error):
    outcome = await passed(DrainPlan(evict=(pod("a"), pod("b"))), Server(a=error))
    assert [item.name for item in outcome.accepted] == ["b"]
    assert outcome.tries["uid-a"] == Try(1, NOW)
    assert error.message in outcome.refused["uid-a"]


async def test_refusals_add_up_and_are_forgotten_with_the_pod(passed):
    tries = {"uid-a": Try(2, NOW), "uid-gone": Try(7, NOW), "uid-rests": Try(1, NOW)}
    server = Server(a=TooManyRequests("no"))
    outcome = await passed(DrainPlan(evict=(pod("a"),), waiting=(pod("rests"),)), server, tries)
    assert outcome.tries == {"uid-a": Try(3, NOW), "uid-rests": Try(1, NOW)}


async def test_a_forced_deletion_that_fails_is_noted_as_such(passed):
    plan = DrainPlan(delete=(pod("a"),), forced=True)
    outcome = await passed(plan, Server(a=Conflict("held")))
    assert outcome.tries["uid-a"].forced


NEVER = {
    "metadata": {"name": "web", "namespace": "default", "generation": 1},
    "spec": {"selector": {}, "maxUnavailable": 0},
}
CAUSE = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 1 healthy pods and has 1"}
REFUSED = TooManyRequests("Cannot evict pod.", details={"causes": [CAUSE]})


async def test_a_refusal_is_explained_by_the_budget_behind_it(passed):
    outcome = await passed(DrainPlan(evict=(pod("a"),)), Server([NEVER], a=REFUSED))
    why = outcome.tries["uid-a"].why
    assert why.firm
    assert "default/web is misconfigured" in why.why
    assert outcome.tries["uid-a"].first == NOW


async def test_where_budgets_cannot_be_read_the_servers_words_must_do(passed):
    forbidden = Forbidden("poddisruptionbudgets is forbidden")
    outcome = await passed(DrainPlan(evict=(pod("a"),)), Server(forbidden, a=REFUSED))
    why = outcome.tries["uid-a"].why
    assert not why.firm
    assert why.why == f"Cannot evict pod. {CAUSE['message']}"


async def test_the_time_of_the_first_refusal_stays(passed):
    tries = {"uid-a": Try(1, NOW, first=NOW - timedelta(minutes=1))}
    outcome = await passed(DrainPlan(evict=(pod("a"),)), Server(a=TooManyRequests("no")), tries)
    assert outcome.tries["uid-a"].first == NOW - timedelta(minutes=1)


def many(number):
    return [pod(f"p{each}") for each in range(number)]


async def test_a_forced_drain_of_more_pods_than_one_pass_takes_ends_though_all_are_refused(passed):
    pods, tries = many(BATCH + 50), {}
    server = Server(**{each.name: Forbidden("no role") for each in pods})
    passes = 0
    while not (
        planned := plan(
            pods, now=NOW, started=NOW, timeout=timedelta(hours=2), max_retries=9, force=True, tries=tries
        )
    ).done:
        tries, passes = (await passed(planned, server, tries)).tries, passes + 1
        assert passes <= 2


async def test_the_refusals_of_pods_beyond_the_batch_are_kept(passed):
    pods = many(BATCH + 50)
    tries = {each.metadata.uid: Try(9, NOW - timedelta(minutes=1)) for each in pods}
    planned = plan(pods, now=NOW, started=NOW, timeout=timedelta(hours=2), max_retries=9, tries=tries)
    outcome = await passed(planned, Server(), tries)
    assert [each.name for each in planned.delete] == [f"p{each}" for each in range(BATCH)]
    assert {uid: tried.refused for uid, tried in outcome.tries.items()} == {
        f"uid-p{each}": 9 for each in range(BATCH, BATCH + 50)
    }
