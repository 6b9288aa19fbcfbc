"""Writes that a server refuses whenever they are asked: people are told, and nothing hangs."""

from dataclasses import dataclass

import pytest

from kubewright.api.core import EVENT
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS
from kubewright.testing.faults import Answer, Fault, Script
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.http import Request

REFUSED = Answer(
    422,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,'
    b'"message":"metadata.labels: Invalid value"}',
)


def unrecorded(request: Request) -> Fault | None:
    """The server refuses the write that records which VM a machine has."""
    records = request.method == "PATCH" and b'"providerID"' in request.body
    return REFUSED if records and request.path.endswith("/machines/m1") else None


async def warnings_about(world: World) -> set[tuple[str, str]]:
    """Reason and message of every warning about the machine."""
    events = await world.client.list(EVENT, world.namespace)
    return {(e.reason, e.message) for e in events if e.type == "Warning" and e.involved_object.name == "m1"}


async def test_a_machine_whose_vm_cannot_be_recorded_says_which_write_was_refused_and_why() -> None:
    async with embedded_world(short_timeouts(), faults=unrecorded) as world:
        await world.make("m1")
        sight = await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so", seconds=5)
        operation = sight.machines[0].status.last_operation
        assert (operation.type, operation.state, operation.error_code) == (
            "Create",
            "Failed",
            "InvalidArgument",
        )
        assert operation.description.startswith("The API server refused to record the machine's VM: ")
        assert "metadata.labels" in operation.description
        reasons = {reason for reason, message in await warnings_about(world) if "metadata.labels" in message}
        assert "FailedUpdate" in reasons
        await world.unmake("m1")


async def test_its_creation_timeout_goes_on() -> None:
    async with embedded_world(short_timeouts(creation_timeout=60), faults=unrecorded) as world:
        await world.make("m1")
        sight = await world.until(in_phase(Phase.FAILED), "it fails", seconds=70)
        assert "refused to record" in sight.machines[0].status.last_operation.description
        assert any(reason == "MachineFailed" for reason, _ in await warnings_about(world))
        await world.unmake("m1")


@pytest.mark.parametrize("force", [False, True], ids=["as usual", "by force"])
async def test_it_can_be_deleted_and_leaves_nothing(force: bool) -> None:
    async with embedded_world(short_timeouts(), faults=unrecorded) as world:
        await world.make("m1")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so", seconds=5)
        if force:
            label = {"metadata": {"labels": {"force-deletion": "True"}}}
            await world.client.patch(MACHINE, world.key("m1"), label)
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it is gone", seconds=60)
        assert await world.left() == []


FORBIDDEN = Answer(
    403,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,'
    b'"message":"a role is missing"}',
)


def forbidden(method: str, path: str) -> Script:
    return Script().on(FORBIDDEN, method=method, path=path, times=None)


@dataclass(frozen=True)
class NodePods:
    """Only lists of one node's pods are struck: kubelets and garbage collectors see all pods as ever."""

    script: Script

    def __call__(self, request: Request) -> Fault | None:
        return self.script(request) if "spec.nodeName" in str(request.param("fieldSelector")) else None


async def warnings(world: World, about: str) -> set[str]:
    """What the warnings about an object say."""
    events = await world.client.list(EVENT, world.namespace)
    return {e.message for e in events if e.type == "Warning" and e.involved_object.name == about}


async def test_a_machine_that_may_not_have_a_status_lives_and_goes_all_the_same() -> None:
    async with embedded_world(short_timeouts(), faults=forbidden("PATCH", "/machines/m1/status")) as world:
        await world.make("m1")
        await world.until(lambda s: bool(s.nodes), "its node is there")
        await world.clock.sleep(5)
        assert "The API server refused to write the machine's status: a role is missing" in await warnings(
            world, "m1"
        )
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it is gone", seconds=30)
        assert await world.left() == []


async def test_a_node_that_may_not_be_marked_keeps_no_machine_from_running() -> None:
    async with embedded_world(short_timeouts(), faults=forbidden("PATCH", "/nodes/m1")) as world:
        await world.make("m1")
        await world.until(in_phase(Phase.RUNNING), "it runs")
        assert any("bring the node in line" in said for said in await warnings(world, "m1"))
        await world.unmake("m1")


async def test_pods_that_may_not_be_listed_hold_a_deletion_up_until_a_user_forces_it() -> None:
    async with embedded_world(short_timeouts(), faults=NodePods(forbidden("GET", "/api/v1/pods"))) as world:
        await world.make("m1")
        await world.until(in_phase(Phase.RUNNING), "it runs")
        await world.unmake("m1")
        sight = await world.until(in_phase(Phase.TERMINATING), "it says so")
        assert "refused to show node or pods" in sight.machines[0].status.last_operation.description
        await world.clock.sleep(400)
        assert len((await world.look()).machines) == 1
        label = {"metadata": {"labels": {"force-deletion": "True"}}}
        await world.client.patch(MACHINE, world.key("m1"), label)
        await world.until(lambda s: not s.machines, "it is gone", seconds=30)
        assert await world.left() == []


async def test_a_class_that_cannot_be_held_says_so_and_is_held_later() -> None:
    script = forbidden("PATCH", "/machineclasses/")
    async with embedded_world(short_timeouts(), faults=script) as world:
        await world.make("m1")
        await world.until(in_phase(Phase.RUNNING), "it runs")
        assert await warnings(world, "small") == {
            "The API server refused to add the finalizer machine.sapcloud.io/machine-controller-manager: "
            "403 Forbidden"
        }
        script.calm()
        await world.clock.sleep(200)
        assert (await world.client.get(MACHINE_CLASS, world.key("small"))).metadata.finalizers
        await world.unmake("m1")
