"""What this process saw begin, and what of it a step of the wall clock can move: nothing."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import NodeCondition
from kubewright.api.machine.v1alpha1 import LastOperation, Machine
from kubewright.base.clock import SteadyClock
from kubewright.kube.cache import Change
from kubewright.kube.header import Header
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.memory import Moments, as_seen
from kubewright.machines.machine.seen import Begun, Call, Verb
from kubewright.testing.clocks import BEGIN, ManualClock
from kubewright.testing.scenes import NOW, READY, SILENT, Case, machine, minutes, node, seen
from kubewright.wire.gvk import Key


def header(uid: str = "u1", *, deleting: bool = False) -> Header:
    return Header(Key("default", "m1"), uid, 1, 1, "", deleting, b"{}")


def change(old: Header | None, new: Header | None) -> Change[Machine]:
    return Change(Key("default", "m1"), old, new, lambda _header: Machine())


def test_a_steady_clock_passes_over_steps() -> None:
    hands = ManualClock()
    steady = SteadyClock(hands)
    began = steady.now()
    hands.passed, hands.ahead = 10, 3600
    assert steady.now() - began == timedelta(seconds=10)
    hands.passed, hands.ahead = 20, -3600
    assert steady.now() - began == timedelta(seconds=20)


@pytest.mark.parametrize(
    ("changes", "live", "field", "known"),
    [
        pytest.param([(None, header())], True, "created", True, id="a machine that comes is created now"),
        pytest.param([(None, header())], False, "created", False, id="one of a first list is older"),
        pytest.param(
            [(header("old"), header())], True, "created", True, id="one with the name of a deleted one is another"
        ),
        pytest.param([(header(), header(deleting=True))], True, "deleted", True, id="a deletion is seen"),
        pytest.param(
            [(header(deleting=True), header(deleting=True))], True, "deleted", False, id="but only its beginning"
        ),
        pytest.param([(None, header()), (header(), None)], True, "created", False, id="who is gone is forgotten"),
    ],
)  # fmt: skip
def test_what_is_heard(changes: list[Any], live: bool, field: str, known: bool) -> None:
    moments = Moments(SteadyClock(ManualClock()))
    for old, new in changes:
        moments.on_change(change(old, new), live=live)
    assert (getattr(moments.of(machine(), None), field) is not None) == known


def test_a_phase_is_as_old_as_its_first_sight() -> None:
    hands = ManualClock()
    moments = Moments(SteadyClock(hands))
    hands.passed = (NOW - BEGIN).total_seconds()
    assert moments.of(machine("Running"), node(READY)).phase_since is None, "it began before us"
    hands.passed, hands.ahead = hands.passed + 30, 3600
    begun = moments.of(machine("Unknown"), node(SILENT))
    assert begun.phase_since == begun.node_since["Ready"] == NOW + timedelta(seconds=30)
    hands.passed += 60
    assert moments.of(machine("Unknown"), node(SILENT)).phase_since == begun.phase_since


def test_a_selection_is_as_old_as_its_first_sight_whatever_its_date() -> None:
    hands = ManualClock()
    moments = Moments(SteadyClock(hands))
    began = moments.now()
    assert moments.of(machine("Running"), node(READY)).update_since is None
    hands.passed = 60
    told = NodeCondition(type="InPlaceUpdate", status="True", reason="SelectedForUpdate")
    behind = structs.replace(told, last_transition_time=began - minutes(11))
    assert moments.of(machine("Running"), node(READY, behind)).update_since == began + minutes(1)


def test_a_node_whose_kubelet_comes_and_goes_is_read_only_for_as_long_as_it_is() -> None:
    hands = ManualClock()
    moments = Moments(SteadyClock(hands))
    began = moments.now()
    read_only = NodeCondition(type="ReadonlyFilesystem", status="True", last_transition_time=began)
    for minute in range(6):
        hands.passed = 60 * minute
        found = node(SILENT if minute % 2 else READY, read_only)
        since = moments.of(machine("Running"), found).node_since
    dated = {each.type: each.last_transition_time for each in as_seen(found, since)}
    assert dated == {"Ready": began + minutes(5), "ReadonlyFilesystem": began}


HOUR = timedelta(hours=1)


def test_a_date_in_the_future_counts_as_now() -> None:
    """A manager whose clock was an hour ahead wrote it; else no machine would be unhealthy for the next hour."""
    hands = ManualClock()
    moments = Moments(SteadyClock(hands))
    moments.now()
    hands.passed = (NOW - BEGIN).total_seconds() + 5
    begun = moments.of(machine("Unknown", since=-HOUR), node(SILENT))
    assert begun.phase_since == NOW + timedelta(seconds=5)
    hands.passed += 60
    assert moments.of(machine("Unknown", since=-HOUR), node(SILENT)).phase_since == begun.phase_since


STEPPED = [
    Case(
        "a machine that we saw come is not too late because its date is of another clock",
        seen(machine(vm=False, age=HOUR), begun=Begun(created=NOW - minutes(1))),
        [Call(Verb.ENSURE)],
    ),
    Case(
        "nor is one given up that we saw fall ill a minute ago",
        seen(machine("Unknown", since=HOUR), begun=Begun(phase_since=NOW - minutes(1))),
        [],
    ),
    Case(
        "one that fell ill before our time is as ill as its date says",
        seen(machine("Unknown", since=HOUR)),
        [],
        "Failed",  # type: ignore[arg-type]
    ),
]


@pytest.mark.parametrize("case", STEPPED, ids=lambda case: case.name)
def test_dates_of_other_clocks(case: Case) -> None:
    plan = decide(case.seen)
    assert [*plan.steps] == case.steps
    assert (plan.report.phase.value if plan.report and plan.report.phase else None) == case.phase


def test_a_failure_is_as_old_as_its_first_sight_whatever_its_date() -> None:
    hands = ManualClock()
    moments = Moments(SteadyClock(hands))
    began = moments.now()
    waits = machine("Pending", operation=LastOperation(type="Create", state="Processing"))
    assert moments.of(waits, None).boot_since is None
    hands.passed = 60
    behind = LastOperation(type="Create", state="Failed", last_update_time=began - minutes(11))
    assert moments.of(machine("Pending", operation=behind), None).boot_since == began + minutes(1)
