"""The roles and bindings that every cluster has: the server makes and completes them.

Theory.      Those that users and tools refer to by name, and those of programs that may run against
             this server (a scheduler, a kubelet). Roles of controllers and add-ons that do not run
             here are left out; docs/reference/api-differences.md says which.
             ``admin``, ``edit`` and ``view`` have no rules of their own: a controller
             (``builtin.aggregation``) writes into them the rules of all ClusterRoles with their label,
             so that an API can add to them.
             One line per rule. The roles for users (admin, edit, view) name every kind that they name
             upstream, whether this server serves it or not: tools expect these roles to be the same, and
             a right to a kind that is not served does no harm.
             The defaults are those of the release, so a newer server adds what is new in them
             (``reconciled``). What a user added stays. What a user removed is added again at the next start,
             unless the object has the annotation ``rbac.authorization.kubernetes.io/autoupdate: "false"``. A
             binding to another role is not the default any more: it gets the default's role and subjects.
Invariants.  Pure. All carry the label of defaults, and the annotation that lets the server update them.
             Each role allows exactly what the same role allows on the release in ``wire.release``; a
             test asks a real server.
Called by    ``server``, at each start.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubewright.apiserver.authorization.policy import ALL, GROUP, MASTERS, Rule, missing, rules_in

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


READ = "get list watch"
WRITE = "create delete deletecollection patch update"
APPS, AUTH, BATCH, EVENTS = "apps", "authentication.k8s.io", "batch", "core events.k8s.io"
ACCESS, CERTS, LEASES, NET = (
    "authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "networking.k8s.io",
)  # fmt: skip
DEVICES, STORAGE, OLD = "resource.k8s.io", "storage.k8s.io", "extensions"
CORE = "core"


def may(verbs: str, resources: str, groups: str = CORE, *, names: str = "") -> Rule:
    """A rule about resources; items are separated by blanks, ``core`` is the API group without a name."""
    spelled = tuple("" if group == CORE else group for group in groups.split())
    return Rule(tuple(verbs.split()), spelled, tuple(resources.split()), tuple(names.split()))


def may_get(urls: str) -> Rule:
    """A rule that allows GET of non-resource paths."""
    return Rule(("get",), urls=tuple(urls.split()))


def with_status(resources: str) -> str:
    """Each resource, and its ``status`` subresource."""
    return " ".join(f"{each} {each}/status" for each in resources.split())


_REVIEWS = (may("create", "tokenreviews", AUTH), may("create", "subjectaccessreviews", ACCESS))
_REPORTS = may("create patch update", "events", EVENTS)
_HEALTH = "/healthz /livez /readyz /version /version/"
_SCALED = "deployments replicasets statefulsets"
_SCALES = " ".join(f"{each}/scale" for each in _SCALED.split())
_OLD_SCALES = "deployments/scale replicasets/scale replicationcontrollers/scale"
_SESSIONS = "pods/attach pods/exec pods/portforward pods/proxy"

_VIEW = (
    may(READ, with_status("persistentvolumeclaims pods replicationcontrollers resourcequotas services")),
    may(READ, "bindings configmaps endpoints limitranges namespaces namespaces/status serviceaccounts"),
    may(READ, "pods/log replicationcontrollers/scale"),
    may(READ, "events", EVENTS),
    may(READ, "endpointslices", "discovery.k8s.io"),
    may(READ, f"controllerrevisions {with_status('daemonsets')} {with_status(_SCALED)} {_SCALES}", APPS),
    may(READ, with_status("horizontalpodautoscalers"), "autoscaling"),
    may(READ, with_status("cronjobs jobs"), BATCH),
    may(
        READ,
        f"{with_status('daemonsets deployments ingresses replicasets')} networkpolicies {_OLD_SCALES}",
        OLD,
    ),
    may(READ, with_status("poddisruptionbudgets"), "policy"),
    may(READ, f"{with_status('ingresses')} networkpolicies", NET),
    may(READ, f"{with_status('resourceclaims')} resourceclaimtemplates", DEVICES),
)

_EDIT = (
    may(READ, f"{_SESSIONS} secrets services/proxy"),
    may("impersonate", "serviceaccounts"),
    may(WRITE, f"pods {_SESSIONS}"),
    may("create", "pods/eviction serviceaccounts/token"),
    may(WRITE, "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale"),
    may(WRITE, "secrets serviceaccounts services services/proxy"),
    may(WRITE, "events", EVENTS),
    may(WRITE, f"daemonsets {_SCALED} {_SCALES} deployments/rollback", APPS),
    may(WRITE, "horizontalpodautoscalers", "autoscaling"),
    may(WRITE, "cronjobs jobs", BATCH),
    may(WRITE, "daemonsets deployments deployments/rollback ingresses networkpolicies replicasets", OLD),
    may(WRITE, _OLD_SCALES, OLD),
    may(WRITE, "poddisruptionbudgets", "policy"),
    may(WRITE, "ingresses networkpolicies", NET),
    may(f"{READ} {WRITE}", "leases", LEASES),
    may(WRITE, "resourceclaims resourceclaimtemplates", DEVICES),
)

_NODE = (
    *_REVIEWS,
    may("create", "localsubjectaccessreviews", ACCESS),
    may(READ, "configmaps nodes pods secrets services"),
    may("create patch update", "nodes"),
    may("patch update", "nodes/status pods/status"),
    may("create delete", "pods"),
    may("create", "pods/eviction serviceaccounts/token"),
    may("get", "endpoints persistentvolumeclaims persistentvolumes serviceaccounts"),
    may("get patch update", "persistentvolumeclaims/status"),
    _REPORTS,
    may(f"create {READ}", "certificatesigningrequests", CERTS),
    may("create delete get patch update", "leases", LEASES),
    may("create delete get patch update", "csinodes", STORAGE),
    may(READ, "csidrivers", STORAGE),
    may("get", "volumeattachments", STORAGE),
    may(READ, "runtimeclasses", "node.k8s.io"),
    may("get", "resourceclaims", DEVICES),
    may("deletecollection", "resourceslices", DEVICES),
)

_SCHEDULER = (
    *_REVIEWS,
    _REPORTS,
    may("create", "leases", LEASES),
    may(f"{READ} update", "leases", LEASES, names="kube-scheduler"),
    may(f"{READ} {WRITE}", "leasecandidates", LEASES),
    may(
        READ, "namespaces nodes persistentvolumeclaims persistentvolumes pods replicationcontrollers services"
    ),
    may("delete", "pods"),
    may("create", "bindings pods/binding"),
    may("patch update", "pods/status"),
    may("update", "pods/finalizers"),
    may(READ, "replicasets", f"{APPS} {OLD}"),
    may(READ, "statefulsets", APPS),
    may(READ, "poddisruptionbudgets", "policy"),
    may(READ, "csidrivers csinodes csistoragecapacities volumeattachments", STORAGE),
    may(READ, "deviceclasses resourceclaims resourceclaims/status resourceslices", DEVICES),
    may("patch update", "resourceclaims resourceclaims/binding resourceclaims/status", DEVICES),
    may("create delete", "resourceclaims", DEVICES),
)

_MANAGER = (
    *_REVIEWS,
    _REPORTS,
    may("create", "leases", LEASES),
    may("get update", "leases", LEASES, names="kube-controller-manager"),
    may("create get update", "secrets serviceaccounts"),
    may("delete", "secrets"),
    may("get", "configmaps namespaces"),
    may("create", "serviceaccounts/token"),
    may("list watch", ALL, ALL),
)

_REQUESTS = "certificatesigningrequests"
_SIGNERS = ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "legacy-unknown")
_APPROVERS = {
    **{
        f"system:certificates.k8s.io:{name}-approver": (
            may("approve", "signers", CERTS, names=f"kubernetes.io/{name}"),
        )
        for name in _SIGNERS
    },
    **{
        f"system:certificates.k8s.io:{_REQUESTS}:{name}": (may("create", f"{_REQUESTS}/{name}", CERTS),)
        for name in ("nodeclient", "selfnodeclient")
    },
}
"""Who may decide on certificates; and whose requests for kubelets are approved without a user's decision."""

RULES: Mapping[str, tuple[Rule, ...]] = {
    "cluster-admin": (may(ALL, ALL, ALL), Rule((ALL,), urls=(ALL,))),
    "system:aggregate-to-admin": (
        may("create", "localsubjectaccessreviews", ACCESS),
        may(f"{READ} {WRITE}", "rolebindings roles", "rbac.authorization.k8s.io"),
    ),
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:auth-delegator": _REVIEWS,
    "system:basic-user": (
        may("create", "selfsubjectaccessreviews selfsubjectrulesreviews", ACCESS),
        may("create", "selfsubjectreviews", AUTH),
    ),
    **_APPROVERS,
    "system:discovery": (may_get(f"/api /api/* /apis /apis/* /openapi /openapi/* {_HEALTH}"),),
    "system:kube-controller-manager": _MANAGER,
    "system:kube-scheduler": _SCHEDULER,
    "system:kubelet-api-admin": (
        may(f"{READ} proxy", "nodes"),
        may(ALL, "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats"),
    ),
    "system:monitoring": (
        may_get(
            "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"
        ),
        may("get", "nodes/metrics"),
    ),
    "system:node": _NODE,
    "system:node-bootstrapper": (may(f"create {READ}", "certificatesigningrequests", CERTS),),
    "system:public-info-viewer": (may_get(_HEALTH),),
    "system:volume-scheduler": (
        may(f"{READ} patch update", "persistentvolumeclaims persistentvolumes"),
        may(READ, "storageclasses", STORAGE),
    ),
}
"""By the name of the ClusterRole."""

NODE_ROLE = "system:node"
"""What a node may do at most; no binding gives it (``nodes``)."""

READER = (may(READ, "configmaps", names="extension-apiserver-authentication"),)
"""What extension API servers read in ``kube-system`` to authenticate their callers."""

AGGREGATE_TO = "rbac.authorization.k8s.io/aggregate-to-"
"""The prefix of the labels by which ``admin``, ``edit`` and ``view`` select ClusterRoles."""

_MARKS = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {AUTOUPDATE: "true"},
}
_AGGREGATED_INTO: Mapping[str, str] = {
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

KUBELET_CLIENT = "kube-apiserver-kubelet-client"
"""The user as whom this server asks kubelets; the name is kubeadm's."""

METRICS = "metrics.k8s.io"

Object = dict[str, Any]


def objects() -> list[Object]:
    """All default objects, roles before bindings."""
    roles = [_role("ClusterRole", name, rules) for name, rules in RULES.items()]
    aggregated = [_aggregated(name) for name in ("admin", "edit", "view")]
    bindings = [_binding("ClusterRole", name, name, subjects) for name, subjects in _BOUND.items()]
    programs = [("User", "system:kube-controller-manager"), ("User", "system:kube-scheduler")]
    return [
        *roles,
        *aggregated,
        _role("Role", _READER, READER),
        *bindings,
        _binding("Role", f"system::{_READER}", _READER, programs),
    ]


def own_objects() -> list[Object]:
    """What other installers make: the binding is kubeadm's task, the role metrics-server's."""
    reader = _role("ClusterRole", "system:aggregated-metrics-reader", [may(READ, "nodes pods", METRICS)])
    reader["metadata"]["labels"] |= {f"{AGGREGATE_TO}{each}": "true" for each in ("admin", "edit", "view")}
    client = [("User", KUBELET_CLIENT)]
    return [reader, _binding("ClusterRole", "kubewright:kubelet-client", "system:kubelet-api-admin", client)]


def _role(kind: str, name: str, rules: Iterable[Rule]) -> Object:
    return {**_head(kind, name), "rules": [rule.wire() for rule in rules]}


def _aggregated(name: str) -> Object:
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
    if name in _AGGREGATED_INTO and kind == "ClusterRole":
        labels[f"{AGGREGATE_TO}{_AGGREGATED_INTO[name]}"] = "true"
    place = {} if kind.startswith("Cluster") else {"namespace": _SYSTEM}
    metadata = {"name": name, **place, "labels": labels, "annotations": dict(_MARKS["annotations"])}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}


def reconciled(wanted: Object, there: Object) -> Object | None:
    """The object to store in place of ``there``; None when ``there`` can stay as it is."""
    metadata = there.get("metadata") or {}
    if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "false" or "deletionTimestamp" in metadata:
        return None
    marks = {
        name: {**(metadata.get(name) or {}), **_absent(wanted["metadata"].get(name), metadata.get(name))}
        for name in ("labels", "annotations")
    }
    marks = {name: words for name, words in marks.items() if words or name in metadata}
    new = {**there, **_content(wanted, there), "metadata": {**metadata, **marks}}
    return None if new == there else new


def _content(wanted: Object, there: Object) -> Object:
    if "roleRef" in wanted:
        return _bound(wanted, there)
    if "aggregationRule" in wanted:  # the aggregation controller writes its rules
        return {
            "aggregationRule": _with_aggregation(
                wanted["aggregationRule"], there.get("aggregationRule") or {}
            )
        }
    held = rules_in(there)
    lacking = [rule for rule in rules_in(wanted) if missing(held, [rule])]
    return {"rules": [*(there.get("rules") or ()), *(rule.wire() for rule in lacking)]} if lacking else {}


def _bound(wanted: Object, there: Object) -> Object:
    if there.get("roleRef") != wanted["roleRef"]:
        return {"roleRef": wanted["roleRef"], "subjects": wanted.get("subjects", [])}
    subjects = there.get("subjects") or []
    lacking = [each for each in wanted.get("subjects", ()) if each not in subjects]
    return {"subjects": [*subjects, *lacking]} if lacking else {}


def _with_aggregation(wanted: Object, there: Object) -> Object:
    selectors = there.get("clusterRoleSelectors") or []
    lacking = [each for each in wanted["clusterRoleSelectors"] if each not in selectors]
    return {**there, "clusterRoleSelectors": [*selectors, *lacking]}


def _absent(wanted: Mapping[str, str] | None, there: Mapping[str, str] | None) -> Mapping[str, str]:
    """The wanted labels (or annotations) whose keys are missing; a key with another value keeps it."""
    return {name: value for name, value in (wanted or {}).items() if name not in (there or {})}
