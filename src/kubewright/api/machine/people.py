"""What people may do with machine objects: parts of the roles ``view``, ``edit`` and ``admin``.

Theory.      Kubernetes' roles for people gather the rules of labelled ClusterRoles. Who may see what is
             in a namespace may see its machines; who may change its workloads may change machines, sets
             and deployments. A MachineClass is different: it names Secrets of any namespace and decides
             what is bought with them, so to write one is left to cluster admins.
Called by    ``compose.embedded``, which makes them beside the CRDs.
"""

from typing import Any

from kubewright.api.machine.access import KINDS, READ
from kubewright.api.machine.v1alpha1 import GROUP

RBAC = "rbac.authorization.k8s.io"
WRITE = ("create", "delete", "deletecollection", "patch", "update")

CLASSES, *FLEET = KINDS
SCALES = [f"{kind}/scale" for kind in FLEET[1:]]


def roles() -> list[dict[str, Any]]:
    """The ClusterRoles. ``admin`` gathers ``edit``, which gathers ``view``."""
    seen = [CLASSES, *FLEET, *(f"{kind}/status" for kind in FLEET), *SCALES]
    return [_part("view", seen, READ), _part("edit", [*FLEET, *SCALES], WRITE)]


def _part(of: str, resources: list[str], verbs: tuple[str, ...]) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"kubewright-machines-{of}", "labels": {f"{RBAC}/aggregate-to-{of}": "true"}},
        "rules": [{"apiGroups": [GROUP], "resources": resources, "verbs": list(verbs)}],
    }
