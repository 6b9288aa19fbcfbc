"""The lookup of referenced objects, for all controllers of one cluster.

Theory.      A kind is watched from the first lookup of an object of it until the last owner that looked one
             up is gone, and for ``LINGER_SECONDS`` more, because the next owner may come at once. Which
             version is watched follows from the CRD: when that is installed, removed, or has another version
             to use, the kind's informer is replaced and its owners are woken. The name of the CRD follows
             from the kind; discovery is asked only for a kind that has no CRD of that name, once for each
             change in its group.
             That a kind is not served is evidence for deletions: nothing is left of what cannot be. One
             answer of discovery is too little for that. A server that has just started, or has just stored a
             CRD, shows less in discovery than there is; so the CRDs of the group are asked, too
             (``is_served``).
             To wake an owner is to enqueue its key, with the function that its controller gave.
Invariants.  ``ControllerLookup.get`` never waits, and answers by what the watches have brought so far. An
             owner that got ``Absent`` is woken when that has changed. ``run`` owns every task. One discovery
             at a time, and none while no kind lacks its CRD.
Called by    the ``wire`` functions of worlds, which make one for each cluster and run it beside the
             controllers; reconcilers, through ``ControllerLookup``.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from msgspec import Struct, field

from kubewright.api.core import CRD
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.discovery import discover, metadata_client
from kubewright.kube.errors import TimedOut
from kubewright.kube.feed import Feed
from kubewright.kube.informer import Informer, Informers
from kubewright.kube.scope import Scope
from kubewright.runtime.references.kinds import Definitions, GroupKind, Owner, ReferencedKind, Same
from kubewright.runtime.references.reference import Absent, Answer, Cause, Reference, Version, VersionPolicy
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource

DISCOVERY_PAUSES = (0.1, 5.0)
"""Seconds before each discovery for a kind that has no CRD of the usual name: a real server serves a new kind
some seconds after its CRD was created."""

RETRY_SECONDS = 10.0
"""Pause after a discovery that failed."""

LIST_SECONDS = 60.0
"""How long a first list may take before the log says that it is late."""

LINGER_SECONDS = 60.0
"""How long a kind that no owner looks up any more stays watched."""

log = structlog.get_logger("kubewright.references")


class _Names(Struct, frozen=True):
    kind: str = ""


class _Spec(Struct, frozen=True):
    names: _Names = field(default_factory=_Names)


class _CrdNames(KubeObject, frozen=True, kw_only=True):
    spec: _Spec = field(default_factory=_Spec)


_CRD_NAMES = Kind(CRD.resource, _CrdNames)


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """Figures about one kind, for users and tests. ``version`` is empty while it is not watched."""

    kind: str
    version: str
    synced: bool
    objects: int
    owners: int


class ControllerLookup:
    """The lookup of one controller, whose owners are all of one kind: the kind that it reconciles."""

    def __init__(self, references: "References", kind: GroupKind) -> None:
        self._references = references
        self._kind = kind

    def subscribe(self, wake: Callable[[Key, str], None], same: Same | None = None) -> None:
        """Call ``wake`` with the key of each owner that is to be reconciled again, and with the reason.

        ``same``: which changes of objects no owner can see; None: it sees all.
        """
        self._references.subscribe(self._kind, wake, same)

    def get(self, owner: Key, reference: Reference) -> Answer:
        """The object that ``owner`` refers to, or why it is not there; it is woken when that changes."""
        return self._references.find(Owner(self._kind, owner), reference)

    async def is_served(self, group: str, kind: str) -> bool:
        """Whether the server serves a kind, under whatever name, or may do so in a moment: False is certain.
        It is asked now, not the caches.

        Raises:
            ApiError, TransportError: it could not be asked.
        """
        return await self._references.is_served(group, kind)

    def forget(self, owner: Key) -> None:
        """The owner does not exist any more, so it refers to nothing."""
        self._references.forget(Owner(self._kind, owner))


class References:
    """All referenced kinds of one cluster. ``client`` and ``informers`` are of that cluster."""

    def __init__(self, client: Client, informers: Informers, versions: VersionPolicy) -> None:
        self._client = client
        self._informers = informers
        self._versions = versions
        self._clock = client.clock
        self._definitions = Definitions(versions.choose, self._definitions_changed)
        self._feed = Feed(metadata_client(client), CRD.resource, Scope(), self._definitions)
        self._kinds: dict[GroupKind, ReferencedKind] = {}
        self._kinds_of: dict[Owner, dict[GroupKind, None]] = {}
        self._wakes: dict[GroupKind, Callable[[Key, str], None]] = {}
        self._same: dict[GroupKind, Same] = {}
        self._kinds_defined: dict[str, tuple[str, str]] = {}
        """By the name of a CRD: its uid and its kind, of those that had to be read."""
        self._without_crd: dict[GroupKind, bool] = {}
        """Kinds without a CRD of the usual name; True: discovery is still to be asked for them."""
        self._discovery_wanted = asyncio.Event()
        self._tasks: dict[GroupKind, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def lookup_for(self, group: str, kind: str) -> ControllerLookup:
        """The lookup for the controller of this kind; only one controller of a kind can be woken."""
        return ControllerLookup(self, (group, kind))

    def subscribe(self, kind: GroupKind, wake: Callable[[Key, str], None], same: Same | None = None) -> None:
        """As ``ControllerLookup.subscribe``."""
        self._wakes[kind] = wake
        if same is not None:
            self._same[kind] = same

    def watched(self) -> tuple[WatchedKind, ...]:
        """The kinds that owners refer to, in the order of the first lookups."""
        return tuple(_describe(each) for each in self._kinds.values())

    def find(self, owner: Owner, reference: Reference) -> Answer:
        """As ``ControllerLookup.get``."""
        group_kind = (reference.group, reference.kind)
        referenced = self._kinds.get(group_kind)
        if referenced is None:
            referenced = ReferencedKind(*group_kind, self._informers, self._wake, self._same)
            self._kinds[group_kind] = referenced
        referenced.owners.setdefault(owner, {})
        self._kinds_of.setdefault(owner, {})[group_kind] = None
        found = self._resolve(referenced)
        if isinstance(found, Absent):
            return found
        before = referenced.informer
        informer = referenced.watch(*found)
        answer = referenced.find(informer, reference, owner)
        if not referenced.listed:
            self._ensure_task(group_kind, replace=informer is not before or referenced.lingers)
        return answer

    async def is_served(self, group: str, kind: str) -> bool:
        """As ``ControllerLookup.is_served``."""
        found = await discover(self._client)
        if any((each.resource.group, each.resource.kind) == (group, kind) for each in found.served):
            return True
        unknown = any(each.partition("/")[0] == group for each in found.stale)
        if unknown or not self._definitions.complete:
            return True
        for name, uid in self._definitions.of_group(group).items():
            if await self._kind_defined_by(name, uid) == kind:
                return True
        return False

    async def _kind_defined_by(self, name: str, uid: str) -> str:
        """The kind of a CRD. Of one that was ever served it never changes, so it is read once for each uid:
        a definition may be large, and a thousand owners may be deleted at once."""
        known = self._kinds_defined.get(name, ("", ""))
        if known[0] == uid:
            return known[1]
        try:
            kind = (await self._client.get(_CRD_NAMES, Key("", name))).spec.names.kind
        except NotFound as error:
            if not error.names(name):
                raise
            return ""
        self._kinds_defined[name] = (uid, kind)
        return kind

    def forget(self, owner: Owner) -> None:
        """As ``ControllerLookup.forget``."""
        for group_kind in self._kinds_of.pop(owner, ()):
            referenced = self._kinds[group_kind]
            referenced.forget(owner)
            if not referenced.owners:
                self._ensure_task(group_kind)

    async def run(self) -> None:
        """Watch the CRDs, and start and end the watches of kinds, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                group.create_task(self._feed.run(), name="definitions of references")
                group.create_task(self._discover(), name="discovery of references")
                for group_kind in self._kinds:
                    self._ensure_task(group_kind)
                await asyncio.Event().wait()
            finally:
                self._group = None
                self._tasks.clear()

    # ------------------------------------------------------------ which version of which kind

    def _resolve(self, referenced: ReferencedKind) -> tuple[Resource, str] | Absent:
        if not self._definitions.complete:
            trouble = self._feed.counts.trouble
            message = f"the kinds of the server are not listed yet{': ' if trouble else ''}{trouble}"
            return Absent(Cause.NOT_LISTED, message, transient=not trouble)
        name = self._crd_of(referenced)
        match self._definitions.find(name):
            case None:
                group_kind = (referenced.group, referenced.kind)
                self._ask_discovery(group_kind)
                why = (
                    f"the kind {referenced} is not installed: there is no CustomResourceDefinition {name}; "
                    "is its provider installed?"
                )
                return Absent(Cause.NOT_INSTALLED, why, transient=self._without_crd[group_kind])
            case Version(version, contract):
                plural = name.removesuffix(f".{referenced.group}")
                return Resource(referenced.group, version, plural, referenced.kind), contract
            case why:
                return Absent(Cause.NO_VERSION, f"the CustomResourceDefinition {name} {why}")

    def _crd_of(self, referenced: ReferencedKind) -> str:
        return referenced.crd or self._versions.crd_name(referenced.group, referenced.kind)

    def _definitions_changed(self, names: Sequence[str], first: bool) -> None:
        """CRDs came, went or have another version to use; ``first``: now all of them are known."""
        changed, groups = frozenset(names), {name.partition(".")[2] for name in names}
        for name in names:
            self._kinds_defined.pop(name, None)
        for group_kind, referenced in tuple(self._kinds.items()):
            name = self._crd_of(referenced)
            if name in changed:
                self._without_crd.pop(group_kind, None)
                referenced.unwatch()
                referenced.crd = ""
                referenced.wake_owners(f"the CustomResourceDefinition {name} changed")
            elif referenced.informer is None and (first or referenced.group in groups):
                self._without_crd.pop(group_kind, None)
                referenced.wake_owners(f"kinds of group {referenced.group} changed")

    # ------------------------------------------------------------ discovery, for CRDs with other names

    def _ask_discovery(self, group_kind: GroupKind) -> None:
        """Have discovery asked for a kind, if that was not done since a CRD of its group changed."""
        if group_kind not in self._without_crd:
            self._without_crd[group_kind] = True
            self._discovery_wanted.set()

    async def _discover(self) -> None:
        while True:
            await self._discovery_wanted.wait()
            self._discovery_wanted.clear()
            for pause in DISCOVERY_PAUSES:
                await self._clock.sleep(pause)
                try:
                    await self._discover_once()
                except KubewrightError as error:
                    log.warning("cannot look for kinds", cluster=self._client.name, error=str(error))
                    await self._clock.sleep(RETRY_SECONDS)
                    self._discovery_wanted.set()
            if not self._discovery_wanted.is_set():
                self._conclude_discovery()

    async def _discover_once(self) -> None:
        wanted = {group_kind for group_kind, pending in self._without_crd.items() if pending}
        if not wanted:
            return
        for served in (await discover(self._client)).served:
            group_kind = (served.resource.group, served.resource.kind)
            referenced, name = self._kinds.get(group_kind), str(served.resource)
            if group_kind in wanted and referenced is not None and self._definitions.find(name) is not None:
                self._without_crd.pop(group_kind, None)
                referenced.crd = name
                referenced.wake_owners(f"the CustomResourceDefinition of kind {referenced} is {name}")

    def _conclude_discovery(self) -> None:
        """Note which kinds discovery has not found, and wake their owners: now it is certain."""
        for group_kind, pending in self._without_crd.items():
            self._without_crd[group_kind] = False
            if pending and group_kind in self._kinds:
                self._kinds[group_kind].wake_owners("the server does not serve the kind")

    # ------------------------------------------------------------ tasks: the first list, the end of a watch

    def _wake(self, owner: Owner, why: str) -> None:
        wake = self._wakes.get(owner.kind)
        if wake is not None:
            wake(owner.key, why)

    def _ensure_task(self, group_kind: GroupKind, *, replace: bool = False) -> None:
        """Start the task of this kind, if none runs; ``replace``: one that runs waits for something else."""
        known = self._tasks.get(group_kind)
        if self._group is None or (known is not None and not known.done() and not replace):
            return
        if known is not None:
            known.cancel()
        self._tasks[group_kind] = self._group.create_task(
            self._await_list_or_end(group_kind), name=f"references to {group_kind[1]}"
        )

    async def _await_list_or_end(self, group_kind: GroupKind) -> None:
        """Wait until the kind is listed; once no owner is left, end its watch after ``LINGER_SECONDS``."""
        referenced = self._kinds[group_kind]
        while (informer := referenced.informer) is not None and referenced.owners and not referenced.listed:
            await self._await_list(referenced, informer)
        if not referenced.owners:
            referenced.lingers = True
            try:
                await self._clock.sleep(LINGER_SECONDS)
            finally:
                referenced.lingers = False
            if not referenced.owners:
                referenced.unwatch()
                self._without_crd.pop(group_kind, None)
                del self._kinds[group_kind], self._tasks[group_kind]

    async def _await_list(self, referenced: ReferencedKind, informer: Informer[dict[str, object]]) -> None:
        try:
            await informer.wait_synced(LIST_SECONDS)
        except TimedOut as error:
            log.warning("a referenced kind is not listed", kind=str(referenced), error=str(error))
            referenced.wake_owners(f"objects of kind {referenced} are not listed")
            return
        if referenced.informer is informer:
            referenced.listed = True
            referenced.wake_owners(f"objects of kind {referenced} are listed")


def _describe(referenced: ReferencedKind) -> WatchedKind:
    informer = referenced.informer
    if informer is None:
        return WatchedKind(str(referenced), "", synced=False, objects=0, owners=len(referenced.owners))
    numbers = informer.statistics()
    version = informer.kind.resource.version
    return WatchedKind(str(referenced), version, numbers.synced, numbers.objects, len(referenced.owners))
