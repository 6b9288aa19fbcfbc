"""What a decision about one user of a control plane reads, and the steps that it can take, as values.

Invariants.  No repr shows what is in a Secret.
Called by    ``decide`` and ``tokens``; ``reconciler`` makes a ``Seen`` and performs the steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.cluster.names import KUBECONFIG_SUFFIX
from kubewright.api.controlplane.v1alpha4 import API_VERSION, CONTROL_PLANE_USER, ControlPlaneUser, Credential
from kubewright.api.meta import OwnerReference, owner_of
from kubewright.base import plan
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.pausing import Pause
from kubewright.controlplanes.users.account import AccountObjects, TokenKubeconfig
from kubewright.pki.credentials import Purpose, secret_name
from kubewright.pki.keyring import Make
from kubewright.runtime.credentials.values import Found, url


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add our finalizer, before there is anything of the user in the control plane."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Create the account, and let it impersonate exactly this user and these groups."""


@dataclass(frozen=True, slots=True)
class Issue:
    """Ask for a token, and write a kubeconfig with it into the Secret. ``because``: a clause."""

    because: str


@dataclass(frozen=True, slots=True)
class Revoke:
    """Delete the account and what it may do, so that no token of it is good any more."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer."""


Step = AddFinalizer | Grant | Issue | Revoke | RemoveFinalizer | Make


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now with a user.

    ``waiting``   what has to happen first elsewhere, a clause each
    ``problems``  what a user has to mend, a sentence each
    ``silent``    not even the status is written
    """

    waiting: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """One user, and all around it. ``family`` None: the control plane does not exist.

    ``pause``    by what it is paused; None: it is not
    ``problem``  how its spec breaks the rules of its kind, a sentence
    ``found``    the Secrets of the kubeconfig and of its authority that exist, by name
    ``held``     the kubeconfig with a token that is in the Secret; None: there is none
    ``objects``  what the user has in the control plane; None: it was not asked
    ``unreachable``  why the control plane cannot be asked now, a clause; empty: it can
    ``unheard``  whether no event tells when it can
    ``refused``  why the API server of the control plane refused us, a clause
    """

    user: ControlPlaneUser
    now: datetime
    family: Family | None = None
    pause: Pause | None = None
    problem: str = ""
    found: Mapping[str, Found] = field(default_factory=dict, repr=False)
    held: TokenKubeconfig | None = None
    objects: AccountObjects | None = None
    unreachable: str = ""
    unheard: bool = False
    refused: str = ""

    @property
    def owner(self) -> OwnerReference:
        """The owner reference of the Secret, so that it is deleted with the object."""
        return owner_of(self.user, API_VERSION, CONTROL_PLANE_USER.resource.kind)

    @property
    def by_token(self) -> bool:
        """Whether the kubeconfig is to have a token."""
        return self.user.spec.credential != Credential.CERTIFICATE

    @property
    def cluster(self) -> str:
        """The name with which names of Secrets begin; empty: there is no control plane."""
        return self.family.name if self.family is not None else ""

    @property
    def secret(self) -> str:
        """The name of the user's Secret; empty: there is no control plane."""
        return f"{self.cluster}-user-{self.user.name}" if self.cluster else ""

    @property
    def authority(self) -> str:
        """The name of the Secret with the authority that the kubeconfig trusts."""
        return secret_name(self.cluster, Purpose.CA)

    @property
    def administrator(self) -> str:
        """The name of the Secret with the kubeconfig of the administrator, which we use."""
        return f"{self.cluster}{KUBECONFIG_SUFFIX}"

    @property
    def endpoint(self) -> str:
        """The URL of the API server; empty: it is not known."""
        found = self.family.plane.spec.control_plane_endpoint if self.family is not None else None
        return url(found) if found is not None and found.valid else ""
