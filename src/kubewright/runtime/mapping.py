"""From a change of one object to the keys that must look again.

Theory.      A mapping is a pure function from a ``Change`` to keys. It looks at both sides of the
             change: an object that moves from one owner to another wakes both. It may find too many
             keys, never too few.
Called by    the wiring of controllers: ``controller.watches(machines, owner_of(MACHINE_SET.resource))``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubewright.kube.informer import Change, Informer
from kubewright.wire.gvk import Key, Resource, split_api_version

ToKeys = Callable[[Change[Any]], Iterable[Key]]
"""Pure: which keys a change concerns."""

ToKeysIn = Callable[[Key, Change[Any]], Iterable[Key]]
"""Pure: which keys a change in a workload cluster, the first argument, concerns."""


def own_key(change: Change[Any]) -> tuple[Key, ...]:
    """The changed object itself."""
    return (change.key,)


def owner_of(owner: Resource) -> ToKeys:
    """The controlling owner, before and after, when it is of kind ``owner`` (in any version of its group)."""

    def keys(change: Change[Any]) -> frozenset[Key]:
        namespace = change.key.namespace if owner.namespaced else ""
        if change.old and change.new and change.old.owner_uid == change.new.owner_uid:
            sides: tuple[Any, ...] = (change.after(),) if change.new.owner_uid else ()
        else:
            sides = (change.before(), change.after())
        names = (_controller_name(side, owner) for side in sides if side is not None)
        return frozenset(Key(namespace, name) for name in names if name)

    return keys


def by_index(informer: Informer[Any], index: str, values: Callable[[Any], Iterable[str]]) -> ToKeys:
    """Keys of ``informer``'s objects whose ``index`` holds one of ``values(changed object)``.

    For references that point at the changed object: machines by the name of a node, pods by a claim.
    """

    def keys(change: Change[Any]) -> frozenset[Key]:
        found: set[Key] = set()
        for side in (change.before(), change.after()):
            for value in values(side) if side is not None else ():
                found |= informer.keys_by(index, value)
        return frozenset(found)

    return keys


def referenced(refers: Callable[[Any], Iterable[Key]]) -> ToKeys:
    """Keys that the changed object names itself, before and after."""

    def keys(change: Change[Any]) -> frozenset[Key]:
        sides = (change.before(), change.after())
        return frozenset(key for side in sides if side is not None for key in refers(side))

    return keys


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


def _controller_name(obj: Any, owner: Resource) -> str:
    for ref in _owner_references(obj):
        api_version, kind, name, controls = ref
        if controls and kind == owner.kind and split_api_version(api_version)[0] == owner.group:
            return name
    return ""


def _owner_references(obj: Any) -> Iterable[tuple[str, str, str, bool]]:
    if isinstance(obj, Mapping):
        for ref in obj.get("metadata", {}).get("ownerReferences") or ():
            yield ref["apiVersion"], ref["kind"], ref["name"], bool(ref.get("controller"))
        return
    for ref in obj.metadata.owner_references or ():
        yield ref.api_version, ref.kind, ref.name, bool(ref.controller)
