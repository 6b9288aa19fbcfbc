"""What the status of a component says: a function of what is seen. Pure.

Theory.      A component is ready while clients can use it: as many instances as its spec asks for, at least
             one, are ready. So a fault in a spec, which a user has to mend, makes nothing unready that runs.
             Whether all of it runs as the spec says is told by the condition UpToDate, and by the phase.
             A component without instances, such as one that sleeps, is not ready. Each other condition stands
             for one of the checks of ``obstacles``.
Invariants.  What is up to date is ready; it is in the phase Ready then. The former phase is read only to tell
             a first start from a failure. While the object is paused, nothing changes but the condition
             Paused. Equal views give equal statuses, so a pass that finds nothing new writes nothing.
Source       S3-19, S3-42 to S3-45.
Called by    ``act``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    READY,
    WARNING,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.controlplane.names import COMPONENT_LABEL, ComponentCondition, Phase, Reason
from kubewright.api.controlplane.v1alpha4 import ComponentStatus
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.controlplanes.component.obstacles import (
    Obstacle,
    first_obstacle,
    in_use,
    obstacles,
    restored_first,
)
from kubewright.controlplanes.component.seen import Seen
from kubewright.controlplanes.component.workload import current, sources
from kubewright.controlplanes.family import with_pause, without_pause
from kubewright.controlplanes.hosting.contract import Workload
from kubewright.controlplanes.templates.choice import Choice
from kubewright.pki.rotation import digest_of

_AFTER_FIRST_START = (
    Phase.READY,
    Phase.UNREADY,
    Phase.UPGRADING,
    Phase.SCALING,
    Phase.ROTATING_CERTIFICATES,
)
_PHASE_FOR = {
    Reason.PROVISIONING: Phase.PROVISIONING,
    Reason.ROLLING_OUT: Phase.UPGRADING,
    Reason.SCALING: Phase.SCALING,
    Reason.NOT_READY: Phase.UNREADY,
    Reason.SLEEPING: Phase.SLEEPING,
    Reason.DELETING: Phase.DELETING,
    Reason.WAITING_FOR_OWNER: Phase.PENDING,
    Reason.WAITING_FOR_DEPENDENCY: Phase.WAITING_FOR_DEPENDENCY,
    Reason.WAITING_FOR_ADDRESS: Phase.PROVISIONING,
    Reason.WAITING_FOR_CERTIFICATES: Phase.PROVISIONING,
    Reason.WAITING_FOR_FILES: Phase.PROVISIONING,
}


def status_of(seen: Seen) -> ComponentStatus:
    """The status, as it is to be written."""
    before, running = seen.component.status, seen.running
    if seen.pause is not None:
        return structs.replace(before, conditions=with_pause(before.conditions, seen.pause, seen.now))
    verdict = _verdict(seen)
    errors = tuple(each[:MESSAGE_CHARS] for each in _errors(seen))
    status = structs.replace(
        before,
        ready=_serves(seen),
        phase=_phase(seen, verdict),
        healthy=not errors and all(each.ready for each in running.instances),
        errors=errors,
        version=_version(seen),
        replicas=len(running.instances),
        ready_replicas=sum(each.ready for each in running.instances),
        updated_replicas=len(current(seen.workload, running)),
        selector=f"{COMPONENT_LABEL}={seen.component.name}",
        certificates=_certificates(seen),
        conditions=_conditions(seen, verdict),
        observed_generation=seen.component.metadata.generation,
    )
    if seen.identity is None:
        return status
    return structs.replace(status, **seen.policy.status_fields(seen.identity, seen.addresses, running))


def _certificates(seen: Seen) -> Mapping[str, str]:
    """The digests of the certificates with which all instances run; unchanged while these differ."""
    workload, running = seen.workload, seen.running
    if not running.instances:
        return {}
    if workload is None or len(current(workload, running)) < len(running.instances):
        return seen.component.status.certificates
    return _digests(workload)


def _renews_certificates(seen: Seen) -> bool:
    """Whether the instances are being replaced in order to get other certificates."""
    before = seen.component.status.certificates
    return bool(before) and seen.workload is not None and _digests(seen.workload) != before


def _digests(workload: Workload) -> Mapping[str, str]:
    """The digests of the certificates in the Secrets that the volumes name, by name of the Secret."""
    secrets = {each.name for each in sources(workload.rendered) if each.kind == "Secret"}
    said = {name: digest_of(workload.contents[name]) for name in sorted(secrets & workload.contents.keys())}
    return {name: digest for name, digest in said.items() if digest}


def _serves(seen: Seen) -> bool:
    """Whether clients can use it: as many instances as its spec asks for are ready, with any settings."""
    if seen.family is None or seen.component.metadata.deleting or seen.running.closed:
        return False
    ready = sum(each.ready and not each.ending for each in seen.running.instances)
    return 0 < seen.replicas <= ready


def _verdict(seen: Seen) -> Obstacle | None:
    """Why not all of it is as its spec says; None: it is, and then it is ready."""
    about = ComponentCondition.WORKLOAD_AVAILABLE
    if seen.component.metadata.deleting:
        return Obstacle(about, Reason.DELETING, in_use(seen) or restored_first(seen) or "it is being deleted")
    held = first_obstacle(seen)
    if held is not None and (held.fault or seen.workload is None or not seen.running.instances):
        return held
    if seen.failed:
        return Obstacle(about, Reason.FAILED_TO_APPLY, seen.failed, fault=True)
    missing = _instances(seen)
    return _with_cause(seen, missing) if missing is not None else held


def _with_cause(seen: Seen, missing: Obstacle) -> Obstacle:
    """If instances are not ready while something that they need is not ready either, that is said first."""
    needed = next((each for each in obstacles(seen) if each.reason is Reason.WAITING_FOR_DEPENDENCY), None)
    if needed is None or missing.reason is not Reason.NOT_READY:
        return missing
    return replace(missing, message=f"{needed.message}; {missing.message}")


def _instances(seen: Seen) -> Obstacle | None:
    """Why the instances are not as many as the spec asks for, up to date and ready; None: they are."""
    about, wanted, running = ComponentCondition.WORKLOAD_AVAILABLE, seen.replicas, seen.running
    if not wanted:
        count = len(running.instances)
        ending = f"; instances that have not ended yet: {count}" if count else ""
        return Obstacle(about, Reason.SLEEPING, seen.why_none + ending)
    count, updated = len(running.instances), len(current(seen.workload, running))
    ready = [each for each in running.instances if each.ready and not each.ending]
    if seen.workload is not None and updated < count:
        told = f"instances that run with what the spec says: {updated} of {wanted}"
        return Obstacle(about, Reason.ROLLING_OUT, told)
    if seen.addresses.surges and wanted == 1 < count:
        told = f"{running.instances[-1].name} ends, which is one more than the spec asks for"
        return Obstacle(about, Reason.ROLLING_OUT, told)
    if seen.workload is not None and running.applied != seen.workload.fingerprint:
        return Obstacle(about, Reason.PROVISIONING, "what the spec asks for is not applied yet")
    if count and seen.membership is not None and not seen.membership.settled:
        told = f"its members become {wanted}: {seen.membership.plan.because}"
        return Obstacle(about, Reason.SCALING, told)
    if len(ready) == count == wanted == running.replicas:
        return None if not running.closed else _not_yet(seen, running.closed)
    waits = "; ".join(f"{each.name}: {each.message}" for each in running.instances if each.message)
    return _not_yet(seen, f"ready instances: {len(ready)} of {wanted}" + (f": {waits}" if waits else ""))


def _not_yet(seen: Seen, told: str) -> Obstacle:
    has_run = seen.component.status.phase in _AFTER_FIRST_START
    reason = Reason.NOT_READY if has_run else Reason.PROVISIONING
    return Obstacle(ComponentCondition.WORKLOAD_AVAILABLE, reason, told)


def _phase(seen: Seen, verdict: Obstacle | None) -> Phase:
    if verdict is None:
        return Phase.READY
    if verdict.fault:
        return Phase.FAILED
    if verdict.reason is Reason.ROLLING_OUT and _renews_certificates(seen):
        return Phase.ROTATING_CERTIFICATES
    return _PHASE_FOR.get(verdict.reason, Phase.UNREADY if seen.running.instances else Phase.PROVISIONING)


def _version(seen: Seen) -> str:
    """The one version of all instances, once all are ready with it; else what it was before."""
    instances = seen.running.instances
    versions = {each.version for each in instances}
    good = len(versions) == 1 and all(each.ready for each in instances)
    return versions.pop() if good else seen.component.status.version


def _errors(seen: Seen) -> Iterator[str]:
    yield from (each.message for each in obstacles(seen) if each.fault)
    if seen.failed:
        yield seen.failed
    if told := in_use(seen):
        yield told
    yield from (
        f"{each.name}: {each.message}"
        for each in seen.running.instances
        if each.message and not each.ready and not each.ending and each.restarts
    )


def _conditions(seen: Seen, verdict: Obstacle | None) -> tuple[Condition, ...]:
    found = [*_before_instances(seen), _available(seen)]
    found += _rotation(seen)
    about = ComponentCondition.UP_TO_DATE
    found.append(true_condition(about) if verdict is None else _false(about, verdict))
    why = None if _serves(seen) else verdict
    found.append(true_condition(READY) if why is None else _false(READY, why))
    return with_conditions(without_pause(seen.component.status.conditions), found, seen.now)


def _rotation(seen: Seen) -> Iterator[Condition]:
    """How far the rotation of its authorities is; no condition before the first rotation."""
    about, rotating = ComponentCondition.AUTHORITIES_ROTATED, seen.certificates.rotating
    if rotating:
        severity = WARNING if any(each.stage is Reason.NOT_OURS for each in rotating) else INFO
        told = "; ".join(each.message for each in rotating)
        yield false_condition(about, rotating[0].stage, severity, told[:MESSAGE_CHARS])
    elif any(each.type == about for each in seen.component.status.conditions) and seen.workload is not None:
        yield true_condition(about)


def _before_instances(seen: Seen) -> Iterator[Condition]:
    """The conditions about the checks before instances start, as far as these could be made."""
    held = {each.about: each for each in reversed(list(obstacles(seen)))}
    known = {
        ComponentCondition.TEMPLATE_RESOLVED: isinstance(seen.choice, Choice),
        ComponentCondition.DEPENDENCIES_READY: seen.family is not None,
        ComponentCondition.CERTIFICATES_READY: isinstance(seen.choice, Choice),
        ComponentCondition.PATCHES_APPLIED: seen.rendered is not None,
    }
    for about, good in known.items():
        if (obstacle := held.get(about)) is not None:
            yield _false(about, obstacle)
        elif good:
            yield true_condition(about)


def _available(seen: Seen) -> Condition:
    about = ComponentCondition.WORKLOAD_AVAILABLE
    own = [each for each in obstacles(seen) if each.about is about]
    if seen.failed:
        own.append(Obstacle(about, Reason.FAILED_TO_APPLY, seen.failed, fault=True))
    why = own[0] if own else _instances(seen)
    return true_condition(about) if why is None else _false(about, why)


def _false(about: str, why: Obstacle) -> Condition:
    return false_condition(about, why.reason, ERROR if why.fault else INFO, why.message[:MESSAGE_CHARS])
