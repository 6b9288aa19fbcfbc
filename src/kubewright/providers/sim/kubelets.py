"""A hollow kubelet on every simulated VM: what makes nodes join, live and fall silent.

Theory.      Ten thousand kubelets in one process: not a task each, but one delay queue of VM ids and a few
             workers. A visit reads the VM (``cloud``), its Node (an informer shared with the controllers) and
             the kubelet's small memory, decides, acts once, and says when to come back. A VM without power
             does nothing at a visit, hence it is silent. What one kubelet remembers, and the pure decision
             what it does next. A kubelet has four duties, in this order: register its Node, renew the Lease,
             report conditions, clear an order that was carried out. ``DUTIES`` is that list; the first duty
             that is due is performed, then the next visit decides again. A silent kubelet has none.
Invariants.  At most one request per VM is in flight; a deletion in the cloud waits for it (``wait_idle``), so
             no Node appears after its VM is gone. Failures back off per VM, at most half a minute. Nodes and
             conditions that are not ours are never written. The decision reads no clock and sends nothing.
             Times are ``Clock.monotonic``.
Called by    ``driver.run``, beside the controllers. Continues in ``pods``.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import assert_never

import structlog

from kubewright.api.conditions import find_true_condition
from kubewright.api.core import LEASE, NODE, Node, NodeCondition
from kubewright.base.errors import KubewrightError
from kubewright.kube.cache import Change
from kubewright.kube.informer import Informers
from kubewright.providers.sim import registration
from kubewright.providers.sim.delay_queue import DelayQueue
from kubewright.providers.sim.inventory import VmSource
from kubewright.providers.sim.pods import PodWorkers
from kubewright.providers.sim.registration import FAULT_ANNOTATION, statuses
from kubewright.providers.sim.spec import SYNC_SECONDS, KubeletSettings
from kubewright.providers.sim.vm import RESTART, Vm, VmState, state_at
from kubewright.wire.errors import AlreadyExists, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH


class Act(Enum):
    """What a kubelet may do."""

    REGISTER = "register"
    REPORT = "report"
    RENEW = "renew"
    CLEAR = "clear"


@dataclass(slots=True)
class KubeletState:
    """What a kubelet remembers; everything else is read from the VM and the Node each time.

    ``write_from``  earliest next correction of the Node: another client that keeps writing the opposite
                    must not make us write without end. ``not_before``: earliest next act at all.
    """

    node_name: str
    node_uid: str = ""
    alive: bool = False
    leased: bool = False
    renew_at: float = 0.0
    heartbeat_at: float = float("inf")
    write_from: float = 0.0
    not_before: float = 0.0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class NodeView:
    """A VM's Node as the kubelet sees it."""

    uid: str
    conditions: Sequence[NodeCondition]
    note: str

    @property
    def known(self) -> Mapping[str, str]:
        return {condition.type: condition.status for condition in self.conditions}


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision looks at. ``changes_at`` is when the VM's state may change by itself."""

    kubelet: KubeletState
    vm: VmState
    node: NodeView | None
    now: float
    changes_at: float | None

    @property
    def wanted(self) -> dict[str, str]:
        """What the Node's conditions should be."""
        known = frozenset(self.node.known) if self.node else frozenset[str]()
        return statuses(self.vm.bad, known)


@dataclass(frozen=True, slots=True)
class Next:
    """Do ``act`` now, or nothing (None) until ``at``; ``at`` None means until something changes."""

    act: Act | None
    at: float | None = None


def node_view(vm: Vm, node: Node | None) -> NodeView | None:
    """The VM's own Node; one of the same name that belongs to another VM is none."""
    if node is None or node.spec.provider_id != vm.provider_id:
        return None
    note = node.metadata.annotations.get(FAULT_ANNOTATION, "")
    return NodeView(node.metadata.uid, node.status.conditions, note)


def decide(seen: Situation) -> Next:
    """What the kubelet does next."""
    if not seen.vm.kubelet:
        return Next(None, seen.changes_at)
    if seen.now < seen.kubelet.not_before:
        return Next(None, seen.kubelet.not_before)
    for act, due in DUTIES:
        if due(seen) <= seen.now:
            return Next(act)
    soonest = min(_NEVER if seen.changes_at is None else seen.changes_at, *(due(seen) for _, due in DUTIES))
    return Next(None, None if soonest == _NEVER else soonest)


_NEVER = float("inf")


def _register_at(seen: Situation) -> float:
    return seen.now if seen.node is None else _NEVER


def _report_at(seen: Situation) -> float:
    """At once when something changed, else when the slow heartbeat is due."""
    assert seen.node is not None
    known = seen.node.known
    changed = any(known.get(kind) != status for kind, status in seen.wanted.items())
    return max(seen.now, seen.kubelet.write_from) if changed else seen.kubelet.heartbeat_at


def _renew_at(seen: Situation) -> float:
    return seen.kubelet.renew_at


def _clear_at(seen: Situation) -> float:
    asked = seen.node is not None and seen.node.note == RESTART
    return max(seen.now, seen.kubelet.write_from) if asked else _NEVER


DUTIES: Sequence[tuple[Act, Callable[[Situation], float]]] = (
    (Act.REGISTER, _register_at),
    (Act.RENEW, _renew_at),
    (Act.REPORT, _report_at),
    (Act.CLEAR, _clear_at),
)
"""Each act, and when it is due."""


log = structlog.get_logger(__name__)
LONGEST_PAUSE = 30.0
"""Seconds between attempts of a kubelet that keeps failing."""
CORRECTION_PAUSE = 1.0
"""Seconds between two corrections of one Node."""
FIRST_PAUSE = 0.5
"""Seconds before the second attempt."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """A snapshot. ``alive`` kubelets send requests; ``planned`` VMs will be visited.

    ``failures`` counts requests that were refused or lost.
    """

    kubelets: int
    alive: int
    planned: int
    failures: int


class Kubelets:
    """All kubelets of one cloud or fleet, in one cluster; or that of the node ``only``, which sees itself."""

    def __init__(
        self, cloud: VmSource, informers: Informers, settings: KubeletSettings, only: str = ""
    ) -> None:
        self._cloud = cloud
        self._clock = cloud.clock
        self._client = informers.client
        self._informers = informers
        self._settings = settings
        self._nodes = informers.get(NODE, fields=f"metadata.name={only}" if only else "")
        self._visits: DelayQueue[str] = DelayQueue(cloud.clock)
        self._kubelets: dict[str, KubeletState] = {}
        self._vm_ids: dict[str, str] = {}
        self._failures = 0
        self._pod_workers = PodWorkers(informers, settings, self._host_of, self._ready_since, only)

    async def run(self) -> None:
        """Until cancelled: be the kubelets of all VMs, those there are and those to come."""
        await self._nodes.wait_synced(SYNC_SECONDS)
        self._cloud.observe(self)
        unsubscribe = self._nodes.subscribe(self._node_changed)
        try:
            for vm_id in self._cloud.vms:
                self.changed(vm_id)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pod_workers.run(), name="pod workers")
                for number in range(self._settings.workers):
                    group.create_task(self._work(), name=f"kubelets {number}")
        finally:
            self._cloud.observe(None)
            unsubscribe()
            self._informers.release(self._nodes)

    def changed(self, vm_id: str) -> None:
        """A VM was made, removed or changed (``VmObserver``)."""
        vm = self._cloud.get(vm_id)
        if vm is None or vm.gone_at is not None:
            self._visits.drop(vm_id)
            kubelet = self._kubelets.pop(vm_id, None)
            if kubelet is not None and self._vm_ids.get(kubelet.node_name) == vm_id:
                del self._vm_ids[kubelet.node_name]
            return
        self._kubelets.setdefault(vm_id, KubeletState(vm.node_name))
        self._vm_ids[vm.node_name] = vm_id
        self._visits.soon(vm_id)

    async def wait_idle(self, vm_id: str) -> None:
        """Wait until the VM's kubelet has no request in flight."""
        await self._visits.idle(vm_id)

    def statistics(self) -> Statistics:
        """The numbers at this moment."""
        alive = sum(kubelet.alive for kubelet in self._kubelets.values())
        return Statistics(len(self._kubelets), alive, len(self._visits), self._failures)

    # ------------------------------------------------------------ wake-ups

    def _node_changed(self, change: Change[Node]) -> None:
        vm_id = self._vm_ids.get(change.key.name, "")
        if (kubelet := self._kubelets.get(vm_id)) is None:
            return
        if change.new is None and change.old is not None:
            ours = change.old.uid == kubelet.node_uid
            pause = self._settings.reregister_seconds if ours else 0.0
            kubelet.not_before = self._clock.monotonic() + pause
            kubelet.leased, kubelet.renew_at = False, 0.0
        self._visits.soon(vm_id)

    def _host_of(self, node_name: str) -> Vm | None:
        """The VM of a node whose kubelet is alive."""
        vm_id = self._vm_ids.get(node_name, "")
        kubelet = self._kubelets.get(vm_id)
        return self._cloud.get(vm_id) if kubelet is not None and kubelet.alive else None

    def _ready_since(self, node_name: str) -> datetime | None:
        """Since when a Node is Ready; None when it is not."""
        node = self._nodes.get(Key("", node_name))
        ready = None if node is None else find_true_condition(node.status.conditions, registration.READY)
        return None if ready is None else ready.last_transition_time

    # ------------------------------------------------------------ visits

    async def _work(self) -> None:
        while True:
            vm_id = await self._visits.take()
            again = None
            try:
                again = await self._visit(vm_id)
            except Exception:  # one odd node or a bug of ours must not silence all others
                log.exception("a visit to a simulated VM failed", vm=vm_id)
                again = self._clock.monotonic() + LONGEST_PAUSE
            finally:
                self._visits.done(vm_id, again)

    async def _visit(self, vm_id: str) -> float | None:
        """Do the next thing for one VM; returns when to come back."""
        vm, kubelet = self._cloud.get(vm_id), self._kubelets.get(vm_id)
        if vm is None or kubelet is None:
            return None
        node = node_view(vm, self._nodes.get(Key("", vm.node_name)))
        if node is not None and node.note != vm.noted:
            self._obey(vm, node.note)
            return self._clock.monotonic()
        situation = self._look(vm, kubelet, node)
        self._note_alive(kubelet, situation)
        step = decide(situation)
        return step.at if step.act is None else await self._perform(step.act, vm, kubelet, situation)

    def _obey(self, vm: Vm, note: str) -> None:
        """Carry out what a user wrote on the Node; a word that is no order is logged once."""
        if strange := self._cloud.obey(vm.id, note):
            words = ", ".join(sorted(strange))
            log.warning("not a simulated fault", node=vm.node_name, annotation=FAULT_ANNOTATION, words=words)

    def _look(self, vm: Vm, kubelet: KubeletState, node: NodeView | None) -> Situation:
        now, wall = self._clock.monotonic(), self._clock.now().timestamp()
        if node is not None:
            kubelet.node_uid = node.uid
        state = state_at(vm, wall)
        changes_at = None if state.until is None else now + state.until - wall
        return Situation(kubelet, state, node, now, changes_at)

    def _note_alive(self, kubelet: KubeletState, situation: Situation) -> None:
        if kubelet.alive == situation.vm.kubelet:
            return
        kubelet.alive = situation.vm.kubelet
        if kubelet.alive:
            kubelet.heartbeat_at = (
                situation.now + self._settings.heartbeat_seconds * self._clock.random.random()
            )
            self._pod_workers.wake(kubelet.node_name)

    # ------------------------------------------------------------ acts

    async def _perform(self, act: Act, vm: Vm, kubelet: KubeletState, situation: Situation) -> float:
        """Act; returns when to come back: at once after a success, since there may be more to do."""
        try:
            await self._act(act, vm, kubelet, situation)
        except KubewrightError as error:
            self._failures += 1
            kubelet.failures = min(kubelet.failures + 1, 10)
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (kubelet.failures - 1))
            kubelet.not_before = self._clock.monotonic() + pause * (0.5 + self._clock.random.random() / 2)
            log.debug("a simulated kubelet failed", vm=vm.id, act=act.value, error=str(error))
            return kubelet.not_before
        kubelet.failures = 0
        return self._clock.monotonic()

    async def _act(self, act: Act, vm: Vm, kubelet: KubeletState, situation: Situation) -> None:
        match act:
            case Act.REGISTER:
                await self._client.create(NODE, registration.node(vm, situation.wanted, self._clock.now()))
                kubelet.heartbeat_at = situation.now + self._settings.heartbeat(len(self._kubelets))
            case Act.RENEW:
                await self._renew(vm, kubelet)
            case Act.REPORT:
                await self._report(vm, kubelet, situation)
            case Act.CLEAR:
                kubelet.write_from = situation.now + CORRECTION_PAUSE
                clear = {"metadata": {"annotations": {FAULT_ANNOTATION: None}}}
                await self._client.patch(NODE, Key("", vm.node_name), clear)
            case _:
                assert_never(act)

    async def _renew(self, vm: Vm, kubelet: KubeletState) -> None:
        """Renew the Lease; make it when it is not there, take it over when it is."""
        seconds, now = self._settings.lease_seconds, self._clock.now()
        key = Key(registration.LEASE_NAMESPACE, vm.node_name)
        body = registration.renewal(vm, seconds, now)
        if not kubelet.leased:
            body = registration.lease(vm, kubelet.node_uid, seconds, now)
            try:
                await self._client.create(LEASE, body)
            except AlreadyExists:
                kubelet.leased = True
        if kubelet.leased:
            try:
                await self._client.patch(LEASE, key, body)
            except NotFound:
                kubelet.leased = False
                return
        kubelet.leased = True
        every = self._settings.renewal(len(self._kubelets))
        kubelet.renew_at = self._clock.monotonic() + every * (0.9 + self._clock.random.random() / 10)

    async def _report(self, vm: Vm, kubelet: KubeletState, situation: Situation) -> None:
        """Post all our conditions; those that others write are merged by type and stay."""
        kubelet.write_from = situation.now + CORRECTION_PAUSE
        before = () if situation.node is None else situation.node.conditions
        conditions = registration.conditions(situation.wanted, before, self._clock.now())
        body = {"status": {"conditions": conditions, **registration.NOTHING_LISTENS}}
        key = Key("", vm.node_name)
        await self._client.patch(NODE, key, body, subresource="status", content_type=STRATEGIC_PATCH)
        kubelet.heartbeat_at = situation.now + self._settings.heartbeat(len(self._kubelets))
        known = {each.type: each.status for each in before}
        if known.get(registration.READY) != situation.wanted[registration.READY]:
            self._pod_workers.wake(vm.node_name)
