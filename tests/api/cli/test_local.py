"""``kubewright local`` on a server behind TLS, and a garden of one handler: whatever ends setup, restore undoes it."""

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.core import NAMESPACE, POD, Pod
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.local.command import restored, taken_over
from kubewright.cli.local.plan import IGNORED_BY_WATCHDOG, RECORD, Options, settled
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.testing.servers import embedded_kubeconfig
from kubewright.wire.gvk import Key

pytestmark = pytest.mark.looptime(False)

NAMESPACE_OF_SHOOT = "shoot--web--blue"
KEY = Key(NAMESPACE_OF_SHOOT, "machine-controller-manager")


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with embedded_kubeconfig(tmp_path_factory.mktemp("cluster")) as kubeconfig:
        yield kubeconfig


class Garden:
    """Gardener's API, as far as a kubeconfig is asked of it: shoots by path, what was asked, the answer."""

    def __init__(self, kubeconfig: bytes) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.answer: dict[str, Any] = {
            "status": {
                "kubeconfig": base64.b64encode(kubeconfig).decode(),
                "expirationTimestamp": "2030-01-01T00:00:00Z",
            }
        }
        garden = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                garden.asked.append((self.path, body))
                known = self.path.partition("/shoots/")[2].partition("/")[0] in ("blue", "seed-1")
                status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no shoot"}
                content = json.dumps(garden.answer if known else status).encode()
                self.send_response(201 if known else 404)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_words: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(scope="module")
def garden(cluster: Path) -> Iterator[Garden]:
    found = Garden(cluster.read_bytes())
    try:
        yield found
    finally:
        found.close()


@asynccontextmanager
async def deployed(
    cluster: Path, replicas: int = 1, annotations: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    """A client of a cluster with a manager's Deployment; both go at the end."""
    client = Client(load(cluster), SystemClock())
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": pod}
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "annotations": annotations or {}}
    try:
        namespaces = [each.name for each in await client.list(NAMESPACE)]
        if KEY.namespace not in namespaces:
            await client.create(NAMESPACE, {"metadata": {"name": KEY.namespace}})
        await client.create(DEPLOYMENT, {"metadata": metadata, "spec": spec})
        yield client
    finally:
        await client.delete(DEPLOYMENT, KEY)
        await client.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("mine", "machine-controller-manager-provider-aws"):
        (tmp_path / name / "src").mkdir(parents=True)
    (tmp_path / "mine" / ".env").write_text("MINE=1\n")
    (tmp_path / "mine" / ".env").chmod(0o644)
    return tmp_path / "mine"


def plain(project: Path, cluster: Path) -> Options:
    return Options(
        project,
        provider="aws",
        target=str(cluster),
        control=cluster,
        namespace=KEY.namespace,
        deployment=KEY.name,
    )


def gardener(project: Path, garden: Garden) -> Options:
    kubeconfig = project.parent / "garden.kubeconfig"
    port = garden.server.server_address[1]
    names = {"clusters": [{"name": "g", "cluster": {"server": f"http://127.0.0.1:{port}"}}]}
    context = {"contexts": [{"name": "g", "context": {"cluster": "g"}}], "current-context": "g"}
    kubeconfig.write_text(json.dumps(names | context))
    return Options(project, project="web", target="blue", seed="seed-1", garden=kubeconfig, expiry=86400)


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files below a folder, with their rights, and the folders."""
    return {
        str(each.relative_to(folder)): (each.read_bytes() if each.is_file() else b"", each.stat().st_mode)
        for each in sorted(folder.rglob("*"))
        if each.suffix != ".kubeconfig"
    }


def env_of(project: Path) -> dict[str, str]:
    return dict(line.split("=") for line in (project / ".env").read_text().splitlines())


async def state(client: Client) -> tuple[int, str | None]:
    now = await client.get(DEPLOYMENT, KEY)
    return now.spec.replicas, now.metadata.annotations.get(IGNORED_BY_WATCHDOG)


async def setup(options: Options, say: Callable[[str], None], *, dry_run: bool = False) -> bool:
    aside = options.here.parent / "machine-controller-manager-provider-aws"
    return await taken_over(options, settled(options, {aside: True}), 30, SystemClock(), say, dry_run=dry_run)


async def restore(here: Path, say: Callable[[str], None]) -> None:
    await restored(here, SystemClock(), say, with_deployment=True)


@pytest.mark.parametrize(
    ("replicas", "mark"),
    [
        pytest.param(1, None, id="one replica"),
        pytest.param(2, None, id="two replicas"),
        pytest.param(0, None, id="scaled to zero already"),
        pytest.param(1, "true", id="marked already"),
        pytest.param(2, "until-friday", id="marked otherwise"),
    ],
)
async def test_restore_puts_back_exactly_what_setup_has_found(
    cluster: Path, project: Path, replicas: int, mark: str | None
) -> None:
    said: list[str] = []
    async with deployed(cluster, replicas, {IGNORED_BY_WATCHDOG: mark} if mark else None) as client:
        before, there = await state(client), files(project.parent)
        assert await setup(plain(project, cluster), said.append)
        assert await state(client) == (0, "true")
        assert await setup(plain(project, cluster), said.append), "twice"
        env = env_of(project)
        assert env["CONTROL_NAMESPACE"] == KEY.namespace
        assert (
            files(project)["dev/kube-configs/kubeconfig_target.yaml"][0]
            == files(cluster.parent)["kubeconfig"][0]
        )
        assert env["TARGET_KUBECONFIG"] == f"{project}/dev/kube-configs/kubeconfig_target.yaml"
        rights = {
            name: mode & 0o777 for name, (_, mode) in files(project.parent).items() if name not in there
        }
        assert {0o700 if "." not in Path(name).name else 0o600 for name in rights} == set(rights.values())
        await restore(project, said.append)
        assert (await state(client), files(project.parent)) == (before, there)
        await restore(project, said.append)
        assert said[-1].startswith("nothing to restore")
        assert (await state(client), files(project.parent)) == (before, there)
    assert not [line for line in said if "PRIVATE KEY" in line or "LS0t" in line]


async def test_setup_that_is_killed_at_any_line_goes_on_or_is_undone(cluster: Path, project: Path) -> None:
    kills = 0

    async def killed_after(lines: int) -> bool:
        """Whether setup was killed before its end."""
        seen: list[str] = []

        def say(line: str) -> None:
            seen.append(line)
            if len(seen) > lines:
                raise Killed

        try:
            await setup(plain(project, cluster), say)
        except Killed:
            return True
        return False

    async with deployed(cluster, 2) as client:
        before, there = await state(client), files(project.parent)
        while await killed_after(kills):
            if kills % 2:
                await setup(plain(project, cluster), lambda _line: None)
                assert await state(client) == (0, "true")
            await restore(project, lambda _line: None)
            assert (await state(client), files(project.parent)) == (before, there), kills
            kills += 1
        await restore(project, lambda _line: None)
        assert (await state(client), files(project.parent)) == (before, there)
    assert kills == 7, "six files and the Deployment"


async def test_restore_that_is_killed_is_finished_by_the_next_one(cluster: Path, project: Path) -> None:
    async with deployed(cluster, 2) as client:
        before, there = await state(client), files(project.parent)
        await setup(plain(project, cluster), lambda _line: None)
        lines: list[str] = []

        def say(line: str) -> None:
            lines.append(line)
            raise Killed

        for _ in range(20):
            try:
                await restore(project, say)
            except Killed:
                if not (project / RECORD).exists():
                    break
        assert (await state(client), files(project.parent)) == (before, there)


async def test_what_another_hand_has_changed_since_stays(cluster: Path, project: Path) -> None:
    said: list[str] = []
    async with deployed(cluster, 1) as client:
        await setup(plain(project, cluster), said.append)
        (project / ".env").write_text("EDITED=1\n")
        await client.patch(DEPLOYMENT, KEY, {"spec": {"replicas": 3}})
        await restore(project, said.append)
        assert await state(client) == (3, None)
        assert (project / ".env").read_text() == "EDITED=1\n"
    assert any("keeps them; before setup there were 1" in line for line in said)
    assert any(line.startswith("left") and ".env" in line for line in said)


async def test_restore_tells_what_it_has_done_in_one_tense(cluster: Path, project: Path) -> None:
    said: list[str] = []
    async with deployed(cluster, 1):
        await setup(plain(project, cluster), lambda _line: None)
        await restore(project, said.append)
    assert {line.split()[0] for line in said} == {"put", "removed", "restored"}


async def labelled(client: Client, count: int) -> list[Pod]:
    """The pods of the manager, once there are so many."""
    async with asyncio.timeout(20):
        while True:
            found = await client.list(POD, KEY.namespace, labels="a=b")
            if len(found) == count:
                return found
            await asyncio.sleep(0.02)


async def test_setup_names_the_pods_of_the_manager_that_do_not_end_and_no_others(
    cluster: Path, project: Path
) -> None:
    said: list[str] = []
    options, aside = plain(project, cluster), project.parent / "machine-controller-manager-provider-aws"
    other = {"metadata": {"name": "other", "namespace": KEY.namespace, "labels": {"a": "c"}}}
    async with deployed(cluster, 2) as client:
        await client.create(POD, other | {"spec": {"containers": [{"name": "a", "image": "a"}]}})
        pods = await labelled(client, 2)
        for each in pods:
            await client.patch(
                POD, Key(KEY.namespace, each.name), {"metadata": {"finalizers": ["example.com/held"]}}
            )
        await client.patch(DEPLOYMENT, KEY, {"status": {"terminatingReplicas": 2}}, subresource="status")
        wanted = settled(options, {aside: True})
        assert not await taken_over(options, wanted, 1, SystemClock(), said.append, dry_run=False)
        for each in pods:
            await client.patch(POD, Key(KEY.namespace, each.name), {"metadata": {"finalizers": None}})
        await restore(project, lambda _line: None)
        await client.delete(POD, Key(KEY.namespace, "other"))
    names = ", ".join(sorted(each.name for each in pods))
    assert said[-1] == (
        f"2 pods of the manager are still there after 1 s: {names}, on no node; run setup again to wait on"
    )


async def test_a_dry_run_says_what_would_be_done_and_does_nothing(cluster: Path, project: Path) -> None:
    said: list[str] = []
    async with deployed(cluster, 2) as client:
        there, before = files(project.parent), await state(client)
        assert await setup(plain(project, cluster), said.append, dry_run=True)
        assert (files(project.parent), await state(client)) == (there, before)
        assert len([line for line in said if line.startswith("would write ")]) == 6
        assert said[-1].startswith(
            f"would scale {KEY.name} in {KEY.namespace} from 2 to 0, with the annotation"
        )


async def test_a_dry_run_after_setup_says_that_nothing_would_be_changed(cluster: Path, project: Path) -> None:
    said: list[str] = []
    async with deployed(cluster, 1):
        await setup(plain(project, cluster), lambda _line: None)
        await setup(plain(project, cluster), said.append, dry_run=True)
        await restore(project, lambda _line: None)
    assert said == ["nothing would be changed"]


async def test_of_two_at_once_in_one_project_one_is_refused(cluster: Path, project: Path) -> None:
    async with deployed(cluster, 2) as client:
        before, there = await state(client), files(project.parent)
        both = (setup(plain(project, cluster), lambda _line: None) for _ in range(2))
        done, refused = await asyncio.gather(*both, return_exceptions=True)
        assert done is True
        assert isinstance(refused, InvalidInput)
        assert "another `kubewright local` is at work" in str(refused)
        work = (restore(project, lambda _line: None) for _ in range(2))
        first, second = await asyncio.gather(*work, return_exceptions=True)
        assert first is None
        assert isinstance(second, InvalidInput)
        assert (await state(client), files(project.parent)) == (before, there)


async def test_gardener_gives_kubeconfigs_of_a_day_at_most_and_restore_asks_anew(
    cluster: Path, project: Path, garden: Garden
) -> None:
    said: list[str] = []
    options = gardener(project, garden)
    async with deployed(cluster, 1) as client:
        before, there = await state(client), files(project.parent)
        garden.asked.clear()
        await setup(options, said.append)
        assert await state(client) == (0, "true")
        assert "IS_CONTROL_CLUSTER_SEED=true" in (project / ".env").read_text()
        for each in (project / "dev").rglob("*.yaml"):
            each.write_text("expired")  # restore does not need them
        await restore(project, said.append)
        assert await state(client) == before
        assert (project / ".env").read_bytes() == there["mine/.env"][0]
    api = "/apis/core.gardener.cloud/v1beta1/namespaces"
    assert [(path, body["kind"], body["spec"]["expirationSeconds"]) for path, body in garden.asked] == [
        (f"{api}/garden-web/shoots/blue/adminkubeconfig", "AdminKubeconfigRequest", 86400),
        (f"{api}/garden/shoots/seed-1/adminkubeconfig", "AdminKubeconfigRequest", 86400),
        (f"{api}/garden/shoots/seed-1/adminkubeconfig", "AdminKubeconfigRequest", 600),
    ]
    assert "the kubeconfigs are good until 2030-01-01T00:00:00Z" in said


async def test_a_garden_without_the_shoot_or_a_namespace_without_the_manager_changes_nothing(
    cluster: Path, project: Path, garden: Garden
) -> None:
    there = files(project.parent)
    wrong = Options(
        project, project="web", target="red", seed="seed-1", garden=gardener(project, garden).garden
    )
    with pytest.raises(InvalidInput, match="has no shoot red in namespace garden-web"):
        await setup(wrong, lambda _line: None)
    async with deployed(cluster):
        elsewhere = Options(project, target=str(cluster), control=cluster, namespace="default")
        with pytest.raises(
            InvalidInput, match="there is no Deployment machine-controller-manager in namespace"
        ):
            await setup(elsewhere, lambda _line: None)
        none = Options(project, target=str(cluster), control=cluster, namespace="default", deployment="")
        assert await setup(none, lambda _line: None), "a cluster may have no manager"
        with pytest.raises(InvalidInput, match="this folder is set up for no manager in namespace default"):
            await setup(plain(project, cluster), lambda _line: None)
        await restore(project, lambda _line: None)
    assert files(project.parent) == there
