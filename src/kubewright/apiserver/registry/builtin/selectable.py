"""The fields of built-in kinds that field selectors may ask for, beside name and namespace.

kube-apiserver keeps this list per kind; asking for any other field is a 400 with
``field label not supported``. Every field is a string here, missing ones are empty.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubewright.apiserver.registry.builtin.events import to_core
from kubewright.apiserver.schema.node import Object, at

Fields = Callable[[Object], Mapping[str, str]]


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def paths(*names: str, **otherwise: Any) -> Fields:
    """The values at these paths. ``otherwise`` gives what stands for a missing one, dots as ``__``."""
    defaults = {name.replace("__", "."): value for name, value in otherwise.items()}
    return lambda obj: {name: _word(at(obj, name, defaults.get(name))) for name in (*names, *defaults)}


_EVENT_PATHS = paths(
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "reason", "reportingComponent", "type",
)  # fmt: skip


def core_event(event: Object) -> Mapping[str, str]:
    """``source`` asks for the component, wherever it is written."""
    source = at(event, "source.component") or event.get("reportingComponent", "")
    return {**_EVENT_PATHS(event), "source": source}


def new_event(event: Object) -> Mapping[str, str]:
    """The same under the names of events.k8s.io."""
    names = {"reportingComponent": "reportingController"}
    found = core_event(to_core(event))
    return {
        names.get(name, name.replace("involvedObject", "regarding")): value for name, value in found.items()
    }


def pod(obj: Object) -> Mapping[str, str]:
    ip = at(obj, "status.podIP", "") or next((p.get("ip", "") for p in at(obj, "status.podIPs", ())), "")
    return {**_POD(obj), "status.podIP": ip}


_POD = paths(
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
    "status.nominatedNodeName", spec__hostNetwork=False,
)  # fmt: skip

_FIELDS: Mapping[str, Fields] = {
    "certificates.v1.CertificateSigningRequest": paths("spec.signerName"),
    "core.v1.Event": core_event,
    "events.v1.Event": new_event,
    "core.v1.Namespace": paths("status.phase"),
    "core.v1.Node": paths(spec__unschedulable=False),
    "core.v1.Pod": pod,
    "core.v1.ReplicationController": paths(status__replicas=0),
    "core.v1.Secret": paths("type"),
    "core.v1.Service": paths("spec.clusterIP", "spec.type"),
    "resource.v1.ResourceSlice": paths("spec.nodeName", "spec.driver"),
    "batch.v1.Job": lambda job: {"status.successful": str(at(job, "status.succeeded", 0))},
}


_INDEXED: Mapping[str, frozenset[str]] = {"core.v1.Pod": frozenset({"spec.nodeName"})}
"""Each drain asks for the pods of its node in every pass, and thousands drain at once."""


def indexed(definition: str) -> frozenset[str]:
    """The fields of a kind of which the store keeps an index."""
    return _INDEXED.get(definition, frozenset())


def of(definition: str) -> Fields:
    """The fields of a kind; none for most."""
    return _FIELDS.get(definition, lambda _obj: {})
