"""The simulated cloud: VMs that are made, run, fail and go, whatever the controllers do.

Theory.      A cloud behind an API: every call may take its time, be throttled, fail, hang, or do its work and
             lose the answer (``FaultInjector``). What a call began goes on without the caller: a creation
             that was cancelled has made its VM, a deletion that was accepted ends. VMs outlive the process
             when the cloud has a file (``inventory``).
             Names that choose a behaviour, so that every state of a machine can be shown on purpose. The
             first word of a machine's name (up to the first dash) is looked up here. A MachineDeployment
             called ``quota-workers`` has machines that the cloud refuses for lack of quota; no class has to
             be written for it.
Invariants.  A deletion returns only when the VM is gone and its kubelet has finished its last request. What
             an operator does to a VM (``kill``, ``order``...) is immediate and survives a restart.
             The table only adds to what the class says. An unknown word changes nothing.
Called by    ``driver`` (as the machines' cloud), ``kubelets`` (which run on the VMs), the demo and tests (as
             its operators).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kubewright.base.clock import Clock
from kubewright.driver.errors import Code, DriverError, Exhausted, InvalidArgument, NotFound, Uninitialized
from kubewright.driver.hot import NETWORK, RESOURCES, Tags, changed, changes, found_by, switched
from kubewright.providers.sim.inventory import Disks, Inventory, Store, VmObserver, VmRequest
from kubewright.providers.sim.spec import Fault, Lifecycle, Operation, SimSpec, tag_problems
from kubewright.providers.sim.vm import (
    DIE,
    LASTING,
    RESTART,
    VANISH,
    Bootstrap,
    Vm,
    orders_in,
    with_check,
    with_tags,
)

_FOR_EVER = 86_400.0
"""Longer than any deadline: for calls that never answer."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a word does: ``shows`` is the sentence for people."""

    shows: str
    faults: tuple[Fault, ...] = ()
    lifecycle: Lifecycle | None = None
    more_boot_seconds: float = 0
    needs_initialize: bool = False


def _refused(code: str, message: str) -> tuple[Fault, ...]:
    return (msgspec.convert({"operation": "create", "code": code, "message": message}, Fault),)


def _each_call(**fault: Any) -> tuple[Fault, ...]:
    calls = ("create", "delete", "status")
    return tuple(msgspec.convert({"operation": each, **fault}, Fault) for each in calls)


BEHAVIOURS: Mapping[str, Behaviour] = {
    "quota": Behaviour(
        "creation is refused: the quota is used up (ResourceExhausted, retried late)",
        _refused("ResourceExhausted", "quota of the simulated account is used up"),
    ),
    "capacity": Behaviour(
        "creation is refused: the zone has no VM of this type left (ResourceExhausted)",
        _refused("ResourceExhausted", "no capacity for this instance type in this zone"),
    ),
    "denied": Behaviour(
        "creation is refused: the credentials may not (PermissionDenied, retried in minutes)",
        _refused("PermissionDenied", "these credentials may not create VMs"),
    ),
    "invalid": Behaviour(
        "creation is refused: the class asks for something that does not exist (InvalidArgument)",
        _refused("InvalidArgument", "there is no such image"),
    ),
    "throttle": Behaviour(
        "the first three creations, deletions and look-ups of each machine are throttled (Unavailable)",
        _each_call(message="request rate exceeded", times=3),
    ),
    "flaky": Behaviour(
        "every call fails with a chance of 30 % (Unavailable)",
        _each_call(message="please try again", chance=0.3),
    ),
    "hang": Behaviour(
        "creation never answers and makes nothing",
        (Fault(operation="create", code="DeadlineExceeded", message="no answer", hang_seconds=_FOR_EVER),),
    ),
    "lost": Behaviour(
        "creation makes the VM, and the first answer is lost; the next look finds the VM",
        (Fault(operation="create", message="connection reset", times=1, after_success=True),),
    ),
    "partial": Behaviour(
        "the VM is made, and its initialization fails twice (Uninitialized) before it works",
        (Fault(operation="initialize", code="Uninitialized", message="network is not set up yet", times=2),),
        needs_initialize=True,
    ),
    "stuck": Behaviour(
        "the first three deletions fail (Unavailable), then the VM goes",
        (Fault(operation="delete", message="the hypervisor is busy", times=3),),
    ),
    "lostdelete": Behaviour(
        "deletion works, and the first answer is lost",
        (Fault(operation="delete", message="connection reset", times=1, after_success=True),),
    ),
    "halfdone": Behaviour(
        "the first two updates in place reach the VM's own tags and fail (Unavailable) before its interface "
        "and its disk",
        (Fault(operation="update", message="please try again", times=2, after_objects=1),),
    ),
    "slowboot": Behaviour("the boot takes two minutes longer", more_boot_seconds=120),
    "neverjoin": Behaviour("the VM runs, and no node ever joins", lifecycle=Lifecycle(joins=False)),
    "dies": Behaviour(
        "the VM dies twenty seconds after it came up", lifecycle=Lifecycle(dies_after_seconds=20)
    ),
    "silent": Behaviour(
        "the kubelet stops twenty seconds after it came up; the VM runs on",
        lifecycle=Lifecycle(kubelet_stops_after_seconds=20),
    ),
    "diskpressure": Behaviour(
        "the node reports DiskPressure twenty seconds after it came up",
        lifecycle=Lifecycle(condition="DiskPressure", condition_after_seconds=20),
    ),
    "readonly": Behaviour(
        "the node reports ReadonlyFilesystem twenty seconds after it came up",
        lifecycle=Lifecycle(condition="ReadonlyFilesystem", condition_after_seconds=20),
    ),
    "notready": Behaviour(
        "the node joins and turns NotReady twenty seconds later",
        lifecycle=Lifecycle(condition="NotReady", condition_after_seconds=20),
    ),
}


def shaped_by(name: str, spec: SimSpec) -> SimSpec:
    """The spec of a machine of that name: the class's, with what its first word adds."""
    if (behaviour := BEHAVIOURS.get(name.partition("-")[0])) is None:
        return spec
    return msgspec.structs.replace(
        spec,
        faults=(*spec.faults, *behaviour.faults),
        lifecycle=behaviour.lifecycle or spec.lifecycle,
        boot_seconds=spec.boot_seconds + behaviour.more_boot_seconds,
        needs_initialize=spec.needs_initialize or behaviour.needs_initialize,
    )


T = TypeVar("T")

COUNTED = 50_000
"""Machines whose faults are counted at the same time; a count is some hundred bytes."""


class Cloud:
    """See the module. For one event loop."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self.clock = clock
        self._inventory = Inventory(clock, store)
        self._faults = FaultInjector(clock)

    # ------------------------------------------------------------ the API that a driver calls

    async def create(self, request: VmRequest) -> Vm:
        """Make a VM, or answer the one of this name and owner. Returns when the cloud has accepted it.

        Raises:
            DriverError: AlreadyExists, the name belongs to another owner; Aborted, it is being
                deleted; ResourceExhausted, the quota; and faults of the spec.
        """
        spec = shaped_by(request.name, request.spec)
        return await self._call(
            "create", request, spec, lambda: self._made(request, spec), seconds=spec.create_seconds
        )

    async def initialize(self, request: VmRequest) -> Vm:
        """Finish a VM that was made. Raises NotFound, and faults of the spec."""

        def effect() -> Vm:
            vm = self._existing(request)
            return vm if vm.initialized else self._inventory.put(replace(vm, initialized=True))

        return await self._call("initialize", request, self._spec_of(request), effect)

    async def status(self, request: VmRequest) -> Vm:
        """The VM. Raises NotFound or Uninitialized, and faults of the spec."""

        def effect() -> Vm:
            vm = self._existing(request)
            if vm.spec.needs_initialize and not vm.initialized:
                text = f"{vm.id} is made but not initialized"
                raise Uninitialized(text, provider_id=vm.provider_id, node_name=vm.node_name)
            return vm

        return await self._call("status", request, self._spec_of(request), effect)

    async def delete(self, request: VmRequest) -> None:
        """Delete a VM; returns when it is gone. Raises NotFound, and faults of the spec."""

        def effect() -> Vm:
            vm = self._on_record(request)
            return self._inventory.end(vm, vm.spec.delete_seconds)

        vm = await self._call("delete", request, self._spec_of(request), effect)
        if vm.gone_at is not None and (left := vm.gone_at - self._inventory.now()) > 0:
            await self.clock.sleep(left)
        if self._inventory.observer is not None:
            await self._inventory.observer.wait_idle(vm.id)
        self._inventory.forget(vm.id)
        await self._inventory.store.saved()

    async def list(self, request: VmRequest) -> Sequence[Vm]:
        """VMs of its namespace that carry the tags by which the class is found (``driver.hot``); without
        tags, those that were made for it.

        With ``listLagSeconds`` the answer is that old.
        """
        spec, tags = request.spec, found_by(request.spec.tags.vm)

        def effect() -> Sequence[Vm]:
            return self._inventory.of(request.account, tags, lag=spec.list_lag_seconds)

        return await self._call("list", request, spec, effect)

    async def update(self, request: VmRequest, last: Tags | None, last_check: bool | None) -> None:
        """Give a VM, its interface and its disk, in this order, what the class says of them now.

        Args:
            request: the VM, and its class as it is now.
            last: the tags that were applied last; None where that is not known.
            last_check: the same of the interface's check of addresses.

        Raises:
            DriverError: NotFound; InvalidArgument, by which objects are found stays, or one would have too
                many tags; and faults of the spec, also after a part.
        """

        def effect(most: int = len(RESOURCES)) -> None:
            vm = _same(self._on_record(request), request)
            check = switched(last_check, request.spec.source_dest_check, True)
            what = changes(last, request.spec.tags, vm.objects)
            for object_id, (resource, actual) in list(vm.objects.items())[:most]:
                tags = changed(actual, what[object_id]) if object_id in what else actual
                if problem := next(tag_problems(resource, tags), ""):
                    raise InvalidArgument(f"{object_id} would have {problem}")
                after = with_tags(vm, resource, tags)
                if resource == NETWORK and check is not None:
                    after = with_check(after, check)
                if after is not vm:
                    vm = self._inventory.put(after)

        await self._call("update", request, self._spec_of(request), effect, part=effect)

    # ------------------------------------------------------------ what an operator may do

    @property
    def vms(self) -> Mapping[str, Vm]:
        """Every VM by id; a snapshot."""
        return self._inventory.all()

    @property
    def disks(self) -> Disks:
        """The cloud's volumes."""
        return self._inventory.disks

    def get(self, vm_id: str) -> Vm | None:
        """One VM, or None when it is gone."""
        return self._inventory.get(vm_id)

    def named(self, name: str, namespace: str = "") -> Vm | None:
        """The VM of that machine; without a namespace the first of any."""
        if namespace:
            return self._inventory.named(namespace, name)
        return next((vm for vm in self.vms.values() if vm.name == name), None)

    def kill(self, vm_id: str) -> None:
        """Power off: the VM exists, and nothing runs on it until ``restart``."""
        self._change(vm_id, lambda vm: replace(vm, powered=False))

    def restart(self, vm_id: str) -> None:
        """Boot again, from any state; orders are dropped, and the spec's lifecycle begins anew."""
        up_in = self._inventory.now()
        self._change(
            vm_id,
            lambda vm: replace(
                vm, powered=True, orders=(), up_at=up_in + vm.spec.boot_seconds, boot=vm.boot + 1
            ),
        )

    def order(self, vm_id: str, orders: AbstractSet[str]) -> None:
        """From now on a VM has exactly these faults (``vm.ORDERS`` and ``stop-kubelet``)."""
        self._change(vm_id, lambda vm: replace(vm, orders=tuple(sorted(orders))))

    def obey(self, vm_id: str, note: str) -> frozenset[str]:
        """Carry out the annotation on the VM's Node once; lasting orders end when it is removed.

        Returns the words that are no orders.
        """
        words = orders_in(note)
        lasting = tuple(sorted(words & LASTING))
        self._change(vm_id, lambda vm: replace(vm, noted=note, orders=lasting))
        for word, act in ((RESTART, self.restart), (DIE, self.kill), (VANISH, self.vanish)):
            if word in words:
                act(vm_id)
        return words - LASTING - {RESTART, DIE, VANISH}

    def tag(self, vm_id: str, resource: str, tags: Mapping[str, str]) -> None:
        """Put tags on a VM (``vm``), its interface (``network``) or its disk (``disk``), as a person does."""

        def tagged(vm: Vm) -> Vm:
            return with_tags(vm, resource, {**vm.resources.tags.of(resource), **tags})

        self._change(vm_id, tagged)

    def bootstrapped(self, vm_id: str, result: Bootstrap) -> None:
        """What has come of the VM's user data, so far as it has run on the VM."""
        self._change(vm_id, lambda vm: replace(vm, bootstrap=result))

    def vanish(self, vm_id: str) -> None:
        """Remove the VM at once, without any call for it."""
        self._inventory.forget(vm_id)

    def observe(self, observer: VmObserver | None) -> None:
        """Notify this observer of every change of a VM from now on; None to stop."""
        self._inventory.observer = observer

    async def close(self) -> None:
        """Write what is pending and close the file."""
        self._inventory.store.close()

    # ------------------------------------------------------------ inside

    async def _call(
        self,
        operation: Operation,
        request: VmRequest,
        spec: SimSpec,
        effect: Callable[[], T],
        *,
        seconds: float = 0,
        part: Callable[[int], object] | None = None,
    ) -> T:
        """One API call: throttled, then failed or carried out, then saved, then answered after its delay.

        A fault may come after a ``part``: so many objects.
        """
        self._faults.throttle(request.account, spec)
        fault = self._faults.next_fault(operation, request.machine, spec)
        if fault is not None and not fault.after_success:
            if fault.after_objects and part is not None:
                self._inventory.forget_gone()
                part(fault.after_objects)
                await self._inventory.store.saved()
            await self._raise(fault)
        self._inventory.forget_gone()
        answer = effect()
        await self._inventory.store.saved()
        if seconds:
            await self.clock.sleep(seconds)
        if fault is not None:
            await self._raise(fault)
        return answer

    async def _raise(self, fault: Fault) -> None:
        if fault.hang_seconds:
            await self.clock.sleep(fault.hang_seconds)
        raise DriverError.of(fault.error_code, fault.message)

    def _made(self, request: VmRequest, spec: SimSpec) -> Vm:
        if (known := self._inventory.named(request.namespace, request.name)) is not None:
            return _same(known, request)
        if spec.quota and (count := self._inventory.count(request.account)) >= spec.quota:
            raise Exhausted(f"quota of class {request.account} is used up: {count} of {spec.quota} VMs")
        return self._inventory.add(request, spec)

    def _existing(self, request: VmRequest) -> Vm:
        vm = self._inventory.named(request.namespace, request.name)
        if vm is None or not request.means(vm):
            raise NotFound(f"there is no VM for machine {request.machine}")
        return vm

    def _on_record(self, request: VmRequest) -> Vm:
        """The VM with the id that is given, if one is."""
        vm = self._existing(request)
        if request.provider_id not in ("", vm.provider_id):
            raise NotFound(f"there is no VM {request.provider_id}, and {vm.provider_id} was not asked for")
        return vm

    def _spec_of(self, request: VmRequest) -> SimSpec:
        """The spec that the VM was made with, for the class may have changed since; else the class's."""
        vm = self._inventory.named(request.namespace, request.name)
        return vm.spec if vm is not None else shaped_by(request.name, request.spec)

    def _change(self, vm_id: str, change: Callable[[Vm], Vm]) -> None:
        if (vm := self._inventory.get(vm_id)) is not None and vm.gone_at is None:
            self._inventory.put(change(vm))


def _same(vm: Vm, request: VmRequest) -> Vm:
    """The VM that a repeated creation finds, if it has the same owner and is not being deleted."""
    if not request.means(vm):
        raise DriverError.of(Code.AlreadyExists, f"{vm.id} has the name {vm.name}, and another owner")
    if vm.gone_at is not None:
        raise DriverError.of(Code.Aborted, f"{vm.id} is still being deleted")
    return vm


class FaultInjector:
    """Decides which calls fail, by counts per machine and by chance.

    Random numbers are the clock's, so a seed repeats the faults. The counts are bounded, and a restart
    loses them: a fault with ``times`` then counts from zero.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: OrderedDict[tuple[str, Operation, int], int] = OrderedDict()
        self._allowance: dict[str, tuple[float, float]] = {}

    def next_fault(self, operation: Operation, machine: str, spec: SimSpec) -> Fault | None:
        """The fault of this call, if any: the first of the spec's that applies."""
        for number, fault in enumerate(spec.faults):
            if fault.operation == operation and self._applies(fault, (machine, operation, number)):
                return fault
        return None

    def throttle(self, account: str, spec: SimSpec) -> None:
        """Count a call against the account's rate; the burst is one second's calls.

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
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > COUNTED:
            self._counts.popitem(last=False)
        return count <= fault.times
