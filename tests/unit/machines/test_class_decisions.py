"""Whether a class or a secret holds our finalizer."""

from typing import Any

import pytest

from kubewright.machines.machineclass.reconciler import finalizers

OURS, THEIRS = "ours", "theirs"
CASES: list[tuple[str, list[str], dict[str, bool], list[str] | None]] = [
    ("used and without it: it is put on", [THEIRS], {"used": True}, [THEIRS, OURS]),
    ("used and with it: it stays", [OURS], {"used": True}, None),
    ("used and going: it stays", [OURS], {"used": True, "deleting": True}, None),
    ("used, going and without it: too late", [], {"used": True, "deleting": True}, None),
    ("unused and going: it goes, others stay", [OURS, THEIRS], {"deleting": True}, [THEIRS]),
    ("unused for now: it lingers", [OURS], {}, None),
    ("unused, and of a kind that does not linger: it goes", [OURS], {"lingers": False}, []),
    ("unused and without it", [THEIRS], {"lingers": False}, None),
]


@pytest.mark.parametrize(
    ("present", "situation", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_finalizers(present: list[str], situation: dict[str, Any], expected: list[str] | None) -> None:
    defaults = {"used": False, "deleting": False, "lingers": True}
    assert finalizers(present, OURS, **{**defaults, **situation}) == expected
