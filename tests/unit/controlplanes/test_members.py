"""Which change of an etcd's members is next: growing, shrinking, replacing, and never without a majority."""

from dataclasses import replace

import pytest

from kubewright.controlplanes.members import (
    AddLearner,
    Member,
    Plan,
    Promote,
    Remove,
    Seen,
    decide,
    initial_variables,
    replicas,
)


def peer(number):
    return f"https://127.64.0.{number}:2380"


def wanted(*numbers):
    return {f"demo-etcd-{number}": peer(number) for number in numbers}


def member(number, **changes):
    return replace(Member(100 + number, f"demo-etcd-{number}", peer(number)), **changes)


def seen(want, members, silent=(), caught_up=()):
    answering = frozenset(each.id for each in members if each.id not in silent)
    return Seen(wanted(*range(want)), tuple(members), answering, frozenset(caught_up))


ONE, TWO, THREE = [member(0)], [member(0), member(1)], [member(0), member(1), member(2)]
NEW = member(1, name="", learner=True)
ELSEWHERE = member(9)
BY_HAND = member(8, name="backup-20261124")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(seen(3, []), Plan(because="its members could not be asked"), id="nothing answers"),
        pytest.param(seen(1, ONE), Plan(because="all instances are members"), id="one, as wanted"),
        pytest.param(
            seen(3, ONE),
            Plan((AddLearner("demo-etcd-1", peer(1)),), because="demo-etcd-1 is to become a member"),
            id="more are wanted: the next one first",
        ),
        pytest.param(
            seen(3, [*ONE, NEW]),
            Plan(because=f"{peer(1)} does not have all data yet"),
            id="a learner that was not started",
        ),
        pytest.param(
            seen(3, [*ONE, member(1, learner=True)], caught_up=[101]),
            Plan((Promote(101, "demo-etcd-1"),), because="demo-etcd-1 has all data"),
            id="a learner that has caught up",
        ),
        pytest.param(
            seen(1, [*ONE, member(1, learner=True)], caught_up=[101]),
            Plan((Remove(101, "demo-etcd-1"),), because="demo-etcd-1 is not wanted any more"),
            id="a learner that is not wanted any more",
        ),
        pytest.param(
            seen(1, THREE),
            Plan((Remove(102, "demo-etcd-2"),), because="demo-etcd-2 is not wanted any more"),
            id="fewer are wanted: the last one first",
        ),
        pytest.param(
            seen(1, TWO),
            Plan((Remove(101, "demo-etcd-1"),), because="demo-etcd-1 is not wanted any more"),
            id="from two to one",
        ),
        pytest.param(
            seen(1, THREE, silent=[101]),
            Plan((Remove(101, "demo-etcd-1"),), because="demo-etcd-1 is not wanted any more"),
            id="one that does not answer goes before one that does",
        ),
        pytest.param(
            seen(1, THREE, silent=[100]),
            Plan(because="without demo-etcd-2 there would be no majority"),
            id="one that is to stay does not answer",
        ),
        pytest.param(
            seen(1, THREE, silent=[101, 102]),
            Plan(because="1 of 3 members answer, which is no majority"),
            id="no majority",
        ),
        pytest.param(
            seen(3, [member(0), member(1), ELSEWHERE]),
            Plan((AddLearner("demo-etcd-2", peer(2)),), because="demo-etcd-2 is to become a member"),
            id="one is to be replaced and answers: the other is added first",
        ),
        pytest.param(
            seen(3, [member(0), member(1), ELSEWHERE], silent=[109]),
            Plan((Remove(109, "demo-etcd-9"),), because="demo-etcd-9 is not wanted any more"),
            id="one is to be replaced and does not answer: it goes first",
        ),
        pytest.param(
            Seen(wanted(5), (member(0),), frozenset({100})),
            Plan((AddLearner("demo-etcd-5", peer(5)),), because="demo-etcd-5 is to become a member"),
            id="the only one is to be replaced",
        ),
        pytest.param(
            Seen({}, (member(0),), frozenset({100})),
            Plan(because="without demo-etcd-0 there would be no majority"),
            id="the last one is never removed",
        ),
    ],
)
def test_which_change_is_next(state, expected):
    assert decide(state) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(seen(3, []), 0, id="nothing is known"),
        pytest.param(seen(3, ONE), 1, id="others are no members yet"),
        pytest.param(seen(3, [*ONE, NEW]), 2, id="a learner has to be started"),
        pytest.param(seen(1, THREE), 3, id="none was removed yet"),
        pytest.param(seen(1, TWO), 2, id="one was removed"),
        pytest.param(seen(1, [*ONE, BY_HAND]), 1, id="one that a user added by hand is no instance"),
    ],
)
def test_how_many_run(state, expected):
    assert replicas(state) == expected


def test_a_new_etcd_begins_with_all_and_a_new_member_with_those_that_are():
    assert initial_variables(seen(2, [])) == {
        "INITIAL_CLUSTER": f"demo-etcd-0={peer(0)},demo-etcd-1={peer(1)}",
        "INITIAL_CLUSTER_STATE": "new",
    }
    assert initial_variables(seen(3, [*ONE, NEW])) == {
        "INITIAL_CLUSTER": f"demo-etcd-0={peer(0)},demo-etcd-1={peer(1)}",
        "INITIAL_CLUSTER_STATE": "existing",
    }


@pytest.mark.parametrize("start", range(1, 6))
@pytest.mark.parametrize("end", range(1, 6))
def test_from_any_size_to_any_other_by_single_changes_with_a_majority_at_each(start, end):
    members, steps = [member(number) for number in range(start)], 0
    while (plan := decide(seen(end, members, caught_up=[each.id for each in members]))).steps:
        match plan.steps[0]:
            case AddLearner(name, url):
                members.append(Member(100 + int(name[-1]), name, url, learner=True))
            case Promote(id):
                members = [replace(each, learner=False) if each.id == id else each for each in members]
            case Remove(id):
                members = [each for each in members if each.id != id]
        steps += 1
        assert steps <= 10
    assert [each.name for each in members if not each.learner] == list(wanted(*range(end)))
