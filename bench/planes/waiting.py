"""Waits that say what they wait for, and that end when nothing happens any more.

Theory.      How long a start takes under load cannot be known beforehand, but while the status of a control
             plane changes, work is done. So a wait ends without success when what the control planes say has
             not changed for ``STALL_SECONDS``, or after its limit if that comes first.
             Every ``SAY_SECONDS`` what is waited for goes to standard error.
Called by    ``scenario``, ``changes``.
"""

import sys
from collections.abc import Awaitable, Callable, Sequence

from bench.measured import Stuck
from kubewright.api.cluster.conditions import READY, TRUE
from kubewright.api.controlplane.names import PlaneCondition
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane
from kubewright.base.clock import Clock
from kubewright.processes.program import LONGEST_PAUSE

SAY_SECONDS = 10.0
STALL_SECONDS = 2 * LONGEST_PAUSE
"""A program that ended several times, as under load, is started again only after such a pause."""
LIMIT_SECONDS = 3600.0
"""Of a wait for one control plane."""
SHOWN = 320
"""Characters of a line."""
_LACKS = (READY, str(PlaneCondition.UP_TO_DATE))
_CHANGES = (PlaneCondition.DELETING, PlaneCondition.ROTATING_CERTIFICATES, PlaneCondition.ROLLING_OUT)
"""Conditions that are False while something lacks, and those that exist while something goes on."""

Done = Callable[[], Awaitable[bool]]


class Waiting:
    """Waits in one world. ``look`` reads the control planes of the bench."""

    def __init__(self, look: Callable[[], Awaitable[Sequence[NestedControlPlane]]], clock: Clock) -> None:
        self._look, self._clock = look, clock

    async def until(self, done: Done, what: str, *, step: float, limit: float = LIMIT_SECONDS) -> None:
        """Until ``done``, asked every ``step`` seconds. ``what``: what is waited for, a clause.

        Raises:
            Stuck: nothing changed any more, or ``limit`` seconds passed.
        """
        now = self._clock.monotonic
        began = changed = said = now()
        told = ""
        while not await done():
            if now() - said >= SAY_SECONDS:
                said, before, told = now(), told, waits_for(await self._look())
                changed = changed if told == before else said
                print(f"bench: {said - began:4.0f} s {what}: {told}"[:SHOWN], file=sys.stderr, flush=True)
            if now() - changed >= STALL_SECONDS:
                raise Stuck(f"{what}: for {STALL_SECONDS:.0f} s nothing changed: {told}")
            if now() - began >= limit:
                raise Stuck(f"{what}: not within {limit:.0f} s: {told}")
            await self._clock.sleep(step)


def waits_for(planes: Sequence[NestedControlPlane]) -> str:
    """What these control planes wait for, by what the first says that is not as it should be."""
    ready = sum(each.status.ready for each in planes)
    told = next((f"; {each.metadata.name}: {said}" for each in planes if (said := _unfinished(each))), "")
    return f"{ready} of {len(planes)} ready{told}"


def _unfinished(plane: NestedControlPlane) -> str:
    """What its conditions say of what is not ready, not up to date, or goes on; empty: nothing."""
    said = {each.type: each for each in plane.status.conditions}
    lacks = [said[each].message for each in _LACKS if each in said and said[each].status != TRUE]
    changes = [f"{each} {said[each].message}".rstrip() for each in _CHANGES if each in said]
    return "; ".join([*lacks[:1], *changes]) if said else "its controller has not looked at it yet"
