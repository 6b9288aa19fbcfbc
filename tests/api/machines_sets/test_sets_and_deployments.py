"""Sets and deployments over a whole server, on virtual time: what a user or an autoscaler sees."""

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.base.clock import rfc3339
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

if TYPE_CHECKING:
    from tests.api.machines_sets.conftest import World
else:
    World = Any

NS = "default"


def condition(obj: Any, kind: str) -> tuple[str, str]:
    conditions = getattr(obj.status, "conditions", None) or getattr(obj.status, "machine_set_condition", ())
    return next(((c.status, c.reason) for c in conditions if c.type == kind), ("", ""))


async def test_a_deployment_becomes_running_machines(world: World) -> None:
    await world.deploy(replicas=3)
    await world.settle(3)
    machine = world.all()[0]
    assert machine.metadata.labels["app"] == "md"
    assert machine.metadata.finalizers == (names.FINALIZER,)
    assert machine.metadata.annotations[names.PRIORITY_ANNOTATION] == "3"
    found = await world.deployment()
    status = found.status
    assert (status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas) == (
        3,
        3,
        3,
        3,
    )
    assert status.observed_generation == found.metadata.generation
    assert condition(found, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(found, "Progressing") == ("True", "NewMachineSetAvailable")
    (only,) = await world.sets()
    assert (only.status.replicas, only.status.available_replicas, only.status.fully_labeled_replicas) == (
        3,
        3,
        3,
    )
    assert only.status.observed_generation == only.metadata.generation
    reasons = {reason for reason, _ in await world.events()}
    assert {"ScalingMachineSet", "SuccessfulCreate"} <= reasons


async def test_a_hundred_machines_cost_a_hundred_creations_and_a_handful_of_reports(world: World) -> None:
    await world.deploy(replicas=100)
    await world.settle(100)
    assert len(world.requests("POST", "/machines/")) == 100
    assert not world.requests("PATCH", "/machines/"), "machines are made complete"
    assert len(world.requests("PATCH", "/machinesets/")) <= 12
    assert len(world.requests("PATCH", "/machinedeployments/")) <= 15
    assert len(world.requests("POST", "/events")) <= 5


async def test_at_rest_no_controller_sends_requests(world: World) -> None:
    await world.deploy(replicas=3)
    await world.settle(3)
    await world.clock.sleep(30)
    before = len([r for _, r in world.transport.asked if r.param("watch") == ""])
    await world.clock.sleep(3600)
    assert len([r for _, r in world.transport.asked if r.param("watch") == ""]) == before


@pytest.mark.parametrize(
    ("surge", "unavailable"),
    [
        pytest.param(1, 0, id="surge 1, unavailable 0"),
        pytest.param(0, 1, id="surge 0, unavailable 1"),
        pytest.param("25%", "25%", id="a quarter each"),
        pytest.param("100%", 0, id="all at once"),
    ],
)
async def test_a_rolling_update_stays_within_its_bounds(
    world: World, surge: int | str, unavailable: int | str
) -> None:
    await world.deploy(replicas=20, surge=surge, unavailable=unavailable)
    await world.settle(20)
    bounds = world.measure()
    await world.roll("large")
    await world.settle(20, "large")
    extra = ceil(20 * int(str(surge).rstrip("%")) / 100) if str(surge).endswith("%") else int(surge)
    missing = (
        20 * int(str(unavailable).rstrip("%")) // 100 if str(unavailable).endswith("%") else int(unavailable)
    )
    assert bounds.most <= 20 + extra
    assert bounds.fewest >= 20 - missing
    assert len(world.created) == 40, "every machine was made once"
    found = await world.deployment()
    assert (found.status.updated_replicas, found.status.unavailable_replicas) == (20, 0)
    assert found.metadata.annotations[names.REVISION_ANNOTATION] == "2"


async def test_a_large_roll_needs_few_writes_beyond_the_machines_own(world: World) -> None:
    world.machines.boot = world.machines.stop = 0.3
    await world.deploy(replicas=120, surge="25%", unavailable="25%")
    await world.settle(120)
    world.transport.asked.clear()
    bounds = world.measure()
    await world.roll("large")
    await world.settle(120, "large")
    assert (bounds.most <= 150, bounds.fewest >= 90) == (True, True)
    assert len(world.requests("POST", "/machines/")) == len(world.requests("DELETE", "/machines/")) == 120
    assert len(world.transport.asked) <= 120 * 3


async def test_recreate_never_runs_two_templates_at_once(world: World) -> None:
    await world.deploy(replicas=3, kind="Recreate")
    await world.settle(3)
    bounds = world.measure()
    await world.roll("large")
    await world.settle(3, "large")
    assert bounds.most == 3
    assert bounds.fewest == 0


async def test_min_ready_seconds_slow_a_rollout_down(world: World) -> None:
    await world.deploy(replicas=2, minReadySeconds=60)
    await world.until(lambda: len(world.running()) == 2)
    await world.clock.sleep(30)
    assert (await world.deployment()).status.available_replicas == 0
    await world.clock.sleep(40)
    assert (await world.deployment()).status.available_replicas == 2
    began = world.clock.monotonic()
    await world.roll("large")
    await world.settle(2, "large")
    assert world.clock.monotonic() - began > 120, "each of two steps waits a minute"


async def test_scaling_up_and_down(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    first = {m.name for m in world.all()}
    await world.change({"replicas": 5})
    await world.settle(5)
    await world.client.patch(
        MACHINE,
        Key(NS, max(m.name for m in world.all() if m.name not in first)),
        {"metadata": {"annotations": {names.PRIORITY_ANNOTATION: "1"}}},
    )
    chosen = {m.name for m in world.all() if names.priority(m.metadata.annotations) == 1}
    await world.change({"replicas": 4})
    await world.settle(4)
    assert not chosen & {m.name for m in world.all()}, "the priority decides"
    await world.change({"replicas": 0})
    await world.settle(0)


async def test_a_pool_that_sleeps_wakes_with_new_names(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    for replicas in (0, 2, 0, 2):
        await world.change({"replicas": replicas})
        await world.settle(replicas)
    assert len(world.created) == len(set(world.created.values())) == 6


async def test_a_failed_machine_is_replaced(world: World) -> None:
    await world.deploy(replicas=3)
    await world.settle(3)
    victim = world.all()[0]
    await world.machines.phase(victim, Phase.FAILED)
    await world.until(lambda: victim.metadata.uid not in {m.metadata.uid for m in world.all()})
    await world.settle(3)
    assert len(world.created) == 4


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a new process for each"])
async def test_one_that_fails_again_and_again_never_has_the_same_name(world: World, restarts: bool) -> None:
    world.machines.stop = 0.0
    await world.deploy(replicas=1)
    for _ in range(7):
        await world.until(lambda: len(world.running()) == len(world.all()) == 1)
        (machine,) = world.running()
        await world.machines.phase(machine, Phase.FAILED)
        failed = machine.metadata.uid
        await world.until(lambda gone=failed: gone not in {m.metadata.uid for m in world.all()})
        if restarts:
            await world.restart()
    await world.settle(1)
    assert len(world.created) == 8
    assert len(set(world.created.values())) == 8


async def test_a_machine_that_a_user_deletes_is_replaced_at_once(world: World) -> None:
    world.machines.stop = 300.0
    await world.deploy(replicas=2)
    await world.until(lambda: len(world.running()) == 2)
    await world.client.delete(MACHINE, Key(NS, world.all()[0].name))
    await world.until(lambda: len(world.running()) == 2, 10)
    assert len(world.all()) == 3, "the leaving one is no replica"


async def test_the_autoscaler_chooses_its_victims(world: World) -> None:
    await world.deploy(replicas=4)
    await world.settle(4)
    chosen = sorted(m.name for m in world.all())[1:3]
    now = rfc3339(world.clock.now())
    annotations = {
        names.TRIGGER_DELETION_ANNOTATION: ",".join(f"{name}~{now}" for name in chosen),
        names.LAST_SCALER_CHANGE_ANNOTATION: now,
    }
    await world.change({"replicas": 2}, annotations=annotations)
    await world.until(lambda: len(world.running()) == 2)
    await world.settle(2)
    assert not set(chosen) & {m.name for m in world.all()}
    assert names.TRIGGER_DELETION_ANNOTATION not in (await world.deployment()).metadata.annotations


async def test_settings_reach_machines_without_a_rollout(world: World) -> None:
    await world.deploy(replicas=3)
    await world.settle(3)
    labels = {"metadata": {"labels": {"role": "db"}}}
    await world.change({"template": {"spec": {"drainTimeout": "7m", "nodeTemplate": labels}}})
    await world.until(lambda: all(m.spec.drain_timeout == "7m" for m in world.all()))
    assert all(m.spec.node_template.metadata.labels == {"role": "db"} for m in world.all())
    await world.change({"template": {"spec": {"drainTimeout": None}}})
    await world.until(lambda: all(m.spec.drain_timeout is None for m in world.all()))
    assert len(world.created) == 3


async def test_pause_and_resume(world: World) -> None:
    await world.deploy(replicas=3)
    await world.settle(3)
    await world.change({"paused": True, "template": {"spec": {"class": {"name": "large"}}}})
    await world.clock.sleep(60)
    assert len(world.running("small")) == 3
    assert condition(await world.deployment(), "Progressing") == ("Unknown", "DeploymentPaused")
    await world.change({"replicas": 5})
    await world.settle(5, "small")
    await world.change({"paused": False})
    await world.settle(5, "large")


async def test_a_paused_deployment_that_grew_while_machines_clung_to_life_gets_the_rest_when_they_are_gone(
    world: World,
) -> None:
    world.machines.clinging = lambda _machine: True
    await world.deploy(replicas=6, surge=1, unavailable=2)
    await world.settle(6)
    await world.roll("large")
    await world.clock.sleep(10)
    await world.change({"paused": True, "replicas": 8})
    await world.clock.sleep(30)
    assert len(world.all()) == 9, "no more than replicas and surge, those that cling included"
    assert len(world.running()) < 9
    world.machines.clinging = lambda _machine: False
    await world.until(lambda: len(world.running()) == 9, 60)
    assert {"small", "large"} == {machine.spec.machine_class.name for machine in world.running()}


async def test_rollback(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    await world.roll("large")
    await world.settle(2, "large")
    await world.change({"rollbackTo": {"revision": 0}})
    await world.settle(2, "small")
    found = await world.deployment()
    assert found.spec.rollback_to is None
    assert found.metadata.annotations[names.REVISION_ANNOTATION] == "3"
    assert len(await world.sets()) == 2, "the old set is used again"
    assert ("DeploymentRollback", 'Rolled back deployment "md" to revision 1') in await world.events()


async def test_history_is_kept_to_its_limit(world: World) -> None:
    await world.deploy(replicas=1, revisionHistoryLimit=1)
    for name in ("b", "c", "d"):
        await world.settle(1)
        await world.roll(name)
        await world.settle(1, name)
    await world.clock.sleep(5)
    assert [s.spec.template.spec.machine_class.name for s in await world.sets()] == ["c", "d"]


async def test_a_frozen_set_makes_no_machine(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    (only,) = await world.sets()
    key = Key(NS, only.name)
    await world.client.patch(MACHINE_SET, key, {"metadata": {"labels": {names.FREEZE_LABEL: names.TRUE}}})
    await world.change({"replicas": 4})
    await world.clock.sleep(30)
    assert len(world.all()) == 2
    await world.client.patch(MACHINE_SET, key, {"metadata": {"labels": {names.FREEZE_LABEL: None}}})
    await world.settle(4)


async def test_an_invalid_deployment_says_what_is_wrong_and_recovers(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    await world.change({"selector": {"matchLabels": {"app": "other"}}})
    await world.clock.sleep(5)
    assert condition(await world.deployment(), "Progressing") == ("False", "InvalidSpec")
    assert any(reason == "InvalidSpec" and "spec.selector" in told for reason, told in await world.events())
    assert len(world.all()) == 2, "nothing is done about it"
    await world.change({"selector": {"matchLabels": {"app": "md"}}, "replicas": 3})
    await world.settle(3)
    assert condition(await world.deployment(), "Progressing")[0] == "True"


async def test_a_selector_that_takes_everything_is_refused(world: World) -> None:
    await world.deploy(replicas=2, selector={})
    assert any(reason == "SelectingAll" for reason, _ in await world.events())
    assert not world.all()


async def test_a_set_can_stand_alone_adopt_and_let_go(world: World) -> None:
    orphan = {
        "metadata": {"name": "orphan", "labels": {"app": "a"}},
        "spec": {"class": {"kind": "MachineClass", "name": "c"}},
    }
    await world.client.create(MACHINE, orphan, namespace=NS)
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"class": {"kind": "MachineClass", "name": "c"}},
    }
    body = {
        "metadata": {"name": "ms"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    made = await world.client.create(MACHINE_SET, body, namespace=NS)
    await world.until(lambda: len(world.running()) == 2)
    await world.clock.sleep(5)
    assert len(world.all()) == 2, "the orphan counts"
    adopted = await world.client.get(MACHINE, Key(NS, "orphan"))
    assert adopted.metadata.controller is not None
    assert adopted.metadata.controller.uid == made.metadata.uid
    await world.client.patch(MACHINE, Key(NS, "orphan"), {"metadata": {"labels": {"app": "b"}}})
    await world.until(lambda: len(world.running()) == 3)
    assert (await world.client.get(MACHINE, Key(NS, "orphan"))).metadata.owner_references == ()


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_deletion_takes_everything_along(world: World, propagation: str) -> None:
    await world.deploy(replicas=3)
    await world.settle(3)
    await world.client.delete(MACHINE_DEPLOYMENT, Key(NS, "md"), propagation=propagation)
    await world.until(lambda: not world.all())
    await world.clock.sleep(5)
    assert await world.sets() == []
    try:
        left = (await world.deployment()).metadata.finalizers
    except NotFound:
        left = ()
    assert names.FINALIZER not in left, "only the garbage collector may still hold it"


async def test_sets_survive_their_deployment_when_they_are_orphaned(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    await world.client.delete(MACHINE_DEPLOYMENT, Key(NS, "md"), propagation="Orphan")
    await world.clock.sleep(5)
    assert len(world.running()) == 2
    (kept,) = await world.sets()
    owners = {"metadata": {"ownerReferences": None}}  # the garbage collector's part, played here
    await world.client.patch(MACHINE_SET, Key(NS, kept.name), owners)
    await world.client.patch(
        MACHINE_DEPLOYMENT, Key(NS, "md"), {"metadata": {"finalizers": [names.FINALIZER]}}
    )
    await world.clock.sleep(5)
    with pytest.raises(NotFound):
        await world.deployment()
    assert len(world.running()) == 2


async def test_a_set_that_is_deleted_by_hand_is_made_again(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    (old,) = await world.sets()
    await world.client.delete(MACHINE_SET, Key(NS, old.name))
    await world.until(lambda: not {m.metadata.uid for m in world.all()} & set(list(world.created)[:2]))
    await world.settle(2)
    (new,) = await world.sets()
    assert new.metadata.uid != old.metadata.uid


async def test_the_last_state_is_always_reported(world: World) -> None:
    world.machines.boot = 0.01
    await world.deploy(replicas=1)
    for replicas in (4, 2, 7, 3):
        await world.change({"replicas": replicas})
        await world.clock.sleep(0.1)
    await world.settle(3)
    assert (await world.deployment()).status.available_replicas == 3
    (only,) = await world.sets()
    assert (only.status.replicas, only.status.ready_replicas) == (3, 3)
    writes = [
        at
        for at, r in world.transport.asked
        if r.method == "PATCH" and r.path.endswith(f"/{only.name}/status")
    ]
    assert all(b - a > 0.19 for a, b in pairwise(writes)), "not more than five a second"
