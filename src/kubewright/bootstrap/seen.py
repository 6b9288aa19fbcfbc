"""Everything that is read about one KubeadmConfig, as one frozen value; what may be done about it, as a plan.

Invariants.  Nothing here reads, writes or waits. ``spec`` has defaults, ``config`` is what the server has.
             ``pairs`` and ``sources`` are only complete where data is to be made (``decide.makes_data``).
             What is secret in a step is not in its ``repr``. A report is about conditions that changed their
             state; what a report does not name stays as it is.
Called by    ``look`` (makes ``Seen``), ``decide`` and ``generation`` (use it), ``act`` (performs steps).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KubeadmConfig, KubeadmConfigSpec
from kubewright.api.bootstrap.validate import defaulted
from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, SECRET_TYPE
from kubewright.api.cluster.v1beta1 import Cluster, Condition, Machine
from kubewright.api.conditions import is_condition_true
from kubewright.api.core import Secret
from kubewright.base import plan
from kubewright.bootstrap.certificates import Pairs
from kubewright.bootstrap.lock import Lock
from kubewright.bootstrap.tokens import Token, parse_token
from kubewright.bootstrap.userdata import Role
from kubewright.pki.credentials import Purpose
from kubewright.pki.keys import Algorithm

TOKEN_TTL = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class BootstrapSettings:
    """How the provider behaves.

    ``token_ttl``  for how long a bootstrap token is made; it is refreshed while its machine has no node
    ``algorithm``  of the keys of authorities that we make
    ``workers``    how many KubeadmConfigs are looked at at one time
    """

    token_ttl: timedelta = TOKEN_TTL
    algorithm: Algorithm = Algorithm.RSA
    workers: int = 10


@dataclass(frozen=True, slots=True)
class TokenSeen:
    """What is known of the token in the workload cluster.

    ``until``    until when it is good; None: not known
    ``next``     when it is to be looked at again
    ``problem``  why that is not known, as a clause; empty while nothing is wrong
    ``running``  it is being looked at now
    """

    until: datetime | None = None
    next: datetime | None = None
    problem: str = ""
    running: bool = False


@dataclass(frozen=True, slots=True)
class DataSeen:
    """What is in the Secret with the data, while the machine may still boot from them.

    ``made``   there are data in it; False: it, or what was in it, is gone
    ``token``  by which the machine joins with them; None: by none
    """

    made: bool
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One KubeadmConfig and all that decides about it.

    ``machine``  the Machine that owns it, ``cluster`` that machine's; None if it is not there
    ``secret``   the Secret with the name of the data
    ``data``     what is in it; None where no data of our own are expected there, or no longer needed
    ``pairs``    the cluster's certificates that are there
    ``sources``  the Secrets that files and passwords are read from, by name, as far as they are there
    ``lock``     the init lock, if any
    ``yields_until``  until when the lock, which the machine has just given up, is left to others
    ``token``    what is known of ``join_token`` in the workload cluster
    ``new_token``  the token to write into a spec that needs one and has none
    """

    config: KubeadmConfig
    now: datetime
    settings: BootstrapSettings
    machine: Machine | None = None
    cluster: Cluster | None = None
    secret: Secret | None = None
    data: DataSeen | None = None
    pairs: Pairs = field(default_factory=lambda: MappingProxyType({}))
    sources: Mapping[str, Secret] = field(default_factory=lambda: MappingProxyType({}))
    lock: Lock | None = None
    yields_until: datetime | None = None
    token: TokenSeen = TokenSeen()
    new_token: Token | None = None

    @property
    def spec(self) -> KubeadmConfigSpec:
        """The spec with its defaults."""
        return defaulted(self.config.spec)

    @property
    def control_plane(self) -> bool:
        """Whether the machine is one of the control plane."""
        return self.machine is not None and CONTROL_PLANE_LABEL in self.machine.metadata.labels

    @property
    def initialized(self) -> bool:
        """Whether the cluster has a control plane that others can join."""
        if self.cluster is None:
            return False
        kind = ConditionType.CONTROL_PLANE_INITIALIZED.value
        return is_condition_true(self.cluster.status.conditions, kind)

    @property
    def role(self) -> Role:
        """How the machine becomes part of its cluster.

        Until the control plane is initialized this is INIT for every machine; the decision for INIT makes
        workers wait.
        """
        if not self.initialized:
            return Role.INIT
        return Role.JOIN_CONTROL_PLANE if self.control_plane else Role.JOIN_WORKER

    @property
    def lost_data(self) -> bool:
        """Whether the data are gone before a VM is known, so that they must be made again.

        One may boot from them all the same: while a call creates it, the driver holds them already.
        """
        if self.data is None or self.data.made or self.machine is None:
            return False
        return not (self.machine.spec.provider_id or self.machine.status.infrastructure_ready)

    @property
    def may_initialize(self) -> bool:
        """Whether data that were handed out and are gone may still make a VM initialize the cluster: no other
        machine may, and no other authorities may be made."""
        if self.machine is None or self.role is not Role.INIT or not self.lost_data:
            return False
        return self.config.status.ready or self.machine.spec.bootstrap.data_secret_name is not None

    @property
    def join_token(self) -> Token | None:
        """The token by which the machine joins: that of its data; before there are any, that of the spec."""
        known = self.data.token if self.data is not None else None
        return known or token_in(self.config.spec)

    @property
    def owns_data(self) -> bool:
        """Whether the Secret is there, and this very object controls it."""
        owner = self.secret.metadata.controller if self.secret is not None else None
        return owner is not None and owner.uid == self.config.metadata.uid

    @property
    def not_ours(self) -> str:
        """Why the Secret is neither owned nor written, with its name; empty: it may be.

        After a move, or from a backup, the reference of this object may have an old uid, or be lost.
        """
        secret, meta = self.secret, self.config.metadata
        if secret is None or self.owns_data:
            return ""
        told = f"Secret {meta.name} is there and is not of this KubeadmConfig"
        owner, cluster = secret.metadata.controller, self.cluster
        if owner is not None and (owner.kind, owner.name) != (KUBEADM_CONFIG.resource.kind, meta.name):
            return f"{told}: {owner.kind} {owner.name} controls it"
        label = secret.metadata.labels.get(CLUSTER_NAME_LABEL, "")
        if cluster is not None and label != cluster.metadata.name:
            return f"{told}: its label {CLUSTER_NAME_LABEL} is {label!r}"
        if owner is None and not self.config.status.ready and secret.type != SECRET_TYPE:
            return f"{told}: it has no owner, and its type is not {SECRET_TYPE}"
        return ""

    @property
    def holds_lock(self) -> bool:
        """Whether the machine is the one that may initialize the cluster."""
        return (
            self.lock is not None
            and self.machine is not None
            and self.lock.holder == self.machine.metadata.name
        )


def token_in(spec: KubeadmConfigSpec) -> Token | None:
    """The token by which the machine joins, if it joins by one."""
    join = spec.join_configuration
    found = join.discovery.bootstrap_token if join is not None and join.discovery.file is None else None
    return parse_token(found.token) if found is not None else None


@dataclass(frozen=True, slots=True)
class OwnData:
    """Make the KubeadmConfig the controller of its data Secret; its reference with an old uid is removed."""


@dataclass(frozen=True, slots=True)
class TakeLock:
    """Create the init lock in the name of the machine."""


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """Delete the init lock, if it is still the one that was seen."""

    uid: str


@dataclass(frozen=True, slots=True)
class MakeCertificates:
    """Make the pairs of these purposes, a Secret for each."""

    purposes: tuple[Purpose, ...]


@dataclass(frozen=True, slots=True)
class PatchSpec:
    """Write what was filled into the spec."""

    spec: KubeadmConfigSpec


@dataclass(frozen=True, slots=True)
class KeepToken:
    """Begin a call, beside the workers, that makes or refreshes this token in the workload cluster."""

    token: Token


@dataclass(frozen=True, slots=True)
class WriteData:
    """Write the data into its Secret."""

    format: str
    text: str = field(repr=False)


Step = OwnData | TakeLock | ReleaseLock | MakeCertificates | PatchSpec | KeepToken | WriteData


@dataclass(frozen=True, slots=True)
class Report:
    """What the status shall say. ``data_secret``, if it is not empty, is ready."""

    conditions: tuple[Condition, ...] = ()
    data_secret: str = ""


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now, and what to report. Where nothing else is said, no later decider is asked in this pass.

    ``unless_done``  what is done after all when a step is refused
    """

    report: Report | None = None
    last: bool = field(default=True, kw_only=True)
    unless_done: tuple[ReleaseLock, ...] = ()
