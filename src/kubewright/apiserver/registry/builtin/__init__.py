"""The kinds that are always there.

Map.    kinds       the table: names, scope, subresources
        columns     what ``kubectl get`` prints; ``cells/`` computes it
        prepare     what the server fills in on create and update
        check       rules beyond the schema: immutable fields, cross-field rules
        advice      what a person should hear about an object that is accepted all the same
        selectable  the values that field selectors may ask for
        events      core Events and events.k8s.io Events: the same objects in two shapes
"""

from kubewright.apiserver.registry.builtin import advice, check, columns, events, prepare, selectable
from kubewright.apiserver.registry.builtin.kinds import ROWS, Row
from kubewright.apiserver.registry.kind import Catalog, Scale, ServedKind
from kubewright.apiserver.schema.builtin import BuiltinSchema
from kubewright.wire.gvk import Resource

_ALL_VERBS = frozenset(("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"))
_SCALE = Scale("spec.replicas", "status.replicas", "status.selector")


def builtin_catalog() -> Catalog:
    """A fresh catalog with every built-in kind. Cheap: schemas are compiled when first used."""
    catalog = Catalog()
    for row in ROWS:
        catalog.put(served(row))
    return catalog


def served(row: Row) -> ServedKind:
    """The kind of one row of the table."""
    resource = Resource(row.group, "v1", row.plural, row.kind, row.namespaced, row.short_names)
    mirrored = events.MIRROR if row.group == "events.k8s.io" else {}
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
        warn=advice.of(row.definition),
        fields=selectable.of(row.definition),
        grace_seconds=prepare.grace_seconds if row.kind == "Pod" else None,
        **mirrored,
    )
