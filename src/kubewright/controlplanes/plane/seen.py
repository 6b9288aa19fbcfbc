"""Everything that a decision about one control plane reads, as one frozen value; and whether it sleeps. Pure.

Sleep.       Where ``spec.asleep`` is set, it decides. Else the latest moment of all entries of the schedule
             decides: it is either a sleep or a wake. Nothing is kept, so after a time in which no controller
             ran the answer is the same as if one had run. Components read the answer in ``status.asleep``.
Invariants.  Moments before the object was created do not count, so a control plane that is created in the
             evening starts. If a sleep and a wake are at the same moment, it wakes.
Called by    ``act`` fills it; ``decide`` and ``status`` read it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import PUBLISHED_ANNOTATION, Component
from kubewright.api.controlplane.schedules import following, latest
from kubewright.api.controlplane.v1alpha4 import (
    API_VERSION,
    NESTED_CONTROL_PLANE,
    NestedAPIServer,
    NestedControlPlaneSpec,
)
from kubewright.api.meta import OwnerReference, owner_of
from kubewright.controlplanes.family import KINDS, ComponentObject, Family, Pause, references

Find = Callable[[str, str, datetime], datetime | None]


@dataclass(frozen=True, slots=True)
class Rest:
    """Whether it sleeps. ``until``: when the schedule next changes that; None: it does not.

    ``by_hand``  whether ``spec.asleep`` decides
    """

    asleep: bool = False
    until: datetime | None = None
    by_hand: bool = False


def rest_of(spec: NestedControlPlaneSpec, made: datetime | None, now: datetime) -> Rest:
    """Whether a control plane with this spec sleeps at ``now``. ``made``: when it was created.

    Raises:
        InvalidInput: a schedule cannot be read.
    """
    if spec.asleep is not None:
        return Rest(spec.asleep, by_hand=True)
    since = made if made is not None else now
    sleeps, wakes = (
        max((each for each in _all(spec, sleep, latest, now) if each > since), default=None)
        for sleep in (True, False)
    )
    asleep = sleeps is not None and (wakes is None or wakes < sleeps)
    return Rest(asleep, min(_all(spec, not asleep, following, now), default=None))


def _all(spec: NestedControlPlaneSpec, sleep: bool, find: Find, now: datetime) -> Iterator[datetime]:
    """The moment that ``find`` finds in each entry: of its sleep, or of its wake."""
    for each in spec.schedule:
        expression = each.sleep if sleep else each.wake
        if expression and (moment := find(expression, each.time_zone, now)) is not None:
            yield moment


@dataclass(frozen=True, slots=True)
class Named:
    """A component that the control plane names; ``found`` None: it does not exist."""

    component: Component
    name: str
    found: ComponentObject | None

    def __str__(self) -> str:
        return f"{KINDS[self.component].resource.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Seen:
    """One control plane, and all around it.

    ``family``      the control plane, its Cluster, and the components that it names and that exist
    ``pause``       by what it is paused; None: it is not
    ``problem``     how its spec breaks the rules of its kind, a sentence
    ``kubeconfig``  whether the Secret with the kubeconfig exists
    ``rest``        whether it sleeps, and until when
    ``owned``       the components that it controls, also those that its spec no longer names
    """

    family: Family
    now: datetime
    pause: Pause | None = None
    problem: str = ""
    kubeconfig: bool = False
    rest: Rest = field(default_factory=Rest)
    owned: tuple[tuple[Component, ComponentObject], ...] = ()

    @property
    def owner(self) -> OwnerReference:
        """The owner reference that its components get."""
        return owner_of(self.family.plane, API_VERSION, NESTED_CONTROL_PLANE.resource.kind)

    @property
    def managed_elsewhere(self) -> bool:
        """Whether an annotation leaves this control plane to another program."""
        return MANAGED_BY_ANNOTATION in self.family.plane.metadata.annotations

    def named(self) -> Iterator[Named]:
        """The components that it names, in the order in which they start."""
        asked = references(self.family.plane.spec)
        for component in Component:
            if component in asked:
                yield Named(component, asked[component].name, self.family.components.get(component))

    def controls(self, found: ComponentObject) -> bool:
        """Whether it is the controlling owner of this component."""
        owner = found.metadata.controller
        return owner is not None and owner.uid == self.family.plane.metadata.uid

    def conflict_of(self, found: ComponentObject) -> str:
        """Which other object controls a component, a clause; empty: none does."""
        owner = found.metadata.controller
        return (
            f"{owner.kind} {owner.name} controls it" if owner is not None and not self.controls(found) else ""
        )

    @property
    def reported_endpoint(self) -> ApiEndpoint | None:
        """Where the API server says that it is reached."""
        found = self.family.components.get(Component.API_SERVER)
        if not isinstance(found, NestedAPIServer) or not self.controls(found):
            return None
        told = found.status.endpoint
        return told if told is not None and told.valid else None

    @property
    def moved_to(self) -> ApiEndpoint | None:
        """Where its API server is reached now, if another endpoint was published; None: it has not moved.

        An endpoint that a user wrote into the spec leads there in a way that the user knows.
        """
        plane, told = self.family.plane, self.reported_endpoint
        known = plane.spec.control_plane_endpoint
        if told is None or known is None or not known.valid or told == known:
            return None
        return told if plane.metadata.annotations.get(PUBLISHED_ANNOTATION) == str(known) else None

    @property
    def not_followed(self) -> str:
        """Why an API server that has moved is not followed, and what helps, a sentence; empty: it is.

        Cluster API copies an endpoint once, and the machines of the Cluster know that one.
        """
        told, cluster = self.moved_to, self.family.cluster
        there = cluster.spec.control_plane_endpoint if cluster is not None else None
        if told is None or cluster is None or there is None or not there.valid or there == told:
            return ""
        return (
            f"its API server is reached at {told} now, and Cluster {cluster.name} and its machines know "
            f"{there}: have {there} lead to it, or write {told} into spec.controlPlaneEndpoint of the Cluster"
        )
