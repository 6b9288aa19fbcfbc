"""A Lease as a value: what taking and releasing it writes, and from when a candidate may take it."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.core import Lease, LeaseSpec
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput
from kubewright.runtime.lease import Seen, Timings, claimed, released

T0 = datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
T1 = T0 + timedelta(seconds=10)


def lease(holder: str | None, duration: int | None = 15, version: str = "1") -> Lease:
    return Lease(
        metadata=ObjectMeta(name="l", namespace="n", uid="u", resource_version=version),
        spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=duration),
    )


def held(holder: str, transitions: int | None) -> Lease:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=15,
        acquire_time=T0,
        renew_time=T0,
        lease_transitions=transitions,
    )
    return Lease(metadata=ObjectMeta(name="l"), spec=spec)


@pytest.mark.parametrize(
    ("old", "acquired", "transitions"),
    [
        pytest.param(None, T1, 0, id="a new Lease has not changed hands"),
        pytest.param(held("me", 3), T0, 3, id="a renewal keeps the time of the claim"),
        pytest.param(held("another", 3), T1, 4, id="a claim counts"),
        pytest.param(held("another", None), T1, 1, id="a claim counts from zero"),
        pytest.param(held("", 3), T1, 4, id="so does the claim of a released one"),
    ],
)
def test_what_a_claim_writes(old: Lease | None, acquired: datetime, transitions: int) -> None:
    assert claimed(old, "me", 14.2, T1) == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time=acquired,
        renew_time=T1,
        lease_transitions=transitions,
    )


def test_what_a_release_writes() -> None:
    assert released(held("me", 3), T1) == LeaseSpec(
        holder_identity="", lease_duration_seconds=1, acquire_time=T0, renew_time=T1, lease_transitions=3
    )


@pytest.mark.parametrize(
    ("seen", "guard"),
    [
        pytest.param(None, 0.0, id="there is none: at once"),
        pytest.param(lease("me"), 0.0, id="it is ours: at once"),
        pytest.param(lease("", 1), 0.0, id="its holder released it: at once"),
        pytest.param(lease("", None), 0.0, id="it never had a holder: at once"),
        pytest.param(lease("another"), 15.0, id="another holds it: after its duration"),
        pytest.param(lease("another", 1), 1.0, id="another holds it for a second: after that"),
        pytest.param(lease("another", None), 0.0, id="another holds it for no time at all: at once"),
        pytest.param(lease(None), 15.0, id="a user cleared the holder: after its duration"),
    ],
)
def test_when_a_lease_may_be_taken(seen: Lease | None, guard: float) -> None:
    first = Seen.first(seen, 100.0, "me")
    assert first == Seen(seen, 100.0, guard)
    assert first.free_at == 100.0 + guard


ANOTHERS = Seen(lease("another"), 100.0, 15.0)


@pytest.mark.parametrize(
    ("before", "read", "after"),
    [
        pytest.param(ANOTHERS, lease("another"), ANOTHERS, id="unchanged: it is as old as before"),
        pytest.param(
            ANOTHERS,
            lease("another", version="2"),
            Seen(lease("another", version="2"), 107.0, 15.0),
            id="written: its time begins anew",
        ),
        pytest.param(ANOTHERS, None, Seen(None, 107.0, 15.0), id="deleted: its holder may not know yet"),
        pytest.param(
            Seen(None, 100.0, 15.0), None, Seen(None, 100.0, 15.0), id="still deleted: as old as before"
        ),
        pytest.param(
            Seen(None, 100.0, 15.0),
            lease("another", 20),
            Seen(lease("another", 20), 107.0, 20.0),
            id="there is one again",
        ),
    ],
)
def test_what_the_next_read_changes(before: Seen, read: Lease | None, after: Seen) -> None:
    assert before.then(read, 107.0, "me") == after


def test_timings_of_less_than_a_second_are_allowed() -> None:
    assert Timings(3.0, 2.0, 0.5).exclusive == 2.0


def test_a_lease_is_exclusive_no_longer_than_the_candidate_that_waits_least_waits() -> None:
    assert Timings(60.0, 40.0, 10.0).exclusive == 14.0


@pytest.mark.parametrize(
    ("timings", "period"),
    [
        pytest.param(Timings(30.0, 20.0, 10.0), 10.0, id="as the flag says"),
        pytest.param(Timings(30.0, 20.0, 12.0), 12.0, id="as our default says"),
        pytest.param(Timings(60.0, 40.0, 20.0), 12.0, id="sooner than a flag by which writes would pause"),
        pytest.param(Timings(3.0, 2.0, 0.5), 0.5, id="quick"),
    ],
)
def test_how_often_a_leader_renews(timings: Timings, period: float) -> None:
    assert timings.renew_period == period


@pytest.mark.parametrize("numbers", [(10, 10, 2), (15, 10, 10), (15, 10, 0)])
def test_timings_that_leave_no_room_are_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidInput) as refused:
        Timings(*numbers)
    assert str(refused.value) == (
        "leader election needs lease duration > renew deadline > retry period > 0, not "
        f"{numbers[0]} s, {numbers[1]} s and {numbers[2]} s"
    )
