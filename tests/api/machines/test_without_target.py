"""Machines whose VMs join no cluster (``--target-kubeconfig none``): Available, without token, node or drain."""

from collections.abc import Callable
from dataclasses import replace

from kubewright.api.core import NODE, SECRET
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT
from kubewright.compose.options import Options
from kubewright.driver.contract import Instance, MachineRequest
from kubewright.machines.caches import TOKEN_PLACE
from kubewright.machines.machine.act import NAME_PLACE, TOKEN_NAMESPACE
from kubewright.testing.stage import Borrowed, stage
from kubewright.testing.world import Snapshot, World, short_timeouts


def without_target() -> Options:
    options = short_timeouts()
    return replace(options, machine=replace(options.machine, joins=False))


class Curious(Borrowed):
    """Remembers the user data that VMs were made with."""

    seen: bytes = b""

    async def create(self, request: MachineRequest) -> Instance:
        self.seen = request.secret.data["userData"]
        return await super().create(request)


def available(count: int, machine_class: str = "small") -> Callable[[Snapshot], bool]:
    """So many machines, all Available and of that class, each with its VM, and no node."""

    def settled(seen: Snapshot) -> bool:
        of_class = {each.spec.machine_class.name for each in seen.machines} == {machine_class}
        return of_class and seen.phases == [Phase.AVAILABLE] * count and seen.vms == count

    return settled


async def replicas(world: World) -> tuple[int, int, int]:
    """Replicas, ready and available ones, of the deployment."""
    status = (await world.client.get(MACHINE_DEPLOYMENT, world.key("workers"))).status
    return status.replicas, status.ready_replicas, status.available_replicas


async def test_a_deployment_is_made_rolled_scaled_and_deleted_without_any_node() -> None:
    async with stage(without_target()) as here, here.process():
        world = here.world
        await world.deploy("workers", 3)
        await world.until(available(3), "all are Available")
        await world.clock.sleep(2)  # the status of a large set is written once a second
        assert await replicas(world) == (3, 0, 3)
        await world.roll("workers", "large")
        await world.until(available(3, "large"), "all are of the new class")
        await world.change("workers", {"replicas": 1})
        await world.until(available(1, "large"), "one is left")
        await world.delete("workers")
        await world.until(lambda s: not s.machines and not s.vms, "nothing is left")
        assert await world.client.list(NODE) == []


async def test_the_status_has_the_addresses_of_the_vm_and_what_mcm_says() -> None:
    async with stage(without_target()) as here, here.process():
        world = here.world
        await world.make("m1")
        await world.until(available(1), "it is Available")
        status = (await world.client.get(MACHINE, world.key("m1"))).status
    assert [(each.type, each.address) for each in status.addresses] == [
        ("Hostname", "m1"),
        ("InternalIP", "10.0.0.1"),
    ]
    operation = status.last_operation
    assert (operation.type, operation.state) == ("Create", "Successful")
    assert operation.description == "Created machine on cloud provider"


async def test_no_token_is_made_and_its_placeholder_stays_in_the_user_data() -> None:
    async with stage(without_target()) as here:
        driver = Curious(here.cloud)
        async with here.process(driver):
            await here.world.make("m1")
            await here.world.until(available(1), "it is Available")
        secrets = await here.world.client.list(SECRET, TOKEN_NAMESPACE)
    assert TOKEN_PLACE in driver.seen
    assert NAME_PLACE not in driver.seen
    assert [each.metadata.name for each in secrets if each.metadata.name.startswith("bootstrap-token-")] == []


async def test_a_vm_that_cannot_be_made_in_time_fails_its_machine() -> None:
    options = without_target()
    async with stage(options) as here, here.process():
        await here.world.make("quota-1")
        await here.world.until(lambda s: s.phases == [Phase.CRASH_LOOP_BACK_OFF], "it is refused")
        await here.world.until(lambda s: s.phases == [Phase.FAILED], "it is given up", seconds=1300, every=10)


async def test_machines_that_run_stay_as_they_are_when_the_next_process_has_no_target() -> None:
    async with stage(short_timeouts()) as here:
        async with here.process():
            await here.world.deploy("workers", 2)
            before = await here.world.settled(2)
        async with replace(here, options=without_target()).process():
            await here.world.clock.sleep(120)
            after = await here.world.look()
    assert (after.uids, after.phases) == (before.uids, before.phases)


async def test_available_machines_wait_for_their_nodes_when_the_next_process_has_a_target() -> None:
    async with stage(without_target()) as here:
        async with here.process():
            await here.world.deploy("workers", 2)
            before = await here.world.until(available(2), "all are Available")
        await here.world.clock.sleep(3600)
        async with replace(here, options=short_timeouts()).process():
            after = await here.world.settled(2)
    assert after.uids == before.uids
