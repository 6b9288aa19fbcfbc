"""What ``names.PRESERVE_ANNOTATION`` may ask for, and what the node condition ``Preserved`` says.

Invariants.  As in ``names``: values are a contract with others, and the reader never raises.
Source       mcm.md §2.2, §2.5, §4.12.
"""

from enum import StrEnum


class Preserve(StrEnum):
    """What ``names.PRESERVE_ANNOTATION`` asks for (mcm.md §4.12)."""

    NOW = "now"
    WHEN_FAILED = "when-failed"
    AUTO = "auto-preserved"
    """Written by the set's controller: a Failed machine is kept that no user asked to keep."""
    FALSE = "false"


class PreservedReason(StrEnum):
    """Reasons of the node condition ``Preserved``."""

    BY_US = "Preserved by MCM."
    BY_USER = "Preserved by user."
    STOPPED = "Preservation stopped."


def parse_preserve(value: str) -> Preserve | None:
    """What a preserve annotation asks for; None when it is empty or cannot be read."""
    return Preserve(value) if value in set(Preserve) else None
