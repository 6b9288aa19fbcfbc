"""A reserve whose controller ends after any of its writes: the next one brings it to the same end."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from tests.unit.looks.planes import Planes
from tests.unit.looks.reserves import SETTINGS, a_node, a_reserve

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE, PRIORITY_CLASS
from kubewright.api.core import NODE
from kubewright.reserves.wiring import wire
from kubewright.testing.passes import at_rest, working
from kubewright.wire.errors import Unavailable
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

KINDS = {each.resource.kind: each for each in (CAPACITY_RESERVE, NODE, DEPLOYMENT, PRIORITY_CLASS)}
VARYING = ("uid", "resourceVersion", "generation")
Objects = dict[str, dict[str, Any]]


class Dying(Planes):
    """A cluster whose client gets no answer after some writes; ``last``: whether the last is carried out."""

    def __init__(self, writes: int, *, last: bool) -> None:
        super().__init__()
        self.left, self.last = writes, last

    async def handle(self, request: Request) -> Response:
        writes = request.method != "GET" and not self._putting
        self.left -= writes
        if writes and self.left < 0:
            if self.left == -1 and self.last:
                await super().handle(request)
            raise Unavailable("the process ends")
        return await super().handle(request)


async def ran(objects: Objects, writes: int = 100, *, last: bool = False) -> Planes:
    """A controller that starts, and what it leaves."""
    shelf = Dying(writes, last=last)
    controller = wire(shelf.environment, SETTINGS)
    for body in deepcopy(objects).values():
        kind = KINDS[body["kind"]]
        await shelf.put(kind, kind.from_plain(body))
    async with working(controller):
        await at_rest(controller, shelf.clock)
    return shelf


def essence(objects: Objects) -> Mapping[str, Any]:
    """All that is there, as its kinds read it, without what each run makes anew."""
    kinds = {path: KINDS[body["kind"]] for path, body in objects.items()}
    found: Any = {path: kind.to_plain(kind.from_plain(objects[path])) for path, kind in kinds.items()}
    for body in found.values():
        for name in VARYING:
            body["metadata"].pop(name, None)
    return found


def edited(objects: Objects, **members: Any) -> Objects:
    found = deepcopy(objects)
    for body in found.values():
        if body["kind"] == "CapacityReserve":
            meta = body["metadata"]
            meta["generation"] = meta.get("generation", 0) + 1
            meta.update(members.get("metadata", {}))
            body["spec"].update(members.get("spec", {}))
    return found


async def first() -> Objects:
    shelf = Planes()
    await shelf.holds(a_reserve(finalizers=[], generation=1), a_node("a"))
    return shelf.objects


async def other() -> Objects:
    return edited((await ran(await first())).objects, spec={"priority": -7, "unit": {"cpu": "2"}})


async def ended() -> Objects:
    return edited((await ran(await other())).objects, metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})


@pytest.mark.parametrize("last", [False, True], ids=["not carried out", "carried out, and not answered"])
@pytest.mark.parametrize(
    ("stage", "writes", "left"),
    [
        pytest.param(first, 4, {"Node", "CapacityReserve", "Deployment", "PriorityClass"}, id="a new one"),
        pytest.param(other, 4, {"Node", "CapacityReserve", "Deployment", "PriorityClass"}, id="another priority"),
        pytest.param(ended, 3, {"Node", "CapacityReserve"}, id="a deletion"),
    ],
)  # fmt: skip
async def test_whatever_write_is_the_last_one_of_a_process_the_next_comes_to_the_same_end(
    stage, writes, left, last
):
    before = await stage()
    calm = await ran(before)
    assert len(calm.writes) == writes
    assert {each["kind"] for each in calm.objects.values()} == left
    assert len(calm.objects) == len(left)
    for number in range(writes):
        died = await ran(before, number, last=last)
        after = await ran(died.objects)
        assert essence(after.objects) == essence(calm.objects), number


@pytest.mark.parametrize(("nodes", "seen"), [(3, 2), (150, 150)])
async def test_among_many_nodes_a_change_of_one_waits_for_others(nodes, seen):
    """The time of this shelf stands still, so what waits has no pass."""
    shelf = Planes()
    controller = wire(shelf.environment, SETTINGS)
    await shelf.holds(a_reserve(generation=1), *(a_node(f"n{each}") for each in range(nodes)))
    async with working(controller):
        await at_rest(controller, shelf.clock)
        await shelf.change(NODE, Key("", "n1"), {"spec": {"unschedulable": True}})
        await at_rest(controller, shelf.clock)
    (found,) = (body for body in shelf.objects.values() if body["kind"] == "CapacityReserve")
    assert found["status"]["nodes"] == seen
