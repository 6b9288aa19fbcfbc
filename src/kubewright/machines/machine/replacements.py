"""Whether an unhealthy machine may be replaced now: limits for the time of an outage. Pure.

Theory.      A network fault makes many nodes silent at once, and their pods run on. If each of their machines
             were replaced as soon as its health timeout is over, a fault of minutes would cost every VM. Two
             limits stand in the way. The first counts the machines of one deployment that are being replaced.
             The second is a brake for all machines: while more of them are unhealthy than it allows, the
             cause is likely not theirs, and none is given up.
             A limit holds an Unknown machine; it never stops a replacement that has begun, and never one that
             a user asks for by deleting a machine.
Invariants.  A percentage is rounded up, so that one above 0 % always permits one replacement. 0 permits
             none: the machines of that deployment wait for a user. An annotation that cannot be read counts
             as absent, and is named.
Source       mcm.md §4.8 (where the limit is the constant 1), §16 row 2; issue 688 of the original.
Called by    ``health``; ``caches`` counts.
"""

from dataclasses import dataclass

from kubewright.api.machine.names import MAX_REPLACEMENTS_ANNOTATION
from kubewright.rollout.bounds import IntOrPercent, resolve


@dataclass(frozen=True, slots=True)
class Fleet:
    """The machines beside an unhealthy one, as numbers.

    ``replacing``  others of its deployment that are being replaced, or are replacements not yet Running
    ``members``    all machines of its deployment
    ``limit``      what the annotation of the deployment asks for; empty: nothing
    ``unhealthy``  machines of all deployments that are Unknown, or Failed for their health
    ``joined``     those, and the machines that are Running
    """

    replacing: int = 0
    members: int = 1
    limit: str = ""
    unhealthy: int = 1
    joined: int = 1


@dataclass(frozen=True, slots=True)
class ReplacementLimits:
    """What the operator allows.

    ``replacements``  machines of one deployment that may be replaced for bad health at the same time
    ``unhealthy``     machines of all that may be unhealthy while any is replaced
    """

    replacements: IntOrPercent = 1
    unhealthy: IntOrPercent = "100%"


def held_by(fleet: Fleet, limits: ReplacementLimits) -> str:
    """Why the machine may not be replaced now, a clause for users; empty: it may."""
    allowed, wrong = _allowed(fleet, limits)
    if fleet.unhealthy > (most := resolve(limits.unhealthy, fleet.joined, up=True)):
        told = f"{fleet.unhealthy} of {fleet.joined} machines are unhealthy"
        return f"{told}, and while more than {most} are (--machine-max-unhealthy), none is replaced"
    if fleet.replacing < allowed:
        return ""
    if not allowed:
        return f"its deployment allows no replacement ({MAX_REPLACEMENTS_ANNOTATION}){wrong}"
    return f"other machines are getting replaced{wrong}"


def parsed_limit(text: str) -> IntOrPercent:
    """A limit as users write it.

    Raises:
        ValueError: neither a whole number nor a percentage.
    """
    value: IntOrPercent = int(text) if text.isascii() and text.isdigit() else text
    resolve(value, 0, up=True)
    return value


def _allowed(fleet: Fleet, limits: ReplacementLimits) -> tuple[int, str]:
    """How many may be replaced at once, and what is wrong with the annotation."""
    default = resolve(limits.replacements, fleet.members, up=True)
    if not fleet.limit:
        return default, ""
    try:
        return resolve(parsed_limit(fleet.limit), fleet.members, up=True), ""
    except ValueError as error:
        return default, f"; annotation {MAX_REPLACEMENTS_ANNOTATION}: {error}"
