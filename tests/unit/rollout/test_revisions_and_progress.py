"""Revisions, rollback, history (DEP-11, DEP-12) and progress (DEP-13), of MCM and of Cluster API."""

from collections.abc import Callable

import pytest

from kubewright.rollout.model import Group, Rank
from kubewright.rollout.progress import Counts, LastReport, Progress, Timing, best_of, progress, seconds_left
from kubewright.rollout.revisions import (
    Revision,
    current_of,
    largest,
    next_revision,
    oldest,
    prunable,
    read_history,
    rollback_target,
    write_history,
)


def group(
    name: str,
    created: float,
    *,
    size: int = 0,
    revision: int = 0,
    terminating: int = 0,
    observed: bool = True,
) -> Group:
    return Group(name, created, size, revision=revision, terminating=terminating, observed=observed)


@pytest.mark.parametrize(
    ("choice", "expect"),
    [
        pytest.param(oldest, "a", id="MCM takes the oldest"),
        pytest.param(largest, "b", id="Cluster API the largest"),
    ],
)
def test_current_group(choice: Callable[[Group], Rank], expect: str) -> None:
    groups = [group("b", 2.0, size=5), group("a", 1.0)]
    assert current_of(groups, choice).name == expect


@pytest.mark.parametrize(
    ("now", "to", "expect"),
    [
        pytest.param(Revision(0), 1, Revision(1), id="the first number leaves no history"),
        pytest.param(Revision(1), 4, Revision(4, (1,)), id="a set that is current again remembers"),
        pytest.param(Revision(4, (1,)), 6, Revision(6, (1, 4)), id="and appends"),
        pytest.param(Revision(4, (1,)), 4, Revision(4, (1,)), id="a number never falls or repeats"),
    ],
)
def test_raising_a_revision(now: Revision, to: int, expect: Revision) -> None:
    assert now.raised(to) == expect


def test_history_survives_a_round_trip_and_rubbish() -> None:
    assert read_history("1,4,x,") == (1, 4)
    assert write_history((1, 4)) == "1,4"
    assert next_revision([group("a", 1.0, revision=3), group("b", 2.0, revision=7)]) == 8
    assert next_revision([]) == 1


GROUPS = [group("a", 1.0, revision=1), group("b", 2.0, revision=5), group("c", 3.0, revision=3)]


@pytest.mark.parametrize(
    ("revision", "expect"),
    [
        pytest.param(0, "c", id="zero is the one before the highest"),
        pytest.param(5, "b", id="a number means that revision"),
        pytest.param(4, None, id="an unknown number is nothing"),
    ],
)
def test_rollback(revision: int, expect: str | None) -> None:
    found = rollback_target(GROUPS, revision)
    assert (found.name if found else None) == expect


def test_rollback_needs_a_second_revision() -> None:
    assert rollback_target(GROUPS[:1], 0) is None
    assert rollback_target([group("unnumbered", 0.0), *GROUPS[:1]], 0) is None
    assert rollback_target(GROUPS[:2], 0) == GROUPS[0]


@pytest.mark.parametrize(
    ("limit", "expect"),
    [
        pytest.param(None, "", id="no limit keeps everything"),
        pytest.param(4, "", id="at the limit nothing is pruned"),
        pytest.param(2, "ab", id="the oldest are pruned first"),
        pytest.param(1, "ab", id="those with members or unseen changes stay"),
        pytest.param(0, "ab", id="and nothing else is pruned instead"),
    ],
)
def test_history_limit(limit: int | None, expect: str) -> None:
    old = [group("d", 4.0, observed=False), group("b", 2.0), group("a", 1.0), group("c", 3.0, terminating=1)]
    assert "".join(g.name for g in prunable(old, limit)) == expect


DONE = Counts(3, 3, 3, 3)
HALF = Counts(4, 2, 3, 3)


@pytest.mark.parametrize(
    ("before", "after", "report", "now", "expect"),
    [
        pytest.param(
            Counts(3, 3, 1, 1),
            Counts(3, 3, 2, 2),
            LastReport(0),
            999,
            Progress.PROGRESSING,
            id="all new, one more ready and available",
        ),
        pytest.param(
            Counts(3, 3, 2, 2),
            Counts(3, 3, 3, 2),
            LastReport(0, complete=True),
            999,
            Progress.WAITING,
            id="complete before: what comes back is no progress",
        ),
        pytest.param(
            Counts(4, 1, 3, 3),
            HALF,
            LastReport(0, complete=True),
            999,
            Progress.PROGRESSING,
            id="complete before, and a new template makes progress",
        ),
        pytest.param(
            HALF, DONE, LastReport(0), 1, Progress.COMPLETE, id="all new, all available, nothing old"
        ),
        pytest.param(
            Counts(4, 1, 3, 3), HALF, LastReport(0), 999, Progress.PROGRESSING, id="one more updated"
        ),
        pytest.param(Counts(5, 2, 3, 3), HALF, LastReport(0), 999, Progress.PROGRESSING, id="one old less"),
        pytest.param(Counts(4, 2, 2, 3), HALF, LastReport(0), 999, Progress.PROGRESSING, id="one more ready"),
        pytest.param(
            Counts(4, 2, 3, 2), HALF, LastReport(0), 999, Progress.PROGRESSING, id="one more available"
        ),
        pytest.param(HALF, HALF, LastReport(0), 60, Progress.WAITING, id="within the deadline"),
        pytest.param(HALF, HALF, LastReport(0), 61, Progress.TIMED_OUT, id="after the deadline"),
        pytest.param(HALF, HALF, None, 999, Progress.WAITING, id="nothing reported yet"),
        pytest.param(
            DONE,
            Counts(3, 3, 2, 2),
            LastReport(0, complete=True),
            999,
            Progress.WAITING,
            id="complete, later a failure",
        ),
    ],
)
def test_progress(
    before: Counts, after: Counts, report: LastReport | None, now: float, expect: Progress
) -> None:
    assert progress(before, after, 3, report, Timing(now, 60)) is expect


def test_without_a_deadline_a_rollout_waits_for_ever() -> None:
    assert progress(HALF, HALF, 3, LastReport(0), Timing(999_999, None)) is Progress.WAITING


@pytest.mark.parametrize(
    ("one", "other", "best"),
    [
        pytest.param(Counts(5, 2, 4, 3), Counts(4, 1, 3, 2), Counts(5, 2, 4, 3), id="the first is best"),
        pytest.param(Counts(4, 1, 3, 2), Counts(5, 2, 4, 3), Counts(5, 2, 4, 3), id="the second is best"),
        pytest.param(Counts(6, 2, 4, 1), Counts(5, 3, 2, 3), Counts(5, 3, 4, 3), id="each number by itself"),
    ],
)
def test_the_best_of_two_reports(one: Counts, other: Counts, best: Counts) -> None:
    assert best_of(one, other) == best


@pytest.mark.parametrize(
    ("report", "deadline", "expect"),
    [
        pytest.param(LastReport(10), 60, 51.0, id="just after the deadline"),
        pytest.param(LastReport(10), None, None, id="no deadline"),
        pytest.param(LastReport(-100), 60, None, id="already over"),
        pytest.param(LastReport(-40), 60, 1.0, id="over in this very second"),
        pytest.param(LastReport(10, complete=True), 60, None, id="complete"),
        pytest.param(None, 60, None, id="nothing reported"),
    ],
)
def test_when_to_look_again(report: LastReport | None, deadline: int | None, expect: float | None) -> None:
    assert seconds_left(report, Timing(20.0, deadline)) == expect
