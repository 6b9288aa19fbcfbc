"""What a cluster needs for CapacityReserves: their CustomResourceDefinition, and who may do what.

Theory.      One account, two tables: for the cluster that has the reserves, and for that of the nodes, where
             the placeholders are. There the controller writes Deployments of one namespace, and
             PriorityClasses. Users with the role view may see reserves. To write one is left to the
             administrators of the cluster: no quota counts placeholders, and they buy machines.
Invariants.  A kube-apiserver enforces by a rule of the CRD that one way says how much is kept free, also
             where no webhook is served; all other rules have their webhook, and the controller's own check.
Called by    ``kubewright crds``; the world of reserves; ``make gen``, which writes ``deploy/reserves`` and
             the chart; ``compose.embedded`` (the roles of users).
"""

from typing import Any

from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE, GROUP, PLACE
from kubewright.api.capacity.validate import WAYS
from kubewright.api.crd import Column, Definition, crd
from kubewright.api.machine.manifests import AGE, HEADER, as_yaml
from kubewright.api.rbac import READ, Rule, granted, of_users

ONE_WAY = {
    "rule": " + ".join(f"(has(self.spec.{way}) ? 1 : 0)" for way in WAYS) + " == 1",
    "message": f"exactly one of {', '.join(WAYS)} must say how much is kept free",
}

DEFINITIONS = (
    Definition(
        CAPACITY_RESERVE,
        columns=(
            Column("Wanted", ".status.replicas", "integer", "How many placeholders there should be."),
            Column("Free", ".status.readyReplicas", "integer", "How many of them hold room on a node."),
            Column("Pending", ".status.pendingReplicas", "integer", "How many do not."),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status', "string", "Whether all do."),
            Column("Nodes", ".status.nodes", "integer", "How many Ready nodes the pool has.", priority=1),
            Column(
                "Reason",
                '.status.conditions[?(@.type=="Ready")].reason',
                "string",
                "Why it is ready or not.",
                priority=1,
            ),
            AGE,
        ),
        rules=(ONE_WAY,),
    ),
)

KINDS = (CAPACITY_RESERVE.resource.plural,)
STATUS = tuple(f"{kind}/status" for kind in KINDS)

CONTROL = (
    Rule(GROUP, KINDS, ("list", "watch", "patch"), "how much is kept free; finalizers"),
    Rule(GROUP, STATUS, ("patch",), "what is free now"),
    Rule("", ("events",), ("create", "patch"), "what users should know"),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
)
TARGET = (
    Rule("", ("nodes",), ("list", "watch"), "how much the pool offers"),
    Rule(
        "scheduling.k8s.io",
        ("priorityclasses",),
        ("list", "watch", "create", "delete"),
        "the priority of placeholders",
    ),
)
PLACEHOLDERS = (
    Rule("apps", ("deployments",), ("list", "watch", "create", "patch", "delete"), "the placeholders"),
)
CONTROL_ROLE, TARGET_ROLE = "kubewright-reserves", "kubewright-reserves-nodes"
PLACE_ROLE = "kubewright-reserves-placeholders"


def crds() -> tuple[dict[str, Any], ...]:
    """The one definition of this API."""
    return tuple(crd(each) for each in DEFINITIONS)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/reserves``: name to text; one for each cluster, and the CRD."""
    target = [
        *granted("ClusterRole", TARGET_ROLE, TARGET),
        *granted("Role", PLACE_ROLE, PLACEHOLDERS, namespace=PLACE),
    ]
    return {
        "crd.yaml": HEADER + as_yaml(crds()),
        "control-rbac.yaml": HEADER + as_yaml(granted("ClusterRole", CONTROL_ROLE, CONTROL)),
        "target-rbac.yaml": HEADER + as_yaml(target),
    }


def roles_of_users() -> list[dict[str, Any]]:
    """What users may do with reserves: see them."""
    return [of_users("reserves", "view", GROUP, [*KINDS, *STATUS], READ)]
