"""YAML as programs in Go read it: a writer that none of them misunderstands, a reader that agrees with them.

Theory.      What a plain word of YAML is depends on who reads it: ``y`` is true for kubectl and text for yq,
             ``1e3`` is a number for Go and text for Python, ``12:30`` a number for Python and text for Go, a
             date is text, a time or an error. So the writer quotes each text that some reader of YAML 1.1 or
             1.2 takes for something else, keys too. The reader resolves words as ``sigs.k8s.io/yaml`` does,
             with which Kubernetes reads, and answers what JSON could hold. The library composes nodes by a
             recursion in C, and a text that is nested deep enough ends the whole process there. So every text
             of a user is read through this module, also one that is for a program in Python
             (``loads_as_python``): its events, which need no recursion, are counted first.
Invariants.  No line is folded, keys keep their order, an anchor is never written. A document that is read has
             a bound on its levels, and on what its aliases expand to. What is wrong raises ``Unreadable``, in
             the words of Go where it has some.
Called by    whatever writes YAML for another program, or reads what a user wrote for programs in Go. What
             cloud-init reads is written by ``bootstrap.yaml_text``, which builds on the writer.
"""

import base64
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml

from kubewright.wire.gojson import MOST_DEPTH

UNBROKEN = 2**31 - 1
"""A width at which no line is folded."""

EXPANDED = 10
"""How many times as many values as its text has a document may have with its aliases expanded, ..."""

SMALL = 10_000
"""... beyond so many."""

MOST_DIGITS = 4_000
"""Characters of a number that is read as Python does, whose integers have no largest one."""

_TAG = "tag:yaml.org,2002:"

# ---------------------------------------------------------------- writing

_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "=", "<<", ""})
_NUMBER = re.compile(
    r"[-+]?(?:0x[0-9a-f]*|0b[01]*|0o[0-7]*"
    r"|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:e[-+]?[0-9]*)?"
    r"|[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?"  # base 60
    r"|\.inf|\.nan)"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:$|[Tt\s])")


def is_ambiguous(text: str) -> bool:
    """Whether some reader of YAML takes this text for another type, if it stands there without quotes."""
    if text[:1] not in "0123456789+-.yYnNtTfFoO~=<":
        return False
    folded = text.lower()
    return (
        folded in _WORDS
        or _NUMBER.fullmatch(folded.replace("_", "")) is not None
        or _DATE.match(text) is not None
    )


class Writer(yaml.CSafeDumper):
    """libyaml's emitter, with quotes around each ambiguous text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def represent_text(dumper: Any, text: str, style: str = "") -> yaml.ScalarNode:
    """A text in a style of YAML's, by default in quotes where it is ambiguous; for any class of dumpers."""
    chosen = style or ("'" if is_ambiguous(text) else None)
    node: yaml.ScalarNode = dumper.represent_scalar(f"{_TAG}str", text, style=chosen)
    return node


Writer.add_representer(str, represent_text)


def dumped(value: Any, *, width: int = UNBROKEN, in_order: bool = False, flow: bool = False) -> str:
    """A value as one document, without a ``---``; ``in_order`` of its keys' names, ``flow`` like JSON."""
    return yaml.dump(
        value, Dumper=Writer, sort_keys=in_order, default_flow_style=flow, width=width, allow_unicode=True
    )


def dumped_all(documents: Iterable[Mapping[str, Any]], *, width: int = UNBROKEN) -> str:
    """Documents, each after a ``---``."""
    return yaml.dump_all(
        documents, Dumper=Writer, sort_keys=False, width=width, allow_unicode=True, explicit_start=True
    )


# ---------------------------------------------------------------- reading

_PLAIN = "plain"
_INT = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_FRACTION = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_KNOWN: Mapping[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_BY_TAG = {"str": (str,), "bool": (bool,), "int": (int,), "float": (int, float), "null": (type(None),)}


_LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


class Unreadable(ValueError):
    """The text is no YAML that Kubernetes reads; the message says why, without a part of the text's values.

    ``line``  where, from 1 on; 0 where that is not known
    """

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(f"yaml: line {line}: {problem}" if line else f"yaml: {problem}")
        self.line = line


class _Nodes(yaml.CSafeLoader):
    """Composes nodes, in which a plain word has a tag of its own: what it is, ``resolved`` says."""


_Nodes.yaml_implicit_resolvers = {None: [(_PLAIN, re.compile("", re.DOTALL))]}


def loads(text: bytes | str, *, aliases: bool = True, unique: bool = False) -> Any:
    """The value of the first document, like Go's, whatever follows it; None of an empty text.

    Args:
        text: UTF-8, if it is bytes.
        aliases: whether ``*name`` is read; a request's body may have none.
        unique: whether a key that comes twice in a map is an error; else the last one counts.

    Raises:
        Unreadable
    """
    with _readable():
        spare = _checked(_first(yaml.parse(text, Loader=_Nodes)), aliases=aliases)
        node = next(yaml.compose_all(text, Loader=_Nodes), None)
        return None if node is None else _Reader(spare, unique=unique).value(node)


def load_all(text: bytes | str, *, aliases: bool = True, unique: bool = False) -> list[Any]:
    """The values of all documents.

    Raises:
        Unreadable
    """
    return _documents(text, _Reader, aliases=aliases, unique=unique)


def loads_as_python(text: bytes | str) -> Any:
    """The value of a text's only document as PyYAML reads it, and cloud-init with it; None of an empty text.

    Raises:
        Unreadable
    """
    with _readable():
        spare = _checked(yaml.parse(text, Loader=_Nodes), aliases=True)
        loader = yaml.CSafeLoader(text)
        try:
            if (node := loader.get_single_node()) is None:
                return None
            _Sizes(spare, unique=False).value(node)
            return loader.construct_document(node)
        except Unreadable:
            raise
        except ValueError:  # a date such as 2024-13-45
            raise Unreadable("a value is not what it looks like") from None
        finally:
            loader.dispose()


def events(text: bytes | str) -> Iterator[yaml.Event]:
    """The pieces of a text, one by one: no value is made, so its levels have no bound but the reader's.

    Raises:
        Unreadable: while it is iterated.
    """
    with _readable():
        yield from yaml.parse(text, Loader=_Nodes)


def marked(text: str) -> yaml.Node | None:
    """The only document as nodes with their places in the text, for a program that changes the text there.

    Raises:
        Unreadable
    """
    with _readable():
        spare = _checked(yaml.parse(text, Loader=_Nodes), aliases=True)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _Sizes(spare, unique=False).value(node)
        return node


def _documents(text: bytes | str, reader: "type[_Reader]", *, aliases: bool, unique: bool) -> list[Any]:
    with _readable():
        spare = _checked(yaml.parse(text, Loader=_Nodes), aliases=aliases)
        return [reader(spare, unique=unique).value(node) for node in yaml.compose_all(text, Loader=_Nodes)]


@contextmanager
def _readable() -> Iterator[None]:
    """What the library says of a text that is no YAML, as ``Unreadable``."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise Unreadable(str(error.problem), mark.line + 1 if mark is not None else 0) from None
    except yaml.reader.ReaderError as error:
        raise Unreadable(str(error.reason)) from None
    except (yaml.YAMLError, UnicodeError):
        raise Unreadable("it is no text in UTF-8") from None
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None


def _first(events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
    """The events of the first document."""
    for event in events:
        yield event
        if isinstance(event, yaml.DocumentEndEvent):
            return


@dataclass(frozen=True, slots=True)
class Word:
    """A scalar as it stands in a text. ``tag`` is what that says of its type, such as ``int``, or nothing."""

    text: str
    quoted: bool = False
    tag: str = ""


def words(text: bytes | str) -> Any:
    """The first document with its scalars as ``Word``, keys as text, and None where there is none.

    For a reader that knows the types of its fields, as those of ``gopkg.in/yaml.v3`` do.

    Raises:
        Unreadable: it is no YAML, or a key comes twice in a map.
    """
    return next(iter(_documents(text, _Words, aliases=True, unique=True)), None)


def resolved(word: str) -> Any:
    """What a plain word is: a boolean, None, an int, a float, or itself."""
    if word in _KNOWN:
        return _KNOWN[word]
    if word[0] not in "0123456789+-.":
        return word
    if word[0] == "." and _FRACTION.fullmatch(word) is None:
        return word
    plain = word.replace("_", "")
    number = _int(plain) if _INT.fullmatch(plain) is not None else None
    return _float(word, plain) if number is None else number


def _int(plain: str) -> int | None:
    """An integer of 64 bits; None if it is larger."""
    digits = plain.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    if len(digits) > 70:
        return None
    number = int(digits, 8) if octal else int(digits, 0)
    signed = -number if plain[0] == "-" else number
    largest = 2**64 if plain[0] not in "+-" else 2**63
    return signed if -(2**63) <= signed < largest else None


def _float(word: str, plain: str) -> float | str:
    """A floating-point number, or the word, if it is none or too large."""
    if _FLOAT.fullmatch(plain) is None:
        return word
    number = float(plain)
    return word if math.isinf(number) else number


def _checked(events: Iterator[yaml.Event], *, aliases: bool) -> int:
    """How many values the document may have with aliases expanded.

    Raises:
        Unreadable: it is nested too deep, or has an alias that it may not have.
    """
    depth = size = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise Unreadable("aliases are not accepted")
        if isinstance(event, yaml.DocumentStartEvent) and event.version not in (None, (1, 1)):
            raise Unreadable("found incompatible YAML document")
        size += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise Unreadable(f"exceeded max depth of {MOST_DEPTH}")
    return max(SMALL, EXPANDED * size)


class _Reader:
    """Makes values of nodes, of all documents in a text no more than it may."""

    def __init__(self, spare: int, *, unique: bool) -> None:
        self._spare = spare
        self._unique = unique
        self._open: set[int] = set()

    def value(self, node: yaml.Node) -> Any:
        self._spare -= 1
        if self._spare < 0:
            raise Unreadable("document contains excessive aliasing")
        if isinstance(node, yaml.ScalarNode):
            return self._leaf(node)
        if id(node) in self._open:
            raise Unreadable("an anchor's value contains itself", _line(node))
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(each) for each in node.value]
            return self._mapping(node)
        finally:
            self._open.remove(id(node))

    def _leaf(self, node: yaml.ScalarNode) -> Any:
        return _json(_scalar(node), node)

    def _name(self, node: yaml.Node) -> str:
        return _key(node)

    def _mapping(self, node: yaml.Node) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merges: dict[str, bool] = {}
        for key, inner in node.value:
            if _is_merge(key):
                merged = self._merged(inner)
                found |= merged
                merges |= dict.fromkeys(merged, True)
                continue
            name = self._name(key)
            if self._unique and name in found and not merges.pop(name, False):
                raise Unreadable(f"key {name!r} already set in map", _line(key))
            found[name] = self.value(inner)
        return found

    def _merged(self, node: yaml.Node) -> dict[str, Any]:
        """The fields that ``<<`` brings; of several maps the first one that has a field."""
        maps = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for each in reversed(maps):
            if not isinstance(each, yaml.MappingNode):
                raise Unreadable("map merge requires map or sequence of maps as the value", _line(node))
            found |= self.value(each)
        return found


class _Words(_Reader):
    """Leaves scalars and keys what they are in the text."""

    def _leaf(self, node: yaml.ScalarNode) -> Word:
        plain = node.tag == _PLAIN
        quoted = not plain and node.tag == f"{_TAG}str"
        return Word(str(node.value), quoted, "" if plain or quoted else str(node.tag).removeprefix(_TAG))

    def _name(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise Unreadable("unsupported map key: it is a map or a list", _line(node))
        return str(node.value)


class _Sizes(_Reader):
    """Reads nodes for nothing but their bounds, before the library makes values of them."""

    def _leaf(self, node: yaml.ScalarNode) -> None:
        _checked_number(node)

    def _name(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise Unreadable("unsupported map key: it is a map or a list", _line(node))
        _checked_number(node)
        return str(node.value)


def _checked_number(node: yaml.ScalarNode) -> None:
    """Refuse a number of so many digits that making it takes longer than reading them.

    Raises:
        Unreadable
    """
    if len(node.value) > MOST_DIGITS and node.tag in (f"{_TAG}int", f"{_TAG}float"):
        raise Unreadable(f"a number has more than {MOST_DIGITS} digits", _line(node))


def _is_merge(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and key.tag in (_PLAIN, f"{_TAG}merge")


def _scalar(node: yaml.ScalarNode) -> Any:
    text, tag = str(node.value), str(node.tag)
    if tag == _PLAIN:
        return resolved(text)
    kind = tag.removeprefix(_TAG)
    if kind == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode(errors="replace")
        except ValueError:
            raise Unreadable("!!binary value contains invalid base64 data", _line(node)) from None
    if kind not in _BY_TAG or kind == "str":
        return text
    found = resolved(text)
    if not isinstance(found, _BY_TAG[kind]) or (isinstance(found, bool) and kind != "bool"):
        raise Unreadable(f"cannot decode the value as a !!{kind}", _line(node))
    return found


def _json(value: Any, node: yaml.Node) -> Any:
    """A value as JSON holds it: Go writes a whole number as one, whatever its type."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        shown = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise Unreadable(f"unsupported value: {shown}", _line(node))
    # Go writes as many digits as tell a float from its neighbours, and reads an integer of them.
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < 2**63 else value


def _key(node: yaml.Node) -> str:
    """A key as JSON has it."""
    if not isinstance(node, yaml.ScalarNode):
        raise Unreadable("unsupported map key: it is a map or a list", _line(node))
    match _scalar(node):
        case bool(value):
            return "true" if value else "false"
        case None:
            raise Unreadable("unsupported map key: it is null", _line(node))
        case float(value):
            return _float_key(value)
        case int(value) if value >= 2**63:
            raise Unreadable("unsupported map key: it is too large", _line(node))
        case value:
            return str(value)


def _float_key(value: float) -> str:
    """With no more digits than 32 bits tell apart, as Go does for keys, and for nothing else."""
    if math.isnan(value):
        return ".nan"
    if abs(value) > _LARGEST_FLOAT32:
        return ".inf" if value > 0 else "-.inf"
    packed = struct.pack("f", value)
    (short,) = struct.unpack("f", packed)
    tried = (f"{short:.{digits}e}" for digits in range(9))
    shown = next(each for each in tried if struct.pack("f", float(each)) == packed)
    fraction, _, exponent = shown.partition("e")
    if not -4 <= int(exponent) < 6:
        return shown
    return f"{float(shown):.{max(len(fraction.partition('.')[2]) - int(exponent), 0)}f}"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
