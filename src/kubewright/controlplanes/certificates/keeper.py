"""Makes and renews the certificates and kubeconfigs of components, for their controllers.

Theory.      Authorities and kubeconfigs of a component are always made, since other programs look for them by
             name; a leaf certificate is made only where the volumes of the workload name its Secret. The
             control plane is the owner of all of them: a component that is deleted and created again finds
             the same authorities. The controller of the component that makes an authority also rotates it,
             and for that reads the status of all components.
Invariants.  A plan is performed on the Secrets that it was decided on: the steps carry them.
Source       S3-24, S3-25, S3-27 to S3-29; E-06 to E-08.
Called by    ``component.look`` and ``component.act``, through their protocol ``Keeper``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import Component, Reason, StopBefore
from kubewright.api.controlplane.v1alpha4 import API_VERSION, NESTED_CONTROL_PLANE
from kubewright.api.meta import OwnerReference, owner_of
from kubewright.base.plan import in_seconds
from kubewright.controlplanes.certificates.act import Destination, Maker
from kubewright.controlplanes.certificates.look import Reader
from kubewright.controlplanes.certificates.sets import Naming, needed, wanted_by
from kubewright.controlplanes.component.look import CertificateRequest
from kubewright.controlplanes.component.policies import service_cidr, service_domain
from kubewright.controlplanes.component.seen import Certificates, Rotating, Seen
from kubewright.controlplanes.family import KINDS, Family
from kubewright.controlplanes.hosting.contract import WorkloadAddresses
from kubewright.kube.informer import Informers
from kubewright.pki import rotation
from kubewright.pki.credentials import Authority, Signed, Wanted, secrets_of
from kubewright.pki.keyring import Make, Transition, decide, renamed
from kubewright.pki.keys import Algorithm
from kubewright.pki.rotation import Asked, Consumer, Rotation, View, trusted_by
from kubewright.runtime.credentials.values import Found, controlled

STOPS: Mapping[str, Transition] = {
    StopBefore.SIGNING: Transition.SIGN, StopBefore.DROPPING: Transition.DROP
}  # fmt: skip
"""The transition that waits for a user, by ``spec.certificateAuthorities.stopBefore``."""


@dataclass(frozen=True, slots=True)
class Work:
    """Steps, and what they were decided on."""

    destination: Destination
    steps: Sequence[Make]
    found: Mapping[str, Found] = field(repr=False)


class SecretKeeper:
    """The ``Keeper`` that keeps certificates and kubeconfigs in Secrets."""

    def __init__(self, informers: Informers, algorithm: Algorithm) -> None:
        self._clock = informers.client.clock
        self._reader = Reader(informers)
        self._maker = Maker(informers.client, algorithm)

    async def look(self, request: CertificateRequest) -> Certificates:
        """Which certificates and kubeconfigs of a component exist, and which are to be made.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        plane, component = request.family.plane, request.policy.component
        wanted = needed(component, wanted_by(component, naming_of(request)), request.mounted)
        if component is Component.API_SERVER:
            wanted += _of_foreign_controller_manager(request)
        name, before = request.family.name, request.identity.cluster
        names = secrets_of(wanted)
        others = [f"{before}{each.removeprefix(name)}" for each in names] if before != name else []
        found = await self._reader.read(plane.namespace, dict.fromkeys((*names, *others)))
        owner = owner_of(plane, API_VERSION, NESTED_CONTROL_PLANE.resource.kind)
        plan = decide(wanted, found, controlled(found, owner), self._clock.now())
        if before != name:
            plan = renamed(plan, found, before, name)
        transitions, told, wake = await self._rotations(request.family, wanted, found, owner)
        steps = plan.steps or transitions
        destination = Destination(plane.namespace, name, owner)
        return Certificates(
            (Work(destination, steps, found),) if steps else (),
            waiting="; ".join(plan.waiting),
            problem="; ".join(plan.problems),
            wake=min((each for each in (plan.wake, wake) if each is not None), default=None),
            rotating=told,
        )

    async def _rotations(
        self, family: Family, wanted: Sequence[Wanted], found: Mapping[str, Found], owner: OwnerReference
    ) -> tuple[tuple[Make, ...], tuple[Rotating, ...], timedelta | None]:
        """The rotation of its authorities: the steps for now, how far each is, and when to look again."""
        now, answers = self._clock.now(), {}
        for each in wanted:
            if isinstance(each, Authority) and each.secret in found:
                view = await self._view(family, found[each.secret], owner, now)
                answers[each] = rotation.decide(view)
        transitions = tuple(
            Make(each, answer.because, renews=True, transition=answer.transition)
            for each, answer in answers.items()
            if answer.transition is not None
        )
        told = tuple(_rotating(each) for each in answers.values() if each.stage is not None)
        wake = min((each.wake for each in answers.values() if each.wake is not None), default=None)
        return transitions, told, None if wake is None else in_seconds((wake - now).total_seconds())

    async def _view(self, family: Family, authority: Found, owner: OwnerReference, now: datetime) -> View:
        """What is read for one authority: only its own Secret, while it is not being replaced."""
        plane, secret = family.plane, authority.metadata.name
        others: dict[str, Found] = {}
        if len(trusted_by(authority)) > 1:
            mounted = [name for each in family.components.values() for name in each.status.certificates]
            labelled = self._reader.labelled(plane.namespace, family.name)
            others = await self._reader.read(plane.namespace, dict.fromkeys((secret, *labelled, *mounted)))
        consumers = tuple(_consumers(family, authority.metadata.name))
        return View(secret, authority, authority.controlled_by(owner), _asked(family), others, consumers, now)

    async def perform(self, seen: Seen) -> None:
        """Make what ``seen.certificates.steps`` say.

        Raises:
            ApiError, TransportError: a Secret could not be written.
            InvalidInput: a certificate cannot carry the names that it should.
        """
        for work in seen.certificates.steps:
            assert isinstance(work, Work), "the steps are those of this keeper"
            await self._maker.perform(work.destination, work.steps, work.found, seen.now)


def naming_of(request: CertificateRequest) -> Naming:
    """What the certificates and kubeconfigs of a component take names and addresses from."""
    family = request.family
    endpoint = family.plane.spec.control_plane_endpoint
    return Naming(
        family.name,
        family.plane.namespace,
        request.addresses,
        service_cidr(family),
        service_domain(family),
        endpoint if endpoint is not None and endpoint.valid else None,
    )


def _of_foreign_controller_manager(request: CertificateRequest) -> tuple[Wanted, ...]:
    """The kubeconfig for a foreign controller manager, which the contract of provisioners promises."""
    component = Component.CONTROLLER_MANAGER
    found = request.family.components.get(component)
    if found is None or MANAGED_BY_ANNOTATION not in found.metadata.annotations:
        return ()
    return needed(component, wanted_by(component, naming_of(request)), ())


def _asked(family: Family) -> Asked:
    said = family.plane.spec.certificate_authorities
    default = StopBefore.SIGNING if family.cluster is not None else StopBefore.NEVER
    if said is None:
        return Asked(None, STOPS.get(default))
    return Asked(said.rotate_after, STOPS.get(said.stop_before or default))


def _consumers(family: Family, authority: str) -> Iterator[Consumer]:
    """The components, and with which certificates they run; of a foreign one, what its status says."""
    for component, found in family.components.items():
        name, runs = f"{KINDS[component].resource.kind} {found.name}", found.status.certificates
        foreign = MANAGED_BY_ANNOTATION in found.metadata.annotations
        unknown = foreign and authority not in runs and authority in _authorities_of(component, family)
        told = f"another program manages it, and its status.certificates does not say {authority}"
        yield Consumer(name, runs, told if unknown else "")


def _authorities_of(component: Component, family: Family) -> set[str]:
    """The authorities that a component makes, or that signed one of its certificates."""
    every = wanted_by(component, Naming(family.name, family.plane.namespace, WorkloadAddresses(), "", ""))
    return _authorities(every)


def _authorities(wanted: Sequence[Wanted]) -> set[str]:
    own = {each.secret for each in wanted if isinstance(each, Authority)}
    return own | {each.authority for each in wanted if isinstance(each, Signed)}


def _rotating(answer: Rotation) -> Rotating:
    assert answer.stage is not None, "only a rotation that goes on is reported"
    return Rotating(Reason(answer.stage), answer.told)
