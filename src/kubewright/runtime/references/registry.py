"""The lookup of referenced objects, for all controllers of one cluster.

Theory.      A kind is watched from the first lookup that names it until the last of its users is forgotten,
             and a while longer, because the next user may come at once. Which version is watched follows
             from the CRD: when that is installed, removed, or offers another version, the kind's informer is
             replaced and its users look again. The name of the CRD follows from the kind; only for a kind
             whose CRD has another name is discovery asked, once for each change in its group.
Invariants.  ``User.get`` never waits, and what it answers is current as far as the server has told. Who got
             ``Absent`` is woken when that has changed. ``run`` owns every task. One discovery at a time, and
             none while nothing is looked for.
Called by    the ``wire`` functions of worlds, which make one for each cluster and run it beside the
             controllers; reconcilers, through ``User``.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from kubewright.api.core import CRD
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.discovery import discover
from kubewright.kube.errors import TimedOut
from kubewright.kube.feed import Feed
from kubewright.kube.informer import Informer
from kubewright.kube.informers import Informers
from kubewright.kube.metadata import metadata_client
from kubewright.kube.scope import Scope
from kubewright.runtime.references.definitions import Definitions
from kubewright.runtime.references.kinds import Owner, OwnerKind, UsedKind
from kubewright.runtime.references.reference import (
    Absent,
    Answer,
    Cause,
    Reference,
    Version,
    Versions,
)
from kubewright.wire.gvk import Key, Resource

DISCOVERY_PAUSES = (0.1, 5.0)
"""Seconds before each discovery for a kind that has no CRD of the usual name: a real server lags behind."""

RETRY_SECONDS = 10.0
"""Pause after a discovery that failed."""

FILL_SECONDS = 60.0
"""How long a first list may take before the log says that it is late."""

LINGER_SECONDS = 60.0
"""How long a kind without users stays watched."""

log = structlog.get_logger("kubewright.references")


@dataclass(frozen=True, slots=True)
class Watched:
    """A picture of one kind in use, for people and tests. ``version`` is empty while it is not watched."""

    kind: str
    version: str
    synced: bool
    objects: int
    users: int


class User:
    """The lookup of one controller, whose keys name objects of one kind."""

    def __init__(self, references: "References", kind: OwnerKind) -> None:
        self._references = references
        self._kind = kind

    def wakes(self, wake: Callable[[Key, str], None]) -> None:
        """Call ``wake`` with the key of each owner that is to look again, and with the reason."""
        self._references.wakes(self._kind, wake)

    def get(self, owner: Key, reference: Reference) -> Answer:
        """The object that ``owner`` refers to, or why it is not there; it is woken when that changes."""
        return self._references.find(Owner(self._kind, owner), reference)

    def forget(self, owner: Key) -> None:
        """The object of this key is gone, and refers to nothing any more."""
        self._references.forget(Owner(self._kind, owner))


class References:
    """All referenced kinds of one cluster. ``client`` and ``informers`` are of that cluster."""

    def __init__(self, client: Client, informers: Informers, versions: Versions) -> None:
        self._client = client
        self._informers = informers
        self._versions = versions
        self._clock = client.clock
        self._definitions = Definitions(versions.choose, self._definitions_changed)
        self._feed = Feed(metadata_client(client), CRD.resource, Scope(), self._definitions)
        self._kinds: dict[tuple[str, str], UsedKind] = {}
        self._used_by: dict[Owner, dict[tuple[str, str], None]] = {}
        self._wakes: dict[OwnerKind, Callable[[Key, str], None]] = {}
        self._listed = False
        self._unfound: dict[tuple[str, str], bool] = {}
        """Kinds without a CRD of the usual name, and whether discovery is still asked for them."""
        self._looked_for = asyncio.Event()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def user(self, group: str, kind: str) -> User:
        """The lookup for the controller of this kind; only one controller of a kind can be woken."""
        return User(self, (group, kind))

    def wakes(self, kind: OwnerKind, wake: Callable[[Key, str], None]) -> None:
        """As ``User.wakes``."""
        self._wakes[kind] = wake

    def watched(self) -> tuple[Watched, ...]:
        """The kinds in use, in the order of their first use."""
        return tuple(_picture(each) for each in self._kinds.values())

    def find(self, owner: Owner, reference: Reference) -> Answer:
        """As ``User.get``."""
        place = (reference.group, reference.kind)
        used = self._kinds.get(place)
        if used is None:
            used = self._kinds[place] = UsedKind(*place, self._informers, self._wake)
        used.users.setdefault(owner, {})
        self._used_by.setdefault(owner, {})[place] = None
        found = self._resolve(used)
        if isinstance(found, Absent):
            return found
        before, informer = used.informer, used.follow(*found)
        answer = used.find(reference, owner)
        if not used.listed:
            self._attend_to(place, anew=informer is not before)
        return answer

    def forget(self, owner: Owner) -> None:
        """As ``User.forget``."""
        for place in self._used_by.pop(owner, ()):
            used = self._kinds[place]
            used.forget(owner)
            if not used.users:
                self._attend_to(place)

    async def run(self) -> None:
        """Follow the CRDs and the kinds in use until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                group.create_task(self._feed.run(), name="definitions of references")
                group.create_task(self._discover(), name="discovery of references")
                for place in self._kinds:
                    self._attend_to(place)
                await asyncio.Event().wait()
            finally:
                self._group = None
                self._tasks.clear()

    # ------------------------------------------------------------ which version of which kind

    def _resolve(self, used: UsedKind) -> tuple[Resource, str] | Absent:
        if not self._definitions.complete:
            trouble = self._feed.counts.trouble
            message = f"the kinds of the server are not listed yet{': ' if trouble else ''}{trouble}"
            return Absent(Cause.NOT_LISTED, message, passing=not trouble)
        name = self._crd_of(used)
        match self._definitions.find(name):
            case None:
                self._look_for(place := (used.group, used.kind))
                missing = f"the kind {used} is not installed: there is no CustomResourceDefinition {name}"
                builtin = f"the kind {used} is one of Kubernetes' own, not a provider's"
                why = missing if used.group else builtin
                return Absent(Cause.NOT_INSTALLED, why, passing=self._unfound[place])
            case Version(version, contract):
                plural = name.removesuffix(f".{used.group}")
                return Resource(used.group, version, plural, used.kind), contract
            case why:
                return Absent(Cause.NO_VERSION, f"the CustomResourceDefinition {name} {why}")

    def _crd_of(self, used: UsedKind) -> str:
        return used.crd or self._versions.crd_name(used.group, used.kind)

    def _definitions_changed(self, names: Sequence[str]) -> None:
        """CRDs came, went or offer other versions; the first time, all of them are known now."""
        first, self._listed = not self._listed, True
        changed, groups = frozenset(names), {name.partition(".")[2] for name in names}
        for place, used in tuple(self._kinds.items()):
            name = self._crd_of(used)
            if name in changed:
                used.drop()
                used.crd = ""
                used.wake_users(f"the CustomResourceDefinition {name} changed")
            elif used.informer is None and (first or used.group in groups):
                self._unfound.pop(place, None)
                used.wake_users(f"kinds of group {used.group} changed")

    # ------------------------------------------------------------ discovery, for CRDs with other names

    def _look_for(self, place: tuple[str, str]) -> None:
        """Look for a kind by discovery, if that was not done since a CRD of its group changed."""
        if place not in self._unfound:
            self._unfound[place] = True
            self._looked_for.set()

    async def _discover(self) -> None:
        while True:
            await self._looked_for.wait()
            self._looked_for.clear()
            for pause in DISCOVERY_PAUSES:
                await self._clock.sleep(pause)
                try:
                    await self._discover_once()
                except KubewrightError as error:
                    log.warning("cannot look for kinds", cluster=self._client.name, error=str(error))
                    await self._clock.sleep(RETRY_SECONDS)
                    self._looked_for.set()
            if not self._looked_for.is_set():
                self._give_up()

    async def _discover_once(self) -> None:
        wanted = {place for place, looked_for in self._unfound.items() if looked_for}
        if not wanted:
            return
        for served in (await discover(self._client)).served:
            place = (served.resource.group, served.resource.kind)
            used, name = self._kinds.get(place), str(served.resource)
            if place in wanted and used is not None and self._definitions.find(name) is not None:
                self._unfound.pop(place, None)
                used.crd = name
                used.wake_users(f"the CustomResourceDefinition of kind {used} is {name}")

    def _give_up(self) -> None:
        """Note which kinds discovery does not know, and wake their users: now it is certain."""
        for place, looked_for in self._unfound.items():
            self._unfound[place] = False
            if looked_for and place in self._kinds:
                self._kinds[place].wake_users("the server does not serve the kind")

    # ------------------------------------------------------------ tasks: a first list, a last user

    def _wake(self, owner: Owner, why: str) -> None:
        wake = self._wakes.get(owner.kind)
        if wake is not None:
            wake(owner.key, why)

    def _attend_to(self, place: tuple[str, str], *, anew: bool = False) -> None:
        """Have a task for this kind, if none is there; ``anew``: the one that is there waits for the past."""
        known = self._tasks.get(place)
        if self._group is None or (known is not None and not known.done() and not anew):
            return
        if known is not None:
            known.cancel()
        self._tasks[place] = self._group.create_task(self._attend(place), name=f"references to {place[1]}")

    async def _attend(self, place: tuple[str, str]) -> None:
        """Wait until the kind is listed, or until it has had no user for a while; then do what follows."""
        used = self._kinds[place]
        while (informer := used.informer) is not None and used.users and not used.listed:
            await self._filled(used, informer)
        if not used.users:
            await self._clock.sleep(LINGER_SECONDS)
            if not used.users:
                used.drop()
                self._unfound.pop(place, None)
                del self._kinds[place], self._tasks[place]

    async def _filled(self, used: UsedKind, informer: Informer[dict[str, object]]) -> None:
        try:
            await informer.wait_synced(FILL_SECONDS)
        except TimedOut as error:
            log.warning("a referenced kind is not listed", kind=str(used), error=str(error))
            used.wake_users(f"objects of kind {used} are not listed")
            return
        if used.informer is informer:
            used.listed = True
            used.wake_users(f"objects of kind {used} are listed")


def _picture(used: UsedKind) -> Watched:
    informer = used.informer
    if informer is None:
        return Watched(str(used), "", synced=False, objects=0, users=len(used.users))
    numbers = informer.statistics()
    version = informer.kind.resource.version
    return Watched(str(used), version, numbers.synced, numbers.objects, len(used.users))
