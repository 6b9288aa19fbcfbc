"""Renders what is to run for a component: its templates, filled in and changed as its spec says. Pure.

Theory.      In this order: placeholders are filled in; replicas, resources, image, binary, flags and files of
             the spec are set; the user's patches come last, so a patch can change everything. What cannot be
             applied is reported beside the manifests; the caller decides whether to run them all the same.
Invariants.  The same input gives the same manifests and the same fingerprint. Manifests contain names of
             Secrets, never their content.
Source       nested.md A5 (order), D6.
Called by    ``component.workload``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from kubewright.api.controlplane.v1alpha4 import ComponentSpec
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.rendering import flags
from kubewright.controlplanes.rendering.files import with_files
from kubewright.controlplanes.rendering.patches import patched
from kubewright.controlplanes.rendering.variables import fill_in
from kubewright.controlplanes.templates.catalog import Manifest
from kubewright.controlplanes.templates.choice import Choice

WORKLOAD = "StatefulSet"


@dataclass(frozen=True, slots=True)
class Rendered:
    """The rendered manifests. ``problems``: which parts of the spec could not be applied, a sentence each."""

    manifests: Sequence[Manifest]
    problems: tuple[str, ...] = ()

    @property
    def workload(self) -> Manifest:
        """The StatefulSet among them."""
        return next(each for each in self.manifests if each["kind"] == WORKLOAD)

    @property
    def has_claims(self) -> bool:
        """Whether its instances have volume claims."""
        return bool(self.workload["spec"].get("volumeClaimTemplates"))

    @property
    def fingerprint(self) -> str:
        """Stands for the pod template: an instance that was started from another one has to be replaced.

        How many instances there are, and the Service before them, are no part of it.
        """
        content = msgspec.json.encode(self.workload["spec"]["template"], order="deterministic")
        return sha256(content).hexdigest()[:16]


def render(
    spec: ComponentSpec, choice: Choice, values: Mapping[str, str], *, namespace: str, replicas: int
) -> Rendered:
    """The manifests of a component.

    ``values``  for the placeholders: ``cluster``, ``component``, addresses of other components and so on

    Raises:
        InvalidInput: the template needs a value that there is not, or has no StatefulSet.
    """
    complete = {"version": choice.version, **values}
    template = [each for each in choice.manifests if each.get("kind") == WORKLOAD]
    if len(template) != 1:
        raise InvalidInput(f"a set of templates needs one {WORKLOAD}; this one has {len(template)}")
    program = _container(template[0])
    ports = [each["containerPort"] for each in program.get("ports", ())]
    managed = flags.managed(program.get("args", ()), ports)
    problems = flags.refused(managed, spec.extra_args, spec.without_args)
    ours = [_with_spec(each, spec, managed, replicas) for each in fill_in(list(choice.manifests), complete)]
    found, unfit = patched(ours, spec.patches, namespace)
    return Rendered([_in_namespace(each, namespace) for each in found], (*problems, *unfit))


def _with_spec(manifest: Manifest, spec: ComponentSpec, managed: frozenset[str], replicas: int) -> Manifest:
    """The workload with what the spec says beside patches; other manifests as they are."""
    if manifest["kind"] != WORKLOAD:
        return manifest
    pod = manifest["spec"]["template"]
    containers = [_container(manifest), *pod["spec"]["containers"][1:]]
    changed = [_with_resources(each, spec) for each in containers]
    changed[0] = _with_program(changed[0], spec, managed)
    inner = {**pod, "spec": with_files({**pod["spec"], "containers": changed}, spec.extra_files)}
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas, "template": inner}}


def _with_program(
    container: Mapping[str, Any], spec: ComponentSpec, managed: frozenset[str]
) -> Mapping[str, Any]:
    extra = {name: value for name, value in spec.extra_args.items() if name not in managed}
    without = [name for name in spec.without_args if name not in managed]
    changed = {**container, "args": flags.merged(container.get("args", ()), extra, without)}
    if spec.image:
        changed["image"] = spec.image
    if spec.binary:
        changed["command"] = [spec.binary, *container.get("command", ())[1:]]
    return changed


def _with_resources(container: Mapping[str, Any], spec: ComponentSpec) -> Mapping[str, Any]:
    if spec.resources is None:
        return container
    asked = {"limits": dict(spec.resources.limits), "requests": dict(spec.resources.requests)}
    return {**container, "resources": {name: value for name, value in asked.items() if value}}


def _container(manifest: Manifest) -> Mapping[str, Any]:
    """The first container: that of the program."""
    found: Mapping[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return found


def _in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
