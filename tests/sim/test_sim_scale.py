"""Many machines, though few enough for a test: no rule is broken, and the table can be read."""

import re

from simulation.campaign import run_scale

MACHINES = 24


def test_machines_are_made_rolled_and_deleted_within_the_rules_and_counted() -> None:
    said: list[str] = []
    assert run_scale(MACHINES, 0, said.append) == ()
    rows = {row.split()[0]: [float(cell) for cell in row.split()[1:]] for row in said[2:]}
    assert [*rows] == ["create", "roll", "delete", "all"]
    columns = re.split(r"\s{2,}", said[1].strip())
    writes, vms = columns.index("API writes"), columns.index("VM calls")
    assert [rows[act][vms] for act in ("create", "roll", "delete")] == [1.0, 2.0, 1.0]
    assert all(rows[act][writes] < most for act, most in (("create", 8), ("roll", 14), ("delete", 6)))
