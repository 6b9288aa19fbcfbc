"""What runs of one nested control plane in this process, as values, and how its components are told of it.

Theory.      The host of this process keeps a ``NestedPlane`` for each control plane; the controllers of
             components read an ``Instance`` of each part of it. The API server gets its keys from the Secrets
             that the volumes of its pod template name, as one in a pod does.
Invariants.  A message says what a user does, if what is waited for never comes. No message contains what is
             in a Secret.
Called by    ``task_hosting``.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubewright import __version__
from kubewright.api.controlplane.names import Component
from kubewright.apiserver.http.listener import HOST
from kubewright.apiserver.http.pki import Pki
from kubewright.base.errors import InvalidInput
from kubewright.compose.api_servers import Plane
from kubewright.controlplanes.family import KINDS
from kubewright.controlplanes.hosting.contract import Instance, Workload, WorkloadIdentity
from kubewright.pki.certificates import Identity
from kubewright.wire.release import version_of

REPLACE = "replace them, or delete the Secret if Kubewright made it"


@dataclass(slots=True)
class Part:
    """One component: what was applied last, and with which settings its instance runs, since when.

    ``message``  why it cannot start; empty if it can
    """

    workload: Workload
    fingerprint: str
    since: float
    message: str = ""


@dataclass(slots=True)
class NestedPlane:
    """One control plane.

    ``plane``        its API server; None: it does not run
    ``controllers``  its controllers; None: they do not run. They end when ``ending`` is set
    ``retry``        waits to start again what could not start or ended by a defect; None: none waits
    ``changes``      how many calls change it, or wait for ``lock`` to do so
    """

    parts: dict[Component, Part] = field(default_factory=dict)
    plane: Plane | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    controllers: asyncio.Future[None] | None = None
    retry: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    changes: int = 0

    @property
    def idle(self) -> bool:
        """Whether nothing of it is applied, runs, or is about to change, so that it can be forgotten."""
        running = (self.plane, self.controllers, self.retry)
        return not self.parts and not self.changes and all(each is None for each in running)

    def wants(self, component: Component) -> bool:
        """Whether a component is to have an instance."""
        part = self.parts.get(component)
        return part is not None and part.workload.replicas > 0


def instance_of(identity: WorkloadIdentity, part: Part, nested: NestedPlane) -> Instance:
    """The one instance of a component, as it is now."""
    ready, message = _readiness(identity.component, part, nested)
    return Instance(
        ordinal=0,
        name=identity.instance(0),
        host=HOST if identity.component is Component.API_SERVER else "",
        fingerprint=part.fingerprint,
        version=version_of(__version__),
        ready=ready,
        since=part.since,
        message=message,
    )


def _readiness(component: Component, part: Part, nested: NestedPlane) -> tuple[bool, str]:
    """Whether an instance is ready, and what is wrong or waited for. An etcd, a folder, always is."""
    if component is Component.API_SERVER:
        ready = nested.plane is not None and nested.plane.serves
        return ready, part.message or ("" if ready else _missing(Component.ETCD))
    if component is Component.CONTROLLER_MANAGER:
        ready = nested.controllers is not None and not nested.controllers.done()
        return ready, "" if ready else part.message or _missing(Component.API_SERVER)
    return True, ""


def _missing(needed: Component) -> str:
    """What a component waits for, and what a user does if that never comes."""
    kind = KINDS[needed].resource.kind
    return f"no {kind} of its control plane runs inside this process; it needs one of version embedded too"


def keys_of(workload: Workload) -> Pki:
    """The authority of clients, and the API server's own certificate, from the volumes of its pod.

    Raises:
        InvalidInput: a Secret is not what it should be.
    """
    authority, _ = _secret(workload, "ca", "tls.crt")
    own, secret = _secret(workload, "apiserver", "tls.crt", "tls.key")
    try:
        identity = Identity.from_pem(b"\n".join(own))
    except ValueError:
        told = f"tls.crt and tls.key of Secret {secret} are not a certificate in PEM and its key"
        raise InvalidInput(f"{told}; {REPLACE}") from None
    # It has no administrator of its own: kubeconfigs are made by the controllers of the control plane.
    return Pki(authority[0], server=identity, admin=identity)


def _secret(workload: Workload, volume: str, *keys: str) -> tuple[list[bytes], str]:
    """These entries of the Secret that a volume of the pod template names, and the Secret's name."""
    volumes = workload.rendered.workload["spec"]["template"]["spec"].get("volumes") or ()
    name = next((each["secret"]["secretName"] for each in volumes if _is_secret(each, volume)), None)
    if name is None:
        raise InvalidInput(f"the pod template has no volume {volume} from a Secret; mend spec.patches")
    data = workload.contents.get(name, {})
    if missing := [key for key in keys if key not in data]:
        raise InvalidInput(f"Secret {name} has no {' and no '.join(missing)}; {REPLACE}")
    return [data[key] for key in keys], name


def _is_secret(volume: Mapping[str, Any], name: str) -> bool:
    return volume["name"] == name and "secret" in volume
