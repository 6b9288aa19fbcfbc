"""Sets and deployments that are gone, while the caches of their controllers do not show it yet.

The server has deleted the object, or its namespace is being deleted; the watch is late or silent. Nothing is
made for what is gone, and waiting for the cache costs few requests.
"""

import json
from typing import TYPE_CHECKING, Any

from tests.api.machines_sets.conftest import On, deployment

from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.testing.faults import FORBIDDEN, Answer, ExecuteLate, Lag, Silence
from kubewright.wire.gvk import Key

if TYPE_CHECKING:
    from tests.api.machines_sets.conftest import World
else:
    World = Any

NS = "default"
MS, MD = Key(NS, "ms"), Key(NS, "md")
ENDS = {
    "kind": "Status",
    "status": "Failure",
    "message": "the namespace is being terminated",
    "reason": "Forbidden",
    "details": {
        "causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": "no"}]
    },
    "code": 403,
}
NAMESPACE_ENDS = Answer(403, json.dumps(ENDS).encode())


async def make(world: World, replicas: int, *finalizers: str) -> None:
    """A set that no deployment owns."""
    body = deployment("ms", replicas=replicas)
    del body["spec"]["strategy"]
    metadata = {"name": "ms", "finalizers": list(finalizers)}
    await world.client.create(MACHINE_SET, {**body, "metadata": metadata}, namespace=NS)


async def test_no_machine_is_made_for_a_set_that_was_deleted_before_it_had_our_finalizer(
    world: World,
) -> None:
    world.transport.choose = On("machinesets", watch=Lag(5.0))
    await world.restart()
    await world.clock.sleep(5)
    await make(world, 5)
    await world.clock.sleep(2)
    await world.client.delete(MACHINE_SET, MS)
    await world.clock.sleep(10)
    assert world.created == {}
    assert world.requests("PATCH", "/machinesets/ms/"), "it was seen, after it was gone"


async def test_a_set_that_is_gone_adopts_nothing_and_does_not_ask_in_a_loop(world: World) -> None:
    await make(world, 1)
    await world.settle(1)
    world.transport.choose = On("machinesets", watch=Silence())
    await world.restart()
    await world.clock.sleep(5)
    await world.client.patch(MACHINE_SET, MS, {"metadata": {"finalizers": None}})
    await world.client.delete(MACHINE_SET, MS)
    world.transport.asked.clear()
    orphan = {"metadata": {"name": "orphan", "labels": {"app": "ms"}}, "spec": {"class": {"name": "small"}}}
    await world.client.create(MACHINE, orphan, namespace=NS)
    await world.clock.sleep(30)
    assert 0 < len(world.requests("GET", "/machinesets/ms/")) < 30
    assert (await world.client.get(MACHINE, Key(NS, "orphan"))).metadata.owner_references == ()


async def test_a_namespace_that_ends_is_not_asked_for_machines_in_a_loop(world: World) -> None:
    world.transport.choose = On("machines", creation=NAMESPACE_ENDS)
    await make(world, 300)
    await world.clock.sleep(30)
    assert 0 < len(world.requests("POST", "/machines/")) < 20
    assert "FailedCreate" not in {reason for reason, _ in await world.events()}


async def test_no_set_is_made_for_a_deployment_that_is_gone_though_a_request_for_one_was_lost(
    world: World,
) -> None:
    losing = On("machinesets", creation=ExecuteLate(1000))
    world.transport.choose = losing
    await world.deploy(replicas=1)
    await world.clock.sleep(1)
    await world.client.patch(MACHINE_DEPLOYMENT, MD, {"metadata": {"finalizers": None}})
    await world.client.delete(MACHINE_DEPLOYMENT, MD)
    await world.clock.sleep(0.1)
    losing.times = 0
    world.transport.asked.clear()
    await world.clock.sleep(30)
    assert world.requests("POST", "/machinesets/") == []


async def test_a_set_that_is_refused_after_a_request_for_it_was_lost_is_reported(world: World) -> None:
    losing = On("machinesets", creation=ExecuteLate(1000))
    world.transport.choose = losing
    await world.deploy(replicas=1)
    await world.clock.sleep(1)
    losing.creation = FORBIDDEN
    await world.clock.sleep(20)
    found = {each.type: each for each in (await world.deployment()).status.conditions}
    assert (found["Progressing"].status, found["Progressing"].reason) == ("False", "MachineSetCreateError")
    losing.times = 0
    await world.settle(1)
