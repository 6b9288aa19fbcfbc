"""Who dies first: MCM's six criteria (mcm.md §6.5) and Cluster API's priorities (capi.md §7.5)."""

import pytest

from kubewright.rollout.order import (
    CapiFacts,
    DeletePolicy,
    McmFacts,
    capi_priority,
    capi_ranking,
    in_line,
    mcm_ranking,
)

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(McmFacts("b"), McmFacts("a", preserved_until=NOW + 1), id="preserved machines die last"),
        pytest.param(
            McmFacts("b", preserved_until=NOW - 1, priority=2),
            McmFacts("a"),
            id="a preservation that has expired does not count",
        ),
        pytest.param(
            McmFacts("b", preserved_until=NOW + 9, auto_preserved=True),
            McmFacts("a", preserved_until=NOW + 1),
            id="of preserved ones those that we preserved ourselves go first",
        ),
        pytest.param(
            McmFacts("b", preserved_until=NOW + 1),
            McmFacts("a", preserved_until=NOW + 9),
            id="then those that expire earlier",
        ),
        pytest.param(
            McmFacts("b", priority=1), McmFacts("a", priority=3, stage=1), id="priority beats phase"
        ),
        pytest.param(
            McmFacts("b", priority=1), McmFacts("a", marked_at=1.0), id="priority beats a mark for deletion"
        ),
        pytest.param(
            McmFacts("b", marked_at=9.0), McmFacts("a", stage=0), id="marked for deletion beats phase"
        ),
        pytest.param(
            McmFacts("b", marked_at=1.0), McmFacts("a", marked_at=2.0), id="marked earlier goes first"
        ),
        *(
            pytest.param(
                McmFacts("b", stage=n), McmFacts("a", stage=n + 1, created=-1.0), id=f"phase {n} < {n + 1}"
            )
            for n in range(6)
        ),
        pytest.param(McmFacts("b", created=1.0), McmFacts("a", created=2.0), id="older goes first"),
        pytest.param(McmFacts("a"), McmFacts("b"), id="names decide at last, so that everybody agrees"),
    ],
)
def test_mcm(first: McmFacts, second: McmFacts) -> None:
    assert in_line([second, first], mcm_ranking(NOW)) == [first, second]


DAY = 86_400.0


@pytest.mark.parametrize(
    ("member", "policy", "expect"),
    [
        pytest.param(CapiFacts("m", deleting=True), DeletePolicy.RANDOM, 100, id="deleting already"),
        pytest.param(
            CapiFacts("m", marked=True, healthy=False), DeletePolicy.OLDEST, 80, id="delete-machine"
        ),
        pytest.param(CapiFacts("m", updating=True), DeletePolicy.NEWEST, 75, id="updating in place"),
        pytest.param(CapiFacts("m", healthy=False), DeletePolicy.RANDOM, 50, id="unhealthy"),
        pytest.param(CapiFacts("m", NOW), DeletePolicy.RANDOM, 20, id="random: everything else alike"),
        pytest.param(
            CapiFacts("m", NOW - 10 * DAY), DeletePolicy.OLDEST, 31.606, id="oldest: after ten days"
        ),
        pytest.param(
            CapiFacts("m", NOW - 10 * DAY), DeletePolicy.NEWEST, 18.394, id="newest: after ten days"
        ),
        pytest.param(CapiFacts("m", NOW + 5), DeletePolicy.NEWEST, 0, id="from the future: must stay"),
        pytest.param(CapiFacts("m", NOW), DeletePolicy.NEWEST, 0, id="made at this moment: must stay"),
        pytest.param(CapiFacts("m", NOW - 0.5), DeletePolicy.NEWEST, 50, id="newest: half a second old"),
        pytest.param(
            CapiFacts("m", 0.5), DeletePolicy.OLDEST, 34.285, id="oldest: since the epoch's first second"
        ),
        pytest.param(CapiFacts("m", 0.0), DeletePolicy.OLDEST, 0, id="without a creation time: must stay"),
    ],
)
def test_cluster_api(member: CapiFacts, policy: DeletePolicy, expect: float) -> None:
    assert capi_priority(member, policy, NOW) == pytest.approx(expect, abs=0.001)


@pytest.mark.parametrize(
    ("policy", "expect"),
    [(DeletePolicy.OLDEST, ["c", "b", "a"]), (DeletePolicy.NEWEST, ["a", "b", "c"])],
    ids=["oldest first", "newest first"],
)
def test_cluster_api_ranks_by_age_and_policy(policy: DeletePolicy, expect: list[str]) -> None:
    members = [CapiFacts("b", NOW - 5 * DAY), CapiFacts("a", NOW - DAY), CapiFacts("c", NOW - 9 * DAY)]
    assert [member.name for member in in_line(members, capi_ranking(policy, NOW))] == expect


def test_cluster_api_ties_are_broken_by_name() -> None:
    line = in_line(
        [CapiFacts("b"), CapiFacts("a"), CapiFacts("c", marked=True)], capi_ranking(DeletePolicy.RANDOM, NOW)
    )
    assert [member.name for member in line] == ["c", "a", "b"]
