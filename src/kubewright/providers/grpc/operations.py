"""The operations of one driver: which is sent when, and whose answer comes. Pure.

Theory.      A driver of 2018 works on one message at a time, and a creation may take minutes; controllers
             wait minutes at most, then ask again. So an operation belongs to what it is about and not to its
             caller: who asks again for the same finds it where it is, in its place in the queue, under way,
             or answered. An answer that no caller waits for any more is kept for the next one, since it may
             name a VM that exists. An operation is sent only while a caller waits for it; without one it
             keeps its place for a while. Those that change nothing go first, because they are short, and who
             deletes asks them. They are shared as long as they have not been sent: a list that was sent
             before a creation does not show it. Between the values of the driver port and the messages of the
             wire, in both directions. A driver of 2018 says why it failed in one text. What MCM writes there,
             ``machine codes error: ..``, is read again; any other text has the code Unknown, so the call is
             repeated soon. A driver that is served by Kubewright says its code as a number besides.
Invariants.  Of one machine at most one operation is under way that changes something. An id means one
             operation of a stream; it is positive and an int32, and begins again after the last. Everything
             is bounded: what waits, what is kept, what comes unasked. A deletion makes void what is kept of
             the machine's creation, and the other way round. What a driver sends becomes an answer of the
             port or a ``DriverError``; nothing it sends raises anything else. No answer at all to a type of
             operation means that it is not offered.
Source       GRP-09, GRP-10.
Called by    ``connection``, which tells the time and carries the bytes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

import msgspec

from kubewright.base.limits import DRIVER_MESSAGE_CHARS
from kubewright.driver.contract import Instance, Size
from kubewright.driver.errors import Code, DriverError, Uninitialized
from kubewright.providers.grpc.messages import (
    Address,
    Created,
    Deleted,
    DriverSide,
    Failure,
    Initialized,
    Listed,
    ListedVm,
    MCMside,
    Params,
    Shown,
    Sized,
    Status,
    Updated,
    Validated,
    VmAnswer,
    VolumeIds,
)

V = TypeVar("V", bound=VmAnswer)

_WIRE = re.compile(r"machine codes error: code = \[([A-Za-z ]{1,40})\] message = \[(.*)\]\s*", re.DOTALL)


def error_of(answer: Failure, what: str) -> DriverError | None:
    """The error that an answer tells; None: it succeeded."""
    if not answer.error and not answer.error_code:
        return None
    code, text = _code_and_text(answer.error, answer.error_code)
    state = getattr(answer, "last_known_state", "")
    text = text[:DRIVER_MESSAGE_CHARS] or f"{what} failed, and the driver does not say why"
    if code is Code.Uninitialized and isinstance(answer, VmAnswer):
        return Uninitialized(
            text, last_known_state=state, provider_id=answer.provider_id, node_name=answer.node_name
        )
    return DriverError.of(code, text, last_known_state=state)


def _code_and_text(text: str, number: int) -> tuple[Code, str]:
    found = _WIRE.fullmatch(text)
    if found is not None:
        text = found[2]
    if number:
        return _code(number), text
    name = found[1].replace(" ", "") if found is not None else ""
    known = Code.__members__.get(name, Code.Unknown)
    return (known if known is not Code.OK else Code.Unknown), text


def _code(number: int) -> Code:
    try:
        return Code(number)
    except ValueError:
        return Code.Unknown


def instance_of(answer: VmAnswer, machine_name: str) -> Instance:
    """The VM that an answer names; ``machine_name``: whose it is, where the answer does not say it."""
    return Instance(
        provider_id=answer.provider_id,
        node_name=answer.node_name,
        machine_name=answer.machine_name or machine_name,
        owner_uid=answer.owner_uid,
        addresses=_pairs(answer.addresses),
        last_known_state=answer.last_known_state,
        interruptible=answer.interruptible,
    )


def listed_instance(vm: ListedVm) -> Instance:
    """A VM of a list."""
    return Instance(
        provider_id=vm.machine_id,
        node_name=vm.node_name,
        machine_name=vm.machine_name,
        owner_uid=vm.owner_uid,
        addresses=_pairs(vm.addresses),
        last_known_state=vm.last_known_state,
        interruptible=vm.interruptible,
    )


def _pairs(addresses: Iterable[Address]) -> tuple[tuple[str, str], ...]:
    return tuple((each.type, each.address) for each in addresses)


def size_of(data: str, what: str) -> Size:
    """What a node will offer.

    Raises:
        DriverError: the text is not what the proto file says (``Internal``).
    """
    try:
        return msgspec.json.decode(data.encode(), type=Size)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DriverError.of(Code.Internal, f"{what}: the driver's answer cannot be read: {error}") from None


def vm_answer(kind: type[V], vm: Instance) -> V:
    """An answer that names a VM."""
    return kind(
        provider_id=vm.provider_id,
        node_name=vm.node_name,
        machine_name=vm.machine_name,
        owner_uid=vm.owner_uid,
        addresses=_addresses(vm),
        last_known_state=vm.last_known_state,
        interruptible=vm.interruptible,
    )


def listed_vm(vm: Instance) -> ListedVm:
    """A VM for a list."""
    return ListedVm(
        machine_id=vm.provider_id,
        machine_name=vm.machine_name,
        node_name=vm.node_name,
        owner_uid=vm.owner_uid,
        last_known_state=vm.last_known_state,
        addresses=_addresses(vm),
        interruptible=vm.interruptible,
    )


def _addresses(vm: Instance) -> tuple[Address, ...]:
    return tuple(Address(kind, address) for kind, address in vm.addresses)


def failed(kind: type[Failure], error: DriverError) -> Failure:
    """An answer of this type that tells an error, with code and text apart."""
    fields: dict[str, object] = {"error": error.message, "error_code": int(error.code)}
    known = {field.name for field in kind.FIELDS}
    left: Mapping[str, str] = {
        "last_known_state": error.last_known_state,
        "provider_id": getattr(error, "provider_id", ""),
        "node_name": getattr(error, "node_name", ""),
    }
    return msgspec.convert({**fields, **{n: v for n, v in left.items() if n in known}}, kind)


QUEUE = 4000
"""Operations that wait for one driver: every slot of two worlds' guards, several times."""
KEPT = 2000
"""Late answers that are kept, and for how many seconds each; a caller comes back within seconds."""
KEPT_SECONDS = 600.0
PLACE_SECONDS = 60.0
"""How long an operation without a caller keeps its place; the pause after ``Unavailable`` is 5 seconds."""
HUNG_SECONDS = 900.0
"""After so long without an answer a driver is taken to be hung: its stream ends, and it may dial again."""
STRAY = 100
"""Answers to no operation of a stream, after which it ends."""
LAST_ID = (1 << 31) - 1


class Kind(Enum):
    """The operations; the value is ``operationType``."""

    CREATE = "create"
    INITIALIZE = "initialize"
    DELETE = "delete"
    STATUS = "status"
    LIST = "list"
    VOLUME_IDS = "volumeids"
    VALIDATE = "validate"
    SIZE = "size"
    UPDATE = "update"
    CONSOLE = "console"


REGISTER, UNREGISTER = "register", "unregister"
FIRST_GENERATION = (Kind.CREATE, Kind.DELETE, Kind.LIST)
"""What a driver knows that does not say what it knows."""
KEEPS = (Kind.CREATE, Kind.INITIALIZE, Kind.DELETE)
"""Operations whose late answers are kept: a VM is there from then on, or gone."""
CHANGES = (*KEEPS, Kind.UPDATE)
"""An update is repeated after a late answer: its class may have been another one meanwhile."""
ANSWERS: dict[Kind, type[Failure]] = {
    Kind.CREATE: Created,
    Kind.INITIALIZE: Initialized,
    Kind.DELETE: Deleted,
    Kind.STATUS: Status,
    Kind.LIST: Listed,
    Kind.VOLUME_IDS: VolumeIds,
    Kind.VALIDATE: Validated,
    Kind.SIZE: Sized,
    Kind.UPDATE: Updated,
    Kind.CONSOLE: Shown,
}

Subject = tuple[str, ...]
"""What an operation is about: namespace, name and owner of a machine; a class and its revision."""


class State(Enum):
    """How far an operation is."""

    QUEUED = "queued"
    SENT = "sent"
    ANSWERED = "answered"
    LOST = "lost"
    """The stream has ended."""


@dataclass(eq=False, slots=True)
class Operation:
    """One operation. ``since``: when it was queued, or left by its last caller, or sent, or answered."""

    kind: Kind
    subject: Subject
    params: Params
    since: float
    state: State = State.QUEUED
    callers: int = 0
    answer: Failure | None = None
    unknown: bool = False
    """The driver answered without a response: it does not know the type."""
    wrong: str = ""
    """What it answered with instead of what was asked."""
    id: int = 0

    @property
    def changes(self) -> bool:
        return self.kind in CHANGES

    @property
    def machine(self) -> Subject:
        """Namespace, name and owner, if it is about a machine."""
        return self.subject[:3]


class QueueFull(Exception):
    """More operations wait for this driver than may."""


@dataclass(slots=True)
class Operations:
    """All of one stream. ``in_flight``: how many the driver works on at a time."""

    in_flight: int = 1
    stray: int = 0
    _queue: list[Operation] = field(default_factory=list)
    _sent: dict[int, Operation] = field(default_factory=dict)
    _kept: dict[tuple[Kind, Subject], Operation] = field(default_factory=dict)
    _last_id: int = 0

    def __iter__(self) -> Iterator[Operation]:
        """Those without an answer."""
        return iter((*self._sent.values(), *self._queue))

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def sent(self) -> int:
        return len(self._sent)

    def ask(self, kind: Kind, subject: Subject, params: Params, now: float) -> Operation:
        """The operation for a caller, who has to ``leave`` it: one that is there, or a new one.

        Raises:
            QueueFull: too many wait.
        """
        self._forget(now)
        if kind in KEEPS:
            self._make_void(kind, subject)
        found = self._kept.pop((kind, subject), None) or self._shared(kind, subject)
        if found is None:
            if len(self._queue) >= QUEUE:
                raise QueueFull
            found = Operation(kind, subject, params, now)
            self._queue.append(found)
        if found.state is State.QUEUED:
            found.params = params  # the last to ask knows best
        found.callers += 1
        return found

    def leave(self, operation: Operation, now: float) -> None:
        """A caller waits no longer."""
        operation.callers -= 1
        if operation.state is State.QUEUED:
            operation.since = now

    def next(self, now: float) -> Operation | None:
        """The operation to be sent now, with its id; None: none, or the driver has enough to do."""
        if len(self._sent) >= self.in_flight:
            return None
        self._forget(now)
        busy = {each.machine for each in self._sent.values() if each.changes}
        ready = [each for each in self._queue if each.callers and not (each.changes and each.machine in busy)]
        if not ready:
            return None
        found = next((each for each in ready if not each.changes), ready[0])
        self._queue.remove(found)
        if found.kind in KEEPS:  # an answer may have come and been kept since it was asked for
            self._make_void(found.kind, found.subject)
        found.id, found.state, found.since = self._new_id(), State.SENT, now
        self._sent[found.id] = found
        return found

    def answered(self, message: DriverSide, now: float) -> Operation | None:
        """The operation that a message answers; None: none. Its answer may be wrong, and says so."""
        operation = self._sent.get(message.operation_id)
        if operation is None:
            self.stray += 1
            return None
        del self._sent[operation.id]
        operation.state, operation.since = State.ANSWERED, now
        if message.operation_type not in ("", operation.kind.value):
            operation.wrong = f"an operationType {message.operation_type[:40]!r}"
        elif message.response is None:
            operation.unknown = True
        elif type(message.response) is ANSWERS[operation.kind]:
            operation.answer = message.response
        else:
            operation.wrong = f"the response {type(message.response).__name__}"
        if not operation.callers and operation.kind in KEEPS and self._succeeded(operation):
            self._kept[operation.kind, operation.subject] = operation
        return operation

    def hung(self, now: float) -> Operation | None:
        """An operation for whose answer there is no hope any more."""
        late = [each for each in self._sent.values() if now - each.since >= HUNG_SECONDS]
        return min(late, key=lambda each: each.since, default=None)

    def lost(self) -> list[Operation]:
        """The stream has ended: no operation will be answered any more. Those that had no answer."""
        found = list(self)
        for each in found:
            each.wrong = "" if each.state is State.SENT else "not sent"
            each.state = State.LOST
        self._queue.clear()
        self._sent.clear()
        return found

    def _shared(self, kind: Kind, subject: Subject) -> Operation | None:
        if kind in CHANGES:
            for each in self._sent.values():
                if (each.kind, each.subject) == (kind, subject):
                    return each
        for each in self._queue:
            if (each.kind, each.subject) == (kind, subject):
                return each
        return None

    def _make_void(self, kind: Kind, subject: Subject) -> None:
        """What was asked or kept of this machine, and means the contrary."""

        def contrary(each: Operation) -> bool:
            return each.machine == subject[:3] and (each.kind is Kind.DELETE) != (kind is Kind.DELETE)

        self._kept = _without(self._kept, contrary)
        self._queue = [each for each in self._queue if each.callers or not contrary(each)]

    def _forget(self, now: float) -> None:
        self._queue = [each for each in self._queue if each.callers or now - each.since < PLACE_SECONDS]
        if self._kept:
            self._kept = _without(self._kept, lambda each: now - each.since >= KEPT_SECONDS)
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]

    def _new_id(self) -> int:
        while True:
            self._last_id = self._last_id % LAST_ID + 1
            if self._last_id not in self._sent:
                return self._last_id

    @staticmethod
    def _succeeded(operation: Operation) -> bool:
        return operation.answer is not None and not (operation.answer.error or operation.answer.error_code)


def _without(
    kept: dict[tuple[Kind, Subject], Operation], gone: Callable[[Operation], bool]
) -> dict[tuple[Kind, Subject], Operation]:
    return {key: each for key, each in kept.items() if not gone(each)}


def message_of(operation: Operation) -> MCMside:
    """What is sent for it."""
    return MCMside(operation.id, operation.kind.value, operation.params)
