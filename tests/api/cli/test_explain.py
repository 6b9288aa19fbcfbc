"""``kubewright explain`` on machines: with the manager's records, without a manager, and as a person types it."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from kubewright.api.machine.names import Phase
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.app import main
from kubewright.cli.explain.command import Asked, told
from kubewright.cli.explain.story import Story
from kubewright.cli.switches import log_at
from kubewright.cli.troubles.command import looked
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.kube.client import Client
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.store import Store
from kubewright.testing.stage import stage
from kubewright.testing.world import World, embedded_world, in_phase, running, short_timeouts


async def only(client: Client, text: str, name: str) -> Story:
    (story,) = await told(client, Asked(text, name, "machines"))
    return story


async def test_the_manager_of_up_says_what_it_decided_and_what_comes_next() -> None:
    async with embedded_world(short_timeouts(health_timeout=60)) as world:
        await world.deploy("workers", 1)
        (name,) = (await world.settled(1)).names
        well = await only(world.client, "machine", name)
        assert (well.state, well.waits_for) == ("Running", ())
        assert [(each.by, each.source, each.because) for each in well.decisions] == [
            ("machine", "manager", "its node is well")
        ]
        world.cloud.kill(world.cloud.named(name).id)
        await world.until(in_phase(Phase.UNKNOWN), "a machine that is Unknown")
        sick = await only(world.client, "mc", name)
        assert (sick.state, sick.waits_for) == ("Unknown", ("it is Unknown; its health timeout runs",))
        (expected,) = sick.next
        assert sick.since is not None
        assert expected.at is not None
        assert 59 <= (expected.at - sick.since).total_seconds() <= 62
        node, machine = await told(world.client, Asked("node", name, "machines"))
        assert (node.state, node.belongs_to, machine.name) == ("NotReady", (f"machine {name}",), name)
        members = await only(world.client, "machineset", machine.belongs_to[0].split()[1])
        assert members.waits_for[0].startswith(f"machine {name} is Unknown: Machine {name} is unhealthy")
        deployment = await only(world.client, "mcd", "workers")
        assert [each.by for each in deployment.decisions] == ["machinedeployment"]


async def test_without_a_manager_the_deciders_are_asked_here() -> None:
    async with stage(short_timeouts(health_timeout=3600)) as here:
        client = here.world.client
        async with here.process():
            await here.world.deploy("workers", 1)
            (name,) = (await here.world.settled(1)).names
            here.cloud.kill(here.cloud.named(name).id)
            await here.world.until(in_phase(Phase.UNKNOWN), "a machine that is Unknown")
        story = await only(client, "machine", name)
        assert [(each.source, each.because) for each in story.decisions] == [
            ("objects", "it is Unknown; its health timeout runs")
        ]
        (expected,) = story.next
        assert expected.what.startswith(f"Failed: Machine {name} health checks failing since last 10m0s")
        assert story.since is not None
        assert expected.at is not None
        assert 600 <= (expected.at - story.since).total_seconds() < 602
        assert "--manager URL asks the manager that decides" in story.notes[0]
        await here.world.change("workers", {"replicas": 3})
        (decided,) = (await only(client, "mcd", "workers")).decisions
        assert (decided.source, decided.steps) == (
            "objects",
            ("ChangeSet", "RecordEvent"),
        )


async def test_nodes_of_another_cluster_have_to_be_named() -> None:
    async with stage(short_timeouts(), two=True) as here:
        async with here.process():
            await here.world.deploy("workers", 1)
            (name,) = (await here.world.settled(1)).names
        story = await only(here.world.client, "machine", name)
        assert story.decisions == ()
        assert any(
            "name the cluster that the machines join with --target-kubeconfig" in each for each in story.notes
        )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(
            Asked("mcd", "nothing", "machines"),
            "there is no machinedeployment.machine.sapcloud.io nothing in namespace machines; there are: workers",
            id="a name that is not there",
        ),
        pytest.param(
            Asked("mc", "m", "elsewhere"),
            "there is no machine.machine.sapcloud.io m in namespace elsewhere; there is none",
            id="a namespace with nothing",
        ),
        pytest.param(Asked("pod", "m"), "'pod' is no kind that can be explained", id="another kind"),
        pytest.param(
            Asked("mcd", "workers", "machines", "http://127.0.0.1:1"),
            "--manager http://127.0.0.1:1: Cannot connect",
            id="a manager that does not answer",
        ),
    ],
)
@pytest.mark.looptime(False)
async def test_what_is_not_there_is_said_with_what_is(asked: Asked, said: str) -> None:
    async with embedded_world() as world:
        await world.deploy("workers", 0)
        with pytest.raises(InvalidInput) as refused:
            await told(world.client, asked)
        assert str(refused.value).startswith(said)


async def test_all_troubles_of_a_namespace() -> None:
    async with embedded_world(short_timeouts(health_timeout=60)) as world:
        await world.deploy("workers", 2)
        names = sorted((await world.settled(2)).names)
        await asyncio.sleep(5)  # until the set and the deployment have counted their machines
        fine = await looked(world.client, world.namespace)
        assert (fine.troubles, fine.notes) == ((), ())
        for name in names:
            world.cloud.kill(world.cloud.named(name).id)
        await world.until(lambda seen: seen.phases == ["Unknown", "Unknown"], "two machines that are Unknown")
        await world.make("lonely", "no-such-class")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "a machine without a class")
        await asyncio.sleep(5)
        found = (await looked(world.client, world.namespace)).troubles
        assert [(each.kind.partition(".")[0], each.names, each.state) for each in found[:2]] == [
            ("machine", ("lonely",), "CrashLoopBackOff"),
            ("machine", tuple(names), "Unknown"),
        ]
        assert {each.kind.partition(".")[0] for each in found[2:]} == {"machineset", "machinedeployment"}
        assert found[1].waits_for == ("it is Unknown; its health timeout runs",)
        elsewhere = await looked(world.client, "default")
        assert elsewhere.troubles == ()


@pytest.fixture
def log_as_it_was() -> Iterator[None]:
    """A command sets up the log of its process."""
    yield
    structlog.reset_defaults()


@pytest.mark.looptime(False)
@pytest.mark.usefixtures("log_as_it_was")
async def test_as_a_person_types_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a real port, with a kubeconfig; a user without rights is told which one is missing."""
    log_at("error")
    options = Options(driver_options={"leaseSeconds": "2"})
    async with Embedded(ServerConfig(tmp_path / "data"), options, SystemClock()) as up, running(up.serve):
        world = World(up.client, Cloud(up.clock, Store(None)), up.clock, "default")
        await world.deploy("workers", 1, "sim-small")
        await up.manager.settled()
        own, bobs = str(up.kubeconfig), tmp_path / "bob"
        bobs.write_text(
            up.kubeconfig.read_text().replace("client-key-data:", "as: bob\n    client-key-data:")
        )

        async def typed(*words: str, command: str = "explain") -> tuple[int, str, str]:
            capsys.readouterr()
            try:
                await asyncio.to_thread(main, [command, *words])
                code = 0
            except SystemExit as ended:
                code = int(ended.code or 0)
            said = capsys.readouterr()
            return code, said.out, said.err

        code, out, _ = await typed("mcd", "workers", "--kubeconfig", own)
        assert (code, out.splitlines()[0]) == (
            0,
            "machinedeployment.machine.sapcloud.io/workers in namespace default",
        )
        code, out, _ = await typed("machinedeployment/workers", "-o", "json", "--kubeconfig", own)
        (story,) = json.loads(out)
        assert (code, story["name"], story["kind"]) == (0, "workers", "machinedeployment.machine.sapcloud.io")
        code, _, err = await typed("mcd", "workers", "-o", "xml", "--kubeconfig", own)
        assert (code, err) == (1, "kubewright: -o 'xml' is not known; there is: json\n")
        code, _, err = await typed("mcd", "workers", "--kubeconfig", str(bobs))
        assert code == 1
        assert 'User "bob" cannot get resource "machinedeployments" in API group "machine.sapcloud.io"' in err
        assert len(err.splitlines()) == 1
        code, out, _ = await typed("-n", "kube-system", "--kubeconfig", own, command="status")
        assert (code, out) == (0, "namespace kube-system: all is well; 0 objects were looked at\n")
        code, out, _ = await typed("-A", "-o", "json", "--kubeconfig", own, command="status")
        assert (code, json.loads(out).get("notes", [])) == (1 if json.loads(out).get("troubles") else 0, [])
        code, out, _ = await typed("-n", "default", "--kubeconfig", str(bobs), command="status")
        assert (code, out.splitlines()[0]) == (
            1,
            "namespace default: no trouble was found, but not everything could be read",
        )
        assert 'User "bob" cannot list resource "machines" in API group "machine.sapcloud.io"' in out
        code, _, err = await typed("-o", "json", command="status")
        assert (code, err) == (1, "kubewright: --kubeconfig, --manager and -o go with -n NAMESPACE or -A\n")
