"""Validation rules for built-in kinds, as small functions.

Theory.      A rule gets the new object and, on an update, the old one, and yields causes with the
             messages of kube-apiserver. ``check`` lists the rules of each kind.
Invariants.  Pure. The fields have the right JSON types: the schema is checked first.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from kubewright.apiserver.schema.causes import Cause, forbidden, invalid, required
from kubewright.apiserver.schema.node import Object, at

Rule = Callable[[Object, Object | None], Iterator[Cause]]

_FROZEN = "field is immutable when `immutable` is set"
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def immutable(*paths: str) -> Rule:
    """These fields never change once the object exists."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths if old is not None else ():
            if at(new, path) != at(old, path):
                yield invalid(path, at(new, path), "field is immutable")

    return rule


def forbid_change(*paths: str, words: str) -> Rule:
    """The same, with the reason Forbidden and the message ``words``."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths if old is not None else ():
            if at(new, path) != at(old, path):
                yield forbidden(path, words)

    return rule


def set_once(path: str, words: str, otherwise: Any = "") -> Rule:
    """A field that may be filled in once and stays."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        before = at(old, path, otherwise)
        if before and at(new, path, otherwise) != before:
            yield forbidden(path, words)

    return rule


def at_least(least: int, *paths: str) -> Rule:
    """Numbers with a lower bound."""
    words = "must be greater than 0" if least == 1 else f"must be greater than or equal to {least}"

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        for path in paths:
            value = at(new, path)
            if value is not None and value < least:
                yield invalid(path, value, words)

    return rule


def immutable_data(*paths: str) -> Rule:
    """Secrets and ConfigMaps with ``immutable: true``: neither this field nor the data may change."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        if at(old, "immutable") is not True:
            return
        if at(new, "immutable") is not True:
            yield forbidden("immutable", _FROZEN)
        for path in paths:
            if (at(new, path) or {}) != (at(old, path) or {}):
                yield forbidden(path, _FROZEN)

    return rule


def config_keys(*paths: str) -> Rule:
    """Keys of data that are valid file names."""

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        for path in paths:
            for key in at(new, path, {}):
                if not _KEY.fullmatch(key) or key in (".", ".."):
                    yield invalid(f"{path}[{key}]", key, _KEY_WORDS)

    return rule


MOST_DATA = 1024 * 1024
"""Bytes of data that a ConfigMap or a Secret may hold."""


def bounded(where: str, most: int, *paths: str) -> Rule:
    """A limit on the total length of values (characters); ``where`` is the field in the cause."""

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        size = sum(len(value) for path in paths for value in at(new, path, {}).values())
        if size > most:
            yield Cause("FieldValueTooLong", where, f"Too long: may not be more than {MOST_DATA} bytes")

    return rule


def present(*paths: str) -> Rule:
    """Fields that must be there and not be empty."""

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        for path in paths:
            if at(new, path) in (None, "", [], {}):
                yield required(path)

    return rule
