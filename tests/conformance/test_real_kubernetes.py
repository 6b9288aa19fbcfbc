"""The real Kubernetes itself: ready when it says so, several identities, and nothing left behind."""

import os

import pytest

from kubewright.base.clock import SystemClock
from kubewright.kube.config import from_secret
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes import NotReady, Options, RealKubernetes, find

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]


async def test_a_client_without_credentials_may_do_nothing_and_an_admin_everything(
    real_kubernetes: RealKubernetes,
) -> None:
    for user, groups, code in (("ann", ("devs",), 403), ("root", ("system:masters",), 200)):
        transport = from_secret(real_kubernetes.kubeconfig_for(user, *groups))
        answer = await Api(transport, SystemClock(), "real").get("/api/v1/nodes")
        await transport.close()
        assert answer.code == code, answer.message


async def test_the_kubeconfig_is_for_its_owner_only(real_kubernetes: RealKubernetes) -> None:
    assert real_kubernetes.kubeconfig.stat().st_mode & 0o077 == 0
    assert real_kubernetes.folder.stat().st_mode & 0o077 == 0


async def test_what_was_started_is_stopped(real_kubernetes: RealKubernetes) -> None:
    del real_kubernetes  # so that two run at once
    async with RealKubernetes(find(), SystemClock(), Options(fsync=False)) as second:
        folder, pids = second.folder, tuple(second.pids.values())
        assert len(pids) == 3
        assert all(running(pid) for pid in pids)
    assert not folder.exists()
    assert not any(running(pid) for pid in pids)


async def test_a_program_that_cannot_start_says_why_and_leaves_nothing() -> None:
    broken = RealKubernetes(find(), SystemClock(), Options(fsync=False, apiserver_flags=("--no-such-flag",)))
    with pytest.raises(NotReady, match="unknown flag: --no-such-flag"):
        await broken.start()
    assert broken.pids == {}


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
