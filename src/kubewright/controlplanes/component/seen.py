"""Everything that a decision about one component reads, as one frozen value.

Invariants.  No field shows the content of a Secret in its repr. A field is None or empty where it cannot be
             known yet; ``obstacles`` says why.
Called by    ``look`` fills it; ``obstacles``, ``decide`` and ``status`` read it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.controlplane.names import LOST_DATA_ANNOTATION, Component, Reason
from kubewright.api.controlplane.v1alpha4 import API_VERSION, NestedEtcd
from kubewright.api.meta import owner_of
from kubewright.controlplanes.component.policies import Policy
from kubewright.controlplanes.component.workload import Membership
from kubewright.controlplanes.family import ComponentObject, Family, Pause, started_as
from kubewright.controlplanes.hosting.contract import Running, Workload, WorkloadAddresses, WorkloadIdentity
from kubewright.controlplanes.members import Access
from kubewright.controlplanes.templates.choice import Choice, NoChoice, Versions
from kubewright.controlplanes.templates.render import Rendered

LONGEST_WAIT = timedelta(minutes=2)
"""For the end of the component that needs this one. It is longer than an API server takes at most to end."""
ONE_AFTER_ANOTHER = timedelta(seconds=10)
"""Until a user who asks several components for no instance has written all of them."""


@dataclass(frozen=True, slots=True)
class Rotating:
    """How far the rotation of one authority is, or why it is not rotated: a reason and a sentence."""

    stage: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates and kubeconfigs of a component: what is missing, due or broken.

    ``steps``    what the keeper is to make or to renew; only the keeper reads them
    ``waiting``  why some are not there yet: the end of a sentence; empty if all are
    ``problem``  what a user has to mend, a sentence; empty if nothing
    ``wake``     after what time the next one has to be renewed
    ``rotating`` the authorities that this component makes and that are being replaced, or cannot be
    """

    steps: Sequence[Any] = field(default=(), repr=False)
    waiting: str = ""
    problem: str = ""
    wake: timedelta | None = None
    rotating: tuple[Rotating, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One component, and all around it.

    ``policy``        what differs between the three kinds
    ``family``        its control plane; None: no control plane owns it, or its owner does not exist
    ``original``      the component that its control plane names in its place; then this is a copy, and
                      nothing that runs is its own. Empty: there is none
    ``rival``         the component of another control plane that has the names of its instances; then nothing
                      that runs is its own, either. Empty: there is none
    ``pause``         by what it is paused; None: it is not
    ``problem``       how its spec breaks the rules of its kind, a sentence
    ``identity``      what its workload is named after; None: no instance can have been started
    ``choice``        the version and the templates that follow from its spec, or why there are none
    ``addresses``     those of its workload, as far as they are known
    ``certificates``  what of its certificates is missing, due or broken
    ``rendered``      the manifests; None: not known yet, or ``unrendered`` says why there are none
    ``to_reserve``    a workload of which a part, such as its Services, has to be made before its addresses
                      are known; None: it is there
    ``workload``      what should run: ``rendered`` with the content of its volumes; None: not known yet
    ``unrendered``    why the templates could not be filled in, a sentence; else empty
    ``missing``       Secrets and ConfigMaps, or their entries, that volumes name and that do not exist
    ``unhosted``      why no host can run it, a sentence; empty if one can
    ``running``       what the host that has it answers
    ``membership``    of an etcd: its members and their next change; None: unknown, or no etcd
    ``access``        how the members of an etcd are called; None: they were not asked
    ``versions``      the versions of its control plane and of all its components
    ``failed``        why the last step of this pass failed, a sentence
    ``none_for``      for how long this process has seen that its spec asks for no instance, while there are
                      some
    ``deleting_for``  for how long it is being deleted, and the component that needs it too where that one is,
                      on a clock that does not step
    """

    policy: Policy
    component: ComponentObject
    now: datetime
    family: Family | None = None
    original: str = ""
    rival: str = ""
    pause: Pause | None = None
    problem: str = ""
    identity: WorkloadIdentity | None = None
    choice: Choice | NoChoice | None = None
    addresses: WorkloadAddresses = field(default_factory=WorkloadAddresses)
    certificates: Certificates = field(default_factory=Certificates)
    rendered: Rendered | None = None
    unrendered: str = ""
    missing: tuple[str, ...] = ()
    to_reserve: Workload | None = None
    workload: Workload | None = None
    unhosted: str = ""
    running: Running = field(default_factory=Running)
    membership: Membership | None = None
    access: Access | None = None
    versions: Versions = field(default_factory=Versions)
    failed: str = ""
    none_for: timedelta = timedelta()
    deleting_for: timedelta = timedelta()

    @property
    def replicas(self) -> int:
        """How many instances there should be in the end; those that wait for another component stay."""
        if self.family is not None and self.family.stopped_for(self.policy.needed_by):
            return 0
        return self.running.replicas if self.ends_first is not None else self.asked

    @property
    def asked(self) -> int:
        """How many instances its spec asks for."""
        return replicas_of(self.component, self.policy.component, self.family)

    @property
    def stops_after(self) -> ComponentObject | None:
        """Where its control plane is to stop: the component that ends before it; None: there is none."""
        family, needed_by = self.family, self.policy.needed_by
        if family is None or not family.stops or family.stopped_for(needed_by):
            return None
        return family.ends_before(needed_by)

    @property
    def ends_first(self) -> ComponentObject | None:
        """Where its spec asks for no instance: the component that ends before it; None: it does not wait.

        An API server whose etcd is gone would end only when it is killed.
        """
        if self.family is None or self.asked or not self.running.replicas or self.none_for >= self.patience:
            return None
        return self.family.ends_before(self.policy.needed_by)

    @property
    def lost(self) -> tuple[str, ...]:
        """The members of an etcd that is to start again whose data is gone, but for those a user gave up."""
        found, there = self.component, self.running.data
        if not isinstance(found, NestedEtcd) or self.identity is None or there is None or not self.replicas:
            return ()
        if not self.running.applied and self.rendered is not None and not self.rendered.has_claims:
            return ()  # a user's templates keep its data nowhere
        had = range(len(found.status.addresses) or 1) if found.status.version else ()
        annotated = found.metadata.annotations.get(LOST_DATA_ANNOTATION, "")
        given_up = [each.strip() for each in annotated.split(",")]
        names = (self.identity.instance(each) for each in had if each not in there)
        return tuple(each for each in names if each not in given_up)

    @property
    def patience(self) -> timedelta:
        """How long it waits for the component that needs it, once its spec asks for no instance."""
        needed_by = self.policy.needed_by
        after = self.family.components.get(needed_by) if self.family is not None and needed_by else None
        if after is None or needed_by is None or replicas_of(after, needed_by, self.family):
            return ONE_AFTER_ANOTHER
        return LONGEST_WAIT

    @property
    def size(self) -> int:
        """How many instances there should be now: an etcd gains and loses one member at a time."""
        return self.replicas if self.membership is None else self.membership.size

    @property
    def why_none(self) -> str:
        """Why there should be no instance, a clause. Only for a component that should have none."""
        if self.family is not None and self.family.restore:
            return f"it is stopped for ControlPlaneRestore {self.family.restore}"
        if self.family is not None and self.family.stopped_for(self.policy.needed_by):
            return "its control plane sleeps"
        return "it has no instance, as its spec says"


def identity_of(found: ComponentObject, policy: Policy, family: Family | None) -> WorkloadIdentity | None:
    """What its workload is named after: its label once it has our finalizer, else the name of its family.

    So what was started is found even after the family has got another name.
    """
    meta = found.metadata
    cluster = started_as(meta) or (family.name if family is not None else "")
    if not cluster:
        return None
    owner = owner_of(found, API_VERSION, policy.kind.resource.kind)
    return WorkloadIdentity(meta.namespace, cluster, policy.component, owner)


def counted(replicas: int) -> str:
    """How many instances, in words."""
    return "1 instance" if replicas == 1 else f"{replicas} instances"


def replicas_of(found: ComponentObject, component: Component, family: Family | None) -> int:
    """How many instances its spec asks for, or (API server only) that of its control plane, or 1.

    A number below zero is refused elsewhere, and counts as zero here.
    """
    asked = found.spec.replicas
    if asked is None and component is Component.API_SERVER and family is not None:
        asked = family.plane.spec.replicas
    return 1 if asked is None else max(asked, 0)
