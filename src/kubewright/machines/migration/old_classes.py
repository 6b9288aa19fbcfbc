"""Which classes are to be migrated, what stands in the way, and what is decided about one of them.

Theory.      ``OldClasses`` tells a machine why it has no class yet: it knows the kinds that drivers of the
             program migrate, and the last trouble of each class. The trouble is a memory, for messages; what
             is to be done follows from the objects each time.
             ``decide`` is pure: from the old class, the MachineClass that is there and the one that the
             driver made, to what comes next.
Called by    ``machines.caches`` and ``wiring``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from kubewright.api.faults import summary
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, ClassSpec, MachineClass
from kubewright.api.machine.validate import validate_class
from kubewright.api.meta import ObjectMeta, without_finalizer
from kubewright.wire.gvk import Key, Resource

KIND = MACHINE_CLASS.resource.kind
MIGRATED_BY = "machine-controller-"
"""The value of the annotation on an old class, before its kind, as MCM writes it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an old class is not migrated; ``absent``: it is not there; ``untried``: no pass has ended yet."""

    text: str
    absent: bool = False
    untried: bool = False


class OldClasses:
    """The kinds that are migrated, and what stands in the way of each class that is referred to."""

    def __init__(self, kinds: Iterable[Resource] = ()) -> None:
        self._kinds = {each.kind: each for each in kinds if each.kind != KIND}
        self._troubles: dict[tuple[str, Key], Trouble] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def of(self, reference: ClassSpec) -> Resource | None:
        """The kind that a reference names, if its classes are migrated."""
        found = self._kinds.get(reference.kind)
        return found if found is not None and reference.api_group in ("", found.group) else None

    def trouble(self, reference: ClassSpec, namespace: str) -> Trouble:
        """Why what refers to this class has none yet."""
        known = self._troubles.get((reference.kind, Key(namespace, reference.name)))
        told = f'{reference.kind} "{reference.name}" is not migrated to {KIND} yet'
        return known or Trouble(told, untried=True)

    def note(self, kind: str, key: Key, trouble: Trouble | None) -> bool:
        """Remember the trouble of a class; None: there is none any more. Returns whether that is news."""
        before = self._troubles.pop((kind, key), None)
        if trouble is not None:
            self._troubles[kind, key] = trouble
        return trouble != before

    def forget(self, key: Key, kinds: Iterable[str]) -> None:
        """Drop what is remembered of classes of this name, but for these kinds."""
        kept = set(kinds)
        for kind in self._kinds:
            if kind not in kept:
                self._troubles.pop((kind, key), None)


@dataclass(frozen=True, slots=True)
class Make:
    """Create this MachineClass; then what refers to the old class may follow."""

    machine_class: MachineClass


@dataclass(frozen=True, slots=True)
class Follow:
    """The MachineClass is there: what refers to the old class is to refer to it."""


ASK = None
"""The driver has to say what the MachineClass would be."""


def decide(
    kind: str, key: Key, old: Mapping[str, Any] | None, there: MachineClass | None, made: MachineClass | None
) -> Make | Follow | Trouble | None:
    """What comes next for the old class of this kind and name; None: ask the driver, and decide again.

    ``there`` is the MachineClass of the same name, ``made`` what the driver made of the old class.
    """
    if there is not None and there.metadata.deleting:
        return Trouble(
            f'{KIND} "{key.name}" is being deleted; {kind} "{key.name}" is migrated once it is gone'
        )
    if there is not None and there.metadata.annotations.get(names.MIGRATED_FROM_ANNOTATION) == kind:
        return Follow()
    if old is None:
        return Trouble(f'{kind} "{key.name}" not found in namespace "{key.namespace}"', absent=True)
    if made is None:
        return ASK
    if errors := validate_class(made):
        return Trouble(f'the {KIND} that the driver makes of {kind} "{key.name}" is wrong: {summary(errors)}')
    if there is None:
        return Make(_completed(made, kind, key))
    if _content(there) == _content(made):
        return Follow()
    return Trouble(
        f'{KIND} "{key.name}" is there already and says something else than {kind} "{key.name}": delete it, '
        f"or annotate it {names.MIGRATED_FROM_ANNOTATION}={kind} if machines should be of it from now on"
    )


def migrated(old: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The patch of the metadata by which an old class is marked and let go; empty if that is done."""
    metadata = old["metadata"]
    value, patch = f"{MIGRATED_BY}{kind}", dict[str, Any]()
    if (metadata.get("annotations") or {}).get(names.MIGRATED_ANNOTATION) != value:
        patch["annotations"] = {names.MIGRATED_ANNOTATION: value}
    finalizers = tuple(metadata.get("finalizers") or ())
    if names.FINALIZER in finalizers:
        patch["finalizers"] = list(without_finalizer(finalizers, names.FINALIZER))
    return {"metadata": patch} if patch else {}


def _completed(made: MachineClass, kind: str, key: Key) -> MachineClass:
    """The MachineClass as it is created: the driver's words, under the old class's name."""
    annotations = {**made.metadata.annotations, names.MIGRATED_FROM_ANNOTATION: kind}
    metadata = ObjectMeta(
        name=key.name, namespace=key.namespace, labels=made.metadata.labels, annotations=annotations
    )
    return structs.replace(made, metadata=metadata, status=MachineClass().status)


def _content(machine_class: MachineClass) -> tuple[Any, ...]:
    """All that a driver or a scheduler reads of it."""
    return (
        machine_class.provider,
        machine_class.provider_spec,
        machine_class.secret_ref,
        machine_class.credentials_secret_ref,
        machine_class.node_template,
    )
