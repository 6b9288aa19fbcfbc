"""From a change of one object to the keys that must look again.

Theory.      A mapping is a pure function from a ``Change`` to keys. It looks at both sides of the
             change: an object that moves from one owner to another wakes both. It may find too many
             keys, never too few.
Called by    the wiring of controllers: ``controller.watches(sets, only(spec_or_life))``.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.kube.informer import Change
from kubewright.wire.gvk import Key

ToKeys = Callable[[Change[Any]], Iterable[Key]]
"""Pure: which keys a change concerns."""

ToKeysIn = Callable[[Key, Change[Any]], Iterable[Key]]
"""Pure: which keys a change in a workload cluster, the first argument, concerns."""


def own_key(change: Change[Any]) -> tuple[Key, ...]:
    """The changed object itself."""
    return (change.key,)


def only(matters: Callable[[Change[Any]], bool], to_keys: ToKeys = own_key) -> ToKeys:
    """``to_keys`` for the changes that ``matters`` lets through, none for the others."""

    def keys(change: Change[Any]) -> Iterable[Key]:
        return to_keys(change) if matters(change) else ()

    return keys


def spec_or_life(change: Change[Any]) -> bool:
    """Whether the change is more than one of status: creation, end, deletion begun, generation, labels."""
    old, new = change.old, change.new
    if old is None or new is None or old.uid != new.uid:
        return True
    return (old.generation, old.deleting, old.labels) != (new.generation, new.deleting, new.labels)


def status_alone(change: Change[Any]) -> bool:
    """Whether spec and metadata are as they were, but for the version."""
    if spec_or_life(change):
        return False
    before, after = change.before(), change.after()
    if before is None or after is None:
        return False
    mine, theirs = before.metadata, after.metadata
    others = (theirs.annotations, theirs.finalizers, theirs.owner_references)
    return (mine.annotations, mine.finalizers, mine.owner_references) == others
