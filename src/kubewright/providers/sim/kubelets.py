"""A hollow kubelet on every simulated VM: what makes nodes join, live and fall silent.

Theory.      Ten thousand kubelets in one process: no task each, but one agenda of VM ids and a few
             workers. A visit reads the VM (``cloud``), its Node (an informer shared with the
             controllers) and the kubelet's small memory, decides (``guests``), acts once, and says
             when to come back. A VM without power is not visited at all, hence silent.
Invariants.  At most one request per VM is in flight; a deletion in the cloud waits for it
             (``quiet``), so no Node appears after its VM is gone. Failures back off per VM, at most
             half a minute. Nodes and conditions that are not ours are never written.
Called by    ``driver.run``, beside the controllers. Continues in ``podlets``.
"""

import asyncio
from dataclasses import dataclass
from typing import assert_never

import structlog

from kubewright.api.core import LEASE, NODE, Node
from kubewright.base.errors import KubewrightError
from kubewright.kube.cache import Change
from kubewright.kube.informers import Informers
from kubewright.providers.sim import registration
from kubewright.providers.sim.agenda import Agenda
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.guests import Act, Guest, Situation, View, decide, seen
from kubewright.providers.sim.podlets import Podlets
from kubewright.providers.sim.registration import FAULT_ANNOTATION
from kubewright.providers.sim.settings import SYNC_SECONDS, KubeletSettings
from kubewright.providers.sim.vm import Vm, outlook
from kubewright.wire.errors import AlreadyExists, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

log = structlog.get_logger(__name__)
LONGEST_PAUSE = 30.0
"""Seconds between attempts of a kubelet that keeps failing."""
CORRECTION_PAUSE = 1.0
"""Seconds between two corrections of one Node."""
FIRST_PAUSE = 0.5
"""Seconds before the second attempt."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """A snapshot. ``alive`` kubelets talk; ``failures`` counts requests that were refused or lost."""

    guests: int
    alive: int
    planned: int
    failures: int


class Kubelets:
    """All kubelets of one cloud, in one cluster."""

    def __init__(self, cloud: Cloud, informers: Informers, settings: KubeletSettings) -> None:
        self._cloud = cloud
        self._clock = cloud.clock
        self._client = informers.client
        self._informers = informers
        self._settings = settings
        self._nodes = informers.get(NODE)
        self._visits: Agenda[str] = Agenda(cloud.clock)
        self._guests: dict[str, Guest] = {}
        self._homes: dict[str, str] = {}
        self._failures = 0
        self._podlets = Podlets(informers, settings, self._host_of)

    async def run(self) -> None:
        """Until cancelled: be the kubelets of all VMs, those there are and those to come."""
        await self._nodes.wait_synced(SYNC_SECONDS)
        self._cloud.host(self)
        unsubscribe = self._nodes.subscribe(self._node_changed)
        try:
            for vm_id in self._cloud.vms:
                self.changed(vm_id)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._podlets.run(), name="podlets")
                for number in range(self._settings.workers):
                    group.create_task(self._work(), name=f"kubelets {number}")
        finally:
            self._cloud.host(None)
            unsubscribe()
            self._informers.release(self._nodes)

    def changed(self, vm_id: str) -> None:
        """The cloud says: this VM came, went or changed."""
        vm = self._cloud.get(vm_id)
        if vm is None or vm.gone_at is not None:
            self._visits.drop(vm_id)
            guest = self._guests.pop(vm_id, None)
            if guest is not None and self._homes.get(guest.node_name) == vm_id:
                del self._homes[guest.node_name]
            return
        self._guests.setdefault(vm_id, Guest(vm.node_name))
        self._homes[vm.node_name] = vm_id
        self._visits.soon(vm_id)

    async def quiet(self, vm_id: str) -> None:
        """Wait until the VM's kubelet has no request in flight."""
        await self._visits.idle(vm_id)

    def statistics(self) -> Statistics:
        """How it stands now."""
        alive = sum(guest.alive for guest in self._guests.values())
        return Statistics(len(self._guests), alive, len(self._visits), self._failures)

    # ------------------------------------------------------------ wake-ups

    def _node_changed(self, change: Change[Node]) -> None:
        vm_id = self._homes.get(change.key.name, "")
        if (guest := self._guests.get(vm_id)) is None:
            return
        if change.new is None and change.old is not None:
            ours = change.old.uid == guest.node_uid
            pause = self._settings.reregister_seconds if ours else 0.0
            guest.not_before = self._clock.monotonic() + pause
            guest.leased, guest.renew_at = False, 0.0
        self._visits.soon(vm_id)

    def _host_of(self, node_name: str) -> Vm | None:
        """The VM of a node whose kubelet is alive."""
        vm_id = self._homes.get(node_name, "")
        guest = self._guests.get(vm_id)
        return self._cloud.get(vm_id) if guest is not None and guest.alive else None

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
        """Do the next thing for one VM; answers when to come back."""
        vm, guest = self._cloud.get(vm_id), self._guests.get(vm_id)
        if vm is None or guest is None:
            return None
        node = seen(vm, self._nodes.get(Key("", vm.node_name)))
        if node is not None and node.note != vm.noted:
            self._obey(vm, node.note)
            return self._clock.monotonic()
        situation = self._look(vm, guest, node)
        self._wake_or_sleep(guest, situation)
        step = decide(situation)
        return step.at if step.act is None else await self._perform(step.act, vm, guest, situation)

    def _obey(self, vm: Vm, note: str) -> None:
        """Do what a user wrote on the Node; a word that means nothing is logged once."""
        if strange := self._cloud.obey(vm.id, note):
            words = ", ".join(sorted(strange))
            log.warning("not a simulated fault", node=vm.node_name, annotation=FAULT_ANNOTATION, words=words)

    def _look(self, vm: Vm, guest: Guest, node: View | None) -> Situation:
        now, wall = self._clock.monotonic(), self._clock.now().timestamp()
        if node is not None:
            guest.node_uid = node.uid
        view = outlook(vm, wall)
        return Situation(guest, view, node, now, None if view.until is None else now + view.until - wall)

    def _wake_or_sleep(self, guest: Guest, situation: Situation) -> None:
        if guest.alive == situation.outlook.kubelet:
            return
        guest.alive = situation.outlook.kubelet
        if guest.alive:
            guest.heartbeat_at = (
                situation.now + self._settings.heartbeat_seconds * self._clock.random.random()
            )
            self._podlets.wake(guest.node_name)

    # ------------------------------------------------------------ acts

    async def _perform(self, act: Act, vm: Vm, guest: Guest, situation: Situation) -> float:
        """Act; answers when to come back: at once after a success, for there may be more to do."""
        try:
            await self._act(act, vm, guest, situation)
        except KubewrightError as error:
            self._failures += 1
            guest.failures = min(guest.failures + 1, 10)
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (guest.failures - 1))
            guest.not_before = self._clock.monotonic() + pause * (0.5 + self._clock.random.random() / 2)
            log.debug("a simulated kubelet failed", vm=vm.id, act=act.value, error=str(error))
            return guest.not_before
        guest.failures = 0
        return self._clock.monotonic()

    async def _act(self, act: Act, vm: Vm, guest: Guest, situation: Situation) -> None:
        match act:
            case Act.REGISTER:
                await self._client.create(NODE, registration.node(vm, situation.wanted, self._clock.now()))
                guest.heartbeat_at = situation.now + self._settings.heartbeat(len(self._guests))
            case Act.RENEW:
                await self._renew(vm, guest)
            case Act.REPORT:
                await self._report(vm, guest, situation)
            case Act.CLEAR:
                guest.write_from = situation.now + CORRECTION_PAUSE
                clear = {"metadata": {"annotations": {FAULT_ANNOTATION: None}}}
                await self._client.patch(NODE, Key("", vm.node_name), clear)
            case _:
                assert_never(act)

    async def _renew(self, vm: Vm, guest: Guest) -> None:
        """Renew the Lease; make it when it is not there, take it over when it is."""
        seconds, now = self._settings.lease_seconds, self._clock.now()
        key = Key(registration.LEASE_NAMESPACE, vm.node_name)
        body = registration.renewal(vm, seconds, now)
        if not guest.leased:
            body = registration.lease(vm, guest.node_uid, seconds, now)
            try:
                await self._client.create(LEASE, body)
            except AlreadyExists:
                guest.leased = True
        if guest.leased:
            try:
                await self._client.patch(LEASE, key, body)
            except NotFound:
                guest.leased = False
                return
        guest.leased = True
        every = self._settings.renewal(len(self._guests))
        guest.renew_at = self._clock.monotonic() + every * (0.9 + self._clock.random.random() / 10)

    async def _report(self, vm: Vm, guest: Guest, situation: Situation) -> None:
        """Post all our conditions; those that others write are merged by type and stay."""
        guest.write_from = situation.now + CORRECTION_PAUSE
        before = () if situation.node is None else situation.node.conditions
        body = {
            "status": {"conditions": registration.conditions(situation.wanted, before, self._clock.now())}
        }
        key = Key("", vm.node_name)
        await self._client.patch(NODE, key, body, subresource="status", content_type=STRATEGIC_PATCH)
        guest.heartbeat_at = situation.now + self._settings.heartbeat(len(self._guests))
