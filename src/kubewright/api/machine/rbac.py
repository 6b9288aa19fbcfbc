"""What our controllers may do on the clusters they work on: the least that they need; and what users may.

Theory.      Tables of rules for the control cluster (the machine objects) and for the target cluster (the
             nodes); on one cluster both are bound to the same account. What both halves of the controllers
             need stands apart from what one of them needs, so that a half that works beside
             machine-controller-manager gets its own part. Secrets of the target cluster are
             touched in ``kube-system`` alone, where bootstrap tokens live.
Invariants.  A verb stands here when a life of machines needs it, and only then: a test runs that life
             under these very roles, for both halves in one and for each half alone, and fails for what
             is refused and for what was never asked.
Source       mcm.md §10.6, less what only upstream needs.
Called by    ``make gen``, which writes ``deploy/rbac``, ``deploy/beside-mcm`` and the chart;
             ``compose.embedded`` (the roles of users).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kubewright.api.machine.crds import HEADER, as_yaml
from kubewright.api.machine.v1alpha1 import GROUP
from kubewright.api.rbac import READ, WRITE, Rule, granted, of_users

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


def files() -> dict[str, str]:
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
