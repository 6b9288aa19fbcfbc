"""Applies a user's patches to the manifests. Pure.

Theory.      There are two forms. A patch may be a part of an object: it is merged into the manifest of the
             same group, kind and name, as Cluster API Provider Nested meant it. Or it has a target, with a
             kind and a name that may both be left out, and a type: strategic merge patch, merge patch or JSON
             patch. Which lists a strategic merge patch merges, and by which key, says the table that is
             generated from the schemas of the API server, and nothing else.
             What a user writes here was checked by no schema, and all that comes after reads the result. So
             each result is measured, and its form checked, before the next patch sees it.
Invariants.  Patches are applied in the order of the list, each to the result of the one before. A patch that
             matches no manifest, or whose result cannot be used, is reported, never ignored, and changes
             nothing. The work, the result and what is reported are bounded, whatever the patches are.
Source       seed 003 (PatchSpec); nested.md A3 (matching, order), C10.
Called by    ``render``.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from kubewright.api.controlplane.v1alpha4 import Patch
from kubewright.controlplanes.rendering.form import problem_of
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
