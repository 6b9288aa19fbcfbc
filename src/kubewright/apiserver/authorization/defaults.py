"""The roles and bindings that every cluster has; the server makes those that are missing.

Theory.      Those that users and tools refer to by name, and those of programs that could work with
             this server (a scheduler, a kubelet). Roles of controllers and add-ons that do not run
             here are left out; docs/reference/api-differences.md says which.
             ``admin``, ``edit`` and ``view`` have no rules of their own: a controller
             (``builtin.aggregation``) writes into them the rules of all ClusterRoles with their label,
             so that an API can add to them.
             One line per rule. The roles for users (admin, edit, view) name every kind that they name
             upstream, whether this server serves it or not: tools expect these roles to be the same, and
             a right to a kind that is not served does no harm.
Invariants.  Data only. All carry the label of defaults, and the annotation that lets the server update them.
             Each role allows exactly what the same role allows on the release in ``wire.release``; a
             test asks a real server.
Called by    ``bootstrap``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubewright.apiserver.authorization.attributes import GROUP, MASTERS
from kubewright.apiserver.authorization.reconciliation import AUTOUPDATE
from kubewright.apiserver.authorization.rules import ALL, Rule

READ = "get list watch"
WRITE = "create delete deletecollection patch update"
APPS, AUTH, BATCH, EVENTS = "apps", "authentication.k8s.io", "batch", "core events.k8s.io"
ACCESS, CERTS, LEASES, NET = (
    "authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "networking.k8s.io",
)  # fmt: skip
DEVICES, STORAGE, OLD = "resource.k8s.io", "storage.k8s.io", "extensions"
CORE = "core"


def can(verbs: str, resources: str, groups: str = CORE, *, names: str = "") -> Rule:
    """A rule about resources; words are separated by blanks, ``core`` is the API group without a name."""
    spelled = tuple("" if group == CORE else group for group in groups.split())
    return Rule(tuple(verbs.split()), spelled, tuple(resources.split()), tuple(names.split()))


def sees(urls: str) -> Rule:
    """A rule that lets GET through to non-resource paths."""
    return Rule(("get",), urls=tuple(urls.split()))


def both(resources: str) -> str:
    """Each resource, and its ``status`` subresource."""
    return " ".join(f"{each} {each}/status" for each in resources.split())


_REVIEWS = (can("create", "tokenreviews", AUTH), can("create", "subjectaccessreviews", ACCESS))
_REPORTS = can("create patch update", "events", EVENTS)
_HEALTH = "/healthz /livez /readyz /version /version/"
_SCALED = "deployments replicasets statefulsets"
_SCALES = " ".join(f"{each}/scale" for each in _SCALED.split())
_OLD_SCALES = "deployments/scale replicasets/scale replicationcontrollers/scale"
_SESSIONS = "pods/attach pods/exec pods/portforward pods/proxy"

_VIEW = (
    can(READ, both("persistentvolumeclaims pods replicationcontrollers resourcequotas services")),
    can(READ, "bindings configmaps endpoints limitranges namespaces namespaces/status serviceaccounts"),
    can(READ, "pods/log replicationcontrollers/scale"),
    can(READ, "events", EVENTS),
    can(READ, "endpointslices", "discovery.k8s.io"),
    can(READ, f"controllerrevisions {both('daemonsets')} {both(_SCALED)} {_SCALES}", APPS),
    can(READ, both("horizontalpodautoscalers"), "autoscaling"),
    can(READ, both("cronjobs jobs"), BATCH),
    can(READ, f"{both('daemonsets deployments ingresses replicasets')} networkpolicies {_OLD_SCALES}", OLD),
    can(READ, both("poddisruptionbudgets"), "policy"),
    can(READ, f"{both('ingresses')} networkpolicies", NET),
    can(READ, f"{both('resourceclaims')} resourceclaimtemplates", DEVICES),
)

_EDIT = (
    can(READ, f"{_SESSIONS} secrets services/proxy"),
    can("impersonate", "serviceaccounts"),
    can(WRITE, f"pods {_SESSIONS}"),
    can("create", "pods/eviction serviceaccounts/token"),
    can(WRITE, "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale"),
    can(WRITE, "secrets serviceaccounts services services/proxy"),
    can(WRITE, "events", EVENTS),
    can(WRITE, f"daemonsets {_SCALED} {_SCALES} deployments/rollback", APPS),
    can(WRITE, "horizontalpodautoscalers", "autoscaling"),
    can(WRITE, "cronjobs jobs", BATCH),
    can(WRITE, "daemonsets deployments deployments/rollback ingresses networkpolicies replicasets", OLD),
    can(WRITE, _OLD_SCALES, OLD),
    can(WRITE, "poddisruptionbudgets", "policy"),
    can(WRITE, "ingresses networkpolicies", NET),
    can(f"{READ} {WRITE}", "leases", LEASES),
    can(WRITE, "resourceclaims resourceclaimtemplates", DEVICES),
)

_NODE = (
    *_REVIEWS,
    can("create", "localsubjectaccessreviews", ACCESS),
    can(READ, "configmaps nodes pods secrets services"),
    can("create patch update", "nodes"),
    can("patch update", "nodes/status pods/status"),
    can("create delete", "pods"),
    can("create", "pods/eviction serviceaccounts/token"),
    can("get", "endpoints persistentvolumeclaims persistentvolumes serviceaccounts"),
    can("get patch update", "persistentvolumeclaims/status"),
    _REPORTS,
    can(f"create {READ}", "certificatesigningrequests", CERTS),
    can("create delete get patch update", "leases", LEASES),
    can("create delete get patch update", "csinodes", STORAGE),
    can(READ, "csidrivers", STORAGE),
    can("get", "volumeattachments", STORAGE),
    can(READ, "runtimeclasses", "node.k8s.io"),
    can("get", "resourceclaims", DEVICES),
    can("deletecollection", "resourceslices", DEVICES),
)

_SCHEDULER = (
    *_REVIEWS,
    _REPORTS,
    can("create", "leases", LEASES),
    can(f"{READ} update", "leases", LEASES, names="kube-scheduler"),
    can(f"{READ} {WRITE}", "leasecandidates", LEASES),
    can(
        READ, "namespaces nodes persistentvolumeclaims persistentvolumes pods replicationcontrollers services"
    ),
    can("delete", "pods"),
    can("create", "bindings pods/binding"),
    can("patch update", "pods/status"),
    can("update", "pods/finalizers"),
    can(READ, "replicasets", f"{APPS} {OLD}"),
    can(READ, "statefulsets", APPS),
    can(READ, "poddisruptionbudgets", "policy"),
    can(READ, "csidrivers csinodes csistoragecapacities volumeattachments", STORAGE),
    can(READ, "deviceclasses resourceclaims resourceclaims/status resourceslices", DEVICES),
    can("patch update", "resourceclaims resourceclaims/binding resourceclaims/status", DEVICES),
    can("create delete", "resourceclaims", DEVICES),
)

_MANAGER = (
    *_REVIEWS,
    _REPORTS,
    can("create", "leases", LEASES),
    can("get update", "leases", LEASES, names="kube-controller-manager"),
    can("create get update", "secrets serviceaccounts"),
    can("delete", "secrets"),
    can("get", "configmaps namespaces"),
    can("create", "serviceaccounts/token"),
    can("list watch", ALL, ALL),
)

RULES: Mapping[str, tuple[Rule, ...]] = {
    "cluster-admin": (can(ALL, ALL, ALL), Rule((ALL,), urls=(ALL,))),
    "system:aggregate-to-admin": (
        can("create", "localsubjectaccessreviews", ACCESS),
        can(f"{READ} {WRITE}", "rolebindings roles", "rbac.authorization.k8s.io"),
    ),
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:auth-delegator": _REVIEWS,
    "system:basic-user": (
        can("create", "selfsubjectaccessreviews selfsubjectrulesreviews", ACCESS),
        can("create", "selfsubjectreviews", AUTH),
    ),
    "system:discovery": (sees(f"/api /api/* /apis /apis/* /openapi /openapi/* {_HEALTH}"),),
    "system:kube-controller-manager": _MANAGER,
    "system:kube-scheduler": _SCHEDULER,
    "system:kubelet-api-admin": (
        can(f"{READ} proxy", "nodes"),
        can(ALL, "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats"),
    ),
    "system:monitoring": (
        sees("/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"),
        can("get", "nodes/metrics"),
    ),
    "system:node": _NODE,
    "system:node-bootstrapper": (can(f"create {READ}", "certificatesigningrequests", CERTS),),
    "system:public-info-viewer": (sees(_HEALTH),),
    "system:volume-scheduler": (
        can(f"{READ} patch update", "persistentvolumeclaims persistentvolumes"),
        can(READ, "storageclasses", STORAGE),
    ),
}
"""By the name of the ClusterRole."""

READER = (can(READ, "configmaps", names="extension-apiserver-authentication"),)
"""What extension API servers read in ``kube-system`` to authenticate their callers."""

AGGREGATE_TO = "rbac.authorization.k8s.io/aggregate-to-"
"""The label by which ``admin``, ``edit`` or ``view`` selects a ClusterRole, without that last word."""

_MARKS = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {AUTOUPDATE: "true"},
}
_GATHERED: Mapping[str, str] = {
    "system:aggregate-to-admin": "admin",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-view": "view",
    "edit": "admin",
    "view": "edit",
}
"""By a ClusterRole's name: the ClusterRole that aggregates its rules."""

_BOUND: Mapping[str, Sequence[tuple[str, str]]] = {
    "cluster-admin": [("Group", MASTERS)],
    "system:basic-user": [("Group", "system:authenticated")],
    "system:discovery": [("Group", "system:authenticated")],
    "system:kube-controller-manager": [("User", "system:kube-controller-manager")],
    "system:kube-scheduler": [("User", "system:kube-scheduler")],
    "system:monitoring": [("Group", "system:monitoring")],
    "system:node": [],
    "system:public-info-viewer": [("Group", "system:authenticated"), ("Group", "system:unauthenticated")],
    "system:volume-scheduler": [("User", "system:kube-scheduler")],
}
"""By a ClusterRole's name: the subjects of its default ClusterRoleBinding."""

_READER = "extension-apiserver-authentication-reader"
_SYSTEM = "kube-system"

Object = dict[str, Any]


def objects() -> list[Object]:
    """All default objects, roles before bindings."""
    roles = [_role("ClusterRole", name, rules) for name, rules in RULES.items()]
    gathering = [_gathering(name) for name in ("admin", "edit", "view")]
    bindings = [_binding("ClusterRole", name, name, subjects) for name, subjects in _BOUND.items()]
    programs = [("User", "system:kube-controller-manager"), ("User", "system:kube-scheduler")]
    return [
        *roles,
        *gathering,
        _role("Role", _READER, READER),
        *bindings,
        _binding("Role", f"system::{_READER}", _READER, programs),
    ]


def _role(kind: str, name: str, rules: Iterable[Rule]) -> Object:
    return {**_head(kind, name), "rules": [rule.wire() for rule in rules]}


def _gathering(name: str) -> Object:
    selector = {"matchLabels": {f"{AGGREGATE_TO}{name}": "true"}}
    return {
        **_head("ClusterRole", name),
        "aggregationRule": {"clusterRoleSelectors": [selector]},
        "rules": [],
    }


def _binding(kind: str, name: str, role: str, subjects: Iterable[tuple[str, str]]) -> Object:
    named = [{"kind": each, "apiGroup": GROUP, "name": subject} for each, subject in subjects]
    ref = {"apiGroup": GROUP, "kind": kind, "name": role}
    return {**_head(f"{kind}Binding", name), "roleRef": ref, **({"subjects": named} if named else {})}


def _head(kind: str, name: str) -> Object:
    labels = dict(_MARKS["labels"])
    if name in _GATHERED and kind == "ClusterRole":
        labels[f"{AGGREGATE_TO}{_GATHERED[name]}"] = "true"
    place = {} if kind.startswith("Cluster") else {"namespace": _SYSTEM}
    metadata = {"name": name, **place, "labels": labels, "annotations": dict(_MARKS["annotations"])}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}
