"""What is wrong with an object, field by field, in kube-apiserver's words.

Theory.      The rules of an API that its schema cannot say are pure functions from an object to the rules
             that it breaks. A broken rule is a value: the field's path, what is wrong with it, and a
             sentence. It reads as kube-apiserver writes it (``spec.port: Invalid value: -1: is too small``),
             whether it ends up in a refusal of a webhook, in a condition or in an event.
Called by    ``validate`` of every API of ours.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from kubewright.base.durations import parse_duration


class Fault(StrEnum):
    """What is wrong with a field, as kube-apiserver says it."""

    REQUIRED = "Required value"
    INVALID = "Invalid value"
    FORBIDDEN = "Forbidden"

    @property
    def reason(self) -> str:
        """The reason of the cause in a Status: ``FieldValueRequired`` and so on."""
        return f"FieldValue{self.partition(' ')[0]}"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One broken rule. ``value`` is shown for invalid values only."""

    path: str
    message: str
    fault: Fault = Fault.REQUIRED
    value: object = None

    @property
    def explanation(self) -> str:
        """What stands behind the path: the fault, the value and the sentence."""
        shown = f": {_quoted(self.value)}" if self.fault is Fault.INVALID else ""
        return f"{self.fault}{shown}: {self.message}"

    @property
    def cause(self) -> Mapping[str, str]:
        """The entry among the causes of a Status."""
        return {"reason": self.fault.reason, "message": self.explanation, "field": self.path}

    def __str__(self) -> str:
        return f"{self.path}: {self.explanation}"


Errors = Iterator[FieldError]


def summary(errors: Iterable[FieldError]) -> str:
    """All errors in one line, for an event or a condition; empty when there is none."""
    return "; ".join(str(error) for error in errors)


def duration_problem(text: str) -> str:
    """What is wrong with a duration that must not be negative; empty for nothing."""
    try:
        return "must not be negative" if parse_duration(text).days < 0 else ""
    except ValueError:
        return "must be a duration like 90s, 20m or 1h30m"


def _quoted(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
