"""The table of stories of machines: what users do, and how the world must look in the end.

Theory.      A row says what is there before, what users do one after another, and the end. To add a story is
             to add a row; every crash point of it is then tried, and every seed may draw it. An act that
             must look at the world is a function, here or in ``acts``.
Called by    ``library`` and tests; every new controller adds its rows here.
"""

from kubewright.api.machine import names
from simulation import acts, drains, ends, hot_updates, spares, updates
from simulation.acts import (
    NO_CLASS,
    change,
    correct,
    delete,
    deploy,
    held,
    make_class,
    make_secret,
    make_set,
    pool,
    roll,
    settle,
)
from simulation.ends import has_failed, reported, settled
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, Object
from simulation.person import Person, going
from simulation.rules.facts import running
from simulation.story import SLOW_PODS, Story, until, wait

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
    Story("create", deploy(3), settled(3)),
    Story("scale-up", change(replicas=4), settled(4), pool(2)),
    Story("scale-down", change(replicas=1), settled(1), pool(4)),
    Story("zero-and-back", (change(replicas=0), wait(0.1), change(replicas=2)), settled(2), pool(2)),
    Story("roll", roll(), settled(3, "large"), pool(3)),
    Story("roll-carefully", roll(), settled(3, "large"), pool(3, **acts.CAREFUL)),
    Story("roll-twice", (roll(), wait(0.6), roll("huge")), settled(3, "huge"), pool(3)),
    Story("roll-and-scale", (roll(), wait(0.3), change(replicas=3)), settled(3, "large"), pool(2)),
    Story("roll-back", change(rollbackTo={"revision": 0}), settled(2, "small"),
          (pool(2), roll(), settle(2, "the roll", "large"))),
    # A rollout that a user takes back half-way, so that old nodes stay after all.
    Story("roll-there-and-back", (roll(), wait(3.0), roll("small")), ends.as_noted(3), acts.noted_pool),
    Story("recreate", roll(), settled(3, "large"), pool(3, strategy=acts.RECREATE)),
    # Another ``minReadySeconds``, then a class that does not exist.
    Story("stuck", (change(minReadySeconds=1), roll(NO_CLASS), correct("large")), reported(2, "large"),
          pool(2, **acts.HURRIED)),
    Story("stuck-recreate", (change(minReadySeconds=1), roll(NO_CLASS), correct("large")),
          reported(2, "large"), pool(2, **acts.HURRIED, strategy=acts.RECREATE)),
    # The rollout begins when the pause ends.
    Story("stuck-while-paused", (change(paused=True), roll(NO_CLASS), change(replicas=3), wait(1.0),
          change(paused=False), correct("small")), reported(3, "small"), pool(2, **acts.HURRIED)),
    Story("pause-and-resume", (change(paused=True), roll(), wait(3.0), change(replicas=4), wait(3.0),
          change(paused=False)), settled(4, "large"), pool(3)),
    # Machines with another label are other machines.
    Story("relabel", change(template={"metadata": {"labels": {ends.TIER: "two"}}}), ends.relabelled, pool(2)),
    Story("relabel-nodes", acts.relabel_nodes, ends.nodes_relabelled, pool(2)),
    Story("two-pools", (roll("huge"), change("other", replicas=2)), ends.both_pools,
          (deploy(2), deploy(1, "large", "other"), settle(3, "both pools"))),
    Story("autoscaler", acts.choose_victim, ends.healed(2), pool(3)),
    Story("heal", kill_vm, ends.healed(2), pool(2)),
    Story("heal-in-turn", kill_two, ends.healed(3), slow_machines),
    Story("preserve-failed", keep_what_fails, ends.healed(2), short_preservations),
    Story("preserve-now", keep_for_a_while, ends.as_before(2), pool(2)),
    Story("vanish", take_vm_away, ends.healed(2), pool(2)),
    Story("delete", delete(), ends.nothing_left, pool(2)),
    Story("delete-while-creating", (deploy(3), wait(0.08), delete()), ends.nothing_left),
    Story("delete-while-draining", (change(replicas=1), wait(4.0), delete()), ends.nothing_left,
          acts.with_pods),
    Story("delete-against-budget", acts.delete_against_a_budget, ends.nothing_left, acts.with_guarded_pods),
    Story("delete-one", acts.delete_one, ends.healed(2), pool(2)),
    Story("trigger-deletion", acts.trigger_deletion, ends.healed(2), pool(2)),
    Story("keep-sets", delete(propagation="Orphan"), ends.kept_by_its_set, pool(2)),
    Story("keep-machines", acts.delete_set_but_keep_machines, ends.machines_without_a_set,
          (make_set(2), settle(2, "the set"))),
    Story("adopt", make_set(2), ends.adopted, (acts.make_stray, settle(1, "the stray machine"))),
    Story("adopt-vm", acts.restore, ends.restored, acts.found_vms),
    Story("class-comes-late", (deploy(1, "late"), wait(3.0), make_class("late")), settled(1, "late")),
    # A machine fails because its class is missing; nothing of it is left when the next one is created.
    Story("class-comes-too-late", (deploy(1, "late"), acts.creation_timeout("2s"), wait(3.5),
          acts.creation_timeout("20m"), make_class("late")), settled(1, "late")),
    # A class that is still used is deleted, and then the machines that use it.
    Story("class-goes-first", (acts.delete_class("small"), wait(3.0), delete()), ends.no_class_left, pool(1)),
    Story("class-refused", acts.roll_away_from_a_refused_class, settled(2, "small"), acts.refused_pool),
    Story("class-refused-by-force", acts.force_what_a_driver_refuses, ends.nothing_left, acts.refused_pool),
    Story("class-breaks", acts.break_a_class, ends.nothing_left),
    Story("name-too-long", acts.name_too_long, ends.nothing_left),
    Story("nodes-forbidden", acts.delete_while_nodes_are_forbidden, ends.nothing_left, pool(2)),
    Story("secret-comes-late", (make_class("locked", secret="late"), deploy(1, "locked"), wait(3.0),
          make_secret("late")), settled(1, "locked")),
    # A Secret is forced away while VMs are made with it, and then their deployment is deleted. The machines
    # wait for the Secret: nothing else can tell whether they have VMs.
    Story("secret-goes-first", (deploy(2, "locked"), wait(0.08), acts.force_secret_away("lent"), delete(),
          wait(30.0), make_secret("lent")), ends.nothing_left,
          (make_secret("lent"), make_class("locked", secret="lent"))),
    Story("freeze", delete_too_many, thawed, pool(2), SLOW_PODS),
    Story("update", updates.update(), updates.updated(3), updates.noted_pool(3)),
    Story("update-with-surge", updates.update(), updates.updated(2, replaced=1),
          updates.noted_pool(2, maxSurge=1, maxUnavailable=0)),
    Story("update-fails", updates.update(updates.failed_once), updates.updated(2, replaced=1),
          updates.noted_pool(2)),
    Story("update-hangs", updates.update(updates.silent_once), updates.updated(2, replaced=1),
          updates.noted_pool(2)),
    Story("update-and-back", updates.update_and_call_off, updates.updated(2, "small"), updates.noted_pool(2)),
    Story("update-and-scale", updates.update_and_scale, updates.updated(3), updates.noted_pool(2)),
    # What cluster-autoscaler does at the maximum: a replica more, and one less in excess; then another one,
    # for which a machine is made.
    Story("spare-scale", (change(replicas=3, excessReplicas=1), wait(1.0), change(replicas=4)),
          spares.still_there(5, 1), spares.pool(2, 2)),
    Story("spare-grow", change(excessReplicas=3), spares.still_there(5, 3), spares.pool(2, 1)),
    Story("spare-shrink", change(excessReplicas=1), spares.still_there(3, 1), spares.pool(2, 2)),
    Story("spare-roll", roll(), spares.free(3, 1, "large"), spares.pool(2, 1)),
    # No excess any more as soon as the first new machine is kept free.
    Story("spare-end", (roll(), until(spares.begun, "a new machine is kept free"),
          change(excessReplicas=None)), spares.free(2, 0, "large"), spares.pool(2, 1,
          strategy=spares.ONE_MORE)),
    Story("spare-heal", spares.lose_one, spares.replaced(3, 1), spares.pool(2, 1)),
    Story("hot-update", hot_updates.change, hot_updates.applied(hot_updates.CHANGED),
          hot_updates.tagged_pool()),
    Story("hot-update-and-back", hot_updates.change_and_revert, hot_updates.applied({}),
          hot_updates.tagged_pool(faults=[hot_updates.HALF_WAY])),
    Story("drain-volumes", (held(60.0), delete()), ends.nothing_left, drains.pods_with_volumes, SLOW_PODS),
    Story("drain-in-vain", (held(70.0), delete()), ends.nothing_left, drains.pods_that_stay, SLOW_PODS),
    Story("roll-databases", (held(100.0), roll()), drains.rolled, drains.databases, SLOW_PODS),
    Story("roll-under-budget", (held(100.0), roll()), drains.rolled, drains.an_app_with_a_budget, SLOW_PODS),
    Story("create-without-nodes", deploy(3), settled(3), joins=False),
    Story("roll-without-nodes", roll(), settled(2, "large"), pool(2), joins=False),
    Story("delete-without-nodes", delete(), ends.nothing_left, pool(2), joins=False),
)  # fmt: skip

BY_NAME = {story.name: story for story in STORIES}
