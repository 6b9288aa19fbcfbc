"""VMs that no object wants: when a suspicion is confirmed, which deletions a pass tries, and what is remembered."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from kubewright.driver.contract import Instance
from kubewright.driver.life.orphans import OrphanSettings, SuspectUpdate, Try, due, update_suspects
from kubewright.orphans import Noted, Suspects
from kubewright.testing.clocks import ManualClock
from kubewright.wire.gvk import Key

SMALL, LARGE = Key("ns", "small"), Key("ns", "large")
SETTINGS = OrphanSettings(at_once=2)
SOON, CONFIRMATION = 60.0, 300.0


def vm(number: int) -> Instance:
    return Instance(f"sim:///here/vm-{number}", f"n{number}", f"m{number}", f"u{number}")


ONE, TWO, THREE, FOUR = ALL = [vm(number) for number in range(1, 5)]


def seen_at(began: float, since: dict[str, float], *listed: Instance, took: float = 0.0) -> SuspectUpdate:
    return update_suspects(listed, since, began=began, ended=began + took, confirmation=CONFIRMATION)


def test_one_list_confirms_nothing() -> None:
    first = seen_at(1000, {}, ONE, took=5)
    assert first == SuspectUpdate({ONE.provider_id: 1005}, (), 300)


def test_a_second_one_too_early_changes_nothing() -> None:
    again = seen_at(1100, {ONE.provider_id: 1005}, ONE, took=5)
    assert again == SuspectUpdate({ONE.provider_id: 1005}, (), 200)


def test_a_slow_list_is_no_second_list() -> None:
    """What a list shows may be as old as the question."""
    slow = seen_at(1290, {ONE.provider_id: 1005}, ONE, took=100)
    assert (slow.confirmed, slow.wake) == ((), 0.0)


def test_the_second_one_confirms() -> None:
    again = seen_at(1305, {ONE.provider_id: 1005}, ONE)
    assert (again.confirmed, again.wake) == ((ONE,), None)


def test_a_vm_that_is_wanted_or_gone_in_between_begins_anew() -> None:
    assert not seen_at(1305, {ONE.provider_id: 1005.0}).suspects


def test_the_oldest_suspicion_goes_first() -> None:
    assert seen_at(1000, {ONE.provider_id: 10.0, TWO.provider_id: 20.0}, TWO, ONE).confirmed == (ONE, TWO)


@pytest.mark.parametrize(
    ("tries", "expected"),
    [
        pytest.param({}, [1, 2], id="at first the oldest suspicions"),
        pytest.param({1: Try(10, 10), 2: Try(10, 10)}, [3, 4], id="then those that were not tried yet"),
        pytest.param(
            {1: Try(30, 30), 2: Try(10, 10), 3: Try(20, 20), 4: Try(40, 40)},
            [2, 3],
            id="then those whose last try is the longest ago",
        ),
        pytest.param(
            {1: Try(10, 700), 2: Try(10, 700), 3: Try(10, 101), 4: Try(10, 100)},
            [4],
            id="none before the pause of its error is over",
        ),
    ],
)
def test_which_vms_a_pass_tries_to_delete(tries: dict[int, Try], expected: list[int]) -> None:
    last = {vm(number).provider_id: tried for number, tried in tries.items()}
    assert due(ALL, last, now=100, at_once=2) == [vm(number) for number in expected]


class Site:
    """Suspects on a clock, and what each deletion comes to: None, or the pause after it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.suspects = Suspects(SETTINGS, self.clock)
        self.pauses: dict[str, float] = {}
        self.tried: list[Instance] = []

    def note(self, *unwanted: Instance, key: Key = SMALL) -> Noted:
        return self.suspects.note(key, unwanted, began=self.clock.monotonic())

    def confirmed(self, *unwanted: Instance, key: Key = SMALL) -> Noted:
        self.note(*unwanted, key=key)
        self.clock.passed += CONFIRMATION
        return self.note(*unwanted, key=key)

    async def pass_over(self, noted: Noted) -> tuple[list[Instance], float | None]:
        self.tried = []
        wake = await self.suspects.collect(SMALL, noted, self._collect)
        return self.tried, wake

    async def _collect(self, found: Instance) -> timedelta | None:
        self.tried.append(found)
        pause = self.pauses.get(found.provider_id)
        return None if pause is None else timedelta(seconds=pause)


async def test_what_is_gone_needs_no_further_pass() -> None:
    site = Site()
    assert await site.pass_over(site.confirmed(ONE, TWO)) == ([ONE, TWO], None)


async def test_more_than_a_pass_tries_are_tried_in_the_next_one() -> None:
    site = Site()
    noted = site.confirmed(*ALL)
    assert await site.pass_over(noted) == ([ONE, TWO], SOON)
    site.clock.passed += SOON
    assert await site.pass_over(site.note(THREE, FOUR)) == ([THREE, FOUR], None)


async def test_vms_that_cannot_go_hold_up_no_other_and_are_tried_after_their_pause() -> None:
    site = Site()
    site.pauses = {ONE.provider_id: 600, TWO.provider_id: 600}
    site.confirmed(ONE, TWO, THREE)
    assert await site.pass_over(site.note(ONE, TWO, THREE)) == ([ONE, TWO], SOON)
    site.clock.passed += SOON
    assert await site.pass_over(site.note(ONE, TWO, THREE)) == ([THREE], 600 - SOON)
    site.clock.passed += 600 - SOON
    assert await site.pass_over(site.note(ONE, TWO)) == ([ONE, TWO], 600)


async def test_a_deletion_that_goes_on_is_looked_at_soon() -> None:
    site = Site()
    site.pauses = {ONE.provider_id: 0}
    assert await site.pass_over(site.confirmed(ONE)) == ([ONE], SOON)


async def test_a_suspicion_that_is_not_confirmed_wakes_when_it_can_be() -> None:
    site = Site()
    site.note(ONE)
    site.clock.passed += 100
    assert await site.pass_over(site.note(ONE, TWO)) == ([], 200)


async def test_a_vm_that_was_wanted_meanwhile_is_tried_as_if_never_before() -> None:
    site = Site()
    site.pauses = {ONE.provider_id: 6000}
    await site.pass_over(site.confirmed(ONE))
    site.note()
    assert (await site.pass_over(site.confirmed(ONE)))[0] == [ONE]


FORGOTTEN: list[Callable[[Site], object]] = [
    lambda site: site.note().cleared,
    lambda site: site.suspects.forget(SMALL),
]


@pytest.mark.parametrize("end", FORGOTTEN, ids=["no list shows it so", "its class is gone"])
def test_a_vm_is_cleared_when_it_is_suspect_for_no_class_any_more(end: Callable[[Site], object]) -> None:
    site = Site()
    site.note(ONE, TWO)
    site.note(TWO, key=LARGE)
    assert end(site) == {ONE.provider_id}
    assert dict(site.suspects.counts()).get(SMALL, 0) == 0
    assert dict(site.suspects.counts())[LARGE] == 1


def test_only_what_was_no_suspect_before_is_new() -> None:
    site = Site()
    assert site.note(TWO, ONE).new == [ONE.provider_id, TWO.provider_id]
    assert site.note(ONE, THREE).new == [THREE.provider_id]
