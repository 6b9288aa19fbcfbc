"""What the server fills in of built-in kinds, on create and on update.

Theory.      A hook gets the new object after schema defaults, and the old one on an update. It returns the
             object to check and store. Each kind has a short list of small steps. Constant defaults are in
             ``schema.builtin``; those of a pod here depend on other fields: the pull policy follows the
             image's tag, requests follow limits, a volume without a source is an emptyDir. Pod templates get
             the same.
Invariants.  Pure; arguments are not changed. A pod's defaults, applied twice, change nothing more.
Called by    ``builtin.served``.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubewright.api.core import MIRROR_POD_ANNOTATION
from kubewright.apiserver.authorization.policy import GROUP
from kubewright.apiserver.registry import definitions
from kubewright.apiserver.registry.builtin import stored
from kubewright.apiserver.schema.node import Object, at

Prepare = Callable[[Object, Object | None], Object]
Spec = dict[str, Any]
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_COMPUTE = ("cpu", "memory")
_COMPUTED = ("priority", "preemptionPolicy")
_COORDINATED = frozenset(("strategy", "preferredHolder"))
_NAME_LABEL = "kubernetes.io/metadata.name"
_MOST_INT32 = 2**31 - 1


def on_every_write(change: Callable[[Object], Object]) -> Prepare:
    """A step for create and update alike."""
    return lambda new, _old: change(new)


def on_create(change: Callable[[Object], Object]) -> Prepare:
    """A step for create only."""
    return lambda new, old: change(new) if old is None else new


def grace_seconds(pod: Object) -> int:
    """The default grace period of a pod's deletion: that of its spec.

    Zero for a pod without a node and for a finished one: no kubelet has to stop containers.
    """
    if not at(pod, "spec.nodeName") or at(pod, "status.phase") in ("Succeeded", "Failed"):
        return 0
    return int(at(pod, "spec.terminationGracePeriodSeconds", 30))


def spec_defaults(spec: Spec) -> Spec:
    """A pod's spec with the defaults that depend on other fields."""
    filled = {name: [_container(c, spec) for c in spec[name]] for name in _CONTAINERS if spec.get(name)}
    if spec.get("volumes"):
        filled["volumes"] = [_volume(volume) for volume in spec["volumes"]]
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        filled |= {"serviceAccount": account, "serviceAccountName": account}
    return {**spec, **filled}


def _container(container: Spec, spec: Spec) -> Spec:
    filled = dict(container)
    if container.get("image") and not container.get("imagePullPolicy"):
        filled["imagePullPolicy"] = _pull_policy(container["image"])
    resources = container.get("resources") or {}
    if limits := resources.get("limits"):
        filled["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}
    if spec.get("hostNetwork") and container.get("ports"):
        filled["ports"] = [{"hostPort": port["containerPort"], **port} for port in container["ports"]]
    return filled


def _pull_policy(image: str) -> str:
    """Always for the tag ``latest`` or none, since its image may change; a digest always names one image."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "IfNotPresent" if digest or tag not in ("", "latest") else "Always"


def _volume(volume: Spec) -> Spec:
    return volume if volume.keys() - {"name"} else {**volume, "emptyDir": {}}


def created_pod(pod: Object) -> Object:
    """A pod as it is first stored: with all defaults, and pending. A mirror of what a kubelet runs by itself
    gets no account."""
    spec = spec_defaults(pod.get("spec") or {})
    mirrors = MIRROR_POD_ANNOTATION in ((pod.get("metadata") or {}).get("annotations") or {})
    account = spec.get("serviceAccountName") or ("" if mirrors else "default")
    spec |= {
        "enableServiceLinks": spec.get("enableServiceLinks", True),
        "preemptionPolicy": spec.get("preemptionPolicy", "PreemptLowerPriority"),
        "priority": spec.get("priority", 0),
        **({"serviceAccount": account, "serviceAccountName": account} if account else {}),
    }
    return {**pod, "spec": spec, "status": {"phase": "Pending", "qosClass": qos_class(spec)}}


def with_same_priority(new: Object, old: Object | None) -> Object:
    """An update of a pod that leaves out what the server computed of its priority keeps it."""
    before, spec = (old or {}).get("spec") or {}, new.get("spec") or {}
    kept = {name: before[name] for name in _COMPUTED if name in before and spec.get(name) is None}
    return {**new, "spec": {**spec, **kept}} if kept else new


def with_default_tolerations(pod: Object) -> Object:
    """A pod with the default tolerations of an unready or unreachable node, added at every write."""
    spec = pod.get("spec") or {}
    return {**pod, "spec": {**spec, "tolerations": _tolerations(spec.get("tolerations") or [])}}


def _tolerations(given: list[Spec]) -> list[Spec]:
    """Two tolerations of five minutes are added, unless the pod has its own."""
    missing = [key for key in _TOLERATED if not any(_tolerates(toleration, key) for toleration in given)]
    added = [
        {"key": k, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for k in missing
    ]
    return [*given, *added]


def _tolerates(toleration: Spec, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def qos_class(spec: Spec) -> str:
    """``Guaranteed`` when all requests equal their limits, ``BestEffort`` when there are none."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [(at(c, "resources.requests", {}), at(c, "resources.limits", {})) for c in containers]
    if not any(_compute(part) for pair in asked for part in pair):
        return "BestEffort"
    sure = all(_compute(limits) == set(_COMPUTE) and _equal(requests, limits) for requests, limits in asked)
    return "Guaranteed" if sure else "Burstable"


def _compute(amounts: Iterable[str]) -> set[str]:
    return set(_COMPUTE) & set(amounts)


def _equal(requests: Spec, limits: Spec) -> bool:
    return all(requests.get(name, limits[name]) == limits[name] for name in _COMPUTE)


def in_template(*path: str) -> Callable[[Object], Object]:
    """A function that fills in the pod template at ``path``."""

    def fill(obj: Object) -> Object:
        filled: Object = _at_path(obj, (*path, "spec"), spec_defaults)
        return filled

    return fill


def _at_path(obj: Any, path: tuple[str, ...], change: Callable[[Spec], Spec]) -> Any:
    if not isinstance(obj, dict):
        return obj
    if not path:
        return change(obj)
    if path[0] not in obj:
        return obj
    return {**obj, path[0]: _at_path(obj[path[0]], path[1:], change)}


def _secret(secret: Object) -> Object:
    """``stringData`` is stored as ``data``."""
    plain = secret.get("stringData")
    if plain is None:
        return secret
    kept = {name: value for name, value in secret.items() if name != "stringData"}
    coded = {name: base64.b64encode(value.encode()).decode() for name, value in plain.items()}
    data = {**(secret.get("data") or {}), **coded}
    return {**kept, "data": data} if data else kept


def _namespace(namespace: Object) -> Object:
    """Active, with the finalizer that keeps it until it is empty."""
    finalizers = at(namespace, "spec.finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers = [*finalizers, "kubernetes"]
    spec = {**(namespace.get("spec") or {}), "finalizers": finalizers}
    return {**namespace, "spec": spec, "status": {"phase": "Active"}}


def _namespace_label(namespace: Object) -> Object:
    """Every namespace has its name as a label, so that selectors can select it."""
    meta = namespace.get("metadata") or {}
    if not meta.get("name"):
        return namespace
    labels = {**(meta.get("labels") or {}), _NAME_LABEL: meta["name"]}
    return {**namespace, "metadata": {**meta, "labels": labels}}


def _pending(obj: Object) -> Object:
    return {**obj, "status": {"phase": "Pending"}}


def _rolling(field: str, defaults: Mapping[str, Any]) -> Callable[[Object], Object]:
    """The numbers of a rolling update, when the strategy is one."""

    def change(obj: Object) -> Object:
        strategy = at(obj, f"spec.{field}", {})
        if strategy.get("type") != "RollingUpdate":
            return obj
        filled = {**strategy, "rollingUpdate": {**defaults, **(strategy.get("rollingUpdate") or {})}}
        return {**obj, "spec": {**obj["spec"], field: filled}}

    return change


_JOB: Mapping[str, Any] = {
    "parallelism": 1,
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
    "podReplacementPolicy": "TerminatingOrFailed",
}
"""What a Job has by itself; that of a CronJob gets it when it is made of it."""


def _job(job: Object) -> Object:
    """``parallelism`` and ``completions`` default to 1. Where each index has a number of failures of its own,
    there is no bound for all; where a policy judges pods, each is replaced when it has failed."""
    spec = {name: value for name, value in (job.get("spec") or {}).items() if value is not None}
    more: dict[str, Any] = {}
    if not spec.keys() & {"completions", "parallelism"}:
        more["completions"] = 1
    if "backoffLimitPerIndex" in spec:
        more["backoffLimit"] = _MOST_INT32
    if "podFailurePolicy" in spec:
        more["podReplacementPolicy"] = "Failed"
    return {**job, "spec": {**_JOB, **more, **spec}}


def _service(service: Object) -> Object:
    """A port's ``targetPort`` defaults to the port itself."""
    spec = service.get("spec") or {}
    if at(service, "spec.type") == "ExternalName" or not spec.get("ports"):
        return service
    ports = [{**port, "targetPort": port.get("targetPort") or port.get("port")} for port in spec["ports"]]
    return {**service, "spec": {**spec, "ports": ports}}


def _binding(binding: Object) -> Object:
    """The default ``apiGroup`` of roles, users and groups; service accounts have none."""
    filled = dict(binding)
    if binding.get("roleRef"):
        filled["roleRef"] = {**binding["roleRef"], "apiGroup": binding["roleRef"].get("apiGroup") or GROUP}
    if binding.get("subjects"):
        filled["subjects"] = [_subject(subject) for subject in binding["subjects"]]
    return filled


def _subject(subject: dict[str, Any]) -> dict[str, Any]:
    grouped = subject.get("kind") in ("User", "Group") and not subject.get("apiGroup")
    return {**subject, "apiGroup": GROUP} if grouped else subject


def _node(node: Object) -> Object:
    """``podCIDR`` is the first of ``podCIDRs``; what is not reserved of the capacity is allocatable."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    first, networks = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and networks[:1] != [first]:
        node = {**node, "spec": {**spec, "podCIDRs": [first]}}
    elif networks and not first:
        node = {**node, "spec": {**spec, "podCIDR": networks[0]}}
    if status.get("capacity") and not status.get("allocatable"):
        node = {**node, "status": {**status, "allocatable": status["capacity"]}}
    return node


def _lease(lease: Object) -> Object:
    """Without the fields of coordinated leader election, which is off by default."""
    spec = lease.get("spec") or {}
    if not spec.keys() & _COORDINATED:
        return lease
    return {**lease, "spec": {name: value for name, value in spec.items() if name not in _COORDINATED}}


def _first_generation(obj: Object) -> Object:
    """A generation that stays what it is: nothing that counts can be changed."""
    return {**obj, "metadata": {**obj["metadata"], "generation": 1}}


def _no_default(obj: Object) -> Object:
    """A PriorityClass is the default, or says nothing of it."""
    return obj if obj.get("globalDefault") else {k: v for k, v in obj.items() if k != "globalDefault"}


def _template(*path: str) -> Prepare:
    return on_every_write(in_template("spec", *path))


_PREPARE: Mapping[str, tuple[Prepare, ...]] = {
    "core.v1.Secret": (on_every_write(_secret),),
    "core.v1.Namespace": (on_create(_namespace), on_every_write(_namespace_label)),
    "core.v1.Pod": (
        on_create(created_pod),
        with_same_priority,
        on_every_write(in_template()),
        on_every_write(with_default_tolerations),
    ),
    "coordination.v1.Lease": (on_every_write(_lease),),
    "core.v1.Node": (on_every_write(_node),),
    "core.v1.PersistentVolume": (on_create(_pending),),
    "core.v1.PersistentVolumeClaim": (on_create(_pending),),
    "core.v1.Service": (on_every_write(_service),),
    "apps.v1.DaemonSet": (
        _template("template"),
        on_every_write(_rolling("updateStrategy", {"maxSurge": 0, "maxUnavailable": 1})),
    ),
    "apps.v1.Deployment": (
        _template("template"),
        on_every_write(_rolling("strategy", {"maxSurge": "25%", "maxUnavailable": "25%"})),
    ),
    "apps.v1.ReplicaSet": (_template("template"),),
    "apps.v1.StatefulSet": (
        _template("template"),
        on_every_write(_rolling("updateStrategy", {"partition": 0})),
    ),
    "batch.v1.CronJob": (_template("jobTemplate", "spec", "template"),),
    "batch.v1.Job": (on_every_write(_job), _template("template")),
    "core.v1.LimitRange": (on_every_write(stored.container_limits),),
    "core.v1.ReplicationController": (
        on_every_write(stored.of_the_template),
        _template("template"),
        on_create(stored.with_status({"replicas": 0})),
    ),
    "core.v1.ResourceQuota": (on_create(stored.with_status({})),),
    "autoscaling.v1.HorizontalPodAutoscaler": (
        on_every_write(stored.older_autoscaler),
        on_create(stored.with_status({"desiredReplicas": 0})),
    ),
    "autoscaling.v2.HorizontalPodAutoscaler": (
        on_every_write(stored.autoscaler),
        on_create(stored.with_status({"desiredReplicas": 0})),
    ),
    "networking.v1.Ingress": (on_create(stored.with_status({"loadBalancer": {}})),),
    "networking.v1.NetworkPolicy": (on_every_write(stored.policy_types),),
    "resource.v1.ResourceClaim": (
        on_every_write(stored.device_requests("spec")),
        on_create(stored.with_status({})),
    ),
    "resource.v1.ResourceClaimTemplate": (on_every_write(stored.device_requests("spec", "spec")),),
    "scheduling.v1.PriorityClass": (on_create(_first_generation), on_every_write(_no_default)),
    "rbac.v1.ClusterRoleBinding": (on_every_write(_binding),),
    "rbac.v1.RoleBinding": (on_every_write(_binding),),
    "apiextensions.v1.CustomResourceDefinition": (definitions.prepare,),
}


_NO_NODE_INFO = (
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
    "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID",
)  # fmt: skip

_STATUSES: Mapping[str, Object] = {
    "apps.v1.DaemonSet": dict.fromkeys(
        ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"), 0
    ),
    "apps.v1.Deployment": {},
    "apps.v1.ReplicaSet": {"replicas": 0},
    "apps.v1.StatefulSet": {"availableReplicas": 0, "replicas": 0},
    "autoscaling.v2.HorizontalPodAutoscaler": {"currentReplicas": 0, "desiredReplicas": 0},
    "batch.v1.CronJob": {},
    "batch.v1.Job": {},
    "certificates.v1.CertificateSigningRequest": {},
    "core.v1.Node": {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": dict.fromkeys(_NO_NODE_INFO, ""),
    },
    "core.v1.ReplicationController": {"replicas": 0},
    "core.v1.ResourceQuota": {},
    "core.v1.Service": {"loadBalancer": {}},
    "networking.v1.Ingress": {"loadBalancer": {}},
    "policy.v1.PodDisruptionBudget": dict.fromkeys(
        ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0
    ),
    "resource.v1.ResourceClaim": {},
    "storage.v1.VolumeAttachment": {"attached": False},
}
_SPECS = frozenset(
    ("coordination.v1.Lease", "core.v1.Node", "core.v1.ResourceQuota", "policy.v1.PodDisruptionBudget")
)
"""Kinds that may be made without a spec, and have an empty one then."""
_NUMBERS: Mapping[str, Object] = {"scheduling.v1.PriorityClass": {"value": 0}}


def zeros_of(definition: str) -> Object:
    """What an object of a kind always has: the fields that Go writes when they are zero.

    Clients read them without asking whether they are there; ``kubectl -o jsonpath`` prints nothing for one
    that is not.
    """
    spec: Object = {"spec": {}} if definition in _SPECS else _NUMBERS.get(definition, {})
    return {**spec, "status": _STATUSES[definition]} if definition in _STATUSES else spec


def _with_zeros(obj: Any, zeros: Mapping[str, Any]) -> Any:
    """The object with the missing members of ``zeros``, at every depth."""
    found = dict(obj or {})
    for name, zero in zeros.items():
        if isinstance(zero, Mapping):
            found[name] = _with_zeros(found.get(name), zero)
        elif found.get(name) is None:
            found[name] = zero
    return found


def of(definition: str) -> Prepare:
    """The hook of a kind: its steps in order."""
    steps = _PREPARE.get(definition, ())
    if zeros := zeros_of(definition):
        steps = (*steps, on_every_write(lambda obj: dict(_with_zeros(obj, zeros))))

    def prepare(new: Object, old: Object | None) -> Object:
        for step in steps:
            new = step(new, old)
        return new

    return prepare
