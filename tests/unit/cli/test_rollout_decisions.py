"""What ``kubewright rollout`` writes and says, for both kinds of MachineDeployment."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.cli.rollout.apis import CLUSTERS, MACHINES, Api, named
from kubewright.cli.rollout.decide import (
    Change,
    Progress,
    class_name,
    history,
    pause,
    progress,
    restart,
    table,
    template_of,
    undo,
    would_roll,
)

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def template(size: str, *, hashed: str = "") -> dict[str, Any]:
    labels = {"pool": "a", **({"machine-template-hash": hashed} if hashed else {})}
    return {"metadata": {"labels": labels}, "spec": {"class": {"name": size}}}


def deployment(size: str = "large", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "workers", "uid": "d", "resourceVersion": "7", "generation": 2},
        "spec": {"replicas": 3, "template": template(size), **spec},
    }


def machine_set(number: str, size: str, machines: int = 0, owner: str = "d") -> dict[str, Any]:
    key = "deployment.kubernetes.io/revision"
    return {
        "metadata": {
            "name": f"workers-{size}",
            "creationTimestamp": f"2026-11-0{number or 9}T00:00:00Z",
            "annotations": {key: number} if number else {},
            "ownerReferences": [{"uid": owner, "controller": True}],
        },
        "spec": {"template": template(size, hashed="123")},
        "status": {"replicas": machines},
    }


def of_clusters(each: dict[str, Any]) -> dict[str, Any]:
    """A set as Cluster API annotates it."""
    notes = each["metadata"]["annotations"]
    moved = dict.fromkeys((CLUSTERS.revision,), *notes.values())
    return {**each, "metadata": {**each["metadata"], "annotations": moved}}


SETS = [machine_set("2", "large", 3), machine_set("1", "small"), machine_set("5", "other", owner="x")]


class Undo(NamedTuple):
    name: str
    api: Api
    wanted: int
    change: Change


UNDOS = [
    Undo("the controller of machines is asked for the one before", MACHINES, 0,
         Change({"spec": {"rollbackTo": {"revision": 1}}}, "rolled back to revision 1")),
    Undo("or for a number", MACHINES, 1,
         Change({"spec": {"rollbackTo": {"revision": 1}}}, "rolled back to revision 1")),
    Undo("the present one changes nothing", MACHINES, 2, Change({}, "has the template of revision 2 already")),
    Undo("Cluster API's deployment gets the earlier template, without the hash", CLUSTERS, 0,
         Change({"spec": {"template": {"spec": {"class": {"name": "small"}}}}}, "rolled back to revision 1")),
]  # fmt: skip


@pytest.mark.parametrize("case", UNDOS, ids=lambda case: case.name)
def test_back_to_an_earlier_template(case: Undo) -> None:
    sets = [of_clusters(each) for each in SETS] if case.api is CLUSTERS else SETS
    assert undo(case.api, deployment(), sets, case.wanted) == case.change


def test_an_earlier_revision_of_the_same_template_is_no_rollback() -> None:
    sets = [of_clusters(each) for each in (machine_set("2", "large"), machine_set("1", "large"))]
    assert undo(CLUSTERS, deployment(), sets, 0) == Change({}, "has the template of revision 1 already")


@pytest.mark.parametrize(
    ("sets", "wanted", "sentence"),
    [
        pytest.param(SETS, 5, "it has no revision 5; there are: 1, 2", id="another deployment's revision"),
        pytest.param(SETS[:1], 0, "it has no earlier revision", id="the first one"),
        pytest.param([], 3, "it has no revision 3; there are: none", id="none at all"),
        pytest.param([machine_set("one", "large")], 1, "there are: none", id="a number that is none"),
    ],
)
def test_a_revision_that_is_not_there_is_refused(
    sets: list[dict[str, Any]], wanted: int, sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        undo(MACHINES, deployment(), sets, wanted)


def test_nothing_follows_while_it_is_paused() -> None:
    with pytest.raises(InvalidInput, match="it is paused, and cannot be undone; resume it first"):
        undo(MACHINES, deployment(paused=True), SETS, 0)
    with pytest.raises(InvalidInput, match="it is paused, and cannot be restarted"):
        restart(MACHINES, deployment(paused=True), NOW)


@pytest.mark.parametrize(
    ("before", "paused", "change"),
    [
        pytest.param({}, True, Change({"spec": {"paused": True}}, "paused"), id="pause"),
        pytest.param({"paused": True}, True, Change({}, "was paused already"), id="pause again"),
        pytest.param({"paused": True}, False, Change({"spec": {"paused": None}}, "resumed"), id="resume"),
        pytest.param({}, False, Change({}, "was resumed already"), id="resume what was not paused"),
    ],
)
def test_stop_and_go_on(before: dict[str, Any], paused: bool, change: Change) -> None:
    assert pause(deployment(**before), paused=paused) == change


def test_new_machines_of_the_same_template() -> None:
    noted = {"metadata": {"annotations": {"kubewright.dev/restarted-at": "2026-11-23T12:00:00Z"}}}
    assert restart(MACHINES, deployment(), NOW) == Change({"spec": {"template": noted}}, "restarted")
    after = {"spec": {"rolloutAfter": "2026-11-23T12:00:00Z"}}
    assert restart(CLUSTERS, deployment(), NOW) == Change(after, "restarted")


def status(generation: int = 2, **numbers: Any) -> dict[str, Any]:
    return {"status": {"observedGeneration": generation, **numbers}}


GONE_WRONG = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": "slow",
}
STATES: list[tuple[str, dict[str, Any], Progress]] = [
    ("a status about an earlier spec says nothing", status(1, updatedReplicas=3, replicas=3, availableReplicas=3),
     Progress("its controller has not seen the last change yet")),
    ("no status", {}, Progress("its controller has not seen the last change yet")),
    ("new machines are missing", status(updatedReplicas=1, replicas=4),
     Progress("1 of 3 machines have the new template")),
    ("old machines are still there", status(updatedReplicas=3, replicas=5, availableReplicas=3),
     Progress("old machines that are still there: 2")),
    ("new machines are not available", status(updatedReplicas=3, replicas=3, availableReplicas=1),
     Progress("1 of 3 machines are available")),
    ("all are", status(updatedReplicas=3, replicas=3, availableReplicas=3),
     Progress("rolled out: 3 machines", done=True)),
    ("it was given up for slow", status(updatedReplicas=1, replicas=3, conditions=[GONE_WRONG]),
     Progress("slow", failed=True)),
]  # fmt: skip


@pytest.mark.parametrize(("state", "wanted"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_how_far_a_rollout_is(state: dict[str, Any], wanted: Progress) -> None:
    assert progress({**deployment(), **state}) == wanted


def test_machines_in_excess_belong_to_a_rollout() -> None:
    five = deployment(excessReplicas=2)
    found = progress({**five, **status(updatedReplicas=3, replicas=5, availableReplicas=5)})
    assert found == Progress("3 of 5 machines have the new template")
    whole = progress({**five, **status(updatedReplicas=5, replicas=5, availableReplicas=5)})
    assert whole == Progress("rolled out: 5 machines", done=True)
    noted = {**deployment(), "kind": "MachineDeployment"}
    noted["metadata"] = {**noted["metadata"], "annotations": {"kubewright.dev/excess-replicas": "2"}}
    assert progress({**noted, **status(updatedReplicas=5, replicas=5, availableReplicas=5)}) == whole


def test_a_paused_rollout_says_so() -> None:
    found = progress({**deployment(paused=True), **status(updatedReplicas=1, replicas=3)})
    assert found == Progress("1 of 3 machines have the new template; it is paused")


def test_the_history_lists_the_revisions_of_the_deployment_alone() -> None:
    assert table(history(MACHINES, deployment(), SETS)) == [
        "REVISION   MACHINE SET     CREATED                MACHINES",
        "1          workers-small   2026-11-01T00:00:00Z   0",
        "2          workers-large   2026-11-02T00:00:00Z   3          current",
    ]


def test_the_template_of_a_revision_has_no_hash() -> None:
    revisions = history(MACHINES, deployment(), SETS)
    assert template_of(MACHINES, revisions, 1) == template("small")


@pytest.mark.parametrize(
    ("text", "api"),
    [
        ("mcd/a", MACHINES),
        ("md/a", CLUSTERS),
        ("machinedeployment.machine.sapcloud.io/a", MACHINES),
        ("machinedeployments.cluster.x-k8s.io/a", CLUSTERS),
        ("MCD/a", MACHINES),
    ],
)
def test_how_a_deployment_is_named(text: str, api: Api) -> None:
    assert named(text) == (api, "a")


@pytest.mark.parametrize("text", ["a", "mcd/", "/a", "machinedeployment/a", "deployment/a", "mcs/a"])
def test_a_name_that_could_mean_either_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="write mcd/NAME for machinedeployment"):
        named(text)


def test_what_would_roll_is_told_only_where_a_class_says_so() -> None:
    said = {"type": "Applied", "status": "False", "message": "its type differs"}
    assert class_name(deployment()) == "large"
    assert would_roll(deployment(), "large", {"status": {"conditions": [said]}}) == [
        "class large: its type differs. A class of another name would roll 3 machines"
    ]
    (line,) = would_roll(deployment(excessReplicas=2), "large", {"status": {"conditions": [said]}})
    assert line.endswith("would roll 5 machines"), "those that are kept free roll, too"
    (line,) = would_roll(deployment(replicas=1), "large", {"status": {"conditions": [said]}})
    assert line.endswith("would roll 1 machine")
    assert would_roll(deployment(), "large", {"status": {"conditions": [{**said, "status": "True"}]}}) == []
    assert would_roll(deployment(), "large", {}) == []
    assert class_name({"spec": {}}) == ""
