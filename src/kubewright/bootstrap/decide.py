"""Decide what to do about one KubeadmConfig: deciders in a fixed order, up to the first that ends the pass.

Theory.      The deciders of ``BEFORE_DATA`` come first. They find out why no data is to be made (no machine,
             no cluster, paused, too early, made already), and maintain the Secret, lock and token that are
             there. Then come those of ``INIT``, for the first machine of a control plane, or of ``JOIN``.
             Whatever can fail comes before the first write; the init lock is taken when nothing but the data
             is to be written.
             The condition Ready sums up the two others, and one that a report does not have stays.
             ``failureReason`` and ``failureMessage`` are never written: what is wrong can be mended.
Invariants.  Pure: an equal ``Seen`` gives an equal plan. Each plan says why. What is waited for makes an
             event, so it is not asked for again and again; only for what has no event (a Secret without the
             cluster's label) there is ``delays.UNHEARD``.
Called by    ``act``; ``look`` asks ``makes_data``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from msgspec import structs

from kubewright.api.bootstrap.v1beta1 import KubeadmConfigStatus
from kubewright.api.bootstrap.validate import validate_spec
from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    WARNING,
    ConditionType,
    Reason,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.conditions import (
    summary as summed_up,
)
from kubewright.api.cluster.names import kubeconfig_secret, paused
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.conditions import condition_of, since_not_true
from kubewright.api.faults import summary
from kubewright.base import delays
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import AT_ONCE, SOONEST, Awaited, in_order
from kubewright.bootstrap import certificates, generation
from kubewright.bootstrap.certificates import Certificate
from kubewright.bootstrap.seen import (
    KeepToken,
    MakeCertificates,
    OwnData,
    PatchSpec,
    Plan,
    ReleaseLock,
    Report,
    Seen,
    TakeLock,
    WriteData,
    token_in,
)
from kubewright.bootstrap.tokens import Token, parse_token
from kubewright.bootstrap.userdata import Role
from kubewright.pki.credentials import secret_name

Decider = Callable[[Seen], Plan | None]

CERTIFICATE_REMEDY = "create it, with a certificate and its key, or let its controller make it"

PUT_BACK = "put it back from a backup, or delete the Machine"

TOKEN_RUNS = Plan(because="its bootstrap token is being looked at")
NO_REFERENCE = "spec.infrastructureRef, and so no infrastructure"


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now."""
    plan = in_order((*BEFORE_DATA, *(INIT if seen.role is Role.INIT else JOIN)), seen, Plan())
    return plan if plan != Plan() else Plan(because="nothing is left to do")


def makes_data(seen: Seen) -> bool:
    """Whether nothing stands in the way of making data, as far as the caches tell: certificates, tokens and
    sources are looked at only then."""
    plan = in_order((*BEFORE_DATA, *(BEFORE_INIT if seen.role is Role.INIT else BEFORE_JOIN)), seen, Plan())
    return plan == Plan() or not plan.last


def without_machine(seen: Seen) -> Plan | None:
    if seen.machine is not None:
        return None
    remedy = "name it in spec.bootstrap.configRef of a Machine, or delete it"
    owner = Awaited("a Machine that owns it", remedy, seen.config.metadata.creation_timestamp)
    return Plan(because="no Machine owns it yet", awaits=(owner,))


def without_cluster(seen: Seen) -> Plan | None:
    if seen.cluster is not None or seen.machine is None:
        return None
    message = f"there is no Cluster {seen.machine.spec.cluster_name}"
    if paused(seen.config.metadata.annotations) or seen.config.metadata.deleting:
        return Plan(because=message)
    missing = Awaited(f"Cluster {seen.machine.spec.cluster_name}", "create it, or delete the Machine")
    return _waits(message, missing, Reason.WAITING_FOR_CLUSTER_INFRASTRUCTURE)


def leave_alone(seen: Seen) -> Plan | None:
    """What is deleted or has failed for good, and what is paused, is not touched (S1-21)."""
    meta, status = seen.config.metadata, seen.config.status
    if meta.deleting:
        return Plan(because="it is being deleted")
    if paused(meta.annotations) or (seen.cluster is not None and seen.cluster.spec.paused):
        return Plan(because="it is paused")
    if status.failure_reason or status.failure_message:
        return Plan(because="status.failureReason says that it has failed")
    return None


def own_data(seen: Seen) -> Plan | None:
    """Own the data Secret that is there, so that it is deleted with this object; never that of another."""
    if seen.secret is None or seen.owns_data or seen.not_ours:
        return None
    return Plan((OwnData(),), because="its data Secret has lost its owner", last=False)


def wait_for_infrastructure(seen: Seen) -> Plan | None:
    assert seen.cluster is not None
    if seen.cluster.status.infrastructure_ready:
        return None
    name, refers = seen.cluster.metadata.name, seen.cluster.spec.infrastructure_ref is not None
    lacks, remedy = "infrastructure yet", "see its condition InfrastructureReady"
    if not refers:
        lacks, remedy = NO_REFERENCE, "set it"
    awaits = Awaited(f"infrastructure of Cluster {name}", remedy)
    return _waits(f"Cluster {name} has no {lacks}", awaits, Reason.WAITING_FOR_CLUSTER_INFRASTRUCTURE)


def repair_status(seen: Seen) -> Plan | None:
    """The machine has its data, and the status is lost: it was moved or restored, or a user gave the data."""
    assert seen.machine is not None
    name, status = seen.machine.spec.bootstrap.data_secret_name, seen.config.status
    if name is None or seen.lost_data or (status.ready and status.data_secret_name is not None):
        return None
    certificates = (available(ConditionType.CERTIFICATES_AVAILABLE),) if seen.owns_data else ()
    return Plan(because="the machine has its data already", report=_data_ready(name, *certificates))


def release_lock(seen: Seen) -> Plan | None:
    """Delete the init lock when the cluster is initialized, or when its holder is gone."""
    if seen.lock is None:
        return None
    if seen.initialized and (seen.holds_lock or not seen.lock.holder_exists):
        return Plan((ReleaseLock(seen.lock.uid),), because="the cluster is initialized", last=False)
    if not seen.initialized and seen.lock.holder and not seen.lock.holder_exists:
        because = f"Machine {seen.lock.holder}, which was to initialize the cluster, is gone"
        return Plan((ReleaseLock(seen.lock.uid),), AT_ONCE, because)
    return None


def keep_ready(seen: Seen) -> Plan | None:
    """The data is there; while its machine may still boot, the token in it is refreshed.

    If it is lost before a VM is known, it is made again by the deciders that come later.
    """
    status = seen.config.status
    if not status.ready or seen.lost_data:
        return None
    plan, name = _while_ready(seen), status.data_secret_name or ""
    told = condition_of(status.conditions, ConditionType.DATA_SECRET_AVAILABLE)
    gone = name == seen.config.metadata.name and seen.secret is None
    if told is None or told.status == "True" or gone:
        return plan
    return replace(plan, report=_data_ready(name))  # a step beside the data was refused, and is no more


def _while_ready(seen: Seen) -> Plan:
    """What is done about the token in data that are there."""
    assert seen.machine is not None
    status, token = seen.config.status, seen.join_token
    ours = status.data_secret_name == seen.config.metadata.name
    if token is None or not ours or seen.machine.metadata.deleting:
        return Plan(because="the data is there")
    if seen.machine.status.node_ref is not None:
        return Plan(because="the machine has joined")
    return keep_token(seen, token) or Plan((), _next_look(seen), "the machine may still boot")


def reuse_data(seen: Seen) -> Plan | None:
    """The data is there and this object's own: only the status was not written (S1-24).

    It was made with certificates, so the status says of them what it would have said then.
    """
    if seen.owns_data and seen.secret is not None and seen.secret.data.get("value"):
        told = _data_ready(seen.config.metadata.name, available(ConditionType.CERTIFICATES_AVAILABLE))
        return Plan(because="the data is there", report=told)
    return None


def spare_anothers(seen: Seen) -> Plan | None:
    """The Secret with the name of the data is another's: say so, and write nothing into it."""
    if not seen.not_ours:
        return None
    remedy = "delete that Secret, or rename the Machine"
    taken = Awaited(f"the name of Secret {seen.config.metadata.name}", remedy)
    return _failure(seen, seen.not_ours, awaits=(taken,))


BEFORE_DATA: tuple[Decider, ...] = (
    without_machine, without_cluster, leave_alone, own_data, wait_for_infrastructure, repair_status,
    release_lock, keep_ready, reuse_data, spare_anothers,
)  # fmt: skip


def refuse_invalid(seen: Seen) -> Plan | None:
    errors = validate_spec(seen.spec, "spec")
    return _failure(seen, summary(errors)) if errors else None


def wait_for_control_plane(seen: Seen) -> Plan | None:
    """Only a machine of the control plane that has a configuration for it can be the first."""
    assert seen.cluster is not None
    cluster, spec = seen.cluster.metadata.name, seen.config.spec
    plane = Awaited(
        f"the control plane of Cluster {cluster} to be initialized",
        "see the Cluster's condition ControlPlaneInitialized",
        since_not_true(seen.cluster.status.conditions, ConditionType.CONTROL_PLANE_INITIALIZED),
    )
    if not seen.control_plane:
        return _waits(f"the control plane of Cluster {cluster} is not initialized yet", plane)
    if spec.init_configuration is None and spec.cluster_configuration is None:
        return _waits(
            f"spec has no initConfiguration and no clusterConfiguration, so another machine must initialize "
            f"the control plane of Cluster {cluster}",
            plane,
        )
    return None


def wait_for_lock(seen: Seen) -> Plan | None:
    """Wait while another machine holds the init lock; and while others may take it that this one gave up."""
    if seen.lock is None and seen.yields_until is not None and seen.yields_until > seen.now:
        return Plan(
            wake=seen.yields_until - seen.now, because="its data were refused, and others may be first"
        )
    if seen.lock is None or seen.holds_lock:
        return None
    assert seen.cluster is not None
    if not seen.lock.holder:
        name = f"{seen.cluster.metadata.name}-lock"
        unread = f"ConfigMap {name} does not say which machine holds the init lock; delete it"
        return _failure(seen, unread, awaits=(Awaited(f"ConfigMap {name} to go", "delete it"),))
    remedy = "see its conditions; when it is deleted another one begins"
    holder = Awaited(f"Machine {seen.lock.holder} to initialize the control plane", remedy)
    return _waits(f"Machine {seen.lock.holder} initializes the control plane", holder)


def make_certificates(seen: Seen) -> Plan | None:
    """Make the cluster's certificates; if it has a controlPlaneRef, that object's controller makes them.

    Those that data were made of are not made anew: the VM that has the data has their keys.
    """
    wanted = generation.wanted_certificates(seen)
    missing = certificates.missing(wanted, seen.pairs)
    if not missing:
        return None
    assert seen.cluster is not None
    made = tuple(each.purpose for each in missing if not each.external)
    if seen.may_initialize:
        lost = f"{_secrets(seen, missing)} is gone, and a VM may have been made of it; {PUT_BACK}"
        return _without_certificates(seen, Reason.CERTIFICATES_CORRUPTED, lost, missing)
    if seen.cluster.spec.control_plane_ref is None and len(made) == len(missing):
        return Plan((MakeCertificates(made),), AT_ONCE, "the cluster has no certificates yet")
    reason = Reason.CERTIFICATES_GENERATION_FAILED
    return _without_certificates(seen, reason, f"waits for {_secrets(seen, missing)}", missing)


def require_certificates(seen: Seen) -> Plan | None:
    """A machine that joins needs certificates that are there already."""
    missing = certificates.missing(generation.wanted_certificates(seen), seen.pairs)
    if not missing:
        return None
    reason = Reason.CERTIFICATES_CORRUPTED
    return _without_certificates(seen, reason, f"waits for {_secrets(seen, missing)}", missing)


def refuse_bad_certificates(seen: Seen) -> Plan | None:
    assert seen.cluster is not None
    wanted, cluster = generation.wanted_certificates(seen), seen.cluster.metadata.name
    found = certificates.problems(wanted, seen.pairs, cluster, seen.now)
    return _without_certificates(seen, Reason.CERTIFICATES_CORRUPTED, "; ".join(found)) if found else None


def refuse_invalid_join(seen: Seen) -> Plan | None:
    join = seen.config.spec.join_configuration
    if join is None:
        return None
    if not seen.control_plane and join.control_plane is not None:
        return _failure(seen, "the Machine is a worker, but spec.joinConfiguration.controlPlane is set")
    known = join.discovery.bootstrap_token
    if known is not None and known.token and parse_token(known.token) is None:
        return _failure(seen, "spec.joinConfiguration.discovery.bootstrapToken.token is no token: id.secret")
    return None


def wait_for_endpoint(seen: Seen) -> Plan | None:
    """A machine that joins by a token must be told where the API server is."""
    join, cluster = seen.config.spec.join_configuration, seen.cluster
    assert cluster is not None
    discovery = join.discovery if join is not None else None
    if discovery is not None and discovery.file is not None:
        return None
    told = discovery.bootstrap_token if discovery is not None else None
    endpoint = cluster.spec.control_plane_endpoint
    if (told is not None and told.api_server_endpoint) or (endpoint is not None and endpoint.valid):
        return None
    name = cluster.metadata.name
    remedy = "set it, or see the Cluster's infrastructure"
    awaits = Awaited(f"spec.controlPlaneEndpoint of Cluster {name}", remedy)
    return _waits(f"Cluster {name} has no spec.controlPlaneEndpoint yet", awaits)


def make_data(seen: Seen) -> Plan | None:
    """Fill in the spec and write the data, once the machine has the lock, or the cluster has its token."""
    if seen.token.running:
        return TOKEN_RUNS
    spec = generation.completed(seen)
    try:
        text = generation.user_data(seen, spec)
    except InvalidInput as error:
        return _failure(seen, str(error), again=True, awaits=tuple(_sources(seen)))
    steps = (PatchSpec(spec),) if spec != seen.config.spec else ()
    token = token_in(spec) if seen.role is not Role.INIT else None
    if token is not None and (kept := keep_token(seen, token)) is not None:
        return Plan(steps, because="how to join is filled in").then(kept) if steps else kept
    lock = (TakeLock(),) if seen.role is Role.INIT and seen.lock is None else ()
    report = _data_ready(seen.config.metadata.name, available(ConditionType.CERTIFICATES_AVAILABLE))
    written = (*lock, *steps, WriteData(seen.spec.format, text))
    wake = _next_look(seen) if token is not None else None
    because, given_up = f"the data of a {seen.role} is made", _release_own_lock(seen)
    return Plan(written, wake, because, report=report, unless_done=given_up)


BEFORE_INIT: tuple[Decider, ...] = (wait_for_control_plane, refuse_invalid, wait_for_lock)
BEFORE_JOIN: tuple[Decider, ...] = (refuse_invalid, refuse_invalid_join)
INIT: tuple[Decider, ...] = (*BEFORE_INIT, make_certificates, refuse_bad_certificates, make_data)
JOIN: tuple[Decider, ...] = (
    *BEFORE_JOIN, require_certificates, refuse_bad_certificates, wait_for_endpoint, make_data,
)  # fmt: skip


def keep_token(seen: Seen, token: Token) -> Plan | None:
    """Have the token made or refreshed, or wait for that; None while it is good for long enough."""
    state = seen.token
    if state.running:
        return TOKEN_RUNS
    if state.next is None or state.next <= seen.now:
        return Plan((KeepToken(token),), because="its bootstrap token is to be looked at")
    if state.until is not None and state.until > seen.now:
        return None
    because = f"no bootstrap token yet: {state.problem}"
    told = waiting(Reason.WAITING_FOR_CONTROL_PLANE_AVAILABLE, because)
    report = None if seen.config.status.ready else Report((told,))
    return Plan((), _next_look(seen), because, report=report, awaits=(_cluster(seen),))


def _next_look(seen: Seen) -> timedelta | None:
    return max(seen.token.next - seen.now, SOONEST) if seen.token.next is not None else None


def _data_ready(secret: str, *others: Condition) -> Report:
    return Report((available(ConditionType.DATA_SECRET_AVAILABLE), *others), secret)


def _waits(
    message: str, awaits: Awaited, reason: Reason = Reason.WAITING_FOR_CONTROL_PLANE_AVAILABLE
) -> Plan:
    """Wait for something whose change enqueues this object; the condition says what a user can do."""
    told = waiting(reason, f"{message}; {awaits.remedy}")
    return Plan(because=message, report=Report((told,)), awaits=(awaits,))


def _failure(seen: Seen, message: str, *, again: bool = False, awaits: tuple[Awaited, ...] = ()) -> Plan:
    """No data can be made: report it, and give up the init lock, so that another machine can be the first."""
    wake, report = delays.UNHEARD if again else None, Report((failed(message),))
    return Plan(_release_own_lock(seen), wake, message, report=report, awaits=awaits)


def _without_certificates(
    seen: Seen, reason: Reason, message: str, missing: Iterable[Certificate] = ()
) -> Plan:
    """Report it in both conditions: DataSecretAvailable would else still name what was waited for before."""
    told = (no_certificates(reason, message), no_certificates(reason, message, of_data=True))
    awaits = tuple(Awaited(f"Secret {name}", CERTIFICATE_REMEDY) for name in _secret_names(seen, missing))
    plan = Plan(_release_own_lock(seen), delays.UNHEARD, message, report=Report(told), awaits=awaits)
    return plan if awaits else replace(plan, awaits=(Awaited("certificates of use", "replace those named"),))


def _cluster(seen: Seen) -> Awaited:
    """The workload cluster, which is to have the token."""
    assert seen.cluster is not None
    meta = seen.cluster.metadata
    secret = kubeconfig_secret(meta.name)
    remedy = f"see whether its API server answers, and whether Secret {secret} leads to it"
    return Awaited(f"cluster {meta.namespace}/{meta.name}", remedy)


def _sources(seen: Seen) -> Iterator[Awaited]:
    """The Secrets that the spec names and that are not there."""
    sources = (each.content_from for each in seen.spec.files), (each.passwd_from for each in seen.spec.users)
    names = {each.secret.name for each in chain(*sources) if each is not None}
    for name in sorted(names - seen.sources.keys()):
        yield Awaited(f"Secret {name}", "create it, or take its name off the KubeadmConfig")


def _release_own_lock(seen: Seen) -> tuple[ReleaseLock, ...]:
    """Let another machine be the first, unless this one's VM may have begun with data that were lost."""
    held = seen.lock if seen.holds_lock and seen.role is Role.INIT and not seen.may_initialize else None
    return (ReleaseLock(held.uid),) if held is not None else ()


def _secrets(seen: Seen, missing: Iterable[Certificate]) -> str:
    """The Secrets of these pairs, for a message."""
    return f"Secret {', '.join(_secret_names(seen, missing))}"


def _secret_names(seen: Seen, missing: Iterable[Certificate]) -> list[str]:
    assert seen.cluster is not None
    return [secret_name(seen.cluster.metadata.name, each.purpose) for each in missing]


SUMMED_UP = (ConditionType.DATA_SECRET_AVAILABLE.value, ConditionType.CERTIFICATES_AVAILABLE.value)


def status_of(
    before: KubeadmConfigStatus, report: Report, generation: int, now: datetime
) -> KubeadmConfigStatus:
    """The status with what is reported, as it is at ``now`` about this generation of the spec."""
    conditions = with_conditions(before.conditions, report.conditions, now)
    if (ready := summed_up(conditions, SUMMED_UP)) is not None:
        conditions = with_conditions(conditions, [ready], now)
    return structs.replace(
        before,
        ready=before.ready or bool(report.data_secret),
        data_secret_name=report.data_secret or before.data_secret_name,
        observed_generation=generation,
        conditions=conditions,
    )


def underway(before: KubeadmConfigStatus, status: KubeadmConfigStatus) -> bool:
    """Whether a status says no more than what is still waited for, which is mostly over in a moment."""
    wrong = {each.type for each in status.conditions if each.severity in (WARNING, ERROR)}
    known = {each.type for each in before.conditions if each.severity in (WARNING, ERROR)}
    return not status.ready and wrong <= known


def available(kind: ConditionType) -> Condition:
    """The condition of data or certificates that are there."""
    return true_condition(kind.value)


def waiting(reason: Reason, message: str) -> Condition:
    """DataSecretAvailable, False: there is no data yet, and what the provider waits for."""
    return false_condition(
        ConditionType.DATA_SECRET_AVAILABLE.value, reason.value, INFO, message[:MESSAGE_CHARS]
    )


def failed(message: str) -> Condition:
    """DataSecretAvailable, False: the data cannot be made, and why."""
    reason = Reason.DATA_SECRET_GENERATION_FAILED.value
    kind = ConditionType.DATA_SECRET_AVAILABLE.value
    return false_condition(kind, reason, WARNING, message[:MESSAGE_CHARS])


def no_certificates(reason: Reason, message: str, *, of_data: bool = False) -> Condition:
    """CertificatesAvailable, False: missing or unusable. ``of_data``: the same for DataSecretAvailable."""
    severity = ERROR if reason is Reason.CERTIFICATES_CORRUPTED else WARNING
    kind = ConditionType.DATA_SECRET_AVAILABLE if of_data else ConditionType.CERTIFICATES_AVAILABLE
    return false_condition(kind.value, reason.value, severity, message[:MESSAGE_CHARS])
