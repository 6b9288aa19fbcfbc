"""The messages of ``driver.proto`` as values, and how they are written and read. Pure.

Theory.      A type lists its fields as the proto file does: number, name, what is in it. ``encode`` and
             ``decode`` walk these lists, so what is not in a list cannot be sent, and what a peer of a later
             version sends besides is passed over. That is all of proto3 that these messages need (decision
             0065 says why no generated code does it): texts, int32, bool, messages and lists of them. A
             ``oneof`` is one attribute with several numbers; the last that was sent counts. Where drivers
             dial, and who may: the options of driver ``grpc``. Secrets pass over the connection, so by
             default there is no network in it: a Unix socket in the data folder, which none but this user can
             open. Where a network is needed both sides show a certificate. A port that any process of the
             network may dial, in plain text, is what MCM had in 2018; it is served only if a switch says what
             that means.
Invariants.  ``decode`` returns a whole value or raises ``Malformed``, whatever the bytes; numbers fit into an
             int32, and texts are UTF-8. A value that was encoded is decoded to an equal one. What cannot be
             served is refused at the start, with the option that is wrong.
Source       GRP-06; the encoding of Protocol Buffers, version 3.
Called by    both sides of a stream.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from kubewright.base.errors import InvalidInput

M = TypeVar("M", bound="Message")

MESSAGE_BYTES = 4 << 20
"""The largest message that either side takes; a list of some 50,000 VMs."""

_VARINT, _BYTES = 0, 2
_VARINT_BYTES = 10
_WORD, _INT32 = 1 << 64, 1 << 32


class Malformed(InvalidInput):
    """These bytes are not a message of the type."""


class Field(NamedTuple):
    """``kind``: str, int, bool, or a type of messages."""

    number: int
    name: str
    kind: type[Any]
    many: bool = False


class Message(msgspec.Struct, frozen=True):
    """What has a list of fields."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()


class MachineClassMeta(Message, frozen=True):
    """Which class, and since which change."""

    name: str = ""
    revision: int = 0
    FIELDS = (Field(1, "name", str), Field(2, "revision", int))


class SecretMeta(Message, frozen=True):
    """Which secret, and since which change."""

    secret_name: str = ""
    namespace: str = ""
    revision: int = 0
    FIELDS = (Field(1, "secret_name", str), Field(2, "namespace", str), Field(3, "revision", int))


class Content(Message, frozen=True):
    """A ``MachineClass`` or a ``Secret`` of the proto file: an object as JSON. Its repr shows nothing."""

    data: str = ""
    error: str = ""
    FIELDS = (Field(1, "data", str), Field(2, "error", str))

    def __repr__(self) -> str:
        return f"Content({len(self.data)} characters, error={self.error!r})"


class Registration(Message, frozen=True):
    """``registerationResp``: which classes a driver serves, and what it can do."""

    name: str = ""
    group: str = ""
    kind: str = ""
    version: str = ""
    operations: tuple[str, ...] = ()
    in_flight: int = 0
    hot_fields: tuple[str, ...] = ()
    FIELDS = (
        Field(1, "name", str),
        Field(2, "group", str),
        Field(3, "kind", str),
        Field(4, "version", str),
        Field(5, "operations", str, many=True),
        Field(6, "in_flight", int),
        Field(7, "hot_fields", str, many=True),
    )


class Address(Message, frozen=True):
    """One address of a VM."""

    type: str = ""
    address: str = ""
    FIELDS = (Field(1, "type", str), Field(2, "address", str))


class Failure(Message, frozen=True):
    """What every answer may say: that it failed."""

    error: str = ""
    error_code: int = 0


class VmAnswer(Failure, frozen=True):
    """One VM, or why there is none."""

    provider_id: str = ""
    node_name: str = ""
    last_known_state: str = ""
    owner_uid: str = ""
    addresses: tuple[Address, ...] = ()
    interruptible: bool = False
    machine_name: str = ""
    FIELDS = (
        Field(1, "provider_id", str),
        Field(2, "node_name", str),
        Field(3, "error", str),
        Field(4, "error_code", int),
        Field(5, "last_known_state", str),
        Field(6, "owner_uid", str),
        Field(7, "addresses", Address, many=True),
        Field(8, "interruptible", bool),
        Field(9, "machine_name", str),
    )


class Created(VmAnswer, frozen=True):
    """``createResp``."""


class Initialized(VmAnswer, frozen=True):
    """``vmResp`` as the answer to initialize."""


class Status(VmAnswer, frozen=True):
    """``vmResp`` as the answer to status."""


class Deleted(Failure, frozen=True):
    """``deleteResp``."""

    last_known_state: str = ""
    FIELDS = (Field(1, "error", str), Field(2, "error_code", int), Field(3, "last_known_state", str))


class ListedVm(Message, frozen=True):
    """``machine``: a VM in a list."""

    machine_id: str = ""
    machine_name: str = ""
    node_name: str = ""
    owner_uid: str = ""
    last_known_state: str = ""
    addresses: tuple[Address, ...] = ()
    interruptible: bool = False
    FIELDS = (
        Field(1, "machine_id", str),
        Field(2, "machine_name", str),
        Field(3, "node_name", str),
        Field(4, "owner_uid", str),
        Field(5, "last_known_state", str),
        Field(6, "addresses", Address, many=True),
        Field(7, "interruptible", bool),
    )


class Listed(Failure, frozen=True):
    """``listResp``."""

    vms: tuple[ListedVm, ...] = ()
    FIELDS = (Field(1, "vms", ListedVm, many=True), Field(2, "error", str), Field(3, "error_code", int))


class VolumeIds(Failure, frozen=True):
    """``volumeIdsResp``."""

    ids: tuple[str, ...] = ()
    FIELDS = (Field(1, "ids", str, many=True), Field(2, "error", str), Field(3, "error_code", int))


class Updated(Failure, frozen=True):
    """``updateResp``."""

    FIELDS = (Field(1, "error", str), Field(2, "error_code", int))


class Validated(Failure, frozen=True):
    """``validateResp``."""

    FIELDS = (Field(1, "error", str), Field(2, "error_code", int))


class Sized(Failure, frozen=True):
    """``sizeResp``."""

    data: str = ""
    FIELDS = (Field(1, "data", str), Field(2, "error", str), Field(3, "error_code", int))


class Shown(Failure, frozen=True):
    """``consoleResp``."""

    data: str = ""
    FIELDS = (Field(1, "data", str), Field(2, "error", str), Field(3, "error_code", int))


class DriverSide(Message, frozen=True):
    """What a driver sends: its registration, an answer, or that it goes."""

    operation_id: int = 0
    operation_type: str = ""
    response: Registration | Failure | None = None
    FIELDS = (
        Field(1, "operation_id", int),
        Field(2, "operation_type", str),
        Field(3, "response", Registration),
        Field(4, "response", Created),
        Field(5, "response", Deleted),
        Field(6, "response", Listed),
        Field(7, "response", Initialized),
        Field(8, "response", Status),
        Field(9, "response", VolumeIds),
        Field(10, "response", Updated),
        Field(11, "response", Validated),
        Field(12, "response", Sized),
        Field(13, "response", Shown),
    )


class Params(Message, frozen=True):
    """``operationParams``: what an operation is about."""

    machine_class: MachineClassMeta | None = None
    credentials: str = ""
    machine_id: str = ""
    machine_name: str = ""
    last_known_state: str = ""
    machine: str = ""
    volumes: str = ""
    last_applied: str = ""
    data_format: str = ""
    version: str = ""
    FIELDS = (
        Field(1, "machine_class", MachineClassMeta),
        Field(2, "credentials", str),
        Field(3, "machine_id", str),
        Field(4, "machine_name", str),
        Field(6, "last_known_state", str),
        Field(7, "machine", str),
        Field(8, "volumes", str),
        Field(9, "last_applied", str),
        Field(10, "data_format", str),
        Field(11, "version", str),
    )


class MCMside(Message, frozen=True):
    """What a manager sends: an operation."""

    operation_id: int = 0
    operation_type: str = ""
    params: Params | None = None
    FIELDS = (
        Field(1, "operation_id", int),
        Field(2, "operation_type", str),
        Field(3, "params", Params),
    )


def encode(message: Message) -> bytes:
    """The bytes of a message; fields at their default are left out."""
    out = bytearray()
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.many:
            for each in value:
                _put(out, field, each)
        elif issubclass(field.kind, Message):
            if type(value) is field.kind:
                _put(out, field, value)
        elif value:
            _put(out, field, value)
    return bytes(out)


def _put(out: bytearray, field: Field, value: Any) -> None:
    if field.kind in (int, bool):
        _put_varint(out, field.number << 3 | _VARINT)
        _put_varint(out, value % _WORD)
        return
    data = encode(value) if issubclass(field.kind, Message) else value.encode("utf-8", "replace")
    _put_varint(out, field.number << 3 | _BYTES)
    _put_varint(out, len(data))
    out += data


def _put_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def decode(kind: type[M], data: bytes) -> M:
    """The message that these bytes are.

    Raises:
        Malformed: they are none, or more than ``MESSAGE_BYTES``.
    """
    if len(data) > MESSAGE_BYTES:
        raise Malformed(f"a message of {len(data)} bytes; the most is {MESSAGE_BYTES}")
    fields = _by_number(kind)
    single: dict[str, tuple[Field, list[Any]]] = {}
    lists: dict[str, list[Any]] = {}
    position = 0
    while position < len(data):
        number, wire, value, position = _field(data, position)
        field = fields.get(number)
        if field is None:
            continue
        if wire != (_VARINT if field.kind in (int, bool) else _BYTES):
            raise Malformed(f"field {number} of a {kind.__name__} has the wire type {wire}")
        if field.many:
            lists.setdefault(field.name, []).append(_value(field, value))
            continue
        known = single.get(field.name)
        if known is not None and known[0] == field and issubclass(field.kind, Message):
            known[1].append(value)  # parts of one message, which together are it
        else:
            single[field.name] = field, [value]
    found = {name: _value(field, _joined(parts)) for name, (field, parts) in single.items()}
    return kind(**found, **{name: tuple(values) for name, values in lists.items()})


@cache
def _by_number(kind: type[Message]) -> dict[int, Field]:
    return {field.number: field for field in kind.FIELDS}


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _value(field: Field, value: Any) -> Any:
    if field.kind is bool:
        return value != 0
    if field.kind is int:
        low = value % _INT32
        return low - _INT32 if low >= _INT32 >> 1 else low
    if issubclass(field.kind, Message):
        return decode(field.kind, value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Malformed(f"field {field.number} is no text: not UTF-8") from None


def _field(data: bytes, position: int) -> tuple[int, int, Any, int]:
    """Number, wire type and value of the field at ``position``, and where the next one begins."""
    tag, position = _varint(data, position)
    number, wire = tag >> 3, tag & 7
    if not number:
        raise Malformed("a field has the number 0")
    match wire:
        case 0:
            value, position = _varint(data, position)
            return number, wire, value, position
        case 1:
            length = 8
        case 2:
            length, position = _varint(data, position)
        case 5:
            length = 4
        case _:
            raise Malformed(f"field {number} has wire type {wire}")
    end = position + length
    if end > len(data):
        raise Malformed(f"field {number} ends {end - len(data)} bytes after the message")
    return number, wire, data[position:end], end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    if position < len(data) and (first := data[position]) < 0x80:
        return first, position + 1
    number = 0
    for index, byte in enumerate(data[position : position + _VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number % _WORD, position + index + 1
    raise Malformed("a number has no end")


PORT = 5000
"""Where MCM listened."""
SOCKET = "drivers.sock"
FOLDER = "grpc"
UNIX = "unix:"
SOCKET_PATH_BYTES = 107
"""The kernel's limit for the path of a Unix socket."""
PLAIN = "secrets-can-be-read"
"""What the option ``plaintext`` has to say."""
TLS = ("certificate", "key", "clientAuthorities")
KNOWN = ("listen", *TLS, "clients", "plaintext")
_HOST = re.compile(r"[\w.-]+|(?P<v6>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]+(%[\w.-]+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Options:
    """``socket`` None: ``host`` and ``port``. ``clients``: names in certificates that may come; none: all.

    ``certificate``, ``key``, ``authorities``  files; None only for a socket, or in plain text.
    """

    socket: Path | None = None
    host: str = ""
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    authorities: Path | None = None
    clients: frozenset[str] = frozenset()

    @property
    def address(self) -> str:
        """As gRPC reads it."""
        if self.socket is not None:
            return f"{UNIX}{self.socket}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_options(given: Mapping[str, str], data_dir: Path | None) -> Options:
    """The options that an administrator gave.

    Raises:
        InvalidInput: an option is unknown or wrong, or others are missing.
    """
    if unknown := sorted(set(given) - set(KNOWN)):
        raise InvalidInput(f"driver grpc has no option {', '.join(unknown)}; it has {', '.join(KNOWN)}")
    listen = given.get("listen", "")
    if not listen or listen.startswith(UNIX):
        return _socket(listen.removeprefix(UNIX), given, data_dir)
    host, port = _host_and_port(listen)
    missing = [name for name in TLS if not given.get(name)]
    plain = given.get("plaintext", "")
    if plain and len(missing) < len(TLS):
        raise InvalidInput("driver grpc: plaintext and certificates contradict each other; leave one out")
    if plain == PLAIN:
        return Options(host=host, port=port)
    if plain:
        raise InvalidInput(f"driver grpc: plaintext wants the word {PLAIN}, not {plain!r}")
    if missing:
        raise InvalidInput(
            f"driver grpc: to listen at {listen} it needs the driver options {', '.join(missing)}; without "
            f"certificates any process that reaches the port gets the secrets (plaintext={PLAIN} allows it)"
        )
    clients = frozenset(each.strip() for each in given.get("clients", "").split(",") if each.strip())
    files = [Path(given[name]) for name in TLS]
    for name, path in zip(TLS, files, strict=True):
        if not path.is_file():
            raise InvalidInput(f"driver grpc: {name}: there is no file {path}")
    certificate, key, authorities = files
    return Options(None, host, port, certificate, key, authorities, clients)


def _socket(path: str, given: Mapping[str, str], data_dir: Path | None) -> Options:
    if beside := sorted(set(given) - {"listen"}):
        raise InvalidInput(f"driver grpc: {', '.join(beside)} goes with listen=HOST:PORT")
    if not path and data_dir is None:
        raise InvalidInput(
            "driver grpc has its socket in a folder: name one (--driver-option dataDir=DIR), or the socket "
            "(--driver-option listen=unix:PATH)"
        )
    found = Path(path) if path else (data_dir or Path()) / FOLDER / SOCKET
    found = found.absolute()
    if problem := _too_long(str(found)):
        raise InvalidInput(f"driver grpc: {problem}")
    return Options(socket=found)


def _too_long(path: str) -> str:
    if (length := len(path.encode())) <= SOCKET_PATH_BYTES:
        return ""
    return f"the path of a socket has at most {SOCKET_PATH_BYTES} bytes, and {path} has {length}"


def _host_and_port(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon:
        host, port = listen, str(PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(host) or not _is_port(port, lowest=0):
        raise InvalidInput(f"driver grpc: listen wants unix:PATH or HOST:PORT, not {listen!r}")
    return host, int(port)


def _is_port(text: str, lowest: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and lowest <= int(text) <= 65535


def check_address(address: str) -> None:
    """Refuse what a driver would dial for ever.

    Raises:
        InvalidInput: it is neither a socket nor a host with a port.
    """
    if address.startswith(UNIX):
        path = address.removeprefix(UNIX)
        fits = path.startswith("///") or (path != "" and not path.startswith("//"))
        if fits and (problem := _too_long(path.removeprefix("//"))):
            raise InvalidInput(problem)
    else:
        host, _, port = address.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        found = _HOST.fullmatch(bare)
        wanted = f"[{bare}]" if found and found["v6"] else bare  # else its last group is taken for a port
        fits = found is not None and host == wanted and _is_port(port, lowest=1)
    if not fits:
        raise InvalidInput(
            "a manager is dialled at unix:PATH or HOST:PORT, such as unix:/srv/manager/grpc/drivers.sock, "
            f"manager.example:5000 or [::1]:5000, not at {address!r}"
        )
