"""Bindings: a scheduler assigns a pod to a node. Pure."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kubewright.api.conditions import with_json_conditions
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Cause, Object
from kubewright.apiserver.schema.causes import required
from kubewright.base.clock import rfc3339
from kubewright.wire.errors import BadRequest
from kubewright.wire.gvk import Resource

_BINDING = Resource("", "v1", "bindings", "Binding")
_ON_POD = Resource("", "v1", "pods/binding", "Binding")


def binding(sent: Any, name: str, now: datetime) -> Callable[[Object], Object]:
    """The change that a Binding makes to its pod; it raises Conflict when the pod has a node already.

    Raises:
        BadRequest, Invalid: the Binding is malformed.
    """
    target = sent.get("target") if isinstance(sent, dict) else None
    if not isinstance(target, dict):
        raise BadRequest(
            "the object provided is unrecognized (must be of type Binding): target must be an object"
        )
    node = target.get("name")
    if target.get("kind", "Node") not in ("Node", "", "Minion"):
        said = 'Unsupported value: supported values: "Node", "<empty>"'
        raise refusals.invalid(_BINDING, name, [Cause("FieldValueNotSupported", "target.kind", said)])
    if not isinstance(node, str) or not node:
        raise refusals.invalid(_BINDING, name, [required("target.name")])
    node_name: str = node

    def edit(pod: Object) -> Object:
        bound = (pod.get("spec") or {}).get("nodeName")
        if bound:
            raise refusals.conflict(_ON_POD, name, f'pod {name} is already assigned to node "{bound}"')
        if "deletionTimestamp" in pod["metadata"]:
            raise refusals.conflict(
                _ON_POD, name, f"pod {name} is being deleted, cannot be assigned to a host"
            )
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(now),
        }
        status = {**(pod.get("status") or {})}
        status.pop("nominatedNodeName", None)  # what was promised is kept
        return {
            **pod,
            "spec": {**pod["spec"], "nodeName": node_name},
            "status": {**status, "conditions": with_json_conditions(status, scheduled)},
        }

    return edit
