"""Between the values of the driver port and the messages of the wire, in both directions. Pure.

Theory.      A driver of 2018 says why it failed in one text. What MCM writes there, ``machine codes error:
             ..``, is read again; any other text has the code Unknown, so the call is repeated soon. A driver
             that is served by Kubewright says its code as a number besides.
Invariants.  What a driver sends becomes an answer of the port or a ``DriverError``; nothing it sends raises
             anything else. No answer at all to a type of operation means that it is not offered.
Source       mcm.md §3.2, §11.2; seed 004 (machine error codes).
Called by    ``dispatch`` on the manager's side, ``serving`` on the driver's.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from kubewright.base.limits import DRIVER_MESSAGE_CHARS
from kubewright.driver.contract import Instance, Size
from kubewright.driver.errors import Code, DriverError, Uninitialized
from kubewright.providers.grpc.messages import Address, Failure, ListedVm, VmAnswer

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
