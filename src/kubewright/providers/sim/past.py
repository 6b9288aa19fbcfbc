"""VMs that are gone: only for lists that lag, as those of real clouds do."""

from collections import deque
from collections.abc import Mapping

from kubewright.providers.sim.vm import Vm, carries

REMEMBERED = 10_000
"""Graves kept; older ones are beyond any list's lag that is worth simulating."""


class Past:
    """Who died when."""

    def __init__(self) -> None:
        self._graves: deque[tuple[float, Vm]] = deque(maxlen=REMEMBERED)

    def add(self, gone_at: float, vm: Vm) -> None:
        """Remember a VM that ended at that moment (epoch seconds)."""
        self._graves.append((gone_at, vm))

    def alive_at(self, then: float, account: str, tags: Mapping[str, str]) -> list[Vm]:
        """VMs that are gone by now and were there ``then``, of the same class or tags."""
        return [
            vm
            for gone_at, vm in self._graves
            if vm.created_at <= then < gone_at
            and (carries(vm, account, tags) if tags else vm.account == account)
        ]
