"""A compiled schema, which ``registry`` uses for each object that a client sends.

Theory.      Almost every object is valid. So each method first runs one strict validator, in a
             microsecond or two: an object that it accepts has no error, no unknown field and nothing
             to prune. Only for others do the tree walks and the loose validator run; for large ones part by
             part, as long as the caller asks for another error.
Invariants.  Parts are built when first needed: a kind that no request names costs nothing.
Called by    ``registry.intake`` and ``registry.writing``, through the protocol ``registry.kind.Schema``.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Protocol

from jsonschema_rs import ValidationError

from kubewright.apiserver.registry.kind import Cause, Object, bounded
from kubewright.apiserver.schema import walk
from kubewright.apiserver.schema.causes import WORDS, Words, causes
from kubewright.apiserver.schema.node import Node
from kubewright.apiserver.schema.parts import Parts, is_large


class Validator(Protocol):
    """What we use of a validator of jsonschema-rs, of whatever draft."""

    def is_valid(self, instance: Any) -> bool: ...

    def iter_errors(self, instance: Any) -> Iterator[ValidationError]: ...


class Compiled:
    """The part of ``Schema`` that built-in and custom kinds share. Subclasses provide the validators.

    ``words``: what is said of each kind of error.
    """

    words: ClassVar[Mapping[str, Words]] = WORDS

    @cached_property
    def node(self) -> Node:
        """The root of the tree."""
        raise NotImplementedError

    @cached_property
    def strict(self) -> Validator:
        """Accepts an object that is valid and has no unknown field."""
        raise NotImplementedError

    @cached_property
    def loose(self) -> Validator:
        """Lists the errors; accepts unknown fields."""
        raise NotImplementedError

    @cached_property
    def parts(self) -> Parts:
        """The loose validator in parts."""
        raise NotImplementedError

    def errors(
        self, obj: Object, is_excused: Callable[[tuple[str | int, ...]], bool] = lambda _path: False
    ) -> Iterator[ValidationError]:
        """What the loose validator finds; of a large one not all at once, and not what is excused."""
        return self.parts.errors(obj, is_excused) if is_large(obj) else iter(self.loose.iter_errors(obj))

    def ready(self, obj: Object) -> Object | None:
        """The object with its defaults, when nothing else is to be done to it; None otherwise."""
        if not self.strict.is_valid(obj):
            return None
        filled: Object = walk.default(self.node, obj)
        return filled

    def whole(self, obj: Object) -> Object:
        """The object with its numbers as they are stored; a built-in kind has types for its own."""
        return obj

    def validate(self, obj: Object, _old: Object | None = None, _part: str = "") -> list[Cause]:
        if self.strict.is_valid(obj):
            return []
        errors = self.errors(obj)
        return bounded(causes(errors, said=self.words), errors)

    def unknown_fields(self, obj: Object) -> list[str]:
        return [] if self.strict.is_valid(obj) else list(walk.unknown_fields(self.node, obj))

    def prune(self, obj: Object) -> Object:
        if self.strict.is_valid(obj):
            return obj
        pruned: Object = walk.prune(self.node, obj)
        return pruned

    def default(self, obj: Object) -> Object:
        """Nulls where null is not allowed count as absent, so they are dropped first."""
        clean = obj if self.strict.is_valid(obj) else self.without_nulls(obj)
        filled: Object = walk.default(self.node, clean)
        return filled

    def without_nulls(self, obj: Object) -> Object:
        """The object without the nulls that count as absent."""
        clean: Object = walk.drop_nulls(self.node, obj)
        return clean

    def nulls(self, obj: Object) -> list[Cause]:
        """None: null is the zero of each type of Go."""
        return []

    def merge_keys(self, path: tuple[str, ...]) -> tuple[str | None, frozenset[str]]:
        node: Node | None = self.node
        for name in path:
            node = node.items or node if node else None
            node = (node.fields.get(name) or node.values) if node else None
        return (node.merge_key, node.strategies) if node else (None, frozenset())
