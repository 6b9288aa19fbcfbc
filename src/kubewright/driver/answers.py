"""Convert a driver's answers and errors to the types of the contract, or to an error that says why not. Pure.

Theory.      Python checks no types: a driver may answer None, a dict, a VM whose id is a number, and raise an
             error without a message. Each would fail later, in a controller, far from the driver. So every
             answer is converted to the type that the contract names. If that is impossible the call has
             failed, and the error says what was wrong with the answer. It names types and places and no
             values, because an answer may contain what the Secret of the class contains.
Invariants.  What these functions return has the declared types, at run time too.
             The other way round a driver reads a class's ``providerSpec`` into a type of its own
             (``provider_spec``), and makes a MachineClass of an old class (``of_old_class``). What a VM wrote
             to its console is shown to users who may read machines, and no secrets: tokens and keys are taken
             out of it (``console_end``), and what a terminal would take for commands.
             A boot that came to nothing is told there and nowhere else (``boot_failure``): by cloud-init when
             the user data cannot be read or its commands fail, by Ignition, by a kernel that cannot go on.
             What makes a node of a VM is in the user data, so modules of cloud-init that do not run it do not
             count, nor do lines in which a command quotes one. The next boot of the VM begins anew.
Called by    ``guard``, around every call; drivers for ``provider_spec`` and ``of_old_class``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from kubewright.api.machine.v1alpha1 import MachineClass, SecretReference
from kubewright.base.limits import DRIVER_MESSAGE_CHARS, MESSAGE_CHARS
from kubewright.driver.contract import OldClass
from kubewright.driver.errors import Code, DriverError, InvalidArgument

T = TypeVar("T")
_TEXTS = ("message", "last_known_state", "provider_id", "node_name")
"""The attributes of errors that go into objects; the last two are those of ``Uninitialized``."""


def checked(answer: object, kind: type[T], call: str) -> T:
    """The answer as a ``kind``: a dataclass of ``contract``, a list of one, a text.

    Args:
        answer: what the driver has answered.
        kind: the type of the contract.
        call: which call it is the answer to, for the message.

    Raises:
        DriverError: it is something else (``Internal``).
    """
    try:
        return msgspec.convert(msgspec.to_builtins(answer, builtin_types=(bytes, bytearray)), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        found = type(answer).__name__
        text = f"the driver's answer to {call} ({found}) is not what the contract says: {error}"
        raise DriverError.of(Code.Internal, text[:MESSAGE_CHARS], broken=True) from None


def checked_error(error: DriverError, call: str) -> DriverError:
    """The driver's error, if its code is that of an error and its texts are texts; else one that tells the
    driver's author which of them is not."""
    wrong = [name for name in _TEXTS if not isinstance(getattr(error, name, ""), str)]
    if not hasattr(error, "message"):
        wrong.append("message (missing: __init__ of DriverError was not called)")
    code: object = error.code
    if not isinstance(code, Code) or code is Code.OK:
        wrong.append("code")
    if wrong:
        text = f"the driver raised a {type(error).__name__} for {call} with an invalid {', '.join(wrong)}"
        return DriverError.of(Code.Unknown, text, broken=True)
    error.message = error.message[:DRIVER_MESSAGE_CHARS]
    return error


def unknown_error(error: BaseException) -> DriverError:
    """The ``Unknown`` error for an exception that is no ``DriverError``."""
    return DriverError.of(Code.Unknown, f"{type(error).__name__}: {error}"[:MESSAGE_CHARS], broken=True)


def provider_spec(raw: Mapping[str, Any], kind: type[T]) -> T:
    """A class's ``providerSpec`` as the driver's own type.

    Raises:
        InvalidArgument: an unknown field, a wrong type or a value out of range; names the field.
    """
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"providerSpec: {plainly(_with_choices(kind, str(error)))}") from None


def _with_choices(kind: Any, message: str) -> str:
    """A message of msgspec with what the field may be, where it says what it is not, or a pattern that the
    driver's author has described."""
    reason, at, path = message.partition(" - at `$")
    if "enum value" not in reason and "matching regex" not in reason:
        return message
    found = [inspect.type_info(kind)]
    for part in re.findall(r"[A-Za-z_]\w*|\[", path):
        found = [inner for each in found for inner in _inside(each, part)]
    hint = next((hint for each in found if (hint := _may_be(each))), "")
    reason = (
        f"{reason}; it may be {hint}" if "enum value" in reason else f"Expected {hint}" if hint else reason
    )
    return f"{reason}{at}{path}"


def _inside(of: Any, part: str) -> list[Any]:
    """The types that a part of a path leads to: a field's name, or a bracket for what a list or map holds."""
    if isinstance(of, inspect.UnionType):
        return [inner for each in of.types for inner in _inside(each, part)]
    if isinstance(of, inspect.StructType):
        return [each.type for each in of.fields if each.encode_name == part]
    held = getattr(of, "item_type", None) or getattr(of, "value_type", None)
    return [held] if held is not None and part == "[" else []


def _may_be(of: Any) -> str:
    if isinstance(of, inspect.UnionType):
        return next((hint for each in of.types if (hint := _may_be(each))), "")
    if isinstance(of, inspect.Metadata):
        told = (of.extra_json_schema or {}).get("description", "")
        return str(told) or _may_be(of.type)
    values: Iterable[Any] = ()
    if isinstance(of, inspect.LiteralType):
        values = of.values
    elif isinstance(of, inspect.EnumType):
        values = (each.value for each in of.cls)
    return ", ".join(str(each) for each in values if each != "")


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """What the specs of all old kinds of classes have in common."""

    secret_ref: SecretReference | None = None
    credentials_secret_ref: SecretReference | None = None


def of_old_class(
    old: OldClass, provider: str, *, head: Mapping[str, Any] = MappingProxyType({})
) -> MachineClass:
    """The MachineClass of an old class whose ``spec`` is the providerSpec, but for the references to Secrets;
    ``head``: what the providerSpec has besides. For ``contract.Migrates.generate_machine_class``.

    Raises:
        InvalidArgument: it has no spec, or a reference that is none; names the field.
    """
    spec = old.content.get("spec")
    try:
        refs = msgspec.convert(spec, _Spec)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"{old.resource.kind} {old.name}: spec: {plainly(str(error))}") from None
    rest = {key: value for key, value in dict(spec or {}).items() if key not in _REFS}
    return MachineClass(
        provider=provider,
        provider_spec={**head, **rest},
        secret_ref=refs.secret_ref,
        credentials_secret_ref=refs.credentials_secret_ref,
    )


_REFS = ("secretRef", "credentialsSecretRef")
CONSOLE = "The end of its VM's console:"
"""What stands above it in a message."""
CONSOLE_LINES, CONSOLE_CHARS = 20, 4 * 1024
"""What is shown of a console: its last lines, which go into the status of a machine."""
LARGEST_CONSOLE = 64 * 1024
CAUSE_CHARS = 400
"""Of a line that says why a boot failed, and stands above the last lines."""
HIDDEN = "[hidden]"
_CONTROLS = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(\x07|\x1b\\)?|[@-Z\\-_])")
"""Sequences that colour, move and name things on a terminal; one without an end ends with its line."""
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_END_OF_KEY = re.compile(r"\A.*-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
"""Of one that began before what is left of the console."""
_SECRETS = (
    (re.compile(r"(?<![a-z0-9])[a-z0-9]{6}\.[a-z0-9]{16}(?![a-z0-9])"), HIDDEN),  # a bootstrap token
    (re.compile(r"(--certificate-key[ =]+)\S+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]+){1,2}"), HIDDEN),  # of an account
    (re.compile(r"(?i)(password[\"']?\s*[:=]\s*)(\"[^\"\n]*\"?|'[^'\n]*'?|\S+)"), rf"\1{HIDDEN}"),
    # A line of a key of which no more is left, or a key inside of a file that is written as one word.
    (re.compile(r"(?<![A-Za-z0-9+/])(?=[a-z0-9+/]*[A-Z])[A-Za-z0-9+/]{60,}={0,2}"), HIDDEN),
)


NOTHING_WRITTEN = "(it has written nothing yet)"
"""Stands for a console that a driver can show, and that is empty."""
OFF = "the VM is off: "
"""So begins what a driver says below a console whose VM does not run."""
_STAMP = r"(?:^|\[ *\d+\.\d+\](?:\[ *[CT]\d+\])? )"
"""Before what the kernel writes itself: nothing, or the time, which may stand behind a prompt."""
_CLOUD_INIT = r"\d\d:\d\d:\d\d,\d{3} - \w+\.py\[(?:WARNING|ERROR|CRITICAL)\]: "
_BOOT_BEGINS = re.compile(rf"{_STAMP}Linux version \d|\brunning 'init-local' at\b")
_MODULE = r"(?:bootcmd )?module (scripts[-_]user|runcmd|bootcmd|write[-_]files(?:[-_]deferred)?)"
_UNREAD = (
    "Failed loading yaml blob|Unhandled (?:non-multipart|unknown content-type)|Failed at merging in cloud"
)
_BOOT_FAILURES = (
    (re.compile(rf"{_CLOUD_INIT}Failed to run {_MODULE}\b"), "cloud-init failed in module {}"),
    (re.compile(rf"{_CLOUD_INIT}Running {_MODULE} .{{0,250}}failed"), "cloud-init failed in module {}"),
    (re.compile(rf"{_CLOUD_INIT}({_UNREAD})"), "cloud-init cannot read the user data ({})"),
    (re.compile(rf"{_CLOUD_INIT}(Consuming user data failed)"), "cloud-init: {}"),
    (re.compile(rf"(?:{_STAMP}|\bignition[\w-]*\[\d+\]: )(Ignition has failed)"), "{}"),
    (re.compile(rf"{_STAMP}(Kernel panic - not syncing: .{{0,200}})"), "{}"),
    (re.compile(r"^(You are in emergency mode)"), "its system says: {}"),
)
"""What cloud-init, Ignition, Linux and systemd write, and what it means for a boot. Each stands where only
they write: commands of user data show their own text, and quote, behind the name of a process."""


def boot_failure(console: str) -> str:
    """Why a boot has come to nothing, by the end of its console: a clause; empty where it does not say so."""
    lines = console.split("\n")
    if (failed := _failing(lines)) is None:
        return ""
    told = _told(lines[failed])
    return told[1] if told is not None else f"it is off: {lines[failed][len(OFF) :][:200]}"


def _failing(lines: Sequence[str]) -> int | None:
    """The first line that tells of the failure of the last boot; else the last one, where a driver says there
    that the VM is off. Above the last a guest may have written the same."""
    found: int | None = None
    for number, line in enumerate(lines):
        if _BOOT_BEGINS.search(line):
            found = None
        elif found is None and _told(line) is not None:
            found = number
    off = bool(lines) and lines[-1].startswith(OFF)
    return len(lines) - 1 if found is None and off else found


def _told(line: str) -> tuple[int, str] | None:
    """Where in a line a failure is told, and what it means."""
    for pattern, clause in _BOOT_FAILURES:
        if (found := pattern.search(line)) is not None:
            return found.start(), clause.format(found[1])
    return None


def console_end(text: str) -> str:
    """The last lines of what a VM wrote to its console, as they may be shown; above them the line that says
    why its boot has failed, if that is not one of them."""
    lines = re.split(r"[\r\n\v\f\x85\u2028\u2029]+", _CONTROLS.sub("", text[-LARGEST_CONSOLE:]))
    plain = "\n".join(map(printable, lines))  # only now a key is seen that has controls in between
    shown = _END_OF_KEY.sub(HIDDEN, _KEY.sub(HIDDEN, plain)).split("\n")
    written = [each.rstrip() for each in shown if each.strip()]
    end = _without_secrets("\n".join(written[-CONSOLE_LINES:]))[-CONSOLE_CHARS:]
    if (failed := _failing(written)) is None or boot_failure(end):
        return end
    cause = _cause(_without_secrets(written[failed]))
    return f"{cause}\n...\n{end[CAUSE_CHARS + 5 - CONSOLE_CHARS :]}"


def _cause(line: str) -> str:
    """The part of a line that tells of a failure: what a program wrote without an end may stand before it."""
    told = _told(line)
    return line[told[0] if told is not None and told[0] > CAUSE_CHARS // 4 else 0 :][:CAUSE_CHARS]


def _without_secrets(text: str) -> str:
    for secret, instead in _SECRETS:
        text = secret.sub(instead, text)
    return text


def printable(text: str) -> str:
    """What of a text a terminal shows; it obeys the rest. Users without rights write events, and guests."""
    return "".join(each for each in text.replace("\t", " ") if each.isprintable() or each == "\n")


def with_console(text: str, console: str) -> str:
    """A message, and below it the end of a console; the message alone where there is none."""
    return f"{text}\n{CONSOLE}\n{console}" if console else text


def without_console(text: str) -> tuple[str, tuple[str, ...]]:
    """The message, and the lines of the console below it."""
    message, marked, console = text.partition(f"\n{CONSOLE}\n")
    return message, tuple(console.splitlines()) if marked else ()


def in_one_line(text: str) -> str:
    """The same for an event: of a console its last line."""
    message, console = without_console(text)
    return f"{message} Its VM's console ends with: {console[-1]}" if console else message


def plainly(text: str) -> str:
    """msgspec's sentence with the field first: ``faults[0].code: ...``."""
    reason, _, path = text.partition(" - at `$")
    return f"{path.rstrip('`').lstrip('.')}: {reason}" if path else reason
