"""Conditions of a write that depend on other objects: the namespace, and the PriorityClass of a Pod.

Theory.      Nothing is created in a namespace that is missing or being deleted; three are never deleted.
             Deleting the objects in a namespace that is being deleted is the task of the namespace
             controller (package ``builtin``).
             A Pod names a PriorityClass; drains and schedulers read a number (``spec.priority``).
             As upstream the server writes the number when the Pod is created, so a class that changes later
             changes no Pod; and it refuses a class that does not exist, since a Pod with a wrong
             priority is worse than none. A Pod that names none gets the class that is the default of all, of
             which there is one at most.
Called by    ``writing``.
Source       kube-apiserver's admission plugins NamespaceLifecycle and Priority.
"""

from dataclasses import replace
from typing import Any

import orjson

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.builtin.check import SYSTEM_CLASSES
from kubewright.apiserver.registry.kind import Object
from kubewright.apiserver.registry.target import Target
from kubewright.apiserver.store import Store
from kubewright.wire.errors import NAMESPACE_TERMINATING
from kubewright.wire.gvk import Resource

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that are made at the first start."""

UNDELETABLE = frozenset(("default", "kube-public", "kube-system"))

CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
NO_CLASS = {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
"""What counts for a Pod that names no class, while none is the default."""


class Admission:
    """Checks against the latest state of the store, staged writes included."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, target: Target) -> None:
        """Check that a new object may be created here.

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
            cause = {"reason": NAMESPACE_TERMINATING, "message": said, "field": "metadata.namespace"}
            raise refusals.forbidden(target.kind.resource, target.name, why, [cause])

    def admit_deletion(self, target: Target) -> None:
        """Check that an object may be deleted.

        Raises:
            Forbidden: it is a namespace or a PriorityClass that the system needs.
        """
        if target.kind.resource == NAMESPACES and target.name in UNDELETABLE:
            raise refusals.forbidden(NAMESPACES, target.name, "this namespace may not be deleted")
        if target.kind.resource == CLASSES and target.name in SYSTEM_CLASSES:
            why = "this is a system priority class and cannot be deleted"
            named = replace(CLASSES, kind=CLASSES.plural)  # as kube-apiserver names it there
            raise refusals.forbidden(named, target.name, why)

    def with_priority(self, target: Target, obj: Object) -> Object:
        """A new Pod with the priority of its class, or of the default; any other object as it is.

        Raises:
            Forbidden: there is no such class, or the Pod says otherwise of its priority than its class does.
        """
        if str(target.kind.resource) != str(PODS) or not isinstance(obj.get("spec"), dict):
            return obj
        spec, meta = obj["spec"], obj["metadata"]
        subject = meta.get("name") or meta.get("generateName", "")
        found: dict[str, Any] | None = self._default_class()
        if name := spec.get("priorityClassName"):
            record = self._store.latest(str(CLASSES), name)
            found = None if record is None else orjson.loads(record.data)
            if found is None:
                why = f"no PriorityClass with name {name} was found"
                raise refusals.forbidden(target.kind.resource, subject, why)
        if why := _contradiction(spec, found or NO_CLASS):
            raise refusals.forbidden(target.kind.resource, subject, why)
        return _with_class(obj, found or NO_CLASS)

    def admit_class(self, target: Target, obj: Object) -> None:
        """Check that no second PriorityClass becomes the default.

        Raises:
            Forbidden: another one is.
        """
        if target.kind.resource != CLASSES or obj.get("globalDefault") is not True:
            return
        default = self._default_class()
        if default is not None and (other := default["metadata"]["name"]) != obj["metadata"]["name"]:
            why = f"PriorityClass {other} is already marked as default. Only one default can exist"
            raise refusals.forbidden(CLASSES, obj["metadata"]["name"], why)

    def _default_class(self) -> Object | None:
        """The class that counts where none is named. Of several, which two writes at one time can leave, and
        older releases could, the lowest."""
        every = (each.data for each in self._store.scan(str(CLASSES)))
        marked = (data for data in every if b'"globalDefault":true' in data)
        found = [each for each in map(orjson.loads, marked) if each.get("globalDefault") is True]
        return min(found, key=lambda each: each.get("value", 0), default=None)


def _contradiction(spec: dict[str, Any], found: dict[str, Any]) -> str:
    """Why a Pod may not say what it says of its priority; empty where it agrees with its class."""
    words = "must not be provided in pod spec; priority admission controller computed"
    given, priority = spec.get("priority"), found.get("value", 0)
    if given is not None and given != priority:
        return f"the integer value of priority ({given}) {words} {priority} from the given PriorityClass name"
    given, policy = spec.get("preemptionPolicy"), found.get("preemptionPolicy")
    if given is not None and policy is not None and given != policy:
        why = f"the string value of PreemptionPolicy ({given}) {words} {policy}"
        return f"{why} from the given PriorityClass name"
    return ""


def _with_class(pod: Object, found: dict[str, Any]) -> Object:
    name = found.get("metadata", {}).get("name")
    policy = {"preemptionPolicy": found["preemptionPolicy"]} if "preemptionPolicy" in found else {}
    named = {"priorityClassName": name} if name else {}
    return {**pod, "spec": {**pod["spec"], **named, **policy, "priority": found.get("value", 0)}}
