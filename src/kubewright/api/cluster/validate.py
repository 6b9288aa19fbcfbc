"""What an omitted field means, kind by kind, and the rules of Cluster API's core kinds beyond the schema.

Theory.      Paths and sentences are those of upstream's webhooks, because users search for them. A field
             that names another cluster never changes. Ours are the rules about durations, which Go's
             decoder checks there.
             Upstream's webhooks write defaults into objects, and providers in Go read them back: the label of
             the cluster, namespaces of references, the ``v`` of a version. So admission writes them; and
             controllers apply the same functions to every object that they read, because a real API server
             may run without our webhooks. An empty selector gets a label with the object's own name, in the
             selector and in the template.
Invariants.  Pure. Defaults are idempotent, and a field that is set is never changed, but for the labels of
             the cluster and a version without ``v``. Every violation is reported, in the order of the fields;
             an object is judged with its defaults. ``old`` is None for a new object.
Called by    ``api.catalog``; controllers of ``clusters``, for objects that were written without our webhooks.
"""

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Any, TypeVar

from msgspec import json, structs, to_builtins

from kubewright.api.admission import Plain
from kubewright.api.cluster import names
from kubewright.api.cluster.names import DeletePolicy, PreflightCheck, StrategyType
from kubewright.api.cluster.parts import DRAIN, MachineDrainRule
from kubewright.api.cluster.v1beta1 import (
    Cluster,
    Machine,
    MachineDeployment,
    MachineDeploymentStrategy,
    MachineHealthCheck,
    MachineSet,
    MachineSpec,
    MachineTemplateSpec,
    NetworkRanges,
    ObjectReference,
    RollingUpdate,
)
from kubewright.api.faults import Errors, Fault, FieldError, duration_problem
from kubewright.api.meta import KubeObject, LabelSelector, ObjectMeta
from kubewright.base.durations import parse_duration
from kubewright.wire import naming, selectors
from kubewright.wire.errors import BadRequest

NODE_DELETION_TIMEOUT = "10s"
NODE_STARTUP_TIMEOUT = "10m0s"
MAX_UNHEALTHY = "100%"
REVISION_HISTORY_LIMIT = 1
PROGRESS_DEADLINE_SECONDS = 600
MAX_SURGE, MAX_UNAVAILABLE = 1, 0

Obj = TypeVar("Obj", bound=KubeObject)


def default_cluster(cluster: Cluster) -> Cluster:
    """References are to the cluster's own namespace."""
    spec, namespace = cluster.spec, cluster.namespace
    infrastructure = _complete_reference(spec.infrastructure_ref, namespace)
    control_plane = _complete_reference(spec.control_plane_ref, namespace)
    return structs.replace(
        cluster,
        spec=structs.replace(spec, infrastructure_ref=infrastructure, control_plane_ref=control_plane),
    )


def default_machine(machine: Machine) -> Machine:
    """The label of the cluster, namespaces of references, the version's ``v``, 10s for deleting the Node."""
    spec, namespace = machine.spec, machine.namespace
    bootstrap = structs.replace(
        spec.bootstrap, config_ref=_complete_reference(spec.bootstrap.config_ref, namespace)
    )
    filled = structs.replace(
        spec,
        bootstrap=bootstrap,
        infrastructure_ref=_complete_reference(spec.infrastructure_ref, namespace) or ObjectReference(),
        version=_complete_version(spec.version),
        node_deletion_timeout=spec.node_deletion_timeout or NODE_DELETION_TIMEOUT,
    )
    return _labelled(structs.replace(machine, spec=filled), spec.cluster_name)


def default_set(machine_set: MachineSet) -> MachineSet:
    """The label of the cluster, Random, a selector of the set's own, the version's ``v``."""
    spec, own = machine_set.spec, {}
    selector = spec.selector or LabelSelector()
    if not (selector.match_labels or selector.match_expressions):
        own = {names.SET_NAME_LABEL: names.label_value(machine_set.name)}
    filled = structs.replace(
        spec,
        delete_policy=spec.delete_policy or DeletePolicy.RANDOM.value,
        selector=_selecting(selector, own),
        template=_complete_template(spec.template, own),
    )
    return _labelled(structs.replace(machine_set, spec=filled), spec.cluster_name)


def default_deployment(deployment: MachineDeployment) -> MachineDeployment:
    """As for a set; and RollingUpdate by 1 and 0, one old set, a selector within the cluster."""
    spec = deployment.spec
    selector = spec.selector or LabelSelector()
    own = {names.CLUSTER_NAME_LABEL: spec.cluster_name}
    if not (selector.match_labels or selector.match_expressions):
        own = {names.DEPLOYMENT_NAME_LABEL: deployment.name, **own}
    limit, deadline = spec.revision_history_limit, spec.progress_deadline_seconds
    filled = structs.replace(
        spec,
        selector=_selecting(selector, own),
        template=_complete_template(spec.template, own),
        strategy=_strategy(spec.strategy or MachineDeploymentStrategy()),
        revision_history_limit=REVISION_HISTORY_LIMIT if limit is None else limit,
        progress_deadline_seconds=PROGRESS_DEADLINE_SECONDS if deadline is None else deadline,
    )
    return _labelled(structs.replace(deployment, spec=filled), spec.cluster_name)


def default_health_check(check: MachineHealthCheck) -> MachineHealthCheck:
    """The label of the cluster, 100% unhealthy, 10 minutes to start, the template's namespace."""
    spec = check.spec
    filled = structs.replace(
        spec,
        max_unhealthy=MAX_UNHEALTHY if spec.max_unhealthy is None else spec.max_unhealthy,
        node_startup_timeout=spec.node_startup_timeout or NODE_STARTUP_TIMEOUT,
        remediation_template=_complete_reference(spec.remediation_template, check.namespace),
    )
    return _labelled(structs.replace(check, spec=filled), spec.cluster_name)


def with_replicas(new: Plain, old: Plain | None) -> Plain:
    """The object with ``spec.replicas``: as sent; else within the autoscaler's bounds, beginning with what it
    has or the least; else 1.

    So an autoscaler takes over by the field being left out, without a jump.
    """
    spec = new.get("spec")
    if not isinstance(spec, Mapping) or spec.get("replicas") is not None:
        return new
    bounds = _complete_bounds(new)
    has = old.get("spec", {}).get("replicas") if old is not None else None
    if bounds is None:
        wanted = 1
    else:
        least, most = bounds
        wanted = min(max(has, least), most) if isinstance(has, int) else least
    return {**new, "spec": {**spec, "replicas": wanted}}


def _complete_bounds(new: Plain) -> tuple[int, int] | None:
    """The autoscaler's bounds in the annotations; None where one is missing or no number."""
    annotations = (new.get("metadata") or {}).get("annotations") or {}
    try:
        found = [
            int(annotations[key])
            for key in (names.AUTOSCALER_MIN_SIZE_ANNOTATION, names.AUTOSCALER_MAX_SIZE_ANNOTATION)
        ]
    except (KeyError, ValueError, TypeError):
        return None
    return found[0], found[1]


def _labelled(obj: Obj, cluster: str) -> Obj:
    """The object with the label of its cluster."""
    if not cluster or obj.metadata.labels.get(names.CLUSTER_NAME_LABEL) == cluster:
        return obj
    labels = {**obj.metadata.labels, names.CLUSTER_NAME_LABEL: cluster}
    filled: Any = obj
    labelled: Obj = structs.replace(filled, metadata=structs.replace(obj.metadata, labels=labels))
    return labelled


def _complete_reference(found: ObjectReference | None, namespace: str) -> ObjectReference | None:
    if found is None or found.namespace or found == ObjectReference():
        return found
    return structs.replace(found, namespace=namespace)


def _complete_version(version: str | None) -> str | None:
    return version if not version or version.startswith("v") else f"v{version}"


def _selecting(selector: LabelSelector, own: Mapping[str, str]) -> LabelSelector:
    return structs.replace(selector, match_labels={**selector.match_labels, **own}) if own else selector


def _complete_template(template: MachineTemplateSpec, own: Mapping[str, str]) -> MachineTemplateSpec:
    meta: ObjectMeta = template.metadata
    if own:
        meta = structs.replace(meta, labels={**meta.labels, **own})
    spec = structs.replace(template.spec, version=_complete_version(template.spec.version))
    return structs.replace(template, metadata=meta, spec=spec)


def _strategy(given: MachineDeploymentStrategy) -> MachineDeploymentStrategy:
    kind = given.type or StrategyType.ROLLING_UPDATE.value
    if kind != StrategyType.ROLLING_UPDATE:
        return given
    rolling = given.rolling_update or RollingUpdate()
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    rolling = structs.replace(
        rolling,
        max_surge=MAX_SURGE if surge is None else surge,
        max_unavailable=MAX_UNAVAILABLE if unavailable is None else unavailable,
    )
    return MachineDeploymentStrategy(type=kind, rolling_update=rolling)


LEAST_STARTUP_SECONDS = 30
ANNOTATIONS_BYTES = 256 * 1024
NO_TOPOLOGY = (
    "ClusterClass is not supported: refer to a control plane and an infrastructure by controlPlaneRef and "
    "infrastructureRef, and make MachineDeployments for workers"
)
_VERSION = re.compile(r"v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*+)([-0-9a-zA-Z_.+]*)?")
_PERCENT = re.compile(r"[0-9]{1,9}%")
_RANGE = re.compile(r"\[([0-9]{1,19})-([0-9]{1,19})\]")
_INT32_MAX = 2**31 - 1
_OWN_NAMESPACE = "must match metadata.namespace"


def validate_cluster(cluster: Cluster, old: Cluster | None = None) -> list[FieldError]:
    """Every broken rule of a Cluster; empty when it is good."""
    spec = cluster.spec
    network = spec.cluster_network
    return [
        *_name(cluster.name, "must be a valid label value "),
        *_reference("spec.infrastructureRef", spec.infrastructure_ref, cluster.namespace),
        *_reference("spec.controlPlaneRef", spec.control_plane_ref, cluster.namespace),
        *(_ranges("pods", network.pods) if network else ()),
        *(_ranges("services", network.services) if network else ()),
        *_topology(spec.topology),
    ]


def validate_machine(machine: Machine, old: Machine | None = None) -> list[FieldError]:
    """Every broken rule of a Machine; empty when it is good."""
    spec, namespace = machine.spec, machine.namespace
    return [
        *_bootstrap(machine),
        *_reference("spec.bootstrap.configRef", spec.bootstrap.config_ref, namespace),
        *_reference("spec.infrastructureRef", spec.infrastructure_ref, namespace),
        *_same_cluster(spec.cluster_name, old.spec.cluster_name if old else None),
        *_version(spec.version, "spec"),
        *_timeouts(spec, "spec"),
    ]


def validate_set(machine_set: MachineSet, old: MachineSet | None = None) -> list[FieldError]:
    """Every broken rule of a MachineSet; empty when it is good."""
    spec = machine_set.spec
    return [
        *_selector(spec.selector, spec.template, Fault.INVALID),
        *_skipped_checks(machine_set.metadata.annotations),
        *_same_cluster(spec.cluster_name, old.spec.cluster_name if old else None),
        *_template(spec.template),
    ]


def validate_deployment(
    deployment: MachineDeployment, old: MachineDeployment | None = None
) -> list[FieldError]:
    """Every broken rule of a MachineDeployment; empty when it is good."""
    spec = deployment.spec
    return [
        *_name(deployment.name, "must be a valid label value: "),
        *_selector(spec.selector, spec.template, Fault.FORBIDDEN),
        *_skipped_checks(deployment.metadata.annotations),
        *_same_cluster(spec.cluster_name, old.spec.cluster_name if old else None),
        *_bounds(deployment),
        *_template(spec.template),
    ]


def validate_health_check(
    check: MachineHealthCheck, old: MachineHealthCheck | None = None
) -> list[FieldError]:
    """Every broken rule of a MachineHealthCheck; empty when it is good."""
    spec = check.spec
    return [
        *_watched(check),
        *_same_cluster(spec.cluster_name, old.spec.cluster_name if old else None),
        *_startup(spec.node_startup_timeout),
        *_count_or_percent("spec.maxUnhealthy", spec.max_unhealthy),
        *_unhealthy_range(spec.unhealthy_range),
        *_reference("spec.remediationTemplate", spec.remediation_template, check.namespace),
        *_unhealthy_conditions(check),
    ]


def is_version(text: str) -> bool:
    """Whether this is a version of Kubernetes, with its ``v``."""
    return _VERSION.fullmatch(text) is not None


def validate_drain_rule(rule: MachineDrainRule, old: MachineDrainRule | None = None) -> list[FieldError]:
    """Every broken rule of a MachineDrainRule; empty when it is good."""
    drain = rule.spec.drain
    errors: list[FieldError] = []
    if drain.order is not None and drain.behavior != DRAIN:
        told = f"order must not be set if drain behavior is {drain.behavior!r}"
        errors.append(FieldError("spec.drain.order", told, Fault.INVALID, drain.order))
    for name, entries in (("machines", rule.spec.machines), ("pods", rule.spec.pods)):
        if len(set(map(json.encode, entries))) < len(entries):
            errors.append(FieldError(f"spec.{name}", f"entries in {name} must be unique", Fault.INVALID))
    return [*errors, *_drain_selectors(rule)]


def _drain_selectors(rule: MachineDrainRule) -> Errors:
    for name, entries in (("machines", rule.spec.machines), ("pods", rule.spec.pods)):
        for number, entry in enumerate(entries):
            for key, selector in to_builtins(entry).items():
                try:
                    selectors.from_object(selector)
                except BadRequest as error:
                    yield FieldError(f"spec.{name}[{number}].{key}", str(error), Fault.INVALID, selector)


def _name(name: str, words: str) -> Errors:
    """The name is also the value of a label."""
    for complaint in naming.label_value(name):
        yield FieldError("metadata.name", f"{words}{complaint}", Fault.INVALID, name)


def _reference(path: str, found: ObjectReference | None, namespace: str) -> Errors:
    if found is not None and found.namespace != namespace:
        yield FieldError(f"{path}.namespace", _OWN_NAMESPACE, Fault.INVALID, found.namespace)


def _ranges(name: str, found: NetworkRanges | None) -> Errors:
    for place, block in enumerate(found.cidr_blocks if found else ()):
        try:
            if "/" not in block:
                raise ValueError
            ip_network(block, strict=False)
        except ValueError:
            path = f"spec.clusterNetwork.{name}.cidrBlocks[{place}]"
            yield FieldError(path, f"invalid CIDR address: {block}", Fault.INVALID, block)


def _topology(found: Mapping[str, object] | None) -> Errors:
    if found is not None:
        yield FieldError("spec.topology", NO_TOPOLOGY, Fault.FORBIDDEN)


def _bootstrap(machine: Machine) -> Errors:
    given = machine.spec.bootstrap
    if given.config_ref is not None or given.data_secret_name is not None or given.data is not None:
        return
    owners = machine.metadata.owner_references
    if names.POOL_NAME_LABEL in machine.metadata.labels or any(o.kind == "MachinePool" for o in owners):
        return
    told = "expected either spec.bootstrap.dataSecretName or spec.bootstrap.configRef to be populated"
    yield FieldError("spec.bootstrap.data", told)


def _same_cluster(name: str, before: str | None) -> Errors:
    if before is not None and name != before:
        yield FieldError("spec.clusterName", "field is immutable", Fault.FORBIDDEN)


def _version(version: str | None, path: str) -> Errors:
    if version is not None and not is_version(version):
        yield FieldError(f"{path}.version", "must be a valid semantic version", Fault.INVALID, version)


def _timeouts(spec: MachineSpec, path: str) -> Errors:
    durations = (
        ("nodeDrainTimeout", spec.node_drain_timeout),
        ("nodeVolumeDetachTimeout", spec.node_volume_detach_timeout),
        ("nodeDeletionTimeout", spec.node_deletion_timeout),
    )
    for name, text in durations:
        yield from _duration(f"{path}.{name}", text)


def _duration(path: str, text: str | None) -> Errors:
    if text is not None and (problem := duration_problem(text)):
        yield FieldError(path, problem, Fault.INVALID, text)


def _template(template: MachineTemplateSpec) -> Errors:
    path = "spec.template.spec"
    yield from _version(template.spec.version, path)
    yield from _timeouts(template.spec, path)
    yield from _metadata(template.metadata, "spec.template.metadata")


def _metadata(meta: ObjectMeta, path: str) -> Errors:
    """The syntax of labels and annotations, as kube-apiserver checks it on the machines made from them."""
    for key, value in sorted(meta.labels.items()):
        yield from _invalid(f"{path}.labels", key, naming.label_key(key))
        yield from _invalid(f"{path}.labels", value, naming.label_value(value))
    for key in sorted(meta.annotations):
        yield from _invalid(f"{path}.annotations", key, naming.label_key(key.lower()))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in meta.annotations.items())
    if size > ANNOTATIONS_BYTES:
        told = f"may not be more than {ANNOTATIONS_BYTES} bytes"
        yield FieldError(f"{path}.annotations", told, Fault.INVALID, f"{size} bytes")


def _invalid(path: str, value: str, complaints: Iterable[str]) -> Errors:
    for complaint in complaints:
        yield FieldError(path, complaint, Fault.INVALID, value)


def _selector(selector: LabelSelector | None, template: MachineTemplateSpec, fault: Fault) -> Errors:
    plain = to_builtins(selector) if selector is not None else {}
    try:
        read = selectors.from_object(plain)
    except BadRequest as error:
        yield FieldError("spec.selector", str(error), Fault.INVALID, plain)
        return
    if not read.matches(template.metadata.labels):
        told, labels = f'must match spec.selector "{read}"', dict(template.metadata.labels)
        yield FieldError("spec.template.metadata.labels", told, fault, labels)


def _skipped_checks(annotations: Mapping[str, str]) -> Errors:
    text = annotations.get(names.SKIP_PREFLIGHT_CHECKS_ANNOTATION, "")
    known = sorted(check.value for check in PreflightCheck)
    if unknown := [each for each in names.names_in(text) if each not in known]:
        path = f"metadata.annotations.{names.SKIP_PREFLIGHT_CHECKS_ANNOTATION}"
        told = f"skipped preflight check(s) must be among: [{' '.join(known)}]"
        yield FieldError(path, told, Fault.INVALID, unknown)


def _bounds(deployment: MachineDeployment) -> Errors:
    strategy = deployment.spec.strategy
    rolling = strategy.rolling_update if strategy is not None else None
    if rolling is not None:
        yield from _count_or_percent("spec.strategy.rollingUpdate.maxSurge", rolling.max_surge)
        yield from _count_or_percent("spec.strategy.rollingUpdate.maxUnavailable", rolling.max_unavailable)


def _count_or_percent(path: str, value: int | str | None) -> Errors:
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        told = "must be either an int or a percentage: invalid value for IntOrString: it is no percentage"
        yield FieldError(path, told, Fault.INVALID, value)
    elif isinstance(value, int) and value < 0:
        yield FieldError(path, "must be greater than or equal to 0", Fault.INVALID, value)


def _watched(check: MachineHealthCheck) -> Errors:
    selector = check.spec.selector or LabelSelector()
    plain = to_builtins(selector)
    try:
        if not selectors.from_object(plain):
            yield FieldError("spec.selector", "selector must not be empty")
    except BadRequest as error:
        yield FieldError("spec.selector", str(error), Fault.INVALID, plain)
    cluster = selector.match_labels.get(names.CLUSTER_NAME_LABEL, check.spec.cluster_name)
    if cluster != check.spec.cluster_name:
        told = "cannot specify a cluster selector other than the one specified by ClusterName"
        yield FieldError("spec.selector", told, Fault.INVALID, plain)


def read_unhealthy_range(text: str) -> tuple[int, int]:
    """Both ends of a range of numbers of machines, which belong to it.

    Raises:
        ValueError: it is none, and why.
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError("must be a range of two numbers, such as [3-5]")
    least, most = int(found[1]), int(found[2])
    if least > most:
        raise ValueError(f"must not begin with more machines than it ends with: {least} is more than {most}")
    if most > _INT32_MAX:
        raise ValueError(f"must not end with more than {_INT32_MAX}")
    return least, most


def _unhealthy_range(text: str | None) -> Errors:
    if not text:
        return
    try:
        read_unhealthy_range(text)
    except ValueError as error:
        yield FieldError("spec.unhealthyRange", str(error), Fault.INVALID, text)


def _startup(text: str | None) -> Errors:
    if text is None:
        return
    if problem := duration_problem(text):
        yield FieldError("spec.nodeStartupTimeout", problem, Fault.INVALID, text)
    elif 0 < parse_duration(text).total_seconds() < LEAST_STARTUP_SECONDS:
        yield FieldError("spec.nodeStartupTimeout", "must be at least 30s", Fault.INVALID, text)


def _unhealthy_conditions(check: MachineHealthCheck) -> Errors:
    if not check.spec.unhealthy_conditions:
        yield FieldError("spec.unhealthyConditions", "must have at least one entry", Fault.FORBIDDEN)
    for place, each in enumerate(check.spec.unhealthy_conditions):
        yield from _duration(f"spec.unhealthyConditions[{place}].timeout", each.timeout)
