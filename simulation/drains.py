"""What users do in the stories about drains: pods with volumes, with budgets and with long graces.

Theory.      Each story has pods that leave in different ways at the same time, because a drain plans them
             together: some are evicted at once, some one after another, some are refused.
Called by    ``stories``, whose table puts them together.
"""

from simulation.acts import pool
from simulation.journal import Object
from simulation.person import Person
from simulation.workloads import APP

DRAIN_TIMEOUT = {"template": {"spec": {"drainTimeout": "60s"}}}
"""Three refusals of an eviction, 20 s apart."""
NEVER = 3600
"""The grace of a pod that ends long after every deadline of a story."""
WEB = {APP: "web"}

# ---------------------------------------------------------------- before


async def pods_with_volumes(person: Person) -> None:
    """Two volumes on one node and one on the other, beside a pod that takes long."""
    await pool(2)(person)
    first, second = (vm.node_name for vm in person.vms)
    await person.run_pod("slow", first, seconds=15)
    await person.run_pod("db-0", first, seconds=3, claim="db-0")
    await person.run_pod("db-1", first, seconds=6, claim="db-1")
    await person.run_pod("db-2", second, seconds=3, claim="db-2")
    await person.wait(5.0)


async def pods_that_stay(person: Person) -> None:
    """A machine whose drain may take a minute, and pods that stay longer: by budget, grace and volume."""
    await pool(1)(person)
    await person.change("pool", **DRAIN_TIMEOUT)
    # A silent watch may hide the change for minutes, and a deployment that is deleted hands nothing down.
    await person.until(lambda: all(_hurries(each) for each in person.machines), "the drain's time")
    node = person.vms[0].node_name
    await person.run_app("web", 1, seconds=1)
    await person.make_budget("keep", WEB, minAvailable=1)
    await person.run_pod("slow", node, seconds=NEVER)
    await person.run_pod("db-0", node, seconds=NEVER, claim="db-0")
    await person.run_pod("db-1", node, seconds=1, claim="db-1")
    await person.wait(5.0)


async def an_app_with_a_budget(person: Person) -> None:
    """Three pods on two nodes, of which one may be missing."""
    await pool(2)(person)
    await person.run_app("web", 3, seconds=2)
    await person.make_budget("web", WEB, minAvailable=2)
    await person.wait(5.0)


async def databases(person: Person) -> None:
    """Four pods with volumes on two nodes."""
    await pool(2)(person)
    await person.run_app("db", 4, seconds=2, claims=True)
    await person.wait(5.0)


def _hurries(machine: Object) -> bool:
    return bool(machine["spec"].get("drainTimeout"))


# ---------------------------------------------------------------- ends


def rolled(person: Person) -> bool:
    """All machines are new, and the app is whole."""
    return person.settled(2, "large") and person.workloads.whole()
