"""The ``scale`` subresource: the replicas of any kind that has them. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.builtin.cells import at
from kubewright.apiserver.registry.kind import Object, Scale, ServedKind
from kubewright.apiserver.schema.causes import invalid
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.gvk import Resource

SCALE = Resource("autoscaling", "v1", "scales", "Scale")
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


def scaling(kind: ServedKind, change: Callable[[Object], Any]) -> Callable[[Object], Object]:
    """A change of a Scale, as a change of the object that it is the scale of.

    The change raises BadRequest or Invalid when its result is not a valid Scale.
    """
    path = _paths(kind).spec_path.split(".")

    def edit(obj: Object) -> Object:
        before = scale_of(kind, obj)
        wanted = change(before)
        metadata = {**obj["metadata"], **_precondition(wanted, before)}
        return _with({**obj, "metadata": metadata}, path, _replicas(wanted, before))

    return edit


def _precondition(wanted: Any, before: Object) -> dict[str, str]:
    """The resourceVersion and uid that the client sent, if any."""
    if not isinstance(wanted, dict) or not isinstance(wanted.get("metadata") or {}, dict):
        raise BadRequest("the object provided is unrecognized (must be of type Scale): it is not an object")
    given = wanted.get("metadata") or {}
    if given.get("name") not in (None, "", before["metadata"]["name"]):
        there = before["metadata"]["name"]
        said = f"the name of the object ({given['name']}) does not match the name on the URL ({there})"
        raise BadRequest(said)
    return {
        name: given[name]
        for name in ("resourceVersion", "uid")
        if isinstance(given.get(name), str) and given[name]
    }


def _replicas(wanted: Mapping[str, Any], before: Object) -> int:
    spec = wanted.get("spec") or {}
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise BadRequest(
            'Scale in version "v1" cannot be handled as a Scale: spec.replicas must be an integer'
        )
    if replicas < 0:
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
