"""Which Pods have to go so that another gets their room; and whose turn it is."""

import json

import pytest

from kubewright.api.core import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.builtin.scheduling.decide import (
    MOST_CANDIDATES,
    WAITS,
    Around,
    Budget,
    NodeInfo,
    Nominee,
    PendingPod,
    Placement,
    Resident,
    place,
    relieve,
    victims_on,
)
from kubewright.builtin.scheduling.facts import PODS, NodeFacts, node_selector_terms, read_pod, requests_of
from kubewright.builtin.scheduling.reconciler import Line, Rooms, budget_of, resident
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import from_object

WEB = Budget("ns", from_object({"matchLabels": {"app": "web"}}))


def pod(name="new", cpu="1", priority=10, *, promised="", metadata=None, status=None, **spec):
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": name, **(metadata or {})},
        "spec": {"containers": containers, "priority": priority, **spec},
        "status": {"nominatedNodeName": promised, **(status or {})},
    }
    return read_pod(json.dumps(body).encode())


def pending(*args, **more):
    found = pod(*args, **more)
    return PendingPod(found, requests_of(found), node_selector_terms(found))


def there(name, cpu=1.0, priority=0, started=0.0, **more):
    return Resident(Key("ns", name), name, priority, {"cpu": cpu, PODS: 1.0}, started=started, **more)


def node(name="n", cpu=2.0, residents=(), nominees=(), **facts):
    used = {
        "cpu": sum(each.requests["cpu"] for each in residents),
        PODS: float(len(residents)),
    }
    return NodeInfo(NodeFacts(name, allocatable={"cpu": cpu, PODS: 5.0}, **facts), used, tuple(nominees))


def names(candidate):
    return [each.key.name for each in candidate.victims]


@pytest.mark.parametrize(
    ("residents", "wants", "victims"),
    [
        pytest.param([there("a", priority=1), there("b")], "1", ["b"], id="the higher one is kept"),
        pytest.param([there("a", started=1), there("b", started=2)], "1", ["b"], id="the older one is kept"),
        pytest.param([there("b"), there("a")], "1", ["b"], id="of equals the first by name"),
        pytest.param([there("a", 0.5), there("b", 1.5, priority=5)], "1", ["b"], id="not more than needed"),
        pytest.param([there("a"), there("b", priority=9)], "2", ["b", "a"], id="all, the highest first"),
        pytest.param([there("a", started=float("inf")), there("b")], "1", ["a"], id="one that never began"),
    ],
)
def test_the_victims_on_a_node(residents, wants, victims):
    assert names(victims_on(pending(cpu=wants), node(residents=residents), residents, ())) == victims


@pytest.mark.parametrize(
    ("residents", "wants", "why"),
    [
        ([there("a", 2.0, 10)], "2", "No preemption victims found for incoming pod"),
        ([there("a", priority=20), there("b")], "2", "Insufficient cpu"),
        ([there("a", 2.0)], "3", "Preemption is not helpful for scheduling"),
    ],
)
def test_why_a_node_has_no_victims(residents, wants, why):
    found = chosen({"n": residents}, wants=wants)
    assert found.because.endswith(f" preemption: 0/1 nodes are available: 1 {why}.")
    assert (found.nominated, found.victims) == ("", ())


def test_a_node_full_of_pods_has_a_victim_too():
    residents = [there(str(each), 0.0, started=each) for each in range(5)]
    assert names(victims_on(pending(cpu="0"), node(residents=residents), residents, ())) == ["4"]


@pytest.mark.parametrize(
    ("nominee", "victims"),
    [
        pytest.param(10, ["b", "a"], id="of an equal Pod is taken"),
        pytest.param(9, ["b"], id="of a lower Pod is free"),
    ],
)
def test_room_that_was_promised(nominee, victims):
    residents = [there("a", priority=1), there("b")]
    promised = [Nominee(Key("ns", "other"), nominee, {"cpu": 1.0})]
    found = victims_on(pending(), node(residents=residents, nominees=promised), residents, ())
    assert sorted(names(found)) == sorted(victims)


WEB_POD = {"labels": {"app": "web"}}


@pytest.mark.parametrize(
    ("allowed", "disrupted", "victims", "broken"),
    [
        pytest.param(0, (), ["high"], 0, id="a Pod behind a budget is kept first"),
        pytest.param(1, (), ["web"], 0, id="unless the budget has room"),
        pytest.param(0, ("web",), ["web"], 0, id="or has counted it"),
    ],
)
def test_budgets_on_a_node(allowed, disrupted, victims, broken):
    residents = [there("high", priority=5), there("web", **WEB_POD)]
    budget = Budget("ns", WEB.selector, allowed, frozenset(disrupted))
    found = victims_on(pending(), node(residents=residents), residents, [budget])
    assert (names(found), found.broken) == (victims, broken)


def test_budgets_break_for_those_beyond_what_is_allowed_and_only_in_their_namespace():
    residents = [there("a", **WEB_POD, priority=2), there("b", **WEB_POD, priority=1)]
    wants = pending(cpu="2")
    one = Budget("ns", WEB.selector, 1)
    assert victims_on(wants, node(residents=residents), residents, [one]).broken == 1
    elsewhere = Budget("other", WEB.selector, 0)
    assert victims_on(wants, node(residents=residents), residents, [elsewhere]).broken == 0


def test_a_budget_that_asks_for_absent_labels_selects_no_pod_without_labels():
    absent = Budget("ns", from_object({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}))
    bare, labelled = [there("a", cpu=2.0)], [there("a", cpu=2.0, labels={"y": "z"})]
    assert victims_on(pending(), node(residents=bare), bare, [absent]).broken == 0
    assert victims_on(pending(), node(residents=labelled), labelled, [absent]).broken == 1


@pytest.mark.parametrize(
    ("selector", "counts"),
    [
        (LabelSelector(match_labels={"app": "web"}), True),
        (LabelSelector(), False),
        (None, False),
    ],
)
def test_which_budgets_count(selector, counts):
    found = budget_of(
        PodDisruptionBudget(
            metadata=ObjectMeta(name="b", namespace="ns"),
            spec=PodDisruptionBudgetSpec(selector=selector),
            status=PodDisruptionBudgetStatus(disruptions_allowed=2, disrupted_pods={"gone": None}),
        )
    )
    assert found == (Budget("ns", WEB.selector, 2, frozenset(("gone",))) if counts else None)


def around(by_node, priority=10, budgets=(), looked=None):
    """The Pods of lower priorities, as a scheduler with these Pods knows them."""

    def lower(name):
        return [each for each in by_node(name) if each.priority < priority]

    def requests(name):
        found = lower(name)
        return (
            {"cpu": sum(each.requests["cpu"] for each in found), PODS: float(len(found))} if found else None
        )

    def pods(name):
        if looked is not None:
            looked.append(name)
        return lower(name)

    return Around(requests, pods, budgets)


def chosen(by_node, *, budgets=(), wants="2", **more):
    """The Placement of a Pod on full nodes of two cpu."""
    nodes = [node(name, residents=residents) for name, residents in by_node.items()]
    found = pod(cpu=wants, **more)
    return place(found, nodes, lambda p, r: relieve(p, r, around(by_node.__getitem__, budgets=budgets)))


@pytest.mark.parametrize(
    ("by_node", "best"),
    [
        pytest.param(
            {"a": [there("x", 2.0, 2)], "b": [there("y", 2.0, 1)]}, "b", id="the lowest highest victim"
        ),
        pytest.param(
            {
                "a": [there("w", priority=5), there("x", priority=4)],
                "b": [there("y", priority=5), there("z")],
            },
            "b",
            id="then the smallest sum",
        ),
        pytest.param(
            {"a": [there("w", priority=-9), there("x", priority=-9)], "b": [there("y", 2.0, -9)]},
            "b",
            id="where one more is never less",
        ),
        pytest.param(
            {"a": [there("x", 2.0, started=1)], "b": [there("y", 2.0, started=2)]},
            "b",
            id="then the youngest",
        ),
        pytest.param({"b": [there("x", 2.0)], "a": [there("y", 2.0)]}, "a", id="then the first by name"),
        pytest.param(
            {"a": [there("x", 2.0, **WEB_POD)], "b": [there("y", 2.0, 9)]},
            "b",
            id="before all, budgets that hold",
        ),
    ],
)
def test_the_node_where_victims_matter_least(by_node, best):
    found = chosen(by_node, budgets=[WEB])
    assert (found.node, found.nominated) == ("", best)
    assert found.because == "0/2 nodes are available: 2 Insufficient cpu."
    assert found.victims == tuple(by_node[best])


def test_a_pod_whose_victims_still_end_waits_for_them():
    by_node = {"a": [there("x", 2.0, leaves=True, preempted=True)], "b": [there("y", 2.0, -5)]}
    found = chosen(by_node, promised="a")
    assert found.nominated is None
    assert found.victims == ()
    assert found.because.endswith(WAITS)


def test_a_pod_that_leaves_for_another_reason_is_not_waited_for():
    by_node = {"a": [there("x", 2.0, leaves=True)], "b": [there("y", 2.0, -5)]}
    assert chosen(by_node, promised="a").nominated == "b"


def test_a_promise_that_cannot_be_kept_is_taken_back():
    assert chosen({"a": [there("x", 2.0, 20)]}, promised="a").nominated == ""


def test_the_promised_node_goes_before_a_better_one():
    assert place(pod(promised="b"), [node("a"), node("b", residents=[there("x")])]) == Placement("b")


def test_no_more_nodes_are_looked_at_than_needed():
    looked = []
    known = around(lambda name: [there(name, 2.0)], looked=looked)
    nodes = [node(f"n{each:04}", residents=[there("x", 2.0)]) for each in range(500)]
    place(pod(cpu="2"), nodes, lambda p, r: relieve(p, r, known))
    assert len(looked) == MOST_CANDIDATES


def test_no_pod_of_a_node_is_read_where_it_would_not_help():
    looked = []
    known = around(lambda name: [there(name, 1.0), there("high", 1.0, 20)], looked=looked)
    nodes = [node("n", residents=[there("x", 1.0), there("high", 1.0)])]
    assert place(pod(cpu="2"), nodes, lambda p, r: relieve(p, r, known)).victims == ()
    assert looked == []


def test_candidates_that_break_budgets_alone_are_not_enough():
    def on(name):
        return [there(name, 2.0, **({} if name == "n0300" else WEB_POD))]

    nodes = [node(f"n{each:04}", residents=[there("x", 2.0)]) for each in range(500)]
    found = place(pod(cpu="2"), nodes, lambda p, r: relieve(p, r, around(on, budgets=[WEB])))
    assert found.nominated == "n0300"


# ---------------------------------------------------------------- rooms


def test_rooms_add_up_and_forget():
    rooms, first, second = Rooms(), Key("ns", "a"), Key("ns", "b")
    rooms.put(first, pod("a", "1", 5), "n")
    rooms.put(second, pod("b", "2", -1), "n")
    assert rooms.used("n") == {"cpu": 3.0, PODS: 2.0}
    assert (rooms.lowest, rooms.below("n", 5), rooms.has(first)) == (-1, [second], "a")
    rooms.put(second, pod("b", "2", -1), "m")
    assert (rooms.used("n"), rooms.below("n", 5)) == ({"cpu": 1.0, PODS: 1.0}, [])
    rooms.put(second, pod("b", "2", -1), "n")
    assert rooms.lower("n", 6) == {"cpu": 3.0, PODS: 2.0}
    assert rooms.lower("n", -1) is None
    assert rooms.take(first)
    assert rooms.take(second)
    assert not rooms.take(second)
    assert (rooms.used("n"), rooms.used("m"), rooms.lowest, rooms.has(first)) == ({}, {}, None, "")


def test_a_promise_ends_with_another_or_with_a_place():
    rooms, key = Rooms(), Key("ns", "a")
    assert not rooms.promise(key, pod("a", promised="n"))
    assert not rooms.promise(key, pod("a", promised="n"))
    assert rooms.nominees("n") == (Nominee(key, 10, {"cpu": 1.0, PODS: 1.0}),)
    assert rooms.promise(key, pod("a", promised="m"))
    assert rooms.nominees("n") == ()
    rooms.put(key, pod("a", promised="m"), "m")
    assert rooms.nominees("m") == ()
    assert not rooms.promise(key, pod("a", promised="m"))
    assert not rooms.break_promise(key)


# ---------------------------------------------------------------- the line


def test_a_higher_pod_goes_first_once():
    line, low, high, higher = Line(), Key("", "low"), Key("", "high"), Key("", "higher")
    line.joins(low, 0, changed=True)
    assert line.before(low) is None
    line.joins(high, 5, changed=True)
    line.joins(higher, 7, changed=True)
    assert (line.before(low), line.before(high), line.before(higher)) == (higher, higher, None)
    assert line.begins(higher)
    assert line.before(low) == high
    assert line.begins(high)
    assert line.before(low) is None
    assert not line.begins(high), "one pass for each time that it asks"


def test_a_pod_whose_pass_failed_holds_up_no_others():
    line, low, high = Line(), Key("", "low"), Key("", "high")
    line.joins(low, 0, changed=True)
    line.joins(high, 5, changed=True)
    assert line.begins(high)
    line.failed(high)
    assert line.before(low) is None
    assert line.begins(high)
    line.leaves(high)
    line.failed(high)
    assert not line.asks(high)


def test_what_comes_during_a_pass_is_for_the_next():
    line, key = Line(), Key("", "a")
    line.joins(key, 0, changed=True)
    assert line.begins(key)
    assert list(line.again()) == [key]
    assert line.begins(key)


def test_a_pod_that_has_not_changed_asks_for_nothing():
    line, key = Line(), Key("", "a")
    line.joins(key, 0, changed=False)
    assert line.begins(key), "new ones do"
    line.joins(key, 0, changed=False)
    assert not line.asks(key)


@pytest.mark.parametrize(
    ("found", "preempted"),
    [
        ({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}, True),
        ({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}, False),
        ({"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}, False),
        ({"type": "Ready", "status": "True", "reason": "PreemptionByScheduler"}, False),
    ],
)
def test_a_pod_on_a_node_as_preemption_sees_it(found, preempted):
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}}
    status = {"conditions": [found], "startTime": "1970-01-01T00:01:00Z"}
    seen = resident(pod("a", priority=3, metadata=leaving, status=status))
    assert seen == Resident(
        Key("ns", "a"), "a", 3, {"cpu": 1.0, PODS: 1.0}, {"a": "b"}, 60.0, leaves=True, preempted=preempted
    )
    assert not resident(pod("a", status=status)).preempted
