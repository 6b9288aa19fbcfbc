"""A program that ends in the middle of its work: before or after one of its calls of the system."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest


class Cut(Exception):
    """The program ends here."""


@contextmanager
def cut_short(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, number: int, when: str
) -> Iterator[None]:
    """What runs inside ends ``before`` or ``after`` call ``number`` of ``where.name``, if it comes so far."""
    real, calls = getattr(where, name), []

    def cut(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        last = len(calls) - 1 == number
        if last and when == "before":
            raise Cut
        answer = real(*arguments, **options)
        if last:
            raise Cut
        return answer

    with monkeypatch.context() as patched, suppress(Cut):
        patched.setattr(where, name, cut)
        yield
