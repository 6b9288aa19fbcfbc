"""What the how-tos of control planes say, typed by a person: kubectl on the objects, and inside of the control plane."""

import json

import pytest
from tests.conformance.kubectl_planes import CHANNELS, LONG, READY, Shell, control_plane
from tests.conformance.nested_planes import until

from kubewright.base.clock import SystemClock

pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False), pytest.mark.timeout(400)]

CLOCK = SystemClock()
COMPONENTS = {"netcd": "demo-etcd", "nkas": "demo-apiserver", "nkcm": "demo-controller-manager"}
KEEP_DATA = "nested.controlplane.cluster.x-k8s.io/keep-data"
SCHEDULE = '{"spec":{"schedule":[{"sleep":"0 20 * * 1-5","wake":"0 7 * * 1-5","timeZone":"Europe/Berlin"}]}}'


@pytest.mark.parametrize("channel", CHANNELS)
async def test_the_commands_of_the_how_tos(tmp_path, channel):
    async with control_plane(tmp_path, channel) as shell:
        await looked_at(shell)
        await explained_and_described(shell)
        await marked(shell)
        await used(await shell.of_secret("demo-kubeconfig"))
        await scaled(shell)
        await asleep_and_awake(shell)
        await deleted(shell)


async def looked_at(shell: Shell) -> None:
    """Full names, short names, categories, columns and waits."""
    for name in ("nestedcontrolplanes", "nestedcontrolplane", "ncp"):
        header, row = await shell.table(name)
        assert (header, row[:2]) == (["NAME", "READY", "AGE", "VERSION"], ["demo", "true"])
    header, row = await shell.table("ncp", "-o", "wide")
    assert (header[-1], row[-1][:4]) == ("HOST", "127.")
    for short, name in COMPONENTS.items():
        header, row = await shell.table(short)
        assert (header, row[:2]) == (["NAME", "PHASE", "AGE", "VERSION"], [name, "Ready"])
    names = (await shell("get", "capn", "-o", "name")).split()
    assert {each.rpartition("/")[2] for each in names} == {"demo", *COMPONENTS.values()}
    for what in ("ncp/demo", *(f"{short}/{name}" for short, name in COMPONENTS.items())):
        await shell.wait(what, "--for=condition=Ready")


async def explained_and_described(shell: Shell) -> None:
    assert "no instance runs, and all data is kept" in await shell("explain", "ncp.spec.asleep")
    assert "FIELD: credential" in await shell("explain", "cpuser.spec.credential")
    assert "extraArgs" in await shell("explain", "nestedapiserver.spec")
    told = await shell("describe", "ncp", "demo")
    assert "APIServerAvailable" in told
    assert "demo-controller-manager" in told
    assert "Phase:" in await shell("describe", "netcd", "demo-etcd")


async def marked(shell: Shell) -> None:
    await shell("annotate", "netcd", "demo-etcd", f"{KEEP_DATA}=")
    await shell("annotate", "netcd", "demo-etcd", f"{KEEP_DATA}-")
    await shell("label", "ncp", "demo", "team=blue")
    assert [row[0] for row in await shell.table("ncp", "-l", "team=blue")] == ["NAME", "demo"]
    await shell.wait("ncp/demo", READY)


async def used(inside: Shell) -> None:
    """The kubeconfig of the control plane: namespaces, objects, and what its controllers do with them."""
    assert {row[0] for row in await inside.table("ns")} >= {"default", "kube-system", "kube-public"}
    await inside("create", "namespace", "mine")
    await inside("create", "configmap", "kept", "--from-literal=a=b")
    await inside("create", "deployment", "web", "--image=web", "--replicas=2")

    async def has_pods() -> bool:
        found = json.loads(await inside("get", "pods", "-l", "app=web", "-o", "json"))["items"]
        return [each["status"]["phase"] for each in found] == ["Pending"] * 2

    await until(has_pods, CLOCK)
    header, row = await inside.table("deployment", "web")
    assert (header[:2], row[:2]) == (["NAME", "READY"], ["web", "0/2"])
    await inside("delete", "namespace", "mine", LONG)
    assert "forbidden" not in await inside("auth", "can-i", "--list")


async def scaled(shell: Shell) -> None:
    """To no instance and back; the data is there after that."""
    await shell("scale", "nkas", "demo-apiserver", "--replicas=0")
    await shell.wait("nkas/demo-apiserver", "--for=jsonpath={.status.phase}=Sleeping")
    await shell.wait("ncp/demo", "--for=jsonpath={.status.ready}=false")
    await shell("scale", "nkas", "demo-apiserver", "--replicas=1")
    await shell.wait("ncp/demo", READY)
    inside = await shell.of_secret("demo-kubeconfig")
    assert await inside("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"


async def asleep_and_awake(shell: Shell) -> None:
    await shell("patch", "ncp", "demo", "--type=merge", "-p", SCHEDULE)
    at = "jsonpath={.status.asleep} {.status.sleepsAt} {.status.wakesAt}"
    await until(lambda: says(shell, "ncp/demo", at), CLOCK)
    await shell("patch", "ncp", "demo", "--type=merge", "-p", '{"spec":{"schedule":null,"asleep":true}}')
    await shell.wait("ncp/demo", "--for=condition=Sleeping")
    for short, name in reversed(COMPONENTS.items()):
        await shell.wait(f"{short}/{name}", "--for=jsonpath={.status.phase}=Sleeping")
    inside = await shell.of_secret("demo-kubeconfig")
    assert "refused" in await inside.refused("get", "namespaces")
    await shell("patch", "ncp", "demo", "--type=merge", "-p", '{"spec":{"asleep":null}}')
    await shell.wait("ncp/demo", READY)
    assert await inside("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"


async def says(shell: Shell, what: str, output: str) -> bool:
    return (await shell("get", what, "-o", output)).strip() != ""


async def deleted(shell: Shell) -> None:
    await shell("delete", "ncp", "demo", LONG)
    assert (await shell("get", "capn", "-o", "name")).strip() == ""
    assert "demo-" not in await shell("get", "secrets", "-o", "name")
