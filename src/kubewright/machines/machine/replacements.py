"""Whether an unhealthy machine may be replaced now: limits against mass replacement in an outage. Pure.

Theory.      A network fault makes many nodes silent at once, and their pods run on. If each of their machines
             were replaced as soon as its health timeout is over, a fault of minutes would cost every VM. Two
             limits prevent that. ``replacements`` limits how many machines of one deployment are replaced at
             once. ``unhealthy`` counts the machines of all deployments: while more than that are unhealthy,
             the cause is likely outside of them, and no Unknown machine becomes Failed.
             A machine that a limit holds stays Unknown. No limit stops a replacement that has begun, or one
             that a user asks for by deleting a machine. A machine that is deleted while its node is healthy,
             by a rollout or by a user, does not count: its drain may wait for the very pods that only the
             replacement of another machine brings back. Where processes divide the machines, each begins
             replacements in a deployment only in its turn (``runtime.shard``): it has seen what others began.
Invariants.  A percentage is rounded up, so that one above 0 % always permits one replacement. 0 permits
             none: the machines of that deployment wait for a user. An annotation that cannot be read counts
             as absent, and the message says what is wrong with it.
Source       mcm.md §4.8 (where the limit is the constant 1), §16 row 2; MCM's issue 688.
Called by    ``health``; ``caches`` counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kubewright.api.machine import names
from kubewright.api.machine.names import MAX_REPLACEMENTS_ANNOTATION, Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.limits import number_of
from kubewright.nodes import health
from kubewright.rollout.model import IntOrPercent, resolve


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

    ``types``: the conditions of nodes that are bad, for machines that name none (mcm.md §4.8; MCM counts also
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
