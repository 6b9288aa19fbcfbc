"""Fills in what a template leaves open: ``${name}`` in any text of a manifest. Pure.

Theory.      A manifest is parsed first and filled in then, text by text, so that no value can change its
             structure. ``$(NAME)`` is Kubernetes' own form, for what is known when an instance starts; it
             stays.
Invariants.  A name without a value is an error of the template, found by the tests of the sets.
Called by    ``render``.
"""

import re
from collections.abc import Mapping
from typing import Any

from kubewright.base.errors import InvalidInput

_OPEN = re.compile(r"\$\{([a-z_]+)\}")
_AT_START = re.compile(r"\$\(([A-Z_]+)\)")


def fill_in(value: Any, values: Mapping[str, str]) -> Any:
    """The manifest, or a part of it, with the values.

    Raises:
        InvalidInput: it names something that has no value.
    """
    if isinstance(value, str):
        return _OPEN.sub(lambda found: _value(found[1], values), value)
    if isinstance(value, Mapping):
        return {key: fill_in(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_in(item, values) for item in value]
    return value


def is_open(text: str) -> bool:
    """Whether a text of a template leaves something open, now or until the start."""
    return bool(_OPEN.search(text) or _AT_START.search(text))


def expand(text: str, environment: Mapping[str, str]) -> str:
    """A text with its ``$(NAME)``, as a kubelet expands it: a name without a value stays."""
    return _AT_START.sub(lambda found: environment.get(found[1], found[0]), text)


def _value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise InvalidInput(f"the template needs a value for {name}, which there is not")
    return values[name]
