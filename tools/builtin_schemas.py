"""Write ``apiserver/schema/builtin.json``: the shapes of the built-in kinds, as facts.

Theory.      Kubernetes publishes its types as OpenAPI inside the Go module ``k8s.io/kubernetes``.
             We take names, types, formats, required marks, list types and patch keys, and leave
             every sentence there. The tags of the Go structs add two facts that OpenAPI lacks: the
             number of a field in protobuf, and whether it is a pointer. One line per field keeps
             the file small and its diffs readable; ``apiserver.schema.builtin`` says how it reads.
Called by    ``make gen``, on a machine with a Go toolchain; the output is committed.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kubewright.wire.release import KUBERNETES

VERSION = KUBERNETES.removeprefix("v1.")
MODULES: Mapping[str, str] = {
    "kubernetes": f"k8s.io/kubernetes@v1.{VERSION}",
    "api": f"k8s.io/api@v0.{VERSION}",
    "meta": f"k8s.io/apimachinery@v0.{VERSION}",
    "apiextensions": f"k8s.io/apiextensions-apiserver@v0.{VERSION}",
}
TARGET = Path(__file__).parents[1] / "src/kubewright/apiserver/schema/builtin.json"

ROOTS: Mapping[str, tuple[str, ...]] = {
    "api__v1": (
        "core.v1.Binding", "core.v1.ConfigMap", "core.v1.Endpoints", "core.v1.Event", "core.v1.Namespace",
        "core.v1.LimitRange", "core.v1.Node", "core.v1.PersistentVolume", "core.v1.PersistentVolumeClaim",
        "core.v1.Pod", "core.v1.ReplicationController", "core.v1.ResourceQuota", "core.v1.Secret",
        "core.v1.Service", "core.v1.ServiceAccount", "meta.v1.DeleteOptions",
        "policy.v1.Eviction", "authentication.v1.TokenRequest", "autoscaling.v1.Scale",
    ),
    "apis__apps__v1": (
        "apps.v1.ControllerRevision", "apps.v1.DaemonSet", "apps.v1.Deployment", "apps.v1.ReplicaSet",
        "apps.v1.StatefulSet",
    ),
    "apis__authentication.k8s.io__v1": (
        "authentication.v1.SelfSubjectReview", "authentication.v1.TokenReview",
    ),
    "apis__authorization.k8s.io__v1": (
        "authorization.v1.LocalSubjectAccessReview", "authorization.v1.SelfSubjectAccessReview",
        "authorization.v1.SelfSubjectRulesReview", "authorization.v1.SubjectAccessReview",
    ),
    "apis__autoscaling__v1": ("autoscaling.v1.HorizontalPodAutoscaler",),
    "apis__autoscaling__v2": ("autoscaling.v2.HorizontalPodAutoscaler",),
    "apis__batch__v1": ("batch.v1.CronJob", "batch.v1.Job"),
    "apis__certificates.k8s.io__v1": ("certificates.v1.CertificateSigningRequest",),
    "apis__coordination.k8s.io__v1": ("coordination.v1.Lease",),
    "apis__discovery.k8s.io__v1": ("discovery.v1.EndpointSlice",),
    "apis__events.k8s.io__v1": ("events.v1.Event",),
    "apis__networking.k8s.io__v1": (
        "networking.v1.Ingress", "networking.v1.IngressClass", "networking.v1.NetworkPolicy",
    ),
    "apis__node.k8s.io__v1": ("node.v1.RuntimeClass",),
    "apis__policy__v1": ("policy.v1.PodDisruptionBudget",),
    "apis__rbac.authorization.k8s.io__v1": (
        "rbac.v1.ClusterRole", "rbac.v1.ClusterRoleBinding", "rbac.v1.Role", "rbac.v1.RoleBinding",
    ),
    "apis__resource.k8s.io__v1": (
        "resource.v1.DeviceClass", "resource.v1.ResourceClaim", "resource.v1.ResourceClaimTemplate",
        "resource.v1.ResourceSlice",
    ),
    "apis__scheduling.k8s.io__v1": ("scheduling.v1.PriorityClass",),
    "apis__storage.k8s.io__v1": (
        "storage.v1.CSIDriver", "storage.v1.CSINode", "storage.v1.CSIStorageCapacity",
        "storage.v1.StorageClass", "storage.v1.VolumeAttachment",
    ),
    "apis__apiextensions.k8s.io__v1": ("apiextensions.v1.CustomResourceDefinition",),
}  # fmt: skip
"""What to keep, by spec file: these definitions and everything that they refer to."""

PACKAGES = (
    ("io.k8s.apimachinery.pkg.apis.", ""),
    ("io.k8s.apiextensions-apiserver.pkg.apis.", ""),
    ("io.k8s.api.", ""),
)
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "object",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "raw",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    f"{_CRD}.JSON": "json",
    f"{_CRD}.JSONSchemaPropsOrArray": "schema-or-array",
    f"{_CRD}.JSONSchemaPropsOrBool": "schema-or-bool",
    f"{_CRD}.JSONSchemaPropsOrStringArray": "schema-or-strings",
}
TYPES = {
    ("string", ""): "string",
    ("string", "byte"): "bytes",
    ("boolean", ""): "bool",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "double",
    ("object", ""): "object",
}

Spec = Mapping[str, Any]
Tag = tuple[str, bool]
"""Where a field stands in protobuf (``2.3`` inside of an inlined struct); whether it is a pointer."""

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^\s+(?:\w+ +)?(\*?)([\w.\[\]*]+)\s+"
    r'`(?:json:"([^",]*)[^"]*")?[^`]*proto(?:buf)?:"\w+,(\d+),',
    re.MULTILINE,
)


class GoTypes:
    """The tags of all Go structs, read package by package."""

    def __init__(self, modules: Mapping[str, Path]) -> None:
        self._modules = modules
        self._packages: dict[str, dict[str, str]] = {}

    def tags(self, name: str) -> dict[str, Tag]:
        """The tags of the fields of ``core.v1.Volume``, by JSON name; inlined structs are unfolded."""
        package, _, struct = name.rpartition(".")
        found: dict[str, Tag] = {}
        for star, kind, json_name, number in _FIELD.findall(self._structs(package).get(struct, "")):
            if json_name:
                found[json_name] = (number, bool(star))
            else:
                inner = kind.replace("metav1.", "meta.v1.") if "." in kind else f"{package}.{kind}"
                found |= {n: (f"{number}.{path}", p) for n, (path, p) in self.tags(inner).items()}
        return found

    def _structs(self, package: str) -> dict[str, str]:
        if package not in self._packages:
            texts = "\n".join(path.read_text() for path in sorted(self._folder(package).glob("types*.go")))
            self._packages[package] = dict(_STRUCT.findall(texts))
        return self._packages[package]

    def _folder(self, package: str) -> Path:
        group, _, version = package.partition(".")
        if group in ("meta", "apiextensions"):
            return self._modules[group] / "pkg/apis" / group / version
        return self._modules["api"] / group / version


def short(name: str) -> str:
    """``io.k8s.api.core.v1.Pod`` to ``core.v1.Pod``."""
    for prefix, instead in PACKAGES:
        if name.startswith(prefix):
            return instead + name.removeprefix(prefix)
    raise SystemExit(f"no short name for {name}")


def type_of(spec: Spec) -> str:
    """The type part of a line: ``string``, ``[core.v1.Container]``, ``{quantity}``."""
    (spec,) = spec.get("allOf", (spec,))
    if ref := spec.get("$ref"):
        full = ref.rpartition("/")[2]
        return SCALARS.get(full) or short(full)
    if spec["type"] == "array":
        return f"[{type_of(spec['items'])}]"
    if values := spec.get("additionalProperties"):
        return "{" + type_of(values) + "}"
    return TYPES[spec["type"], spec.get("format", "")]


def words_of(spec: Spec, *, required: bool) -> Iterator[str]:
    """The words after the type, in a fixed order."""
    if required:
        yield "required"
    if keys := spec.get("x-kubernetes-list-map-keys"):
        yield f"by({','.join(keys)})"
    elif spec.get("x-kubernetes-list-type") == "set":
        yield "set"
    if strategy := spec.get("x-kubernetes-patch-strategy"):
        yield f"patch({strategy})"
    if key := spec.get("x-kubernetes-patch-merge-key"):
        yield f"key({key})"
    whole = spec.get("x-kubernetes-list-type") == "atomic" and strategy  # lists without a strategy are anyway
    if whole or spec.get("x-kubernetes-map-type") == "atomic":
        yield "atomic"
    if spec.get("default"):
        yield f"={json.dumps(spec['default'])}"


def definition(spec: Spec, tags: Mapping[str, Tag]) -> dict[str, str]:
    """One definition: field name to line; the entry ``""`` holds the words of the whole."""
    whole = " ".join(words_of(spec, required=False))
    needed = set(spec.get("required", ()))
    fields = {}
    for name, field in spec.get("properties", {}).items():
        number, pointer = tags.get(name, ("0", False))
        kind = ("*" if pointer else "") + type_of(field)
        fields[name] = " ".join((number, kind, *words_of(field, required=name in needed)))
    return ({"": whole} if whole else {}) | fields


def refs(spec: Any) -> Iterator[str]:
    if isinstance(spec, dict):
        if isinstance(spec.get("$ref"), str):  # JSONSchemaProps has a field of that name
            yield spec["$ref"].rpartition("/")[2]
        for value in spec.values():
            yield from refs(value)
    elif isinstance(spec, list):
        for item in spec:
            yield from refs(item)


def closure(specs: Mapping[str, Spec], roots: tuple[str, ...], go: GoTypes) -> dict[str, dict[str, str]]:
    """The roots and all that they refer to, by short name."""
    full = {short(name): name for name in specs if any(name.startswith(p) for p, _ in PACKAGES)}
    todo, seen = [full[root] for root in roots], set()
    while todo:
        name = todo.pop()
        if name not in seen and name not in SCALARS:
            seen.add(name)
            todo += refs(specs[name])
    return {short(name): definition(specs[name], go.tags(short(name))) for name in seen}


def downloaded(module: str) -> Path:
    """The folder of a Go module, fetched if need be."""
    command = ["go", "mod", "download", "-json", module]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(json.loads(answer.stdout)["Dir"])


def main() -> None:
    modules = {name: downloaded(module) for name, module in MODULES.items()}
    folder, go = modules["kubernetes"] / "api/openapi-spec/v3", GoTypes(modules)
    found: dict[str, dict[str, str]] = {}
    for file, roots in ROOTS.items():
        document = json.loads((folder / f"{file}_openapi.json").read_text())
        found |= closure(document["components"]["schemas"], roots, go)
    TARGET.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{TARGET}: {len(found)} definitions, {sum(map(len, found.values()))} fields")


if __name__ == "__main__":
    main()
