"""What an operator may set for all machines; a Machine's own spec goes before these. Pure.

Theory.      A network fault makes many nodes silent at once, and their pods run on. If each of their machines
             were replaced as soon as its health timeout is over, a fault of minutes would cost every VM. Two
             limits prevent that. ``replacements`` limits how many machines of one deployment are replaced at
             once. ``unhealthy`` counts the machines of all deployments: while more than that are unhealthy,
             the cause is likely outside of them, and no Unknown machine becomes Failed.
             A machine that a limit holds stays Unknown. No limit stops a replacement that has begun, or one
             that a user asks for by deleting a machine. A machine that is deleted while its node is healthy,
             by a rollout or by a user, does not count: its drain may wait for the very pods that only the
             replacement of another machine brings back. Where processes divide the machines, each begins
             replacements in a deployment only in its turn (``runtime.lease``): it has seen what others began.
Invariants.  A percentage is rounded up, so that one above 0 % always permits one replacement. 0 permits
             none: the machines of that deployment wait for a user. An annotation that cannot be read counts
             as absent, and the message says what is wrong with it.
Called by    ``compose`` and ``cli`` (make them); ``caches`` (counts), ``machine``, ``machineset``,
             ``orphans``. The statements of MCM: docs/reference/mcm-parity.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kubewright.api.core import NODE_READY
from kubewright.api.machine import names
from kubewright.api.machine.names import (
    DEFAULT_NODE_CONDITIONS,
    MAX_REPLACEMENTS_ANNOTATION,
    NodeConditionType,
    Phase,
)
from kubewright.api.machine.v1alpha1 import Machine, MachineSpec
from kubewright.base import delays
from kubewright.base.durations import parse_duration
from kubewright.base.limits import number_of
from kubewright.nodes import health
from kubewright.nodes.drain.policy import DrainPolicy, Force
from kubewright.rollout.model import IntOrPercent, resolve

ROLLOUT_NODES, MACHINE_TAINT = "rolloutnodes", "machinetaint"
"""The controllers of sets that an operator may leave out by themselves: they write to nodes."""

HEALTHY: Mapping[str, str] = {NODE_READY: "True", NodeConditionType.READONLY_FILESYSTEM: "False"}
"""What a node's conditions say while its kubelet can end pods."""

FORCE_AFTER_SILENCE = timedelta(minutes=5)
"""How long a node must be silent or read-only before its pods are deleted by force."""


@dataclass(frozen=True, slots=True)
class ReplacementCounts:
    """The numbers of machines on which the replacement of an unhealthy one depends.

    ``replacing``  others of its deployment that ``counts_as_replaced`` counts
    ``members``    all machines of its deployment
    ``limit``      what the annotation of the deployment asks for; empty: nothing
    ``unhealthy``  machines of all deployments that are Unknown, or Failed for their health
    ``joined``     the unhealthy ones and those that are Running; ``unhealthy`` may be a percentage of these
    ``turn``       in what time this shard may begin a replacement in the deployment; zero: now
    """

    replacing: int = 0
    members: int = 1
    limit: str = ""
    unhealthy: int = 1
    joined: int = 1
    turn: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class ReplacementLimits:
    """What the operator allows.

    ``replacements``  machines of one deployment that may be replaced for bad health at the same time
    ``unhealthy``     machines of all deployments that may be unhealthy while any is replaced
    """

    replacements: IntOrPercent = 1
    unhealthy: IntOrPercent = "100%"


def held_by(counts: ReplacementCounts, limits: ReplacementLimits) -> str:
    """Why the machine may not be replaced now, a clause for users; empty: it may."""
    allowed, wrong = _allowed(counts, limits)
    if counts.unhealthy > (most := resolve(limits.unhealthy, counts.joined, up=True)):
        told = f"{counts.unhealthy} of {counts.joined} machines are unhealthy"
        return f"{told}, and while more than {most} are (--machine-max-unhealthy), none is replaced"
    if counts.replacing < allowed:
        return "it is the turn of other shards to replace machines of its deployment" if counts.turn else ""
    if not allowed:
        return f"its deployment allows no replacement ({MAX_REPLACEMENTS_ANNOTATION}){wrong}"
    by = MAX_REPLACEMENTS_ANNOTATION if counts.limit and not wrong else "--machine-max-replacements"
    return f"other machines are getting replaced, at most {allowed} of its deployment at once ({by}){wrong}"


def counts_as_replaced(machine: Machine, types: Sequence[str]) -> bool:
    """Whether a machine is being replaced, or is a replacement that is not Running yet.

    ``types``: the conditions of nodes that are bad, for machines that name none (PRO-13; MCM counts also
    machines that are deleted while their nodes are well).
    """
    status = machine.status
    current = status.current_status
    if current.preserve_expiry_time is not None:
        return False
    if machine.metadata.deleting:
        well = health.judge(status.conditions, bad_conditions(machine, types)).healthy
        return current.phase == Phase.FAILED or not well
    return current.phase not in (Phase.RUNNING, Phase.UNKNOWN, Phase.IN_PLACE_UPDATE_FAILED)


def bad_conditions(machine: Machine, types: Sequence[str]) -> Sequence[str]:
    """The conditions of its node that are bad; ``types``: those that count if it names none."""
    own = machine.spec.node_conditions
    return names.condition_list(own) if own else types


def parsed_limit(text: str) -> IntOrPercent:
    """A limit as users write it.

    Raises:
        ValueError: neither a whole number nor a percentage.
    """
    value: IntOrPercent = number_of(text) if text.isascii() and text.isdigit() else text
    resolve(value, 0, up=True)
    return value


def _allowed(counts: ReplacementCounts, limits: ReplacementLimits) -> tuple[int, str]:
    """How many may be replaced at once, and what is wrong with the annotation."""
    default = resolve(limits.replacements, counts.members, up=True)
    if not counts.limit:
        return default, ""
    try:
        return resolve(parsed_limit(counts.limit), counts.members, up=True), ""
    except ValueError as error:
        return default, f"; annotation {MAX_REPLACEMENTS_ANNOTATION}: {error}"


@dataclass(frozen=True, slots=True)
class SetSettings:
    """What an operator may set for sets and deployments; defaults are those of MCM's flags.

    ``spare_nodes``          cluster-autoscaler leaves the nodes of a deployment alone while it rolls out
    ``safety_up``            a set is frozen when its deployment has this many machines more than it may have
    ``safety_down``          it is unfrozen when there are this many fewer than that
    ``overshooting_period``  when to look again at a frozen set at the latest
    ``min_ready``            ``minReadySeconds`` counts; MCM does not look at it
    """

    spare_nodes: bool = True
    safety_up: int = 2
    safety_down: int = 1
    overshooting_period: timedelta = timedelta(minutes=1)
    min_ready: bool = True


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """Defaults are those of machine-controller's flags  unless a comment says why not."""

    creation_timeout: timedelta = timedelta(minutes=20)
    health_timeout: timedelta = timedelta(minutes=10)
    drain_timeout: timedelta = timedelta(hours=2)
    in_place_update_timeout: timedelta = timedelta(minutes=20)
    preserve_timeout: timedelta = timedelta(hours=96)
    max_evict_retries: int | None = None
    """None, as where the flag is not given: as many as fit into a machine's drain time-out, 360 in 2 h."""

    detach_timeout: timedelta = timedelta(minutes=2)
    reattach_timeout: timedelta = timedelta(seconds=90)
    node_conditions: tuple[str, ...] = DEFAULT_NODE_CONDITIONS
    resource_exhausted_retry: timedelta = timedelta(minutes=10)
    token_groups: str = ""

    retry_all_errors: bool = True
    """Whether a call is repeated after errors that the driver contract does not want repeated
    (``errors.FINAL``): what mends them in the cloud, such as a higher quota, sends no sign. If not, it waits
    for a change of the machine, its class or its Secrets."""

    forced_deletion_drains: bool = True
    """Whether a forced deletion ends pods without grace and lets volumes go before the VM, as MCM does. If
    not, there is no drain and no wait at all, as the label's documentation says (PRO-16)."""

    joins: bool = True
    """Whether VMs join a cluster as nodes. Without one (``--target-kubeconfig none``) a machine with a VM is
    Available; it has no token, and nothing of it is drained."""

    replacement_limits: ReplacementLimits = field(default_factory=ReplacementLimits)
    """How many machines may be replaced for bad health at the same time, and when none may."""

    sets: SetSettings = field(default_factory=SetSettings)
    """Those of sets and deployments."""

    report_after: timedelta = timedelta(seconds=1)
    """Pending and Terminating are written only when they last: most do not, and each costs a write."""

    report_creation_after: timedelta = timedelta(seconds=3)
    """How long a driver may work on a VM before its machine says so. Most clouds accept one within two
    seconds, and then it costs no write; who watches wonders after a few."""

    confirm_absent: timedelta = timedelta(seconds=10)
    """How long a VM whose creation was not answered must stay unseen before we believe that there is none."""

    unreachable_after: timedelta = timedelta(seconds=30)
    """A cluster that cannot be watched for so long stops all but deletions, and clocks begin anew when it is
    back: ``--machine-safety-apiserver-statuscheck-timeout``. Its period has no counterpart, since a watch
    tells at once."""

    workers: int = 100
    """Reconciles at once. None of them waits for a cloud or a drain, so this bounds API requests only."""


def effective(own: str | None, default: timedelta) -> timedelta:
    """A machine's own duration, or the default; one that cannot be read counts as unset."""
    try:
        return parse_duration(own) if own else default
    except ValueError:
        return default


def drain_policy(
    settings: MachineSettings, own: MachineSpec | None = None, *, requested: bool = False, at_once: int = 1
) -> DrainPolicy:
    """How the Machine API drains a node: in limited time, and then by force.

    Args:
        settings: what the operator has set.
        own: the machine's spec; None: the node has no machine.
        requested: a user asks to delete all pods at once.
        at_once: how many machines are drained: the more, the rarer each is looked at.
    """
    timeout, refusals = settings.drain_timeout, settings.max_evict_retries
    if own is not None:
        timeout = effective(own.drain_timeout, timeout)
        refusals = refusals if own.max_evict_retries is None else own.max_evict_retries
    refusals = timeout // delays.EVICTION if refusals is None else refusals
    force = Force(
        requested, at_timeout=True, sick_after=FORCE_AFTER_SILENCE, healthy=HEALTHY, refusals=refusals
    )
    return DrainPolicy(
        timeout,
        force,
        detach_timeout=settings.detach_timeout,
        reattach_timeout=settings.reattach_timeout,
        poll=max(delays.POLL, delays.for_drain(timedelta(), at_once)),
    )
