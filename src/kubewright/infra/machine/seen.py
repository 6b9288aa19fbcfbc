"""Everything that is read about one KubewrightMachine, as one frozen value; what may be done, as a plan.

Called by    ``look`` (makes ``Seen``), ``decide`` (makes plans), ``act`` (performs them). Nothing here reads,
             writes or waits.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec import structs

from kubewright.api.cluster.v1beta1 import Cluster, Machine
from kubewright.api.infra.v1beta1 import KubewrightMachine, KubewrightMachineStatus
from kubewright.api.machine.names import force_deletion
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import Instance
from kubewright.driver.life.plan import VmPlan, Want, Wanted, plan
from kubewright.driver.life.seen import NOTHING, ConsoleSeen, Verb, VmSeen
from kubewright.infra.plan import ReportingPlan
from kubewright.infra.settings import InfraSettings


@dataclass(frozen=True, slots=True)
class Seen:
    """One KubewrightMachine and all that decides about it.

    ``now``          by a clock that no step of the wall clock moves
    ``owner``        the Machine that controls it; None: none names it, or it is not there
    ``cluster``      the Cluster of that Machine
    ``infrastructure``  the KubewrightCluster of that Cluster; None: another provider's, or it is not there
    ``original``     the KubewrightMachine whose VM this one has, too, being a copy of it; empty: it is none
    ``paused``       the object or its cluster is paused
    ``problem``      why the driver cannot be told of this machine: broken rules, a missing secret
    ``source_missing``  its KubewrightCluster, or the Secret with its credentials, is not there
    ``data_problem``  why there is no bootstrap data although the Machine names a Secret
    ``inputs``       a text that changes whenever what the driver is told changes
    ``console``      how the console of its VM ended when this process read it last; None: it has not
    ``doubt_until``  until when a creation without an answer may still bring a VM
    """

    machine: KubewrightMachine
    settings: InfraSettings
    now: datetime
    owner: Machine | None = None
    cluster: Cluster | None = None
    infrastructure: ObjectMeta | None = None
    original: str = ""
    paused: bool = False
    vm: VmSeen = NOTHING
    problem: str = ""
    source_missing: bool = False
    data_problem: str = ""
    inputs: str = ""
    console: ConsoleSeen | None = None
    doubt_until: datetime | None = None

    @property
    def recorded(self) -> bool:
        """Whether it is written down which VM this machine is."""
        return bool(self.machine.spec.provider_id)

    @property
    def complete(self) -> bool:
        """Whether it is written down that the VM is complete: then the driver is not asked any more."""
        return self.recorded and self.machine.status.ready

    @property
    def failed(self) -> bool:
        """Whether another program has written that this machine has failed for good; we never do."""
        status = self.machine.status
        return bool(status.failure_reason or status.failure_message)

    @property
    def has_node(self) -> bool:
        """Whether its Machine has found a Node, or there is no Machine that could."""
        return self.owner is None or self.owner.status.node_ref is not None

    @property
    def status(self) -> KubewrightMachineStatus:
        """The status, with what the driver left for its next call: that may not be written yet."""
        status, left = self.machine.status, self.vm.last_known_state
        same = left is None or left == status.last_known_state
        return status if same else structs.replace(status, last_known_state=left)

    @property
    def has_data(self) -> bool:
        """Whether the Machine says what the VM boots from: a Secret, or nothing by an empty name (S0-19)."""
        return self.owner is not None and self.owner.spec.bootstrap.data_secret_name is not None

    @property
    def _lets_go(self) -> bool:
        """Whether a VM whose creation is in doubt may be left behind: a user says so; or the spec breaks a
        rule or names an unknown driver, this process has asked for none, and what the process before may
        have asked for would have shown by now. While credentials or the KubewrightCluster are missing, an
        earlier process may have asked."""
        unasked = bool(self.problem) and not self.source_missing and self.vm.doubt is None
        forced = force_deletion(self.machine.metadata.labels)
        return forced or (unasked and self.doubt_left <= timedelta(0))

    @property
    def doubt_left(self) -> timedelta:
        """For how long a creation may still bring a VM; zero or less: none can any more."""
        return self.doubt_until - self.now if self.doubt_until is not None else timedelta(0)

    @property
    def left_in_doubt(self) -> bool:
        """Whether the object goes although no answer has shown that it has no VM, and that none can come."""
        doubtful = self.doubt_until is not None and not self.recorded
        return doubtful and not self.vm.is_absent_since(self.doubt_until)

    def vm_plan(self, want: Want) -> VmPlan:
        """What comes next for the machine's VM."""
        wanted = Wanted(
            want,
            self.recorded,
            doubt_until=self.doubt_until,
            callable=not self.problem,
            inputs=self.inputs,
            let_go=self._lets_go,
        )
        return plan(self.vm, wanted, self.settings.resource_exhausted_retry, self.now)


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Put our finalizer onto the machine, and write down as whom clouds are going to know it."""

    owner: str


@dataclass(frozen=True, slots=True)
class Call:
    """Start a driver call in the background; the machine is enqueued again when it ends."""

    verb: Verb


@dataclass(frozen=True, slots=True)
class Record:
    """Write the VM's providerID and its place onto the machine."""

    instance: Instance
    failure_domain: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Take our finalizer off: nothing of this machine exists any more."""


@dataclass(frozen=True, slots=True)
class ReadConsole:
    """Begin to read the console of its VM; the machine is enqueued again when that is done."""


Step = AddFinalizer | Call | Record | ReadConsole | RemoveFinalizer


@dataclass(frozen=True, slots=True)
class Plan(ReportingPlan[Step]):
    """What to do now, and what to report. Only the plan of the first decider that has one is performed."""

    last: bool = field(default=True, kw_only=True)
