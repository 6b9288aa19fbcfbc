"""What a user may write wrongly into a set, or change by hand on its machines: the set says what is wrong and where,
nothing is lost, and correcting the field is enough.

Each row changes one field of a set of two machines that run, which no deployment owns.
"""

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.machines_sets.conftest import deployment

from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET
from kubewright.wire.errors import Invalid
from kubewright.wire.gvk import Key

if TYPE_CHECKING:
    from tests.api.machines_sets.conftest import World
else:
    World = Any

NS = "default"


async def make(world: World, name: str = "ms", app: str = "ms") -> Key:
    """A set of two machines, whose labels say ``app``."""
    body = deployment(app, replicas=2)
    del body["spec"]["strategy"]
    await world.client.create(MACHINE_SET, {**body, "metadata": {"name": name}}, namespace=NS)
    return Key(NS, name)


async def failure(world: World, key: Key) -> str:
    """What the set says of its spec."""
    found = (await world.client.get(MACHINE_SET, key)).status.machine_set_condition
    return next((f"{c.status} {c.reason}: {c.message}" for c in found if c.type == "ReplicaFailure"), "")


def owned(world: World, name: str) -> set[str]:
    """The uids of the machines that a set controls."""
    return {
        m.metadata.uid for m in world.all() if (of := m.metadata.controller) is not None and of.name == name
    }


def template(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": spec}}


LIKE = {"key": "app", "operator": "Like", "values": ["ms"]}
ROWS = [
    pytest.param({"selector": None}, {"selector": {"matchLabels": {"app": "ms"}}},
                 "spec.selector: Required value: an empty selector would select all machines",
                 id="no selector"),
    pytest.param({"selector": {"matchLabels": {"app": "other"}}}, {"selector": {"matchLabels": {"app": "ms"}}},
                 "spec.selector.matchLabels: Required value: is not matching with spec.template.metadata.labels",
                 id="a selector that does not match the template"),
    pytest.param({"template": {"metadata": {"labels": None}}}, {"template": {"metadata": {"labels": {"app": "ms"}}}},
                 "spec.selector.matchLabels: Required value: is not matching with spec.template.metadata.labels",
                 id="a template without labels"),
    pytest.param({"selector": {"matchExpressions": [LIKE]}}, {"selector": {"matchExpressions": None}},
                 'spec.selector: "Like" is not a valid label selector operator', id="an unknown operator"),
    pytest.param({"minReadySeconds": -5}, {"minReadySeconds": 0},
                 "spec.minReadySeconds: Invalid value: -5: must be greater than or equal to 0",
                 id="negative minReadySeconds"),
    pytest.param(template(drainTimeout="10 minutes"), template(drainTimeout="10m"),
                 'spec.template.spec.drainTimeout: Invalid value: "10 minutes": must be a duration like 90s, 20m or 1h30m',
                 id="a duration that Go would refuse"),
    pytest.param(template(maxEvictRetries=-1), template(maxEvictRetries=3),
                 "spec.template.spec.maxEvictRetries: Invalid value: -1: must be greater than or equal to 0",
                 id="negative retries"),
    pytest.param(template(**{"class": {"name": ""}}), template(**{"class": {"name": "small"}}),
                 "spec.template.spec.class.name: Required value: Name is required", id="no class"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "right", "words"), ROWS)
async def test_a_set_says_what_is_wrong_and_goes_on_when_it_is_corrected(
    world: World, wrong: dict[str, Any], right: dict[str, Any], words: str
) -> None:
    key = await make(world)
    await world.settle(2)
    before = owned(world, "ms")
    await world.client.patch(MACHINE_SET, key, {"spec": wrong})
    await world.clock.sleep(5)
    assert await failure(world, key) == f"True InvalidSpec: {words}"
    assert ("InvalidSpec", words) in await world.events()
    asked = len(world.transport.asked)
    await world.clock.sleep(20)
    assert len(world.transport.asked) - asked < 5, "no busy loop"
    assert owned(world, "ms") == before
    await world.client.patch(MACHINE_SET, key, {"spec": {**right, "replicas": 3}})
    await world.settle(3)
    assert (await failure(world, key), before <= owned(world, "ms")) == ("", True)


async def test_the_server_refuses_a_number_below_zero_and_says_where(world: World) -> None:
    key = await make(world)
    await world.settle(2)
    with pytest.raises(Invalid, match=r"\.spec\.replicas: Invalid value: -3"):
        await world.client.patch(MACHINE_SET, key, {"spec": {"replicas": -3}})
    assert len(owned(world, "ms")) == 2


async def test_two_sets_that_select_the_same_labels_keep_each_its_own_machines(world: World) -> None:
    await make(world, "one", app="both")
    await make(world, "two", app="both")
    await world.settle(4)
    before = owned(world, "one"), owned(world, "two")
    asked = len(world.transport.asked)
    await world.clock.sleep(60)
    assert (owned(world, "one"), owned(world, "two")) == before
    assert [len(each) for each in before] == [2, 2]
    assert len(world.transport.asked) - asked < 5, "no busy loop"


async def test_a_machine_whose_owner_a_user_takes_away_is_adopted_again(world: World) -> None:
    await make(world)
    await world.settle(2)
    before, victim = owned(world, "ms"), world.all()[0]
    await world.client.patch(MACHINE, Key(NS, victim.name), {"metadata": {"ownerReferences": None}})
    await world.clock.sleep(5)
    assert (owned(world, "ms"), len(world.all())) == (before, 2)


async def test_a_machine_whose_label_a_user_takes_away_is_let_go_and_replaced(world: World) -> None:
    await make(world)
    await world.settle(2)
    before, victim = owned(world, "ms"), world.all()[0]
    key = Key(NS, victim.name)
    await world.client.patch(MACHINE, key, {"metadata": {"labels": {"app": None}}})
    await world.settle(3)
    assert (len(owned(world, "ms")), victim.metadata.uid in owned(world, "ms")) == (2, False)
    await world.client.patch(MACHINE, key, {"metadata": {"labels": {"app": "ms"}}})
    await world.settle(2)
    assert len(owned(world, "ms") & before) >= 1
