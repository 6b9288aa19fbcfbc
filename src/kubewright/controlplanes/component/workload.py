"""What should run for a component: from its spec and what is known of its control plane. Pure.

Theory.      The templates are rendered first. The volumes of the result name the Secrets and ConfigMaps that
             ``look`` has to read. The manifests and this content together are the workload.
Invariants.  A Secret that a volume calls optional may be missing. Only the entries that a volume lists are
             asked for.
Source       nested.md A5 (order), D5 (delivery).
Called by    ``look``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubewright.api.controlplane.v1alpha4 import ComponentSpec
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.component.policies import Policy, common_values
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import Contents, WorkloadIdentity
from kubewright.controlplanes.rendering.render import Rendered, render
from kubewright.controlplanes.templates.choice import Choice


@dataclass(frozen=True, slots=True)
class Source:
    """A Secret or a ConfigMap that volumes name.

    ``keys``      the entries that they show; empty: all
    ``required``  those of them without which a volume cannot be shown
    ``optional``  no volume needs the object itself
    """

    kind: str
    name: str
    keys: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def rendered_for(
    policy: Policy,
    spec: ComponentSpec,
    choice: Choice,
    family: Family,
    *,
    identity: WorkloadIdentity,
    replicas: int,
) -> tuple[Rendered | None, str]:
    """The rendered manifests, or why the templates could not be rendered: one of the two is empty."""
    values = {**common_values(family, identity), **policy.template_values(family, replicas)}
    try:
        return render(spec, choice, values, namespace=identity.namespace, replicas=replicas), ""
    except InvalidInput as error:
        return None, str(error)


def sources(rendered: Rendered) -> tuple[Source, ...]:
    """The Secrets and ConfigMaps that the volumes of a workload name, each once, in order."""
    volumes = rendered.workload["spec"]["template"]["spec"].get("volumes") or ()
    found: dict[tuple[str, str], Source] = {}
    for each in (source for volume in volumes for source in _of_volume(volume)):
        known = found.get((each.kind, each.name))
        found[each.kind, each.name] = each if known is None else _joined(known, each)
    return tuple(found.values())


def missing_of(source: Source, contents: Contents | None) -> list[str]:
    """What volumes need of a source and does not exist, in words for users."""
    if contents is None:
        return [] if source.optional else [str(source)]
    return [f"{source} has no {key}" for key in source.required if key not in contents]


def _joined(one: Source, other: Source) -> Source:
    keys = (*one.keys, *other.keys) if one.keys and other.keys else ()
    return replace(
        one,
        keys=tuple(dict.fromkeys(keys)),
        required=tuple(dict.fromkeys((*one.required, *other.required))),
        optional=one.optional and other.optional,
    )


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Source]:
    for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        for field, kind, name in (("secret", "Secret", "secretName"), ("configMap", "ConfigMap", "name")):
            if (found := part.get(field)) is not None:
                keys = tuple(each.get("key", "") for each in found.get("items") or ())
                named, optional = found.get(name) or found.get("name") or "", bool(found.get("optional"))
                yield Source(kind, named, keys, () if optional else keys, optional)
