"""The target of a request (kind, namespace, name), and the options of a write."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kubewright.apiserver.registry.kind import Object, ServedKind
from kubewright.wire.http import ADMIN, User

Guard = Callable[[Object, Object | None], None]
"""Called with the object to be stored and the one that is there; raises when the user may not store it."""


@dataclass(frozen=True, slots=True)
class Target:
    """One object (or, without a name, a collection) of one kind."""

    kind: ServedKind
    namespace: str = ""
    name: str = ""

    @classmethod
    def at(cls, kind: ServedKind, key: str) -> "Target":
        """The object that the store has under ``key``."""
        namespace, _, name = key.rpartition("/")
        return cls(kind, namespace, name)

    @property
    def collection(self) -> str:
        """The store's collection; all versions of a kind share it."""
        return str(self.kind.stored_as or self.kind.resource)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def prefix(self) -> str:
        """What the keys of a list begin with; with a name, there is one such key (and those it begins)."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def named(self, name: str) -> "Target":
        return Target(self.kind, self.namespace, name)


IGNORE, WARN, STRICT = "Ignore", "Warn", "Strict"


@dataclass(slots=True)
class Options:
    """Parameters of a write. ``warnings`` collects what the answer's Warning headers say; ``guard`` is
    called before validation.

    ``manager``      who will manage the changed fields; empty for the server itself, which manages none
    ``named``        the client named the manager: those of a new object are kept
    ``force``        an apply takes the fields that other managers have
    ``user``         who sends the request
    ``subresource``  through which an update of the whole object comes (scale)
    """

    dry_run: bool = False
    validation: str = WARN
    warnings: list[str] = field(default_factory=list)
    guard: Guard | None = None
    manager: str = ""
    named: bool = False
    force: bool = False
    subresource: str = ""
    user: User = field(default=ADMIN)
