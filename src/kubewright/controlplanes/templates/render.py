"""Renders what is to run for a component: its templates, filled in and changed as its spec says. Pure.

Theory.      The same manifests serve all hosts: a kubelet makes containers from the pod template of the
             StatefulSet, and our own host makes processes from it. So a patch or a flag of a user has the
             same effect in both. In this order: placeholders are filled in; replicas, resources, image,
             binary, flags and files of the spec are set; the user's patches come last, so a patch can change
             everything. What cannot be applied is reported beside the manifests; the caller decides whether
             to run them all the same.
Flags        are arguments ``--name=value``. A user's flag replaces that of the template, or is added at the
             end. A flag whose value in the template has a placeholder, or is a port of the container, is
             managed by the controllers, because it names an address, a certificate or a file, or a port that
             probes and Services name too: a user cannot change it.
Placeholders ``${name}`` are filled in text by text after a manifest was parsed, so no value can change its
             structure. ``$(NAME)`` is Kubernetes' own form for variables of the environment, which are known
             when an instance starts; it is left for the host.
Files        of users come from entries of Secrets and ConfigMaps in one projected volume, which each host
             mounts like any other. A flag names their folder by a variable such as ``$(PKI_DIR)``: a
             container has these folders at fixed paths, a process below a folder of its own.
Invariants.  The same input gives the same manifests and the same fingerprint. Manifests contain names of
             Secrets, never their content. The flags of the template keep their order; arguments that are no
             flags stay as they are. A placeholder without a value is an error of the template.
Called by    ``component.workload``; hosts use the paths, and expand ``$(NAME)``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from kubewright.api.controlplane.v1alpha4 import ComponentSpec, ExtraFile
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.templates.catalog import Manifest
from kubewright.controlplanes.templates.choice import Choice
from kubewright.controlplanes.templates.patches import patched

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
    managed = managed_flags(program.get("args", ()), ports)
    problems = refused_flags(managed, spec.extra_args, spec.without_args)
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
    changed = {**container, "args": with_flags(container.get("args", ()), extra, without)}
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


def managed_flags(template: Iterable[str], ports: Iterable[int] = ()) -> frozenset[str]:
    """The names of the flags that the controllers manage.

    ``template``: arguments with placeholders; ``ports``: those of the container
    """
    fixed = {str(each) for each in ports}
    flags = [each for each in template if _is_flag(each)]
    return frozenset(_flag_name(each) for each in flags if is_open(each) or each.partition("=")[2] in fixed)


def refused_flags(managed: frozenset[str], extra: Mapping[str, str], without: Iterable[str]) -> list[str]:
    """What is wrong with a user's flags, a sentence each."""
    return [
        f"the flag {name} is set by the controller, because it says where something is: remove it"
        for name in sorted({*extra, *without} & managed)
    ]


def with_flags(template: Sequence[str], extra: Mapping[str, str], without: Iterable[str]) -> list[str]:
    """The arguments of the program."""
    dropped, rest = set(without), dict(extra)
    found = []
    for argument in template:
        name = _flag_name(argument) if _is_flag(argument) else ""
        if name in dropped:
            continue
        found.append(f"--{name}={rest.pop(name)}" if name in rest else argument)
    return [*found, *(f"--{name}={value}" for name, value in sorted(rest.items()))]


def _is_flag(argument: str) -> bool:
    return argument.startswith("--") and len(argument) > len("--")


def _flag_name(argument: str) -> str:
    return argument.removeprefix("--").partition("=")[0]


LONGEST = 128 * 1024 - 1
"""The longest argument or variable that Linux hands to a program (``MAX_ARG_STRLEN``), without its end."""
_PLACEHOLDER = re.compile(r"\$\{([a-z_]+)\}")
_VARIABLE = re.compile(r"\$\(([A-Z_]+)\)")


def fill_in(value: Any, values: Mapping[str, str]) -> Any:
    """The manifest, or a part of it, with the values.

    Raises:
        InvalidInput: it names something that has no value.
    """
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: _value(found[1], values), value)
    if isinstance(value, Mapping):
        return {key: fill_in(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_in(item, values) for item in value]
    return value


def is_open(text: str) -> bool:
    """Whether a text has a placeholder of either form."""
    return bool(_PLACEHOLDER.search(text) or _VARIABLE.search(text))


def expand(text: str, environment: Mapping[str, str]) -> str:
    """A text with every ``$(NAME)`` replaced, as a kubelet does it: a name without a value stays as it is.

    Raises:
        InvalidInput: it would have more than ``LONGEST`` characters. Of variables that name those before
            them, each could be many times as long as the last.
    """
    size = len(text)
    for found in _VARIABLE.finditer(text):
        size += len(environment.get(found[1], found[0])) - len(found[0])
        if size > LONGEST:
            break
    if size > LONGEST:
        raise InvalidInput(
            f"args and env: one has more than {LONGEST} characters with its variables filled in"
        )
    return _VARIABLE.sub(lambda found: environment.get(found[1], found[0]), text)


def _value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise InvalidInput(f"the template needs a value for {name}, which there is not")
    return values[name]


PKI_FOLDER = "/etc/kubernetes/pki"
FILES_FOLDER = "/etc/kubernetes/files"
DATA_FOLDER = "/var/lib/etcd/data"
"""The paths in a container that ``$(PKI_DIR)``, ``$(FILES_DIR)`` and ``$(DATA_DIR)`` stand for."""

VOLUME = "extra-files"


def with_files(pod: Mapping[str, Any], files: Iterable[ExtraFile]) -> dict[str, Any]:
    """The spec of a pod whose first container has these files below ``$(FILES_DIR)``."""
    sources = [source for file in files if (source := _source(file))]
    if not sources:
        return dict(pod)
    first, *others = pod["containers"]
    mount = {"name": VOLUME, "mountPath": FILES_FOLDER, "readOnly": True}
    volume = {"name": VOLUME, "projected": {"sources": sources, "defaultMode": 0o400}}
    mounted = {**first, "volumeMounts": [*first.get("volumeMounts", ()), mount]}
    return {**pod, "containers": [mounted, *others], "volumes": [*pod.get("volumes", ()), volume]}


def _source(file: ExtraFile) -> dict[str, Any] | None:
    """One entry of a Secret or a ConfigMap, as a projected volume names it."""
    for kind, reference in (("secret", file.secret), ("configMap", file.config_map)):
        if reference is not None:
            return {kind: {"name": reference.name, "items": [{"key": reference.key, "path": file.path}]}}
    return None
