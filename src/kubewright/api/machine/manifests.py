"""What an administrator installs for ``machine.sapcloud.io/v1alpha1``: CRDs and roles.

Theory.      Names, columns, subresources, field names, types and required fields equal upstream's, so either
             set of CRDs serves either manager; the sentences are ours. The roles are one table of rules, of
             each half and of users; the gate of a change compares it with the requests that are sent.
Called by    ``kubewright crds``, ``make gen`` (``deploy/crds``, ``deploy/rbac``, ``deploy/beside-mcm``), the
             world of machines, and ``compose.embedded`` (the roles of users).
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubewright.api.crd import Column, Definition, crd
from kubewright.api.machine.v1alpha1 import GROUP, MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.api.rbac import READ, WRITE, Rule, granted, of_users

AGE = Column(
    "Age",
    ".metadata.creationTimestamp",
    type="date",
    description="How long ago the object was created.",
)
HEADER = "# Written by `make gen`; do not edit.\n"
REPLICAS = (".spec.replicas", ".status.replicas")

DEFINITIONS = (
    Definition(MACHINE_CLASS),
    Definition(
        MACHINE,
        columns=(
            Column("Status", ".status.currentStatus.phase", description="The phase of the machine."),
            AGE,
            Column("Node", ".metadata.labels.node", description="The node that the machine became."),
            Column("ProviderID", ".spec.providerID", description="The cloud's id of the VM.", priority=1),
        ),
    ),
    Definition(
        MACHINE_SET,
        columns=(
            Column("Desired", ".spec.replicas", "integer", "How many machines there should be."),
            Column("Current", ".status.replicas", "integer", "How many machines there are."),
            Column("Ready", ".status.readyReplicas", "integer", "How many machines are Running."),
            AGE,
        ),
        scale=REPLICAS,
    ),
    Definition(
        MACHINE_DEPLOYMENT,
        columns=(
            Column("Ready", ".status.readyReplicas", "integer", "How many machines are Running."),
            Column("Desired", ".spec.replicas", "integer", "How many machines there should be."),
            Column("Up-to-date", ".status.updatedReplicas", "integer", "How many have the current template."),
            Column("Available", ".status.availableReplicas", "integer", "How many machines are available."),
            AGE,
            Column("Excess", ".spec.excessReplicas", "integer", "How many more are kept free.", priority=1),
        ),
        scale=REPLICAS,
    ),
)


def crds() -> tuple[dict[str, Any], ...]:
    """All four, in the order in which to install them."""
    return tuple(crd(definition) for definition in DEFINITIONS)


def manifest() -> str:
    """All four as one text for ``kubectl apply -f``."""
    return as_yaml(crds())


def files() -> dict[str, str]:
    """The CRDs as files of ``deploy/crds``: name to text."""
    return {f"{item['metadata']['name']}.yaml": HEADER + as_yaml([item]) for item in crds()}


def as_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    """Documents for ``kubectl apply -f``; the same text for the same documents."""
    from kubewright.wire.goyaml import dumped_all

    return dumped_all(documents, width=110)


if __name__ == "__main__":
    sys.stdout.write(manifest())


RESOURCES = ("machineclasses", "machines", "machinesets", "machinedeployments")

CLASSES, *FLEET = RESOURCES
SCALES = [f"{kind}/scale" for kind in FLEET[1:]]


@dataclass(frozen=True, slots=True)
class Grants:
    """Rules for the control cluster, for the target cluster, and for its Secrets with bootstrap tokens."""

    control: tuple[Rule, ...] = ()
    target: tuple[Rule, ...] = ()
    tokens: tuple[Rule, ...] = ()

    def __add__(self, more: "Grants") -> "Grants":
        return Grants(self.control + more.control, self.target + more.target, self.tokens + more.tokens)


SHARED = Grants(
    control=(
        Rule(GROUP, ("machines", "machinesets"), ("list", "watch"), "what is wanted, and what there is"),
        Rule(GROUP, ("machines",), ("patch", "delete"), "finalizers; replaced, or gone with its node"),
        Rule("", ("events",), ("create", "patch"), "what users should know"),
        Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
    ),
    target=(Rule("", ("nodes",), ("list", "watch", "patch"), "labels, taints, cordon"),),
)
"""What each half needs, whether or not the other one is ours, too."""

OF_SETS = Grants(
    control=(
        Rule(GROUP, ("machinedeployments",), ("list", "watch"), "what is wanted"),
        Rule(GROUP, FLEET[1:], ("get", "patch"), "live reads before an adoption; sizes and finalizers"),
        Rule(GROUP, [f"{kind}/status" for kind in FLEET[1:]], ("patch",), "what became of them"),
        Rule(GROUP, ("machinesets",), ("create", "delete"), "deployments make sets"),
        Rule(GROUP, ("machines",), ("create",), "sets make machines"),
        Rule(
            GROUP,
            ("machinesets/finalizers", "machinedeployments/finalizers"),
            ("update",),
            "owner references that block the deletion of their owner, where admission checks them",
        ),
    )
)
"""What the controllers of deployments and sets need besides."""

OF_MACHINES = Grants(
    control=(
        Rule(GROUP, (CLASSES,), ("list", "watch", "patch"), "which VMs to ask for; a finalizer while in use"),
        Rule(GROUP, (f"{CLASSES}/status",), ("patch",), "whether a driver accepts them"),
        Rule(GROUP, ("machines",), ("get",), "a live read before a VM is collected"),
        Rule(GROUP, ("machines/status",), ("patch",), "what became of them"),
        Rule(
            "",
            ("secrets",),
            ("list", "watch", "patch"),
            "user data and credentials; a finalizer while a class needs them",
        ),
    ),
    target=(
        Rule("", ("nodes",), ("get", "delete"), "gone when the VM is"),
        Rule("", ("nodes/status",), ("patch",), "the Terminating condition"),
        Rule("", ("pods",), ("list", "delete"), "draining; deletion only when eviction no longer helps"),
        Rule("", ("pods/eviction",), ("create",), "draining"),
        Rule("", ("persistentvolumeclaims",), ("get",), "which volumes a pod leaves behind"),
        Rule("", ("persistentvolumes",), ("get",), "what a driver knows of one without a VolumeAttachment"),
        Rule("policy", ("poddisruptionbudgets",), ("list",), "which budget blocks a drain"),
        Rule(
            "storage.k8s.io",
            ("volumeattachments",),
            ("list", "watch", "delete"),
            "volumes that must detach before their VM goes",
        ),
    ),
    tokens=(
        Rule(
            "",
            ("secrets",),
            ("get", "create", "patch", "delete"),
            "bootstrap tokens; a read tells whose one is, a retry moves its end",
        ),
    ),
)
"""What the controllers of machines, classes and VMs need besides."""

HALVES = {"sets": SHARED + OF_SETS, "machines": SHARED + OF_MACHINES}
"""By the folder in ``deploy/beside-mcm``, which is also the value of ``half`` in the chart."""
BOTH = SHARED + OF_SETS + OF_MACHINES

CONTROL_ROLE, TARGET_ROLE = "kubewright-control", "kubewright-target"
TOKENS_ROLE = "kubewright-bootstrap-tokens"


def role_files() -> dict[str, str]:
    """The manifests as files of ``deploy/rbac``: name to text."""
    return {name: HEADER + as_yaml(objects) for name, objects in manifests().items()}


def files_of_halves() -> dict[str, str]:
    """The manifests of each half alone, as files of the chart: name to text."""
    return {
        f"{name.removesuffix('.yaml')}-{half}.yaml": HEADER + as_yaml(objects)
        for half, grants in HALVES.items()
        for name, objects in manifests(grants).items()
    }


def patches_of(half: str) -> dict[str, str]:
    """JSON patches that leave the roles the rules of one half, as files of ``deploy/beside-mcm``."""
    grants = HALVES[half]
    rules = {"control-rules.yaml": grants.control, "target-rules.yaml": grants.target}
    return {name: HEADER + _replacing(given) for name, given in rules.items()}


def _replacing(rules: Iterable[Rule]) -> str:
    """A JSON patch as YAML: a role has these rules and no others."""
    from kubewright.wire.goyaml import dumped

    patch = [{"op": "replace", "path": "/rules", "value": [each.plain() for each in rules]}]
    return dumped(patch, width=110)


def manifests(grants: Grants = BOTH) -> dict[str, list[dict[str, Any]]]:
    """The objects to apply, by file name: one file for each cluster."""
    tokens = granted("Role", TOKENS_ROLE, grants.tokens, namespace="kube-system") if grants.tokens else []
    return {
        "control.yaml": granted("ClusterRole", CONTROL_ROLE, grants.control),
        "target.yaml": [*granted("ClusterRole", TARGET_ROLE, grants.target), *tokens],
    }


def roles_of_users() -> list[dict[str, Any]]:
    """What users may do with machine objects: parts of the roles ``view``, ``edit`` and ``admin``.

    Kubernetes' roles for users gather the rules of labelled ClusterRoles, and ``admin`` gathers ``edit``,
    which gathers ``view``. Who may see what is in a namespace may see its machines; who may change its
    workloads may change machines, sets and deployments. A MachineClass is different: it names Secrets of
    any namespace and decides what is bought with them, so to write one is left to cluster admins.
    """
    seen = [CLASSES, *FLEET, *(f"{kind}/status" for kind in FLEET), *SCALES]
    return [
        of_users("machines", "view", GROUP, seen, READ),
        of_users("machines", "edit", GROUP, [*FLEET, *SCALES], WRITE),
    ]
