"""What a person types: kubectl's own programs of logs, exec, attach and cp, through the server to a kubelet."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.api.apiserver.kubelets.conftest import Cluster, Person
from tests.api.apiserver.kubelets.fake import plain, summary

pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False)]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        pytest.param(("p",), "c 1\nc 2\nc 3\n", id="all"),
        pytest.param(("p", "--tail=1"), "c 3\n", id="tail"),
        pytest.param(("two", "-c", "b"), "b 1\nb 2\nb 3\n", id="one of two"),
        pytest.param(("two", "--all-containers", "--tail=1"), "a 3\nb 3\n", id="each of two"),
        pytest.param(("-l", "app=p", "--prefix", "--tail=1"), "[pod/p/c] c 3\n", id="by label"),
    ],
)
async def test_logs_are_the_containers(
    cluster: Cluster, person: Person, words: tuple[str, ...], printed: str
) -> None:
    await cluster.pod("two", "a", "b")
    code, seen, error = await person("logs", *words)
    assert (code, sorted(seen.splitlines()), error) == (
        0,
        printed.splitlines(),
        "",
    )  # kubectl asks for all at once


async def test_a_log_is_followed_to_its_end(cluster: Cluster, person: Person) -> None:
    reading = asyncio.create_task(person("logs", "-f", "p", "--tail=1"))
    await cluster.until(lambda: bool(cluster.kubelet.asked))
    for line in (b"later\n", b""):
        cluster.kubelet.lines.put_nowait(line)
    assert await reading == (0, "c 3\nlater\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ("logs", "p", "--previous"),
            'Error from server (BadRequest): previous terminated container "c" in pod "p" not found',
            id="no previous one",
        ),
        pytest.param(
            ("exec", "none", "--", "ls"), 'Error from server (NotFound): pods "none" not found', id="no pod"
        ),
        pytest.param(
            ("logs", "p", "-c", "x"),
            "error: container x is not valid for pod p",
            id="no container, as kubectl says",
        ),
        pytest.param(
            ("exec", "lost", "--", "ls"), 'Error from server (NotFound): nodes "gone" not found', id="no node"
        ),
    ],
)
async def test_what_is_not_there_is_said(
    cluster: Cluster, person: Person, words: tuple[str, ...], said: str
) -> None:
    await cluster.pod("lost", node="gone")
    code, _, err = await person(*words)
    assert (code, err.strip()) == (1, said)


async def test_a_command_runs_in_a_container(person: Person) -> None:
    assert await person("exec", "p", "--", "echo", "a b") == (0, "echo a b\n", "")


async def test_what_is_typed_reaches_the_command_and_comes_back(person: Person) -> None:
    typed = b"x" * 300_000
    assert await person("exec", "-i", "p", "--", "cat", stdin=typed) == (0, typed.decode(), "")


async def test_a_failed_command_tells_its_code(person: Person) -> None:
    code, _, err = await person("exec", "p", "--", "fail")
    assert (code, err) == (3, "it failed\ncommand terminated with exit code 3\n")


async def test_one_attaches_to_what_runs(person: Person) -> None:
    code, out, _ = await person("attach", "-i", "p", "-q", stdin=b"hello\n")
    assert (code, out) == (0, "hello\n")


async def test_a_file_is_copied_out_and_in(cluster: Cluster, person: Person, tmp_path: Path) -> None:
    code, _, err = await person("cp", "p:/etc/motd", str(tmp_path / "motd"))
    assert (code, (tmp_path / "motd").read_bytes()) == (0, b"from the container\n"), err
    (tmp_path / "mine").write_text("from here")
    code, _, err = await person("cp", str(tmp_path / "mine"), "p:/tmp/mine")
    assert code == 0, err
    assert b"from here" in await cluster.kubelet.lines.get()


async def test_where_websockets_are_refused_kubectl_asks_by_spdy_and_then_quotes_the_kubelet(
    cluster: Cluster, person: Person
) -> None:
    """As where the kubelet is older than 1.36."""
    cluster.kubelet.answers["/exec/default/p/c"] = plain(
        403, b"Forbidden (user=kube-apiserver-kubelet-client)"
    )
    code, _, err = await person("exec", "p", "--", "ls")
    assert [each.header("upgrade") for each in cluster.kubelet.asked] == [["websocket"], ["SPDY/3.1"]]
    assert code == 1
    assert "Forbidden (user=kube-apiserver-kubelet-client)" in err


async def test_top_shows_what_kubelets_measured(cluster: Cluster, person: Person) -> None:
    body = summary(1_500_000_000, {"p": {"c": (250_000_000, 64 * 1024 * 1024)}})
    cluster.kubelet.answers["/stats/summary"] = plain(200, body, "content-type: application/json")
    code, out, err = await person("top", "nodes")
    assert (code, out.split()) == (
        0,
        ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)", "n", "1500m", "37%", "512Mi", "12%"],
    ), err
    code, out, err = await person("top", "pods", "--containers")
    assert (code, out.split()) == (
        0,
        ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)", "p", "c", "250m", "64Mi"],
    ), err


async def test_a_node_is_asked_as_it_is(cluster: Cluster, person: Person) -> None:
    code, out, err = await person("get", "--raw", "/api/v1/nodes/n/proxy/configz?a=b&a=c")
    assert code == 0, err
    shown = json.loads(out)
    assert (shown["path"], shown["query"]) == ("/configz", [["a", "b"], ["a", "c"]])
