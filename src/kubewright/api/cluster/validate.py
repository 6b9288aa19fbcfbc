"""The rules of Cluster API's core kinds beyond the schema: of an object, and of a change.

Theory.      Paths and sentences are those of upstream's webhooks, because users search for them. A field
             that names another cluster never changes. Ours are the rules about durations, which Go's
             decoder checks there.
Invariants.  Pure; every violation is reported, in the order of the fields; an object is judged after its
             ``defaults``. ``old`` is None for a new object.
Source       capi.md §2.3-2.6, §13.4.
Called by    ``api.catalog``; controllers of ``clusters``, for objects that were written without our webhooks.
"""

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_network

from msgspec import json, to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.names import PreflightCheck
from kubewright.api.cluster.v1beta1 import (
    Cluster,
    Machine,
    MachineDeployment,
    MachineDrainRule,
    MachineHealthCheck,
    MachineSet,
    MachineSpec,
    MachineTemplateSpec,
    NetworkRanges,
    ObjectReference,
)
from kubewright.api.cluster.v1beta1.drain_rules import DRAIN
from kubewright.api.faults import Errors, Fault, FieldError, duration_problem
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.base.durations import parse_duration
from kubewright.wire import naming, selectors
from kubewright.wire.errors import BadRequest

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
