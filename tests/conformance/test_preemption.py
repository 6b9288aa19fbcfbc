"""Which Pods make room for one of a higher priority, and what everyone is told: by the real kube-scheduler, and by ours."""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from tests.conformance.conftest import WORLDS, apart
from tests.conformance.pairs import FIRST, STORIES
from tests.conformance.preempting import Budget, Runs, Scene, Stage, embedded_scheduler, stage

from kubewright.base.clock import SystemClock
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.real_kubernetes.cached import SCHEDULER
from kubewright.testing.servers import real_api

NewStage = Callable[[], AbstractAsyncContextManager[Stage]]
CONTROLLERS = ("namespace-controller",)
"""No others: budgets are what a scene says they are, and nodes have no kubelets."""
WEB = {"app": "web"}


@pytest.fixture(scope="module")
def real_scheduler() -> Iterator[RealKubernetes]:
    options = Options(fsync=False, controllers=CONTROLLERS, scheduler=SCHEDULER.find())
    real = RealKubernetes(find(), SystemClock(), options)
    apart(real.start())
    try:
        yield real
    finally:
        apart(real.stop())


@pytest.fixture(params=WORLDS)
def new_stage(request: pytest.FixtureRequest) -> NewStage:
    if request.param == "embedded":
        return embedded_scheduler
    real = request.getfixturevalue("real_scheduler")

    @asynccontextmanager
    async def begin() -> AsyncIterator[Stage]:
        async with real_api(real) as api, stage(api) as found:
            yield found

    return begin


def pair(first: Runs, second: Runs, **more: Any) -> Scene:
    """Two nodes of one cpu, each with one Pod."""
    return Scene({"a": "1", "b": "1"}, (first, second), **more)


PROMISED = [
    pytest.param(Scene({"a": "1"}, (Runs("low", "a"),)), "a", {"low"}, id="the only Pod that is in the way"),
    pytest.param(
        Scene({"a": "2"}, (Runs("low", "a", priority=1), Runs("lower", "a"))),
        "a",
        {"lower"},
        id="the lowest of two",
    ),
    pytest.param(
        Scene({"a": "3"}, (Runs("large", "a", "2"), Runs("small", "a", "1", priority=1)), wants="2"),
        "a",
        {"large"},
        id="as few as will do",
    ),
    pytest.param(
        Scene({"a": "2"}, (Runs("old", "a", minute=1), Runs("young", "a", minute=2))),
        "a",
        {"young"},
        id="of equals the one that started last",
    ),
    pytest.param(
        pair(Runs("x", "a", priority=2), Runs("y", "b", priority=1)), "b", {"y"}, id="the lowest highest"
    ),
    pytest.param(
        Scene({"a": "2", "b": "2"}, (Runs("w", "a"), Runs("x", "a"), Runs("y", "b", "2")), wants="2"),
        "b",
        {"y"},
        id="one victim, not two",
    ),
    pytest.param(
        Scene(
            {"a": "2", "b": "2"},
            (
                Runs("w", "a", priority=5),
                Runs("x", "a", priority=4),
                Runs("y", "b", priority=5),
                Runs("z", "b"),
            ),
            wants="2",
        ),
        "b",
        {"y", "z"},
        id="the smallest sum where the highest are equal",
    ),
    pytest.param(
        Scene(
            {"a": "2", "b": "2"},
            (Runs("w", "a", priority=-5), Runs("x", "a", priority=-5), Runs("y", "b", "2", priority=-5)),
            wants="2",
        ),
        "b",
        {"y"},
        id="two negative priorities are no smaller sum than one",
    ),
    pytest.param(
        pair(Runs("x", "a", minute=1), Runs("y", "b", minute=2)),
        "b",
        {"y"},
        id="where the victim started last",
    ),
    pytest.param(
        pair(Runs("x", "a", priority=9), Runs("y", "b", labels=WEB), budgets=(Budget("web", WEB),)),
        "a",
        {"x"},
        id="a budget counts before priorities",
    ),
    pytest.param(
        Scene({"a": "1"}, (Runs("low", "a", labels=WEB),), budgets=(Budget("web", WEB),)),
        "a",
        {"low"},
        id="a budget is broken where there is no other way",
    ),
    pytest.param(
        Scene(
            {"a": "2"},
            (Runs("x", "a", priority=5), Runs("y", "a", labels=WEB)),
            budgets=(Budget("web", WEB),),
        ),
        "a",
        {"x"},
        id="on one node a Pod behind a budget is kept before one of a higher priority",
    ),
    pytest.param(
        Scene(
            {"a": "2"},
            (Runs("x", "a", priority=5), Runs("y", "a", labels=WEB)),
            budgets=(Budget("web", WEB, allowed=1),),
        ),
        "a",
        {"y"},
        id="a budget with room counts for nothing",
    ),
    pytest.param(
        Scene(
            {"a": "2"}, (Runs("x", "a", priority=5), Runs("y", "a", labels=WEB)), budgets=(Budget("all", {}),)
        ),
        "a",
        {"y"},
        id="nor does one that selects all Pods",
    ),
]


@pytest.mark.parametrize(("scene", "node", "victims"), PROMISED)
async def test_a_pod_gets_the_room_of_lower_ones(
    new_stage: NewStage, scene: Scene, node: str, victims: set[str]
) -> None:
    async with new_stage() as there:
        await there.prepare(scene)
        await there.pod("new", scene.wants, scene.priority)
        await there.until_victims(*victims)
        await there.until_promised("new", node)
        await there.end(*victims)
        bound = await there.until_bound("new", node)
        assert "nominatedNodeName" not in bound["status"]
        assert {each["metadata"]["name"] for each in await there.pods()} == {
            "new",
            *(each.name for each in scene.runs if each.name not in victims),
        }


LEFT_ALONE = [
    pytest.param(
        Scene({"a": "1"}, (Runs("same", "a", priority=10),)),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are "
        "available: 1 No preemption victims found for incoming pod.",
        id="Pods of the same priority",
    ),
    pytest.param(
        Scene({"a": "1"}, (Runs("low", "a"),), never=True),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to "
        "preemptionPolicy=Never.",
        id="all, by a Pod that never preempts",
    ),
    pytest.param(
        Scene({"a": "2"}, (Runs("low", "a"), Runs("high", "a", priority=20)), wants="2"),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are "
        "available: 1 Insufficient cpu.",
        id="a Pod whose end would not help",
    ),
    pytest.param(
        Scene({"a": "1", "b": "3"}, (Runs("low", "a"), Runs("x", "b", "3", priority=20)), wants="2"),
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are "
        "available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
        id="one on a node that is too small anyway",
    ),
]


@pytest.mark.parametrize(("scene", "told"), LEFT_ALONE)
async def test_pods_are_left_alone(new_stage: NewStage, scene: Scene, told: str) -> None:
    async with new_stage() as there:
        await there.prepare(scene)
        await there.pod("new", scene.wants, scene.priority, never=scene.never)
        pod = await there.until_told()
        assert await there.message() == told
        assert "nominatedNodeName" not in pod["status"]
        assert await there.victims() == set()


async def test_victims_and_their_heir_are_told_why(new_stage: NewStage) -> None:
    async with new_stage() as there:
        await there.prepare(Scene({"a": "1"}, (Runs("low", "a"),)))
        await there.pod("new", "1", 10)
        await there.until_victims("low")
        low = await there.get("low")
        (condition,) = (each for each in low["status"]["conditions"] if each["type"] == "DisruptionTarget")
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        assert low["metadata"]["deletionGracePeriodSeconds"] == 30
        uid = (await there.get("new"))["metadata"]["uid"]
        event = (await there.api.eventually(lambda: there.events("low", "Preempted"), "the event"))[0]
        assert event["message"] == f"Preempted by pod {uid} on node a"
        assert event["type"] == "Normal"
        failed = (await there.api.eventually(lambda: there.events("new", "FailedScheduling"), "the event"))[0]
        assert failed["message"] == "0/1 nodes are available: 1 Insufficient cpu."


async def test_room_that_is_promised_is_not_taken_by_an_equal_pod(new_stage: NewStage) -> None:
    async with new_stage() as there:
        await there.prepare(Scene({"a": "2"}, (Runs("x", "a", priority=10), Runs("y", "a"))))
        await there.pod("new", "1", 10)
        await there.until_victims("y")
        await there.until_promised("new", "a")
        await there.pod("rival", "1", 10)
        await there.until_told("rival")
        await there.end("y")
        await there.until_bound("new", "a")
        assert "nodeName" not in (await there.get("rival"))["spec"]


async def test_a_higher_pod_takes_what_was_promised(new_stage: NewStage) -> None:
    async with new_stage() as there:
        await there.prepare(Scene({"a": "1"}, (Runs("low", "a"),)))
        await there.pod("new", "1", 10)
        await there.until_victims("low")
        await there.until_promised("new", "a")
        await there.pod("higher", "1", 20)
        await there.until_promised("higher", "a")
        await there.end("low")
        await there.until_bound("higher", "a")
        assert "nodeName" not in (await there.get("new"))["spec"]


async def test_a_pod_goes_where_room_is_found_before_its_victims_are_gone(new_stage: NewStage) -> None:
    async with new_stage() as there:
        await there.prepare(Scene({"a": "1"}, (Runs("low", "a"),)))
        await there.pod("new", "1", 10)
        await there.until_victims("low")
        await there.until_promised("new", "a")
        await there.node("b", "1")
        bound = await there.until_bound("new", "b")
        assert "nominatedNodeName" not in bound["status"]


async def test_a_pod_whose_promised_node_goes_gets_another(new_stage: NewStage) -> None:
    async with new_stage() as there:
        scene = pair(Runs("x", "a", priority=1), Runs("y", "b", priority=2))
        await there.prepare(scene)
        await there.pod("new", "1", 10)
        await there.until_promised("new", "a")
        await there.until_victims("x")
        (await there.api.delete("/api/v1/nodes/a")).ok()
        await there.end(
            "x"
        )  # the real one does not look again before: a node that goes helps none, it thinks
        await there.until_promised("new", "b")
        await there.until_victims("y")


async def test_pods_of_a_higher_priority_get_room_first(new_stage: NewStage) -> None:
    async with new_stage() as there:
        await there.prepare(Scene({"a": "1"}, (Runs("full", "a", priority=50),)))
        for name, priority in (("low", 1), ("lower", 0), ("high", 10)):
            await there.pod(name, "1", priority, never=True)
            await there.until_told(name)
        await there.end("full")
        await there.until_bound("high", "a")


async def test_a_pod_that_leaves_anyway_is_counted_like_any_other(new_stage: NewStage) -> None:
    """It began first, so it is kept in thought, and another has to go though room is coming."""
    async with new_stage() as there:
        await there.prepare(Scene({"a": "2"}, (Runs("leaves", "a", minute=1), Runs("stays", "a", minute=2))))
        (await there.api.delete(there.api.at("pods", "leaves"))).ok()
        await there.pod("new", "1", 10)
        await there.until_promised("new", "a")
        await there.until_victims("leaves", "stays")


async def test_a_pod_that_leaves_anyway_may_be_the_victim(new_stage: NewStage) -> None:
    async with new_stage() as there:
        await there.prepare(Scene({"a": "2"}, (Runs("leaves", "a", minute=2), Runs("stays", "a", minute=1))))
        (await there.api.delete(there.api.at("pods", "leaves"))).ok()
        await there.pod("new", "1", 10)
        await there.until_promised("new", "a")
        await there.end("leaves")
        await there.until_bound("new", "a")
        assert await there.victims() == set()


async def test_what_was_promised_to_lower_pods_is_taken_back(new_stage: NewStage) -> None:
    async with new_stage() as there:
        await there.prepare(Scene({"a": "2"}, (Runs("x", "a", priority=8), Runs("y", "a"))))
        await there.pod("middle", "1", 5)
        await there.until_victims("y")
        await there.until_promised("middle", "a")
        await there.pod("new", "2", 10)
        await there.until_promised("new", "a")
        await there.until_victims("x", "y")
        await there.until_promised("middle", "")


def a_scene(seed: int) -> Scene:
    """Nodes, Pods and budgets by chance. All Pods started at different times, so that no two nodes are equal."""
    chance = random.Random(seed)
    nodes = {name: str(chance.randint(1, 4)) for name in "abc"[: chance.randint(1, 3)]}
    minutes, runs = chance.sample(range(60), 60), list[Runs]()
    for node, cpu in nodes.items():
        left = int(cpu) * 2
        while left and len(runs) < 15:
            halves = chance.randint(1, min(left, 4))
            left -= halves
            labels = chance.choice(({}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "c"}))
            priority = chance.choice((-5, 0, 0, 1, 5, 9, 10, 20))
            runs.append(Runs(f"p{len(runs)}", node, f"{halves * 500}m", priority, minutes.pop(), labels))
    some = chance.sample(({"app": "a"}, {"app": "b"}, {"tier": "c"}), chance.randint(0, 3))
    budgets = [Budget(f"b{n}", labels, chance.randint(0, 2)) for n, labels in enumerate(some)]
    return Scene(nodes, runs, str(chance.randint(1, 3)), 10, budgets)


async def _until_all_that_go_are_gone(there: Stage, node: str) -> None:
    """The room is the Pod's when its victims are gone, and not before."""

    async def bound() -> bool:
        await there.end(*await there.victims())
        return (await there.get("new"))["spec"].get("nodeName") == node

    await there.api.eventually(bound, f"new is on {node}")


async def outcome(there: Stage, scene: Scene) -> tuple[str, str, set[str]]:
    await there.prepare(scene)
    await there.pod("new", scene.wants, scene.priority)
    told = await there.until_told()
    node = told["status"].get("nominatedNodeName", "")
    if node:
        await there.api.eventually(there.victims, "victims have to go")
        await _until_all_that_go_are_gone(there, node)
    gone = {each.name for each in scene.runs} - {each["metadata"]["name"] for each in await there.pods()}
    return node, told["status"]["conditions"][0]["message"], gone


@pytest.mark.kube
@pytest.mark.looptime(False)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
async def test_both_choose_the_same_victims(real_scheduler: RealKubernetes, seed: int) -> None:
    scene = a_scene(seed)
    async with embedded_scheduler() as there:
        ours = await outcome(there, scene)
    async with real_api(real_scheduler) as api, stage(api) as there:
        assert await outcome(there, scene) == ours, scene
