"""Objects that are made from templates of providers: ``FooMachineTemplate`` makes ``FooMachine``. Pure.

Theory.      A template has the whole object under ``spec.template``; the clone gets a name, an owner, and
             labels and annotations besides the template's own. An annotation says which template it was.
Source       capi.md §7.1.
Called by    ``machineset`` for each new machine; ``healthcheck`` for remediation requests.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import ObjectMeta
from kubewright.clusters.external.object import External, mapping
from kubewright.wire import plurals
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Resource

TEMPLATE = "Template"


def clone_kind(template: External) -> Kind[dict[str, Any]]:
    """The kind of what is made from a template.

    Raises:
        NotFound: there is no template.
    """
    if template.kind is None:
        raise NotFound(f"{template} is not there: {template.problem}")
    found = template.kind.resource
    kind = found.kind.removesuffix(TEMPLATE)
    return dynamic(Resource(found.group, found.version, plural_of(found.group, kind), kind))


def cloned(template: External, meta: ObjectMeta) -> tuple[Kind[dict[str, Any]], dict[str, Any]]:
    """A clone and its kind. ``meta``: its name, namespace, owners, and further labels and annotations.

    Raises:
        NotFound: there is no template.
    """
    kind = clone_kind(template)
    inner = mapping(mapping(template.found, "spec"), "template")
    own = mapping(inner, "metadata")
    annotations = {
        **mapping(own, "annotations"),
        **meta.annotations,
        names.CLONED_FROM_NAME_ANNOTATION: template.ref.name,
        names.CLONED_FROM_GROUP_KIND_ANNOTATION: template.ref.group_kind,
    }
    metadata: Mapping[str, Any] = {
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": {**mapping(own, "labels"), **meta.labels},
        "annotations": annotations,
        "ownerReferences": to_builtins(meta.owner_references),
    }
    resource = kind.resource
    return kind, {**inner, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def plural_of(group: str, kind: str) -> str:
    """The plural of a kind, as the name of its CRD has it."""
    return plurals.crd_name(group, kind).partition(".")[0]
