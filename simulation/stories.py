"""The table of stories: what users do, and how the world must look in the end.

Theory.      A story has three parts. ``before`` makes the world that it begins with, without faults. ``act``
             is what users do; from then on writes are counted and faults injected. ``end`` is what
             must become true, and stay true. To add a story is to add a row to ``STORIES``; every crash
             point of it is then tried, and every seed may draw it.
Called by    ``run``; every new controller adds its rows here, and their parts to ``acts``.
"""

from kubewright.api.machine import names
from simulation import acts, drains, ends, hot_updates, spares, updates
from simulation.acts import pool
from simulation.ends import has_failed, reported, settled
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, Object
from simulation.person import Person, going
from simulation.rules.facts import running
from simulation.story import SLOW_PODS, Story

# ---------------------------------------------------------------- before


async def short_preservations(person: Person) -> None:
    """Two machines that are preserved for two minutes at most."""
    await pool(2)(person)
    await person.change("pool", template={"spec": {"machinePreserveTimeout": "2m"}})
    await person.wait(3.0)


async def slow_machines(person: Person) -> None:
    """Three machines that take twenty seconds to be made, and may be unwell for a minute and a half."""
    await person.make_class("slow", pace=10.0)
    await person.deploy("pool", 3, "slow")
    await person.until(lambda: person.settled(3), "three machines")
    await person.change("pool", template={"spec": {"healthTimeout": "90s"}})
    await person.wait(3.0)


# ---------------------------------------------------------------- acts


async def kill_vm(person: Person) -> None:
    person.victim = person.vms[0].name
    person.world.cloud.kill(person.vms[0].id)


async def kill_two(person: Person) -> None:
    """Two machines die, and only one may be replaced at a time."""
    first, second = person.vms[:2]
    person.victim = f"{first.name} {second.name}"
    person.world.cloud.kill(first.id)
    await person.wait(3.0)
    person.world.cloud.kill(second.id)


async def keep_what_fails(person: Person) -> None:
    """A user asks to keep a machine if it fails, and it does; when its time is over it is replaced."""
    person.victim = person.vms[0].name
    await person.note_machine(person.victim, {names.PRESERVE_ANNOTATION: "when-failed"})
    await person.wait(3.0)
    person.world.cloud.kill(person.vms[0].id)
    await person.until(lambda: has_failed(person) or person.node_faults, "it fails")
    await person.wait(60.0)
    if not (has_failed(person) or person.node_faults or person.clock_faults):
        person.broken = "a machine that was to be kept is gone before its time"


async def keep_for_a_while(person: Person) -> None:
    """A user asks to keep a machine, by an annotation on its node, and later takes that back."""
    node = person.vms[0].node_name
    await person.note_node(node, {names.PRESERVE_ANNOTATION: "now"})
    await person.wait(5.0)
    await person.note_node(node, {names.PRESERVE_ANNOTATION: "false"})


async def take_vm_away(person: Person) -> None:
    person.victim = person.vms[0].name
    person.world.cloud.vanish(person.vms[0].id)


GRACE = 60
"""Seconds that the pods take to end."""
DELETED = 4
"""Machines that a user deletes: with two replicas, a surge of 1 and 2 for safety the set is frozen at 5."""


async def delete_too_many(person: Person) -> None:
    """A user deletes one machine after the other, and the pods on them do not end. In a world with faults the
    set may be spared: a VM that dies lets its machine go, and without capacity none is made."""
    person.held = float(GRACE * DELETED)
    for number in range(DELETED):
        well = [m for m in person.machines if running(m) and not going(m)]
        if is_frozen(person) or not well:
            break
        name = str(well[0]["metadata"]["name"])
        await person.run_pod(f"slow-{number}", name, seconds=GRACE)
        await person.delete_machine(name)
        await person.until(
            lambda: is_frozen(person) or _whole(person), "it is replaced, or the set is frozen"
        )
    await person.wait(10.0)


def thawed(person: Person) -> bool:
    """Two machines run, and neither the set nor the deployment says that it is frozen."""
    journal = person.world.journal.objects
    found = [*journal[MACHINE_SETS].values(), *journal[MACHINE_DEPLOYMENTS].values()]
    return person.settled(2) and not any(map(_says_frozen, found))


def is_frozen(person: Person) -> bool:
    """Whether a set may make no machine."""
    sets = person.world.journal.objects[MACHINE_SETS].values()
    return any(names.FREEZE_LABEL in each["metadata"].get("labels", {}) for each in sets)


def _whole(person: Person) -> bool:
    return sum(running(m) and not going(m) for m in person.machines) == 2


def _says_frozen(found: Object) -> bool:
    """By its label, or by its condition."""
    status = found.get("status", {})
    conditions = status.get("conditions") or status.get("machineSetCondition") or ()
    says = any(each["type"] == "Frozen" for each in conditions)
    return says or names.FREEZE_LABEL in found["metadata"].get("labels", {})


STORIES: tuple[Story, ...] = (
    Story("create", acts.create, settled(3)),
    Story("scale-up", acts.scale(4), settled(4), before=pool(2)),
    Story("scale-down", acts.scale(1), settled(1), before=pool(4)),
    Story("zero-and-back", acts.scale_to_zero_and_back, settled(2), before=pool(2)),
    Story("roll", acts.roll, settled(3, "large"), before=pool(3)),
    Story("roll-carefully", acts.roll, settled(3, "large"), before=pool(3, **acts.CAREFUL)),
    Story("roll-twice", acts.roll_twice, settled(3, "huge"), before=pool(3)),
    Story("roll-and-scale", acts.roll_and_scale, settled(3, "large"), before=pool(2)),
    Story("roll-back", acts.roll_back, settled(2, "small"), before=acts.rolled),
    Story("roll-there-and-back", acts.roll_there_and_back, ends.as_noted(3), before=acts.noted_pool),
    Story("recreate", acts.roll, settled(3, "large"), before=pool(3, strategy=acts.RECREATE)),
    Story("stuck", acts.get_stuck, reported(2, "large"), before=pool(2, **acts.HURRIED)),
    Story(
        "stuck-recreate",
        acts.get_stuck,
        reported(2, "large"),
        before=pool(2, **acts.HURRIED, strategy=acts.RECREATE),
    ),
    Story(
        "stuck-while-paused",
        acts.get_stuck_while_paused,
        reported(3, "small"),
        before=pool(2, **acts.HURRIED),
    ),
    Story("pause-and-resume", acts.pause_and_resume, settled(4, "large"), before=pool(3)),
    Story("relabel", acts.relabel, ends.relabelled, before=pool(2)),
    Story("relabel-nodes", acts.relabel_nodes, ends.nodes_relabelled, before=pool(2)),
    Story("two-pools", acts.roll_one_of_two, ends.both_pools, before=acts.two_pools),
    Story("autoscaler", acts.choose_victim, ends.healed(2), before=pool(3)),
    Story("heal", kill_vm, ends.healed(2), before=pool(2)),
    Story("heal-in-turn", kill_two, ends.healed(3), before=slow_machines),
    Story("preserve-failed", keep_what_fails, ends.healed(2), before=short_preservations),
    Story("preserve-now", keep_for_a_while, ends.as_before(2), before=pool(2)),
    Story("vanish", take_vm_away, ends.healed(2), before=pool(2)),
    Story("delete", acts.delete, ends.nothing_left, before=pool(2)),
    Story("delete-while-creating", acts.delete_while_creating, ends.nothing_left),
    Story("delete-while-draining", acts.delete_while_draining, ends.nothing_left, before=acts.with_pods),
    Story(
        "delete-against-budget",
        acts.delete_against_a_budget,
        ends.nothing_left,
        before=acts.with_guarded_pods,
    ),
    Story("delete-one", acts.delete_one, ends.healed(2), before=pool(2)),
    Story("trigger-deletion", acts.trigger_deletion, ends.healed(2), before=pool(2)),
    Story("keep-sets", acts.delete_but_keep_sets, ends.kept_by_its_set, before=pool(2)),
    Story(
        "keep-machines",
        acts.delete_set_but_keep_machines,
        ends.machines_without_a_set,
        before=acts.lonely_set,
    ),
    Story("adopt", acts.make_set, ends.adopted, before=acts.stray_machine),
    Story("adopt-vm", acts.restore, ends.restored, before=acts.found_vms),
    Story("class-comes-late", acts.class_comes_late, settled(1, "late")),
    Story("class-comes-too-late", acts.class_comes_too_late, settled(1, "late")),
    Story("class-goes-first", acts.class_goes_first, ends.no_class_left, before=pool(1)),
    Story(
        "class-refused", acts.roll_away_from_a_refused_class, settled(2, "small"), before=acts.refused_pool
    ),
    Story(
        "class-refused-by-force",
        acts.force_what_a_driver_refuses,
        ends.nothing_left,
        before=acts.refused_pool,
    ),
    Story("class-breaks", acts.break_a_class, ends.nothing_left),
    Story("name-too-long", acts.name_too_long, ends.nothing_left),
    Story("nodes-forbidden", acts.delete_while_nodes_are_forbidden, ends.nothing_left, before=pool(2)),
    Story("secret-comes-late", acts.secret_comes_late, settled(1, "locked")),
    Story("secret-goes-first", acts.secret_goes_first, ends.nothing_left, before=acts.locked_class),
    Story("freeze", delete_too_many, thawed, before=pool(2), kubelets=SLOW_PODS),
    Story("update", updates.update(), updates.updated(3), before=updates.noted_pool(3)),
    Story(
        "update-with-surge",
        updates.update(),
        updates.updated(2, replaced=1),
        before=updates.noted_pool(2, maxSurge=1, maxUnavailable=0),
    ),
    Story(
        "update-fails",
        updates.update(updates.failed_once),
        updates.updated(2, replaced=1),
        before=updates.noted_pool(2),
    ),
    Story(
        "update-hangs",
        updates.update(updates.silent_once),
        updates.updated(2, replaced=1),
        before=updates.noted_pool(2),
    ),
    Story(
        "update-and-back",
        updates.update_and_call_off,
        updates.updated(2, "small"),
        before=updates.noted_pool(2),
    ),
    Story(
        "update-and-scale",
        updates.update_and_scale,
        updates.updated(3),
        before=updates.noted_pool(2),
    ),
    Story("spare-scale", spares.scale_through, spares.still_there(5, 1), before=spares.pool(2, 2)),
    Story("spare-grow", spares.grow, spares.still_there(5, 3), before=spares.pool(2, 1)),
    Story("spare-shrink", spares.shrink, spares.still_there(3, 1), before=spares.pool(2, 2)),
    Story("spare-roll", spares.roll, spares.free(3, 1, "large"), before=spares.pool(2, 1)),
    Story(
        "spare-end",
        spares.give_up,
        spares.free(2, 0, "large"),
        before=spares.pool(2, 1, strategy=spares.ONE_MORE),
    ),
    Story("spare-heal", spares.lose_one, spares.replaced(3, 1), before=spares.pool(2, 1)),
    Story(
        "hot-update",
        hot_updates.change,
        hot_updates.applied(hot_updates.CHANGED),
        before=hot_updates.tagged_pool(),
    ),
    Story(
        "hot-update-and-back",
        hot_updates.change_and_revert,
        hot_updates.applied({}),
        before=hot_updates.tagged_pool(faults=[hot_updates.HALF_WAY]),
    ),
    Story("drain-volumes", drains.delete, ends.nothing_left, drains.pods_with_volumes, SLOW_PODS),
    Story("drain-in-vain", drains.delete_in_vain, ends.nothing_left, drains.pods_that_stay, SLOW_PODS),
    Story("roll-databases", drains.roll, drains.rolled, drains.databases, SLOW_PODS),
    Story("roll-under-budget", drains.roll, drains.rolled, drains.an_app_with_a_budget, SLOW_PODS),
    Story("create-without-nodes", acts.create, settled(3), joins=False),
    Story(
        "roll-without-nodes",
        acts.roll,
        settled(2, "large"),
        before=pool(2),
        joins=False,
    ),
    Story("delete-without-nodes", acts.delete, ends.nothing_left, before=pool(2), joins=False),
)

BY_NAME = {story.name: story for story in STORIES}
