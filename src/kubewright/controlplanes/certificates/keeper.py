"""Look after the certificates and kubeconfigs of components, for their controllers.

Theory.      A component's authorities and kubeconfigs are always made, since other programs look for them by
             name; a certificate only where the volumes of what runs name it. All of them are controlled by
             the control plane: a component that is deleted and made again finds the same authorities. The
             controller that makes an authority also replaces it, and looks for that at all components.
Invariants.  What is decided on is what is performed: the steps carry the Secrets that they were decided on.
Source       nested.md A4 (owners), A6, A7.
Called by    ``component.look`` and ``component.act``, through their ``Keeper``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import Component, StopBefore
from kubewright.api.controlplane.v1alpha4 import API_VERSION, NESTED_CONTROL_PLANE
from kubewright.api.meta import OwnerReference, owner_of
from kubewright.base.plan import in_seconds
from kubewright.controlplanes.certificates import rotation
from kubewright.controlplanes.certificates.act import Home, Maker
from kubewright.controlplanes.certificates.decide import Make, decide, renamed, secrets_of
from kubewright.controlplanes.certificates.found import Found
from kubewright.controlplanes.certificates.look import Reader
from kubewright.controlplanes.certificates.rotation import Asked, Consumer, Rotation, View, trusted_by
from kubewright.controlplanes.certificates.sets import Around, needed, wanted_by
from kubewright.controlplanes.certificates.wanted import Authority, Signed, Wanted
from kubewright.controlplanes.component.look import CertificateRequest
from kubewright.controlplanes.component.policies import service_cidr, service_domain
from kubewright.controlplanes.component.seen import Certificates, Rotating, Seen
from kubewright.controlplanes.family import KINDS, Family
from kubewright.controlplanes.hosting.contract import Placement
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
        if component is Component.API_SERVER:
            wanted += _for_another(request)
        name, before = request.family.name, request.place.cluster
        names = secrets_of(wanted)
        others = [f"{before}{each.removeprefix(name)}" for each in names] if before != name else []
        found = await self._reader.read(plane.namespace, dict.fromkeys((*names, *others)))
        owner = owner_of(plane, API_VERSION, NESTED_CONTROL_PLANE.resource.kind)
        plan = decide(wanted, found, owner, self._clock.now())
        if before != name:
            plan = renamed(plan, found, before, name)
        turns, told, wake = await self._rotations(request.family, wanted, found, owner)
        steps = plan.steps or turns
        home = Home(plane.namespace, name, owner)
        return Certificates(
            (Work(home, steps, found),) if steps else (),
            waiting="; ".join(plan.waiting),
            problem="; ".join(plan.problems),
            wake=min((each for each in (plan.wake, wake) if each is not None), default=None),
            rotating=told,
        )

    async def _rotations(
        self, family: Family, wanted: Sequence[Wanted], found: Mapping[str, Found], owner: OwnerReference
    ) -> tuple[tuple[Make, ...], tuple[Rotating, ...], timedelta | None]:
        """The turns that the authorities of this component take now, how far each is, and when one is due."""
        now, answers = self._clock.now(), {}
        for each in wanted:
            if isinstance(each, Authority) and each.secret in found:
                view = await self._view(family, found[each.secret], owner, now)
                answers[each] = rotation.decide(view)
        turns = tuple(
            Make(each, answer.because, found[each.secret].metadata, turn=answer.turn)
            for each, answer in answers.items()
            if answer.turn is not None
        )
        told = tuple(_told(each) for each in answers.values() if each.stage is not None)
        wake = min((each.wake for each in answers.values() if each.wake is not None), default=None)
        return turns, told, None if wake is None else in_seconds((wake - now).total_seconds())

    async def _view(self, family: Family, authority: Found, owner: OwnerReference, now: datetime) -> View:
        """What is read for one authority: while it is not being replaced, nothing but itself."""
        plane, secret = family.plane, authority.metadata.name
        others: dict[str, Found] = {}
        if len(trusted_by(authority)) > 1:
            mounted = [name for each in family.components.values() for name in each.status.certificates]
            labelled = self._reader.labelled(plane.namespace, family.name)
            others = await self._reader.read(plane.namespace, dict.fromkeys((secret, *labelled, *mounted)))
        consumers = tuple(_consumers(family, authority.metadata.name))
        return View(secret, authority, authority.owned_by(owner), _asked(family), others, consumers, now)

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


def _for_another(request: CertificateRequest) -> tuple[Wanted, ...]:
    """The kubeconfig of a controller manager that another program runs: the contract of provisioners."""
    component = Component.CONTROLLER_MANAGER
    found = request.family.components.get(component)
    if found is None or MANAGED_BY_ANNOTATION not in found.metadata.annotations:
        return ()
    return needed(component, wanted_by(component, around(request)), ())


def _asked(family: Family) -> Asked:
    said = family.plane.spec.certificate_authorities
    default = StopBefore.SIGNING if family.cluster is not None else StopBefore.NEVER
    if said is None:
        return Asked(None, default)
    return Asked(said.rotate_after, said.stop_before or default)


def _consumers(family: Family, authority: str) -> Iterator[Consumer]:
    """The components, and with which certificates they run; of a foreign one only what it says."""
    for component, found in family.components.items():
        name, runs = f"{KINDS[component].resource.kind} {found.name}", found.status.certificates
        foreign = MANAGED_BY_ANNOTATION in found.metadata.annotations
        unknown = foreign and authority not in runs and authority in _concern(component, family)
        told = f"another program manages it, and its status.certificates does not say {authority}"
        yield Consumer(name, runs, told if unknown else "")


def _concern(component: Component, family: Family) -> set[str]:
    """The authorities by which a component verifies others, or that signed what it presents."""
    every = wanted_by(component, Around(family.name, family.plane.namespace, Placement(), "", ""))
    return _authorities(every)


def _authorities(wanted: Sequence[Wanted]) -> set[str]:
    own = {each.secret for each in wanted if isinstance(each, Authority)}
    return own | {each.authority for each in wanted if isinstance(each, Signed)}


def _told(answer: Rotation) -> Rotating:
    assert answer.stage is not None, "only what goes on is told"
    return Rotating(answer.stage, answer.told)
