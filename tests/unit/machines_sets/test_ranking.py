"""Which machine a set deletes first: MCM's six criteria (mcm.md §6.5)."""

from typing import Any

import pytest

from kubewright.machines.machineset.member import STAGE, MachineMember, ranking
from kubewright.wire.gvk import Key

NOW = 1_000_000.0
PHASE = {number: phase for phase, number in STAGE.items()}


def machine(name: str, *, stage: int = 6, **facts: Any) -> MachineMember:
    """A machine in the phase of this rank."""
    return MachineMember(Key("ns", name), name, "ms", {}, False, phase=PHASE[stage], **facts)


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
        pytest.param(machine("b", priority=1), machine("a", priority=3, stage=1), id="priority beats phase"),
        pytest.param(
            machine("b", priority=1), machine("a", marked_at=1.0), id="priority beats a mark for deletion"
        ),
        pytest.param(
            machine("b", marked_at=9.0), machine("a", stage=0), id="marked for deletion beats phase"
        ),
        pytest.param(
            machine("b", marked_at=1.0), machine("a", marked_at=2.0), id="marked earlier goes first"
        ),
        *(
            pytest.param(
                machine("b", stage=n), machine("a", stage=n + 1, created=-1.0), id=f"phase {n} < {n + 1}"
            )
            for n in range(6)
        ),
        pytest.param(machine("b", created=1.0), machine("a", created=2.0), id="older goes first"),
        pytest.param(machine("a"), machine("b"), id="names decide at last, so that all controllers agree"),
    ],
)
def test_the_ranking_of_machines(first: MachineMember, second: MachineMember) -> None:
    assert sorted([second, first], key=ranking(None, NOW)) == [first, second]
