"""Keeps the catalog of served kinds in step with the stored CustomResourceDefinitions.

Theory.      A definition takes effect in the turn in which its write is staged, so a client that
             sees it can use it. One that is deleted keeps a finalizer until ``Housekeeping`` has
             deleted its instances.
Called by    ``writing`` at each write, ``server`` at start.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from kubewright.api.conditions import with_json_conditions
from kubewright.api.meta import with_finalizer
from kubewright.apiserver.registry import custom, refusals
from kubewright.apiserver.registry.custom import status
from kubewright.apiserver.registry.kind import Catalog, Object, Older, ServedKind
from kubewright.apiserver.registry.target import Target
from kubewright.apiserver.store import Store
from kubewright.base.clock import Clock, rfc3339
from kubewright.wire.gvk import Resource

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer of a definition whose instances are not deleted yet."""

_TERMINATING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


def is_crd(kind: ServedKind) -> bool:
    return kind.resource.group == CRDS.group and kind.resource.plural == CRDS.plural


class Serving:
    """The steps of writes that concern definitions or their instances."""

    def __init__(
        self, store: Store, catalog: Catalog, clock: Clock, admission: custom.Admission = custom.NO_ADMISSION
    ) -> None:
        self._store, self._catalog, self._clock, self._admission = store, catalog, clock, admission

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
        return status.established(crd, others, self._clock.now())

    def written(self, kind: ServedKind, obj: Object, version: int) -> None:
        """Serve the versions that a definition now has, and no others; it is stored under ``version``."""
        if is_crd(kind):
            self.serve(obj, version)

    def serve(self, crd: Object, version: int) -> None:
        """Serve the versions of a definition, which is stored under ``version``."""
        wanted = custom.kinds(crd, self._admission) if status.is_established(crd) else []
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        versions = {kind.resource.version for kind in wanted}
        self._drop(group, plural, keeping=versions)
        for kind in wanted:
            self._put(kind, version)

    def removed(self, kind: ServedKind, name: str) -> None:
        """Stop serving the kind of a removed definition, and end the watches of it."""
        if is_crd(kind):
            plural, _, group = name.partition(".")
            self._drop(group, plural, keeping=set())
            self._store.end_watches(name)

    def version(self, kind: ServedKind, api_version: str) -> ServedKind | None:
        """The same kind in another version; None when it is not served."""
        group, _, version = api_version.rpartition("/")
        resource = kind.resource
        return self._catalog.find(group, version, resource.plural) if group == resource.group else None

    def _put(self, kind: ServedKind, version: int) -> None:
        """Serve a kind. If its schema changes, its watches end: who watches must see all objects anew. A
        description is no part of it here."""
        resource = kind.resource
        served = self._catalog.find(resource.group, resource.version, resource.plural)
        if served is not None and _unsaid(served.schema.openapi()) == _unsaid(kind.schema.openapi()):
            older = served.older
        else:
            older = Older(kind.schema, resource.api_version, version, max(version, self._store.version))
            self._store.end_watches(str(resource))
        self._catalog.put(replace(kind, older=older))

    def _drop(self, group: str, plural: str, *, keeping: set[str]) -> None:
        for kind in self._catalog:
            resource = kind.resource
            if (resource.group, resource.plural) == (group, plural) and resource.version not in keeping:
                self._catalog.drop(group, resource.version, plural)


def _unsaid(schema: Any) -> Any:
    """A schema without its descriptions. A field of that name has a schema, and no text; a default stays."""
    if isinstance(schema, Mapping):
        return {
            name: inner if name in ("default", "enum") else _unsaid(inner)
            for name, inner in schema.items()
            if name not in ("description", "title") or not isinstance(inner, str)
        }
    return [_unsaid(inner) for inner in schema] if isinstance(schema, list) else schema
