"""Carry snapshots and restores out: take a snapshot, delete its file, put one in the place of the data.

Taking.      The data is copied into a temporary folder, checked there, and put into the store; only then the
             status says that the snapshot is complete. After an interruption the snapshot is taken again from
             the start, unless its file is in the store: then that is the snapshot. While the store cannot say
             whether it has one, nothing is taken.
Failures.    A step that fails is reported in the status and by an event, and tried again as its error says:
             also where that waits for a change, since what a user mends on a machine or in a store changes no
             object. The deletion of an object is tried again in time, whatever the error says.
Invariants.  A whole file in the store is never replaced: a write of the status whose answer was lost may have
             said its hash. So a process that does not lead any more keeps none, and gives no host a file. The
             file that a host is given was verified after it was fetched, in a temporary folder of ours. The
             annotation that stops a control plane is patched onto the version that was read, so two restores
             never both stop it. No content of a file or of a Secret is in a log or in a status.
Called by    ``wiring``.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import structlog

from kubewright.api.controlplane.names import (
    FINALIZER,
    RESTORE_REPORTER,
    RESTORING_ANNOTATION,
    SCHEDULE_LABEL,
    SCHEDULE_REPORTER,
    SNAPSHOT_REPORTER,
    Component,
)
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
    ControlPlaneRestore,
    ControlPlaneRestoreStatus,
    ControlPlaneSnapshot,
    ControlPlaneSnapshotSchedule,
    ControlPlaneSnapshotScheduleStatus,
    ControlPlaneSnapshotStatus,
)
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NestedControlPlane
from kubewright.api.controlplane.validate import validate_restore, validate_schedule, validate_snapshot
from kubewright.api.faults import summary
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Event, Plan
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.component.policies import ETCD, etcd_addresses, etcd_urls
from kubewright.controlplanes.component.seen import identity_of
from kubewright.controlplanes.component.workload import endpoints
from kubewright.controlplanes.etcd import Streamed, credentials_of
from kubewright.controlplanes.family import Family, pause_of_family
from kubewright.controlplanes.hosting.contract import (
    Hosts,
    Replaced,
    Replacement,
    ReplacesData,
    Running,
    SavesData,
    WorkloadIdentity,
)
from kubewright.controlplanes.members import Credentials, Endpoint
from kubewright.controlplanes.snapshots import files, once, restoring, schedules, taking
from kubewright.controlplanes.snapshots.restoring import Source
from kubewright.controlplanes.snapshots.stores import Store, Stores, scratch
from kubewright.kube.client import Client
from kubewright.kube.errors import Deposed, MayBeGone, TransportError
from kubewright.kube.patches import onto
from kubewright.kube.transport import NOT_SURE, Entitled
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound
from kubewright.wire.gvk import Key

DEADLINE_SECONDS = 1800.0
"""How long one snapshot may take; or fetching a file, or putting it in place."""

Stream = Callable[[Sequence[Endpoint], Credentials, Path], Awaitable[Streamed]]
"""Copies the data of an etcd into a file: ``etcd.stream``."""

BY_SCHEDULE = "snapshots-by-schedule"
"""Snapshots by ``namespace/name`` of the schedule that created them."""

log = structlog.get_logger(__name__)


class NotTaken(KubewrightError):
    """A snapshot could not be taken; the message says why."""


def file_of(snapshot: ControlPlaneSnapshot) -> str:
    """The name of the file of a snapshot; it ends with the uid, so no other object ever has the same."""
    spec = snapshot.spec
    return f"{snapshot.namespace}/{spec.control_plane_name}/{snapshot.name}-{snapshot.metadata.uid}"


class Taker:
    """Performs the steps of snapshots, while this process leads."""

    def __init__(self, client: Client, hosts: Hosts, stream: Stream, entitled: Entitled) -> None:
        self._client = client
        self._stream = stream
        self._hosts = hosts
        self._stores = Stores(client, hosts.snapshots, entitled)

    async def take(self, snapshot: ControlPlaneSnapshot, family: Family) -> files.Taken:
        """Copy the data and keep the file.

        Raises:
            NotTaken: it did not work this time.
            KubewrightError: the store, or what is in a Secret, does not let us.
        """
        store = await self._stores.of(snapshot.spec.location, snapshot.namespace)
        with scratch(self._hosts.snapshots) as folder:
            path = folder / "snapshot"
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    if (kept := await self._kept(store, snapshot, family, folder / "kept")) is not None:
                        return kept
                    form, version, member = await self._copy(family, path)
                    taken = await asyncio.to_thread(files.described, path, form, version, member)
                    await store.put(file_of(snapshot), path)
            except TimeoutError:
                raise NotTaken(f"it was not complete within {DEADLINE_SECONDS:g} seconds") from None
            except OSError as error:
                raise NotTaken(f"its file cannot be written: {error.strerror or error}") from None
        log.info("snapshot", snapshot=snapshot.name, bytes=taken.size)
        return taken

    async def _kept(
        self, store: Store, snapshot: ControlPlaneSnapshot, family: Family, path: Path
    ) -> files.Taken | None:
        """What an earlier attempt has put into the store; None: no whole file.

        Raises:
            StoreFailed: it cannot be read now, so a whole one may be there.
        """
        try:
            await store.fetch(file_of(snapshot), path)
            form = await asyncio.to_thread(files.format_of, path)
            etcd = family.components.get(Component.ETCD)
            version = etcd.status.version if etcd is not None else ""
            return await asyncio.to_thread(files.described, path, form, version)
        except (files.NotKept, files.Damaged):
            return None

    async def delete_file(self, snapshot: ControlPlaneSnapshot) -> None:
        """Delete the file of a snapshot.

        Raises:
            KubewrightError: it did not work this time.
        """
        store = await self._stores.of(snapshot.spec.location, snapshot.namespace)
        await store.delete(file_of(snapshot))

    async def _copy(self, family: Family, path: Path) -> tuple[str, str, str]:
        """Copy the data into a file; returns its format, and the version and the name of the member."""
        etcd = family.components.get(Component.ETCD)
        identity = identity_of(etcd, ETCD, family) if etcd is not None else None
        held, running = self._hosts.holding(identity) if identity is not None else (None, Running())
        host: object = held
        if etcd is not None and identity is not None and isinstance(host, SavesData):
            await host.save_data(identity, path)
            return files.EMBEDDED, etcd.status.version, ""
        own = await credentials_of(self._client, family)
        there = endpoints(running) or [Endpoint(each) for each in etcd_urls(family)]
        version, member = await self._stream(there, own, path)
        names = (each.name for each in running.instances if not each.ending)
        known = dict(zip(endpoints(running), names, strict=True))
        return files.ETCD, version, known.get(member, member.url)


TOO_LONG = f"it did not end within {DEADLINE_SECONDS:g} seconds"


class NotRestored(KubewrightError):
    """A step of a restore failed; the message says why."""


class Restorer:
    """Performs the steps of restores, while this process leads."""

    def __init__(self, client: Client, hosts: Hosts, entitled: Entitled) -> None:
        self._client = client
        self._hosts = hosts
        self._entitled = entitled
        self._stores = Stores(client, hosts.snapshots, entitled)

    def unable(self, family: Family, form: str) -> str:
        """Why the data of this control plane cannot be replaced by a file of this format; empty: it can.

        A format that is not known yet is no reason.
        """
        identity, host = self._etcd_host(family)
        if identity is None:
            return f"NestedControlPlane {family.plane.name} has no NestedEtcd whose data could be replaced"
        if host is None:
            return f"nothing of NestedEtcd {identity.object.name} runs here, so there is no data to replace"
        has = files.EMBEDDED if host is self._hosts.embedded else files.ETCD
        if form and form != has:
            told = f"a snapshot of format {form} cannot take the place of the data of"
            return f"{told} NestedEtcd {identity.object.name}, which has format {has}"
        if not isinstance(host, ReplacesData):
            return f"the data of NestedEtcd {identity.object.name} cannot be replaced where it runs"
        return host.lacks_to_replace()

    async def verify(self, family: Family, source: Source) -> None:
        """Fetch a file, and compare its hash and its format.

        Raises:
            KubewrightError: it is not there, is not what was taken, or is that of another kind of etcd.
        """
        async with self._fetched(family, source):
            log.info("verified", plane=family.plane.name, source=source.told)

    async def replace(self, family: Family, source: Source, mark: str) -> Replaced:
        """Replace the data by that of a file, as far as that can be done now.

        Raises:
            Deposed: this process does not lead any more.
            KubewrightError: it did not work this time.
        """
        identity, host = self._etcd_host(family)
        assert identity is not None, "without a NestedEtcd there is nothing to replace"
        assert isinstance(host, ReplacesData), "``unable`` reports other hosts"
        by = Replacement(
            mark,
            len(etcd_addresses(family)) or 1,
            lambda: self._given(family, source),
            lambda: credentials_of(self._client, family),
        )
        self._check(family)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                done = await host.replace_data(identity, by)
        except TimeoutError:
            raise NotRestored(TOO_LONG) from None
        except OSError as error:  # of the host's machine: it starts programs, and connects to pods
            raise NotRestored(f"the data cannot be replaced: {error.strerror or error}") from None
        log.info(
            "replaced", plane=family.plane.name, source=source.told, former=done.former, waits=done.waits
        )
        return done

    async def hold(self, plane: NestedControlPlane, restore: str) -> None:
        """Write the annotation by which components stop for this restore; empty: remove it, so they start."""
        body = onto({"metadata": {"annotations": {RESTORING_ANNOTATION: restore or None}}}, plane.metadata)
        with MayBeGone(plane.name):
            await self._client.patch(NESTED_CONTROL_PLANE, Key(plane.namespace, plane.name), body)

    def _etcd_host(self, family: Family) -> tuple[WorkloadIdentity | None, object]:
        etcd = family.components.get(Component.ETCD)
        identity = identity_of(etcd, ETCD, family) if etcd is not None else None
        return identity, self._hosts.holding(identity)[0] if identity is not None else None

    def _check(self, family: Family) -> None:
        """Ask, right before data is replaced, whether another process may lead by now."""
        if not self._entitled():
            raise Deposed(f"the data of {family.plane.name} is not replaced: {NOT_SURE}")

    @asynccontextmanager
    async def _given(self, family: Family, source: Source) -> AsyncIterator[Path]:
        """A file, verified, for a host that is to replace data by it."""
        async with self._fetched(family, source) as path:
            self._check(family)
            yield path

    @asynccontextmanager
    async def _fetched(self, family: Family, source: Source) -> AsyncIterator[Path]:
        """A file, verified, for as long as it is used."""
        store = await self._stores.of(source.location, family.plane.namespace)
        with scratch(self._hosts.snapshots) as folder:
            path = folder / "snapshot"
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    await store.fetch(source.file, path)
                    form = await asyncio.to_thread(files.verify, path, source.sha256)
            except TimeoutError:
                raise NotRestored(TOO_LONG) from None
            except OSError as error:
                raise NotRestored(f"the file cannot be read: {error.strerror or error}") from None
            if told := self.unable(family, form):
                raise NotRestored(told)
            yield path


class StepFailed(KubewrightError):
    """A step failed; it is tried again as its error says, and in time."""

    def __init__(self, error: KubewrightError) -> None:
        super().__init__(str(error))
        self.retry = delays.in_time(error.retry)


Obj = TypeVar("Obj", bound=ControlPlaneSnapshot | ControlPlaneRestore)
View = TypeVar("View", bound=once.Seen[Any])


class Once(ObjectReconciler[Obj, View, Plan[Any]]):
    """The reconciler of objects that are carried out once."""

    async def carry_out(self, found: Obj, seen: View, plan: Plan[Any]) -> Result:
        """As ``ObjectReconciler.carry_out``; what failed is in the status before it is tried again.

        Raises:
            ApiError, TransportError: as there.
            StepFailed: a step did not work this time.
        """
        try:
            return await super().carry_out(found, seen, plan)
        except (ApiError, TransportError):
            raise
        except KubewrightError as error:
            await self.report(found, replace(seen, failed=str(error)), plan, Outcome(found.metadata))
            if found.metadata.deleting:
                return Result.later(delays.UNHEARD)
            raise StepFailed(error) from error

    def events(self, seen: View, plan: Plan[Any], status: Any, *, written: bool) -> Iterable[Event]:
        """What is new, and what failed."""
        yield from self.news(seen, plan, status)
        if seen.failed:
            yield Event("Failed", seen.failed, warning=True)

    @abstractmethod
    def news(self, seen: View, plan: Plan[Any], status: Any) -> Iterable[Event]:
        """What users are told when this status is written."""


class Snapshots(Once[ControlPlaneSnapshot, taking.Seen]):
    """The reconciler of ControlPlaneSnapshots."""

    def __init__(self, environment: Environment, caches: Caches, hosts: Hosts, stream: Stream) -> None:
        client, informers = environment.control.client, environment.control.caches
        recorder = ComponentRecorder(environment.recorder, SNAPSHOT_REPORTER)
        super().__init__(client, informers.get(CONTROL_PLANE_SNAPSHOT), recorder, finalizer=FINALIZER)
        self._caches = caches
        self._taker = Taker(client, hosts, stream, environment.entitled)
        self._restores = informers.get(CONTROL_PLANE_RESTORE)

    async def look(self, found: ControlPlaneSnapshot) -> taking.Seen:
        """Read one snapshot, its control plane, and the restore that needs its file."""
        family = self._family(found)
        return taking.Seen(
            found,
            self.client.clock.now(),
            pause=pause_of_family(found.metadata, family),
            problem=summary(validate_snapshot(found)),
            waiting=_waiting(found, family),
            needed_by=self._needed_by(found),
        )

    def decide(self, seen: taking.Seen) -> Plan[taking.Step]:
        """As ``taking.decide``."""
        return taking.decide(seen)

    def act(self, seen: taking.Seen, step: taking.Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case once.AddFinalizer():
                return self.add_finalizer(outcome)
            case once.RemoveFinalizer():
                return self.remove_finalizer(outcome)
            case taking.Take():
                return self._take(seen, outcome)
            case taking.DeleteFile():
                return self._taker.delete_file(seen.found)

    def status(
        self, seen: taking.Seen, plan: Plan[taking.Step], outcome: Outcome
    ) -> ControlPlaneSnapshotStatus:
        """As ``taking.status_of``."""
        return taking.status_of(seen, file_of(seen.found))

    def news(self, seen: taking.Seen, plan: Plan[Any], status: ControlPlaneSnapshotStatus) -> Iterable[Event]:
        """That it is taken."""
        if status.ready and not seen.found.status.ready:
            yield Event("Taken", f"{status.size} bytes are kept as {status.file}")

    async def _take(self, seen: taking.Seen, outcome: Outcome) -> None:
        family = self._family(seen.found)
        assert family is not None, "without a control plane it waits"
        outcome.seen = replace(seen, taken=await self._taker.take(seen.found, family))

    def _needed_by(self, found: ControlPlaneSnapshot) -> str:
        """The restore that has begun to replace data by this snapshot, and has not ended."""
        name, there = file_of(found), self._restores.list(found.namespace)
        begun = ((each.name, each.status.source) for each in there if each.status.replaced_at is None)
        return next((restore for restore, file in begun if file is not None and file.name == name), "")

    def _family(self, found: ControlPlaneSnapshot) -> Family | None:
        plane = self._caches.planes.get(Key(found.namespace, found.spec.control_plane_name))
        return self._caches.family_of(plane) if plane is not None else None


def _waiting(found: ControlPlaneSnapshot, family: Family | None) -> str:
    """Why there is nothing to copy yet; empty: there is."""
    if family is None:
        return f"there is no NestedControlPlane {found.spec.control_plane_name}"
    plane = family.plane.name
    if family.restore:
        return f"ControlPlaneRestore {family.restore} replaces the data of NestedControlPlane {plane}"
    etcd = family.components.get(Component.ETCD)
    if etcd is None:
        return "" if etcd_addresses(family) else f"NestedControlPlane {plane} has no etcd yet"
    return "" if etcd.status.ready else f"NestedEtcd {etcd.name} is not ready"


class Restores(Once[ControlPlaneRestore, restoring.Seen]):
    """The reconciler of ControlPlaneRestores."""

    def __init__(self, environment: Environment, caches: Caches, hosts: Hosts) -> None:
        client, informers = environment.control.client, environment.control.caches
        recorder = ComponentRecorder(environment.recorder, RESTORE_REPORTER)
        super().__init__(client, informers.get(CONTROL_PLANE_RESTORE), recorder, finalizer=FINALIZER)
        self._caches = caches
        self._restorer = Restorer(client, hosts, environment.entitled)
        self.snapshots = informers.get(CONTROL_PLANE_SNAPSHOT)

    async def look(self, found: ControlPlaneRestore) -> restoring.Seen:
        """Read one restore and all around it. Once the replacement has begun, the spec counts no more."""
        snapshot = self.snapshots.get(Key(found.namespace, found.spec.snapshot_name))
        named = Key(found.namespace, restoring.plane_name(found, snapshot))
        plane = self._held(found) or self._caches.planes.get(named)
        family = self._caches.family_of(plane) if plane is not None else None
        holder = Key(found.namespace, family.restore) if family is not None and family.restore else None
        done = found.status.source is not None or found.status.replaced_at is not None
        source = restoring.source_of(found, snapshot)
        return restoring.Seen(
            found,
            self.client.clock.now(),
            pause=pause_of_family(found.metadata, family),
            problem="" if done else summary(validate_restore(found)),
            snapshot=snapshot,
            family=family,
            abandoned=holder is not None and self.objects.get(holder) is None,
            unable=self._unable(family, source),
        )

    def decide(self, seen: restoring.Seen) -> Plan[restoring.Step]:
        """As ``restoring.decide``."""
        return restoring.decide(seen)

    def act(self, seen: restoring.Seen, step: restoring.Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case once.AddFinalizer():
                return self.add_finalizer(outcome)
            case once.RemoveFinalizer():
                return self.remove_finalizer(outcome)
            case restoring.Stop():
                return self._hold(seen, seen.found.name)
            case restoring.Release():
                return self._hold(seen, "")
            case restoring.Begin():
                outcome.seen = replace(seen, begun=True)
                return None
            case restoring.Verify():
                return self._restorer.verify(*_known(seen))
            case restoring.ReplaceData():
                return self._replace(seen, outcome)

    def status(
        self, seen: restoring.Seen, plan: Plan[restoring.Step], outcome: Outcome
    ) -> ControlPlaneRestoreStatus:
        """As ``restoring.status_of``."""
        return restoring.status_of(seen)

    def news(
        self, seen: restoring.Seen, plan: Plan[Any], status: ControlPlaneRestoreStatus
    ) -> Iterable[Event]:
        """How far it is."""
        if status.phase != seen.found.status.phase:
            yield Event(status.phase, plan.because or "its control plane is ready")

    async def _hold(self, seen: restoring.Seen, restore: str) -> None:
        assert seen.family is not None, "without a control plane it waits"
        await self._restorer.hold(seen.family.plane, restore)

    async def _replace(self, seen: restoring.Seen, outcome: Outcome) -> None:
        done = await self._restorer.replace(*_known(seen), seen.found.metadata.uid)
        outcome.seen = replace(seen, replaced=done)

    def _unable(self, family: Family | None, source: Source | None) -> str:
        if family is None or source is None:
            return ""
        etcd = family.components.get(Component.ETCD)
        if etcd is not None and (rival := self._caches.rival_of(Component.ETCD, etcd.metadata)):
            return f"the data that NestedEtcd {etcd.name} would have is that of {rival}"
        return self._restorer.unable(family, source.format)

    def _held(self, found: ControlPlaneRestore) -> NestedControlPlane | None:
        """The control plane that is stopped for this restore; it is found even if the snapshot is gone."""
        there = self._caches.planes.list(found.namespace)
        named = (each for each in there if each.metadata.annotations.get(RESTORING_ANNOTATION) == found.name)
        return next(named, None)


def _known(seen: restoring.Seen) -> tuple[Family, Source]:
    assert seen.family is not None, "without a control plane it waits"
    assert seen.source is not None, "without a file it waits"
    return seen.family, seen.source


class Schedules(ObjectReconciler[ControlPlaneSnapshotSchedule, schedules.Seen, schedules.Plan]):
    """The reconciler of ControlPlaneSnapshotSchedules."""

    def __init__(self, environment: Environment, caches: Caches) -> None:
        informers = environment.control.caches
        recorder = ComponentRecorder(environment.recorder, SCHEDULE_REPORTER)
        super().__init__(environment.control.client, informers.get(CONTROL_PLANE_SNAPSHOT_SCHEDULE), recorder)
        self._caches = caches
        self.snapshots = informers.get(CONTROL_PLANE_SNAPSHOT)
        self.restores = informers.get(CONTROL_PLANE_RESTORE)
        self.snapshots.index(BY_SCHEDULE, schedules_of)

    async def look(self, found: ControlPlaneSnapshotSchedule) -> schedules.Seen:
        """Read one schedule, its snapshots, and the restores that need some of them."""
        plane = self._caches.planes.get(Key(found.namespace, found.spec.control_plane_name))
        family = self._caches.family_of(plane) if plane is not None else None
        restores = self.restores.list(found.namespace)
        return schedules.Seen(
            found,
            self.client.clock.now(),
            snapshots=tuple(self.snapshots.by(BY_SCHEDULE, str(Key(found.namespace, found.name)))),
            needed=frozenset(name for each in restores if (name := needed(each))),
            pause=pause_of_family(found.metadata, family),
            problem=summary(validate_schedule(found)),
        )

    def decide(self, seen: schedules.Seen) -> schedules.Plan:
        """As ``schedules.decide``."""
        return schedules.decide(seen)

    def act(self, seen: schedules.Seen, step: schedules.Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case schedules.Create(snapshot):
                return self._create(snapshot)
            case schedules.Delete(snapshot):
                return self._delete(snapshot)

    def status(
        self, seen: schedules.Seen, plan: schedules.Plan, outcome: Outcome
    ) -> ControlPlaneSnapshotScheduleStatus:
        """As ``schedules.status_of``."""
        return schedules.status_of(seen, plan)

    async def _create(self, snapshot: ControlPlaneSnapshot) -> None:
        with suppress(AlreadyExists):  # an earlier pass did not come to write the status
            await self.client.create(CONTROL_PLANE_SNAPSHOT, snapshot)
        log.info("created", snapshot=snapshot.name)

    async def _delete(self, snapshot: ControlPlaneSnapshot) -> None:
        place = Key(snapshot.namespace, snapshot.name)
        with suppress(NotFound):
            await self.client.delete(CONTROL_PLANE_SNAPSHOT, place, uid=snapshot.metadata.uid)
        log.info("deleted", snapshot=snapshot.name)


def schedules_of(snapshot: ControlPlaneSnapshot) -> tuple[str, ...]:
    """The schedule that has created a snapshot, as ``namespace/name``."""
    name = snapshot.metadata.labels.get(SCHEDULE_LABEL, "")
    return (str(Key(snapshot.namespace, name)),) if name else ()


def needed(restore: ControlPlaneRestore | None) -> str:
    """The snapshot that a restore needs, by name; empty: it names none, has ended, or is gone."""
    return "" if restore is None or restore.status.ready else restore.spec.snapshot_name
