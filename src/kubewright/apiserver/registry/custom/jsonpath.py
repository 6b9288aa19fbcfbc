"""JSONPath as CustomResourceDefinitions use it: printer columns, scale, selectable fields.

Theory.      A path is a sequence of steps; each step turns one value into any number. Missing
             things yield nothing instead of an error, so a half-filled object still prints.
Grammar.     ``.name``  ``.a\\.b`` (a dot in a name)  ``['name']``  ``[0]``  ``[-1]``  ``[1:3]``
             ``[*]``  ``.*``  ``..name``  ``[?(@.type=="Ready")]`` with == != < <= > >=
Called by    ``custom`` and ``http.tables``.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kubewright.base.errors import InvalidInput
from kubewright.base.limits import remembered

Step = Callable[[Any], Iterator[Any]]
Path = tuple[Step, ...]

_NAME = re.compile(r"\.((?:[^\s.\[\]\\(){}'\"]|\\.)+)")
_DEEP = re.compile(r"\.\.((?:[^\s.\[\]\\(){}'\"]|\\.)+)?")
_QUOTED = re.compile(r"""\[\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*\]""")
_INDEX = re.compile(r"\[\s*(-?\d+)\s*\]")
_SLICE = re.compile(r"\[\s*+(-?\d*+)\s*+:\s*+(-?\d*+)\s*+(?::\s*+(\d++)\s*+)?\]")
"""Each part takes all it can and gives nothing back: blanks could be divided among them in very many ways."""

_ALL = re.compile(r"\[\s*\*\s*\]|\.\*")
_FILTER = re.compile(
    r"""\[\s*\?\(\s*@((?:[^\s=!<>)'"\\]|\\.)*+)\s*+(?:(==|!=|<=|>=|<|>)\s*('[^']*'|"[^"]*"|[^\s)]+)\s*)?\)\s*\]"""
)
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def deep(name: str) -> Step:
    """Every value of that name anywhere below; without a name everything below."""

    def step(value: Any) -> Iterator[Any]:
        inner: Iterable[Any] = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
        if not name:
            yield value
        elif isinstance(value, dict) and name in value:
            yield value[name]
        for child in inner:
            yield from step(child)

    return step


def every(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def chosen(given: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        yield from value[given] if isinstance(value, list) else ()

    return step


def where(path: Path, compare: Callable[[Any, Any], bool] | None, literal: Any) -> Step:
    """Items for which the comparison holds, or where the path exists."""

    def holds(item: Any) -> bool:
        found = next(follow(path, item), None)
        if compare is None or found is None:
            return found is not None and compare is None
        try:
            return compare(found, literal)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        yield from (item for item in every(value) if holds(item))

    return step


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return float(text)


def _number(text: str) -> int | None:
    return int(text) if text else None


def _name(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _item(match: re.Match[str]) -> Step:
    index = int(match[1])
    return chosen(slice(index, index + 1 or None))


def _filter(match: re.Match[str]) -> Step:
    literal = _literal(match[3]) if match[3] else None
    return where(parse(match[1] or "."), _COMPARE.get(match[2]), literal)


_STEPS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Step]], ...] = (
    (_ALL, lambda _: every),
    (_DEEP, lambda match: deep(_name(match[1] or ""))),
    (_NAME, lambda match: field(_name(match[1]))),
    (_QUOTED, lambda match: field(_name(match[1] or match[2] or ""))),
    (_INDEX, _item),
    (_SLICE, lambda match: chosen(slice(*(_number(part or "") for part in match.groups())))),
    (_FILTER, _filter),
)


@remembered(1024)
def parse(text: str) -> Path:
    """Read a path such as ``.status.conditions[?(@.type=="Ready")].status``.

    Raises:
        InvalidInput: the text is no path; the message quotes it.
    """
    steps, at = [], 0
    while at < len(text) and text != ".":
        for pattern, make in _STEPS:
            if (match := pattern.match(text, at)) is not None:
                steps.append(_made(make, match, text))
                at = match.end()
                break
        else:
            raise InvalidInput(f"{text!r} is not a JSON path: cannot read {text[at:]!r}")
    return tuple(steps)


def _made(make: Callable[[re.Match[str]], Step], match: re.Match[str], text: str) -> Step:
    try:
        return make(match)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a JSON path: cannot read {match[0]!r}") from None


def follow(path: Path, value: Any) -> Iterator[Any]:
    """Every value that the path leads to."""
    if not path:
        yield value
        return
    for found in path[0](value):
        yield from follow(path[1:], found)


def first(path: Path, value: Any) -> Any:
    """The first value that the path leads to, or None."""
    return next(follow(path, value), None)
