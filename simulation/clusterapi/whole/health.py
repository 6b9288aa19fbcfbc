"""Stories of machines that a health check watches: which it has replaced, and which it must not.

Theory.      Each way to be unhealthy, and each reason to keep a machine, is a story. The story harms the VM
             of a worker, its Node, or its objects; it names the victim, and its end says whether the victim
             was replaced. What must not be replaced is watched for longer than any time-out lasts.
Called by    ``stories`` and ``moves``.
"""

from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import MACHINE_HEALTH_CHECK
from kubewright.api.core import NODE
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE
from kubewright.providers.sim.vm import STOP_KUBELET, Vm
from kubewright.wire.gvk import Key
from simulation import resources
from simulation.clusterapi.whole import acts
from simulation.clusterapi.whole.acts import (
    choose_victim,
    cluster,
    replaced,
    running,
    story,
    workers,
)
from simulation.person import Person
from simulation.rules.facts import name_of
from simulation.story import End, Part, Story, expect, make, then, wait

STARTUP_SECONDS, UNHEALTHY_SECONDS = 90.0, 60.0
LONG = 400.0
"""Longer than a Node may be silent, and each time-out after that."""
CONDITIONS = [
    {"type": "Ready", "status": "Unknown", "timeout": "60s"},
    {"type": "Ready", "status": "False", "timeout": "60s"},
    {"type": "DiskPressure", "status": "True", "timeout": "60s"},
]


def check(**more: Any) -> Part:
    """A health check of the workers; ``more`` adds to its spec."""
    selector = {"matchExpressions": [{"key": names.CONTROL_PLANE_LABEL, "operator": "DoesNotExist"}]}
    spec = {
        "clusterName": "demo",
        "selector": selector,
        "unhealthyConditions": CONDITIONS,
        "nodeStartupTimeout": f"{STARTUP_SECONDS:g}s",
        **more,
    }

    return then(make(MACHINE_HEALTH_CHECK, "workers", spec=spec), wait(2.0))


make_repair_template = make(resources.REPAIR_TEMPLATE, "fix", spec={"template": {"spec": {}}})
"""What a request for a repair is made from."""


def vm_of(person: Person, name: str) -> Vm:
    """The VM of a machine."""
    return next(vm for vm in person.vms if vm.name == name)


# ---------------------------------------------------------------- what makes a machine unhealthy


annotate = then(
    lambda person: acts.annotate(choose_victim(person), names.REMEDIATE_MACHINE_ANNOTATION)(person)
)
"""A user asks for the replacement."""


async def fail(person: Person) -> None:
    """The provider gives the machine up."""
    failure = {"failureReason": "CreateError", "failureMessage": "the disk is broken"}
    await person.patch(KUBEWRIGHT_MACHINE, choose_victim(person), {"status": failure}, "status")


async def remove_vm_and_node(person: Person) -> None:
    """The VM is gone, and then its Node."""
    vm = vm_of(person, choose_victim(person))
    person.world.cloud.vanish(vm.id)
    await person.wait(1.0)
    await acts.plane(person).informers.client.delete(NODE, Key("", vm.node_name))


async def stop_kubelet(person: Person) -> None:
    """The Node falls silent: Ready is Unknown."""
    vm = vm_of(person, choose_victim(person))
    person.world.cloud.order(vm.id, {STOP_KUBELET})


async def report_disk_pressure(person: Person) -> None:
    """The Node reports DiskPressure."""
    person.world.cloud.order(vm_of(person, choose_victim(person)).id, {"disk-pressure"})


async def never_become_a_node(person: Person) -> None:
    """A new machine never becomes a Node."""
    before = {vm.name for vm in person.vms}
    await acts.scale(3)(person)
    await person.until(lambda: {vm.name for vm in person.vms} > before, "a third worker")
    (new,) = (vm for vm in person.vms if vm.name not in before)
    person.victim = new.name
    person.world.cloud.kill(new.id)


# ---------------------------------------------------------------- what keeps a machine


async def recover(person: Person) -> None:
    """The Node is well again before its time is over."""
    vm = vm_of(person, choose_victim(person))
    person.world.cloud.order(vm.id, {"disk-pressure"})
    await person.wait(UNHEALTHY_SECONDS / 2)
    person.world.cloud.order(vm.id, set())
    await person.wait(LONG)
    expect_kept(person)


async def skip_remediation(person: Person) -> None:
    """The machine is excluded from remediation, until a user takes that back."""
    await acts.annotate(choose_victim(person), names.SKIP_REMEDIATION_ANNOTATION)(person)
    await person.wait(2.0)
    person.world.cloud.order(vm_of(person, person.victim).id, {"disk-pressure"})
    await person.wait(LONG)
    expect_kept(person)
    await acts.annotate(person.victim, names.SKIP_REMEDIATION_ANNOTATION, None)(person)


async def pause_machine(person: Person) -> None:
    """The machine is paused, until a user ends that."""
    await acts.annotate(choose_victim(person), names.PAUSED_ANNOTATION)(person)
    await person.wait(2.0)
    person.world.cloud.order(vm_of(person, person.victim).id, {"disk-pressure"})
    await person.wait(LONG)
    expect_kept(person)
    await acts.annotate(person.victim, names.PAUSED_ANNOTATION, None)(person)


async def too_many(person: Person) -> None:
    """Two of three are unhealthy, and at most one may be: none is replaced until one is well again."""
    first, second = (vm_of(person, name_of(each)) for each in workers(person)[:2])
    for each in (first, second):
        person.world.cloud.order(each.id, {"disk-pressure"})
    await person.wait(LONG)
    there = {vm.name for vm in person.vms}
    expect(person, {first.name, second.name} <= there, "none of two unhealthy machines is replaced")
    person.victim = second.name
    person.world.cloud.order(first.id, set())


async def be_unhealthy_without_an_owner(person: Person) -> None:
    """A machine that a user made is unhealthy: it is marked, and no owner replaces it."""
    await acts.make_worker("lone")(person)
    await person.until(lambda: running(3)(person), "three workers", seconds=acts.PATIENCE)
    person.world.cloud.order(vm_of(person, "lone").id, {"disk-pressure"})
    await person.until(
        lambda: "WaitingForRemediation" in why_not_remediated(person, "lone"), "a mark", seconds=LONG
    )
    await person.wait(LONG)


async def ask_another_controller(person: Person) -> None:
    """Another controller is asked to repair the machine, and does; nothing is replaced."""
    await report_disk_pressure(person)
    asked = person.world.journal.objects[resources.REPAIRS]
    await person.until(lambda: bool(asked), "a request for a repair", seconds=LONG)
    await person.wait(LONG)
    expect_kept(person)
    person.world.cloud.order(vm_of(person, person.victim).id, set())


def repaired(person: Person) -> bool:
    """The victim was kept, and the request for its repair is withdrawn."""
    return kept(2)(person) and person.empty(resources.REPAIRS)


async def add_the_plane_late(person: Person) -> None:
    """Workers wait for a control plane, for longer than they may take to start: none is replaced."""
    await acts.create_without_plane()(person)
    await check()(person)
    await person.until(lambda: len(workers(person)) == 2, "two workers", seconds=acts.PATIENCE)
    before = list(map(name_of, workers(person)))
    await person.wait(LONG)
    expect(person, before == list(map(name_of, workers(person))), "no worker is replaced meanwhile")
    await acts.make_plane("cp")(person)


def why_not_remediated(person: Person, name: str) -> str:
    """Why the owner of a machine has not remediated it; empty if it need not."""
    found = next(each for each in workers(person) if name_of(each) == name)
    conditions = found.get("status", {}).get("conditions", ())
    return next((str(c.get("reason", "")) for c in conditions if c["type"] == "OwnerRemediated"), "")


def expect_kept(person: Person) -> None:
    expect(person, person.victim in {vm.name for vm in person.vms}, f"{person.victim} is kept")


def kept(wanted: int) -> End:
    """So many workers run, and the victim is one of them."""
    return lambda person: running(wanted)(person) and person.victim in map(name_of, workers(person))


def _story(name: str, act: Part, end: End, count: int = 2, **spec: Any) -> Story:
    return story(name, act, end, before=cluster(count, check(**spec)))


STORIES = (
    _story("remediated", annotate, replaced(2)),
    _story("failed", fail, replaced(2)),
    _story("node-missing", remove_vm_and_node, replaced(2)),
    _story("node-silent", stop_kubelet, replaced(2)),
    _story("node-ill", report_disk_pressure, replaced(2)),
    _story("node-late", never_become_a_node, replaced(3)),
    _story("node-recovers", recover, kept(2)),
    _story("remediation-skipped", skip_remediation, replaced(2)),
    _story("machine-paused", pause_machine, replaced(2)),
    _story("too-many-unhealthy", too_many, replaced(3), count=3, maxUnhealthy=1),
    _story("out-of-range", too_many, replaced(3), count=3, unhealthyRange="[1-1]"),
    story("plane-late", add_the_plane_late, running(2)),
    story(
        "repaired",
        ask_another_controller,
        repaired,
        before=cluster(
            2, make_repair_template, check(remediationTemplate=acts.ref(resources.REPAIR_TEMPLATE, "fix"))
        ),
    ),
    _story("unowned-unhealthy", be_unhealthy_without_an_owner, running(3)),
)
