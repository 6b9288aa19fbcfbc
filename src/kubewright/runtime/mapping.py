"""From a change of one object to the keys that must look again.

Theory.      A mapping is a pure function from a ``Change`` to keys. It looks at both sides of the
             change: an object that moves from one owner to another wakes both. It may find too many
             keys, never too few.
Called by    the wiring of controllers: ``controller.watches(sets, only(spec_or_life))``.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.meta import Object
from kubewright.kube.informer import Change
from kubewright.wire.gvk import Key

ToKeys = Callable[[Change[Any]], Iterable[Key]]
"""Pure: which keys a change concerns."""

ToKeysIn = Callable[[Key, Change[Any]], Iterable[Key]]
"""Pure: which keys a change in a workload cluster, the first argument, concerns."""


def own_key(change: Change[Any]) -> tuple[Key, ...]:
    """The changed object itself."""
    return (change.key,)


def in_order(keys: Iterable[Key]) -> tuple[Key, ...]:
    """The keys in the order in which a mapping yields them; those of a set by namespace and name.

    The order of a set differs from process to process, and a run of the simulator must be the same in each.
    """
    return tuple(sorted(keys, key=str) if isinstance(keys, (set, frozenset)) else keys)


def only(matters: Callable[[Change[Any]], bool], to_keys: ToKeys = own_key) -> ToKeys:
    """``to_keys`` for the changes that ``matters`` lets through, none for the others."""

    def keys(change: Change[Any]) -> Iterable[Key]:
        return to_keys(change) if matters(change) else ()

    return keys


def spec_or_existence(change: Change[Any]) -> bool:
    """Whether an object came, went, or has another generation."""
    old, new = change.old, change.new
    return old is None or new is None or (old.uid, old.generation) != (new.uid, new.generation)


def spec_or_life(change: Change[Any]) -> bool:
    """Whether the change is more than one of status: creation, end, deletion begun, generation, labels."""
    old, new = change.old, change.new
    if old is None or new is None or spec_or_existence(change):
        return True
    return (old.deleting, old.labels) != (new.deleting, new.labels)


def alike(change: Change[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Whether the change is one of status or metadata, and ``same`` finds nothing in it that matters.

    ``same`` compares the objects before and after; their generations, labels and deletion are equal.
    """
    return not spec_or_life(change) and same(change.before(), change.after())


def status_alone(change: Change[Any], same: Callable[[Any, Any], bool] = lambda _old, _new: True) -> bool:
    """Whether spec and metadata are as they were, but for the version, and ``same`` says so of the status."""

    def unchanged(old: Object, new: Object) -> bool:
        a, b = old.metadata, new.metadata
        others = (b.annotations, b.finalizers, b.owner_references)
        return (a.annotations, a.finalizers, a.owner_references) == others and same(old, new)

    return alike(change, unchanged)
