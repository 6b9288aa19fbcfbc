"""The built-in kinds.

Map.    kinds       the table: names, scope, subresources
        columns     what ``kubectl get`` prints; ``cells`` computes it
        prepare     what the server fills in on create and update
        check       rules beyond the schema: immutable fields, cross-field rules
        signing_requests  requests for certificates: their writers and rules
        stored      kinds on which nothing here acts: their defaults, rules and warnings
        selectable  the values that field selectors may ask for
        events, autoscalers   kinds whose objects are served in two shapes
Theory. Workloads that have no controller here are stored for the clients that read them (a drain reads
        the owner of a Pod, budgets read how many Pods there should be). The response has a
        warning, so that a user who applies one does not wait for Pods that are never created.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from kubewright.apiserver.registry import custom
from kubewright.apiserver.registry.builtin import (
    autoscalers,
    check,
    columns,
    events,
    prepare,
    selectable,
    signing_requests,
    stored,
)
from kubewright.apiserver.registry.builtin.kinds import ROWS, Row
from kubewright.apiserver.registry.kind import Catalog, Scale, ServedKind
from kubewright.apiserver.schema.builtin import BuiltinSchema
from kubewright.apiserver.schema.node import Object
from kubewright.wire.gvk import Resource

_ALL_VERBS = frozenset(("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"))
Advice = Callable[[Object, Object | None], list[str]]

NOT_RUN = {
    "apps.v1.DaemonSet": "DaemonSets",
    "apps.v1.StatefulSet": "StatefulSets",
    "batch.v1.CronJob": "CronJobs",
    "batch.v1.Job": "Jobs",
}
"""The kinds that a kube-controller-manager acts on and no controller here does, with their plurals."""

_MIRRORS = {
    "events.v1.Event": events.MIRROR,
    "autoscaling.v1.HorizontalPodAutoscaler": autoscalers.MIRROR,
}
"""The kinds that are stored in the shape of another."""

_PARTED: Mapping[str, Any] = {
    "certificates.v1.CertificateSigningRequest": {
        "requested_by": signing_requests.requested_by,
        "parts": signing_requests.PARTS,
    }
}
"""The kinds that several sorts of users write, each through an endpoint of its own."""

_SCALE = Scale("spec.replicas", "status.replicas", "status.selector")


def builtin_catalog() -> Catalog:
    """A fresh catalog with every built-in kind. Cheap: schemas are compiled when first used."""
    catalog = Catalog()
    for row in ROWS:
        catalog.put(served(row))
    return catalog


@cache
def served(row: Row) -> ServedKind:
    """The kind of one row of the table; the same value for all servers of a process."""
    resource = Resource(row.group, row.version, row.plural, row.kind, row.namespaced, row.short_names)
    mirrored = _MIRRORS.get(row.definition, {})
    return ServedKind(
        resource=resource,
        schema=BuiltinSchema(row.definition),
        singular=row.kind.lower(),
        list_kind=f"{row.kind}List",
        verbs=frozenset(row.verbs) or _ALL_VERBS,
        categories=row.categories,
        columns=columns.of(row.definition),
        has_status=row.status,
        scale=_SCALE if row.scale else None,
        subresources=frozenset(row.subresources),
        by_kubelet=frozenset(row.by_kubelet),
        strategic=True,
        strict_names=row.names,
        has_generation=row.generation,
        prepare=prepare.of(row.definition),
        check=check.of(row.definition),
        warn=_advice(row.definition),
        fields=selectable.of(row.definition),
        indexed=selectable.indexed(row.definition),
        **_PARTED.get(row.definition, {}),
        grace_seconds=prepare.grace_seconds if row.kind == "Pod" else None,
        **mirrored,
    )


def _advice(definition: str) -> Advice:
    """The warnings about a valid object of a kind."""
    if definition == "apiextensions.v1.CustomResourceDefinition":
        return custom.warnings
    if definition in NOT_RUN:
        kinds = NOT_RUN[definition]
        return _said(
            f"this server stores {kinds} but runs no controller for them: no Pods will come of this one"
        )
    if definition in stored.NOTHING_ACTS:
        return _said(f"this server only stores {stored.NOTHING_ACTS[definition]}")
    return lambda _new, _old: []


def _said(said: str) -> Advice:
    """Warns on create and when the spec changes; not for changes of labels or status."""

    def advice(new: Object, old: Object | None) -> list[str]:
        return [] if old is not None and old.get("spec") == new.get("spec") else [said]

    return advice
