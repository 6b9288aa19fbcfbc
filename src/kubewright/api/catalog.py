"""All APIs of ours: their CustomResourceDefinitions, and the admission of their kinds.

Theory.      A server that has none of them yet gets the definitions; one that calls admission gets the
             rules: the embedded server in process, a real one through webhooks. Kinds of
             ``machine.sapcloud.io`` have rules and no defaults: MCM and what writes for it find their objects
             as they wrote them. Upstream judges them in its controllers alone, so some that break rules are
             stored: what an object broke before, it may go on breaking (``machine.validate.unless_before``).
Called by    ``kubewright crds``, ``make gen``, and ``compose``, which starts the embedded server.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from kubewright.api.admission import Rules
from kubewright.api.bootstrap import conversion as bootstrap_conversion
from kubewright.api.bootstrap import manifests as bootstrap_manifests
from kubewright.api.bootstrap import validate as bootstrap_rules
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.capacity import manifests as capacity
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE
from kubewright.api.capacity.validate import reserve_warnings, validate_reserve
from kubewright.api.cluster import conversion as cluster_conversion
from kubewright.api.cluster import manifests as cluster_manifests
from kubewright.api.cluster import validate
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_DRAIN_RULE,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.controlplane import manifests as controlplane_manifests
from kubewright.api.controlplane import validate as controlplane_rules
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
)
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_USER,
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.api.conversion import converter
from kubewright.api.crd import Definition, crd
from kubewright.api.faults import FieldError
from kubewright.api.infra import manifests as infra_manifests
from kubewright.api.infra import validate as infra_rules
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_CLUSTER_TEMPLATE,
    KUBEWRIGHT_MACHINE,
    KUBEWRIGHT_MACHINE_TEMPLATE,
)
from kubewright.api.machine import manifests as machine_manifests
from kubewright.api.machine import v1alpha1 as machine_api
from kubewright.api.machine import validate as machine_rules
from kubewright.api.machine.validate import with_defaults

CLUSTERCTL = "clusterctl"
"""The name of the kinds that clusterctl looks for."""

DEFINITIONS: Mapping[str, tuple[Definition, ...]] = {
    "machines": machine_manifests.DEFINITIONS,
    "clusters": cluster_manifests.DEFINITIONS,
    "bootstrap": bootstrap_manifests.DEFINITIONS,
    "infrastructure": infra_manifests.DEFINITIONS,
    "controlplanes": controlplane_manifests.DEFINITIONS,
    "reserves": capacity.DEFINITIONS,
    CLUSTERCTL: cluster_manifests.FOR_CLUSTERCTL,
}
"""By the name of the API, as ``kubewright crds`` takes it, in the order in which to install them."""


def crds(*apis: str) -> Iterator[dict[str, Any]]:
    """The CustomResourceDefinitions of these APIs, of all when none is named.

    Raises:
        KeyError: there is no such API.
    """
    for api in apis or DEFINITIONS:
        yield from (crd(each) for each in DEFINITIONS[api])


def _check(rule: Callable[[Any], list[FieldError]]) -> Callable[[Any, Any | None], list[FieldError]]:
    """A rule that does not look at what was before."""
    return lambda new, _old: rule(new)


def _checks(
    rule: Callable[[Any], list[FieldError]], change: Callable[[Any, Any], list[FieldError]]
) -> Callable[[Any, Any | None], list[FieldError]]:
    """A rule of an object and one of a change."""
    return lambda new, old: [*rule(new), *(change(old, new) if old is not None else ())]


Kinds = Callable[[], Collection[str]]
"""The kinds of classes beside MachineClass that a driver of the program makes MachineClasses of."""


def rules_of_machines(migrated: Kinds | None = None) -> tuple[Rules[Any], ...]:
    """The rules of ``machine.sapcloud.io``; without ``migrated`` the kinds of classes are not judged."""
    judged: tuple[tuple[Any, Callable[[Any], list[FieldError]]], ...] = (
        (machine_api.MACHINE, machine_rules.validate_machine),
        (machine_api.MACHINE_SET, machine_rules.validate_set),
        (
            machine_api.MACHINE_DEPLOYMENT,
            lambda each: machine_rules.validate_deployment(with_defaults(each)),
        ),
    )

    def of(rule: Callable[[Any], list[FieldError]]) -> Callable[[Any], list[FieldError]]:
        if migrated is None:
            return rule
        return lambda each: [*rule(each), *machine_rules.class_kinds(each, migrated())]

    return (
        *(Rules(kind, check=machine_rules.unless_before(of(rule))) for kind, rule in judged),
        Rules(
            machine_api.MACHINE_CLASS,
            check=machine_rules.unless_before(machine_rules.validate_class),
            fields=("nodeTemplate",),
        ),
    )


RULES: tuple[Rules[Any], ...] = (
    *rules_of_machines(),
    Rules(CLUSTER, default=validate.default_cluster, check=validate.validate_cluster),
    Rules(MACHINE, default=validate.default_machine, check=validate.validate_machine),
    Rules(
        MACHINE_SET,
        default=validate.default_set,
        prepare=validate.with_replicas,
        by_name=True,
        check=validate.validate_set,
    ),
    Rules(
        MACHINE_DEPLOYMENT,
        default=validate.default_deployment,
        prepare=validate.with_replicas,
        by_name=True,
        check=validate.validate_deployment,
    ),
    Rules(MACHINE_HEALTH_CHECK, default=validate.default_health_check, check=validate.validate_health_check),
    Rules(MACHINE_DRAIN_RULE, check=validate.validate_drain_rule),
    Rules(
        KUBEADM_CONFIG,
        default=bootstrap_rules.with_defaults,
        check=_check(bootstrap_rules.validate_config),
        warn=bootstrap_rules.config_warnings,
    ),
    Rules(
        KUBEADM_CONFIG_TEMPLATE,
        default=bootstrap_rules.template_with_defaults,
        check=_check(bootstrap_rules.validate_template),
        warn=bootstrap_rules.template_warnings,
    ),
    Rules(
        KUBEWRIGHT_CLUSTER,
        check=_checks(infra_rules.validate_cluster, infra_rules.validate_cluster_change),
    ),
    Rules(
        KUBEWRIGHT_CLUSTER_TEMPLATE,
        check=_checks(infra_rules.validate_cluster_template, infra_rules.validate_template_change),
    ),
    Rules(
        KUBEWRIGHT_MACHINE,
        check=_checks(infra_rules.validate_machine, infra_rules.validate_machine_change),
    ),
    Rules(
        KUBEWRIGHT_MACHINE_TEMPLATE,
        check=_checks(infra_rules.validate_machine_template, infra_rules.validate_template_change),
    ),
    Rules(NESTED_CONTROL_PLANE, check=_check(controlplane_rules.validate_control_plane)),
    Rules(CONTROL_PLANE_SNAPSHOT, check=_check(controlplane_rules.validate_snapshot)),
    Rules(CONTROL_PLANE_SNAPSHOT_SCHEDULE, check=_check(controlplane_rules.validate_schedule)),
    Rules(
        CONTROL_PLANE_USER,
        check=_checks(controlplane_rules.validate_user, controlplane_rules.validate_user_change),
    ),
    Rules(CONTROL_PLANE_RESTORE, check=_check(controlplane_rules.validate_restore)),
    Rules(CAPACITY_RESERVE, check=_check(validate_reserve), warn=reserve_warnings),
    Rules(NESTED_CONTROL_PLANE_TEMPLATE, check=_check(controlplane_rules.validate_template)),
    *(
        Rules(each, check=_check(lambda component: controlplane_rules.validate_component(component.spec)))
        for each in (NESTED_ETCD, NESTED_API_SERVER, NESTED_CONTROLLER_MANAGER)
    ),
)
"""The admission of each kind that has one."""

EMBEDDED_RULES = (*RULES, Rules(cluster_manifests.MACHINE_POOL, check=cluster_manifests.refuse_new_pool))
"""The same for the embedded server, which does not evaluate the rules in CRDs (CEL)."""


def with_migrated(rules: Iterable[Rules[Any]], migrated: Kinds) -> tuple[Rules[Any], ...]:
    """The rules; those of ``machine.sapcloud.io`` among them judge the kinds of classes, too."""
    stricter = {each.kind.resource: each for each in rules_of_machines(migrated)}
    return tuple(stricter.get(each.kind.resource, each) for each in rules)


def conversions(version_of: Callable[[str, str], str]) -> Mapping[tuple[str, str], Callable[[Any, str], Any]]:
    """What converts objects of kinds with two versions, by group and kind, for a server that serves both
    (``crds_of_today`` of ``cluster.manifests`` and ``bootstrap.manifests``).

    ``version_of`` answers in which apiVersion objects of a group and kind are read, by their contract.
    """
    tables = (*cluster_conversion.TABLES, *bootstrap_conversion.TABLES)
    return {(t.kind.resource.group, t.kind.resource.kind): converter(t, version_of) for t in tables}
