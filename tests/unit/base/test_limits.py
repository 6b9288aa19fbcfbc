"""Numbers that users write, however long they are."""

import pytest

from kubewright.base.limits import MOST_NUMBER, number_of
from kubewright.builtin.disruption import portion
from kubewright.clusters.machineset.around import parse_version
from kubewright.machines.settings import parsed_limit
from kubewright.rollout.model import resolve
from kubewright.rollout.revisions import read_history
from kubewright.wire.gvk import rank

LONG = "9" * 5_000
"""More digits than ``int`` takes."""


@pytest.mark.parametrize(
    ("digits", "number"),
    [
        ("0", 0),
        ("0" * 5_000 + "7", 7),
        ("9" * 18, 10**18 - 1),
        ("1" + "0" * 18, MOST_NUMBER),
        (LONG, MOST_NUMBER),
    ],
)
def test_a_number_is_read_up_to_the_largest(digits: str, number: int) -> None:
    assert number_of(digits) == number


@pytest.mark.parametrize("text", ["", "-1", "1_0", "²", "x"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no whole number"):
        number_of(text)


def test_a_long_number_in_a_field_or_an_annotation_is_like_any_that_is_too_large() -> None:
    for text in (LONG, f"{LONG}%"):
        with pytest.raises(ValueError, match=r"neither a whole number|no whole number between"):
            parsed_limit(text)
    with pytest.raises(ValueError, match="neither a whole number"):
        resolve(f"{LONG}%", 3, up=True)
    assert read_history(f"1, 2,{LONG},²") == (1, 2, MOST_NUMBER)
    assert portion(f"{LONG}%", 10) == MOST_NUMBER // 10
    assert parse_version(f"v1.{LONG}.0") == (1, MOST_NUMBER, 0)
    assert rank(f"v{LONG}") < rank("v2")
