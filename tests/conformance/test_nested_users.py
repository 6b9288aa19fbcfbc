"""A user of a control plane by kubectl: in by a token, as no other, and out at once when the object is deleted."""

import asyncio
import json

import pytest
from tests.conformance.kubectl_planes import CHANNELS, READY, Shell, control_plane
from tests.conformance.nested_planes import until

from kubewright.base.clock import SystemClock

pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False), pytest.mark.timeout(400)]

ALICE = """\
apiVersion: controlplane.cluster.x-k8s.io/v1alpha4
kind: ControlPlaneUser
metadata: {name: alice}
spec: {controlPlaneName: demo, groups: [developers, testers], lifetime: 8h}
"""
OUT_SECONDS = 20
"""kube-apiserver accepts a token that it has checked for ten seconds more; by then it forbids everything."""


async def alice(shell: Shell, copy: str) -> Shell:
    """Her kubectl, with a copy of the kubeconfig that she gets."""
    await shell("apply", "-f", "-", stdin=ALICE)
    await shell.wait("cpuser/alice", READY)
    return await shell.of_secret("demo-user-alice", copy)


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_user_is_who_the_object_says_and_no_other_and_every_copy_ends_with_it(tmp_path, channel):
    async with control_plane(tmp_path, channel) as shell:
        her, admin = await alice(shell, "first"), await shell.of_secret("demo-kubeconfig")
        who = json.loads(await her("auth", "whoami", "-o", "json"))["status"]["userInfo"]
        assert (who["username"], set(who["groups"])) == (
            "alice",
            {"developers", "testers", "system:authenticated"},
        )
        assert "forbidden" in (await her.refused("get", "configmaps")).lower()
        await admin("create", "clusterrolebinding", "developers", "--clusterrole=edit", "--group=developers")
        # The controller manager fills the role edit from other roles some seconds after it has started.
        await until(lambda: may_create(her), SystemClock())
        await her("create", "configmap", "mine", "--from-literal=a=b")
        assert await her("get", "configmap", "mine", "-o", "jsonpath={.data.a}") == "b"

        for others in (
            ["--as=bob"],
            ["--as=kubernetes-admin", "--as-group=system:masters"],
            ["--as=alice", "--as-group=system:masters"],
            ["--as=alice", "--as-uid=1"],
        ):
            assert "cannot impersonate resource" in await her.refused("get", "configmaps", *others)

        await shell("delete", "cpuser", "alice")
        await her.refused("get", "configmap", "mine")
        async with asyncio.timeout(OUT_SECONDS):
            await until(lambda: is_unknown(her), SystemClock())
        left = await admin(
            "get", "sa,clusterrole,clusterrolebinding", "-A", "-l", "controlplane.cluster.x-k8s.io/user"
        )
        assert left.strip() == ""

        again = await alice(shell, "second")
        assert await again("get", "configmap", "mine", "-o", "jsonpath={.data.a}") == "b"
        assert await is_unknown(her)


async def may_create(shell: Shell) -> bool:
    done = await asyncio.to_thread(shell.kubectl.run, "auth", "can-i", "create", "configmaps")
    return done.returncode == 0


async def is_unknown(shell: Shell) -> bool:
    """Whether the API server does not know the user; an assertion that it refuses."""
    told = await shell.refused("get", "configmap", "mine")
    return "Unauthorized" in told or "must be logged in" in told


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_deletion_while_it_sleeps_says_that_it_waits_and_ends_when_it_wakes(tmp_path, channel):
    async with control_plane(tmp_path, channel) as shell:
        her = await alice(shell, "copy")
        await shell("patch", "ncp", "demo", "--type=merge", "-p", '{"spec":{"asleep":true}}')
        await shell.wait("ncp/demo", "--for=condition=Sleeping")
        await shell("delete", "cpuser", "alice", "--wait=false")
        told = "its account cannot be deleted yet: NestedControlPlane demo sleeps"
        message = 'jsonpath={.status.conditions[?(@.type=="Ready")].message}'
        await shell.wait("cpuser/alice", f"--for={message}={told}")
        await shell("patch", "ncp", "demo", "--type=merge", "-p", '{"spec":{"asleep":null}}')
        await shell.wait("ncp/demo", READY)
        await shell.wait("cpuser/alice", "--for=delete")
        await her.refused("auth", "whoami")
