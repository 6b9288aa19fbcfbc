"""What to do with one object, from the object that exists and the manifest that is wanted. Pure.

Theory.      If no object exists, it is created. An object that exists has an annotation with a hash of the
             manifest that we wrote last; if the hash or a field of ours differs, a merge patch is computed
             from before and after. The server adds defaults and writes quantities in its own way, so only the
             fields of the manifest are compared. A pod template is replaced as a whole, since users change it
             by the component's patches: what is not in the manifest is removed.
Invariants.  An object that the component object does not control is never changed. A field of a StatefulSet
             that cannot be changed is never sent: the difference is reported, with what to do about it.
Source       nested.md A9, D6; design decision D3 (nothing is PUT).
Called by    ``host``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api.controlplane.names import MANIFEST_ANNOTATION
from kubewright.api.diff import Patch, merge_patch
from kubewright.api.meta import ObjectMeta
from kubewright.controlplanes.hosting.pods.kinds import WORKLOAD
from kubewright.controlplanes.templates.catalog import Manifest
from kubewright.kube.patches import onto
from kubewright.wire.quantity import parse

CHANGEABLE = frozenset(
    {
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "replicas",
        "revisionHistoryLimit",
        "template",
        "updateStrategy",
    }
)
"""What may change in the spec of a StatefulSet that exists."""


@dataclass(frozen=True, slots=True)
class Create:
    """It is not there."""


@dataclass(frozen=True, slots=True)
class Change:
    """It is there, and differs. ``patch``: with the uid and the version that it was computed from."""

    patch: Patch


@dataclass(frozen=True, slots=True)
class Leave:
    """It is as it should be."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Nothing can be done now: ``why``, a sentence. ``passes``: whether it may end without a user's help."""

    why: str
    passes: bool = False


Step = Create | Change | Leave | Obstacle


def decide(seen: Mapping[str, Any] | None, manifest: Manifest) -> Step:
    """What to do with the object that this manifest describes; ``seen`` is None if there is none."""
    if seen is None:
        return Create()
    told, (owner,) = named(manifest), manifest["metadata"]["ownerReferences"]
    if controller_of(seen) != owner["uid"]:
        return Obstacle(f"{told} is there already and belongs to another, so it is left alone", passes=True)
    if seen["metadata"].get("deletionTimestamp"):
        return Obstacle(f"{told} is still being deleted", passes=True)
    if fixed := _fixed(seen, manifest):
        name = manifest["metadata"]["name"]
        mend = f"after `kubectl delete statefulset {name} --cascade=orphan` it is made anew around its pods"
        return Obstacle(f"{told} has another {fixed}, which cannot be changed while it exists; {mend}")
    if _mark(seen) == _mark(manifest) and covers(seen, manifest):
        return Leave()
    meta = ObjectMeta(uid=seen["metadata"]["uid"], resource_version=seen["metadata"]["resourceVersion"])
    return Change(onto(merge_patch(seen, _after(seen, manifest)), meta))


def outdated(seen: Mapping[str, Any] | None, manifest: Manifest) -> bool:
    """Whether an object is not there, or is ours and was written from another manifest.

    What others have changed in it since is no reason: a server that changes it as well would never end it.
    """
    if seen is None:
        return True
    (owner,) = manifest["metadata"]["ownerReferences"]
    ours = controller_of(seen) == owner["uid"] and not seen["metadata"].get("deletionTimestamp")
    return ours and _mark(seen) != _mark(manifest)


def covers(seen: Any, wanted: Any) -> bool:
    """Whether ``seen`` has all that is wanted. Its objects may have more fields, its lists no more items."""
    if isinstance(wanted, Mapping):
        inner = seen if isinstance(seen, Mapping) else {}
        return all(covers(inner.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        inside: Sequence[Any] = seen if isinstance(seen, list) else ()
        return len(inside) == len(wanted) and all(map(covers, inside, wanted))
    if seen is None:
        return not wanted
    return bool(seen == wanted) or _same_amount(seen, wanted)


def controller_of(obj: Mapping[str, Any]) -> str:
    """The uid of an object's controlling owner; empty if it has none."""
    owners = obj["metadata"].get("ownerReferences", ())
    return next((str(each["uid"]) for each in owners if each.get("controller")), "")


def named(obj: Mapping[str, Any]) -> str:
    """How a sentence names an object."""
    metadata = obj["metadata"]
    return f"the {obj['kind']} {metadata['namespace']}/{metadata['name']}"


def _same_amount(one: Any, other: Any) -> bool:
    if not isinstance(one, (str, int)) or not isinstance(other, (str, int)):
        return False
    try:
        return parse(one) == parse(other)
    except ValueError:
        return False


def _mark(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("annotations", {}).get(MANIFEST_ANNOTATION, ""))


def _fixed(seen: Mapping[str, Any], manifest: Manifest) -> str:
    """The fields of a StatefulSet that differ and cannot be changed; empty if there are none."""
    if manifest["kind"] != WORKLOAD.resource.kind:
        return ""
    there = seen["spec"]
    return ", ".join(
        f"spec.{name}"
        for name, value in manifest["spec"].items()
        if name not in CHANGEABLE and not covers(there.get(name), value)
    )


def _after(seen: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """The object as it should be after the patch: the manifest merged over what is seen."""
    spec = dict(manifest["spec"])
    if manifest["kind"] == WORKLOAD.resource.kind:
        spec = {name: value for name, value in spec.items() if name in CHANGEABLE}
    laid: dict[str, Any] = _merged(seen, {"metadata": manifest["metadata"], "spec": spec})
    if "template" in spec:
        laid["spec"]["template"] = spec["template"]
    return laid


def _merged(below: Any, above: Any) -> Any:
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
