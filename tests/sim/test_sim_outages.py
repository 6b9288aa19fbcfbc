"""What must not follow from an outage, from silent watches, or from late requests."""

import pytest

from kubewright.api.machine.v1alpha1 import MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.wire.gvk import Key
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, NODES, VMS, Write
from simulation.person import Person
from simulation.run import simulate
from simulation.schedule import parse
from simulation.stories import BY_NAME
from simulation.story import Realm, Story
from simulation.world import Plot, World


@pytest.mark.parametrize(
    ("story", "faults", "apart"),
    [
        ("pause-and-resume", "at:0.3:target-outage", True),
        ("roll", "at:0.3:target-outage", True),
        ("pause-and-resume", "at:0.3:outage", False),
    ],
)
def test_no_machine_is_unhealthy_because_a_server_was_away(story: str, faults: str, apart: bool) -> None:
    """Outages longer than every time-out, and no machine or node is replaced for them."""
    patients = Patients()
    outcome = simulate(BY_NAME[story], Plot(0, parse(faults), apart=apart), prepare=patients.of)
    assert outcome.violations == ()
    assert patients.found == set()


@pytest.mark.parametrize("number", range(11, 16))
def test_no_machine_is_unhealthy_because_a_watch_was_dead(number: int) -> None:
    """One of these watches is that of the kubelets' Leases."""
    patients, plot = Patients(), Plot(0, parse(f"watch:{number}:silence"))
    outcome = simulate(BY_NAME["create"], plot, quiet=60.0, prepare=patients.of)
    assert outcome.violations == ()
    assert patients.found == set()


class Patients:
    """The machines that were called unhealthy in a world, and the nodes whose VM is there."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def of(self, world: World) -> None:
        """Listen from the first entry on."""
        world.journal.listen(lambda write: self._see(world, write))

    def _see(self, world: World, write: Write) -> None:
        if not write.committed or write.kind == VMS or write.after is None:
            return
        status = write.after.get("status", {})
        if write.kind == NODES:
            told = {each["type"]: each["status"] for each in status.get("conditions", ())}
            alive = any(vm.gone_at is None for vm in world.journal.vms.values() if vm.node_name == write.key)
            ill = alive and told.get("Ready") == "Unknown"
        else:
            ill = status.get("currentStatus", {}).get("phase") in ("Unknown", "Failed")
        if ill:
            self.found.add(write.key)


async def _lie(person: Person) -> None:
    """A user, or a request that arrives very late, writes a wrong status."""
    journal, client = person.world.journal, person.world.client
    for kind, resource in ((MACHINE_SET, MACHINE_SETS), (MACHINE_DEPLOYMENT, MACHINE_DEPLOYMENTS)):
        for key in tuple(journal.objects[resource]):
            there = Key(*key.split("/"))
            await client.patch(kind, there, {"status": {"replicas": 7}}, subresource="status")


def _corrected(person: Person) -> bool:
    objects = person.world.journal.objects
    told = [*objects[MACHINE_SETS].values(), *objects[MACHINE_DEPLOYMENTS].values()]
    return person.settled(2) and all(each["status"]["replicas"] == 2 for each in told)


async def _two_machines(person: Person) -> None:
    await person.deploy("pool", 2)
    await person.until(lambda: person.settled(2), "two machines")


def test_a_status_that_is_not_true_is_corrected() -> None:
    story = Story("lie", _lie, _corrected, before=_two_machines, realm=Realm("without rules", rules=()))
    outcome = simulate(story, Plot(0))
    assert outcome.violations == ()
    assert outcome.seconds < 60
