"""Whether a manifest still has the form that hosts read, after a user's patch. Pure.

Theory.      The schema of a component lets any patch through, because it cannot know what it will be applied
             to, and hosts read the result before an API server has looked at it, if one ever does. So the
             fields that our code reads have their types here; all others are passed on as they are.
Invariants.  A manifest of this form has every name, list and map where hosts look for it: none is null, and
             no number is a text. A patch cannot make one object into another. No message quotes a value.
Called by    ``patches``.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from kubewright.controlplanes.templates.catalog import Manifest

Texts = Mapping[str, str]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
PortNumber = Annotated[int, Meta(ge=1, le=65535)]
WORKLOAD = "StatefulSet"
_PLACE = re.compile(r" - at `\$\.?(.*)`$")


class _Read(Struct, frozen=True, rename="camel"):
    """Fields that are not named here are not looked at."""


class Metadata(_Read, frozen=True):
    name: str
    namespace: str | UnsetType = UNSET
    labels: Texts | UnsetType = UNSET
    annotations: Texts | UnsetType = UNSET


class Named(_Read, frozen=True):
    name: str


class HttpGet(_Read, frozen=True):
    port: PortNumber | str
    path: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    scheme: str | UnsetType = UNSET


class TcpSocket(_Read, frozen=True):
    port: PortNumber | str
    host: str | UnsetType = UNSET


class Exec(_Read, frozen=True):
    command: list[str] | UnsetType = UNSET


class Probe(_Read, frozen=True):
    http_get: HttpGet | UnsetType = UNSET
    tcp_socket: TcpSocket | UnsetType = UNSET
    exec: Exec | UnsetType = UNSET
    period_seconds: Number | UnsetType = UNSET
    timeout_seconds: Number | UnsetType = UNSET
    failure_threshold: Number | UnsetType = UNSET
    initial_delay_seconds: Number | UnsetType = UNSET


class FieldRef(_Read, frozen=True):
    field_path: str


class ValueFrom(_Read, frozen=True):
    field_ref: FieldRef | UnsetType = UNSET


class Variable(_Read, frozen=True):
    name: str
    value: str | UnsetType = UNSET
    value_from: ValueFrom | UnsetType = UNSET


class Port(_Read, frozen=True):
    container_port: PortNumber
    name: str | UnsetType = UNSET


class Resources(_Read, frozen=True):
    limits: Mapping[str, str | int | float] | UnsetType = UNSET
    requests: Mapping[str, str | int | float] | UnsetType = UNSET


class Mount(_Read, frozen=True):
    name: str
    mount_path: str


class Container(_Read, frozen=True):
    name: str
    command: list[str] | UnsetType = UNSET
    args: list[str] | UnsetType = UNSET
    env: list[Variable] | UnsetType = UNSET
    ports: list[Port] | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET
    volume_mounts: list[Mount] | UnsetType = UNSET
    security_context: Mapping[str, Any] | UnsetType = UNSET
    startup_probe: Probe | UnsetType = UNSET
    readiness_probe: Probe | UnsetType = UNSET
    liveness_probe: Probe | UnsetType = UNSET


class Item(_Read, frozen=True):
    key: str
    path: str


class Entries(_Read, frozen=True):
    """A Secret or a ConfigMap: the first is named in another way in a volume than in a projected one."""

    name: str | UnsetType = UNSET
    secret_name: str | UnsetType = UNSET
    items: list[Item] | UnsetType = UNSET
    optional: bool | UnsetType = UNSET


class ProjectedSource(_Read, frozen=True):
    secret: Entries | UnsetType = UNSET
    config_map: Entries | UnsetType = UNSET


class Projected(_Read, frozen=True):
    sources: list[ProjectedSource] | UnsetType = UNSET


class Volume(_Read, frozen=True):
    name: str
    secret: Entries | UnsetType = UNSET
    config_map: Entries | UnsetType = UNSET
    projected: Projected | UnsetType = UNSET


class PodSpec(_Read, frozen=True):
    containers: Annotated[list[Container], Meta(min_length=1)]
    volumes: list[Volume] | UnsetType = UNSET
    termination_grace_period_seconds: Number | UnsetType = UNSET


class Template(_Read, frozen=True):
    spec: PodSpec
    metadata: Mapping[str, Any] | UnsetType = UNSET


class Claim(_Read, frozen=True):
    metadata: Named


class Selector(_Read, frozen=True):
    match_labels: Texts | UnsetType = UNSET


class WorkloadSpec(_Read, frozen=True):
    template: Template
    selector: Selector | UnsetType = UNSET
    volume_claim_templates: list[Claim] | UnsetType = UNSET


class Workload(_Read, frozen=True):
    """A StatefulSet."""

    metadata: Metadata
    spec: WorkloadSpec


class ServiceSpec(_Read, frozen=True):
    selector: Texts | UnsetType = UNSET


class Other(_Read, frozen=True):
    """Any other object: a Service."""

    metadata: Metadata
    spec: ServiceSpec | UnsetType = UNSET


def problem_of(before: Manifest, after: Any) -> str:
    """What is wrong with the result of a patch, a clause; empty if hosts can read it."""
    named = f"{before['kind']} {before['metadata']['name']}"
    form: type[Workload | Other] = Workload if before["kind"] == WORKLOAD else Other
    try:
        found = msgspec.convert(after, form)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        return f"in {named}, {place[1] if place else ''}: {_PLACE.sub('', str(error))}"
    for field in ("apiVersion", "kind"):
        if after.get(field) != before[field]:
            return f"it changes {field} of {named}"
    return f"it changes metadata.name of {named}" if found.metadata.name != before["metadata"]["name"] else ""
