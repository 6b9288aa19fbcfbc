"""A function that remembers: short texts are judged once; long ones each time, and none of these is kept."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubewright.apiserver.registry import custom
from kubewright.apiserver.schema.structural import Structural
from kubewright.base.limits import REMEMBERED_CHARS, remembered
from kubewright.builtin.scheduling.facts import amount
from kubewright.wire.gvk import plural_of

MEGABYTE = 1_000_000
DATES = Structural({"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}})


def test_a_short_text_is_judged_once_and_the_oldest_is_forgotten() -> None:
    judged: list[str] = []

    @remembered(2)
    def shout(text: str) -> str:
        judged.append(text)
        return text.upper()

    assert [shout(each) for each in ("a", "a", "b", "c", "a")] == ["A", "A", "B", "C", "A"]
    assert judged == ["a", "b", "c", "a"]
    longest, too_long = "x" * REMEMBERED_CHARS, "x" * (REMEMBERED_CHARS + 1)
    assert [shout(each)[0] for each in (longest, longest, too_long, too_long)] == ["X"] * 4
    assert judged[4:] == [longest, too_long, too_long]


ASKED: dict[str, Callable[[str], Any]] = {
    "a date": lambda text: DATES.validate({"at": text}),
    "a quantity": amount,
    "a JSON path": lambda text: custom.parse(f".{text}"),
    "a name of a kind": plural_of,
}


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_long_texts_of_users_do_not_stay_in_memory(ask: Callable[[str], Any]) -> None:
    before, _ = tracemalloc.get_traced_memory()
    for number in range(10):
        ask("x" * MEGABYTE + str(number))
    after, _ = tracemalloc.get_traced_memory()
    assert after - before < MEGABYTE
