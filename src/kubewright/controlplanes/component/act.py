"""Perform a component's plan: its steps, then its status and the events that go with it.

Theory.      Steps run in order and stop at the first failure. What a host refused is written into the status
             before the controller tries again. The status patch names the version of the object that was
             read, and is sent only if it changes something.
Invariants.  No PUT. A process that does not lead any more asks no host, and no etcd, for anything. An event
             about one problem is sent once, and never contains the content of a Secret.
Called by    ``wiring``.
"""

from collections.abc import Iterator
from typing import assert_never

import structlog

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.names import COMPONENT_REPORTER, FINALIZER, EventReason, Phase
from kubewright.api.controlplane.v1alpha4 import ComponentStatus
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Event
from kubewright.controlplanes import members
from kubewright.controlplanes.component.decide import (
    AddFinalizer,
    Apply,
    ChangeMembers,
    HostStep,
    KeepCertificates,
    OutsideStep,
    Plan,
    Remove,
    RemoveFinalizer,
    Replace,
    Reserve,
    Step,
)
from kubewright.controlplanes.component.look import ComponentSetup
from kubewright.controlplanes.component.policies import Policy
from kubewright.controlplanes.component.seen import Seen, counted
from kubewright.controlplanes.component.status import status_of
from kubewright.controlplanes.etcd import NoAnswer
from kubewright.controlplanes.hosting.contract import Reserves
from kubewright.controlplanes.templates.choice import ignored_channel
from kubewright.kube.client import Client
from kubewright.kube.errors import Deposed
from kubewright.runtime.events import Recorder
from kubewright.runtime.writer import Writer
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class HostFailed(KubewrightError):
    """A host or an etcd failed to do a step; it is tried again as its error says, and in time."""

    def __init__(self, error: KubewrightError) -> None:
        super().__init__(str(error))
        self.retry = delays.in_time(error.retry)


class Actor:
    """Performs plans for the components of one policy.

    ``writing``: keys whose status is being written, by which ``wiring`` knows our own changes.
    """

    def __init__(self, policy: Policy, client: Client, setup: ComponentSetup, recorder: Recorder) -> None:
        self._writer = Writer(client, policy.kind, FINALIZER)
        self._setup = setup
        self._recorder = recorder.of(COMPONENT_REPORTER)
        self._told: dict[Key, tuple[str, frozenset[str]]] = {}
        self.writing: set[Key] = set()

    async def perform(self, seen: Seen, plan: Plan) -> None:
        """All steps.

        Raises:
            HostFailed: a host could not do one.
            ApiError, TransportError: the API server refused a write, or could not be asked; or this process
                does not lead any more.
        """
        for step in plan.steps:
            if isinstance(step, OutsideStep) and not self._setup.entitled():
                raise Deposed(f"{type(step).__name__} of {seen.component.name}: we do not lead any more")
            await self._step(seen, step)

    async def report(self, seen: Seen) -> None:
        """Write the status, if it has changed, and send events about the changes."""
        meta, before = seen.component.metadata, seen.component.status
        status = status_of(seen)
        key = Key(meta.namespace, meta.name)
        self.writing.add(key)
        try:
            written = await self._writer.report(meta, before, status)
        finally:
            self.writing.discard(key)
        if written:
            for event in events_of(before, status):
                self._recorder.event(seen.component, event.reason, event.message, warning=event.warning)
        if seen.pause is None:  # a status while it is paused says what was wrong before
            self._tell_problems(seen, status)

    def forget(self, key: Key) -> None:
        """Forget which problems were reported of an object that is gone."""
        self._told.pop(key, None)

    def _tell_problems(self, seen: Seen, status: ComponentStatus) -> None:
        """Send an event for each problem that the last pass did not find."""
        meta = seen.component.metadata
        key, ignored = Key(meta.namespace, meta.name), ignored_channel(seen.component.spec)
        uid, before = self._told.get(key, ("", frozenset()))
        known = before if uid == meta.uid else frozenset()
        for message in status.errors:
            if message not in known:
                self._recorder.event(seen.component, EventReason.PROBLEM, message, warning=True)
        if ignored and ignored not in known:
            self._recorder.event(seen.component, EventReason.CHANNEL_IGNORED, ignored, warning=True)
        self._told[key] = (meta.uid, frozenset((*status.errors, ignored)))

    async def _step(self, seen: Seen, step: Step) -> None:
        meta = seen.component.metadata
        match step:
            case AddFinalizer(cluster):
                await self._writer.add_finalizer(meta, labels={CLUSTER_NAME_LABEL: cluster})
            case RemoveFinalizer():
                await self._writer.remove_finalizer(meta)
            case KeepCertificates():
                await self._setup.keeper.perform(seen)
            case ChangeMembers(change):
                try:
                    await self._change_members(seen, change)
                except NoAnswer as error:
                    raise HostFailed(error) from error
            case Reserve() | Apply() | Replace() | Remove():
                try:
                    await self._ask_host(seen, step)
                except KubewrightError as error:
                    raise HostFailed(error) from error
            case _:
                assert_never(step)

    async def _change_members(self, seen: Seen, change: members.Step) -> None:
        assert seen.access is not None, "members are changed only after they were asked"
        async with self._setup.connect(seen.access) as etcd:
            await etcd.perform(change)
        log.info("members", component=seen.component.name, change=str(change))
        self._recorder.event(seen.component, EventReason.MEMBERS, str(change))

    async def _ask_host(self, seen: Seen, step: HostStep) -> None:
        assert seen.identity is not None, "only what has an identity is hosted"
        hosts = self._setup.hosts
        match step:
            case Reserve(workload):
                reserving: object = hosts.of(workload.version)
                assert isinstance(reserving, Reserves), "only such a host has something to reserve"
                await reserving.reserve(workload)
            case Apply(workload):
                host = hosts.of(workload.version)
                assert host is not None, "what has no host is not applied"
                log.info("apply", workload=workload.identity.workload, version=workload.version)
                await host.apply(workload)
                told = f"{counted(workload.replicas)} of version {workload.version} should run"
                self._recorder.event(seen.component, EventReason.APPLIED, told)
            case Replace(ordinal):
                host, _ = hosts.holding(seen.identity)
                if host is not None:
                    await host.replace(seen.identity, ordinal)
                    told = f"{seen.identity.instance(ordinal)} is replaced by one with what the spec says now"
                    self._recorder.event(seen.component, EventReason.REPLACING, told)
            case Remove(keep_data):
                host, _ = hosts.holding(seen.identity)
                if host is not None:
                    log.info("remove", workload=seen.identity.workload, keep_data=keep_data)
                    await host.remove(seen.identity, keep_data=keep_data)


_INTENDED = (Phase.SLEEPING, Phase.UPGRADING, Phase.SCALING, Phase.ROTATING_CERTIFICATES)
"""Phases that a wanted change leads to. In them no event says that the component is not ready."""


def events_of(before: ComponentStatus, after: ComponentStatus) -> Iterator[Event]:
    """Events about what has changed from one status to the next."""
    if after.ready and not before.ready:
        yield Event(EventReason.READY, f"{counted(after.replicas)} of version {after.version} ready")
    told = next((each.message for each in after.conditions if each.type == "Ready"), "")
    if before.ready and not after.ready and after.phase not in _INTENDED:
        yield Event(EventReason.NOT_READY, told, warning=True)
    if after.phase == Phase.SLEEPING and before.phase != after.phase:
        yield Event(EventReason.SLEEPING, told)
