"""YAML as machines read it: any value, so that parsing the text gives the value again.

Theory.      cloud-init runs user data through Jinja before it parses the YAML, so ``{{ ds.meta_data.x }}`` in
             a file or a command must stand in the text as it was given: quotes would escape characters
             in it. So text of several lines, and text with a Jinja mark, is written as a literal block,
             in which nothing is escaped. All other text is written plain or quoted, as it needs.
             libyaml, which is ten times as fast, quotes some text that should be such a block, a line that
             ends with a space for one: a value with such text is left to PyYAML's own emitter.
Invariants.  Keys keep their order; nothing is folded, since a line break inside of Jinja would matter.
Called by    ``cloudinit``, ``documents``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

_UNBROKEN = 2**31 - 1
_JINJA = re.compile(r"\{[{%#]")
_BREAKS = str.maketrans("", "", "\n\t")
_EASY = re.compile(r"(?:[\x21-\x7e\n]| (?!\n|\Z))*")
"""Text that libyaml writes as a literal block when it is asked to."""


class _Hard(Exception):
    """The value has text that libyaml would quote."""


class _Fast(yaml.CSafeDumper):
    """libyaml's."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Slow(yaml.SafeDumper):
    """PyYAML's, which would quote a literal block with a tab or a space at the end of a line in it."""

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        if _literal(scalar):
            analysis.allow_block = True
        return analysis

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _literal(text: str) -> bool:
    """Whether the text may and should stand as it is in a block of its own lines."""
    if "\n" not in text and not _JINJA.search(text):
        return False
    written = text.translate(_BREAKS).isprintable()
    return written and bool(text.strip()) and text[0] not in "\n\t "


def _text(dumper: _Fast | _Slow, text: str) -> yaml.ScalarNode:
    style = "|" if _literal(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _easy_text(dumper: _Fast, text: str) -> yaml.ScalarNode:
    if _literal(text) and not _EASY.fullmatch(text):
        raise _Hard
    return _text(dumper, text)


_Slow.add_representer(str, _text)
_Fast.add_representer(str, _easy_text)


def dumped(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """The value as one YAML document, without a ``---``."""
    try:
        return _dumped(value, _Fast)
    except _Hard:
        return _dumped(value, _Slow)


def _dumped(value: Mapping[str, Any] | Sequence[Any], dumper: type[_Fast | _Slow]) -> str:
    text = yaml.dump(value, Dumper=dumper, sort_keys=False, width=_UNBROKEN, allow_unicode=True)
    return str(text)
