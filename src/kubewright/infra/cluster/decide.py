"""Decide what to do with one KubewrightCluster, from everything that is seen of it. Pure.

Theory.      Machines of a cluster may be made when it is known where its API server is going to be, because
             their bootstrap data and certificates name that place. The endpoint is the user's, on this object
             or on the Cluster; else the driver is asked for one, if it can; else it is waited for. On
             deletion the machines go first: they may take driver and credentials from this object. The core
             deletes them; those that nothing owns are deleted from here, unless the Cluster stays. Nor does a
             copy of this object that has no owner: it has the label, too. Then the endpoint is given back,
             then the finalizer goes. Where a copy has the name, too, by which clouds know the one that the
             Cluster names, the endpoint is that one's, and the copy goes at once.
Invariants.  An endpoint that is complete is never changed. ``ready`` never goes down again: the core would
             take that for an infrastructure that has gone.
Source       decision 0023.
Called by    ``act``.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from msgspec import structs

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    TRUE,
    WARNING,
    false_condition,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition, FailureDomain
from kubewright.api.infra.names import CLUSTER_FINALIZER, ConditionReason, ConditionType, EventReason
from kubewright.api.infra.v1beta1 import KubewrightClusterStatus
from kubewright.api.machine.names import FORCE_DELETION_LABEL, force_deletion
from kubewright.base import delays
from kubewright.base.durations import time_left
from kubewright.base.plan import AT_ONCE, Awaited, Event
from kubewright.driver.errors import Code
from kubewright.driver.life.plan import remedy
from kubewright.infra.cluster.seen import Plan, Seen, Step

LASTING = timedelta(seconds=delays.WORDS_SECONDS)
"""How long something is waited for before that is reported: the core is seldom later with its part."""


DRIVER = Awaited("the driver to answer", "see whether its cloud answers")


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    meta = seen.cluster.metadata
    if names.MANAGED_BY_ANNOTATION in meta.annotations:
        return Plan(because="another program manages it")
    if seen.paused:
        return Plan(because="it, or its cluster, is paused")
    if not meta.deleting:
        return _living(seen)
    if CLUSTER_FINALIZER not in meta.finalizers:
        return Plan(because="it is being deleted and has no finalizer of ours")
    return _deleted(seen)


def _living(seen: Seen) -> Plan:
    status = seen.cluster.status
    if seen.owner is None:
        way = "name it in spec.infrastructureRef of a Cluster, or delete it"
        owner = Awaited("a Cluster that owns it", way, seen.cluster.metadata.creation_timestamp)
        return _waiting(ConditionReason.WAITING_FOR_OWNER, "no Cluster owns it yet", owner)
    if status.failure_reason or status.failure_message:
        return Plan(because="it has failed for good: failureReason or failureMessage is set")
    if CLUSTER_FINALIZER not in seen.cluster.metadata.finalizers:
        return Plan((Step.ADD_FINALIZER,), AT_ONCE, "it has no finalizer of ours yet")
    if seen.problem:
        report = _not_ready(ConditionReason.INVALID_CONFIGURATION, ERROR, seen.problem)
        event = Event(EventReason.FAILED_VALIDATION, seen.problem, warning=True)
        return Plan(because=seen.problem, report=report, event=event, awaits=_correction(seen))
    if seen.api_server is not None:
        return Plan(
            because=f"its API server is at {seen.api_server}",
            report=true_condition(ConditionType.ENDPOINT_READY),
        )
    return _without_endpoint(seen)


def _without_endpoint(seen: Seen) -> Plan:
    """No user has set an endpoint: the control plane says it, or the driver is asked, if it offers them."""
    call = seen.endpoint
    if seen.control_plane:
        plane = Awaited(f"an endpoint of {seen.control_plane}", "see its conditions")
        return _waiting(
            ConditionReason.WAITING_FOR_ENDPOINT, f"{seen.control_plane} has no endpoint yet", plane
        )
    if not seen.offers_endpoints:
        missing = "spec.controlPlaneEndpoint is not set, and the driver offers no endpoints"
        user = Awaited("spec.controlPlaneEndpoint", "set it, or use a driver that offers endpoints")
        return _waiting(ConditionReason.WAITING_FOR_ENDPOINT, missing, user)
    if call.address is not None:
        host, port = call.address
        event = Event(EventReason.ENDPOINT_KNOWN, f"The API server will be at {host}:{port}")
        return Plan((Step.RECORD,), AT_ONCE, f"the driver offers {host}:{port}", event=event)
    if call.running:
        return Plan(because="the driver is asked for an endpoint", awaits=(DRIVER,))
    if call.error is None:
        return Plan((Step.RESERVE,), because="it has no endpoint yet", awaits=(DRIVER,))
    return _again(seen, Step.RESERVE)


def _deleted(seen: Seen) -> Plan:
    call = seen.endpoint
    if seen.original:
        because = f"its endpoint stays: it is KubewrightCluster {seen.original}'s"
        event = Event(EventReason.ENDPOINT_LEFT_BEHIND, because)
        return Plan((Step.REMOVE_FINALIZER,), because=because, event=event)
    if seen.machines:
        steps = (Step.DELETE_MACHINES,) if seen.unowned and not seen.lives else ()
        first, more = min(each.name for each in seen.machines), len(seen.machines) - 1
        message = (
            f"KubewrightMachine {first}{f' and {more} more' if more else ''} of its cluster is still there"
        )
        left = Awaited(f"KubewrightMachine {first} to be deleted", "see its conditions and its Machine")
        return replace(_waiting(ConditionReason.WAITING_FOR_MACHINES, message, left), steps=steps)
    if not seen.offers_endpoints or call.released:
        return Plan((Step.REMOVE_FINALIZER,), because="nothing of it is left")
    error = call.error if call.releasing else None  # a refused reservation says nothing of the release
    refused = error is not None and not call.running and error.refuses
    if (seen.problem or refused) and force_deletion(seen.cluster.metadata.labels):
        message = f"its endpoint may be left behind: {seen.problem or error}"
        event = Event(EventReason.ENDPOINT_LEFT_BEHIND, message, warning=True)
        return Plan((Step.REMOVE_FINALIZER,), because="a user lets go of its endpoint", event=event)
    if seen.problem:
        message = f"its endpoint cannot be given back: {seen.problem}. {_WAY_OUT}"
        report = _not_ready(ConditionReason.ENDPOINT_FAILED, WARNING, message)
        return Plan(because=message, report=report, awaits=_correction(seen))
    if call.running:
        return Plan(because="the driver takes the endpoint back", awaits=(DRIVER,))
    if error is None:
        return Plan((Step.RELEASE,), because="its endpoint is not needed any more", awaits=(DRIVER,))
    return _again(seen, Step.RELEASE, _WAY_OUT if refused else "")


_WAY_OUT = f"Mend that, or label it {FORCE_DELETION_LABEL}=True to leave an endpoint behind"


def _again(seen: Seen, step: Step, advice: str = "") -> Plan:
    """Report a failed call, and repeat it when its pause is over."""
    left = seen.endpoint.left(seen.now)
    message = f"{seen.endpoint.error}. {advice}" if advice else str(seen.endpoint.error)
    report = _not_ready(ConditionReason.ENDPOINT_FAILED, WARNING, message)
    code = seen.endpoint.error.code if seen.endpoint.error is not None else Code.Unknown
    awaits = (Awaited(f"the cloud to take a call: {code.name}", remedy(code)),)
    if left <= timedelta(0):
        return Plan((step,), because="the call is repeated", report=report, awaits=awaits)
    because = f"the cloud refused; next try in {time_left(left)}"
    return Plan(wake=left, because=because, report=report, awaits=awaits)


def _correction(seen: Seen) -> tuple[Awaited, ...]:
    return (Awaited("a spec that the driver can be given", f"mend this: {seen.problem}"),)


def cluster_status(seen: Seen, report: Condition | None, wall: datetime) -> KubewrightClusterStatus:
    """The status to write; equal to the present one when there is nothing new. ``wall`` dates conditions."""
    status = seen.cluster.status
    if report is None:
        return status
    found = with_conditions(status.conditions, (report,), wall)
    ready = summary(found, (ConditionType.ENDPOINT_READY,))
    return structs.replace(
        status,
        ready=status.ready or report.status == TRUE,
        failure_domains={
            name: FailureDomain(control_plane=each.control_plane, attributes=each.attributes)
            for name, each in seen.cluster.spec.failure_domains.items()
        },
        conditions=found if ready is None else with_conditions(found, (ready,), wall),
        observed_generation=seen.cluster.metadata.generation,
    )


def _not_ready(reason: ConditionReason, severity: str, message: str) -> Condition:
    return false_condition(ConditionType.ENDPOINT_READY, reason, severity, message)


def _waiting(reason: ConditionReason, message: str, awaits: Awaited) -> Plan:
    """Wait for something else, and say so, and what a user can do, if it lasts."""
    report = _not_ready(reason, INFO, f"{message}; {awaits.remedy}")
    return Plan(because=message, report=report, lasting=LASTING, awaits=(awaits,))
