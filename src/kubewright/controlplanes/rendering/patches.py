"""Applies a user's patches to the manifests. Pure.

Theory.      There are two forms. A patch may be a part of an object: it is merged into the manifest of the
             same group, kind and name, as Cluster API Provider Nested meant it. Or it has a target, with a
             kind and a name that may both be left out, and a type: strategic merge patch, merge patch or JSON
             patch.
Invariants.  Patches are applied in the order of the list, each to the result of the one before. A patch that
             matches no manifest is reported, never ignored. What patches make of the manifests is bounded, so
             that no component takes all the time or memory of the manager of all others: each manifest, and
             the sum of what all patches have written. A patch that goes beyond is reported, and not applied.
Source       seed 003 (PatchSpec); nested.md A3 (matching, order), C10.
Called by    ``render``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kubewright.api.controlplane.v1alpha4 import Patch
from kubewright.controlplanes.templates.catalog import Manifest
from kubewright.wire import gojson
from kubewright.wire.errors import ApiError, BadRequest
from kubewright.wire.gvk import split_api_version
from kubewright.wire.patch import GrowsTooMuch, Path, apply_json, apply_merge, apply_strategic

MANIFEST_BYTES = 1024 * 1024
"""Largest manifest after a patch. etcd takes objects of one and a half; ours have some thousand bytes."""

WRITTEN_BYTES = 8 * MANIFEST_BYTES
"""What all patches of a component may write together: each writes the manifests anew that it changes."""

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "volumeMounts": "mountPath",
}
"""Lists of a pod template that merge, and by which key, as the API of Kubernetes says."""
PORTS = {"StatefulSet": "containerPort", "Service": "port"}

MOST_PROBLEMS = 20
"""Sentences about patches in one status."""


def patched(
    manifests: Sequence[Manifest], patches: Sequence[Patch], namespace: str
) -> tuple[list[Manifest], list[str]]:
    """The manifests with all patches, and what is wrong with those that could not be applied."""
    found, problems, left = list(manifests), list[str](), WRITTEN_BYTES
    for number, patch in enumerate(patches):
        if len(problems) >= MOST_PROBLEMS:
            problems.append(f"spec.patches[{number}] and those after it are not applied: too much is wrong")
            break
        targets = [index for index, each in enumerate(found) if _is_target(each, patch, namespace)]
        if not targets:
            problems.append(
                f"spec.patches[{number}] is for no object: {_described(patch)}; there are: {_listed(found)}"
            )
        for index in targets:
            try:
                changed = _apply(found[index], patch)
                left -= _size(changed)
            except GrowsTooMuch as error:
                problems.append(f"spec.patches[{number}]: {error.why}")
            except ApiError as error:
                problems.append(f"spec.patches[{number}]: {error}")
            else:
                if left < 0:
                    problems.append(_too_many(number))
                    return found, problems
                found[index] = changed
    return found, problems


def _size(changed: Any) -> int:
    """The bytes of a patched manifest.

    Raises:
        BadRequest: it is no manifest any more, or too large.
    """
    named = isinstance(changed, Mapping) and _metadata(changed).get("name")
    if not named or not all(isinstance(changed.get(key), str) for key in ("apiVersion", "kind")):
        raise BadRequest("what it leaves has no apiVersion, kind or name, and is no object")
    try:
        size = len(orjson.dumps(changed))
    except orjson.JSONEncodeError:
        raise BadRequest(str(gojson.TooDeep())) from None
    if size > MANIFEST_BYTES:
        raise BadRequest(f"the object would have {size} bytes; {MANIFEST_BYTES} are the most")
    return size


def _too_many(number: int) -> str:
    return (
        f"spec.patches[{number}] and those after it are not applied: those before it have written "
        f"{WRITTEN_BYTES} bytes, which is the most"
    )


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
    if "target" not in patch:
        named = {key: value for key, value in _metadata(patch).items() if key != "namespace"}
        return apply_strategic(manifest, {**patch, "metadata": named}, _keys(manifest))
    change = patch.get("patch")
    match patch.get("type"):
        case "merge":
            changed: Manifest = apply_merge(manifest, change)
        case "json":
            changed = apply_json(manifest, change, most=MANIFEST_BYTES)
        case _:
            changed = apply_strategic(manifest, change, _keys(manifest))
    return changed


def _metadata(patch: Patch) -> Mapping[str, Any]:
    found = patch.get("metadata")
    return found if isinstance(found, Mapping) else {}


def _keys(manifest: Manifest) -> Any:
    def keys(path: Path) -> tuple[str | None, frozenset[str]]:
        last = path[-1] if path else ""
        key = PORTS.get(manifest["kind"]) if last == "ports" else MERGE_KEYS.get(last)
        return (key, frozenset({"merge"})) if key else (None, frozenset())

    return keys


def _described(patch: Patch) -> str:
    target = patch.get("target")
    named = target if isinstance(target, Mapping) else {"kind": patch.get("kind"), **_metadata(patch)}
    return f"{named.get('kind') or 'any kind'} {named.get('name') or 'without a name'}"


def _listed(manifests: Sequence[Manifest]) -> str:
    return ", ".join(f"{each['kind']} {each['metadata']['name']}" for each in manifests)
