"""What the collector does with one node, and whom a change of the graph wakes."""

import pytest

from kubewright.builtin.garbage.graph import (
    SETTLE_SECONDS,
    Delete,
    DropFinalizer,
    ForgetOwners,
    Graph,
    GraphNode,
    Owner,
    OwnerState,
    Seen,
    Unblock,
    decide,
)
from kubewright.wire.gvk import Key, Resource

MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def node(uid, *owners, blocks=(), **marks):
    refs = tuple(Owner(each, "", "ConfigMap", each, blocks=each in blocks) for each in owners)
    return GraphNode(uid=uid, resource=MAPS, key=Key("ns", uid), version="1", owners=refs, **marks)


A, B, C = node("a"), node("b", "a"), node("c", "b")
FOREGROUND = {"deleting": True, "foreground": True}
ORPHAN = {"deleting": True, "orphans": True}


def seen(subject, dependents=(), complete=True, **states):
    return Seen(
        subject, {uid: OwnerState[state] for uid, state in states.items()}, tuple(dependents), complete
    )


CASES = [
    pytest.param(seen(A), (), "it has no owner", id="an object without owners is kept"),
    pytest.param(
        seen(B, a="LIVES"), (), "an owner lives, 0 do not", id="an object with a living owner is kept"
    ),
    pytest.param(
        seen(B, a="ABSENT"),
        (Delete("Background"),),
        "no owner lives",
        id="an object whose owner is gone is deleted",
    ),
    pytest.param(
        seen(B, [C], a="ABSENT"),
        (Delete("Background"),),
        "no owner lives",
        id="with its dependents in the background",
    ),
    pytest.param(
        seen(node("b", "a", "x"), a="LIVES", x="ABSENT"),
        (ForgetOwners(node("b", "a", "x"), frozenset("x")),),
        "an owner lives, 1 do not",
        id="one living owner is enough, the absent one is removed",
    ),
    pytest.param(
        seen(node("b", "a", "x"), a="LIVES", x="WAITS"),
        (ForgetOwners(node("b", "a", "x"), frozenset("x")),),
        "an owner lives, 1 do not",
        id="so is one that waits for its dependents",
    ),
    pytest.param(
        seen(B, a="PENDING"),
        (),
        "an owner's kind is not listed",
        id="nothing is deleted before the owner's kind is listed",
    ),
    pytest.param(
        seen(B, a="UNRESOLVABLE"),
        (),
        "an owner cannot be resolved",
        id="an owner of an unknown kind keeps it",
    ),
    pytest.param(
        seen(node("b", "a", "x"), a="UNRESOLVABLE", x="ABSENT"),
        (),
        "an owner cannot be resolved",
        id="also beside an absent owner",
    ),
    pytest.param(
        seen(B, a="WAITS"),
        (Delete("Background"),),
        "no owner lives",
        id="one without dependents is deleted when its owner waits",
    ),
    pytest.param(
        seen(B, [C], a="WAITS"),
        (Delete("Foreground"),),
        "an owner waits for its deletion",
        id="one with dependents is deleted in the foreground when its owner waits",
    ),
    pytest.param(
        seen(B, [node("c", "b", **FOREGROUND)], a="WAITS"),
        (Unblock(), Delete("Foreground")),
        "an owner waits for its deletion",
        id="a circle of waiting owners is broken",
    ),
    pytest.param(
        seen(node("b", "a", foreground=True), a="ABSENT"),
        (Delete("Foreground"),),
        "no owner lives",
        id="its own finalizer says how it is deleted: foreground",
    ),
    pytest.param(
        seen(node("b", "a", orphans=True), a="ABSENT"),
        (Delete("Orphan"),),
        "no owner lives",
        id="its own finalizer says: orphan",
    ),
    pytest.param(
        seen(node("b", "a", deleting=True), a="ABSENT"),
        (),
        "it is being deleted",
        id="an object that is being deleted is left alone",
    ),
    pytest.param(
        seen(node("b", **FOREGROUND), [node("c", "b", blocks="b")]),
        (),
        "1 dependents must be deleted first",
        id="a blocking dependent holds its owner",
    ),
    pytest.param(
        seen(node("b", **FOREGROUND), [node("c", "b")]),
        (DropFinalizer("foregroundDeletion"),),
        "no dependent blocks its deletion",
        id="one that does not block does not",
    ),
    pytest.param(
        seen(node("b", **FOREGROUND)),
        (DropFinalizer("foregroundDeletion"),),
        "no dependent blocks its deletion",
        id="no dependent, no wait",
    ),
    pytest.param(
        seen(node("b", **FOREGROUND), complete=False),
        (),
        "not all kinds are listed",
        id="unless dependents may be there that we do not see yet",
    ),
    pytest.param(
        seen(node("b", **ORPHAN), [C]),
        (ForgetOwners(C, frozenset("b")), DropFinalizer("orphan")),
        "it orphans 1 dependents",
        id="orphaning removes the dependents' references first",
    ),
    pytest.param(
        seen(node("b", **ORPHAN), complete=False),
        (),
        "not all kinds are listed",
        id="but not before all dependents are known",
    ),
]


@pytest.mark.parametrize(("picture", "steps", "because"), CASES)
def test_decide(picture, steps, because):
    plan = decide(picture)
    assert (plan.steps, plan.because) == (steps, because)


@pytest.mark.parametrize(
    "picture", [seen(B, a="PENDING"), seen(node("b", **ORPHAN), complete=False)], ids=["owner", "dependents"]
)
def test_what_is_not_listed_is_looked_at_again(picture):
    assert decide(picture).wake


class Woken(list):
    def __call__(self, uid, _why, after):
        self.append((uid, after))

    def take(self):
        taken = list(self)
        self.clear()
        return taken


@pytest.fixture
def woken():
    return Woken()


@pytest.fixture
def graph(woken):
    return Graph(woken)


def test_a_child_of_a_known_owner_wakes_no_node(graph, woken):
    graph.put(A)
    graph.put(B)
    assert woken == []
    assert graph.dependents("a") == [B]


def test_a_child_of_an_unknown_owner_is_looked_at_a_moment_later(graph, woken):
    graph.put(B)
    assert woken == [("b", SETTLE_SECONDS)]


def test_a_heartbeat_of_a_child_wakes_no_node(graph, woken):
    graph.put(B)
    woken.clear()
    graph.put(GraphNode(uid="b", resource=MAPS, key=Key("ns", "b"), version="2", owners=B.owners))
    assert woken == []
    assert graph.get("b").version == "2"


def test_the_end_of_an_owner_wakes_its_children_at_once(graph, woken):
    graph.put(A)
    graph.put(B)
    graph.drop("a")
    assert woken == [("b", 0.0)]
    assert graph.is_gone("a")


def test_the_end_of_a_kind_is_not_the_end_of_its_objects(graph, woken):
    graph.put(A)
    graph.put(B)
    graph.drop("a", ended=False)
    assert woken == []
    assert not graph.is_gone("a")


def test_foreground_deletion_wakes_owner_and_children_and_their_end_wakes_the_owner(graph, woken):
    graph.put(A)
    graph.put(B)
    graph.put(node("a", **FOREGROUND))
    assert woken.take() == [("a", 0.0), ("b", 0.0)]
    graph.put(node("a", **FOREGROUND))
    assert woken.take() == []
    graph.drop("b")
    assert woken.take() == [("a", 0.0)]


def test_a_child_that_gets_other_owners_wakes_its_waiting_owner(graph, woken):
    graph.put(node("a", **FOREGROUND))
    graph.put(B)
    woken.clear()
    graph.put(node("b"))
    assert woken == [("a", 0.0)]
    assert graph.dependents("a") == []


def test_the_graph_forgets_links_with_their_nodes(graph):
    for each in (A, B, C):
        graph.put(each)
    for uid in "abc":
        graph.drop(uid)
    assert len(graph) == 0
    assert graph.dependents("a") == []
