"""YAML that cloud-init runs through Jinja before it reads it.

Theory.      User data under ``## template: jinja`` is a template as a whole. So a text with Jinja in it, such
             as ``{{ ds.meta_data.x }}``, must stand in the YAML as it was given: quotes would escape
             characters in an expression, and then all of the data is lost. It is written as a literal block,
             in which nothing is escaped. What no block can hold (a carriage return, a control character)
             is written in double quotes, with escapes around the tags and none in them. cloud-init drops the
             line break after a statement or a comment: the line that follows has no indent here, since it
             gets that of the tag, and a block that ends with one has a line break more.
             A text that can be no Jinja, such as a shell's ``${#list[@]}`` or a Go template's ``{{.Names}}``,
             can only be meant as it is: Jinja is made to print each mark in it.
             libyaml, which is ten times as fast, writes all but such blocks; a value with one of them is left
             to PyYAML's own emitter.
Invariants.  Keys keep their order; nothing is folded, since a line break inside of Jinja would matter. Text
             without Jinja is written so that no program takes it for another type (``wire.goyaml``).
             Linear in the length of the text, whatever is in it.
Called by    ``cloudinit``, ``documents``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kubewright.wire.goyaml import UNBROKEN, Writer, represent_text

_MARK = re.compile(r"\{[{%#]")
_BREAKS = str.maketrans("", "", "\n\t")
_EASY = re.compile(r"(?:[\x21-\x7e\n]| (?!\n|\Z))*")
"""Text that libyaml writes as a literal block when it is asked to."""

_BLOCK = re.compile("[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*")
"""Text that may stand in a literal block: all else ends a line, or is not printable."""

# ---------------------------------------------------------------- Jinja

_STRINGS = r"""[^"'{0}]|"(?:\\.|[^"\\])*+"|'(?:\\.|[^'\\])*+'|{0}(?!\}})"""
_EXPRESSION = re.compile(rf"\{{\{{[-+]?\s*+(?=[\w\"'(\[{{+-])(?:{_STRINGS.format('}')})*+\}}\}}", re.DOTALL)
_STATEMENT = re.compile(rf"\{{%[-+]?\s*+([a-z]++)(?:{_STRINGS.format('%')})*+%\}}", re.DOTALL)
_COMMENT_END, _END_OF_RAW = "#}", re.compile(r"\{%[-+]?\s*+endraw\s*+[-+]?%\}")
_KNOWN = frozenset(
    {
        *("autoescape", "block", "call", "do", "elif", "else", "extends", "filter", "for", "from", "if"),
        *("import", "include", "macro", "print", "raw", "set", "with", "endautoescape", "endblock"),
        *("endcall", "endfilter", "endfor", "endif", "endmacro", "endset", "endwith"),
    }
)
"""The statements that cloud-init's Jinja has."""


@dataclass(frozen=True, slots=True)
class _Tag:
    """From ``start`` to ``end`` Jinja reads the text, and YAML only what comes of it.

    ``trims``  the line break after it is dropped
    """

    start: int
    end: int
    trims: bool


def _tags(text: str) -> tuple[_Tag, ...] | None:
    """The tags of a text; None if some mark in it begins none, so that Jinja would refuse it."""
    found: list[_Tag] = []
    place = 0
    while (mark := _MARK.search(text, place)) is not None:
        if (tags := _tag_at(text, mark.start())) is None:
            return None
        found += tags
        place = found[-1].end
    return tuple(found)


def _tag_at(text: str, start: int) -> list[_Tag] | None:
    """The tag that begins here; two of them around what is ``raw``."""
    if text.startswith("{#", start):
        end = text.find(_COMMENT_END, start + 2)
        return None if end < 0 else [_Tag(start, end + 2, text[end - 1] != "+")]
    if text.startswith("{{", start):
        expression = _EXPRESSION.match(text, start)
        return None if expression is None else [_Tag(start, expression.end(), trims=False)]
    statement = _STATEMENT.match(text, start)
    if statement is None or statement[1] not in _KNOWN:
        return None
    if statement[1] != "raw":
        return [_Tag(start, statement.end(), not statement[0].endswith("+%}"))]
    ended = _END_OF_RAW.search(text, statement.end())
    if ended is None:
        return None
    return [
        _Tag(start, statement.end(), trims=False),
        _Tag(ended.start(), ended.end(), not ended[0].endswith("+%}")),
    ]


def _is_marked(text: str) -> bool:
    return _MARK.search(text) is not None


def printing(text: str) -> str:
    """A text of which Jinja makes this one: itself, if it may be Jinja."""
    if _is_marked(text) and _tags(text) is None:
        return _MARK.sub(lambda mark: f"{{{{ '{mark[0]}' }}}}", text)
    return text


# ---------------------------------------------------------------- YAML


class _Hard(Exception):
    """The value has text that libyaml would quote."""


class _Fast(Writer):
    """libyaml's."""


class _Slow(yaml.SafeDumper):
    """PyYAML's, which here puts into a block whatever may stand there."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def choose_scalar_style(self) -> str:
        """The style that was asked for, else double quotes, where there is Jinja."""
        style: str = super().choose_scalar_style()
        event = self.event
        if not isinstance(event, yaml.ScalarEvent) or not event.style or style == event.style:
            return style
        return '"' if _is_marked(event.value) else style

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        if _literal(scalar):
            analysis.allow_block = True
        return analysis

    def write_literal(self, text: str) -> None:
        body = text.removesuffix("\n")
        tags = _tags(text) or ()
        indent = self.indent or 0
        self.write_indicator(f"|{self._hints(text, tags)}", True)
        self.write_line_break()
        self.write_indent()
        self.stream.write(_indented(body, tags, " " * indent))
        last = tags[-1].end if tags and tags[-1].trims else -1
        if last >= len(body):
            self.write_line_break()
        self.whitespace = self.indention = False
        self.column = indent + 1
        if text != body:
            self.write_line_break()

    def _hints(self, text: str, tags: Sequence[_Tag]) -> str:
        """The indent, where the first line does not tell it; what becomes of the last line breaks."""
        unclear = text[0] in " \t\n" or (bool(tags) and tags[0].start == 0 and tags[0].trims)
        kept = "" if text.endswith("\n") else "-"
        return (str(self.best_indent) if unclear else "") + ("+" if text.endswith("\n\n") else kept)

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        if not (tags := _tags(text)):
            super().write_double_quoted(text, split)
            return
        data = "".join(_quoted(text, tags))
        self.write_indicator('"', True)
        self.stream.write(data)
        self.column += len(data)
        self.write_indicator('"', False)


def _indented(body: str, tags: Sequence[_Tag], indent: str) -> str:
    """The lines of a block; one that follows a tag which drops its line break has that one's indent."""
    glued = {tag.end for tag in tags if tag.trims}
    lines = body.split("\n")
    place, written = len(lines[0]), [lines[0]]
    for line in lines[1:]:
        written.append(line if place in glued or not line else indent + line)
        place += 1 + len(line)
    return "\n".join(written)


_ESCAPED = re.compile(
    '["\\\\]|[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]'
)
_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t", '"': r"\"", "\\": r"\\"}


def _quoted(text: str, tags: Sequence[_Tag]) -> Iterator[str]:
    """A text in double quotes: tags as they are, with the white space that Jinja drops around them."""
    place = 0
    for tag in tags:
        start, end = tag.start, tag.end
        before = text[place:start]
        if text.startswith("-", start + 2):
            before = before.rstrip()
        yield _ESCAPED.sub(_escape, before)
        yield text[start:end]
        if text.startswith("-", end - 3):
            end += len(text) - end - len(text[end:].lstrip())
        elif tag.trims and (dropped := re.match(r"\r\n|\r|\n", text[end : end + 2])):
            yield "\n"
            end += dropped.end()
        place = end
    yield _ESCAPED.sub(_escape, text[place:])


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _NAMED:
        return _NAMED[char]
    return f"\\x{ord(char):02x}" if char < "\x80" else f"\\u{ord(char):04x}"


def _literal(text: str) -> bool:
    """Whether the text should stand as it is in a block of its own lines."""
    if _is_marked(text) and (tags := _tags(text)) is not None:
        return _BLOCK.fullmatch(text) is not None and not _reaches_out(text, tags)
    if "\n" not in text:
        return False
    written = text.translate(_BREAKS).isprintable()
    return written and bool(text.strip()) and text[0] not in "\n\t "


def _reaches_out(text: str, tags: Sequence[_Tag]) -> bool:
    """Whether a tag would drop white space before or behind the text: the line break of the block's head."""
    first, last = tags[0], tags[-1]
    before = text.startswith("-", first.start + 2) and not text[: first.start].strip()
    return before or (text.startswith("-", last.end - 3) and not text[last.end :].strip())


def _text(dumper: Any, text: str) -> yaml.ScalarNode:
    if _literal(text):
        return represent_text(dumper, text, "|")
    return represent_text(dumper, text, '"' if _is_marked(text) else "")


def _easy_text(dumper: _Fast, text: str) -> yaml.ScalarNode:
    if _is_marked(text):
        easy = all(not tag.trims for tag in _tags(text) or ()) and text[0] not in "\n "
        if not easy or not _literal(text) or ("\n" not in text and any(each in text for each in "\"'\\")):
            raise _Hard
    if _literal(text) and not _EASY.fullmatch(text):
        raise _Hard
    return _text(dumper, text)


_Slow.add_representer(str, _text)
_Fast.add_representer(str, _easy_text)


def dumped(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """The value as one YAML document without a ``---``, after Jinja has gone over it."""
    try:
        return _dumped(value, _Fast)
    except _Hard:
        return _dumped(value, _Slow)


def _dumped(value: Mapping[str, Any] | Sequence[Any], dumper: type[_Fast | _Slow]) -> str:
    text = yaml.dump(value, Dumper=dumper, sort_keys=False, width=UNBROKEN, allow_unicode=True)
    return str(text)


def template(value: Any) -> Any:
    """A value with all of its texts such that Jinja makes those of ``value`` of them (``printing``)."""
    match value:
        case str():
            return printing(value)
        case Mapping():
            return {printing(key): template(inner) for key, inner in value.items()}
        case list() | tuple():
            return [template(inner) for inner in value]
    return value
