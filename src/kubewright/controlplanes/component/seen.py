"""Everything that a decision about one component reads, as one frozen value.

Invariants.  No field shows what is in a Secret. What is None or empty could not be known yet, and
             ``obstacles`` says why.
Called by    ``look`` fills it; ``obstacles``, ``decide`` and ``status`` read it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.names import FINALIZER, Component
from kubewright.api.controlplane.reasons import Reason
from kubewright.api.controlplane.v1alpha4 import API_VERSION
from kubewright.api.meta import owner_of
from kubewright.controlplanes.component.membership import Membership
from kubewright.controlplanes.component.policies import Policy
from kubewright.controlplanes.component.versions import Versions
from kubewright.controlplanes.family import ComponentObject, Family
from kubewright.controlplanes.hosting.contract import Place, Placement, Running, Workload
from kubewright.controlplanes.members.decide import Access
from kubewright.controlplanes.rendering.render import Rendered
from kubewright.controlplanes.templates.choice import Choice, NoChoice


@dataclass(frozen=True, slots=True)
class Rotating:
    """How far the rotation of an authority is, a sentence; or why there is none."""

    stage: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Certificates:
    """What is found of the certificates and kubeconfigs of a component.

    ``steps``    what is to be made or made anew, for ``certificates``
    ``waiting``  why they are not complete yet: the end of a sentence; empty if they are
    ``problem``  what a user has to mend, a sentence; empty if nothing
    ``wake``     when one of them is due
    ``rotating`` of the authorities that it makes: those that are being replaced, or should be and cannot
    """

    steps: Sequence[Any] = field(default=(), repr=False)
    waiting: str = ""
    problem: str = ""
    wake: timedelta | None = None
    rotating: tuple[Rotating, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One component, and all around it.

    ``family``     its control plane; None: none owns it, or the owner is not there
    ``problem``    how its spec breaks the rules of its kind, a sentence
    ``place``      what its programs are named after; None: none can have been started
    ``workload``   what should run, with the contents of ``rendered``'s volumes; None: not known yet
    ``unrendered`` why the templates could not be filled in, a sentence
    ``missing``    Secrets and ConfigMaps, or their entries, that volumes name and that are not there
    ``hosted``     why no host can run it, a sentence
    ``membership`` of an etcd: who its members are; None for others, and while it is not known
    ``access``     by which its members can be called
    ``versions``   those of its control plane and of the components
    ``failed``     why the last step of this pass failed, a sentence
    """

    policy: Policy
    component: ComponentObject
    now: datetime
    family: Family | None = None
    paused: bool = False
    problem: str = ""
    place: Place | None = None
    choice: Choice | NoChoice | None = None
    placement: Placement = field(default_factory=Placement)
    certificates: Certificates = field(default_factory=Certificates)
    rendered: Rendered | None = None
    unrendered: str = ""
    missing: tuple[str, ...] = ()
    workload: Workload | None = None
    hosted: str = ""
    running: Running = field(default_factory=Running)
    membership: Membership | None = None
    access: Access | None = None
    versions: Versions = field(default_factory=Versions)
    failed: str = ""

    @property
    def replicas(self) -> int:
        """How many instances there should be."""
        if self.family is not None and self.family.stopped_for(self.policy.needed_by):
            return 0
        return replicas_of(self.component, self.policy.component, self.family)

    @property
    def size(self) -> int:
        """How many there should be now: an etcd comes to its number by one member after another."""
        return self.replicas if self.membership is None else self.membership.size

    @property
    def why_none(self) -> str:
        """Why there should be no instance: a clause, where there should be none."""
        if self.family is not None and self.family.restore:
            return f"it is stopped for ControlPlaneRestore {self.family.restore}"
        if self.family is not None and self.family.stopped_for(self.policy.needed_by):
            return "its control plane sleeps"
        return "it has no instance, as its spec says"


def place_of(found: ComponentObject, policy: Policy, family: Family | None) -> Place | None:
    """What its programs are named after: what it was started with, else what its control plane is."""
    meta = found.metadata
    started = meta.labels.get(CLUSTER_NAME_LABEL, "") if FINALIZER in meta.finalizers else ""
    cluster = started or (family.name if family is not None else "")
    if not cluster:
        return None
    owner = owner_of(found, API_VERSION, policy.kind.resource.kind)
    return Place(meta.namespace, cluster, policy.component, owner)


def counted(replicas: int) -> str:
    """How many instances, in words."""
    return "1 instance" if replicas == 1 else f"{replicas} instances"


def replicas_of(found: ComponentObject, component: Component, family: Family | None) -> int:
    """How many instances a component should have: its own number, else (API server) its plane's, else 1.

    Below zero is broken, and counts as zero.
    """
    asked = found.spec.replicas
    if asked is None and component is Component.API_SERVER and family is not None:
        asked = family.plane.spec.replicas
    return 1 if asked is None else max(asked, 0)
