"""One health check, one pass on the kernel: what performs each step, its status, and what users are told.

Theory.      All steps are sent beside each other, and what goes wrong with one machine does not stop what is
             done about the others. That a request cannot be made is shown by the status; any other write
             that is refused is an event. The status is of a second look, after the steps.
Invariants.  Conditions of a machine are written onto the version that was read: its own controller writes
             others. An event about one problem, or one Node in a bad state, is sent once.
Called by    ``runtime.controller``; wired by ``wiring``.
"""

from typing import assert_never

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import INFO, MACHINE_HEALTH_CHECK_COMPONENT, EventReason
from kubewright.api.cluster.v1beta1 import (
    API_VERSION,
    MACHINE,
    Machine,
    MachineHealthCheck,
    MachineHealthCheckStatus,
)
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.clusters import owned
from kubewright.clusters.external.object import External, cloned
from kubewright.clusters.healthcheck.decide import Judged, decide, status_of, status_of_invalid
from kubewright.clusters.healthcheck.look import Looker
from kubewright.clusters.healthcheck.seen import (
    CreateRemediationRequest,
    DeleteRemediationRequest,
    Seen,
    Step,
    UpdateHealthCheck,
    WriteConditions,
)
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import Contested, onto
from kubewright.replicas.objects import INVALID, key_of
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.pace import UNPACED
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import ApiError, is_refusal, is_stale
from kubewright.wire.gvk import Key


class HealthChecks(ObjectReconciler[MachineHealthCheck, Seen, Plan[Step]]):
    """The reconciler of MachineHealthChecks."""

    looks_again = True

    def __init__(self, environment: Environment, looker: Looker) -> None:
        recorder = environment.recorder.of(MACHINE_HEALTH_CHECK_COMPONENT)
        super().__init__(environment.control.client, looker.checks, recorder, pace=UNPACED)
        self._looker = looker
        self._waiting: dict[Key, frozenset[str]] = {}
        """The machines of a check whose Nodes are in a bad state, as events have told."""

    def forget(self, key: Key, uid: str) -> None:
        """The check is gone, or another one has its name."""
        self._looker.forget(key)
        self._waiting.pop(key, None)

    async def look(self, found: MachineHealthCheck) -> Seen:
        """As ``Looker.look``."""
        return self._looker.look(found)

    def decide(self, seen: Seen) -> Plan[Step] | None:
        """As ``decide.decide``; None while the check is paused or being deleted."""
        if seen.check.metadata.deleting or owned.paused_because(seen.check, seen.cluster):
            return None
        return decide(seen)

    async def carry_out(self, found: MachineHealthCheck, seen: Seen, plan: Plan[Step]) -> Result:
        """As ``ObjectReconciler.carry_out``; first users are told whose Nodes are in a bad state now.

        Raises:
            ApiError, TransportError: as there.
            PartlyFailed: as there.
        """
        if not seen.problem:
            self._tell_of_nodes(seen)
        return await super().carry_out(found, seen, plan)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case UpdateHealthCheck(meta):
                return self.patch(outcome, owned.metadata_patch(seen.check.metadata, meta))
            case WriteConditions(machine, conditions):
                body = onto({"status": {"conditions": to_builtins(conditions)}}, machine.metadata)
                return self.client.patch(MACHINE, key_of(machine), body, subresource="status")
            case CreateRemediationRequest(machine):
                assert seen.template is not None, "no step asks for a request without a template"
                kind, request = cloned(seen.template, _metadata(machine))
                return self.client.create(kind, request)
            case DeleteRemediationRequest(machine, request):
                return self._delete(Key(machine.namespace, machine.name), request)

    def together(self, step: Step) -> object:
        """All steps are sent beside each other."""
        return True

    def after_step(self, seen: Seen, step: Step, error: KubewrightError | None, outcome: Outcome) -> bool:
        """An error stops no other step, and is raised when the pass is over."""
        if error is None:
            if isinstance(step, WriteConditions) and step.unhealthy:
                message = f"Machine {step.machine.name} has been marked as unhealthy"
                self.recorder.event(step.machine, EventReason.MARKED_UNHEALTHY, message)
            return True
        outcome.errors.append(error)
        if isinstance(step, CreateRemediationRequest):
            if not is_stale(error):
                outcome.shown[step.machine.name] = str(error)
        elif is_refusal(error) and not isinstance(error, Contested):
            message = f"could not {_words(step)}: {error}"
            self.recorder.event(seen.check, EventReason.FAILED_UPDATE, message, warning=True)
        return True

    def status(self, seen: Seen, plan: Plan[Step], outcome: Outcome) -> MachineHealthCheckStatus:
        """As ``decide.status_of``, of what could not be requested, too."""
        return status_of_invalid(seen) if seen.problem else status_of(seen, outcome.shown)

    def tell_problem(self, found: MachineHealthCheck, seen: Seen) -> None:
        """Tell that the check is not valid, or that nothing may be replaced and should be."""
        if seen.problem:
            self.reports.report_problem(found, INVALID, seen.problem)
            return
        allowed = Judged(seen).allowance
        refusal = allowed.refusal if allowed.severity != INFO else ""
        self.reports.report_problem(found, EventReason.REMEDIATION_RESTRICTED, refusal)

    def refused(self, about: MachineHealthCheck, error: ApiError) -> Result:
        """The status could not be written: the error says when it is tried again.

        Raises:
            ApiError: always.
        """
        raise error

    def _tell_of_nodes(self, seen: Seen) -> None:
        """Send an event about each machine whose Node is in an unhealthy condition since the last pass."""
        key, waiting = key_of(seen.check), Judged(seen).waiting
        told = self._waiting.get(key, frozenset())
        self._waiting[key] = frozenset(each.metadata.uid for each in waiting)
        for machine in waiting:
            if machine.metadata.uid not in told:
                message = f"Machine {machine.name} has an unhealthy Node"
                self.recorder.event(machine, EventReason.DETECTED_UNHEALTHY, message)

    async def _delete(self, key: Key, request: External) -> None:
        assert request.kind is not None, "what was found has a kind"
        with MayBeGone(key.name):
            await self.client.delete(request.kind, key, uid=request.uid)


def _words(step: UpdateHealthCheck | WriteConditions | DeleteRemediationRequest) -> str:
    """What a step does, for messages."""
    match step:
        case UpdateHealthCheck():
            return "write the MachineHealthCheck"
        case WriteConditions(machine):
            return f"write the conditions of Machine {machine.name}"
        case DeleteRemediationRequest(_, request):
            return f"delete {request}"
    assert_never(step)


def _metadata(machine: Machine) -> ObjectMeta:
    """The name, owner and label of the remediation request of a machine."""
    owner = OwnerReference(
        api_version=API_VERSION, kind=MACHINE.resource.kind, name=machine.name, uid=machine.metadata.uid
    )
    return ObjectMeta(
        name=machine.name,
        namespace=machine.namespace,
        labels={names.CLUSTER_NAME_LABEL: machine.spec.cluster_name},
        owner_references=(owner,),
    )
