"""Which rules hold for which built-in kind, beyond its schema.

Theory.      Not all of kube-apiserver's thousands of rules, but those for immutable fields, for values
             that would mislead a controller, and for mistakes that users make by hand.
Called by    ``builtin.served``.
"""

from collections.abc import Callable, Iterator, Mapping

from kubewright.apiserver.registry import definitions
from kubewright.apiserver.registry.builtin import rules, signing_requests, stored
from kubewright.apiserver.registry.builtin.conversion import to_core_event
from kubewright.apiserver.registry.builtin.rules import (
    MOST_DATA,
    Rule,
    at_least,
    bounded,
    config_keys,
    forbid_change,
    immutable,
    immutable_data,
    present,
    set_once,
)  # fmt: skip
from kubewright.apiserver.schema.causes import Cause, forbidden, invalid, required, some, unsupported
from kubewright.apiserver.schema.node import Object, at
from kubewright.wire import naming

_SOURCELESS = frozenset(
    (
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity",
        "persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName", "volumeMode",
    )
)  # fmt: skip
"""The fields of a PersistentVolume's spec that do not say where the volume is."""


def _data_twice(new: Object, _old: Object | None) -> Iterator[Cause]:
    for key in sorted(at(new, "data", {}).keys() & at(new, "binaryData", {}).keys()):
        yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")


def _budget(new: Object, _old: Object | None) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")


def _role_ref(new: Object, old: Object | None) -> Iterator[Cause]:
    ref = new.get("roleRef") or {}
    kinds = ("ClusterRole",) if new.get("kind") == "ClusterRoleBinding" else ("Role", "ClusterRole")
    if ref.get("kind") not in kinds:
        yield unsupported("roleRef.kind", ref.get("kind", ""), kinds)
    for index, subject in enumerate(new.get("subjects") or ()):
        if subject.get("kind") not in _SUBJECTS:
            yield unsupported(f"subjects[{index}].kind", subject.get("kind", ""), _SUBJECTS)
        if not subject.get("name"):
            yield required(f"subjects[{index}].name")
    if old is not None and ref != old.get("roleRef"):
        shown = {title: ref.get(field, "") for title, field in _REF.items()}
        yield invalid("roleRef", shown, "cannot change roleRef")


def _policy_rules(new: Object, _old: Object | None) -> Iterator[Cause]:
    for index, rule in enumerate(new.get("rules") or ()):
        if not rule.get("verbs"):
            yield required(f"rules[{index}].verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            continue
        if not rule.get("apiGroups"):
            yield required(f"rules[{index}].apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"rules[{index}].resources", "resource rules must supply at least one resource")


def _aggregation(new: Object, old: Object | None) -> Iterator[Cause]:
    """A rule of aggregation has selectors that can be read."""
    path = "aggregationRule.clusterRoleSelectors"
    if at(new, "aggregationRule") is not None and not at(new, path):
        words = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required(path, words)
    wrong = list(rules.selectors(f"{path}[]")(new, old))
    yield from wrong
    for where in dict.fromkeys(cause.field.partition("]")[0] for cause in wrong):
        yield invalid(f"{where}]", None, "invalid label selector.")


def _volume(new: Object, old: Object | None) -> Iterator[Cause]:
    """A volume has a source, which is immutable."""
    source, before = _source(new), _source(old or new)
    if not source:
        yield required("spec", "must specify a volume type")
    if source != before:
        yield forbidden(
            "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
        )


def _source(volume: Object) -> Mapping[str, object]:
    return {name: value for name, value in at(volume, "spec", {}).items() if name not in _SOURCELESS}


def _claim(new: Object, old: Object | None) -> Iterator[Cause]:
    if not at(new, "spec.accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    if not at(new, "spec.resources.requests.storage"):
        yield required("spec.resources[storage]")
    if old is not None and _claim_core(new) != _claim_core(old):
        yield forbidden("spec", _CLAIM_WORDS)


def _claim_core(claim: Object) -> Mapping[str, object]:
    loose = ("resources", "volumeName", "storageClassName", "volumeAttributesClassName")
    return {name: value for name, value in at(claim, "spec", {}).items() if name not in loose}


def _attachment(new: Object, _old: Object | None) -> Iterator[Cause]:
    source = at(new, "spec.source")
    if source is not None and ("persistentVolumeName" in source) == ("inlineVolumeSpec" in source):
        words = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        yield required("spec.source", words)


def _service_ports(new: Object, _old: Object | None) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    ports = spec.get("ports") or ()
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        for field in ("port", "targetPort"):
            number = port.get(field, 0)
            if isinstance(number, int) and not 1 <= number <= 65535:
                yield invalid(
                    f"spec.ports[{index}].{field}", number, "must be between 1 and 65535, inclusive"
                )
        if len(ports) > 1 and not port.get("name"):
            yield required(f"spec.ports[{index}].name")


def _runtime_class(new: Object, old: Object | None) -> Iterator[Cause]:
    handler = new.get("handler") or ""
    if not handler:
        yield required("handler")
    elif old is None:
        yield from (invalid("handler", handler, words) for words in naming.dns_label(handler))


def _priority_class(new: Object, old: Object | None) -> Iterator[Cause]:
    """The names of the system are its own, and so are priorities above those of users."""
    name, value, default = at(new, "metadata.name", ""), new.get("value", 0), new.get("globalDefault", False)
    if old is not None:
        return
    if name.startswith(_SYSTEM):
        words = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. error: "
        if name not in SYSTEM_CLASSES:
            yield forbidden("metadata.name", f"{words}{name} is not a known system priority class")
        elif value != SYSTEM_CLASSES[name]:
            said = f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
            yield forbidden("metadata.name", f"{words}{said}")
        elif default:
            yield forbidden("metadata.name", f"{words}globalDefault of {name} PriorityClass must be false")
    elif value > _MOST_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_MOST_PRIORITY}")


def _revision_data(new: Object, _old: Object | None) -> Iterator[Cause]:
    if new.get("data") is None:
        yield required("data", "data is mandatory")


_ROLLING = "spec.strategy.rollingUpdate"
_SURGE = (f"{_ROLLING}.maxSurge", f"{_ROLLING}.maxUnavailable")
_PDB = ("spec.minAvailable", "spec.maxUnavailable")
_CLAIM_WORDS = (
    "spec is immutable after creation except resources.requests "
    "and volumeAttributesClassName for bound claims"
)
_REF = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
"""The fields of a roleRef, as kube-apiserver's refusal names them."""
_SUBJECTS = ("ServiceAccount", "User", "Group")
_NODE = 'node updates may not change {} except from "" to valid'
_COUNTS = ("spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit")
_TASK = ("OnFailure", "Never")
_SYSTEM = "system-"
_MOST_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""The PriorityClasses that every cluster has, with their values."""

_MOST_OF_EVENT = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_UNSET_IN_EVENT = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED_IN_EVENT = immutable(
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def _core_event(new: Object, _old: Object | None) -> Iterator[Cause]:
    """What holds for every Event: it is where its object is, and a new one says who did what."""
    yield from _of_event(new, "reportingComponent")


def _new_event(new: Object, old: Object | None) -> Iterator[Cause]:
    """Events of events.k8s.io need a time and a type, have nothing deprecated, and are mostly immutable."""
    core = to_core_event(new)
    yield from _of_event(core, "reportingController")
    if old is not None:
        before = to_core_event(old)
        if core.get("series") != before.get("series"):
            yield from _series(core)
        yield from _FIXED_IN_EVENT(core, before)
        return
    yield from _series(core)
    if not core.get("eventTime"):
        yield required("eventTime")
    if core.get("type") not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {core.get('type', '')}")
    for field in _UNSET_IN_EVENT:
        if core.get(field):
            yield invalid(field, "", "needs to be unset")


def _of_event(core: Object, controller: str) -> Iterator[Cause]:
    about, own = at(core, "involvedObject.namespace", ""), at(core, "metadata.namespace", "")
    if not core.get("eventTime"):
        if about != own and (about or own != "default"):
            yield invalid("involvedObject.namespace", about, "does not match event.namespace")
        return
    if not about and own not in ("default", "kube-system"):
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")
    reporter = core.get("reportingComponent") or ""
    if not reporter:
        yield required(controller)
    yield from (invalid(controller, reporter, words) for words in naming.label_key(reporter))
    for field, most in _MOST_OF_EVENT.items():
        value = core.get(field) or ""
        if not value and field != "message":
            yield required(field)
        if len(value.encode()) > most:
            yield invalid(field, "", f"can have at most {most} characters")


def _series(core: Object) -> Iterator[Cause]:
    series = core.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


_RULES: Mapping[str, tuple[Rule, ...]] = {
    "core.v1.ConfigMap": (
        config_keys("data", "binaryData"), bounded("[]", MOST_DATA, "data", "binaryData"), _data_twice,
        immutable_data("data", "binaryData"),
    ),
    "core.v1.Secret": (
        config_keys("data"), bounded("data", MOST_DATA * 4 // 3, "data"), immutable("type"),
        immutable_data("data"),
    ),
    "core.v1.Event": (_core_event,),
    "events.v1.Event": (_new_event,),
    "core.v1.Node": (
        rules.taints, rules.node_resources, rules.node_addresses, rules.node_networks,
        set_once("spec.providerID", _NODE.format("providerID")),
        set_once("spec.podCIDRs", _NODE.format("podCIDR"), ()),
    ),
    "core.v1.Pod": (rules.pod,),
    "core.v1.PersistentVolume": (
        present("spec.capacity", "spec.accessModes"), _volume, immutable("spec.volumeMode"),
    ),
    "core.v1.PersistentVolumeClaim": (_claim, rules.selectors("spec.selector")),
    "core.v1.Service": (_service_ports,),
    "apps.v1.ControllerRevision": (_revision_data, immutable("data"), at_least(0, "revision")),
    "apps.v1.DaemonSet": (
        rules.selector("daemonset"), rules.template(), at_least(0, *_COUNTS[1:]),
        immutable("spec.selector"),
    ),
    "apps.v1.Deployment": (
        at_least(0, *_COUNTS), rules.selector("deployment"), rules.template(), rules.strategy,
        rules.amounts(*_SURGE, capped=_SURGE[1:]), rules.progress, immutable("spec.selector"),
    ),
    "apps.v1.ReplicaSet": (
        at_least(0, *_COUNTS[:2]), rules.selector("replicaset"), rules.template(),
        immutable("spec.selector"),
    ),
    "apps.v1.StatefulSet": (
        at_least(0, *_COUNTS), rules.selector("statefulset"), rules.template(), rules.stateful_set,
    ),
    "batch.v1.CronJob": (rules.template("spec.jobTemplate.spec.template", restart=_TASK),),
    "batch.v1.Job": (rules.template(restart=_TASK),),
    "certificates.v1.CertificateSigningRequest": signing_requests.RULES,
    "coordination.v1.Lease": (at_least(1, "spec.leaseDurationSeconds"), at_least(0, "spec.leaseTransitions")),
    "node.v1.RuntimeClass": (_runtime_class, immutable("handler")),
    "policy.v1.PodDisruptionBudget": (
        _budget, rules.amounts(*_PDB, capped=_PDB), rules.selectors("spec.selector"),
    ),
    "rbac.v1.ClusterRole": (_policy_rules, _aggregation),
    "rbac.v1.ClusterRoleBinding": (_role_ref,),
    "rbac.v1.Role": (_policy_rules,),
    "rbac.v1.RoleBinding": (_role_ref,),
    "scheduling.v1.PriorityClass": (
        _priority_class, forbid_change("value", words="may not be changed in an update."),
        immutable("preemptionPolicy"),
    ),
    "storage.v1.StorageClass": (
        forbid_change(
            "parameters", "provisioner", "reclaimPolicy", words="updates to this field are forbidden.",
        ),
    ),
    "storage.v1.VolumeAttachment": (_attachment, immutable("spec")),
    "apiextensions.v1.CustomResourceDefinition": (definitions.rule,),
    **stored.RULES,
}  # fmt: skip


def of(definition: str) -> Callable[[Object, Object | None], list[Cause]]:
    """The hook of a kind: the causes of all its rules, in order, as many as are looked at."""
    of_kind = _RULES.get(definition, ())
    return lambda new, old: some(cause for rule in of_kind for cause in rule(new, old))
