"""What the picture of a world shows of control planes: their objects without names, ids and times.

Called by    ``simulation.picture``.
"""

from collections.abc import Callable, Mapping

from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.controlplanes.family import KINDS
from kubewright.testing.simulation.clusterapi.picture import Facts, common
from kubewright.testing.simulation.journal import Object

COUNTS = ("replicas", "readyReplicas", "updatedReplicas", "version", "endpoint", "addresses", "initialized")


def _shape(found: Object) -> Facts:
    status = found.get("status", {})
    said = {each: status.get(each) for each in COUNTS}
    reasons = sorted((each["type"], each.get("reason", "")) for each in status.get("conditions", ()))
    return {**common(found), **said, "reasons": reasons, "errors": status.get("errors")}


SHAPES: Mapping[str, Callable[[Object], Facts]] = {
    str(kind.resource): _shape for kind in (NESTED_CONTROL_PLANE, *KINDS.values())
}
