"""When a call to the simulated cloud goes wrong: the memory and the dice of misfortune.

Theory.      What can go wrong stands in the spec (``spec.Fault``); here is only how often it already
             did, per machine, and the draw. The dice are the clock's, so a seed repeats a bad day.
Invariants.  Memory is bounded: the longest untouched machine is forgotten first. It does not
             survive a restart; a fault with ``times`` then strikes anew, as real clouds do.
Called by    ``cloud``, once at the beginning of every call.
"""

from collections import OrderedDict

from kubewright.base.clock import Clock
from kubewright.driver.errors import Code, DriverError
from kubewright.providers.sim.spec import Fault, Operation, SimSpec

REMEMBERED = 50_000
"""Machines whose faults are counted at the same time; a count is some hundred bytes."""


class Misfortune:
    """Decides which calls fail."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._struck: OrderedDict[tuple[str, Operation, int], int] = OrderedDict()
        self._allowance: dict[str, tuple[float, float]] = {}

    def next(self, operation: Operation, who: str, spec: SimSpec) -> Fault | None:
        """The fault that this call meets, if any: the first of the spec's that strikes."""
        for number, fault in enumerate(spec.faults):
            if fault.operation == operation and self._strikes(fault, (who, operation, number)):
                return fault
        return None

    def throttle(self, account: str, spec: SimSpec) -> None:
        """Count a call against the account's rate; one second's worth may come at once.

        Raises:
            DriverError: Unavailable, the rate is exceeded.
        """
        if not (rate := spec.calls_per_second):
            return
        now, burst = self._clock.monotonic(), max(rate, 1.0)
        left, since = self._allowance.get(account, (burst, now))
        left = min(burst, left + (now - since) * rate)
        self._allowance[account] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            raise DriverError.of(Code.Unavailable, f"request rate exceeded: {rate:g} calls per second")

    def _strikes(self, fault: Fault, key: tuple[str, Operation, int]) -> bool:
        if fault.chance < 1 and self._clock.random.random() >= fault.chance:
            return False
        if not fault.times:
            return True
        count = self._struck.pop(key, 0) + 1
        self._struck[key] = count
        if len(self._struck) > REMEMBERED:
            self._struck.popitem(last=False)
        return count <= fault.times
