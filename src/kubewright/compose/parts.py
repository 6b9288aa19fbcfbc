"""What runs of one nested control plane in this process, as values, and how its components are told of it.

Theory.      The host of this process keeps a ``Nested`` for each control plane; the controllers of components
             read an ``Instance`` of each part of it. The API server gets its keys from the Secrets that the
             volumes of its pod template name, as one in a pod does.
Invariants.  A message says what a user does, if what is waited for never comes. No message contains what is
             in a Secret.
Called by    ``task_hosting``.
"""

import asyncio
from dataclasses import dataclass, field

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
class Nested:
    """One control plane.

    ``plane``        its API server; None: it does not run
    ``controllers``  its controllers; None: they do not run. They end when ``ending`` is set
    ``retry``        starts an API server again that could not start
    """

    parts: dict[Component, Part] = field(default_factory=dict)
    plane: Plane | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    controllers: asyncio.Task[None] | None = None
    retry: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def wants(self, component: Component) -> bool:
        """Whether a component is to have an instance."""
        part = self.parts.get(component)
        return part is not None and part.workload.replicas > 0


def instance_of(identity: WorkloadIdentity, part: Part, nested: Nested) -> Instance:
    """The one instance of a component, as it is now."""
    needs, ready = "", True
    if identity.component is not Component.ETCD:
        ready = nested.plane is not None and nested.plane.serves
        needs = part.message or ("" if ready else _missing(Component.ETCD))
    if identity.component is Component.CONTROLLER_MANAGER:
        ready = nested.controllers is not None and not nested.controllers.done()
        needs = "" if ready else _missing(Component.API_SERVER)
    return Instance(
        ordinal=0,
        name=identity.instance(0),
        host=HOST if identity.component is Component.API_SERVER else "",
        fingerprint=part.fingerprint,
        version=version_of(__version__),
        ready=ready,
        since=part.since,
        message=needs,
    )


def _missing(needed: Component) -> str:
    """What a component waits for, and what a user does if that never comes."""
    kind = KINDS[needed].resource.kind
    return f"no {kind} of its control plane runs inside this process; it needs one of version embedded too"


def keys_of(workload: Workload) -> Pki:
    """The authority of clients, and the API server's own certificate, from the volumes of its pod.

    Raises:
        InvalidInput: a Secret is not what it should be.
    """
    volumes = workload.rendered.workload["spec"]["template"]["spec"]["volumes"]
    named = {each["name"]: each["secret"]["secretName"] for each in volumes if "secret" in each}
    authority, own = (workload.contents[named[volume]] for volume in ("ca", "apiserver"))
    try:
        identity = Identity.from_pem(own["tls.crt"] + b"\n" + own["tls.key"])
    except ValueError:
        told = f"tls.crt and tls.key of Secret {named['apiserver']} are not a certificate in PEM and its key"
        raise InvalidInput(f"{told}; replace them, or delete the Secret if Kubewright made it") from None
    # It has no administrator of its own: kubeconfigs are made by the controllers of the control plane.
    return Pki(authority["tls.crt"], identity, identity)
