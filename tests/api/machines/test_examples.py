"""The examples do what they say: their machines come up as they stand in the repository."""

from pathlib import Path
from typing import Any

import yaml

from kubewright.api.core import SECRET
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, MACHINE_DEPLOYMENT
from kubewright.testing.world import World, embedded_world

EXAMPLES = Path(__file__).parents[3] / "examples"
KINDS: dict[str, Any] = {each.resource.kind: each for each in (SECRET, MACHINE_CLASS, MACHINE_DEPLOYMENT)}


async def test_the_examples_come_up() -> None:
    async with embedded_world() as embedded:
        world = World(embedded.client, embedded.cloud, embedded.clock, "default")
        for name in ("workers", "class", "complete"):
            for body in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()):
                await world.client.create(KINDS[body["kind"]], body, namespace="default")
        sight = await world.settled(5)
        mine = [node for node in sight.nodes if node.metadata.labels.get("example.com/tier") == "workers"]
        assert len(mine) == 2
        assert all(taint.key == "example.com/dedicated" for node in mine for taint in node.spec.taints)
        sent = [vm for vm in world.cloud.vms.values() if vm.name.startswith("complete-")]
        assert len(sent) == 2
