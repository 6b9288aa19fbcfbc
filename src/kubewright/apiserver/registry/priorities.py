"""The priority of a Pod, by the PriorityClass that it names.

Theory.      A Pod names a class, and everything that ranks Pods (drains, schedulers) reads a number. As
             upstream the server writes the number when the Pod is created, so a class that changes later
             changes no Pod; and it refuses a class that is not there, since a Pod of another rank than
             its author thinks is worse than none.
Called by    ``writing``, before a Pod's other defaults.
Source       kube-apiserver's admission plugin Priority; the two classes that every cluster has.
"""

from typing import Any

import orjson

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Object
from kubewright.apiserver.registry.target import Target
from kubewright.apiserver.store import Store
from kubewright.wire.gvk import Resource

CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
OF_THE_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Priorities:
    """Answers from the store, staged writes included."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def given(self, target: Target, obj: Object) -> Object:
        """A new Pod with the priority of its class; any other object as it is.

        Raises:
            Forbidden: there is no such class.
        """
        spec = obj.get("spec") or {}
        name = spec.get("priorityClassName") if str(target.kind.resource) == str(PODS) else None
        if not name:
            return obj
        if name in OF_THE_SYSTEM:
            return _ranked(obj, {"value": OF_THE_SYSTEM[name]})
        record = self._store.latest(str(CLASSES), name)
        if record is None:
            meta = obj["metadata"]
            subject = meta.get("name") or meta.get("generateName", "")
            raise refusals.forbidden(
                target.kind.resource, subject, f"no PriorityClass with name {name} was found"
            )
        return _ranked(obj, orjson.loads(record.data))


def _ranked(pod: Object, found: dict[str, Any]) -> Object:
    policy = {"preemptionPolicy": found.get("preemptionPolicy", "PreemptLowerPriority")}
    return {**pod, "spec": {**policy, **pod["spec"], "priority": found["value"]}}
