"""What an administrator installs for the core of Cluster API: its CRDs, and what it and users may do.

Theory.      Names, columns, subresources, labels, field names, types and required fields equal those of
             Cluster API v1.7.1, so either set of CRDs serves either core; the sentences are ours. Drain
             rules, which came later, are those of v1.10; v1alpha3 and v1alpha4, which nothing serves, are
             left out. As upstream's, the role of the core has everything in the groups of its providers,
             because a provider's kinds are not known beforehand; a provider of another group adds its rules
             in a ClusterRole with the label ``cluster.x-k8s.io/aggregate-to-manager``, which ours gathers.
             Two kinds are for clusterctl alone. ``clusterctl describe cluster`` fails where there are no
             MachinePools: so there are, and a kube-apiserver refuses to create one, with a sentence that says
             what to use instead. A ``Provider`` says that a provider is installed, so that clusterctl
             installs no other core, and moves clusters only to where the same providers are; clusterctl makes
             this kind itself when it first needs it (decision 0027).
Invariants.  clusterctl moves no objects of these two kinds: their CRDs have no label of its.
Called by    ``kubewright crds``, ``make gen`` (``deploy/clusters``, ``deploy/one-namespace``), the world of
             clusters, and ``compose.embedded`` (the roles of users).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from msgspec import field

from kubewright.api.cluster import health, names, v1beta2
from kubewright.api.cluster.v1beta1 import (
    CATEGORIES,
    CLUSTER,
    CONTRACT_VERSIONS,
    GROUP,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_DRAIN_RULE,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
    resource,
)
from kubewright.api.crd import Column, Definition, crd
from kubewright.api.faults import Fault, FieldError
from kubewright.api.kinds import Kind
from kubewright.api.machine.manifests import HEADER, as_yaml
from kubewright.api.meta import PRESERVE, Json, KubeObject, doc
from kubewright.api.rbac import ONE_NAMESPACE, READ, WRITE, Rule, gathered, granted, of_users, within
from kubewright.wire.gvk import Resource

AGE = Column(
    "Age",
    ".metadata.creationTimestamp",
    type="date",
    description="How long ago the object was created.",
)
OF_CLUSTER = Column("Cluster", ".spec.clusterName", description="The cluster that the object belongs to.")
DESIRED = Column("Desired", ".spec.replicas", "integer", "How many machines there should be.", priority=10)
REPLICAS = Column("Replicas", ".status.replicas", "integer", "How many machines there are.")
READY = Column("Ready", ".status.readyReplicas", "integer", "How many machines have a Node that is ready.")
TEMPLATE_VERSION = Column(
    "Version", ".spec.template.spec.version", description="The version of Kubernetes of new machines."
)
SCALE = (".spec.replicas", ".status.replicas", ".status.selector")


def provider_labels(provider: str) -> Mapping[str, str]:
    """The labels of the CRDs of a provider: whose they are, that clusterctl moves their objects, and which of
    their versions follow the contract."""
    return {names.PROVIDER_LABEL: provider, names.CLUSTERCTL_LABEL: "", **CONTRACT_VERSIONS}


def definition(
    kind: Kind[Any], *columns: Column, status: bool = True, scale: tuple[str, str, str] | None = None
) -> Definition:
    """The definition of a kind of the core."""
    labels = provider_labels(names.CORE_PROVIDER)
    return Definition(kind, columns, status=status, scale=scale, categories=CATEGORIES, labels=labels)


DEFINITIONS = (
    definition(
        CLUSTER,
        Column("ClusterClass", ".spec.topology.class", description="The class of a topology; not supported."),
        Column("Phase", ".status.phase", description="The phase of the cluster."),
        AGE,
        Column("Version", ".spec.topology.version", description="The version of a topology; not supported."),
    ),
    definition(
        MACHINE,
        OF_CLUSTER,
        Column("NodeName", ".status.nodeRef.name", description="The Node that the machine became."),
        Column("ProviderID", ".spec.providerID", description="The cloud's id of the host."),
        Column("Phase", ".status.phase", description="The phase of the machine."),
        AGE,
        Column("Version", ".spec.version", description="The version of Kubernetes."),
    ),
    definition(
        MACHINE_SET,
        OF_CLUSTER,
        DESIRED,
        REPLICAS,
        READY,
        Column("Available", ".status.availableReplicas", "integer", "How many machines are available."),
        AGE,
        TEMPLATE_VERSION,
        scale=SCALE,
    ),
    definition(
        MACHINE_DEPLOYMENT,
        OF_CLUSTER,
        DESIRED,
        REPLICAS,
        READY,
        Column("Updated", ".status.updatedReplicas", "integer", "How many have the current template."),
        Column("Unavailable", ".status.unavailableReplicas", "integer", "How many available ones lack."),
        Column("Phase", ".status.phase", description="What the deployment is doing."),
        AGE,
        TEMPLATE_VERSION,
        scale=SCALE,
    ),
    definition(
        MACHINE_HEALTH_CHECK,
        OF_CLUSTER,
        Column("ExpectedMachines", ".status.expectedMachines", "integer", "How many machines are watched."),
        Column(
            "MaxUnhealthy",
            ".spec.maxUnhealthy",
            description="While more machines are unhealthy, none is replaced.",
        ),
        Column("CurrentHealthy", ".status.currentHealthy", "integer", "How many machines are healthy."),
        AGE,
    ),
    definition(
        MACHINE_DRAIN_RULE,
        Column("Behavior", ".spec.drain.behavior", description="What a drain does with the pods."),
        Column("Order", ".spec.drain.order", description="Pods with lower orders leave before."),
        AGE,
        status=False,
    ),
)


def state(condition: str, *, priority: int = 0, name: str = "", what: str = "") -> Column:
    """A column with the status of a condition."""
    path = f'.status.conditions[?(@.type=="{condition}")].status'
    return Column(
        name or condition, path, description=what or f"Whether it is {condition}.", priority=priority
    )


def count(name: str, path: str, what: str, *, priority: int = 0) -> Column:
    """A column with a number."""
    return Column(name, path, "integer", what, priority)


PAUSED = state("Paused", priority=10, what="Whether the controllers pause.")
PHASE = Column("Phase", ".status.phase", description="What it is about, in one word.")
WANTED = count("Desired", ".spec.replicas", "How many machines there should be.")
COUNTED = (
    count("Current", ".status.replicas", "How many machines there are."),
    count("Ready", ".status.readyReplicas", "How many machines are ready."),
    count("Available", ".status.availableReplicas", "How many machines are available."),
    count("Up-to-date", ".status.upToDateReplicas", "How many machines are up to date."),
)


def _of_role(short: str, path: str, who: str) -> tuple[Column, ...]:
    """What machines of one role a cluster has."""
    return (
        count(f"{short} Desired", f"{path}.desiredReplicas", f"How many {who} there should be."),
        count(f"{short} Current", f"{path}.replicas", f"How many {who} there are.", priority=10),
        count(f"{short} Ready", f"{path}.readyReplicas", f"How many {who} are ready.", priority=10),
        count(f"{short} Available", f"{path}.availableReplicas", f"How many {who} are available."),
        count(f"{short} Up-to-date", f"{path}.upToDateReplicas", f"How many {who} are up to date."),
    )


def _address(kind: str) -> Column:
    path = f'.status.addresses[?(@.type=="{kind}")].address'
    return Column(kind.replace("IP", "-IP"), path, description="An address of the host.", priority=10)


V1BETA2 = (
    definition(
        v1beta2.CLUSTER,
        Column("ClusterClass", ".spec.topology.classRef.name", description="The class of a topology."),
        state("Available"),
        *_of_role("CP", ".status.controlPlane", "machines of the control plane"),
        *_of_role("W", ".status.workers", "workers"),
        PAUSED,
        PHASE,
        AGE,
        Column("Version", ".spec.topology.version", description="The version of a topology; not supported."),
    ),
    definition(
        v1beta2.MACHINE,
        OF_CLUSTER,
        Column("Node Name", ".status.nodeRef.name", description="The Node that the machine became."),
        Column("Provider ID", ".spec.providerID", description="The cloud's id of the host.", priority=10),
        Column("Failure domain", ".status.failureDomain", description="Where the host is."),
        state("Ready"),
        state("Available"),
        state("UpToDate", name="Up-to-date", what="Whether it is as its owner says."),
        _address("InternalIP"),
        _address("ExternalIP"),
        Column("OS-Image", ".status.nodeInfo.osImage", description="The operating system.", priority=10),
        PAUSED,
        PHASE,
        AGE,
        Column("Version", ".spec.version", description="The version of Kubernetes."),
    ),
    definition(v1beta2.MACHINE_SET, OF_CLUSTER, WANTED, *COUNTED, PAUSED, AGE, TEMPLATE_VERSION, scale=SCALE),
    definition(
        v1beta2.MACHINE_DEPLOYMENT,
        OF_CLUSTER,
        state("Available"),
        WANTED,
        *COUNTED,
        PAUSED,
        PHASE,
        AGE,
        TEMPLATE_VERSION,
        scale=SCALE,
    ),
    definition(
        health.MACHINE_HEALTH_CHECK,
        OF_CLUSTER,
        count("Replicas", ".status.expectedMachines", "How many machines are watched."),
        count("Healthy", ".status.currentHealthy", "How many machines are healthy."),
        PAUSED,
        AGE,
    ),
    replace(DEFINITIONS[-1], kind=v1beta2.MACHINE_DRAIN_RULE),
)
"""The same kinds as they are served today: in the order of ``DEFINITIONS``."""


def crds() -> tuple[dict[str, Any], ...]:
    """All of them, in the order in which to install them."""
    return tuple(crd(each) for each in DEFINITIONS)


def crds_of_today() -> tuple[dict[str, Any], ...]:
    """The same with v1beta2 beside: for servers that convert."""
    return tuple(map(crd, DEFINITIONS, V1BETA2))


class MachinePool(KubeObject, frozen=True, kw_only=True):
    """A MachinePool of Cluster API. It is not supported: use a MachineDeployment."""

    spec: Annotated[Mapping[str, Json], doc("What is wanted; no controller reads it.", **PRESERVE)] = field(
        default_factory=dict
    )
    status: Annotated[Mapping[str, Json], doc("What is; no controller writes it.", **PRESERVE)] = field(
        default_factory=dict
    )


class Provider(KubeObject, frozen=True, kw_only=True):
    """A provider that is installed here, as clusterctl lists it."""

    provider_name: Annotated[str, doc("The name of the provider, as clusterctl's configuration has it.")] = ""
    type: Annotated[str, doc("CoreProvider, BootstrapProvider, InfrastructureProvider or another.")] = ""
    version: Annotated[str, doc("The release that is installed, as a semantic version.")] = ""
    watched_namespace: Annotated[str, doc("Not used any more; empty.")] = ""


MACHINE_POOL = Kind(resource("machinepools", "MachinePool", "mp"), MachinePool)
PROVIDER = Kind(Resource("clusterctl.cluster.x-k8s.io", "v1alpha3", "providers", "Provider"), Provider)

UNSUPPORTED = "MachinePools are not supported here: no controller works on them. Use a MachineDeployment."
REFUSED = {
    "rule": "oldSelf.hasValue()",
    "optionalOldSelf": True,
    "reason": "FieldValueForbidden",
    "message": UNSUPPORTED,
}


def refuse_new_pool(_new: MachinePool, old: MachinePool | None) -> list[FieldError]:
    """The rule ``REFUSED`` of the CRD, for a server that does not evaluate it."""
    return [] if old is not None else [FieldError("<nil>", UNSUPPORTED, Fault.FORBIDDEN)]


FOR_CLUSTERCTL = (
    Definition(MACHINE_POOL, (OF_CLUSTER, AGE), categories=CATEGORIES, rules=(REFUSED,)),
    Definition(
        PROVIDER,
        (
            AGE,
            Column("Type", ".type", description="Which part of Cluster API the provider is."),
            Column("Provider", ".providerName", description="The name of the provider."),
            Column("Version", ".version", description="The release that is installed."),
        ),
        status=False,
        categories=CATEGORIES,
        labels={"clusterctl.cluster.x-k8s.io/core": "inventory"},
    ),
)


KINDS = ("clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks")
RULES = ("machinedrainrules",)
SCALES = ("machinesets/scale", "machinedeployments/scale")
PROVIDERS = tuple(f"{part}.{GROUP}" for part in ("infrastructure", "bootstrap", "controlplane"))

CORE = (
    Rule(GROUP, KINDS, (*READ, "patch"), "what is wanted; finalizers, owners, labels"),
    Rule(GROUP, KINDS[1:4], ("create", "delete"), "deployments make sets, sets make machines"),
    Rule(GROUP, [f"{kind}/status" for kind in KINDS], ("patch",), "what became of them"),
    Rule(
        GROUP,
        [f"{kind}/finalizers" for kind in KINDS],
        ("update",),
        "owner references that block the deletion of their owner, where admission checks them",
    ),
    Rule(GROUP, RULES, ("list",), "which pods a drain leaves alone, and which leave first"),
    *(
        Rule(group, ("*",), (*READ, "create", "patch", "delete"), "objects of providers")
        for group in PROVIDERS
    ),
    Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        READ,
        "which kinds providers have",
        everywhere=True,
    ),
    Rule(
        "",
        ("secrets",),
        (*READ, "create", "patch"),
        "kubeconfigs of clusters, and the authorities that sign them",
    ),
    Rule("", ("events",), ("create", "patch"), "what users should know"),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/clusters``: name to text."""
    return {"core-rbac.yaml": HEADER + as_yaml(manifest())}


def files_of_one_namespace() -> dict[str, str]:
    """The same for a program that works in one namespace, as files of ``deploy/one-namespace``."""
    return {"core-rbac.yaml": HEADER + as_yaml(within(ONE_NAMESPACE, "kubewright-clusters", CORE))}


def manifest() -> list[dict[str, Any]]:
    """The roles of the core controllers, bound to our account."""
    label = {names.AGGREGATE_TO_MANAGER_LABEL: "true"}
    return [
        *granted("ClusterRole", "kubewright-clusters", CORE),
        *gathered("kubewright-clusters-providers", label),
    ]


def roles_of_users() -> list[dict[str, Any]]:
    """What users may do with clusters: who may see or edit what is in a namespace may do so with them too."""
    seen = [*KINDS, *RULES, *(f"{kind}/status" for kind in KINDS), *SCALES]
    return [
        of_users("clusters", "view", GROUP, seen, READ),
        of_users("clusters", "edit", GROUP, [*KINDS, *RULES, *SCALES], WRITE),
    ]
