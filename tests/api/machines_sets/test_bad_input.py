"""What a user may write wrongly into a deployment or a set: it says what is wrong and where, nothing is lost, and
correcting the field is enough.

Each row changes one field of a pool of two that runs. The server refuses what no field can hold (words of the wrong
type); here is what it takes.
"""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.machines_sets.conftest import World
else:
    World = Any

ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def rolling(**bounds: Any) -> dict[str, Any]:
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": bounds}}


def template(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": spec}}


ROWS = [
    pytest.param(rolling(maxUnavailable="150%"), {"strategy": ROLLING},
                 'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "150%": must not be greater than 100%',
                 id="more unavailable than there are"),
    pytest.param(rolling(maxUnavailable="half"), {"strategy": ROLLING},
                 "spec.strategy.rollingUpdate.maxUnavailable: Required value: unable to convert maxUnavailable to int32",
                 id="a bound that is no number"),
    pytest.param(rolling(maxSurge=-1), {"strategy": ROLLING},
                 "spec.strategy.rollingUpdate.maxSurge: Required value: unable to convert maxSurge to int32",
                 id="a negative surge"),
    pytest.param({"strategy": {"type": "Slowly"}}, {"strategy": ROLLING},
                 'spec.strategy.type: Invalid value: "Slowly": strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]',
                 id="an unknown strategy"),
    pytest.param({"minReadySeconds": -5}, {"minReadySeconds": 0},
                 "spec.minReadySeconds: Invalid value: -5: must be greater than or equal to 0", id="negative minReadySeconds"),
    pytest.param({"progressDeadlineSeconds": -5}, {"progressDeadlineSeconds": 600},
                 "spec.progressDeadlineSeconds: Invalid value: -5: must be greater than or equal to 0",
                 id="a negative deadline"),
    pytest.param(template(drainTimeout="10 minutes"), template(drainTimeout="10m"),
                 "spec.template.spec.drainTimeout", id="a duration that Go would refuse"),
    pytest.param(template(maxEvictRetries=-1), template(maxEvictRetries=3),
                 "spec.template.spec.maxEvictRetries: Invalid value: -1: must be greater than or equal to 0",
                 id="negative retries"),
]  # fmt: skip


def told(obj: Any, kind: str) -> str:
    found = getattr(obj.status, "conditions", None) or getattr(obj.status, "machine_set_condition", ())
    return next((f"{c.status} {c.reason}: {c.message}" for c in found if c.type == kind), "")


@pytest.mark.parametrize(("wrong", "right", "words"), ROWS)
async def test_a_deployment_says_what_is_wrong_and_goes_on_when_it_is_corrected(
    world: World, wrong: dict[str, Any], right: dict[str, Any], words: str
) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    before = {m.metadata.uid for m in world.all()}
    await world.change(wrong)
    await world.clock.sleep(5)
    assert told(await world.deployment(), "Progressing").startswith(f"False InvalidSpec: {words}")
    assert [message for reason, message in await world.events() if message.startswith(words)] != []
    asked = len(world.transport.asked)
    await world.clock.sleep(20)
    assert len(world.transport.asked) - asked < 5, "no busy loop"
    assert {m.metadata.uid for m in world.all()} == before
    await world.change({**right, "replicas": 3})
    await world.settle(3)
    assert told(await world.deployment(), "Progressing").startswith("True")
