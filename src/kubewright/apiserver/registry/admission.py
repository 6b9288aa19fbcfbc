"""Conditions of a write that depend on other objects: its namespace, its PriorityClass, and its definition.

Theory.      Nothing is created in a namespace that is missing or being deleted; three are never deleted.
             Deleting the objects in a namespace that is being deleted is the task of the namespace
             controller (package ``builtin``).
             A Pod names a PriorityClass; drains and schedulers read a number (``spec.priority``).
             As upstream the server writes the number when the Pod is created, so a class that changes later
             changes no Pod; and it refuses a class that does not exist, since a Pod with a wrong
             priority is worse than none. A Pod that names none gets the class that is the default of all, of
             which there is one at most.
             ``Serving`` keeps the catalog of served kinds in step with the stored CustomResourceDefinitions.
             A definition takes effect in the turn in which its write is staged, so a client that
             sees it can use it. One that is deleted keeps a finalizer until ``server.Housekeeping`` has
             deleted its instances; until then no instance is made.
Called by    ``writing`` at each write, ``server`` at start.
Source       kube-apiserver's admission plugins NamespaceLifecycle and Priority.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from kubewright.api.conditions import with_json_conditions
from kubewright.api.meta import with_finalizer
from kubewright.apiserver.registry import custom, refusals
from kubewright.apiserver.registry.builtin.check import SYSTEM_CLASSES
from kubewright.apiserver.registry.kind import Catalog, ServedKind, Target
from kubewright.apiserver.registry.reviews import Converting
from kubewright.apiserver.registry.versions import Older, Schema
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Store
from kubewright.base.clock import Clock, rfc3339
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


CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer of a definition whose instances are not deleted yet."""

_TERMINATING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


def is_crd(kind: ServedKind) -> bool:
    return kind.resource.group == CRDS.group and kind.resource.plural == CRDS.plural


@dataclass(frozen=True, slots=True)
class _Known:
    """How a definition is served: its schemas, what reads older objects by each, and what converts them."""

    older: Mapping[str, tuple[Schema, Older]] = field(default_factory=dict)
    conversion: bytes = b""


class Serving:
    """The steps of writes that concern definitions or their instances."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        clock: Clock,
        admission: custom.Admission = custom.NO_ADMISSION,
        converting: Converting | None = None,
    ) -> None:
        self._store, self._catalog, self._clock, self._admission = store, catalog, clock, admission
        self._converting = converting or Converting({}, None, clock)
        self._known: dict[str, _Known] = {}

    def admit(self, target: Target) -> None:
        """Check that a new object of the kind may be created.

        Raises:
            Forbidden: its definition is being deleted.
        """
        if target.kind.custom:
            record = self._store.latest(str(CRDS), str(target.kind.resource))
            if record is not None and record.deleting:
                why = "create not allowed while custom resource definition is terminating"
                raise refusals.forbidden(target.kind.resource, target.name, why)

    def before_deletion(self, kind: ServedKind, crd: Object) -> Object:
        """A definition as it is stored at its first delete: with the cleanup finalizer and a condition."""
        if not is_crd(kind) or "deletionTimestamp" in crd["metadata"]:
            return crd
        held = with_finalizer(crd["metadata"].get("finalizers", ()), CLEANUP)
        condition = {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": rfc3339(self._clock.now()),
            "reason": "InstanceDeletionPending",
            "message": _TERMINATING,
        }
        status = crd.get("status") or {}
        return {
            **crd,
            "metadata": {**crd["metadata"], "finalizers": held},
            "status": {**status, "conditions": with_json_conditions(status, condition)},
        }

    def established(self, kind: ServedKind, crd: Object) -> Object:
        """A definition with its conditions and accepted names; any other object as it is."""
        if not is_crd(kind) or "deletionTimestamp" in crd["metadata"]:
            return crd
        others = [orjson.loads(record.data) for record in self._store.scan(str(CRDS))]
        return custom.established(crd, others, self._clock.now())

    def written(self, kind: ServedKind, obj: Object, version: int) -> None:
        """Serve the versions that a definition now has, and no others; it is stored under ``version``."""
        if is_crd(kind):
            self.serve(obj, version)

    def serve(self, crd: Object, version: int) -> None:
        """Serve the versions of a definition, which is stored under ``version``."""
        wanted = custom.kinds(crd, self._admission) if custom.is_established(crd) else []
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        dropped = self._drop(group, plural, keeping={kind.resource.version for kind in wanted})
        if not wanted:
            return
        name = str(wanted[0].resource)
        schemas, conversion = custom.schemas(crd, wanted), self._converting.told(crd)
        known = self._known.get(name, _Known())
        older = {each: self._older(known, each, schemas[each], conversion, version) for each in schemas}
        served = {kind.resource.api_version for kind in wanted}
        others = dropped or older.keys() != known.older.keys()  # those who watch convert by the old ones
        if others or any(each in served and older[each] is not old for each, (_, old) in known.older.items()):
            self._store.end_watches(name)
        self._known[name] = _Known({each: (schemas[each], older[each]) for each in schemas}, conversion)
        versions = None
        if len(schemas) > 1:
            versions = self._converting.versions(crd, schemas, older)
        for kind in wanted:
            self._catalog.put(replace(kind, older=older[kind.resource.api_version], versions=versions))

    def _older(
        self, known: "_Known", api_version: str, schema: Schema, conversion: bytes, version: int
    ) -> Older:
        """What reads the objects that were stored before a schema. If that changes, or how objects become
        what it reads, those who watch must see all anew. A description is no part of it here."""
        before = known.older.get(api_version)
        if before is not None and known.conversion == conversion:
            served, older = before
            if served is schema or _unsaid(served.openapi()) == _unsaid(schema.openapi()):
                return older
        return Older(schema, api_version, version, max(version, self._store.version))

    def removed(self, kind: ServedKind, name: str) -> None:
        """Stop serving the kind of a removed definition, and end the watches of it."""
        if is_crd(kind):
            plural, _, group = name.partition(".")
            self._drop(group, plural, keeping=set())
            self._store.end_watches(name)
            self._known.pop(name, None)
            self._converting.forget(name)

    def version(self, kind: ServedKind, api_version: str) -> ServedKind | None:
        """The same kind in another version; None when it is not served."""
        group, _, version = api_version.rpartition("/")
        resource = kind.resource
        return self._catalog.find(group, version, resource.plural) if group == resource.group else None

    def _drop(self, group: str, plural: str, *, keeping: set[str]) -> bool:
        """Serve no other versions than these; whether there were any."""
        there = [kind.resource for kind in self._catalog]
        here = {each.version for each in there if (each.group, each.plural) == (group, plural)}
        for version in here - keeping:
            self._catalog.drop(group, version, plural)
        return bool(here - keeping)


def _unsaid(schema: Any) -> Any:
    """A schema without its descriptions. A field of that name has a schema, and no text; a default stays."""
    if isinstance(schema, Mapping):
        return {
            name: inner if name in ("default", "enum") else _unsaid(inner)
            for name, inner in schema.items()
            if name not in ("description", "title") or not isinstance(inner, str)
        }
    return [_unsaid(inner) for inner in schema] if isinstance(schema, list) else schema
