"""The VMs of a simulated cloud that go at one moment, while an observer asks for others."""

import asyncio

from kubewright.providers.sim.inventory import Inventory, Store, VmRequest
from kubewright.providers.sim.spec import SimSpec
from kubewright.testing.clocks import LoopClock

MANY = 3_000
"""More than the depth to which Python lets functions call each other."""


class Inquisitive:
    """An observer that counts all VMs whenever it is told of one."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.told: list[str] = []
        self.counted: set[int] = set()

    def changed(self, vm_id: str) -> None:
        self.told.append(vm_id)
        self.counted.add(len(self.inventory.all()))

    async def wait_idle(self, vm_id: str) -> None:
        raise AssertionError(vm_id)


async def test_all_vms_that_go_at_one_moment_are_gone_before_the_observer_is_told_of_the_first() -> None:
    inventory = Inventory(LoopClock(), Store(None))
    made = [
        inventory.add(VmRequest(f"m{number}", "ns", f"uid-{number}", "c", SimSpec()), SimSpec())
        for number in range(MANY)
    ]
    for vm in made:
        inventory.end(vm, seconds=5)
    inventory.observer = observer = Inquisitive(inventory)
    await asyncio.sleep(5)
    assert inventory.get(made[0].id) is None
    assert sorted(observer.told) == sorted(vm.id for vm in made)
    assert observer.counted == {0}
