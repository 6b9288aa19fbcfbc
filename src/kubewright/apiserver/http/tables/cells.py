"""Cells of custom resources: what a JSON path finds, as the column's type wants it.

A value that does not fit the column's type prints as nothing, never as an error: the schema
decides over objects, columns only show them.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

from kubewright.apiserver.registry.builtin.ages import since
from kubewright.apiserver.registry.custom.jsonpath import Path, first, parse
from kubewright.apiserver.registry.kind import Column, Object
from kubewright.base.errors import InvalidInput

Cell = Callable[[Any, datetime], Any]
_UNSIGNED = (int, float)


def custom_cell(column: Column, obj: Object, now: datetime) -> Any:
    """The cell of a column that is defined by ``json_path``."""
    value = first(_path(column.json_path), obj)
    cell: Cell = _CELLS.get(column.type, _text)
    return None if value is None else cell(value, now)


_TOO_LARGE = 2**63
"""Whole numbers from here on have no place in a cell, as in Go."""


@lru_cache(maxsize=1024)
def _path(text: str) -> Path:
    """Definitions are checked when they come in; one that slipped through prints nothing."""
    try:
        return parse(text)
    except InvalidInput:
        return (_nothing,)


def _nothing(_value: Any) -> Iterator[Any]:
    return iter(())


def _text(value: Any, _now: datetime) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _integer(value: Any, _now: datetime) -> int | None:
    whole = isinstance(value, _UNSIGNED) and not isinstance(value, bool) and abs(value) < _TOO_LARGE
    return int(value) if whole else None


def _number(value: Any, _now: datetime) -> float | None:
    return value if isinstance(value, _UNSIGNED) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: datetime) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> str | None:
    return since(value, now) if isinstance(value, str) else None


_CELLS: Mapping[str, Cell] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
