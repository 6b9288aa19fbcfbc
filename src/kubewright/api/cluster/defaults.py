"""What an omitted field means, kind by kind.

Theory.      Upstream's webhooks write these defaults into objects, and providers in Go read them back:
             the label of the cluster, namespaces of references, the ``v`` of a version. So admission
             writes them; and controllers apply the same functions to every object that they read, because
             a real API server may run without our webhooks. An empty selector gets a label with the
             object's own name, in the selector and in the template.
Invariants.  Pure and idempotent; a field that is set is never changed, but for the labels of the cluster
             and a version without ``v``.
Source       capi.md §2.3-2.6, §13.4.
Called by    ``api.catalog``; controllers of ``clusters`` before they look at a spec.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import structs

from kubewright.api.admission import Plain
from kubewright.api.cluster import names
from kubewright.api.cluster.names import DeletePolicy, StrategyType
from kubewright.api.cluster.v1beta1 import (
    Cluster,
    Machine,
    MachineDeployment,
    MachineDeploymentStrategy,
    MachineHealthCheck,
    MachineSet,
    MachineTemplateSpec,
    ObjectReference,
    RollingUpdate,
)
from kubewright.api.meta import KubeObject, LabelSelector, ObjectMeta

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
    infrastructure = _reference(spec.infrastructure_ref, namespace)
    control_plane = _reference(spec.control_plane_ref, namespace)
    return structs.replace(
        cluster,
        spec=structs.replace(spec, infrastructure_ref=infrastructure, control_plane_ref=control_plane),
    )


def default_machine(machine: Machine) -> Machine:
    """The label of the cluster, namespaces of references, the version's ``v``, 10s for deleting the Node."""
    spec, namespace = machine.spec, machine.namespace
    bootstrap = structs.replace(spec.bootstrap, config_ref=_reference(spec.bootstrap.config_ref, namespace))
    filled = structs.replace(
        spec,
        bootstrap=bootstrap,
        infrastructure_ref=_reference(spec.infrastructure_ref, namespace) or ObjectReference(),
        version=_version(spec.version),
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
        template=_template(spec.template, own),
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
        template=_template(spec.template, own),
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
        remediation_template=_reference(spec.remediation_template, check.namespace),
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
    bounds = _bounds(new)
    has = old.get("spec", {}).get("replicas") if old is not None else None
    if bounds is None:
        wanted = 1
    else:
        least, most = bounds
        wanted = min(max(has, least), most) if isinstance(has, int) else least
    return {**new, "spec": {**spec, "replicas": wanted}}


def _bounds(new: Plain) -> tuple[int, int] | None:
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


def _reference(found: ObjectReference | None, namespace: str) -> ObjectReference | None:
    if found is None or found.namespace or found == ObjectReference():
        return found
    return structs.replace(found, namespace=namespace)


def _version(version: str | None) -> str | None:
    return version if not version or version.startswith("v") else f"v{version}"


def _selecting(selector: LabelSelector, own: Mapping[str, str]) -> LabelSelector:
    return structs.replace(selector, match_labels={**selector.match_labels, **own}) if own else selector


def _template(template: MachineTemplateSpec, own: Mapping[str, str]) -> MachineTemplateSpec:
    meta: ObjectMeta = template.metadata
    if own:
        meta = structs.replace(meta, labels={**meta.labels, **own})
    spec = structs.replace(template.spec, version=_version(template.spec.version))
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
