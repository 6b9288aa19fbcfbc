"""What goes wrong between the controllers and the server must not show in the number of machines."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.machines_sets.conftest import On

from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.replicas.objects import new_names
from kubewright.testing.faults import (
    FORBIDDEN,
    INVALID,
    UNAVAILABLE,
    Delay,
    Dice,
    Fault,
    Lag,
    Lose,
    LoseAnswer,
    Silence,
)
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request

if TYPE_CHECKING:
    from tests.api.machines_sets.conftest import World
else:
    World = Any

NS = "default"


@dataclass
class Refuse:
    """Refuses all requests of this method for a resource but the first few, by a rule of validation."""

    method: str
    resource: str
    after: int

    def __call__(self, request: Request) -> Fault | None:
        if request.method != self.method or not request.path.endswith(f"/{self.resource}"):
            return None
        self.after -= 1
        return INVALID if self.after < 0 else None


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(LoseAnswer(), id="the answer is lost"),
        pytest.param(Lose(), id="the request is lost"),
        pytest.param(Delay(40.0), id="no answer before the deadline"),
    ],
)
async def test_no_machine_is_made_twice_when_creations_fail(world: World, fault: Any) -> None:
    world.transport.choose = On("machines", creation=fault, times=6)
    await world.deploy(replicas=10)
    await world.settle(10)
    assert len(world.created) == 10


async def test_an_unanswered_creation_is_asked_for_again_by_name_while_the_cache_is_late(
    world: World,
) -> None:
    world.transport.choose = On("machines", creation=LoseAnswer(), times=3, watch=Lag(5.0))
    await world.restart()
    await world.deploy(replicas=4)
    await world.settle(4)
    await world.clock.sleep(30)
    assert (len(world.created), len(world.all())) == (4, 4)


async def test_a_set_that_may_have_been_made_counts_before_the_next_one_is_sized(world: World) -> None:
    await world.deploy(replicas=3, surge=1, unavailable=1)
    await world.settle(3)
    bounds = world.measure()
    world.transport.choose = On("machinesets", creation=LoseAnswer(), times=1, watch=Lag(0.9))
    await world.restart()
    await world.roll("large")
    await world.clock.sleep(1.0)
    await world.roll("huge")
    await world.settle(3, "huge")
    assert (bounds.most <= 4, bounds.fewest >= 2) == (True, True)


async def test_a_refused_creation_is_reported_and_tried_again(world: World) -> None:
    refusing = On("machines", creation=FORBIDDEN)
    world.transport.choose = refusing
    await world.deploy(replicas=50)
    await world.clock.sleep(10)
    tries = len(world.requests("POST", "/machines/"))
    assert tries < 10, "slow start and backoff: fifty missing machines are not fifty requests"
    (only,) = await world.sets()
    assert [c.reason for c in only.status.machine_set_condition] == ["FailedCreate"]
    assert any(reason == "FailedCreate" for reason, _ in await world.events())
    failed = [c for c in (await world.deployment()).status.conditions if c.type == "ReplicaFailure"]
    assert [c.reason for c in failed] == ["FailedCreate"]
    refusing.times = 0
    await world.settle(50)
    (only,) = await world.sets()
    assert only.status.machine_set_condition == ()
    assert not [c for c in (await world.deployment()).status.conditions if c.type == "ReplicaFailure"]


async def test_a_name_that_a_foreign_machine_has_is_left_to_it(world: World) -> None:
    await world.deploy(replicas=1)
    await world.settle(1)
    (only,) = await world.sets()
    (name,) = new_names(only.metadata, 1, (), 1)
    spec = {"class": {"kind": "MachineClass", "name": "small"}}
    foreign = {"metadata": {"name": name, "labels": {"app": "foreign"}}, "spec": spec}
    await world.client.create(MACHINE, foreign, namespace=NS)
    await world.change({"replicas": 3})
    await world.until(lambda: len(world.running()) == 4)
    await world.clock.sleep(30)
    assert len(world.all()) == 4
    assert (await world.client.get(MACHINE, Key(NS, name))).metadata.owner_references == ()


async def test_a_set_name_that_a_foreign_set_has_changes_the_hash(world: World) -> None:
    await world.deploy(replicas=1)
    await world.settle(1)
    (only,) = await world.sets()
    await world.client.delete(MACHINE_DEPLOYMENT, Key(NS, "md"))
    await world.settle(0)
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"class": {"kind": "MachineClass", "name": "x"}},
    }
    selector = {"matchLabels": {"app": "x"}}
    foreign = {"metadata": {"name": only.name}, "spec": {"selector": selector, "template": template}}
    await world.client.create(MACHINE_SET, foreign, namespace=NS)
    await world.deploy(replicas=1)
    await world.settle(1)
    found = await world.deployment()
    assert found.status.collision_count == 1
    assert len(await world.sets()) == 2
    assert found.status.updated_replicas == 1


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_cache_that_is_behind_costs_time_and_no_storm_of_requests(world: World, method: str) -> None:
    await world.deploy(replicas=4)
    await world.settle(4)
    world.transport.choose = On("machines", creation=Lose(), times=0, watch=Silence())
    await world.restart()
    await world.clock.sleep(5)
    for machine in world.all():
        body = {"metadata": {"finalizers": None}}
        await world.client.patch(MACHINE, Key(NS, machine.name), body)
        await world.client.delete(MACHINE, Key(NS, machine.name))
    world.transport.asked.clear()
    if method == "DELETE":
        await world.change({"replicas": 0})
    else:
        await world.change({"template": {"spec": {"drainTimeout": "5m"}}})
    await world.clock.sleep(60)
    assert len(world.requests(method, "/machines/")) < 60


async def test_a_machine_that_has_changed_since_it_was_chosen_is_chosen_anew(world: World) -> None:
    await world.deploy(replicas=3)
    await world.settle(3)
    world.transport.choose = On("machines", creation=Lose(), times=0, watch=Silence())
    await world.restart()
    await world.clock.sleep(5)
    for machine in world.all():
        await world.client.patch(MACHINE, Key(NS, machine.name), {"metadata": {"annotations": {"new": "s"}}})
    await world.change({"replicas": 1})
    await world.clock.sleep(20)
    assert len(world.all()) == 3, "what the cache says of them is old"
    world.transport.choose = On("machines", creation=Lose(), times=0)
    await world.restart()
    await world.settle(1)


async def test_a_set_that_has_changed_since_it_was_forgotten_stays_until_it_is_seen_anew(
    world: World,
) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    await world.roll("large")
    await world.settle(2, "large")
    world.transport.choose = On("machinesets", creation=Lose(), times=0, watch=Silence())
    await world.restart()
    await world.clock.sleep(5)
    for each in await world.sets():
        await world.client.patch(
            MACHINE_SET, Key(NS, each.metadata.name), {"metadata": {"annotations": {"new": "s"}}}
        )
    await world.change({"revisionHistoryLimit": 0})
    await world.clock.sleep(20)
    assert len(await world.sets()) == 2, "what the cache says of them is old"
    world.transport.choose = On("machines", creation=Lose(), times=0)
    await world.restart()
    await world.clock.sleep(20)
    assert len(await world.sets()) == 1


@pytest.mark.parametrize("moment", [0.02, 0.5, 1.02, 1.5, 2.2, 3.0])
async def test_a_rollout_survives_the_death_of_its_controllers(world: World, moment: float) -> None:
    await world.deploy(replicas=8, surge=2, unavailable=2)
    await world.settle(8)
    bounds = world.measure()
    await world.roll("large")
    for _ in range(3):
        await world.clock.sleep(moment)
        await world.restart()
    await world.settle(8, "large")
    assert (bounds.most <= 10, bounds.fewest >= 6) == (True, True)
    assert len(world.created) == 16


@pytest.mark.parametrize("seed", range(4))
async def test_storms_end_with_the_right_number(world: World, seed: int) -> None:
    dice = Dice(seed, 0.15)
    world.transport.choose = dice
    await world.restart()
    await world.deploy(replicas=6, surge=2, unavailable=1)
    await world.until(lambda: len(world.running()) == 6)
    bounds = world.measure()
    await world.roll("large")
    await world.clock.sleep(20)
    await world.restart()
    await world.clock.sleep(40)
    dice.calm()
    await world.settle(6, "large")
    await world.clock.sleep(120)
    assert len(world.running("large")) == len(world.all()) == 6
    found = await world.deployment()
    assert (found.status.available_replicas, found.status.updated_replicas) == (6, 6)
    assert len(world.created) == 12, "not one machine too many was ever made"
    assert (bounds.most <= 8, bounds.fewest >= 5) == (True, True), "bounds hold in any weather"


async def test_what_a_policy_has_refused_is_asked_for_again_though_no_event_tells_that_the_policy_is_gone(
    world: World,
) -> None:
    world.faults.on(INVALID, method="POST", path="/machines", times=None)
    await world.deploy(replicas=2)
    await world.clock.sleep(30)
    assert world.all() == []
    world.faults.calm()
    await world.settle(2, seconds=200)


async def test_a_machine_becomes_available_in_time_though_the_next_one_is_refused(world: World) -> None:
    world.transport.choose = Refuse("POST", "machines", after=1)
    await world.deploy(replicas=2, minReadySeconds=20)
    await world.until(lambda: len(world.running()) == 1)
    await world.clock.sleep(15)
    assert [each.status.available_replicas for each in await world.sets()] == [0]
    await world.clock.sleep(10)
    assert [each.status.available_replicas for each in await world.sets()] == [1]


async def test_the_progress_deadline_passes_though_sizes_of_sets_are_refused(world: World) -> None:
    await world.deploy(replicas=2, progressDeadlineSeconds=30)
    await world.settle(2)
    world.faults.on(INVALID, method="PATCH", path="/machinesets/", times=None)
    await world.roll("large")
    await world.clock.sleep(40)
    conditions = (await world.deployment()).status.conditions
    assert [c.reason for c in conditions if c.type == "Progressing"] == ["ProgressDeadlineExceeded"]


@pytest.mark.parametrize("refusal", [FORBIDDEN, INVALID, UNAVAILABLE], ids=["a quota", "a rule", "no time"])
async def test_a_set_that_is_refused_is_not_asked_for_every_second(world: World, refusal: Fault) -> None:
    world.transport.choose = faults = On("machinesets", creation=refusal)
    await world.deploy(replicas=2)
    await world.clock.sleep(120)
    assert 1 <= 1_000_000 - faults.times <= 30
