"""What a request asks for, as authorization sees it, and the 403 Forbidden when no rule allows it."""

from dataclasses import dataclass

from kubewright.wire.errors import Forbidden
from kubewright.wire.http import User

GROUP = "rbac.authorization.k8s.io"
"""The API group of roles and bindings."""

ACCOUNT = "system:serviceaccount:"
"""What the user name of a service account begins with; ``<namespace>:<name>`` follows."""

MASTERS = "system:masters"
"""The group whose members may do everything, whatever the roles say, so that they can repair a wrong role."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """One request: for a resource or, when ``url`` is set, for a non-resource path (``/healthz``).

    ``namespace`` is empty at the cluster scope, ``name`` when the request names no single object. ``node``:
    by which node a list or a watch selects.
    """

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    url: str = ""
    node: str = ""

    @property
    def combined(self) -> str:
        """The resource as rules name it: ``pods``, ``pods/eviction``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def forbidden(asked: Attributes, reason: str = "") -> Forbidden:
    """The refusal, in kube-apiserver's words; ``reason`` names missing roles that bindings refer to."""
    if asked.url:
        said = f'forbidden: User "{asked.user.name}" cannot {asked.verb} path "{asked.url}"'
        return Forbidden(f"{said}: {reason}" if reason else said)
    resource = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    subject = f'{resource} "{asked.name}"' if asked.name else resource
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    what = f'cannot {asked.verb} resource "{asked.combined}" in API group "{asked.group}" {where}'
    said = f'{subject} is forbidden: User "{asked.user.name}" {what}'
    about = {"name": asked.name, "group": asked.group}
    details = {name: value for name, value in about.items() if value} | {"kind": asked.resource}
    return Forbidden(f"{said}: {reason}" if reason else said, details=details)
