"""A reference to an object of any kind, and what a lookup answers: the object, or why it is not there.

Theory.      An object refers to another by group, kind and name; the version is chosen when the reference is
             resolved, and never written back. A lookup that finds no object names one of five causes. When
             the cause ends, the owner is woken; so a reconciler waits without a timer, and writes the message
             into a condition.
Invariants.  Values. Pure. ``Found.object`` belongs to its reader.
Called by    ``kinds``, ``registry``, and every decision that reads a referenced object.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from kubewright.api.kinds import Kind
from kubewright.wire.gvk import Key


@dataclass(frozen=True, slots=True)
class Reference:
    """An object of a kind, by name."""

    group: str
    kind: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a kind to use; ``contract`` says which fields objects of that version have."""

    name: str
    contract: str


class VersionPolicy(Protocol):
    """How an API chooses the version of a kind that its objects refer to. Pure."""

    def crd_name(self, group: str, kind: str) -> str:
        """The name that the CRD of a kind should have."""

    def choose(self, labels: Mapping[str, str]) -> Version | str:
        """The version to use of a CRD with these labels, or why there is none, as a clause."""


class Cause(StrEnum):
    """Why a lookup found no object."""

    NOT_LISTED = "the kinds of the server are not known yet"
    NOT_INSTALLED = "the kind is not installed"
    NO_VERSION = "the kind has no version that can be used"
    NOT_SYNCED = "the objects of the kind are not known yet"
    MISSING = "there is no such object"


@dataclass(frozen=True, slots=True)
class Absent:
    """No object; ``message`` is a sentence without a full stop, for conditions.

    ``transient``: nothing is wrong so far; our caches are not synced yet, and will be in a moment.
    """

    cause: Cause
    message: str
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The object, with the kind by which it can be written."""

    object: Mapping[str, Any]
    kind: Kind[dict[str, Any]] = field(repr=False)
    contract: str


Answer = Found | Absent


class Lookup(Protocol):
    """Finds objects for one controller: ``registry.ControllerLookup``, or a test's answers."""

    def get(self, owner: Key, reference: Reference) -> Answer:
        """The object that ``owner`` refers to, or why it is not there; it is woken when that changes."""
