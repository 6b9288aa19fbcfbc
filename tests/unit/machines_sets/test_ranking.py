"""Which machine a set deletes first: MCM's six criteria (SET-02), with a rank for each phase."""

from itertools import pairwise
from typing import Any

import pytest

from kubewright.api.machine.names import Phase
from kubewright.machines.machineset.member import MachineMember, ranking
from kubewright.wire.gvk import Key

NOW = 1_000_000.0
ORDER = (
    Phase.TERMINATING,
    Phase.FAILED,
    Phase.CRASH_LOOP_BACK_OFF,
    Phase.IN_PLACE_UPDATE_FAILED,
    Phase.UNKNOWN,
    Phase.NONE,
    Phase.PENDING,
    Phase.IN_PLACE_UPDATING,
    Phase.AVAILABLE,
    Phase.RUNNING,
)
"""From the phase that is worth least to that of a healthy node; ``InPlaceUpdateSuccessful`` is such a one, too."""


def machine(name: str, phase: Phase = Phase.RUNNING, **facts: Any) -> MachineMember:
    return MachineMember(Key("ns", name), name, "ms", {}, False, phase=phase, **facts)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(machine("b"), machine("a", preserved_until=NOW + 1), id="preserved machines go last"),
        pytest.param(
            machine("b", preserved_until=NOW - 1, priority=2),
            machine("a"),
            id="a preservation that has expired does not count",
        ),
        pytest.param(
            machine("b", preserved_until=NOW, priority=2),
            machine("a"),
            id="not even in the moment of its expiry",
        ),
        pytest.param(
            machine("b", preserved_until=NOW + 9, auto_preserved=True),
            machine("a", preserved_until=NOW + 1),
            id="of preserved ones those that we preserved ourselves go first",
        ),
        pytest.param(
            machine("b", preserved_until=NOW + 1),
            machine("a", preserved_until=NOW + 9),
            id="then those that expire earlier",
        ),
        pytest.param(
            machine("b", priority=1), machine("a", Phase.FAILED, priority=3), id="priority beats phase"
        ),
        pytest.param(
            machine("b", priority=1), machine("a", marked_at=1.0), id="priority beats a mark for deletion"
        ),
        pytest.param(
            machine("b", marked_at=9.0), machine("a", Phase.TERMINATING), id="marked for deletion beats phase"
        ),
        pytest.param(
            machine("b", marked_at=1.0), machine("a", marked_at=2.0), id="marked earlier goes first"
        ),
        *(
            pytest.param(
                machine("b", before),
                machine("a", after, created=-1.0),
                id=f"{before!r} goes before {after!r}",
            )
            for before, after in pairwise(ORDER)
        ),
        pytest.param(
            machine("b", Phase.FAILED),
            machine("a", Phase.IN_PLACE_UPDATE_SUCCESSFUL, created=-1.0),
            id="a failed machine goes before one that was just updated in place",
        ),
        pytest.param(
            machine("b", Phase.CRASH_LOOP_BACK_OFF),
            machine("a", Phase.NONE, created=-1.0),
            id="and one whose VM cannot be made before one that no driver has seen yet",
        ),
        pytest.param(
            machine("a", created=1.0),
            machine("b", Phase.IN_PLACE_UPDATE_SUCCESSFUL, created=2.0),
            id="an updated machine is worth as much as one that runs",
        ),
        pytest.param(machine("b", created=1.0), machine("a", created=2.0), id="older goes first"),
        pytest.param(machine("a"), machine("b"), id="names decide at last, so that all controllers agree"),
    ],
)
def test_the_ranking_of_machines(first: MachineMember, second: MachineMember) -> None:
    assert sorted([second, first], key=ranking(None, NOW)) == [first, second]


def test_each_phase_has_a_rank() -> None:
    assert sorted(Phase) == sorted([*ORDER, Phase.IN_PLACE_UPDATE_SUCCESSFUL])
    assert [machine("a", phase).stage for phase in ORDER] == list(range(len(ORDER)))
