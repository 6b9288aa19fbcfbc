"""The driver port on EC2: requests in, instances out.

Theory.      EC2 shows what it has made only after a while: an instance is not in a list for seconds after it
             was made, and a request whose answer was lost may have made one. So a VM is found again in three
             ways. Its tags, which it has from the first moment; the ClientToken, with which EC2 answers an
             instance that it made already (``launch``); and for five minutes the memory of this process,
             which fills the gap between both. Each alone is right; together they ask less. A token is used up
             when its instance has ended. Then the next one is tried, ``ATTEMPTS`` at the most: an instance
             that ends at once (a key for its volumes that cannot be used) is not made again and again without
             end. An instance that is told to end still runs for a while. A deletion waits for its end, all
             deletions on the same beat, so that one question asks for all of them.
Invariants.  No instance is ended, changed or taken for a machine's that lacks the tags of the class, or is
             another namespace's: who may write a Machine may write any provider id.
Source       AWS-01 to AWS-10.
Called by    the machine controllers through ``driver.guard``; ``compose`` for ``close``.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.clock import Clock
from kubewright.driver.answers import of_old_class
from kubewright.driver.contract import (
    ClassRequest,
    Instance,
    MachineRequest,
    OldClass,
    Size,
    VolumeSpec,
)
from kubewright.driver.errors import (
    Code,
    DriverError,
    InvalidArgument,
    NotFound,
    Unimplemented,
    Uninitialized,
)
from kubewright.providers.aws import launch
from kubewright.providers.aws.calls import MISMATCH, NO_INSTANCE, TERMINATED, Refused
from kubewright.providers.aws.ec2 import Account, Accounts, Deadlines, credentials
from kubewright.providers.aws.instances import (
    ENDED,
    ENDING,
    KNOWN,
    Vm,
    complete,
    instance,
    instance_id,
    is_of_class,
    of_machine,
    vms,
    volume_ids,
)
from kubewright.providers.aws.spec import OLD_KIND, PROVIDER, SPEC_VERSION, AwsSpec, Options, parse_spec
from kubewright.wire.gvk import Resource
from kubewright.wire.naming import machine_name_problem

T = TypeVar("T")
V = TypeVar("V")
SETTLES = timedelta(minutes=5)
"""How long EC2 may take to show an instance that it has made, to all who ask."""

ASKED_SECONDS = 5.0
"""A creation right after a status that found nothing does not ask again; the ClientToken is there anyway."""

DEADLINES = Deadlines()
MOST_REMEMBERED = 10_000
ATTEMPTS = 8
BEAT_SECONDS, END_SECONDS = 5.0, 180.0

Owner = tuple[str, str, str, str]
"""Region, namespace, name and owner's uid."""


@dataclass(frozen=True, slots=True)
class At:
    """Where a request is answered."""

    account: Account
    spec: AwsSpec


class AwsDriver:
    """A ``driver.contract.Driver`` whose VMs are instances of EC2."""

    def __init__(self, clock: Clock, options: Options, deadlines: Deadlines = DEADLINES) -> None:
        self._clock = clock
        self._options = options
        self._accounts = Accounts(options, clock, deadlines)
        self._made: OrderedDict[Owner, tuple[float, Vm]] = OrderedDict()
        """Instances that EC2 may not show yet, and when they were made."""
        self._absent: OrderedDict[Owner, float] = OrderedDict()
        """When EC2 was last asked for a VM and showed none."""

    async def create(self, request: MachineRequest) -> Instance:
        if problem := machine_name_problem(request.name):
            raise InvalidArgument(f"machine {request.name}: its name {problem}")
        async with self._at(request) as at:
            if not self._asked_just_now(at, request):
                found = await self._own(at, request)
                if found is not None:
                    _refuse_another(at, found)
                    return complete(found, at.spec.region)
            image = await at.account.image(at.spec)
            vm = await self._run(at, request, image)
            _keep(self._made, _owner(at, request), (self._clock.monotonic(), vm))
            return complete(vm, at.spec.region)

    def migrated_kinds(self) -> Sequence[Resource]:
        """The classes that MCM had for AWS (``contract.Migrates``)."""
        return (OLD_KIND,)

    async def generate_machine_class(self, old: OldClass) -> MachineClass:
        """The same VMs by a MachineClass (``contract.Migrates``): the fields kept their names."""
        made = of_old_class(old, PROVIDER, head={"apiVersion": SPEC_VERSION})
        parse_spec(made.provider_spec)
        return made

    async def initialize(self, request: MachineRequest) -> Instance:
        async with self._at(request) as at:
            if not at.spec.needs_initializing:
                raise Unimplemented("this class asks for nothing that a launch cannot do")
            vm = _there(await self._own(at, request), request)
            made = complete(vm, at.spec.region)
            for step in launch.missing(at.spec, vm):
                try:
                    await at.account.call(step.operation, **step.arguments)
                except DriverError as error:
                    raise _uninitialized(f"{step.why}: {error.message}", made) from error
            self._remember(at, request, launch.completed(at.spec, vm))
            return made

    async def delete(self, request: MachineRequest) -> str | None:
        async with self._at(request) as at:
            shown, on_record = await self._shown(at, request), _on_record(at, request)
            _refuse_another_cluster(at, request, shown, on_record)
            if on_record:
                shown = [vm for vm in shown if vm.instance_id == on_record]
                if not shown:
                    self._refuse_unsettled(request)
            left = [vm for vm in shown if vm.state.name in KNOWN]
            if not left:
                raise NotFound(f"there is no VM of machine {request.name}")
            await asyncio.gather(*(self._end(at, vm) for vm in left))
            self._made.pop(_owner(at, request), None)
            return None

    async def status(self, request: MachineRequest) -> Instance:
        async with self._at(request) as at:
            vm = await self._own(at, request)
            if vm is None:
                _keep(self._absent, _owner(at, request), self._clock.monotonic())
            found = _there(vm, request)
            made = complete(found, at.spec.region)
            if lacking := launch.missing(at.spec, found):
                raise _uninitialized(lacking[0].why, made)
            return made

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        async with self._at(request) as at:
            namespace = request.machine_class.metadata.namespace
            return [
                instance(vm, at.spec.region)
                for vm in await at.account.listed(at.spec)
                if vm.there and is_of_class(vm, at.spec, namespace)
            ]

    def hot_fields(self, _machine_class: MachineClass) -> Sequence[str]:
        """What ``update`` applies (``contract.Updates``)."""
        return launch.HOT_FIELDS

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        """Tags and checks of addresses of an instance that runs (``contract.Updates``)."""
        async with self._at(request) as at:
            vm = _there(await self._own(at, request), request)
            tags_of = await at.account.tags_of(launch.parts(vm))
            what = launch.changes(at.spec, last_applied, vm, tags_of)
            for step in launch.steps(at.spec, last_applied, vm, what):
                await at.account.call(step.operation, **step.arguments)
            self._remember(at, request, launch.updated(at.spec, last_applied, vm, what))

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return volume_ids(volumes)

    async def size(self, request: ClassRequest) -> Size:
        """What a node of this class will offer (``contract.Sizes``)."""
        async with self._at(request) as at:
            return (await at.account.machine_type(at.spec)).size

    async def validate(self, request: ClassRequest) -> None:
        """Refuse a class by which no VM can be made (``contract.Validates``). Its Secret may have no user
        data: a machine of Cluster API brings its own."""
        data = request.secret.data.get("userData", b"")
        async with self._at(request) as at:
            if data:
                launch.user_data(data)
            image = await at.account.image(at.spec)
            try:
                kind = await at.account.machine_type(at.spec)
            except DriverError as error:
                if error.code is Code.PermissionDenied:
                    return  # no creation needs that right
                raise
            if wrong := launch.mismatch(at.spec, image, kind):
                raise InvalidArgument(f"providerSpec: {wrong}")

    async def close(self) -> None:
        """Close the connections (``contract.Closing``)."""
        await self._accounts.close()

    @asynccontextmanager
    async def _at(self, request: MachineRequest | ClassRequest) -> AsyncIterator[At]:
        """Where a request is answered. Raises InvalidArgument, or Unauthenticated without credentials."""
        found = request.machine_class
        if found.provider.lower() not in ("", PROVIDER):
            raise InvalidArgument(
                f"class {found.metadata.name} is for provider {found.provider!r}, not {PROVIDER!r}"
            )
        spec = parse_spec(found.provider_spec)
        async with self._accounts.of(spec.region, credentials(request.secret.data, self._options)) as account:
            yield At(account, spec)

    async def _own(self, at: At, request: MachineRequest) -> Vm | None:
        """The VM of a machine, if there is one: none of another cluster, whatever provider id is on record.

        Raises:
            DriverError: there are several (``OutOfRange``).
        """
        shown = await self._shown(at, request)
        there = [vm for vm in shown if vm.there and is_of_class(vm, at.spec, request.namespace)]
        if len(there) > 1:
            ids = ", ".join(sorted(vm.instance_id for vm in there))
            raise DriverError.of(Code.OutOfRange, f"machine {request.name} has {len(there)} VMs: {ids}")
        return there[0] if there else None

    async def _shown(self, at: At, request: MachineRequest) -> Sequence[Vm]:
        """The VMs of a machine in whatever state, those that ended a while ago included."""
        on_record, named = _on_record(at, request), await at.account.named(at.spec, request.name)
        shown = {vm.instance_id: vm for vm in of_machine(named, request, on_record)}
        new = self._unsettled(at, request)
        if new is not None and all(each.instance_id != new.instance_id for each in named):
            shown[new.instance_id] = new
        if on_record and on_record not in shown:
            found = await at.account.by_id(on_record)
            shown |= {found.instance_id: found} if found is not None else {}
        return list(shown.values())

    def _remember(self, at: At, request: MachineRequest, vm: Vm) -> None:
        """Keep what was done to an instance that EC2 may not show yet."""
        made_at, known = self._made.get(_owner(at, request), (0.0, None))
        if known is not None and known.instance_id == vm.instance_id:
            self._made[_owner(at, request)] = (made_at, vm)

    def _unsettled(self, at: At, request: MachineRequest) -> Vm | None:
        """The instance that this process has made for a machine a short while ago."""
        made_at, vm = self._made.get(_owner(at, request), (0.0, None))
        if vm is None or self._clock.monotonic() - made_at > SETTLES.total_seconds():
            return None
        return vm if is_of_class(vm, at.spec, request.namespace) else None

    def _asked_just_now(self, at: At, request: MachineRequest) -> bool:
        asked = self._absent.pop(_owner(at, request), None)
        return asked is not None and self._clock.monotonic() - asked <= ASKED_SECONDS

    async def _run(self, at: At, request: MachineRequest, image: launch.Image) -> Vm:
        why = "EC2 does not say why"
        for attempt in range(ATTEMPTS):
            arguments = launch.run_instances(at.spec, request, image, self._options, attempt)
            try:
                if not (found := vms(await at.account.call("RunInstances", **arguments))):
                    raise DriverError.of(Code.Internal, "RunInstances: the answer has no instance")
            except Refused as error:
                if error.name not in (TERMINATED, MISMATCH):
                    raise
                found = await at.account.by_token(arguments["ClientToken"])
                if error.name == MISMATCH and not found:
                    text = f"another request for its VM is under way ({error.message})"
                    raise DriverError.of(Code.Aborted, text) from None
            for vm in found:
                if vm.there:
                    _refuse_another(at, vm)
                    return vm
                why = vm.state_reason.message or why
        text = f"{ATTEMPTS} VMs were made for machine {request.name}, and all have ended: {why}"
        raise DriverError.of(Code.FailedPrecondition, text)

    async def _end(self, at: At, vm: Vm) -> None:
        """End an instance, and return when it can run nothing any more."""
        if vm.state.name != ENDING:
            try:
                answer = await at.account.call("TerminateInstances", InstanceIds=[vm.instance_id])
            except Refused as error:
                if error.name == NO_INSTANCE:  # it was shown a moment ago
                    raise DriverError.of(Code.Unavailable, f"{error.message} (yet)") from None
                if error.code is Code.InvalidArgument:  # no class can be wrong here: it is about the VM
                    raise DriverError.of(Code.FailedPrecondition, error.message) from None
                raise
            states = [
                each.get("CurrentState", {}).get("Name") for each in answer.get("TerminatingInstances", ())
            ]
            if states == [ENDED]:
                return
        ends = self._clock.monotonic() + END_SECONDS
        while (left := ends - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, BEAT_SECONDS - self._clock.monotonic() % BEAT_SECONDS))
            seen = await at.account.by_id(vm.instance_id)
            if seen is not None and seen.state.name == ENDED:
                return
        text = f"VM {vm.instance_id} was told to end, and has not within {END_SECONDS:g} s"
        raise DriverError.of(Code.Unavailable, text)

    def _refuse_unsettled(self, request: MachineRequest) -> None:
        """A VM that was just made may not be shown yet, and would stay."""
        created = request.machine.metadata.creation_timestamp
        if created is not None and self._clock.now() - created < SETTLES:
            text = f"EC2 does not show {request.provider_id}, which may be too new for that"
            raise DriverError.of(Code.Unavailable, text)


def _on_record(at: At, request: MachineRequest) -> str:
    return instance_id(request.provider_id, at.spec.region) if request.provider_id else ""


def _owner(at: At, request: MachineRequest) -> Owner:
    return at.spec.region, request.namespace, request.name, request.owner_uid


def _keep(memory: OrderedDict[T, V], key: T, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > MOST_REMEMBERED:
        memory.popitem(last=False)


def _there(vm: Vm | None, request: MachineRequest) -> Vm:
    if vm is None:
        raise NotFound(f"there is no VM of machine {request.name}")
    return vm


def _refuse_another(at: At, vm: Vm) -> None:
    """Raises AlreadyExists if a VM that is there already is another one than the class says."""
    if other := launch.other_parameters(at.spec, vm):
        raise DriverError.of(Code.AlreadyExists, f"VM {vm.instance_id} is there already, and {other}")


def _refuse_another_cluster(at: At, request: MachineRequest, shown: Sequence[Vm], on_record: str) -> None:
    for vm in shown:
        if vm.instance_id == on_record and not is_of_class(vm, at.spec, request.namespace):
            text = (
                f"VM {on_record} does not carry the tags of cluster and role of its class, or was made for "
                "another namespace, and is left alone"
            )
            raise DriverError.of(Code.FailedPrecondition, text)


def _uninitialized(message: str, made: Instance) -> Uninitialized:
    return Uninitialized(message, provider_id=made.provider_id, node_name=made.node_name)
