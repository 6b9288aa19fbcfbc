"""One component, one pass on the kernel: what performs each step, its status, and what users are told.

Theory.      Steps run in order and stop at the first failure. What a host refused is written into the status
             before the controller tries again. The status patch names the version of the object that was
             read, and is sent only if it changes something.
Invariants.  No PUT. A process that does not lead any more asks no host, and no etcd, for anything. An event
             about one problem is sent once, and never contains the content of a Secret.
Called by    ``runtime.controller``; wired by ``wiring``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import structlog

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.names import COMPONENT_REPORTER, FINALIZER, EventReason, Phase
from kubewright.api.controlplane.v1alpha4 import ComponentStatus
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Event
from kubewright.controlplanes import members
from kubewright.controlplanes.caches import Caches
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
    decide,
)
from kubewright.controlplanes.component.look import ComponentSetup, Looker
from kubewright.controlplanes.component.policies import Policy
from kubewright.controlplanes.component.seen import Seen, counted
from kubewright.controlplanes.component.status import status_of
from kubewright.controlplanes.etcd import NoAnswer
from kubewright.controlplanes.family import ComponentObject
from kubewright.controlplanes.hosting.contract import Reserves
from kubewright.controlplanes.templates.choice import ignored_channel
from kubewright.kube.errors import Deposed
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class HostFailed(KubewrightError):
    """A host or an etcd failed to do a step; it is tried again as its error says, and in time."""

    def __init__(self, error: KubewrightError) -> None:
        super().__init__(str(error))
        self.retry = delays.in_time(error.retry)


class Components(ObjectReconciler[ComponentObject, Seen, Plan]):
    """The reconciler of the components of one policy."""

    def __init__(
        self, policy: Policy, environment: Environment, caches: Caches, setup: ComponentSetup
    ) -> None:
        control, recorder = environment.control, environment.recorder.of(COMPONENT_REPORTER)
        super().__init__(control.client, caches.components[policy.component], recorder, finalizer=FINALIZER)
        self.policy = policy
        self.looker = Looker(policy, control.caches, caches, setup)
        self._setup = setup
        self._told: dict[str, frozenset[str]] = {}
        """The problems that users were told of, by uid."""

    def forget(self, key: Key, uid: str) -> None:
        """The component is gone for good."""
        self._told.pop(uid, None)
        self.looker.forget(key)

    async def look(self, found: ComponentObject) -> Seen:
        """As ``Looker.look``."""
        return await self.looker.look(found)

    def decide(self, seen: Seen) -> Plan:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step.

        Raises:
            Deposed: this process does not lead any more, and no API server would refuse the step.
        """
        if isinstance(step, OutsideStep) and not self._setup.entitled():
            raise Deposed(f"{type(step).__name__} of {seen.component.name}: we do not lead any more")
        match step:
            case AddFinalizer(cluster):
                return self.add_finalizer(outcome, labels={CLUSTER_NAME_LABEL: cluster})
            case RemoveFinalizer():
                return self.remove_finalizer(outcome)
            case KeepCertificates():
                return self._setup.keeper.perform(seen)
            case ChangeMembers(change):
                return self._change_members(seen, change)
            case Reserve() | Apply() | Replace() | Remove():
                return self._ask_host(seen, step)

    async def carry_out(self, found: ComponentObject, seen: Seen, plan: Plan) -> Result:
        """As ``ObjectReconciler.carry_out``; what a host refused is in the status before it is tried again.

        Raises:
            ApiError, TransportError: as there.
            HostFailed: a host, or an etcd, could not do a step this time.
        """
        try:
            return await super().carry_out(found, seen, plan)
        except HostFailed as error:
            await self.report(found, replace(seen, failed=str(error)), plan, Outcome(found.metadata))
            raise

    def status(self, seen: Seen, plan: Plan, outcome: Outcome) -> ComponentStatus:
        """As ``status.status_of``."""
        return status_of(seen)

    def events(self, seen: Seen, plan: Plan, status: ComponentStatus, *, written: bool) -> Iterable[Event]:
        """What has changed, and each problem that the last pass did not find."""
        found = seen.component
        if written:
            yield from events_of(found.status, status)
        if seen.pause is not None:  # a status while it is paused says what was wrong before
            return
        uid, ignored = found.metadata.uid, ignored_channel(found.spec)
        known = self._told.get(uid, frozenset())
        for message in status.errors:
            if message not in known:
                yield Event(EventReason.PROBLEM, message, warning=True)
        if ignored and ignored not in known:
            yield Event(EventReason.CHANNEL_IGNORED, ignored, warning=True)
        self._told[uid] = frozenset((*status.errors, ignored))

    def refusal(self, error: ApiError) -> str:
        """Not the server's words: they may quote what is in a Secret."""
        return f"The API server refused a write: {error.code} {error.reason}"

    async def _change_members(self, seen: Seen, change: members.Step) -> None:
        assert seen.access is not None, "members are changed only after they were asked"
        try:
            async with self._setup.connect(seen.access) as etcd:
                await etcd.perform(change)
        except NoAnswer as error:
            raise HostFailed(error) from error
        log.info("members", component=seen.component.name, change=str(change))
        self.tell(seen.component, Event(EventReason.MEMBERS, str(change)))

    async def _ask_host(self, seen: Seen, step: HostStep) -> None:
        try:
            await self._asked(seen, step)
        except KubewrightError as error:
            raise HostFailed(error) from error

    async def _asked(self, seen: Seen, step: HostStep) -> None:
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
                self.tell(seen.component, Event(EventReason.APPLIED, told))
            case Replace(ordinal):
                host, _ = hosts.holding(seen.identity)
                if host is not None:
                    await host.replace(seen.identity, ordinal)
                    told = f"{seen.identity.instance(ordinal)} is replaced by one with what the spec says now"
                    self.tell(seen.component, Event(EventReason.REPLACING, told))
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
