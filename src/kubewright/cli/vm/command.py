"""The work of ``kubewright vm``: ask the driver, print what it answers, say what may be left.

Theory.      What a command answers goes to stdout, what a user should know besides to stderr. The driver's
             error is one sentence, and a failed or interrupted creation adds how to look for what may exist.
Called by    ``app``, ``managevm``.
"""

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.clock import Clock, SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.switches import Unusable, run_until_signal
from kubewright.cli.vm import requests
from kubewright.cli.vm.calls import Chosen, Patience, answered, opened, unless_stopped
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec
from kubewright.driver.errors import Code, DriverError, During, NotFound, Unimplemented, Uninitialized
from kubewright.driver.guard import GuardedDriver

T = TypeVar("T")


class Failed(InvalidInput):
    """The driver says no; the message shows no secret. ``missing``: there is no such VM."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command is about.

    ``name``        the machine; ``provider_id``: its VM, if the user has named it
    ``given``       the switches that name class and Secrets, for a command to look with
    ``seconds``     for how long a call that may succeed in a moment is tried again
    ``output``      ``json`` or empty
    """

    driver: Chosen
    request: ClassRequest = field(default_factory=lambda: ClassRequest(MachineClass()))
    name: str = ""
    provider_id: str = ""
    given: Sequence[str] = ()
    seconds: float = 300.0
    output: str = ""

    def machine(self, state: str = "") -> MachineRequest:
        """What the driver is asked."""
        return requests.machine_request(self.request, self.name, self.provider_id, state=state)

    def hidden(self, text: str) -> str:
        """A text without what the Secrets hold."""
        return requests.hidden(text, self.request.secret.data.values())

    @property
    def vm(self) -> str:
        """The VM in words."""
        return f"VM {self.provider_id}" if self.provider_id else f"VM of machine {self.name}"

    @property
    def look(self) -> str:
        """The command that shows the VM."""
        words = ["kubewright", "vm", "status", self.name, *self.given, "--driver", self.driver.name]
        more = " with the same --data-dir and --driver-option" if self.driver.given else ""
        return f"look with `{shlex.join(words)}`{more}"


Work = Callable[[GuardedDriver, Clock], Awaitable[T]]


def create(asked: Asked) -> None:
    """Make the VM, or find it, and print its id and its node's name.

    Raises:
        Failed: the driver refused, or did not answer in time.
        Stopped: the user has ended the command.
        InvalidInput: the name, the driver or its options are wrong.
    """
    _refuse_name(asked)

    async def work(driver: GuardedDriver, clock: Clock) -> tuple[Instance, list[str]]:
        patience = _patience(asked, During.CREATING)
        made = await answered(lambda state: driver.create(asked.machine(state)), clock, patience)
        if not made.provider_id or not made.node_name:
            raise DriverError.of(
                Code.Internal, "it answered a VM without provider id or node name", broken=True
            )
        return made, await _remarks(driver, asked, made)

    made, remarks = _run(asked, "create", work, makes=True, left="a VM of it may exist")
    _print_vm(asked, made, requests.made_lines)
    for each in remarks:
        note(each)


def check(asked: Asked) -> None:
    """Print what a creation would ask the driver for, if it accepts the class; make nothing. Raises as
    ``create``."""
    _refuse_name(asked)

    async def work(driver: GuardedDriver, _clock: Clock) -> str:
        try:
            await driver.validate(asked.request)
        except Unimplemented:
            return "not told: this driver does not look at classes before it makes a VM"
        return "yes"

    accepted = _run(asked, "validate", work)
    found = {**requests.summary(asked.machine(), asked.driver.name), "accepted": accepted}
    if asked.output:
        _print_json(found)
        return
    for name, value in filter(lambda each: each[1], found.items()):
        print(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    print("nothing was made (--dry-run)")


def initialize(asked: Asked) -> None:
    """Finish what the creation could not express. Raises as ``create``."""
    _refuse_name(asked)

    async def work(driver: GuardedDriver, clock: Clock) -> Instance:
        patience = replace(_patience(asked, During.COMPLETING), again=Code.Uninitialized)
        found = await answered(lambda state: driver.initialize(asked.machine(state)), clock, patience)
        return replace(found, provider_id=found.provider_id or asked.provider_id)

    _print_vm(asked, _run(asked, "initialize", work, left="its VM may be initialized in part"))


def update(asked: Asked, last: Mapping[str, Any] | None, *, dry_run: bool = False) -> None:
    """Make the VM what its class says in the fields that the driver can change while it runs, and print which
    these are; or only print it. Raises as ``create``; ``Failed``, too, if there is no VM.

    Args:
        asked: which VM, and the class as it is to be.
        last: the providerSpec that was applied last; None: not known, and nothing is removed.
        dry_run: change nothing.
    """
    _refuse_name(asked)

    async def work(driver: GuardedDriver, clock: Clock) -> requests.Update:
        fields = driver.hot_fields(asked.request.machine_class)
        found = requests.update_of(asked.request.machine_class.provider_spec, last, fields)
        if dry_run:
            await _found(driver, clock, asked)
            return found
        patience = _patience(asked, During.COMPLETING)
        aimed = replace(asked, request=requests.aimed(asked.request, found.goal))
        await answered(lambda state: driver.update(aimed.machine(state), last), clock, patience)
        return found

    left = "" if dry_run else "its VM may be updated in part; the same command again ends it"
    found = _run(asked, "update", work, left=left)
    if asked.output:
        _print_json({"machineName": asked.name, "providerID": asked.provider_id, **found.shown(dry_run)})
    else:
        print("\n".join(found.lines(asked.vm, dry_run)))
    if found.fixed:
        note(f"only another VM can have these: {', '.join(found.fixed)}")


def status(asked: Asked) -> None:
    """Print the VM as it is. Raises as ``create``; ``Failed``, too, if there is none."""
    _refuse_name(asked)
    _print_vm(asked, _run(asked, "status", lambda driver, clock: _found(driver, clock, asked)))


def delete(asked: Asked) -> None:
    """Delete the VM, and return when it is gone; one that does not exist is gone. Raises as ``create``."""
    _refuse_name(asked)

    async def work(driver: GuardedDriver, clock: Clock) -> bool:
        try:
            await answered(
                lambda state: driver.delete(asked.machine(state)), clock, _patience(asked, During.DELETING)
            )
        except NotFound:
            return False
        return True

    there = _run(asked, "delete", work, left="its VM may still exist")
    if asked.output:
        _print_json({"machineName": asked.name, "providerID": asked.provider_id, "found": there})
    else:
        print(f"deleted {asked.vm}" if there else f"there is no {asked.vm}")


def would_delete(asked: Asked) -> None:
    """Print which VM a deletion would delete. Raises as ``create``."""
    _refuse_name(asked)
    try:
        found = _run(asked, "status", lambda driver, clock: _found(driver, clock, asked))
    except Failed as error:
        if not error.missing:
            raise
        print(f"nothing would be deleted: there is no {asked.vm}")
        return
    print(f"would delete {found.provider_id} (--dry-run)")


def list_vms(asked: Asked) -> None:
    """Print all VMs with the tags of the class, those of machines too. Raises as ``create``."""

    async def work(driver: GuardedDriver, clock: Clock) -> Sequence[Instance]:
        return await answered(lambda _: driver.list(asked.request), clock, _patience(asked, During.LOOKING))

    found = sorted(_run(asked, "list", work), key=lambda vm: (vm.machine_name, vm.provider_id))
    if asked.output:
        _print_json([requests.shown(_safe(asked, vm)) for vm in found])
    else:
        print("\n".join(requests.table(found)))


def volumes(asked: Asked, found: Sequence[VolumeSpec]) -> None:
    """Print the cloud's ids of volumes, a line each; none for those of other clouds. Raises as ``create``."""
    ids = _run(asked, "volume_ids", lambda driver, _clock: driver.volume_ids(found))
    if asked.output:
        _print_json(list(ids))
        return
    for each in ids:
        print(each)


def class_hash(asked: Asked) -> None:
    """Print the hash of the fixed fields of a class, and a name for it.

    Raises:
        Failed: the driver does not say which fields it can change.
        InvalidInput: the driver or its options are wrong.
    """
    found = asked.request.machine_class

    async def work(driver: GuardedDriver, _clock: Clock) -> tuple[str, ...]:
        try:
            return tuple(driver.hot_fields(found))
        except Unimplemented:
            note(f"driver {asked.driver.name} changes no VM that runs, so all fields are fixed")
            return ()

    hot = _run(asked, "hot fields", work)
    shown = requests.hashed(found, hot)
    if asked.output:
        _print_json(shown)
        return
    print(f"hash\t{shown['hash']}\nname\t{shown['name']}\nhot\t{', '.join(hot) or '-'}".expandtabs(8))


def note(text: str) -> None:
    """Tell what is no result."""
    print(f"note: {text}", file=sys.stderr)


def _refuse_name(asked: Asked) -> None:
    """Refuse a name that no machine has: that of a variable which is not set, above all."""
    if problem := requests.name_problem(asked.name):
        raise Unusable(f"machine {asked.name!r}: its name is none that a machine can have: {problem}")


async def _found(driver: GuardedDriver, clock: Clock, asked: Asked) -> Instance:
    """The VM as it is, or as far as it is known while it is not initialized."""
    try:
        return await answered(
            lambda state: driver.status(asked.machine(state)), clock, _patience(asked, During.LOOKING)
        )
    except Uninitialized as error:
        note(f"it is not initialized yet: {asked.hidden(error.message)}")
        return Instance(
            error.provider_id or asked.provider_id, error.node_name, last_known_state=error.last_known_state
        )


async def _remarks(driver: GuardedDriver, asked: Asked, made: Instance) -> list[str]:
    """What a user should know of a VM that was made. What cannot be found out now is not worth an error."""
    found: list[str] = []
    request = requests.machine_request(asked.request, asked.name, made.provider_id)
    try:
        await driver.status(request)
    except Uninitialized:
        found.append("it has to be initialized: `kubewright vm initialize` with the same switches")
    except DriverError:
        pass
    with suppress(DriverError):
        listed = await driver.list(asked.request)
        found += filter(None, [requests.unprotected(made, listed, request.owner_uid)])
    return found


def _patience(asked: Asked, during: During) -> Patience:
    told = set[str]()

    def tell(error: DriverError) -> None:
        if error.message not in told:
            told.add(error.message)
            note(f"{asked.hidden(error.message)}; trying again")

    return Patience(during, asked.seconds, tell)


def _run(asked: Asked, verb: str, work: Work[T], *, makes: bool = False, left: str = "") -> T:
    """The result of the work with the driver. ``left``: what a call may leave that was not answered."""
    clock = SystemClock()
    look = f"; {left}: {asked.look}" if left else ""

    def told() -> None:
        print(f"stopped{look}", file=sys.stderr, flush=True)

    async def session(stop: asyncio.Event) -> T:
        async with opened(asked.driver, clock, makes=makes) as driver:
            return await unless_stopped(work(driver, clock), stop, told)

    try:
        return run_until_signal(session)
    except DriverError as error:
        what = f"{asked.driver.name}: {verb}{f' of {asked.name}' if asked.name else ''}"
        doubt = "" if error.meaning.nothing_done else look
        message = asked.hidden(f"{what}: {error.code.name}: {error.message}")
        raise Failed(f"{message}{doubt}", missing=isinstance(error, NotFound)) from None


def _print_vm(asked: Asked, vm: Instance, lines: Callable[[Instance], list[str]] = requests.lines) -> None:
    if asked.output:
        _print_json(requests.shown(_safe(asked, vm)))
    else:
        print("\n".join(lines(_safe(asked, vm))))


def _safe(asked: Asked, vm: Instance) -> Instance:
    """A VM whose note shows no secret. Ids and names are what a user has asked for, whatever they contain."""
    return replace(vm, last_known_state=asked.hidden(vm.last_known_state))


def _print_json(value: Any) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
