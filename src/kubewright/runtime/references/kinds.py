"""What is known of each kind that references name: its version; its informer, its owners, who waits for what.

Theory.      *Definitions* are the CRDs of a server, reduced to a name, a uid and the version to use, or why
             there is none. A CRD may be half a megabyte of schemas; the watch asks for metadata only, so a
             thousand CRDs cost less than one of them does. The version is chosen by the labels
             (``reference.VersionPolicy``). An owner that looked up an object of a kind is one of the kind's
             owners until it is gone, even when it refers to another kind by then. When the kind as a whole
             changes (it is installed, listed, removed), all of them are woken. When an object changes, those
             of them are woken that its owner references name, and those that looked it up while it did not
             name them: a provider's object names no owner until its owner has claimed it. Where owners of one
             kind cannot see any difference in a change (``Same``), it wakes none of them.
Invariants.  ``Definitions`` is a ``kube.feed.Sink``: ``changed`` is called with the names of the CRDs that
             came, went, or have another version to use than before, after all of them are in place; and at
             the end of the first list in any case, then with True. A CRD that was deleted and made again
             between two lists counts as changed. A kind has at most one informer, and none without an owner
             for longer than the registry allows. Owners are matched by group and kind, whatever version an
             owner reference says. While the first list comes in, no object wakes its owners: all are woken at
             its end.
Called by    ``registry``, which runs the feeds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from kubewright.api.kinds import Kind, dynamic
from kubewright.kube.header import Header
from kubewright.kube.informer import Change, Informer, Informers
from kubewright.runtime.references.reference import Absent, Answer, Cause, Found, Reference, Version
from kubewright.wire.gvk import Key, Resource, split_api_version
from kubewright.wire.watch import DELETED

GroupKind = tuple[str, str]
"""Group and kind, in any version."""


class Owner(NamedTuple):
    """An object that refers to others: its kind, and its key."""

    kind: GroupKind
    key: Key

    def __str__(self) -> str:
        return f"{self.kind[1]} {self.key}"


Enqueue = Callable[[Owner, str], None]
"""Enqueues an owner, with the reason."""

Same = Callable[[Mapping[str, Any], Mapping[str, Any], str], bool]
"""Whether an owner can see no difference between an object as it was and as it is, by this contract."""


class ReferencedKind:
    """A kind that owners refer to.

    ``crd``     the name of its CRD, if discovery found it under another name than the kind suggests
    ``owners``  the owners that looked up objects of it, each with the keys of the objects that it waits for
    ``listed``  the owners were woken after the first list
    ``lingers`` it has no owner, and its watch ends soon unless one comes
    """

    def __init__(
        self, group: str, kind: str, informers: Informers, wake: Enqueue, same: Mapping[GroupKind, Same]
    ) -> None:
        self.group = group
        self.kind = kind
        self.crd = ""
        self.owners: dict[Owner, dict[Key, None]] = {}
        self.informer: Informer[dict[str, Any]] | None = None
        self.listed = False
        self.lingers = False
        self._contract = ""
        self._informers = informers
        self._wake = wake
        self._same = same
        self._unsubscribe: Callable[[], None] = lambda: None
        self._waiting: dict[Key, dict[Owner, None]] = {}

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def watch(self, resource: Resource, contract: str) -> Informer[dict[str, Any]]:
        """The informer of the kind as this resource; it is started if there is none."""
        self._contract = contract
        if self.informer is not None and self.informer.kind.resource != resource:
            self.unwatch()
        if self.informer is None:
            kind: Kind[dict[str, Any]] = dynamic(resource, shared=True)
            self.informer = self._informers.get(kind)
            self._unsubscribe = self.informer.subscribe(self._changed)
        return self.informer

    def find(self, informer: Informer[dict[str, Any]], reference: Reference, owner: Owner) -> Answer:
        """The object, in the informer that ``watch`` gave; ``owner`` is woken when it next changes or is
        made."""
        if not informer.synced:
            self.listed = False
            trouble = informer.statistics().trouble
            message = f"the objects of kind {self} are not listed yet{': ' if trouble else ''}{trouble}"
            return Absent(Cause.NOT_SYNCED, message, transient=not trouble)
        header = informer.header(reference.key)
        if owner not in _owners(header):  # else its owner references say whom to wake
            self._waiting.setdefault(reference.key, {})[owner] = None
            self.owners[owner][reference.key] = None
        found = informer.get(reference.key)
        if found is None:
            return Absent(Cause.MISSING, f"there is no {reference}")
        return Found(found, informer.kind, self._contract)

    def forget(self, owner: Owner) -> None:
        """The owner is gone, and needs no object of the kind any more."""
        for key in tuple(self.owners.get(owner, ())):
            self._stop_waiting(owner, key)
        self.owners.pop(owner, None)

    def _stop_waiting(self, owner: Owner, key: Key) -> None:
        del self.owners[owner][key]
        waiting = self._waiting[key]
        del waiting[owner]
        if not waiting:
            del self._waiting[key]

    def wake_owners(self, why: str) -> None:
        """Wake all owners of the kind."""
        for owner in tuple(self.owners):
            self._wake(owner, why)

    def unwatch(self) -> None:
        """End the watch of the kind."""
        informer, self.informer, self.listed = self.informer, None, False
        if informer is not None:
            self._unsubscribe()
            self._informers.release(informer)

    def _changed(self, change: Change[dict[str, Any]]) -> None:
        if not self.listed:
            return
        verb = "added" if change.old is None else "gone" if change.new is None else "changed"
        why = f"{self.kind} {change.key} {verb}"
        waiting = self._waiting.get(change.key, {})
        named = (each for each in (*_owners(change.old), *_owners(change.new)) if each in self.owners)
        owners = dict.fromkeys((*named, *waiting))
        alike = {kind for kind in {each.kind for each in owners} if self._alike(kind, change)}
        for owner in owners:
            if owner.kind in alike:
                continue
            if owner in waiting:
                self._stop_waiting(owner, change.key)
            self._wake(owner, why)

    def _alike(self, kind: GroupKind, change: Change[dict[str, Any]]) -> bool:
        """Whether no owner of this kind can see what has changed."""
        if (same := self._same.get(kind)) is None:
            return False
        before, after = change.before(), change.after()
        return before is not None and after is not None and same(before, after, self._contract)


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
    """The owners in the owner references of an object; they are in its namespace."""
    if header is None:
        return
    for each in _objects.decode(header.data).metadata.owner_references or ():
        group, _ = split_api_version(each.api_version)
        yield Owner((group, each.kind), Key(header.key.namespace, each.name))


Choose = Callable[[Mapping[str, str]], Version | str]


@dataclass(frozen=True, slots=True)
class _Definition:
    uid: str
    choice: Version | str


class Definitions:
    """What is known of all CRDs. ``complete``: the first list was read to its end."""

    def __init__(self, choose: Choose, changed: Callable[[Sequence[str], bool], None]) -> None:
        self.seen = 0
        self.complete = False
        self._choose = choose
        self._changed = changed
        self._known: dict[str, _Definition] = {}
        self._pages: dict[str, _Definition] = {}

    def find(self, name: str) -> Version | str | None:
        """The version of a CRD to use, or why it has none; None: there is no such CRD."""
        found = self._known.get(name)
        return None if found is None else found.choice

    def of_group(self, group: str) -> dict[str, str]:
        """The uids of the CRDs of a group, by their names."""
        return {name: each.uid for name, each in self._known.items() if name.partition(".")[2] == group}

    def begin(self) -> None:
        """A list is about to be asked for."""
        self._pages = {}

    def page(self, version: int, items: list[Header]) -> None:
        """One page of it."""
        self.seen = version
        self._pages.update({header.key.name: self._read(header) for header in items})

    def end(self) -> None:
        """That was the last page."""
        before, self._known, self._pages = self._known, self._pages, {}
        first, self.complete = not self.complete, True
        names = [name for name in {**before, **self._known} if before.get(name) != self._known.get(name)]
        if names or first:
            self._changed(names, first)

    def event(self, kind: str, header: Header) -> None:
        """An ADDED, MODIFIED or DELETED."""
        self.seen = header.version
        name = header.key.name
        before = self._known.pop(name, None)
        if kind != DELETED:
            self._known[name] = self._read(header)
        if before != self._known.get(name):
            self._changed([name], False)

    def bookmark(self, version: int) -> None:
        """Nothing else happened up to ``version``."""
        self.seen = version

    def _read(self, header: Header) -> _Definition:
        return _Definition(header.uid, self._choose(header.labels))
