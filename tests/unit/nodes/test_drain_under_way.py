"""Requests about pods that are under way: what a plan makes of them, how many there may be, and what their refusals
cost."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kubewright.api.core import PDB, POD
from kubewright.base.delays import POLL, SOON
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.nodes.drain.budgets import FRESH_SECONDS, LIST_SECONDS, Budgets, ByLabels
from kubewright.nodes.drain.decide import plan_pass
from kubewright.nodes.drain.plan import NO_REQUESTS, DrainPlan, Requests
from kubewright.nodes.drain.policy import DrainPolicy, Force
from kubewright.nodes.drain.removals import REQUESTS_PER_LANE, Removals
from kubewright.nodes.drain.session import DrainSession
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Forbidden, TooManyRequests, to_status
from kubewright.wire.http import Request, Response

T0 = datetime(2030, 1, 1, tzinfo=UTC)
SLOW = 20.0
"""Seconds that the server takes for an eviction."""


def pod(name, *, claim=False, leaving=False, namespace="default", **labels):
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    if leaving:
        metadata |= {"deletionTimestamp": T0.isoformat(), "deletionGracePeriodSeconds": 30}
    volume = {"persistentVolumeClaim": {"claimName": "c"}} if claim else {"emptyDir": {}}
    return POD.from_plain({"metadata": metadata, "spec": {"volumes": [{"name": "v", **volume}]}})


A, B, DB, DB2 = pod("a"), pod("b"), pod("db", claim=True), pod("db2", claim=True)
EVICTING_A, FORCING_A = Requests(frozenset("a")), Requests(frozenset("a"), forced=True)
ONE_BY_ONE = DrainPolicy(one_by_one=True)
FORCED = DrainPolicy(force=Force(requested=True))
ASKED = [
    # what, pods, policy, under way: evicted, deleted, awaited, whether that is all, and when to look again
    ("a pod that is asked just now is not asked again", [A], DrainPolicy(), EVICTING_A,
     ([], [], ["a"], False, POLL)),
    ("others are asked meanwhile", [A, B], DrainPolicy(), EVICTING_A, (["b"], [], ["a"], False, POLL)),
    ("the next pod with a claim waits until the first was asked", [DB, DB2], ONE_BY_ONE,
     Requests(frozenset(["db"])), ([], [], ["db", "db2"], False, POLL)),
    ("of two with claims one is asked", [DB, DB2], ONE_BY_ONE, NO_REQUESTS, (["db"], [], ["db2"], False, POLL)),
    ("a pod that leaves already is leaving, and not asked", [pod("a", leaving=True)], DrainPolicy(), EVICTING_A,
     ([], [], ["a"], False, POLL)),
    ("one that was asked and is gone is forgotten", [], DrainPolicy(), EVICTING_A, ([], [], [], True, None)),
    ("force does not wait for an eviction", [A], FORCED, EVICTING_A, ([], ["a"], [], False, SOON)),
    ("force does not delete twice at a time", [A, B], FORCED, FORCING_A, ([], ["b"], ["a"], False, SOON)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pods", "policy", "under_way", "expected"), [c[1:] for c in ASKED], ids=[c[0] for c in ASKED]
)
def test_a_plan_knows_what_is_under_way(pods, policy, under_way, expected):
    plan = plan_pass(pods, policy, now=T0, started=T0, under_way=under_way)
    evict, delete, waiting = (
        [each.metadata.name for each in of] for of in (plan.evict, plan.delete, plan.waiting)
    )
    assert (evict, delete, waiting, plan.done, None if plan.done else plan.wake) == expected


class Slow:
    """A server that takes long over evictions, and remembers what it was asked. It refuses the pods of
    ``refused``, and takes ``list_seconds`` for the budgets of each namespace, or of that one."""

    def __init__(self, budgets=(), *, refused=(), list_seconds=0.0, slow_namespace="") -> None:
        self.evictions: list[float] = []
        self.deleted: list[str] = []
        self.cut_off = 0
        self.lists: list[str] = []
        self.budgets = budgets
        self.refused = frozenset(refused)
        self.list_seconds, self.slow_namespace = list_seconds, slow_namespace

    async def handle(self, request: Request) -> Response:
        if request.path.endswith("poddisruptionbudgets"):
            self.lists.append(request.path)
            if self.slow_namespace in request.path:
                await asyncio.sleep(self.list_seconds)
            if isinstance(self.budgets, Forbidden):
                return Response(self.budgets.code, json.dumps(to_status(self.budgets)).encode())
            listed = {"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "items": self.budgets}
            return Response(200, json.dumps({**listed, "metadata": {"resourceVersion": "1"}}).encode())
        if request.path.endswith("/eviction"):
            self.evictions.append(asyncio.get_running_loop().time())
            if request.path.split("/")[-2] in self.refused:
                refusal = TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.")
                return Response(refusal.code, json.dumps(to_status(refusal)).encode())
            try:
                await asyncio.sleep(SLOW)
            except asyncio.CancelledError:
                self.cut_off += 1
                raise
        else:
            self.deleted.append(request.path.rsplit("/", 1)[-1])
        return Response(201, json.dumps({"kind": "Status", "status": "Success"}).encode())


@pytest.fixture
async def drained():
    """Runs a test's function with a server, and removals that end with it."""

    async def run(of: Callable[[Slow, Removals], Awaitable[None]], server: Slow | None = None) -> Slow:
        server = server or Slow()
        removals = Removals(Client(InProcess(server.handle), LoopClock()))
        owner = asyncio.create_task(removals.run())
        await of(server, removals)
        owner.cancel()
        await asyncio.wait([owner])
        assert len(removals) == 0
        return server

    return run


def refusable(name):
    """The eviction of a pod in a namespace of its own."""
    return DrainPlan(evict=(pod(name, namespace=name),))


def evict(*names):
    return DrainPlan(evict=tuple(pod(name) for name in names))


async def test_requests_of_all_drains_have_a_bound_and_those_in_line_look_anew_when_their_turn_comes(drained):
    woken: list[str] = []

    async def drain(server: Slow, removals: Removals) -> None:
        for number in range(REQUESTS_PER_LANE + 2):
            name = f"n{number}"
            removals.start(name, DrainSession(), evict(name), lambda name=name: woken.append(name), now=T0)
        await asyncio.sleep(SLOW / 2)
        assert (len(removals), len(server.evictions), woken) == (REQUESTS_PER_LANE, REQUESTS_PER_LANE, [])
        await asyncio.sleep(SLOW)
        assert (len(removals), sorted(woken)) == (0, [f"n{REQUESTS_PER_LANE}", f"n{REQUESTS_PER_LANE + 1}"])

    await drained(drain)


async def test_what_is_under_way_for_a_node_is_not_sent_twice_and_its_end_wakes_a_look_that_met_it(drained):
    woken: list[str] = []
    session = DrainSession()

    async def drain(server: Slow, removals: Removals) -> None:
        removals.start("n", session, evict("a"), lambda: woken.append("first"), now=T0)
        await asyncio.sleep(1)
        assert session.under_way == Requests(frozenset("a"))
        removals.start("n", session, evict("a"), lambda: woken.append("second"), now=T0)
        session.overlapped = True
        await asyncio.sleep(SLOW)
        assert (len(server.evictions), session.under_way, woken) == (1, NO_REQUESTS, ["first"])

    await drained(drain)


async def test_the_pods_that_one_pass_does_not_touch_are_looked_at_when_its_requests_have_ended(drained):
    woken: list[str] = []

    async def drain(_server: Slow, removals: Removals) -> None:
        for name, more in (("small", False), ("large", True)):
            plan = replace(evict(name), more=more)
            removals.start(name, DrainSession(), plan, lambda name=name: woken.append(name), now=T0)
        await asyncio.sleep(SLOW - 1)
        assert woken == []
        await asyncio.sleep(2)
        assert woken == ["large"]

    await drained(drain)


async def test_force_ends_evictions_and_finds_room_though_their_lane_is_full(drained):
    async def drain(server: Slow, removals: Removals) -> None:
        sessions = [DrainSession() for _ in range(REQUESTS_PER_LANE)]
        for number, session in enumerate(sessions):
            removals.start(f"n{number}", session, evict(f"p{number}"), lambda: None, now=T0)
        await asyncio.sleep(1)
        removals.start("n0", sessions[0], DrainPlan(delete=(pod("p0"),), forced=True), lambda: None, now=T0)
        await asyncio.sleep(1)
        assert (server.deleted, server.cut_off, sessions[0].under_way) == (["p0"], 1, NO_REQUESTS)

    await drained(drain)


async def test_force_that_comes_before_the_evictions_are_sent_takes_their_place(drained):
    session, woken = DrainSession(), []

    async def drain(server: Slow, removals: Removals) -> None:
        removals.start("n", session, evict("a"), lambda: None, now=T0)
        removals.start("n", session, DrainPlan(delete=(pod("b"),), forced=True), lambda: None, now=T0)
        assert session.under_way == Requests(frozenset("b"), forced=True)
        await asyncio.sleep(1)
        assert (server.evictions, server.deleted, session.under_way) == ([], ["b"], NO_REQUESTS)
        for number in range(REQUESTS_PER_LANE):
            removals.start(f"n{number}", DrainSession(), evict(f"p{number}"), lambda: woken.append(1), now=T0)
        assert (len(removals), woken) == (REQUESTS_PER_LANE, []), "no room is lost"

    await drained(drain)


async def test_what_is_under_way_at_the_end_of_a_term_is_cut_off(drained):
    async def drain(_server: Slow, removals: Removals) -> None:
        removals.start("n", DrainSession(), evict("a"), lambda: None, now=T0)
        await asyncio.sleep(1)

    assert (await drained(drain)).cut_off == 1


async def test_drains_that_only_wait_to_hear_of_budgets_take_no_room_from_others(drained):
    names = [f"p{number}" for number in range(REQUESTS_PER_LANE)]
    session = DrainSession()

    async def drain(server: Slow, removals: Removals) -> None:
        for name in names:
            removals.start(name, DrainSession(), refusable(name), lambda: None, now=T0)
        await asyncio.sleep(1)
        assert len(removals) == 0
        removals.start("next", session, evict("next"), lambda: None, now=T0)
        await asyncio.sleep(1)
        assert (len(server.evictions), len(removals)) == (REQUESTS_PER_LANE + 1, 1)

    await drained(drain, Slow(refused=names, list_seconds=1000))


async def test_a_refusal_is_noted_at_once_and_told_of_when_its_budgets_are_known_or_not_to_be_had(drained):
    woken: list[float] = []
    session = DrainSession()

    async def drain(_server: Slow, removals: Removals) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        removals.start("n", session, evict("a"), lambda: woken.append(now() - began), now=T0)
        session.overlapped = True
        await asyncio.sleep(1)
        assert (session.under_way, session.tries["a"].failed, woken) == (NO_REQUESTS, 1, [])
        await asyncio.sleep(60)
        assert woken == [pytest.approx(LIST_SECONDS, abs=1)]

    await drained(drain, Slow(refused="a", list_seconds=1000))


# ------------------------------------------------------------ the budgets behind refusals


def budget(name, namespace="default", **spec):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


WEB = {"matchLabels": {"app": "web"}}
SELECTED = [
    ("one with its labels", budget("web", selector=WEB), ["web"]),
    ("one that asks for a label more", budget("web", selector={"matchLabels": {"app": "web", "tier": "db"}}), []),
    ("one that selects all", budget("all", selector={}), ["all"]),
    ("one without a selector", budget("none"), []),
    ("one of another namespace", budget("web", namespace="other", selector=WEB), []),
    ("one by an expression", budget("any", selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
     ["any"]),
    ("one whose selector makes no sense",
     budget("odd", selector={"matchExpressions": [{"key": "app", "operator": "Like"}]}), []),
]  # fmt: skip


@pytest.mark.parametrize(("one", "expected"), [c[1:] for c in SELECTED], ids=[c[0] for c in SELECTED])
def test_the_budgets_of_a_pod_are_found_among_many(one, expected):
    many = [budget(f"b{number}", selector={"matchLabels": {"app": f"a{number}"}}) for number in range(5)]
    found = ByLabels(PDB.from_plain(each) for each in (*many, one)).of(pod("p", app="web", zone="z"))
    assert [each.name for each in found] == expected


async def test_a_list_of_budgets_serves_all_who_ask_within_a_few_seconds():
    server = Slow([budget("web", selector=WEB)])
    budgets = Budgets(Client(InProcess(server.handle), LoopClock()))
    found = await asyncio.gather(*(budgets.among({"default"}) for _ in range(100)))
    assert {each.name for of in found for each in of.of(pod("p", app="web"))} == {"web"}
    assert len(server.lists) == 1
    await asyncio.sleep(FRESH_SECONDS)
    await budgets.among({"default", "other"})
    await budgets.among({"default"})
    assert server.lists[1:] == ["/apis/policy/v1/poddisruptionbudgets"]
    await budgets.among(set())
    assert len(server.lists) == 2


async def test_a_namespace_whose_budgets_are_slow_to_come_holds_up_no_other():
    server = Slow([budget("web", selector=WEB)], list_seconds=1000, slow_namespace="/slow/")
    budgets = Budgets(Client(InProcess(server.handle), LoopClock()))
    slow = asyncio.create_task(budgets.among({"slow"}))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(0.1):
        assert (await budgets.among({"default"})).of(pod("p", app="web"))
    await asyncio.sleep(LIST_SECONDS)
    assert (slow.done(), slow.result().of(pod("p", namespace="slow", app="web"))) == (True, [])


async def test_budgets_that_may_not_be_read_are_none():
    budgets = Budgets(Client(InProcess(Slow(Forbidden("no")).handle), LoopClock()))
    assert (await budgets.among({"default"})).of(pod("p")) == []


def test_only_force_takes_the_place_of_evictions():
    assert [each.yields_to(forced=forced) for each in (NO_REQUESTS, EVICTING_A, FORCING_A) for forced in (False, True)] == [
        True, True, False, True, False, False,
    ]  # fmt: skip
