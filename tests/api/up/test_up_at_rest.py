"""What `kubewright up` in a folder asks its own API server for when nothing happens, with all of its worlds; and
that the Leases under which they work, renewed only where another process asks, keep that process out."""

import asyncio
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from kubewright.api import catalog
from kubewright.api.core import LEASE
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.compose.embedded import IDENTITY, Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.pki.keys import Algorithm
from kubewright.runtime.leader import Elector
from kubewright.runtime.lease import Timings
from kubewright.testing.clocks import LoopClock
from kubewright.testing.world import running
from kubewright.wire.gvk import Key

EXAMPLES = Path(__file__).parents[3] / "examples"
EC = BootstrapSettings(algorithm=Algorithm.EC)
"""Keys that are made at once: RSA keys are made in threads, which know nothing of the clock of a test."""
OPTIONS = Options(controllers=every_word(Options()), bootstrap=EC)
KINDS = {
    (each.kind.resource.api_version, each.kind.resource.kind): each.kind
    for definitions in catalog.DEFINITIONS.values()
    for each in definitions
}
BUDGET = 12
"""Requests of the controllers in a minute at rest, whatever there is."""

COUNT = re.compile(r'verb="(\w+)",group="[^"]*",resource="(\w+)",.* (\d+)')


def asked(embedded: Embedded) -> Counter[tuple[str, str]]:
    """Requests so far by verb and resource, without those of kubelets: these PATCH their Lease and their node."""
    found: Counter[tuple[str, str]] = Counter()
    for verb, resource, count in COUNT.findall(embedded.server.counts.exposition().decode()):
        if (verb, resource) not in {("PATCH", "leases"), ("PATCH", "nodes")}:
            found[verb, resource] += int(count)
    return found


@pytest.mark.parametrize(
    "examples",
    [[], ["workers", "cluster"]],
    ids=["nothing is there", "machines and a cluster"],
)
async def test_at_rest_all_worlds_together_keep_the_budget_and_write_nothing(
    tmp_path: Path, examples: list[str]
) -> None:
    async with Embedded(ServerConfig(tmp_path), OPTIONS, LoopClock()) as embedded, running(embedded.serve):
        for name in examples:
            for body in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()):
                kind = KINDS[body["apiVersion"], body["kind"]]
                await embedded.client.create(kind, body, namespace="default")
        await asyncio.sleep(180)
        assert embedded.manager.phase == "working"
        before = asked(embedded)
        await asyncio.sleep(600)
        since = asked(embedded) - before
        assert {each for each in since if each[0] != "WATCH"} == set()
        assert since.total() <= 10 * BUDGET


async def test_no_other_process_takes_a_lease_of_ours_and_each_sees_it_renewed(tmp_path: Path) -> None:
    """The others look as client-go does, begin while ``up`` rests, and come through its listener's handler."""
    async with Embedded(ServerConfig(tmp_path), OPTIONS, LoopClock()) as embedded:
        others = Client(InProcess(embedded.others.handle), LoopClock(), name="others")
        led: list[str] = []

        async def stand_for(key: Key) -> None:
            rival = Elector(others, LoopClock(), key, identity="rival", timings=Timings(15, 10, 2))

            async def lead() -> None:
                led.append(key.name)

            await rival.run(lead)

        async with running(embedded.serve):
            await asyncio.sleep(600)
            leases = await others.list(LEASE, "default")
            assert [each.spec.holder_identity for each in leases] == [IDENTITY] * 7
            ages = [LoopClock().now() - each.spec.renew_time for each in leases if each.spec.renew_time]
            assert [age.total_seconds() < 12 for age in ages] == [True] * 7
            with suppress(TimeoutError):
                async with asyncio.timeout(120), asyncio.TaskGroup() as rivals:
                    for each in leases:
                        rivals.create_task(stand_for(Key("default", each.name)))
            assert led == []
            assert embedded.manager.phase == "working"
