"""What a running program was told to do, as plain values: ``/configz``.

Invariants.  Driver options are shown by name only, because a driver may take a credential there. Everything
             else is what users typed or its default, and nothing secret.
Source       RES-22.
Called by    ``on_kubernetes``, which serves it.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from kubewright.base.durations import format_duration
from kubewright.compose.options import Election, Options

NAME = "kubewright"
HIDDEN = "<hidden>"


def configuration(options: Options, election: Election) -> Mapping[str, Any]:
    """Names as in ``Options`` and ``Election``; durations as Go writes them."""
    shown = plain(options)
    shown["driver_options"] = dict.fromkeys(sorted(options.driver_options), HIDDEN)
    return {NAME: {**shown, "election": plain(election)}}


def plain(value: Any) -> Any:
    """A value of the options as JSON has it."""
    match value:
        case timedelta():
            return format_duration(value)
        case Enum():
            return value.value
        case Path():
            return str(value)
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}
        case tuple() | list() | frozenset():
            return [plain(each) for each in value]
        case _ if is_dataclass(value):
            return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value
