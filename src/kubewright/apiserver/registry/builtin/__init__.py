"""The built-in kinds: the table of what kube-apiserver serves, and what each is to our server.

Map.    ``ROWS``    here: names, scope, subresources, in the order of discovery; what field selectors may ask
        columns     what ``kubectl get`` prints; ``cells`` computes it
        prepare     what the server fills in on create and update
        check       rules beyond the schema: immutable fields, cross-field rules
        signing_requests  requests for certificates: their writers and rules
        stored      kinds on which nothing here acts: their defaults, rules and warnings
        conversion  kinds whose objects are served in two shapes
Theory. Workloads that have no controller here are stored for the clients that read them (a drain reads
        the owner of a Pod, budgets read how many Pods there should be). The response has a
        warning, so that a user who applies one does not wait for Pods that are never created.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kubewright.apiserver.registry import custom
from kubewright.apiserver.registry.builtin import (
    check,
    columns,
    conversion,
    prepare,
    signing_requests,
    stored,
)
from kubewright.apiserver.registry.builtin.conversion import to_core_event
from kubewright.apiserver.registry.kind import Catalog, Scale, ServedKind
from kubewright.apiserver.schema.builtin import GROUPS, BuiltinSchema
from kubewright.apiserver.schema.node import Object, at
from kubewright.wire.gvk import Resource


@dataclass(frozen=True, slots=True)
class Row:
    """``definition`` is ``<package>.<version>.<Kind>``; ``generation``: it has metadata.generation."""

    definition: str
    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    status: bool = False
    scale: bool = False
    generation: bool = False
    subresources: tuple[str, ...] = ()
    by_kubelet: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    names: str = "dns-subdomain"

    @property
    def kind(self) -> str:
        return self.definition.rpartition(".")[2]

    @property
    def version(self) -> str:
        return self.definition.split(".")[1]

    @property
    def group(self) -> str:
        return GROUPS[self.definition.partition(".")[0]]


_ALL = ("all",)
_CREATE = ("create",)
_NAMESPACE = ("create", "delete", "get", "list", "patch", "update", "watch")

ROWS: tuple[Row, ...] = (
    Row("core.v1.ConfigMap", "configmaps", ("cm",)),
    Row("core.v1.Endpoints", "endpoints", ("ep",)),
    Row("core.v1.Event", "events", ("ev",)),
    Row("core.v1.LimitRange", "limitranges", ("limits",)),
    Row(
        "core.v1.Namespace", "namespaces", ("ns",), namespaced=False, status=True,
        subresources=("finalize",), verbs=_NAMESPACE, names="dns-label",
    ),
    Row("core.v1.Node", "nodes", ("no",), namespaced=False, status=True, by_kubelet=("proxy",)),
    Row("core.v1.PersistentVolumeClaim", "persistentvolumeclaims", ("pvc",), status=True),
    Row("core.v1.PersistentVolume", "persistentvolumes", ("pv",), namespaced=False, status=True),
    Row(
        "core.v1.Pod", "pods", ("po",), status=True, generation=True,
        subresources=("binding", "eviction", "log"), categories=_ALL,
        by_kubelet=("attach", "ephemeralcontainers", "exec", "portforward"),
    ),
    Row(
        "core.v1.ReplicationController", "replicationcontrollers", ("rc",), status=True, scale=True,
        generation=True, categories=_ALL,
    ),
    Row("core.v1.ResourceQuota", "resourcequotas", ("quota",), status=True),
    Row("core.v1.Secret", "secrets"),
    Row("core.v1.ServiceAccount", "serviceaccounts", ("sa",), subresources=("token",)),
    Row("core.v1.Service", "services", ("svc",), status=True, categories=_ALL, names="dns-label"),
    Row("apps.v1.ControllerRevision", "controllerrevisions"),
    Row("apps.v1.DaemonSet", "daemonsets", ("ds",), status=True, generation=True, categories=_ALL),
    Row(
        "apps.v1.Deployment", "deployments", ("deploy",), status=True, scale=True, generation=True,
        categories=_ALL,
    ),
    Row(
        "apps.v1.ReplicaSet", "replicasets", ("rs",), status=True, scale=True, generation=True,
        categories=_ALL,
    ),
    Row(
        "apps.v1.StatefulSet", "statefulsets", ("sts",), status=True, scale=True, generation=True,
        categories=_ALL,
    ),
    Row("authentication.v1.SelfSubjectReview", "selfsubjectreviews", namespaced=False, verbs=_CREATE),
    Row("authentication.v1.TokenReview", "tokenreviews", namespaced=False, verbs=_CREATE),
    Row("authorization.v1.LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=_CREATE),
    Row(
        "authorization.v1.SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False,
        verbs=_CREATE,
    ),
    Row(
        "authorization.v1.SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False, verbs=_CREATE,
    ),
    Row("authorization.v1.SubjectAccessReview", "subjectaccessreviews", namespaced=False, verbs=_CREATE),
    Row(
        "autoscaling.v2.HorizontalPodAutoscaler", "horizontalpodautoscalers", ("hpa",), status=True,
        categories=_ALL,
    ),
    Row(
        "autoscaling.v1.HorizontalPodAutoscaler", "horizontalpodautoscalers", ("hpa",), status=True,
        categories=_ALL,
    ),
    Row("batch.v1.CronJob", "cronjobs", ("cj",), status=True, generation=True, categories=_ALL),
    Row("batch.v1.Job", "jobs", status=True, generation=True, categories=_ALL),
    Row(
        "certificates.v1.CertificateSigningRequest", "certificatesigningrequests", ("csr",),
        namespaced=False, status=True, subresources=("approval",), names="path",
    ),
    Row("coordination.v1.Lease", "leases"),
    Row("discovery.v1.EndpointSlice", "endpointslices", generation=True),
    Row("events.v1.Event", "events", ("ev",)),
    Row("networking.v1.IngressClass", "ingressclasses", namespaced=False, generation=True),
    Row("networking.v1.Ingress", "ingresses", ("ing",), status=True, generation=True),
    Row("networking.v1.NetworkPolicy", "networkpolicies", ("netpol",), generation=True),
    Row("node.v1.RuntimeClass", "runtimeclasses", namespaced=False),
    Row("policy.v1.PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), status=True, generation=True),
    Row("rbac.v1.ClusterRoleBinding", "clusterrolebindings", namespaced=False, names="path"),
    Row("rbac.v1.ClusterRole", "clusterroles", namespaced=False, names="path"),
    Row("rbac.v1.RoleBinding", "rolebindings", names="path"),
    Row("rbac.v1.Role", "roles", names="path"),
    Row("resource.v1.DeviceClass", "deviceclasses", namespaced=False, generation=True),
    Row("resource.v1.ResourceClaim", "resourceclaims", status=True),
    Row("resource.v1.ResourceClaimTemplate", "resourceclaimtemplates"),
    Row("resource.v1.ResourceSlice", "resourceslices", namespaced=False, generation=True),
    Row("scheduling.v1.PriorityClass", "priorityclasses", ("pc",), namespaced=False),
    Row("storage.v1.CSIDriver", "csidrivers", namespaced=False),
    Row("storage.v1.CSINode", "csinodes", namespaced=False),
    Row("storage.v1.CSIStorageCapacity", "csistoragecapacities"),
    Row("storage.v1.StorageClass", "storageclasses", ("sc",), namespaced=False),
    Row("storage.v1.VolumeAttachment", "volumeattachments", namespaced=False, status=True),
    Row(
        "apiextensions.v1.CustomResourceDefinition", "customresourcedefinitions", ("crd", "crds"),
        namespaced=False, status=True, generation=True, categories=("api-extensions",),
    ),
)  # fmt: skip


Fields = Callable[[Object], Mapping[str, str]]


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _paths(*names: str, **otherwise: Any) -> Fields:
    """The values at these paths. ``otherwise`` gives what stands for a missing one, dots as ``__``."""
    defaults = {name.replace("__", "."): value for name, value in otherwise.items()}
    return lambda obj: {name: _word(at(obj, name, defaults.get(name))) for name in (*names, *defaults)}


_EVENT_PATHS = _paths(
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "reason", "reportingComponent", "type",
)  # fmt: skip


def _core_event(event: Object) -> Mapping[str, str]:
    """``source`` asks for the component, wherever it is written."""
    source = at(event, "source.component") or event.get("reportingComponent", "")
    return {**_EVENT_PATHS(event), "source": source}


def _new_event(event: Object) -> Mapping[str, str]:
    """The same under the names of events.k8s.io."""
    names = {"reportingComponent": "reportingController"}
    found = _core_event(to_core_event(event))
    return {
        names.get(name, name.replace("involvedObject", "regarding")): value for name, value in found.items()
    }


def _pod(obj: Object) -> Mapping[str, str]:
    ip = at(obj, "status.podIP", "") or next((p.get("ip", "") for p in at(obj, "status.podIPs", ())), "")
    return {**_POD(obj), "status.podIP": ip}


_POD = _paths(
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
    "status.nominatedNodeName", spec__hostNetwork=False,
)  # fmt: skip

_FIELDS: Mapping[str, Fields] = {
    "certificates.v1.CertificateSigningRequest": _paths("spec.signerName"),
    "core.v1.Event": _core_event,
    "events.v1.Event": _new_event,
    "core.v1.Namespace": _paths("status.phase"),
    "core.v1.Node": _paths(spec__unschedulable=False),
    "core.v1.Pod": _pod,
    "core.v1.ReplicationController": _paths(status__replicas=0),
    "core.v1.Secret": _paths("type"),
    "core.v1.Service": _paths("spec.clusterIP", "spec.type"),
    "resource.v1.ResourceSlice": _paths("spec.nodeName", "spec.driver"),
    "batch.v1.Job": lambda job: {"status.successful": str(at(job, "status.succeeded", 0))},
}
"""What field selectors may ask for, beside name and namespace; any other field is a 400. Every field is a
string here, missing ones are empty."""


_INDEXED: Mapping[str, frozenset[str]] = {"core.v1.Pod": frozenset({"spec.nodeName"})}
"""The fields of which the store keeps an index. Each drain asks for the pods of its node in every pass, and
thousands drain at once."""


_ALL_VERBS = frozenset(("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"))
Advice = Callable[[Object, Object | None], list[str]]

NOT_RUN = {
    "apps.v1.DaemonSet": "DaemonSets",
    "apps.v1.StatefulSet": "StatefulSets",
    "batch.v1.CronJob": "CronJobs",
    "batch.v1.Job": "Jobs",
}
"""The kinds that a kube-controller-manager acts on and no controller here does, with their plurals."""

_MIRRORS = {
    "events.v1.Event": conversion.EVENTS,
    "autoscaling.v1.HorizontalPodAutoscaler": conversion.AUTOSCALERS,
}
"""The kinds that are stored in the shape of another."""

_PARTED: Mapping[str, Any] = {
    "certificates.v1.CertificateSigningRequest": {
        "requested_by": signing_requests.requested_by,
        "parts": signing_requests.PARTS,
    }
}
"""The kinds that several sorts of users write, each through an endpoint of its own."""

_SCALE = Scale("spec.replicas", "status.replicas", "status.selector")


def builtin_catalog() -> Catalog:
    """A fresh catalog with every built-in kind. Cheap: schemas are compiled when first used."""
    catalog = Catalog()
    for row in ROWS:
        catalog.put(served(row))
    return catalog


@cache
def served(row: Row) -> ServedKind:
    """The kind of one row of the table; the same value for all servers of a process."""
    resource = Resource(row.group, row.version, row.plural, row.kind, row.namespaced, row.short_names)
    mirrored = _MIRRORS.get(row.definition, {})
    return ServedKind(
        resource=resource,
        schema=BuiltinSchema(row.definition),
        singular=row.kind.lower(),
        list_kind=f"{row.kind}List",
        verbs=frozenset(row.verbs) or _ALL_VERBS,
        categories=row.categories,
        columns=columns.of(row.definition),
        has_status=row.status,
        scale=_SCALE if row.scale else None,
        subresources=frozenset(row.subresources),
        by_kubelet=frozenset(row.by_kubelet),
        strategic=True,
        strict_names=row.names,
        has_generation=row.generation,
        prepare=prepare.of(row.definition),
        check=check.of(row.definition),
        warn=_advice(row.definition),
        fields=_FIELDS.get(row.definition, lambda _obj: {}),
        indexed=_INDEXED.get(row.definition, frozenset()),
        **_PARTED.get(row.definition, {}),
        grace_seconds=prepare.grace_seconds if row.kind == "Pod" else None,
        **mirrored,
    )


def _advice(definition: str) -> Advice:
    """The warnings about a valid object of a kind."""
    if definition == "apiextensions.v1.CustomResourceDefinition":
        return custom.warnings
    if definition in NOT_RUN:
        kinds = NOT_RUN[definition]
        return _said(
            f"this server stores {kinds} but runs no controller for them: no Pods will come of this one"
        )
    if definition in stored.NOTHING_ACTS:
        return _said(f"this server only stores {stored.NOTHING_ACTS[definition]}")
    return lambda _new, _old: []


def _said(said: str) -> Advice:
    """Warns on create and when the spec changes; not for changes of labels or status."""

    def advice(new: Object, old: Object | None) -> list[str]:
        return [] if old is not None and old.get("spec") == new.get("spec") else [said]

    return advice
