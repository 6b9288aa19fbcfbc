"""Namespaces as a condition of everything inside them.

Nothing is made in a namespace that is missing or ending; four namespaces never end. What becomes
of the objects in an ending namespace is the namespace controller's business (package ``builtin``).
"""

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.target import Target
from kubewright.apiserver.store import Store
from kubewright.wire.gvk import Resource

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
INITIAL = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that are made at the first start."""

IMMORTAL = frozenset(("default", "kube-public", "kube-system"))


class Namespaces:
    """Answers from the store, staged writes included."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, target: Target) -> None:
        """A new object may be made here.

        Raises:
            NotFound: the namespace is missing.
            Forbidden: it is being deleted.
        """
        if not target.kind.resource.namespaced:
            return
        name = target.namespace
        record = self._store.latest(str(NAMESPACES), name)
        if record is None:
            raise refusals.not_found(NAMESPACES, name)
        if record.deleting:
            why = f"unable to create new content in namespace {name} because it is being terminated"
            said = f"namespace {name} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": said, "field": "metadata.namespace"}
            raise refusals.forbidden(target.kind.resource, target.name, why, [cause])

    def admit_deletion(self, target: Target) -> None:
        """An object may be deleted.

        Raises:
            Forbidden: it is a namespace that the system needs.
        """
        if target.kind.resource == NAMESPACES and target.name in IMMORTAL:
            raise refusals.forbidden(NAMESPACES, target.name, "this namespace may not be deleted")
