"""Fills in the placeholders of a template: ``${name}`` in any text of a manifest. Pure.

Theory.      A manifest is parsed first and filled in text by text afterwards, so no value can change its
             structure. ``$(NAME)`` is Kubernetes' own form for variables of the environment, which are known
             when an instance starts; it is left for the host.
Invariants.  A placeholder without a value is an error of the template, which the tests of the sets find.
Called by    ``render``; ``hosting.processes`` expands ``$(NAME)``.
"""

import re
from collections.abc import Mapping
from typing import Any

from kubewright.base.errors import InvalidInput

LONGEST = 128 * 1024 - 1
"""The longest argument or variable that Linux hands to a program (``MAX_ARG_STRLEN``), without its end."""
_PLACEHOLDER = re.compile(r"\$\{([a-z_]+)\}")
_VARIABLE = re.compile(r"\$\(([A-Z_]+)\)")


def fill_in(value: Any, values: Mapping[str, str]) -> Any:
    """The manifest, or a part of it, with the values.

    Raises:
        InvalidInput: it names something that has no value.
    """
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: _value(found[1], values), value)
    if isinstance(value, Mapping):
        return {key: fill_in(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_in(item, values) for item in value]
    return value


def is_open(text: str) -> bool:
    """Whether a text has a placeholder of either form."""
    return bool(_PLACEHOLDER.search(text) or _VARIABLE.search(text))


def expand(text: str, environment: Mapping[str, str]) -> str:
    """A text with every ``$(NAME)`` replaced, as a kubelet does it: a name without a value stays as it is.

    Raises:
        InvalidInput: it would have more than ``LONGEST`` characters. Of variables that name those before
            them, each could be many times as long as the last.
    """
    size = len(text)
    for found in _VARIABLE.finditer(text):
        size += len(environment.get(found[1], found[0])) - len(found[0])
        if size > LONGEST:
            break
    if size > LONGEST:
        raise InvalidInput(
            f"args and env: one has more than {LONGEST} characters with its variables filled in"
        )
    return _VARIABLE.sub(lambda found: environment.get(found[1], found[0]), text)


def _value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise InvalidInput(f"the template needs a value for {name}, which there is not")
    return values[name]
