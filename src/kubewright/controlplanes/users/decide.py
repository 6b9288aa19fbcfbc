"""Decide about the kubeconfig of one user of a control plane, and what the status says. Pure.

Theory.      One function decides about all certificates of control planes (``certificates.decide``). A user's
             kubeconfig is one of these values, with its own owner and lifetime. So it is renewed when half of
             its life is over, when name, groups, lifetime or endpoint change, and when the authority is
             rotated.
Invariants.  Equal views give equal answers. The Secret is called ``<cluster>-user-<name>``, so it is no
             kubeconfig of a Cluster: those end in ``-kubeconfig``, and Cluster API reads them.
Source       S3-46 to S3-48; decision 0037.
Called by    ``reconciler``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    READY,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.controlplane.reasons import Reason
from kubewright.api.controlplane.v1alpha4 import (
    API_VERSION,
    CONTROL_PLANE_USER,
    ControlPlaneUser,
    ControlPlaneUserStatus,
)
from kubewright.api.controlplane.validate import lifetime_of
from kubewright.api.meta import OwnerReference, owner_of
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.controlplanes.certificates import decide as certificates
from kubewright.controlplanes.certificates.found import Found
from kubewright.controlplanes.certificates.wanted import Kubeconfig
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.pausing import Pause, with_pause, without_pause
from kubewright.runtime.credentials.values import Purpose, secret_name, url
from kubewright.wire.http import User


@dataclass(frozen=True, slots=True)
class Seen:
    """One user, and all around it. ``family`` None: the control plane does not exist.

    ``pause``    by what it is paused; None: it is not
    ``problem``  how its spec breaks the rules of its kind, a sentence
    ``found``    the Secrets of the kubeconfig and of its authority that exist, by name
    """

    user: ControlPlaneUser
    now: datetime
    family: Family | None = None
    pause: Pause | None = None
    problem: str = ""
    found: Mapping[str, Found] = field(default_factory=dict, repr=False)

    @property
    def owner(self) -> OwnerReference:
        """The owner reference of the Secret, so that it is deleted with the object."""
        return owner_of(self.user, API_VERSION, CONTROL_PLANE_USER.resource.kind)


def wanted(user: ControlPlaneUser, family: Family | None) -> Kubeconfig | None:
    """The kubeconfig that there should be; None: the endpoint is not known yet."""
    endpoint = family.plane.spec.control_plane_endpoint if family is not None else None
    if family is None or endpoint is None or not endpoint.valid:
        return None
    name, cluster = user.spec.user or user.name, family.name
    return Kubeconfig(
        f"{cluster}-user-{user.name}",
        secret_name(cluster, Purpose.CA),
        url(endpoint),
        User(name, user.spec.groups),
        cluster,
        name,
        lifetime_of(user.spec),
    )


def decide(seen: Seen) -> certificates.Plan:
    """What is made now, what is waited for, and what a user has to mend."""
    if seen.pause is not None:
        return certificates.Plan(because=f"paused: {seen.pause.because}")
    if seen.problem:
        return certificates.Plan(because=seen.problem, problems=(seen.problem,))
    if seen.family is None:
        told = f"there is no NestedControlPlane {seen.user.spec.control_plane_name}"
        return certificates.Plan(because=told, waiting=(told,))
    kubeconfig = wanted(seen.user, seen.family)
    if kubeconfig is None:
        told = f"the endpoint of NestedControlPlane {seen.family.plane.name} is not known yet"
        return certificates.Plan(because=told, waiting=(told,))
    return certificates.decide((kubeconfig,), seen.found, seen.owner, seen.now)


def status_of(seen: Seen, plan: certificates.Plan) -> ControlPlaneUserStatus:
    """The status, as it is to be written when all steps are done."""
    before = seen.user.status
    if seen.pause is not None:
        return structs.replace(before, conditions=with_pause(before.conditions, seen.pause, seen.now))
    kubeconfig = wanted(seen.user, seen.family) if not seen.problem else None
    found = seen.found.get(kubeconfig.secret) if kubeconfig is not None else None
    held = found.kubeconfig if found is not None and found.owned_by(seen.owner) else None
    told = "; ".join((*plan.problems, *plan.waiting))[:MESSAGE_CHARS]
    if plan.problems:
        ready = false_condition(READY, Reason.INVALID_CONFIGURATION, ERROR, told)
    elif told or held is None:
        ready = false_condition(READY, Reason.WAITING_FOR_CERTIFICATES, INFO, told or "it is being made")
    else:
        ready = true_condition(READY)
    return structs.replace(
        before,
        ready=held is not None and not told,
        secret_name=kubeconfig.secret if kubeconfig is not None and held is not None else "",
        expires_at=held.not_after if held is not None else before.expires_at,
        conditions=with_conditions(without_pause(before.conditions), [ready], seen.now),
        observed_generation=seen.user.metadata.generation,
    )
