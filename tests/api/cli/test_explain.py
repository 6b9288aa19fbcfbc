"""``kubewright explain`` on machines: with the manager's records, without a manager, and as a person types it."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from rich.console import Console

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.app import main
from kubewright.cli.demo.stage import Stage
from kubewright.cli.explain.command import Asked, told
from kubewright.cli.explain.story import Story
from kubewright.cli.switches import log_at
from kubewright.cli.troubles.command import looked
from kubewright.cli.watch.command import WORDS, Watched, follow
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.inventory import Store
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
        assert well.driver == "sim, in the manager's process"
        (decision,) = well.decisions
        assert (decision.by, decision.source) == ("machine", "manager")
        assert decision.because.endswith("its node is well")
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
        assert sorted(each.by for each in deployment.decisions) == [
            "machinedeployment",
            "machinetaint",
            "rolloutnodes",
        ]


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


async def test_of_a_machine_of_another_kind_of_class_is_said_what_is_true_whoever_migrates_it() -> None:
    async with stage(short_timeouts()) as here:
        spec = {"class": {"kind": "AWSMachineClass", "name": "test-aws"}}
        metadata = {"name": "alone", "namespace": here.world.namespace}
        made = {"metadata": {**metadata, "finalizers": [names.FINALIZER]}, "spec": spec}
        made["metadata"]["annotations"] = {names.PRIORITY_ANNOTATION: "3"}
        await here.world.client.create(MACHINE, made)
        story = await only(here.world.client, "machine", "alone")
        [decided] = story.decisions
        assert decided.because == 'AWSMachineClass "test-aws" is no MachineClass, and is not migrated to one'


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
            Asked("mc", "m", "default"),
            "there is no machine.machine.sapcloud.io m in namespace default; there is none",
            id="a namespace with nothing",
        ),
        pytest.param(
            Asked("mc", "m", "elsewhere"),
            "embedded has no namespace elsewhere",
            id="a namespace that is not there",
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
        with pytest.raises(InvalidInput, match=r"has no namespace defaul$"):
            await looked(world.client, "defaul")


async def test_a_namespace_is_watched_line_by_line() -> None:
    said = io.StringIO()
    async with embedded_world(short_timeouts(health_timeout=60)) as world:
        await world.deploy("workers", 1)
        (name,) = (await world.settled(1)).names
        stop, stage = asyncio.Event(), Stage(WORDS, 0, Console(file=said, width=200))
        what = Watched(world.namespace)
        watching = asyncio.create_task(follow(world.client, world.client, what, stop, stage))
        await asyncio.sleep(2)
        world.cloud.kill(world.cloud.named(name).id)
        await world.until(in_phase(Phase.UNKNOWN), "a machine that is Unknown")
        await asyncio.sleep(2)
        stop.set()
        await watching
    told = said.getvalue()
    assert f"{name} is Running: its node is ready" in told
    assert f"machine {name}: Joined: " in told
    assert told.index(f"{name} is Unknown: its node is silent") > told.index(f"{name} is Running")


@pytest.fixture
def log_as_it_was() -> Iterator[None]:
    """A command sets up the log of its process."""
    yield
    structlog.reset_defaults()


Typed = Callable[..., Awaitable[tuple[int, str, str]]]


@asynccontextmanager
async def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[tuple[Typed, str, str]]:
    """An ``up`` at a real port: what a person types in another terminal, and two kubeconfigs: of its
    administrator, and of bob, who has no rights."""
    log_at("error")
    options = Options(driver_options={"leaseSeconds": "2"})
    async with Embedded(ServerConfig(tmp_path / "data"), options, SystemClock()) as up, running(up.serve):
        world = World(up.client, Cloud(up.clock, Store(None)), up.clock, "default")
        await world.deploy("workers", 1, "sim-small")
        await up.manager.settled()
        bobs = tmp_path / "bob"
        own = up.kubeconfig.read_text()
        bobs.write_text(own.replace("client-key-data:", "as: bob\n    client-key-data:"))

        async def typed(*words: str) -> tuple[int, str, str]:
            capsys.readouterr()
            try:
                await asyncio.to_thread(main, words)
                code = 0
            except SystemExit as ended:
                code = int(ended.code or 0)
            said = capsys.readouterr()
            return code, said.out, said.err

        yield typed, str(up.kubeconfig), str(bobs)


@pytest.mark.looptime(False)
@pytest.mark.usefixtures("log_as_it_was")
async def test_explain_as_a_person_types_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with shell(tmp_path, capsys) as (typed, own, bobs):
        kind = "machinedeployment.machine.sapcloud.io"
        code, out, _ = await typed("explain", "mcd", "workers", "--kubeconfig", own)
        assert (code, out.splitlines()[0]) == (0, f"{kind}/workers in namespace default")
        code, out, _ = await typed("explain", "machinedeployment/workers", "-o", "json", "--kubeconfig", own)
        (story,) = json.loads(out)
        assert (code, story["name"], story["kind"]) == (0, "workers", kind)
        code, _, err = await typed("explain", "mcd", "workers", "-o", "xml", "--kubeconfig", own)
        assert (code, err) == (1, "kubewright: -o 'xml' is not known; there is: json\n")
        code, _, err = await typed("explain", "mcd", "workers", "--kubeconfig", bobs)
        assert code == 1
        assert 'User "bob" cannot get resource "machinedeployments" in API group "machine.sapcloud.io"' in err
        assert err.startswith("server: https://127.0.0.1:")
        assert len(err.splitlines()) == 2


@pytest.mark.looptime(False)
@pytest.mark.usefixtures("log_as_it_was")
async def test_status_as_a_person_types_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with shell(tmp_path, capsys) as (typed, own, bobs):
        code, out, _ = await typed("status", "-n", "kube-system", "--kubeconfig", own)
        assert (code, out) == (0, "namespace kube-system: all is well; 0 objects were looked at\n")
        code, out, _ = await typed("status", "-A", "-o", "json", "--kubeconfig", own)
        found = json.loads(out)
        assert (code, found.get("notes", [])) == (1 if found.get("troubles") else 0, [])
        code, out, _ = await typed("status", "-n", "default", "--kubeconfig", bobs)
        said = "namespace default: no trouble was found, but not everything could be read"
        assert (code, out.splitlines()[0]) == (1, said)
        assert 'User "bob" cannot list resource "machines" in API group "machine.sapcloud.io"' in out
        code, _, err = await typed("status", "-o", "json")
        assert (code, err) == (1, "kubewright: --kubeconfig, --manager and -o go with -n NAMESPACE or -A\n")


@pytest.mark.looptime(False)
@pytest.mark.usefixtures("log_as_it_was")
async def test_what_cannot_be_watched_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with shell(tmp_path, capsys) as (_typed, _own, bobs):
        clock = SystemClock()
        client = Client(config.load(Path(bobs), clock=clock), clock, name="the server")
        with pytest.raises(InvalidInput, match=r'the server: .*User "bob" cannot list resource "machines"'):
            await follow(client, client, Watched("default"), asyncio.Event(), Stage(WORDS, 0))
        await client.close()
