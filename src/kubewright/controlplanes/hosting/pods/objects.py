"""From a workload to the StatefulSet and the Services that there should be. Pure.

Theory.      The rendered manifests contain what users know: names, flags, patches. This module adds what this
             host needs: the component object as controlling owner, labels by which pods are found, the
             variables of instances, the fingerprint on the pods, the update strategy of the StatefulSet, and
             what becomes of volume claims. A variable that the manifest sets itself is kept.
Invariants.  The same workload gives the same objects. A selector contains the component beside the name of
             the component object, because objects of two kinds may have the same name. With 0 replicas no
             claim is deleted.
Source       nested.md A8, D5, D6; the contract's variables.
Called by    ``host``.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import structs, to_builtins

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.names import (
    COMPONENT_LABEL,
    FINGERPRINT_ANNOTATION,
    MANIFEST_ANNOTATION,
    ROLE_LABEL,
    VERSION_ANNOTATION,
)
from kubewright.controlplanes.hosting.contract import Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.pods.kinds import KINDS, SERVICE, WORKLOAD
from kubewright.controlplanes.templates.catalog import Manifest
from kubewright.controlplanes.templates.render import DATA_FOLDER, FILES_FOLDER, PKI_FOLDER

LONGEST_LABEL = 63
RECONCILER = "lease"
"""How replicas of an API server agree on the endpoints of the Service ``kubernetes``."""

Variable = Mapping[str, Any]


def wanted(workload: Workload) -> list[Manifest]:
    """The objects that there should be: Services, then the StatefulSet, which needs them."""
    found = [_completed(each, workload) for each in workload.rendered.manifests]
    return sorted(found, key=lambda each: each["kind"] == WORKLOAD.resource.kind)


def services(workload: Workload) -> list[Manifest]:
    """Those of ``wanted`` by which clients and other instances reach the instances."""
    chosen = [each for each in workload.rendered.manifests if each["kind"] == SERVICE.resource.kind]
    return [_completed(each, workload) for each in chosen]


def unfit(workload: Workload) -> str:
    """Why these manifests cannot be objects of ours: a sentence; empty if they can."""
    for each in workload.rendered.manifests:
        if each["kind"] not in KINDS:
            kinds, odd = (
                " and ".join(f"{kind}s" for kind in KINDS),
                f"{each['kind']} {each['metadata']['name']}",
            )
            return f"the templates have the {odd}; components in pods are made of {kinds} only"
    if len(name := workload.identity.object.name) > LONGEST_LABEL:
        return f"the name {name} is longer than {LONGEST_LABEL} characters and cannot be a label of pods"
    return ""


def labels(identity: WorkloadIdentity) -> dict[str, str]:
    """The labels of everything that is made for a component."""
    return {**selector(identity), CLUSTER_NAME_LABEL: identity.cluster}


def selector(identity: WorkloadIdentity) -> dict[str, str]:
    """The labels by which the Services and the StatefulSet select the pods."""
    return {COMPONENT_LABEL: identity.object.name, ROLE_LABEL: str(identity.component)}


def variables(workload: Workload) -> list[Variable]:
    """The environment of every instance, in an order in which each variable may refer to those before it."""
    identity = workload.identity
    fixed = {
        "HOST": f"$(INSTANCE).{identity.workload}.$(NAMESPACE).svc",
        "ADVERTISE_ADDRESS": "$(ADDRESS)",
        "ENDPOINT_RECONCILER": RECONCILER,
        "PKI_DIR": PKI_FOLDER,
        "FILES_DIR": FILES_FOLDER,
        "DATA_DIR": DATA_FOLDER,
        **dict(sorted(workload.environment.items())),
    }
    return [
        _of_pod("INSTANCE", "metadata.name"),
        _of_pod("NAMESPACE", "metadata.namespace"),
        _of_pod("ADDRESS", "status.podIP"),
        *({"name": name, "value": value} for name, value in fixed.items()),
    ]


def _of_pod(name: str, path: str) -> Variable:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _completed(manifest: Manifest, workload: Workload) -> Manifest:
    """A manifest with everything that this host adds, and an annotation with a hash of all of it."""
    is_workload = manifest["kind"] == WORKLOAD.resource.kind
    spec = _workload_spec(manifest["spec"], workload) if is_workload else _service_spec(manifest, workload)
    metadata, identity = manifest["metadata"], workload.identity
    owner = structs.replace(identity.object, controller=True, block_owner_deletion=True)
    found = {
        **manifest,
        "metadata": {
            **metadata,
            "namespace": identity.namespace,
            "labels": {**metadata.get("labels", {}), **labels(identity)},
            "ownerReferences": [to_builtins(owner)],
        },
        "spec": spec,
    }
    mark = sha256(msgspec.json.encode(found, order="deterministic")).hexdigest()[:16]
    marked = {**metadata.get("annotations", {}), MANIFEST_ANNOTATION: mark}
    return {**found, "metadata": {**found["metadata"], "annotations": marked}}


def _service_spec(manifest: Manifest, workload: Workload) -> Mapping[str, Any]:
    """The spec of a Service; one that selects by the component's label selects this component alone."""
    spec: Mapping[str, Any] = manifest["spec"]
    selected, identity = spec.get("selector", {}), workload.identity
    if selected.get(COMPONENT_LABEL) != identity.object.name:
        return spec  # a user's patch made it select something else
    return {**spec, "selector": {**selected, **selector(identity)}}


def _workload_spec(spec: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    chosen = spec.get("selector", {})
    matched = {**chosen.get("matchLabels", {}), **selector(workload.identity)}
    found = {
        **spec,
        "replicas": workload.replicas,
        "selector": {**chosen, "matchLabels": matched},
        "updateStrategy": {"type": "OnDelete"},
        "template": _template(spec["template"], workload),
    }
    if spec.get("volumeClaimTemplates"):
        scaled = "Delete" if workload.replicas else "Retain"
        kept = {"whenDeleted": "Retain", "whenScaled": scaled}
        found.setdefault("persistentVolumeClaimRetentionPolicy", kept)
    return found


def _template(template: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    metadata, pod = template.get("metadata", {}), template["spec"]
    annotations = {FINGERPRINT_ANNOTATION: workload.fingerprint, VERSION_ANNOTATION: workload.version}
    ours = variables(workload)
    containers = [{**each, "env": _environment(ours, each.get("env", ()))} for each in pod["containers"]]
    return {
        "metadata": {
            **metadata,
            "labels": {**metadata.get("labels", {}), **labels(workload.identity)},
            "annotations": {**metadata.get("annotations", {}), **annotations},
        },
        "spec": {**pod, "containers": containers},
    }


def _environment(ours: Iterable[Variable], theirs: Iterable[Variable]) -> list[Variable]:
    """Our variables, then those of the manifest, which may refer to ours, or replace one of the same name."""
    found = {each["name"]: each for each in ours}
    found.update({each["name"]: each for each in theirs})
    return list(found.values())
