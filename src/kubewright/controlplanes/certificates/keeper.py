"""Look after the certificates and kubeconfigs of components, for their controllers.

Theory.      A component's authorities and kubeconfigs are always made, since other programs look for them by
             name; a certificate only where the volumes of what runs name it. All of them are controlled by
             the control plane: a component that is deleted and made again finds the same authorities.
Invariants.  What is decided on is what is performed: the steps carry the Secrets that they were decided on.
Source       nested.md A4 (owners), A6, A7.
Called by    ``component.look`` and ``component.act``, through their ``Keeper``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubewright.api.controlplane.v1alpha4 import API_VERSION, NESTED_CONTROL_PLANE
from kubewright.api.meta import owner_of
from kubewright.controlplanes.certificates.act import Home, Maker
from kubewright.controlplanes.certificates.decide import Make, decide, renamed, secrets_of
from kubewright.controlplanes.certificates.found import Found
from kubewright.controlplanes.certificates.look import Reader
from kubewright.controlplanes.certificates.sets import Around, needed, wanted_by
from kubewright.controlplanes.component.look import CertificateRequest
from kubewright.controlplanes.component.policies import service_cidr, service_domain
from kubewright.controlplanes.component.seen import Certificates, Seen
from kubewright.kube.informers import Informers
from kubewright.pki.keys import Algorithm


@dataclass(frozen=True, slots=True)
class Work:
    """Steps, and what they were decided on."""

    home: Home
    steps: Sequence[Make]
    found: Mapping[str, Found] = field(repr=False)


class SecretKeeper:
    """Keeps them in Secrets."""

    def __init__(self, informers: Informers, algorithm: Algorithm) -> None:
        self._clock = informers.client.clock
        self._reader = Reader(informers)
        self._maker = Maker(informers.client, algorithm)

    async def look(self, request: CertificateRequest) -> Certificates:
        """What is there of them, and what is to be made.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        plane, component = request.family.plane, request.policy.component
        wanted = needed(component, wanted_by(component, around(request)), request.mounted)
        name, before = request.family.name, request.place.cluster
        names = secrets_of(wanted)
        others = [f"{before}{each.removeprefix(name)}" for each in names] if before != name else []
        found = await self._reader.read(plane.namespace, dict.fromkeys((*names, *others)))
        owner = owner_of(plane, API_VERSION, NESTED_CONTROL_PLANE.resource.kind)
        plan = decide(wanted, found, owner, self._clock.now())
        if before != name:
            plan = renamed(plan, found, before, name)
        home = Home(plane.namespace, name, owner)
        return Certificates(
            (Work(home, plan.steps, found),) if plan.steps else (),
            waiting="; ".join(plan.waiting),
            problem="; ".join(plan.problems),
            wake=plan.wake,
        )

    async def perform(self, seen: Seen) -> None:
        """Make what ``seen.certificates.steps`` say.

        Raises:
            ApiError, TransportError: a Secret could not be written.
            InvalidInput: a certificate cannot carry the names that it should.
        """
        for work in seen.certificates.steps:
            assert isinstance(work, Work), "the steps are those of this keeper"
            await self._maker.perform(work.home, work.steps, work.found, seen.now)


def around(request: CertificateRequest) -> Around:
    """What the certificates of a component name; kubeconfigs lead to the endpoint of the control plane."""
    family = request.family
    endpoint = family.plane.spec.control_plane_endpoint
    return Around(
        family.name,
        family.plane.namespace,
        request.placement,
        service_cidr(family),
        service_domain(family),
        endpoint if endpoint is not None and endpoint.valid else None,
    )
