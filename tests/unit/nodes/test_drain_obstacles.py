"""Why a pod stays: which budget, how many are missing, and whether waiting helps (DRA-08, DRA-09)."""

import pytest

from kubewright.api.core import PDB, POD
from kubewright.kube.errors import TransportError
from kubewright.nodes.drain.budgets import ByLabels
from kubewright.nodes.drain.plan import Held, Obstacle, explain, first_clauses, group, never_yields
from kubewright.wire.errors import ApiError, Conflict, Forbidden, TooManyRequests, Unavailable

CAUSE = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2"}
REFUSED = TooManyRequests("Cannot evict pod.", details={"causes": [CAUSE]})
BUSY = TooManyRequests("too many requests, please try again later")
SEVERAL = ApiError("This pod has more than one PodDisruptionBudget", code=500, reason="")
WEB = POD.from_plain(
    {
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1"},
    }
)


def explained(error, budgets):
    """The obstacle of the pod, among these budgets of the cluster."""
    return explain(WEB, error, ByLabels(budgets).of(WEB))


def budget(name="web", *, namespace="default", selects="web", generation=1, spec=None, **status):
    counts = {
        "observedGeneration": 1,
        "expectedPods": 3,
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "disruptionsAllowed": 1,
        **status,
    }
    spec = {"selector": {"matchLabels": {"app": selects}}, **(spec or {"minAvailable": 2})}
    metadata = {"name": name, "namespace": namespace, "generation": generation}
    return PDB.from_plain({"metadata": metadata, "spec": spec, "status": counts})


ONE_SHORT = budget(currentHealthy=2, disruptionsAllowed=0)
NO_ROOM = budget(desiredHealthy=3, disruptionsAllowed=0)

NEVER = [
    ("all pods are well, and none may go", NO_ROOM, True),
    ("one pod is not well: it may give way later", ONE_SHORT, False),
    ("there is room", budget(), False),
    ("no unavailable pod is allowed, whatever the counts", budget(spec={"maxUnavailable": 0}), True),
    ("nor a share of none", budget(spec={"maxUnavailable": "0%"}), True),
    ("nor none in words", budget(spec={"maxUnavailable": "0"}), True),
    ("its only pod is well, and may not go",
     budget(expectedPods=1, currentHealthy=1, desiredHealthy=1, disruptionsAllowed=0), True),
    ("all must be available", budget(spec={"minAvailable": "100%"}, currentHealthy=0), True),
    ("its status is old", budget(generation=2, desiredHealthy=3, disruptionsAllowed=0), False),
    ("an eviction is not counted yet",
     budget(desiredHealthy=3, disruptionsAllowed=0, disruptedPods={"web-2": "2030-01-01T00:00:00Z"}), False),
    ("it has no pods yet", budget(expectedPods=0, currentHealthy=0, disruptionsAllowed=0), False),
]  # fmt: skip


@pytest.mark.parametrize(("of", "never"), [c[1:] for c in NEVER], ids=[c[0] for c in NEVER])
def test_a_budget_that_never_yields(of, never):
    assert never_yields(of) is never


WHO = "pod disruption budget default/web"
EXPLAINED = [
    ("a budget that may yield is named, with what is missing", REFUSED, [ONE_SHORT],
     f"{WHO} allows no eviction now: of its pods 2 must stay healthy and 2 are, so 1 more must become healthy",
     False, "default/web"),
    ("two are missing", REFUSED, [budget(currentHealthy=1, disruptionsAllowed=0)],
     f"{WHO} allows no eviction now: of its pods 2 must stay healthy and 1 are, so 2 more must become healthy",
     False, "default/web"),
    ("a budget that never yields", REFUSED, [NO_ROOM],
     f"{WHO} is misconfigured and requires zero voluntary evictions", True, "default/web never yields"),
    ("a budget whose pods no controller manages", REFUSED, [budget(spec={"maxUnavailable": 1}, expectedPods=0)],
     f"{WHO} is misconfigured: no controller manages its pods, so it needs minAvailable as a number", True,
     "default/web counts no pod"),
    ("also if it is a percentage", REFUSED, [budget(spec={"minAvailable": "50%"}, expectedPods=0)],
     f"{WHO} is misconfigured: no controller manages its pods, so it needs minAvailable as a number", True,
     "default/web counts no pod"),
    ("a number counts pods whatever manages them", REFUSED, [budget(spec={"minAvailable": 1}, expectedPods=0)],
     f"{WHO} allowed no eviction when it was asked", False, "default/web"),
    ("a budget that the server has not looked at yet", REFUSED, [budget(spec={"maxUnavailable": 1}, observedGeneration=0, expectedPods=0)],
     f"{WHO} is still being processed by the server", False, "default/web"),
    ("a budget whose status is old", REFUSED, [budget(generation=2)],
     f"{WHO} is still being processed by the server", False, "default/web"),
    ("a budget that has yielded meanwhile", REFUSED, [budget()],
     f"{WHO} allowed no eviction when it was asked", False, "default/web"),
    ("budgets of others do not count", REFUSED, [budget("db", selects="db"), budget(namespace="x"), NO_ROOM],
     f"{WHO} is misconfigured and requires zero voluntary evictions", True, "default/web never yields"),
    ("a budget that is gone meanwhile", REFUSED, [],
     "Cannot evict pod. The disruption budget web needs 2 healthy pods and has 2", False, "budget"),
    ("more than one budget", SEVERAL, [budget("b"), budget("a")],
     "more than one pod disruption budget selects it (default/a, default/b), which no eviction can satisfy: delete or "
     "narrow all but one", True, "default/a, default/b"),
    ("a server that is busy is no budget's doing", BUSY, [NO_ROOM],
     "too many requests, please try again later", False, ""),
    ("a sentence without its full stop", TooManyRequests("Slow down."), [], "Slow down", False, ""),
    ("a budget that says nothing", TooManyRequests("Cannot evict pod.", details={"causes": [{"reason": "DisruptionBudget"}]}),
     [], "Cannot evict pod. ", False, "budget"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "budgets", "why", "firm", "topic"), [c[1:] for c in EXPLAINED], ids=[c[0] for c in EXPLAINED]
)
def test_a_refusal_is_explained(error, budgets, why, firm, topic):
    assert explained(error, budgets) == Obstacle(why, firm, topic)


ERRORS = [
    ("a webhook that says no", Forbidden("denied by policy"), "denied by policy", True),
    ("a server that breaks", ApiError("it broke", code=500), "it broke", True),
    ("a server that is away", Unavailable("not now"), "not now", False),
    ("another pod of that name", Conflict("another uid"), "another uid", False),
    ("a pod that is gone", ApiError("gone", code=404), "gone", False),
    ("a broken gateway", ApiError("no.", code=502), "no", False),
    ("a gateway that waits in vain", ApiError("late", code=504), "late", False),
    ("a method that is not allowed", ApiError("never", code=405), "never", True),
    ("a network that loses things", TransportError("lost"), "lost", False),
]  # fmt: skip


@pytest.mark.parametrize(("error", "why", "firm"), [c[1:] for c in ERRORS], ids=[c[0] for c in ERRORS])
def test_an_error_that_is_no_budgets_doing_is_told_in_upstreams_words(error, why, firm):
    found = explained(error, [budget()])
    assert found == Obstacle(f"{why} scheduled on node n1", firm, "default/web-1" if firm else "", "when")
    assert str(Held(found, ("default/web-1",))) == (
        f'error when evicting pod "default/web-1": {why} scheduled on node n1'
    )


def test_a_server_that_fails_while_two_budgets_select_the_pod_is_quoted():
    found = explained(ApiError("etcd is away", code=500), [budget("a"), budget("b")])
    assert found == Obstacle("etcd is away scheduled on node n1", True, "default/web-1", "when")


def test_counts_change_the_words_and_not_the_topic():
    topics = {explained(REFUSED, [budget(currentHealthy=n, disruptionsAllowed=0)]).topic for n in (1, 2)}
    assert topics == {"default/web"}


def test_a_selector_that_makes_no_sense_selects_no_pod():
    wrong = budget(spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}})
    assert explained(REFUSED, [wrong]).why.startswith("Cannot evict pod.")


def pod(name):
    return POD.from_plain({"metadata": {"name": name, "namespace": "default"}})


def test_pods_of_one_obstacle_are_told_together_and_firm_ones_first():
    soft, firm = Obstacle("a budget is exhausted"), Obstacle("no pod may go", firm=True)
    held = group([(pod(name), soft) for name in "edcba"] + [(pod("z"), firm)])
    assert [str(each) for each in held] == [
        'error while evicting pod "default/z": no pod may go',
        'error while evicting pod "default/a", "default/b", "default/c" and 2 more: a budget is exhausted',
    ]


def test_three_pods_are_told_by_name():
    held = Held(Obstacle("no"), ("a", "b", "c"))
    assert str(held) == 'error while evicting pod "a", "b", "c": no'


def test_many_obstacles_are_counted():
    assert first_clauses(["a", "b", "c"]) == "a; b; c"
    assert first_clauses(["a", "b", "c", "d", "e"]) == "a; b; c; and 2 more"
