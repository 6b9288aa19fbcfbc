"""The schemas of built-in kinds, read from ``builtin.json`` when first needed.

Theory.      Built-in kinds share their definitions: a PodSpec is in six kinds. Definitions are parsed
             into nodes once for all kinds; a kind's validator is compiled from the
             definitions it reaches, when its first object comes, once for all servers of a process.
             kube-apiserver sets defaults in Go code, not by schema. The constant ones, and the fields with a
             fixed set of values, are here by definition and field; other defaults are small functions in
             ``registry.builtin.prepare``.
Notation.    The file has one definition per Go struct, with one line per field::

                 "replicas":   "1 *int32"
                 "template":   "3 core.v1.PodTemplateSpec required"
                 "containers": "2 [core.v1.Container] required by(name) patch(merge) key(name)"
                 "data":       "2 {bytes}"

             First comes the field's number in protobuf, ``2.1`` inside of an inlined struct. A type
             is a scalar, another definition, a list ``[…]`` or a map ``{…}``; a star: the Go field
             is a pointer, so that zero and absent differ. Keywords follow: ``required``;
             ``by(a,b)``, the keys of a list that is a map; ``set``; ``patch(…)`` and ``key(…)``,
             for strategic merge patches; ``atomic``, a map or list with one manager; ``=<json>``, a default.
             The entry with the empty name has the keywords of the whole definition.
Invariants.  Loading this module reads no file. The file is read once.
Called by    ``registry.builtin``; ``http.openapi`` asks for ``components``. The file is written by
             ``tools/builtin_schemas.py``, which reads the notation here, as ``protobuf`` does.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import jsonschema_rs
import orjson

from kubewright.apiserver.schema import patterns, walk
from kubewright.apiserver.schema.causes import EMPTY_IS_ABSENT, Cause
from kubewright.apiserver.schema.compiled import Compiled, Parts
from kubewright.apiserver.schema.formats import OPTIONS
from kubewright.apiserver.schema.node import Node, Object, build, json_schema

OpenApi = dict[str, Any]
Define = Callable[[OpenApi, str], None]

_ANYTHING: OpenApi = {"x-kubernetes-preserve-unknown-fields": True}
_SCALARS: Mapping[str, OpenApi] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time", "x-go-type": "v1.Time"},
    "microtime": {"type": "string", "format": "date-time", "x-go-type": "v1.MicroTime"},
    "quantity": {"x-kubernetes-int-or-string": True, "format": "quantity"},
    "int-or-string": {"x-kubernetes-int-or-string": True, "format": "int-or-string"},
    "object": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "json": _ANYTHING,
    "schema-or-array": _ANYTHING,
    "schema-or-bool": _ANYTHING,
    "schema-or-strings": _ANYTHING,
}
_ZEROS: Mapping[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
_WORD = re.compile(r"(required|set|atomic|by|patch|key|=)(?:\(([^)]*)\))?(.*)")
REF = "#/components/schemas/"


def read_type(text: str) -> OpenApi:
    """The schema of a type: ``[string]`` is a list, ``{quantity}`` a map, ``core.v1.Pod`` a reference."""
    if text.startswith("["):
        return {"type": "array", "items": read_type(text[1:-1])}
    if text.startswith("{"):
        return {"type": "object", "additionalProperties": read_type(text[1:-1])}
    if (scalar := _SCALARS.get(text)) is not None:
        return dict(scalar)
    return {"$ref": REF + text}


def _list_keys(schema: OpenApi, keys: str) -> None:
    schema["x-kubernetes-list-type"] = "map"
    schema["x-kubernetes-list-map-keys"] = keys.split(",")


def _shape(schema: OpenApi) -> str:
    return "list" if schema.get("type") == "array" else "map"


_WORDS: Mapping[str, Define] = {
    "required": lambda schema, _: None,
    "set": lambda schema, _: schema.update({"x-kubernetes-list-type": "set"}),
    "atomic": lambda schema, _: schema.update({f"x-kubernetes-{_shape(schema)}-type": "atomic"}),
    "by": _list_keys,
    "patch": lambda schema, given: schema.update({"x-kubernetes-patch-strategy": given}),
    "key": lambda schema, given: schema.update({"x-kubernetes-patch-merge-key": given}),
    "=": lambda schema, given: schema.update({"default": orjson.loads(given)}),
}


def read_words(words: list[str], schema: OpenApi) -> OpenApi:
    """Apply the keywords to ``schema``."""
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is not a keyword of the notation")
        _WORDS[match[1]](schema, match[2] or match[3])
    return schema


def _zero(kind: str, words: list[str]) -> OpenApi:
    """What Go writes for a field that was not set: a struct always, any other only where it is required."""
    if kind not in _SCALARS and kind[0] not in "*[{":
        return {"x-go-zero": {}}
    if "required" not in words:
        return {}
    return {"x-go-zero": _ZEROS.get(kind)}


def read_definition(lines: Mapping[str, str]) -> OpenApi:
    """A whole definition as OpenAPI; references stay references."""
    schema: OpenApi = {"type": "object", "properties": {}}
    required = []
    for name, line in lines.items():
        number, *words = line.split(" ")
        if not name:
            read_words([number, *words], schema)
            continue
        head, *words = words
        schema["properties"][name] = read_words(words, read_type(head.removeprefix("*"))) | _zero(head, words)
        if "required" in words:
            required.append(name)
    return schema | ({"required": required} if required else {})


_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL = ("Always", "IfNotPresent", "Never")
_RESTART = ("Always", "OnFailure", "Never")

ENUMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "core.v1.Container": {
        "imagePullPolicy": _PULL,
        "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    },
    "core.v1.ContainerPort": {"protocol": _PROTOCOLS},
    "core.v1.PodSpec": {
        "restartPolicy": _RESTART,
        "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    },
    "core.v1.ServiceSpec": {
        "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        "sessionAffinity": ("ClientIP", "None"),
    },
    "core.v1.ServicePort": {"protocol": _PROTOCOLS},
    "core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": ("Delete", "Recycle", "Retain")},
    "apps.v1.DeploymentStrategy": {"type": ("Recreate", "RollingUpdate")},
    "apps.v1.DaemonSetUpdateStrategy": {"type": ("OnDelete", "RollingUpdate")},
    "apps.v1.StatefulSetUpdateStrategy": {"type": ("OnDelete", "RollingUpdate")},
    "batch.v1.CronJobSpec": {"concurrencyPolicy": ("Allow", "Forbid", "Replace")},
    "discovery.v1.EndpointSlice": {"addressType": ("FQDN", "IPv4", "IPv6")},
    "autoscaling.v2.MetricSpec": {"type": ("ContainerResource", "External", "Object", "Pods", "Resource")},
    "policy.v1.PodDisruptionBudgetSpec": {"unhealthyPodEvictionPolicy": ("AlwaysAllow", "IfHealthyBudget")},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": ("PreemptLowerPriority", "Never")},
}

_CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
_MODE: Mapping[str, Any] = {"defaultMode": 420}

_SPEC: Mapping[str, Any] = {"spec": {}}
"""In Go a struct is never absent, so its required fields are always checked."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(
        (
            "apps.v1.DaemonSet",
            "apps.v1.Deployment",
            "apps.v1.ReplicaSet",
            "apps.v1.StatefulSet",
            "autoscaling.v1.HorizontalPodAutoscaler",
            "autoscaling.v2.HorizontalPodAutoscaler",
            "batch.v1.CronJob",
            "batch.v1.Job",
            "batch.v1.JobTemplateSpec",
            "certificates.v1.CertificateSigningRequest",
            "core.v1.PersistentVolume",
            "core.v1.PersistentVolumeClaim",
            "core.v1.Pod",
            "core.v1.PodTemplateSpec",
            "core.v1.ReplicationController",
            "core.v1.ResourceQuota",
            "core.v1.Service",
            "networking.v1.Ingress",
            "networking.v1.IngressClass",
            "resource.v1.DeviceClass",
            "resource.v1.ResourceClaim",
            "resource.v1.ResourceClaimTemplate",
            "resource.v1.ResourceSlice",
            "storage.v1.CSIDriver",
            "storage.v1.CSINode",
        ),
        _SPEC,
    ),
    "core.v1.Container": _CONTAINER,
    "core.v1.EphemeralContainer": _CONTAINER,
    "core.v1.ContainerPort": {"protocol": "TCP"},
    "core.v1.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.SecretVolumeSource": _MODE,
    "core.v1.ConfigMapVolumeSource": _MODE,
    "core.v1.DownwardAPIVolumeSource": _MODE,
    "core.v1.ProjectedVolumeSource": _MODE,
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeSpec": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"},
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.ServiceSpec": {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    },
    "core.v1.ServicePort": {"protocol": "TCP"},
    "autoscaling.v1.HorizontalPodAutoscalerSpec": {"maxReplicas": 0, "scaleTargetRef": {}},
    "autoscaling.v2.HorizontalPodAutoscalerSpec": {"maxReplicas": 0, "scaleTargetRef": {}},
    "core.v1.ReplicationControllerSpec": {"replicas": 1},
    "networking.v1.HTTPIngressPath": {"pathType": ""},
    "networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "networking.v1.NetworkPolicy": {"spec": {}},
    "networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "networking.v1.NetworkPolicySpec": {"podSelector": {}},
    "resource.v1.ResourceClaimTemplateSpec": {"metadata": {}, "spec": {}},
    "resource.v1.ResourceClaimSpec": {"devices": {}},
    "resource.v1.ResourcePool": {"name": "", "generation": 0, "resourceSliceCount": 0},
    "resource.v1.ResourceSliceSpec": {"driver": "", "pool": {}},
    "apps.v1.DeploymentSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {},
        "template": {},
    },
    "apps.v1.ReplicaSetSpec": {"replicas": 1, "template": {}},
    "apps.v1.StatefulSetSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "template": {},
        "updateStrategy": {},
        "persistentVolumeClaimRetentionPolicy": {},
    },
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    },
    "apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10, "updateStrategy": {}, "template": {}},
    "apps.v1.DeploymentStrategy": {"type": "RollingUpdate"},
    "apps.v1.DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.v1.StatefulSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.v1.RollingUpdateDeployment": {"maxSurge": "25%", "maxUnavailable": "25%"},
    "apps.v1.RollingUpdateDaemonSet": {"maxSurge": 0, "maxUnavailable": 1},
    "apps.v1.RollingUpdateStatefulSetStrategy": {"partition": 0},
    "batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "core.v1.EndpointPort": {"protocol": "TCP"},
    "discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "apiextensions.v1.CustomResourceConversion": {"strategy": "None"},
    "apiextensions.v1.CustomResourceDefinitionSpec": {"conversion": {"strategy": "None"}},
}

LENIENT = frozenset(
    (
        "AttachedVolume", "Condition", "ConfigMapNodeConfigSource", "ContainerState",
        "ContainerStateTerminated", "ControllerRevision", "CSINodeSpec", "CustomResourceColumnDefinition",
        "CustomResourceConversion", "CustomResourceDefinitionCondition", "CustomResourceDefinitionNames",
        "CustomResourceDefinitionSpec", "CustomResourceDefinitionVersion",
        "CustomResourceSubresourceScale", "DaemonEndpoint", "DaemonSetCondition", "DeploymentCondition",
        "Event", "EventSeries", "JobCondition", "LabelSelectorRequirement", "LimitRangeSpec",
        "NamespaceCondition", "NodeAddress", "NodeCondition", "NodeSystemInfo", "OwnerReference",
        "PersistentVolumeClaimCondition", "PodCondition", "PolicyRule", "ReplicaSetCondition", "Scale",
        "SelectableField", "StatefulSetCondition", "Subject", "Taint", "TokenRequest",
        "VolumeAttachmentSource",
    )
)  # fmt: skip
"""Structs whose ``required`` marks kube-apiserver does not check: parts of statuses, which controllers
write, and those that ``registry.builtin.check`` validates with other messages."""

MAY_BE_EMPTY = frozenset(
    (
        "core.v1.HTTPHeader.value", "core.v1.Sysctl.value", "core.v1.HostIP.ip", "core.v1.PodIP.ip",
        "core.v1.ResourceHealth.resourceID", "authentication.v1.TokenReviewSpec.token",
        "authorization.v1.NonResourceRule.verbs", "authorization.v1.ResourceRule.verbs",
        "apiextensions.v1.ValidationRule.rule", "batch.v1.PodFailurePolicy.rules",
        "resource.v1.DeviceAllocationConfiguration.source",
    )
)  # fmt: skip
"""Texts and lists that are marked as required and may be empty, and so may be left out: in Go the two are the
same. Of all others an empty one is as good as none."""


_STATUS, _CONDITION = "Status", "Condition"
"""Definitions with these suffixes are written by controllers; Go fills missing fields with zeros."""

_LEAST = {"string": "minLength", "array": "minItems"}


Table = Mapping[str, Mapping[str, str]]

GROUPS: Mapping[str, str] = {
    "core": "",
    "apps": "apps",
    "authentication": "authentication.k8s.io",
    "authorization": "authorization.k8s.io",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "certificates": "certificates.k8s.io",
    "coordination": "coordination.k8s.io",
    "discovery": "discovery.k8s.io",
    "events": "events.k8s.io",
    "networking": "networking.k8s.io",
    "node": "node.k8s.io",
    "policy": "policy",
    "rbac": "rbac.authorization.k8s.io",
    "resource": "resource.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "storage": "storage.k8s.io",
    "apiextensions": "apiextensions.k8s.io",
}
"""The packages that definitions are named after, and the API groups they belong to."""


@cache
def table(file: str) -> Table:
    """A data file of this package: definition, field, line. The empty field is the whole definition."""
    found: Table = orjson.loads(files(__package__).joinpath(file).read_bytes())
    return found


@cache
def definition(name: str) -> OpenApi:
    """One definition as OpenAPI, with the defaults and enums of Go code.

    Raises:
        KeyError: there is no such definition.
    """
    schema = read_definition(table("builtin.json")[name])
    for field, values in ENUMS.get(name, {}).items():
        schema["properties"][field]["enum"] = list(values)
    for field, value in DEFAULTS.get(name, {}).items():
        schema["properties"][field]["default"] = value
    return schema


def described(name: str) -> OpenApi:
    """The definition with our descriptions, for ``kubectl explain``."""
    schema, words = definition(name), table("descriptions.json")
    own = words.get(name, {})
    common = words["*"] if {"kind", "metadata"} <= schema["properties"].keys() else {}
    whole = {"description": own[""]} if "" in own else {}
    fields = {
        field: ({"description": said} | inner) if (said := own.get(field) or common.get(field)) else inner
        for field, inner in schema["properties"].items()
    }
    return whole | schema | {"properties": fields}


def envelope() -> OpenApi:
    """The fields that every object has, described."""
    properties = described("core.v1.ConfigMap")["properties"]
    return {name: properties[name] for name in ("apiVersion", "kind", "metadata")}


_NODES: dict[str, Node] = {}


def node_of(ref: str) -> Node:
    """The shared node of a definition, by name or by ``$ref``; it may still be under construction."""
    name = ref.removeprefix(REF)
    node = _NODES.get(name)
    if node is None:
        node = _NODES[name] = Node()
        node.type = "object"
        node.struct = name.partition(".")[2]
        build(definition(name), node_of, into=node)
    return node


def _refs(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref.removeprefix(REF)
        for inner in schema.values():
            yield from _refs(inner)


def closure(name: str) -> list[str]:
    """The names of a definition and of all that it refers to, sorted."""
    todo, seen = [name], set[str]()
    while todo:
        if (next_name := todo.pop()) not in seen:
            seen.add(next_name)
            todo += _refs(definition(next_name))
    return sorted(seen)


def _checked(name: str, *, strict: bool) -> dict[str, Any]:
    """A definition for the validator. In a ``status`` nothing is required; elsewhere what is may not be
    empty."""
    schema = json_schema(definition(name), strict=strict)
    if name.rpartition(".")[2] in LENIENT or name.endswith((_STATUS, _CONDITION)):
        schema.pop("required", None)
    if "required" in schema:
        asked = [field for field in schema["required"] if f"{name}.{field}" not in MAY_BE_EMPTY]
        schema = {**schema, "required": asked}
    for field in schema.get("required", ()):
        inner = schema["properties"][field]
        kept = "enum" in inner or field in DEFAULTS.get(name, {})
        if not kept and (least := _LEAST.get(inner.get("type", [""])[0])) is not None:
            schema["properties"][field] = {**inner, least: 1}
    return schema


@cache
def _validator(name: str, *, strict: bool) -> jsonschema_rs.Draft4Validator:
    return _compiled(_schema(name, strict=strict))


def _schema(name: str, *, strict: bool) -> dict[str, Any]:
    defs = {each: _checked(each, strict=strict) for each in closure(name)}
    return {"$ref": f"#/$defs/{name}", "$defs": defs}


def _compiled(schema: dict[str, Any]) -> jsonschema_rs.Draft4Validator:
    """In draft 4, as in Go, ``3.0`` is no integer."""
    return jsonschema_rs.Draft4Validator(schema, pattern_options=patterns.OPTIONS, **OPTIONS)


@cache
def _parts(name: str) -> Parts:
    whole = _schema(name, strict=False)
    return Parts(whole, lambda part: _compiled({**part, "$defs": whole["$defs"]}))


class BuiltinSchema(Compiled):
    """The schema of one built-in kind, by the name of its definition, e.g. ``apps.v1.Deployment``."""

    words = EMPTY_IS_ABSENT

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def node(self) -> Node:
        return node_of(self.name)

    @cached_property
    def strict(self) -> jsonschema_rs.Draft4Validator:
        return _validator(self.name, strict=True)

    @cached_property
    def loose(self) -> jsonschema_rs.Draft4Validator:
        return _validator(self.name, strict=False)

    def validate(self, obj: Object, old: Object | None = None, part: str = "") -> list[Cause]:
        """What an earlier release let pass, and what is as it was, is not judged again: else an object that
        it stored could be neither labelled nor deleted."""
        found = super().validate(obj, old, part)
        known = super().validate(old) if found and old is not None else []
        return [each for each in found if each not in known]

    @cached_property
    def parts(self) -> Parts:
        return _parts(self.name)

    def whole(self, obj: Object) -> Object:
        """The object with its times and quantities as Go writes them, unless it cannot be read at all."""
        if self.strict.is_valid(obj) or walk.first_error(self.node, obj) is not None:
            return obj
        written: Object = walk.as_go_writes(self.node, obj)
        return written

    def decode_error(self, obj: Object) -> str | None:
        if self.strict.is_valid(obj):
            return None
        return walk.first_error(self.node, obj)

    def without_nulls(self, obj: Object) -> Object:
        clean: Object = walk.zero_nulls(self.node, obj)
        return clean

    def openapi(self) -> Mapping[str, Any]:
        return {"$ref": REF + self.name}

    def components(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: described(name) for name in closure(self.name)}
