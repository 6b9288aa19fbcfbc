"""The rules of our infrastructure kinds beyond the schema: of an object, and of a change.

Theory.      Two kinds of rule. What an object must be like to make a VM: the controllers check it in every
             pass, since an object may have come past any webhook. And what may change: a VM is as it was
             made, so what it was made from stays; a webhook checks that, and where there is none a change has
             no effect on a VM that exists. Templates never change: clones of one template are alike.
Invariants.  Pure; every violation is reported, in the order of the fields.
Source       Cluster API's contract: templates are immutable but for a dry run of topologies.
Called by    controllers of ``infra``; admission.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.cluster.names import TOPOLOGY_DRY_RUN_ANNOTATION
from kubewright.api.faults import Errors, Fault, FieldError
from kubewright.api.infra.v1beta1 import (
    KubewrightCluster,
    KubewrightClusterSpec,
    KubewrightClusterTemplate,
    KubewrightMachine,
    KubewrightMachineSpec,
    KubewrightMachineTemplate,
    Provision,
)

PORT_MAX = 65535


def validate_machine(machine: KubewrightMachine) -> list[FieldError]:
    """Every broken rule of a KubewrightMachine; empty when it is good."""
    return [*_machine_spec(machine.spec, "spec")]


def validate_machine_template(template: KubewrightMachineTemplate) -> list[FieldError]:
    """Every broken rule of a KubewrightMachineTemplate; empty when it is good."""
    path, spec = "spec.template.spec", template.spec.template.spec
    return [*_machine_spec(spec, path), *_unset(f"{path}.providerID", spec.provider_id)]


def validate_cluster(cluster: KubewrightCluster) -> list[FieldError]:
    """Every broken rule of a KubewrightCluster; empty when it is good."""
    return [*_cluster_spec(cluster.spec, "spec")]


def validate_cluster_template(template: KubewrightClusterTemplate) -> list[FieldError]:
    """Every broken rule of a KubewrightClusterTemplate; empty when it is good."""
    path, spec = "spec.template.spec", template.spec.template.spec
    endpoint = _unset(f"{path}.controlPlaneEndpoint", spec.control_plane_endpoint)
    return [*_cluster_spec(spec, path), *endpoint]


def validate_machine_change(old: KubewrightMachine, new: KubewrightMachine) -> list[FieldError]:
    """What must not change: what the VM was made from, once there is one; its id and place once written.

    Before that a mistake can be mended.
    """
    before, after = old.spec, new.spec
    return [
        *(_provision_kept(before, after) if before.provider_id else ()),
        *_once("spec.providerID", before.provider_id, after.provider_id),
        *_once("spec.failureDomain", before.failure_domain, after.failure_domain),
    ]


def validate_cluster_change(old: KubewrightCluster, new: KubewrightCluster) -> list[FieldError]:
    """What must not change: the endpoint once it is complete, because certificates name it; the driver."""
    before, after = old.spec, new.spec
    known = before.control_plane_endpoint
    endpoint = known if known is not None and known.valid else None
    return [
        *_once("spec.driver", before.driver, after.driver),
        *_once("spec.controlPlaneEndpoint", endpoint, after.control_plane_endpoint),
    ]


Template = KubewrightMachineTemplate | KubewrightClusterTemplate


def validate_template_change(old: Template, new: Template, *, dry_run: bool = False) -> list[FieldError]:
    """A template's ``spec.template.spec`` never changes. ``dry_run``: of a request that writes nothing."""
    if old.spec.template.spec == new.spec.template.spec or _asks_for_topology(
        new.metadata.annotations, dry_run
    ):
        return []
    told = "it is immutable: make another template, and refer to that one"
    return [FieldError("spec.template.spec", told, Fault.FORBIDDEN)]


def _asks_for_topology(annotations: Mapping[str, str], dry_run: bool) -> bool:
    """The topology controller tries changes out in dry runs, and means to make a new template of them."""
    return dry_run and TOPOLOGY_DRY_RUN_ANNOTATION in annotations


def _machine_spec(spec: KubewrightMachineSpec, path: str) -> Errors:
    yield from _provision(spec, path)


def _cluster_spec(spec: KubewrightClusterSpec, path: str) -> Errors:
    yield from _provision(spec, path)
    endpoint = spec.control_plane_endpoint
    if endpoint is not None and endpoint.host and not 0 < endpoint.port <= PORT_MAX:
        told = f"must be between 1 and {PORT_MAX}"
        yield FieldError(f"{path}.controlPlaneEndpoint.port", told, Fault.INVALID, endpoint.port)
    if endpoint is not None and endpoint.port and not endpoint.host:
        yield FieldError(f"{path}.controlPlaneEndpoint.host", "a port alone is no endpoint")


def _provision(spec: Provision, path: str) -> Errors:
    if spec.credentials_ref is not None and not spec.credentials_ref.name:
        yield FieldError(f"{path}.credentialsRef.name", "it names no Secret")


def _provision_kept(before: Provision, after: Provision) -> Errors:
    yield from _once("spec.driver", before.driver, after.driver)
    if before.provider_spec != after.provider_spec:
        yield FieldError("spec.providerSpec", "the VM is made from it: it never changes", Fault.FORBIDDEN)


def _once(path: str, before: Any, after: Any) -> Errors:
    if before and before != after:
        yield FieldError(path, f"it is set to {before}, and never changes after that", Fault.FORBIDDEN)


def _unset(path: str, value: Any) -> Errors:
    if value:
        yield FieldError(path, "it belongs to one object, and stands in no template", Fault.FORBIDDEN)
