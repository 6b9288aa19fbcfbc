"""One kind that references point to: its informer, who uses it, and who waits for which of its objects.

Theory.      An owner that asked for an object of the kind uses the kind until it is forgotten. When the kind
             as a whole changes (it is installed, listed, removed), all its users look again. When an
             object changes, the owners that it names look again, and those that looked at it, or for it,
             while it did not name them: a provider's object names no owner until its owner has found it.
Invariants.  At most one informer, and none without a user for longer than the registry allows. Owners are
             matched by group and kind, in whatever version an owner reference says. While the first list
             comes in, no object wakes its owners: all users are woken at its end.
Called by    ``registry``.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from kubewright.api.kinds import Kind, dynamic
from kubewright.kube.header import Header
from kubewright.kube.informer import Change, Informer
from kubewright.kube.informers import Informers
from kubewright.runtime.references.reference import Absent, Answer, Cause, Found, Reference
from kubewright.wire.gvk import Key, Resource, split_api_version

OwnerKind = tuple[str, str]
"""Group and kind of owners."""


class Owner(NamedTuple):
    """An object that refers to others: the kind of which its controller works, and its key."""

    kind: OwnerKind
    key: Key

    def __str__(self) -> str:
        return f"{self.kind[1]} {self.key}"


Wake = Callable[[Owner, str], None]
"""Asks for a look at an owner, and says why."""


class UsedKind:
    """A kind in use.

    ``crd``     the name of its CRD, once it is known to differ from what the kind suggests
    ``users``   the owners that use it, each with the objects that it waits for
    ``listed``  its users were woken after the first list
    """

    def __init__(self, group: str, kind: str, informers: Informers, wake: Wake) -> None:
        self.group = group
        self.kind = kind
        self.crd = ""
        self.users: dict[Owner, dict[Key, None]] = {}
        self.informer: Informer[dict[str, Any]] | None = None
        self.listed = False
        self._contract = ""
        self._informers = informers
        self._wake = wake
        self._unsubscribe: Callable[[], None] = lambda: None
        self._awaited: dict[Key, dict[Owner, None]] = {}

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def follow(self, resource: Resource, contract: str) -> Informer[dict[str, Any]]:
        """The informer of the kind as this resource, which is begun if there is none."""
        self._contract = contract
        if self.informer is not None and self.informer.kind.resource != resource:
            self.drop()
        if self.informer is None:
            kind: Kind[dict[str, Any]] = dynamic(resource)
            self.informer = self._informers.get(kind)
            self._unsubscribe = self.informer.subscribe(self._changed)
        return self.informer

    def find(self, reference: Reference, owner: Owner) -> Answer:
        """The object; ``owner`` is woken at its next change, be it that it comes. Only after ``follow``."""
        informer = self.informer
        assert informer is not None
        if not informer.synced:
            self.listed = False
            trouble = informer.statistics().trouble
            message = f"the objects of kind {self} are not listed yet{': ' if trouble else ''}{trouble}"
            return Absent(Cause.FILLING, message, passing=not trouble)
        header = informer.header(reference.key)
        if owner not in _owners(header):  # else the object itself says whom to wake
            self._awaited.setdefault(reference.key, {})[owner] = None
            self.users[owner][reference.key] = None
        found = informer.get(reference.key)
        if found is None:
            return Absent(Cause.MISSING, f"there is no {reference}")
        return Found(found, informer.kind, self._contract)

    def forget(self, owner: Owner) -> None:
        """The owner uses the kind no longer."""
        for key in self.users.pop(owner, ()):
            waiting = self._awaited[key]
            del waiting[owner]
            if not waiting:
                del self._awaited[key]

    def wake_users(self, why: str) -> None:
        """All of them look again."""
        for owner in tuple(self.users):
            self._wake(owner, why)

    def drop(self) -> None:
        """Watch the kind no longer."""
        informer, self.informer, self.listed = self.informer, None, False
        if informer is not None:
            self._unsubscribe()
            self._informers.release(informer)

    def _changed(self, change: Change[dict[str, Any]]) -> None:
        if not self.listed:
            return
        verb = "added" if change.old is None else "gone" if change.new is None else "changed"
        why = f"{self.kind} {change.key} {verb}"
        owners = dict.fromkeys((*_owners(change.old), *_owners(change.new)))
        for owner in self._awaited.pop(change.key, ()):
            del self.users[owner][change.key]
            owners[owner] = None
        for owner in owners:
            self._wake(owner, why)


class _OwnerReference(Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class _Metadata(Struct, rename="camel", gc=False):
    owner_references: list[_OwnerReference] | None = None


class _Object(Struct, gc=False):
    metadata: _Metadata


_objects = msgspec.json.Decoder(_Object)


def _owners(header: Header | None) -> Iterator[Owner]:
    """Who owns the object; an owner is in its namespace."""
    if header is None:
        return
    for each in _objects.decode(header.data).metadata.owner_references or ():
        group, _ = split_api_version(each.api_version)
        yield Owner((group, each.kind), Key(header.key.namespace, each.name))
