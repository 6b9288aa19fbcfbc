"""Which toy a set deletes first: Cluster API's priorities."""

from typing import Any

import pytest

from kubewright.wire.gvk import Key
from simulation.toys.kinds import ToySet, ToySetSpec
from simulation.toys.policy import DeletePolicy, ToyMember, priority, ranking

NOW = 1_000_000.0
DAY = 86_400.0


def toy(name: str, created: float = 0.0, *, deleting: bool = False, **facts: Any) -> ToyMember:
    """A toy that is ready."""
    return ToyMember(Key("ns", name), name, "ts", {}, deleting, created, ready_since=created, **facts)


def owned_by(policy: DeletePolicy) -> ToySet:
    """A set with this policy."""
    return ToySet(spec=ToySetSpec(delete_policy=policy.value))


@pytest.mark.parametrize(
    ("member", "policy", "expect"),
    [
        pytest.param(toy("m", deleting=True), DeletePolicy.RANDOM, 100, id="deleting already"),
        pytest.param(toy("m", marked=True, failed=True), DeletePolicy.OLDEST, 80, id="delete-machine"),
        pytest.param(toy("m", updating=True), DeletePolicy.NEWEST, 75, id="updating in place"),
        pytest.param(toy("m", failed=True), DeletePolicy.RANDOM, 50, id="unhealthy"),
        pytest.param(toy("m", NOW), DeletePolicy.RANDOM, 20, id="random: everything else alike"),
        pytest.param(toy("m", NOW - 10 * DAY), DeletePolicy.OLDEST, 31.606, id="oldest: after ten days"),
        pytest.param(toy("m", NOW - 10 * DAY), DeletePolicy.NEWEST, 18.394, id="newest: after ten days"),
        pytest.param(toy("m", NOW + 5), DeletePolicy.NEWEST, 0, id="from the future: must stay"),
        pytest.param(toy("m", NOW), DeletePolicy.NEWEST, 0, id="made at this moment: must stay"),
        pytest.param(toy("m", NOW - 0.5), DeletePolicy.NEWEST, 50, id="newest: half a second old"),
        pytest.param(toy("m", 0.5), DeletePolicy.OLDEST, 34.285, id="oldest: since the epoch's first second"),
        pytest.param(toy("m", 0.0), DeletePolicy.OLDEST, 0, id="without a creation time: must stay"),
    ],
)
def test_cluster_api(member: ToyMember, policy: DeletePolicy, expect: float) -> None:
    assert priority(member, policy, NOW) == pytest.approx(expect, abs=0.001)


@pytest.mark.parametrize(
    ("policy", "expect"),
    [(DeletePolicy.OLDEST, ["c", "b", "a"]), (DeletePolicy.NEWEST, ["a", "b", "c"])],
    ids=["oldest first", "newest first"],
)
def test_cluster_api_ranks_by_age_and_policy(policy: DeletePolicy, expect: list[str]) -> None:
    members = [toy("b", NOW - 5 * DAY), toy("a", NOW - DAY), toy("c", NOW - 9 * DAY)]
    assert [member.name for member in sorted(members, key=ranking(owned_by(policy), NOW))] == expect


def test_cluster_api_ties_are_broken_by_name() -> None:
    members = [toy("b"), toy("a"), toy("c", marked=True)]
    line = sorted(members, key=ranking(owned_by(DeletePolicy.RANDOM), NOW))
    assert [member.name for member in line] == ["c", "a", "b"]
