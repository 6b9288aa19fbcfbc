"""What a machine's VM has of its class, and what the class says by now: compared as values. Pure.

Theory.      A class may change after VMs were made by it. Annotation ``last-applied-providerspec`` of each
             machine says what its VM has; another annotation says of which class that was. A driver names
             the fields that it can change on a VM that runs, the hot ones (``driver.contract.Updates``). All
             others are fixed: a VM keeps them, whatever its class says, and so what a VM is to be has the
             hot fields of the class and the fixed ones of the VM (``goal``). Only that is ever sent to a
             driver, and only that is noted as applied.
             An update that was begun is marked before the call, by the hash of what it applies (HOT-04),
             and by all that it may have put on the VM: should the class be changed back before it is done,
             its driver must know those keys, or it would take them for another's and leave them there.
Invariants.  What cannot be read in an annotation, because a user has edited it, counts as not known: then an
             update removes nothing. What one machine notes is bounded (``LARGEST``).
             A machine that is given another class is not updated by it: its VM was made by the first. A
             machine whose node was updated in place is one of its new class (``adopts``); the move of such a
             machine to its new set says so, by an empty name (``machineset.policy``).
             What does not reach the VMs is told on the class (``condition``), since its machines are well and
             go on: with what to do, and without how many they are, which changes while a rollout goes on.
             They have few different providerSpecs, so each is compared once.
Called by    ``look`` (``specs_of``), ``making``, ``living``; ``machineclass``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import CLASS_APPLIED, NotApplied, OperationState, OperationType, Phase
from kubewright.api.machine.v1alpha1 import Machine, MachineClass, MachineClassCondition
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.driver import hot
from kubewright.driver.errors import DriverError, Unimplemented

Spec = Mapping[str, Any]
HotFields = Callable[[MachineClass], Sequence[str]]
"""Asks a class's driver which fields are hot; raises a DriverError."""

LARGEST = 64 * 1024
"""How many bytes a providerSpec may have that is noted on a machine. An update notes a second one."""
ROOM = 256 * 1024
"""How many bytes of annotations a server takes."""
NOTES = (names.APPLIED_SPEC_ANNOTATION, names.APPLIED_CLASS_ANNOTATION)
GONE = (Phase.FAILED, Phase.TERMINATING)
_BY_NAME = (
    "machines that are made from now on get it. To replace the others, give their MachineDeployment a class "
    "of another name (kubewright class hash)"
)
REMEDIES: Mapping[NotApplied, str] = {
    NotApplied.FIXED_FIELDS: _BY_NAME,
    NotApplied.NO_UPDATES: _BY_NAME,
    NotApplied.TOO_LARGE: "make the providerSpec smaller, or give the deployment a class of another name",
    NotApplied.OTHER_CLASS: "it is not updated by this one until it is replaced",
}


@dataclass(frozen=True, slots=True)
class Specs:
    """The providerSpecs of one machine.

    ``wanted``      what its class says, ``of`` the class's name
    ``last``        what was applied last; None: not known. ``last_of``: the name of its class, if known
    ``adopts``      its node was updated in place to its class, since ``last`` was noted
    ``in_flight``   an update was begun, and has not been noted as done
    ``marked``      the hash of what it applies; empty: not known
    ``pending``     what updates may have put on the VM since ``last``; None: not known, or nothing
    ``settled_at``  until when a call of the process before may still change the VM; None: none can
    ``hot``         the fields that the driver can change; None: it changes no VM that runs
    ``unknown``     why it cannot say that now, as a sentence; empty: it can
    """

    wanted: Spec
    of: str = ""
    last: Spec | None = None
    last_of: str = ""
    adopts: bool = False
    in_flight: bool = False
    marked: str = ""
    pending: Spec | None = None
    settled_at: datetime | None = None
    hot: tuple[str, ...] | None = ()
    unknown: str = ""

    @property
    def moved(self) -> bool:
        """Whether the machine is of another class than its VM."""
        return bool(self.last_of) and self.last_of != self.of

    @property
    def differs(self) -> tuple[str, ...]:
        """The paths of what the class says and the VM does not have, as far as that is known."""
        return hot.differences(self.last, self.wanted) if self.last is not None else ()

    @property
    def fixed(self) -> tuple[str, ...]:
        """Those of them that only another VM can have."""
        return hot.fixed(self.differs, self.hot or ())

    @property
    def goal(self) -> Spec:
        """What the VM is to be: the hot fields of its class, and the fixed ones that it has."""
        if self.last is None or not self.fixed:
            return self.wanted
        return hot.merged(self.last, self.wanted, self.hot or ())

    @property
    def due(self) -> bool:
        """Whether the driver is to be called, if nothing speaks against it (``against``)."""
        return self.in_flight or self.last is None or self.fixed != self.differs

    @property
    def before(self) -> Spec | None:
        """What the VM may have by updates, done or not: what of it is not wanted is taken off."""
        return hot.united(self.last, self.pending)


def specs_of(machine: Machine, machine_class: MachineClass, hot_fields: HotFields) -> Specs | None:
    """The providerSpecs of a machine; None: its VM has what its class says, and no update is marked."""
    notes, name = machine.metadata.annotations, machine.spec.machine_class.name
    applied, last_of = notes.get(names.APPLIED_SPEC_ANNOTATION), notes.get(names.APPLIED_CLASS_ANNOTATION)
    last = machine.status.last_operation
    begun = last.type == OperationType.UPDATE and last.state != OperationState.SUCCESSFUL
    in_flight = begun or names.UPDATE_ANNOTATION in notes
    if applied == hot.written(machine_class.provider_spec) and not in_flight and last_of in (None, name):
        return None
    fields, unknown = _hot(machine_class, hot_fields)
    return Specs(
        wanted=machine_class.provider_spec,
        of=name,
        last=hot.read(applied) if applied is not None else None,
        last_of=last_of or "",
        adopts=last_of == "",
        in_flight=in_flight,
        marked=notes.get(names.UPDATE_ANNOTATION, ""),
        pending=hot.read(notes.get(names.UPDATE_SPEC_ANNOTATION, "")),
        hot=fields,
        unknown=unknown,
    )


def _hot(machine_class: MachineClass, hot_fields: HotFields) -> tuple[tuple[str, ...] | None, str]:
    try:
        return tuple(hot_fields(machine_class)), ""
    except Unimplemented:
        return None, ""
    except DriverError as error:
        return (), f"the driver does not say which fields it can change: {error}"


@dataclass(frozen=True, slots=True)
class Against:
    """Why a VM does not get what its class says: ``told`` is a clause for people."""

    kind: NotApplied
    told: str


def against(specs: Specs) -> Against | None:
    """What speaks against it; None: nothing, or there is nothing to get. Hot fields come all the same where
    only fixed ones differ. What an update in place has given to the node is still to be noted."""
    if specs.adopts:
        return None
    if specs.moved:
        return Against(NotApplied.OTHER_CLASS, f'its VM was made by MachineClass "{specs.last_of}"')
    if specs.hot is None and (specs.differs or specs.in_flight):
        lacks = named(specs.differs) if specs.differs else "an update that was begun"
        return Against(
            NotApplied.NO_UPDATES, f"its driver changes no VM that runs, so it does not get {lacks}"
        )
    if specs.hot is not None and not is_small(hot.written(specs.goal)):
        told = f"what it would have then is over {LARGEST} bytes, too much for an annotation"
        return Against(NotApplied.TOO_LARGE, told)
    if specs.fixed and not specs.unknown:
        told = f"only another VM can have what the class says of {named(specs.fixed)}"
        return Against(NotApplied.FIXED_FIELDS, told)
    return None


def on_record(spec: str | None, of: str) -> dict[str, str | None]:
    """The annotations of a machine whose VM has this providerSpec (None: it is not known), of the class of
    that name, and of which no update is under way. Of one that is too large only the class is noted."""
    noted = spec is not None and is_small(spec)
    return {names.APPLIED_SPEC_ANNOTATION: spec if noted else None, names.APPLIED_CLASS_ANNOTATION: of}


def of_new_vm(machine: Machine, spec: str) -> dict[str, str]:
    """The annotations with which a machine's new VM is recorded, which was made by this. The write must not
    fail because of them, so there are none where users' annotations have filled the room."""
    of = machine.spec.machine_class.name
    notes = {key: text for key, text in on_record(spec, of).items() if text is not None}
    filled = sum(len(f"{key}{text}".encode()) for key, text in machine.metadata.annotations.items())
    return notes if filled <= ROOM - 3 * LARGEST else {}


def is_small(spec: str) -> bool:
    """Whether a providerSpec may be noted on a machine."""
    return len(spec) <= LARGEST and len(spec.encode()) <= LARGEST


def update_marks(specs: Specs) -> dict[str, str | None]:
    """The annotations of a machine whose update is about to begin; none that it has already."""
    goal = hot.digest(specs.goal)
    if specs.marked == goal:
        return {}
    pending = hot.written(hot.united(specs.pending, specs.goal) or {})
    if not is_small(pending):
        pending = hot.written(specs.goal)
    return {names.UPDATE_ANNOTATION: goal, names.UPDATE_SPEC_ANNOTATION: pending}


NO_MARKS: Mapping[str, None] = {names.UPDATE_ANNOTATION: None, names.UPDATE_SPEC_ANNOTATION: None}


def named(paths: Sequence[str]) -> str:
    """The first few paths, as a user writes them."""
    shown = ", ".join(f"providerSpec.{each}" for each in paths[:3])
    return f"{shown} and {len(paths) - 3} more" if len(paths) > 3 else shown


def condition(
    machine_class: MachineClass, machines: Iterable[Machine], hot_fields: HotFields
) -> MachineClassCondition | None:
    """The condition that says whether the VMs of these machines have what their class says; None: the driver
    cannot say now what it can change."""
    found = different(machine_class, machines, hot_fields)
    if any(each.unknown for each in found):
        return None
    speaks = {each.kind: each for specs in found if (each := against(specs)) is not None}
    if not speaks:
        return MachineClassCondition(type=CLASS_APPLIED, status="True", reason=CLASS_APPLIED)
    first = next(speaks[kind] for kind in NotApplied if kind in speaks)
    return MachineClassCondition(
        type=CLASS_APPLIED, status="False", reason=first.kind, message=_sentence(first)[:MESSAGE_CHARS]
    )


def different(
    machine_class: MachineClass, machines: Iterable[Machine], hot_fields: HotFields
) -> tuple[Specs, ...]:
    """What VMs of these machines have, where it is not what the class says: each kind of it once."""
    alike: dict[tuple[str | None, ...], Machine] = {}
    for machine in machines:
        there = machine.spec.provider_id and machine.status.current_status.phase not in GONE
        if there and not machine.metadata.deleting:
            alike.setdefault(
                tuple(machine.metadata.annotations.get(note) for note in (*NOTES, names.UPDATE_ANNOTATION)),
                machine,
            )
    found = (specs_of(each, machine_class, hot_fields) for each in alike.values())
    return tuple(each for each in found if each is not None)


def _sentence(found: Against) -> str:
    return f"Machines of this class do not have what it says: {found.told}; {REMEDIES[found.kind]}"
