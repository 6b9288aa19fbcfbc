"""Whatever fails in whatever order, the simulated cloud keeps its invariants.

Hypothesis plays controllers that call, give up, and call again, on a cloud that throttles,
fails before and after it has acted, and loses VMs by itself.
"""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kubewright.driver.contract import stub
from kubewright.driver.errors import DriverError, NotFound
from kubewright.driver.registry import Settings
from kubewright.providers.sim import driver as make
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request

CLASS = class_request(
    createSeconds=3,
    bootSeconds=5,
    deleteSeconds=4,
    faults=[
        {"operation": "create", "chance": 0.2},
        {"operation": "create", "chance": 0.2, "afterSuccess": True, "hangSeconds": 7},
        {"operation": "delete", "chance": 0.2, "hangSeconds": 2},
        {"operation": "delete", "chance": 0.3, "afterSuccess": True},
    ],
)
VERBS = ("create", "delete", "status", "vanish", "kill", "wait")
_calls = st.lists(
    st.tuples(st.sampled_from(VERBS), st.sampled_from("ab"), st.floats(0, 12)), min_size=1, max_size=25
)


@given(calls=_calls, seed=st.integers(0, 1000), at_once=st.integers(1, 4))
async def test_one_vm_a_machine_and_none_forgotten(
    calls: list[tuple[str, str, float]], seed: int, at_once: int
) -> None:
    clock = LoopClock(seed=seed)
    sim = make(Settings(clock))
    ids: dict[str, str] = {}
    crowd = asyncio.Semaphore(at_once)

    async def one(verb: str, name: str, timeout: float) -> None:
        async with crowd:
            await call(sim, verb, name, timeout)
        check(sim, ids)

    await asyncio.gather(*(one(*each) for each in calls))
    for name in "ab":
        await delete_until_it_is_over(sim, name)
    assert not sim.cloud.vms
    assert list(await sim.list(CLASS)) == []


def check(sim: SimDriver, ids: dict[str, str]) -> None:
    """One VM a name; an id belongs to one machine for ever."""
    vms = list(sim.cloud.vms.values())
    assert len({vm.name for vm in vms}) == len(vms)
    for vm in vms:
        assert ids.setdefault(vm.id, vm.name) == vm.name


async def call(sim: SimDriver, verb: str, name: str, timeout: float) -> None:
    request = CLASS.of(stub(name, "ns", f"uid-{name}"))
    vm = sim.cloud.named(name, "ns")
    if verb in ("vanish", "kill"):
        if vm is not None:
            getattr(sim.cloud, verb)(vm.id)
    elif verb == "wait":
        await asyncio.sleep(timeout)
    else:
        try:
            async with asyncio.timeout(timeout):
                await getattr(sim, verb)(request)
        except (TimeoutError, DriverError):
            return


async def delete_until_it_is_over(sim: SimDriver, name: str) -> None:
    """What a controller does: repeat until the answer is success or NotFound, and then it is true."""
    request = CLASS.of(stub(name, "ns", f"uid-{name}"))
    for _ in range(100):
        try:
            await sim.delete(request)
        except NotFound:
            pass
        except DriverError:
            continue
        assert sim.cloud.named(name, "ns") is None
        return
    raise AssertionError("a hundred deletions did not help")
