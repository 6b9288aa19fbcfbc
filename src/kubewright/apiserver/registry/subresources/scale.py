"""The ``scale`` subresource: the replicas of any kind that has them. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from kubewright.apiserver.registry import intake, refusals
from kubewright.apiserver.registry.builtin.cells import at
from kubewright.apiserver.registry.kind import Object, Scale, ServedKind
from kubewright.apiserver.schema.builtin import BuiltinSchema
from kubewright.apiserver.schema.causes import invalid
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.gvk import Resource

SCALE = Resource("autoscaling", "v1", "scales", "Scale")
_SCHEMA = BuiltinSchema("autoscaling.v1.Scale")
_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: ServedKind, obj: Object) -> Object:
    """An object as a Scale."""
    scale = _paths(kind)
    metadata = {name: obj["metadata"][name] for name in _SHARED if name in obj["metadata"]}
    status: dict[str, Any] = {"replicas": at(obj, scale.status_path) or 0}
    if selector := _selector(obj, scale):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": at(obj, scale.spec_path) or 0},
        "status": status,
    }


def scaling(
    kind: ServedKind, change: Callable[[Object], Any], *, patched: bool
) -> Callable[[Object], Object]:
    """A change of a Scale (``patched``: by a patch), as a change of the object that it is the scale of.

    The change raises BadRequest or Invalid when its result is not a valid Scale.
    """
    path = _paths(kind).spec_path.split(".")

    def edit(obj: Object) -> Object:
        before = scale_of(kind, obj)
        wanted = change(before)
        _check_types(wanted, patched=patched)
        metadata = {**obj["metadata"], **_precondition(wanted, before)}
        return _with({**obj, "metadata": metadata}, path, _replicas(kind, wanted, before))

    return edit


def _check_types(wanted: Any, *, patched: bool) -> None:
    """Check that this can be decoded as a Scale: it has types, whatever kind it is the scale of.

    Raises:
        BadRequest, or Invalid for a patch
    """
    if not isinstance(wanted, dict):
        raise BadRequest("the object provided is unrecognized (must be of type Scale): it is not an object")
    if (error := _SCHEMA.decode_error(wanted)) is not None:
        raise intake.unreadable(SCALE, error, patched=patched)


def _precondition(wanted: Mapping[str, Any], before: Object) -> dict[str, str]:
    """The resourceVersion and uid that the client sent, if any."""
    given = wanted.get("metadata") or {}
    if given.get("name") not in (None, "", before["metadata"]["name"]):
        there = before["metadata"]["name"]
        said = f"the name of the object ({given['name']}) does not match the name on the URL ({there})"
        raise BadRequest(said)
    return {name: given[name] for name in ("resourceVersion", "uid") if given.get(name)}


def _replicas(kind: ServedKind, wanted: Mapping[str, Any], before: Object) -> int:
    """The count; a negative one of a custom kind is refused as a part of its object."""
    replicas: int = (wanted.get("spec") or {}).get("replicas") or 0
    if replicas < 0 and not kind.custom:
        cause = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise refusals.invalid(SCALE, before["metadata"]["name"], [cause])
    return replicas


def _paths(kind: ServedKind) -> Scale:
    assert kind.scale is not None, f"{kind.resource} has no scale"
    return kind.scale


def _selector(obj: Object, scale: Scale) -> str:
    found = at(obj, scale.selector_path) if scale.selector_path else None
    if isinstance(found, str):
        return found
    own = at(obj, "spec.selector")
    if not isinstance(own, dict) or not own or not scale.selector_path:
        return ""
    plain = all(isinstance(each, str) for each in own.values())  # a ReplicationController's is just labels
    return str(selectors.from_object({"matchLabels": own} if plain else own))


def _with(obj: Object, path: list[str], value: int) -> Object:
    if not path:
        return obj
    name, *rest = path
    if not rest:
        return {**obj, name: value}
    inner = obj.get(name)
    return {**obj, name: _with(inner if isinstance(inner, dict) else {}, rest, value)}
