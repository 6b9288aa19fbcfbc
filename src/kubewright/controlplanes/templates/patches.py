"""Applies a user's patches to the manifests, and checks that hosts can read the result. Pure.

Theory.      There are two forms. A patch may be a part of an object: it is merged into the manifest of the
             same group, kind and name, as Cluster API Provider Nested meant it. Or it has a target, with a
             kind and a name that may both be left out, and a type: strategic merge patch, merge patch or JSON
             patch. Which lists a strategic merge patch merges, and by which key, says the table that is
             generated from the schemas of the API server (``merge_keys.json``), and nothing else.
             The schema of a component lets any patch through, because it cannot know what it will be applied
             to, and hosts read the result before an API server has looked at it, if one ever does. So each
             result is measured, and the fields that our code reads have their types here; all others are
             passed on as they are.
Invariants.  Patches are applied in the order of the list, each to the result of the one before. A patch that
             matches no manifest, or whose result cannot be used, is reported, never ignored, and changes
             nothing. The work, the result and what is reported are bounded, whatever the patches are.
             A manifest that was patched has every name, list and map where hosts look for it: none is null,
             and no number is a text. A patch cannot make one object into another. No message quotes a value.
Called by    ``render``.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from kubewright.api.controlplane.v1alpha4 import Patch
from kubewright.controlplanes.templates.catalog import Manifest
from kubewright.wire.errors import ApiError
from kubewright.wire.gojson import whole
from kubewright.wire.gvk import split_api_version
from kubewright.wire.patch import GrowsTooMuch, MergeKeys, Path, apply_json, apply_merge, apply_strategic

MOST_PATCHES = 100
LARGEST = 1024 * 1024
"""Bytes of one manifest as JSON: an API server takes hardly more in one object."""
WRITTEN = 8 * LARGEST
"""Bytes that all patches of a component may write together: each writes anew what it changes."""
TOLD_CHARS = 300
"""The longest part of a message that comes from what a user wrote."""
Fields = Mapping[str, tuple[str | None, str | None, str | None]]
"""By field of a type: the type of what is inside, the merge key, and the strategies."""


class MergeTable(msgspec.Struct, frozen=True):
    """The generated table: types by kind (``apps/v1 StatefulSet``), and fields by type."""

    kinds: Mapping[str, str]
    types: Mapping[str, Fields]


class Unusable(ApiError):
    """The result of a patch that fits cannot be used."""


def patched(
    manifests: Sequence[Manifest], patches: Sequence[Patch], namespace: str
) -> tuple[list[Manifest], list[str]]:
    """The manifests with all patches, and what is wrong with those that could not be applied."""
    found, problems, left = list(manifests), list[str](), WRITTEN
    if len(patches) > MOST_PATCHES:
        problems.append(f"spec.patches has {len(patches)} entries, and {MOST_PATCHES} are the most")
    for number, patch in enumerate(patches[:MOST_PATCHES]):
        targets = [index for index, each in enumerate(found) if _is_target(each, patch, namespace)]
        if not targets:
            told = f"is for no object: {_described(patch)}; there are: {_listed(found)}"
            problems.append(f"spec.patches[{number}] {told}")
        for index in targets:
            try:
                changed, size = _usable(found[index], whole(_apply(found[index], patch)))
            except GrowsTooMuch as error:
                problems.append(f"spec.patches[{number}]: {error.why}")
            except ApiError as error:
                problems.append(f"spec.patches[{number}]: {_short(str(error))}")
            except RecursionError:
                problems.append(f"spec.patches[{number}]: it is nested too deeply")
            else:
                if (left := left - size) < 0:
                    problems.append(_too_many(number))
                    return found, problems
                found[index] = changed
    return found, problems


def _too_many(number: int) -> str:
    return (
        f"spec.patches[{number}] and those after it are not applied: those before it have written "
        f"{WRITTEN} bytes, which is the most"
    )


def _usable(before: Manifest, after: Any) -> tuple[Manifest, int]:
    """The result of a patch and its bytes, if it is an object of the same name that hosts can read.

    Raises:
        Unusable: it is not.
    """
    try:
        size = len(msgspec.json.encode(after))
    except ValueError:  # half of a character that is written as two
        raise Unusable("it has a text that is no Unicode") from None
    if size > LARGEST:
        told = f"{before['kind']} {before['metadata']['name']} would have {size} bytes with it"
        raise Unusable(f"{told}, and {LARGEST} are the most")
    if told := problem_of(before, after):
        raise Unusable(told)
    found: Manifest = after
    return found, size


def _is_target(manifest: Manifest, patch: Patch, namespace: str) -> bool:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if isinstance(target := patch.get("target"), Mapping):
        return target.get("kind") in (None, kind) and target.get("name") in (None, name)
    metadata = _metadata(patch)
    same_group = (
        split_api_version(str(patch.get("apiVersion")))[0] == split_api_version(manifest["apiVersion"])[0]
    )
    named = (patch.get("kind"), metadata.get("name"))
    return same_group and named == (kind, name) and metadata.get("namespace") in (None, "", namespace)


def _apply(manifest: Manifest, patch: Patch) -> Manifest:
    """The manifest with one patch.

    Raises:
        ApiError: the patch does not fit the manifest.
    """
    keys = merge_keys_of(manifest["apiVersion"], manifest["kind"])
    if "target" not in patch:
        named = {key: value for key, value in _metadata(patch).items() if key != "namespace"}
        return apply_strategic(manifest, {**patch, "metadata": named}, keys)
    change = patch.get("patch")
    match patch.get("type"):
        case "merge":
            changed: Manifest = apply_merge(manifest, change)
        case "json":
            changed = apply_json(manifest, change, most=LARGEST)
        case _:
            changed = apply_strategic(manifest, change, keys)
    return changed


def _metadata(patch: Patch) -> Mapping[str, Any]:
    found = patch.get("metadata")
    return found if isinstance(found, Mapping) else {}


@cache
def _table() -> MergeTable:
    return msgspec.json.decode(files(__package__).joinpath("merge_keys.json").read_bytes(), type=MergeTable)


def merge_keys_of(api_version: str, kind: str) -> MergeKeys:
    """Merge key and strategies of each list and map in a kind; of an unknown kind nothing merges."""
    table = _table()

    def keys(path: Path) -> tuple[str | None, frozenset[str]]:
        inner: str | None = table.kinds.get(f"{api_version} {kind}")
        key = strategies = None
        for field in path:
            inner, key, strategies = table.types.get(inner or "", {}).get(field, (None, None, None))
        return key, frozenset((strategies or "").split(",")) - {""}

    return keys


def _described(patch: Patch) -> str:
    target = patch.get("target")
    named = target if isinstance(target, Mapping) else {"kind": patch.get("kind"), **_metadata(patch)}
    return _short(f"{named.get('kind') or 'any kind'} {named.get('name') or 'without a name'}")


def _listed(manifests: Sequence[Manifest]) -> str:
    return ", ".join(f"{each['kind']} {each['metadata']['name']}" for each in manifests)


def _short(text: str) -> str:
    return text if len(text) <= TOLD_CHARS else f"{text[:TOLD_CHARS]}..."


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
