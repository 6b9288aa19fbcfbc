"""What a request asks for, as authorization sees it, and the refusal when it may not have it."""

from dataclasses import dataclass

from kubewright.wire.errors import Forbidden
from kubewright.wire.http import User

MASTERS = "system:masters"
"""The group that may do everything, whatever the roles say: the way back in."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Either a resource or, when ``url`` is set, a path that is none.

    ``namespace`` is empty at the cluster scope, ``name`` when all objects are meant. ``part`` is the
    subresource.
    """

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    part: str = ""
    namespace: str = ""
    name: str = ""
    url: str = ""

    @property
    def combined(self) -> str:
        """The resource as rules name it: ``pods``, ``pods/eviction``."""
        return f"{self.resource}/{self.part}" if self.part else self.resource


def forbidden(asked: Attributes, reason: str = "") -> Forbidden:
    """The refusal, in kube-apiserver's sentence; ``reason`` says what authorization missed."""
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
