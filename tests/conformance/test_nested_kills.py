"""``kill -9`` of the manager in the middle of changes of control planes of real programs: the next one completes them.

The moments are drawn anew in each round. ``ROUNDS=20 make test-kube ARGS='-k kill_9_in_the_middle'`` plays twenty.
"""

import asyncio
import base64
import os
from collections import defaultdict
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import yaml
from tests.conformance.etcd_clients import etcd_client, writing
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.test_etcd_scaling import Etcd, urls_of
from tests.conformance.test_nested_programs import authorities
from tests.conformance.test_nested_storm import data_folders, say, up
from tests.conformance.test_version_upgrades import EARLIER, NOW, earlier_release

from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import NAMESPACE, SECRET
from kubewright.base.clock import SystemClock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.kube.config import from_secret
from kubewright.pki.facts import is_signed_by
from kubewright.testing.api import Api
from kubewright.testing.left_programs import nothing_left
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(400)]

CLOCK = SystemClock()
ROUNDS = int(os.environ.get("ROUNDS", "1"))
KILLS, LONGEST = 3, 8.0
"""Managers that are killed in a round, and for how many seconds each of them may live."""
CHANGE_SECONDS = 240.0
CHANGES, GROWS = "default", "grows"
"""The namespaces of the two control planes: the authorities and the version of one change, the etcd of the other."""
PROGRAMS = {"etcd-0", "apiserver-0", "apiserver-balancer", "controller-manager-0"}
SIGNED = {
    "demo-ca": ("demo-apiserver", "demo-kubelet-client"),
    "demo-etcd": (
        "demo-etcd-server",
        "demo-etcd-peer",
        "demo-etcd-health-client",
        "demo-apiserver-etcd-client",
    ),
    "demo-proxy": ("demo-proxy-client",),
}
"""Which certificates each authority signs."""
KUBECONFIGS = ("demo-kubeconfig", "demo-controller-manager-kubeconfig")


class Managers:
    """``kubewright up``, one process after another. ``client``: of the one that runs; None between two."""

    def __init__(self, folder):
        self.folder, self.client, self._running = folder, None, AsyncExitStack()

    async def begin(self):
        self.client = await self._running.enter_async_context(up(self.folder, "--share-component-user"))

    async def kill(self):
        self.client = None
        await self._running.aclose()

    async def killed_at_random(self):
        for _ in range(KILLS):
            moment = CLOCK.random.uniform(0.0, LONGEST)
            await CLOCK.sleep(moment)
            say(f"killed after {moment:.2f} s")
            await self.kill()
            await self.begin()

    async def at_last(self, act):
        """Wait until a manager has answered this, and with what counts as true."""

        async with asyncio.timeout(CHANGE_SECONDS):
            while True:
                with suppress(KubewrightError):
                    if self.client is not None and await act(self.client):
                        return
                await CLOCK.sleep(0.1)


class User:
    """Writes to the API server of a control plane all the while, with the kubeconfig that was there last.

    ``refused``  what says that the kubeconfig, or the certificate of the server, is not accepted
    ``written``  the names of the ConfigMaps whose creation was acknowledged
    """

    def __init__(self, managers):
        self._managers, self._kubeconfig = managers, b""
        self.refused, self.written = [], []

    async def run(self):
        number = 0
        while True:
            number += 1
            await self._write(f"k{number:05}")
            await CLOCK.sleep(0.1)

    async def _write(self, name):
        try:
            async with self.api() as api:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
                answer = await api.post("/api/v1/namespaces/default/configmaps", body)
        except KubewrightError as error:
            self.refused += [str(error)] if "certificate" in str(error) else []
        else:
            starting = "not yet ready to handle request" in answer.message  # its admission says so with a 403
            self.refused += [answer.message] if answer.code in (401, 403) and not starting else []
            self.written += [name] if answer.code == 201 else []

    @asynccontextmanager
    async def api(self):
        """The API of the control plane, by a new connection."""
        with suppress(KubewrightError):
            if (client := self._managers.client) is not None:
                found = await client.get(SECRET, Key(CHANGES, "demo-kubeconfig"))
                self._kubeconfig = found.data["value"]
        transport = from_secret(self._kubeconfig)
        try:
            yield Api(transport, CLOCK, "real")
        finally:
            await transport.close()

    async def served(self, _client):
        """Whether the controller manager works with its credentials, and all that was acknowledged is there."""
        async with self.api() as api:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
            await api.post("/api/v1/namespaces", body)
            if (await api.get("/api/v1/namespaces/new/serviceaccounts/default")).code != 200:
                return False
            listed = (await api.get("/api/v1/namespaces/default/configmaps")).ok()["items"]
        assert set(self.written) <= {each["metadata"]["name"] for each in listed}
        return len(self.written) > 10


def running(folder):
    """The ids of all processes by the folder of a program in which they run."""
    found = defaultdict(list)
    for each in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if (where := each.readlink()).is_relative_to(folder):
                found[str(where.relative_to(folder / "components" / "programs"))].append(each.parent.name)
    return dict(found)


async def counting(folder, doubled):
    """Look all the while which programs run; ``doubled`` gets those that run twice at once."""
    while True:
        found = await asyncio.to_thread(running, folder)
        doubled += [(name, pids) for name, pids in found.items() if len(pids) > 1]
        await CLOCK.sleep(0.05)


async def listing(direct, history):
    """Look all the while who is a member; ``history`` gets what is new: those with a vote, how many have none."""
    while True:
        answer = await direct.call("/v3/cluster/member/list", {"linearizable": True})
        if answer is not None:
            voters = {each.get("name", "") for each in answer["members"] if not each.get("isLearner")}
            found = voters, len(answer["members"]) - len(voters)
            history += [found] if history[-1:] != [found] else []
        await CLOCK.sleep(0.02)


@asynccontextmanager
async def meanwhile(*works):
    """Tasks that go on until the end; what they raise is raised."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in works]
        yield
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def two_planes(folder):
    """Both control planes, ready, under managers that may be killed; nothing of them is left afterwards."""
    managers, doubled = Managers(folder), []
    with nothing_left(folder / "components"):
        try:
            await managers.begin()
            await managers.client.create(NAMESPACE, {"metadata": {"name": GROWS}})
            changes = FourObjects(managers.client, CHANGES, version=EARLIER)
            grows = FourObjects(managers.client, GROWS, "1.36")
            for four in (changes, grows):
                await four.create()
            for four in (changes, grows):
                await until(four.ready, CLOCK)
            async with meanwhile(counting(folder, doubled)):
                yield managers
            assert doubled == []
            programs = {f"{each}/demo/{name}" for each in (CHANGES, GROWS) for name in PROGRAMS}

            async def has_no_second_server():
                return set(running(folder)) == programs

            await until(has_no_second_server, CLOCK)
            for four in (FourObjects(managers.client, each) for each in (CHANGES, GROWS)):
                await four.delete()
                await until(four.gone, CLOCK)
            assert (running(folder), data_folders(folder)) == ({}, [])
        finally:
            await managers.kill()


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_kill_9_in_the_middle_of_changes_and_the_next_manager_completes_them(
    number, tmp_path, monkeypatch
):
    """E-10 and E-12. Upgrade and rotation are asked for at once: each restarts all."""
    monkeypatch.setenv("KUBEWRIGHT_ASSETS", str(earlier_release(tmp_path / "earlier")))
    async with two_planes(tmp_path / "data") as managers:
        before, history = await authorities(managers.client), []
        user, etcd = User(managers), Etcd(managers.client, GROWS)
        async with (
            etcd_client(await urls_of(etcd), await etcd.client_tls()) as direct,
            writing(direct),
            meanwhile(listing(direct, history), user.run()),
            asyncio.TaskGroup() as group,
        ):
            began = CLOCK.monotonic()
            for each in (
                managers.killed_at_random(),
                upgrade_and_rotate(managers, before),
                one_three_one(managers),
            ):
                group.create_task(each)
        say(f"all is changed after {CLOCK.monotonic() - began:.1f} s")
        await managers.at_last(user.served)
        assert user.refused == []
        await all_fits(managers.client)
        assert not out_of_order(history), history


async def upgrade_and_rotate(managers, before):
    """Wait until the first control plane has the new version, and authorities of its own that are all new."""

    async def ask(client):
        rotate = {"certificateAuthorities": {"rotateAfter": rfc3339(CLOCK.now())}}
        return await client.patch(
            NESTED_CONTROL_PLANE, Key(CHANGES, "demo"), {"spec": {"version": NOW, **rotate}}
        )

    async def done(client):
        now, status = (
            await authorities(client),
            (await client.get(NESTED_CONTROL_PLANE, Key(CHANGES, "demo"))).status,
        )
        replaced = all(now[name] != before[name] and len(now[name]) == 1 for name in before)
        return replaced and status.version == f"v{NOW}" and await FourObjects(client, CHANGES).ready()

    await managers.at_last(ask)
    await managers.at_last(done)


async def one_three_one(managers):
    """Wait until the etcd of the second control plane has three members, and then one again."""
    for count in (3, 1):
        await managers.at_last(partial(asked, count))
        await managers.at_last(lambda client, count=count: Etcd(client, GROWS).is_ready_with(count))


async def asked(count, client):
    await Etcd(client, GROWS).ask(count)
    return True


def out_of_order(history):
    """What was seen of the members beside the one path there is: one change at a time, each learner to a vote."""
    one, two, three = ({f"demo-etcd-{number}" for number in range(count)} for count in (1, 2, 3))
    path = iter([(one, 0), (one, 1), (two, 0), (two, 1), (three, 0), (two, 0), (one, 0)])
    return [each for each in history if each not in path]


async def all_fits(client):
    """Every certificate and kubeconfig is of the one authority that is trusted now."""
    trusted = await authorities(client)
    for authority, leaves in SIGNED.items():
        [own] = trusted[authority]
        for leaf in leaves:
            found = await client.get(SECRET, Key(CHANGES, leaf))
            assert is_signed_by(found.data["tls.crt"], own), leaf
    [own] = trusted["demo-ca"]
    for name in KUBECONFIGS:
        found = yaml.safe_load((await client.get(SECRET, Key(CHANGES, name))).data["value"])
        [cluster], [user] = found["clusters"], found["users"]
        assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == own, name
        assert is_signed_by(base64.b64decode(user["user"]["client-certificate-data"]), own), name
