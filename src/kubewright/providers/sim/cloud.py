"""The simulated cloud: VMs that are made, live, suffer and go, whatever the controllers do.

Theory.      A cloud behind an API: every call may take its time, be throttled, fail, hang, or do
             its work and lose the answer (``Misfortune``). What a call began goes on without the caller:
             a creation that was cancelled has made its VM, a deletion that was accepted ends. VMs
             outlive the process when the cloud has a file (``store``).
Invariants.  A deletion returns only when the VM is gone and its kubelet has finished its last
             request. What an operator does to a VM (``kill``, ``order``...) is immediate and
             survives a restart.
Called by    ``driver`` (as the machines' cloud), ``kubelets`` (as the VMs' ground), the command
             line and tests (as its operators).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from msgspec.structs import replace

from kubewright.base.clock import Clock
from kubewright.driver.errors import Code, DriverError, Exhausted, NotFound, Uninitialized
from kubewright.providers.sim.estate import Ask, Disks, Estate, Guests
from kubewright.providers.sim.names import shaped_by
from kubewright.providers.sim.spec import Fault, Operation, SimSpec
from kubewright.providers.sim.store import Store
from kubewright.providers.sim.vm import DIE, LASTING, RESTART, VANISH, Vm, orders_in

T = TypeVar("T")

COUNTED = 50_000
"""Machines whose faults are counted at the same time; a count is some hundred bytes."""


class Cloud:
    """See the module. Lives in one event loop."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self.clock = clock
        self._estate = Estate(clock, store)
        self._misfortune = Misfortune(clock)

    # ------------------------------------------------------------ the API that a driver calls

    async def create(self, ask: Ask) -> Vm:
        """Make a VM, or answer the one of this name and owner. Returns when the cloud has accepted it.

        Raises:
            DriverError: AlreadyExists, the name belongs to another owner; Aborted, it is being
                deleted; ResourceExhausted, the quota; and whatever misfortune has.
        """
        spec = shaped_by(ask.name, ask.spec)
        return await self._call("create", ask, spec, lambda: self._made(ask, spec), spec.create_seconds)

    async def initialize(self, ask: Ask) -> Vm:
        """Finish a VM that was made. Raises NotFound, and whatever misfortune has."""

        def effect() -> Vm:
            vm = self._existing(ask)
            return vm if vm.initialized else self._estate.put(replace(vm, initialized=True))

        return await self._call("initialize", ask, self._spec_of(ask), effect)

    async def status(self, ask: Ask) -> Vm:
        """The VM. Raises NotFound or Uninitialized, and whatever misfortune has."""

        def effect() -> Vm:
            vm = self._existing(ask)
            if vm.spec.needs_initialize and not vm.initialized:
                text = f"{vm.id} is made but not initialized"
                raise Uninitialized(text, provider_id=vm.provider_id, node_name=vm.node_name)
            return vm

        return await self._call("status", ask, self._spec_of(ask), effect)

    async def delete(self, ask: Ask) -> None:
        """Delete a VM; returns when it is gone. Raises NotFound, and whatever misfortune has."""

        def effect() -> Vm:
            vm = self._existing(ask)
            return self._estate.end(vm, vm.spec.delete_seconds)

        vm = await self._call("delete", ask, self._spec_of(ask), effect)
        if vm.gone_at is not None and (left := vm.gone_at - self._estate.now()) > 0:
            await self.clock.sleep(left)
        if self._estate.guests is not None:
            await self._estate.guests.quiet(vm.id)
        self._estate.forget(vm.id)
        await self._estate.store.saved()

    async def list(self, ask: Ask) -> Sequence[Vm]:
        """VMs of its namespace that carry all tags of the class; without tags, those that were made for it.

        With ``listLagSeconds`` the answer is that old.
        """
        spec = ask.spec
        return await self._call(
            "list", ask, spec, lambda: self._estate.of(ask.account, spec.tags, lag=spec.list_lag_seconds)
        )

    # ------------------------------------------------------------ what an operator may do

    @property
    def vms(self) -> Mapping[str, Vm]:
        """Every VM by id; a snapshot."""
        return self._estate.all()

    @property
    def disks(self) -> Disks:
        """The cloud's volumes."""
        return self._estate.disks

    def get(self, vm_id: str) -> Vm | None:
        """One VM, or None when it is gone."""
        return self._estate.get(vm_id)

    def named(self, name: str, namespace: str = "") -> Vm | None:
        """The VM of that machine; without a namespace the first of any."""
        if namespace:
            return self._estate.named(namespace, name)
        return next((vm for vm in self.vms.values() if vm.name == name), None)

    def kill(self, vm_id: str) -> None:
        """Pull the plug: the VM exists, and nothing runs on it until ``restart``."""
        self._change(vm_id, lambda vm: replace(vm, powered=False))

    def restart(self, vm_id: str) -> None:
        """Boot again, from any state; orders are forgotten, a fate repeats itself."""
        up_in = self._estate.now()
        self._change(
            vm_id,
            lambda vm: replace(
                vm, powered=True, orders=(), up_at=up_in + vm.spec.boot_seconds, boot=vm.boot + 1
            ),
        )

    def order(self, vm_id: str, orders: AbstractSet[str]) -> None:
        """Let a VM suffer from exactly these (``vm.ORDERS`` and ``stop-kubelet``) from now on."""
        self._change(vm_id, lambda vm: replace(vm, orders=tuple(sorted(orders))))

    def obey(self, vm_id: str, note: str) -> frozenset[str]:
        """Do what a note on the VM's Node says, once; the lasting orders end when the note does.

        Answers the words that mean nothing.
        """
        words = orders_in(note)
        lasting = tuple(sorted(words & LASTING))
        self._change(vm_id, lambda vm: replace(vm, noted=note, orders=lasting))
        for word, act in ((RESTART, self.restart), (DIE, self.kill), (VANISH, self.vanish)):
            if word in words:
                act(vm_id)
        return words - LASTING - {RESTART, DIE, VANISH}

    def vanish(self, vm_id: str) -> None:
        """The VM is gone without a trace, and no call asked for that."""
        self._estate.forget(vm_id)

    def host(self, guests: Guests | None) -> None:
        """Tell these about every change of a VM from now on; None to stop."""
        self._estate.guests = guests

    async def close(self) -> None:
        """Write what is pending and let go of the file."""
        self._estate.store.close()

    # ------------------------------------------------------------ inside

    async def _call(
        self, operation: Operation, ask: Ask, spec: SimSpec, effect: Callable[[], T], seconds: float = 0
    ) -> T:
        """One API call: throttled, then failed or done, then kept, then answered in its time."""
        self._misfortune.throttle(ask.account, spec)
        fault = self._misfortune.next(operation, ask.who, spec)
        if fault is not None and not fault.after_success:
            await self._raise(fault)
        self._estate.forget_gone()
        answer = effect()
        await self._estate.store.saved()
        if seconds:
            await self.clock.sleep(seconds)
        if fault is not None:
            await self._raise(fault)
        return answer

    async def _raise(self, fault: Fault) -> None:
        if fault.hang_seconds:
            await self.clock.sleep(fault.hang_seconds)
        raise DriverError.of(fault.error_code, fault.message)

    def _made(self, ask: Ask, spec: SimSpec) -> Vm:
        if (known := self._estate.named(ask.namespace, ask.name)) is not None:
            return _same(known, ask)
        if spec.quota and (count := self._estate.count(ask.account)) >= spec.quota:
            raise Exhausted(f"quota of class {ask.account} is used up: {count} of {spec.quota} VMs")
        return self._estate.add(ask, spec)

    def _existing(self, ask: Ask) -> Vm:
        vm = self._estate.named(ask.namespace, ask.name)
        if vm is None or not ask.means(vm):
            raise NotFound(f"there is no VM for machine {ask.who}")
        return vm

    def _spec_of(self, ask: Ask) -> SimSpec:
        """The spec that the VM was made with, for the class may have changed since; else the class's."""
        vm = self._estate.named(ask.namespace, ask.name)
        return vm.spec if vm is not None else shaped_by(ask.name, ask.spec)

    def _change(self, vm_id: str, change: Callable[[Vm], Vm]) -> None:
        if (vm := self._estate.get(vm_id)) is not None and vm.gone_at is None:
            self._estate.put(change(vm))


def _same(vm: Vm, ask: Ask) -> Vm:
    """The VM that a repeated creation meets, if it is the asker's and stays."""
    if not ask.means(vm):
        raise DriverError.of(Code.AlreadyExists, f"{vm.id} has the name {vm.name}, and another owner")
    if vm.gone_at is not None:
        raise DriverError.of(Code.Aborted, f"{vm.id} is still being deleted")
    return vm


class Misfortune:
    """Decides which calls fail: how often a fault of the spec met a machine already, and the draw.

    The dice are the clock's, so a seed repeats a bad day. The memory is bounded, and does not survive a
    restart: a fault with ``times`` then counts anew, as real clouds do.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._met: OrderedDict[tuple[str, Operation, int], int] = OrderedDict()
        self._allowance: dict[str, tuple[float, float]] = {}

    def next(self, operation: Operation, who: str, spec: SimSpec) -> Fault | None:
        """The fault that this call meets, if any: the first of the spec's that applies."""
        for number, fault in enumerate(spec.faults):
            if fault.operation == operation and self._applies(fault, (who, operation, number)):
                return fault
        return None

    def throttle(self, account: str, spec: SimSpec) -> None:
        """Count a call against the account's rate; one second's worth may come at once.

        Raises:
            DriverError: Unavailable, the rate is exceeded.
        """
        if not (rate := spec.calls_per_second):
            return
        now, burst = self._clock.monotonic(), max(rate, 1.0)
        left, since = self._allowance.get(account, (burst, now))
        left = min(burst, left + (now - since) * rate)
        self._allowance[account] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            raise DriverError.of(Code.Unavailable, f"request rate exceeded: {rate:g} calls per second")

    def _applies(self, fault: Fault, key: tuple[str, Operation, int]) -> bool:
        if fault.chance < 1 and self._clock.random.random() >= fault.chance:
            return False
        if not fault.times:
            return True
        count = self._met.pop(key, 0) + 1
        self._met[key] = count
        if len(self._met) > COUNTED:
            self._met.popitem(last=False)
        return count <= fault.times
