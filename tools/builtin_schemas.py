"""Write ``apiserver/schema/builtin.json``: the shapes of the built-in kinds, as facts.

Theory.      Kubernetes publishes its types as OpenAPI inside the Go module ``k8s.io/kubernetes``.
             We take names, types, formats, required marks, list types and patch keys, and leave
             every sentence there. One line per field keeps the file small and its diffs readable;
             ``apiserver.schema.notation`` says how a line reads.
Called by    ``make gen``, on a machine with a Go toolchain; the output is committed.
             ``--spec-dir`` reads the specs from a folder instead.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MODULE = "k8s.io/kubernetes@v1.36.3"
TARGET = Path(__file__).parents[1] / "src/kubewright/apiserver/schema/builtin.json"

ROOTS: Mapping[str, tuple[str, ...]] = {
    "api__v1": (
        "core.v1.Binding", "core.v1.ConfigMap", "core.v1.Endpoints", "core.v1.Event", "core.v1.Namespace",
        "core.v1.Node", "core.v1.PersistentVolume", "core.v1.PersistentVolumeClaim", "core.v1.Pod",
        "core.v1.Secret", "core.v1.Service", "core.v1.ServiceAccount", "meta.v1.DeleteOptions",
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
    "apis__batch__v1": ("batch.v1.CronJob", "batch.v1.Job"),
    "apis__coordination.k8s.io__v1": ("coordination.v1.Lease",),
    "apis__discovery.k8s.io__v1": ("discovery.v1.EndpointSlice",),
    "apis__events.k8s.io__v1": ("events.v1.Event",),
    "apis__policy__v1": ("policy.v1.PodDisruptionBudget",),
    "apis__rbac.authorization.k8s.io__v1": (
        "rbac.v1.ClusterRole", "rbac.v1.ClusterRoleBinding", "rbac.v1.Role", "rbac.v1.RoleBinding",
    ),
    "apis__scheduling.k8s.io__v1": ("scheduling.v1.PriorityClass",),
    "apis__storage.k8s.io__v1": (
        "storage.v1.CSIDriver", "storage.v1.CSINode", "storage.v1.StorageClass", "storage.v1.VolumeAttachment",
    ),
    "apis__apiextensions.k8s.io__v1": ("apiextensions.v1.CustomResourceDefinition",),
}  # fmt: skip
"""What to keep, by spec file: these definitions and everything that they refer to."""

PACKAGES = (
    ("io.k8s.apimachinery.pkg.apis.", ""),
    ("io.k8s.apiextensions-apiserver.pkg.apis.", ""),
    ("io.k8s.api.", ""),
)
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "object",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "raw",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
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
    if spec.get("x-kubernetes-map-type") == "atomic":
        yield "atomic"
    if spec.get("default"):
        yield f"={json.dumps(spec['default'])}"


def definition(spec: Spec) -> dict[str, str]:
    """One definition: field name to line; the entry ``""`` holds the words of the whole."""
    whole = " ".join(words_of(spec, required=False))
    needed = set(spec.get("required", ()))
    fields = {
        name: " ".join((type_of(field), *words_of(field, required=name in needed)))
        for name, field in sorted(spec.get("properties", {}).items())
    }
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


def closure(specs: Mapping[str, Spec], roots: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The roots and all that they refer to, by short name."""
    full = {short(name): name for name in specs if any(name.startswith(p) for p, _ in PACKAGES)}
    todo, seen = [full[root] for root in roots], set()
    while todo:
        name = todo.pop()
        if name not in seen and name not in SCALARS:
            seen.add(name)
            todo += refs(specs[name])
    return {short(name): definition(specs[name]) for name in seen}


def spec_folder() -> Path:
    answer = subprocess.run(
        ["go", "mod", "download", "-json", MODULE], check=True, capture_output=True, text=True
    )
    return Path(json.loads(answer.stdout)["Dir"]) / "api/openapi-spec/v3"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spec-dir", type=Path, help="the folder with *_openapi.json")
    folder = parser.parse_args().spec_dir or spec_folder()
    found: dict[str, dict[str, str]] = {}
    for file, roots in ROOTS.items():
        document = json.loads((folder / f"{file}_openapi.json").read_text())
        found |= closure(document["components"]["schemas"], roots)
    TARGET.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{TARGET}: {len(found)} definitions, {sum(map(len, found.values()))} fields")


if __name__ == "__main__":
    main()
