"""Perform the plan of a health check: every write of a pass, but for its status, is sent from here.

Invariants.  Conditions of a machine are written onto the version that was read: its own controller writes
             others. What went wrong with one machine does not stop what is done about the others. That a
             request cannot be made is shown by the status, any other write that is refused is an event.
Called by    ``wiring``.
"""

from dataclasses import dataclass, field
from typing import assert_never

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import EventReason
from kubewright.api.cluster.v1beta1 import API_VERSION, MACHINE, MACHINE_HEALTH_CHECK, Machine
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.clusters import owned
from kubewright.clusters.external.object import cloned
from kubewright.clusters.healthcheck.seen import (
    CreateRemediationRequest,
    DeleteRemediationRequest,
    Seen,
    Step,
    UpdateHealthCheck,
    WriteConditions,
)
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import Contested, onto
from kubewright.replicas.objects import key_of
from kubewright.replicas.writes import error_of, run_parallel
from kubewright.runtime.events import EventRecorder
from kubewright.wire.errors import is_refusal, is_stale
from kubewright.wire.gvk import Key


@dataclass(slots=True)
class Outcome:
    """What went wrong: errors, and what to show about requests, by machine."""

    errors: list[KubewrightError] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class Actor:
    """Performs plans of health checks."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def perform(self, seen: Seen, plan: Plan[Step]) -> Outcome:
        """All steps, beside each other."""
        outcome = Outcome()

        async def attempt(step: Step) -> KubewrightError | None:
            error = await error_of(self._step(seen, step))
            if isinstance(step, CreateRemediationRequest):
                if error is not None and not is_stale(error):
                    outcome.failed[step.machine.name] = str(error)
            elif error is not None and is_refusal(error) and not isinstance(error, Contested):
                message = f"could not {_words(step)}: {error}"
                self._recorder.event(seen.check, EventReason.FAILED_UPDATE, message, warning=True)
            if isinstance(step, WriteConditions) and step.unhealthy and error is None:
                message = f"Machine {step.machine.name} has been marked as unhealthy"
                self._recorder.event(step.machine, EventReason.MARKED_UNHEALTHY, message)
            return error

        outcome.errors = await run_parallel(plan.steps, attempt)
        return outcome

    async def _step(self, seen: Seen, step: Step) -> None:
        match step:
            case UpdateHealthCheck(meta):
                body = owned.metadata_patch(seen.check.metadata, meta)
                await self._client.patch(MACHINE_HEALTH_CHECK, key_of(seen.check), body)
            case WriteConditions(machine, conditions):
                body = onto({"status": {"conditions": to_builtins(conditions)}}, machine.metadata)
                await self._client.patch(MACHINE, key_of(machine), body, subresource="status")
            case CreateRemediationRequest(machine):
                assert seen.template is not None, "no step asks for a request without a template"
                kind, request = cloned(seen.template, _metadata(machine))
                await self._client.create(kind, request)
            case DeleteRemediationRequest(machine, request):
                assert request.kind is not None, "what was found has a kind"
                key = Key(machine.namespace, machine.name)
                with MayBeGone(machine.name):
                    await self._client.delete(request.kind, key, uid=request.uid)
            case _:
                assert_never(step)


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
