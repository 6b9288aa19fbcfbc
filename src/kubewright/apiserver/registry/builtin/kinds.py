"""The table of built-in kinds: names, scope and subresources, as kube-apiserver serves them.

Theory.      One row per kind, in the order of discovery, by version. What a kind does
             beyond its names stands in the other files of this package, by kind name: ``columns``,
             ``prepare``, ``check``, ``selectable``, ``stored``.
"""

from dataclasses import dataclass

from kubewright.apiserver.schema.builtin import GROUPS


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
