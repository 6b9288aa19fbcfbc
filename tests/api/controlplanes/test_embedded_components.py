"""Components of a control plane inside this process: any order of creation and deletion, one end."""

from datetime import timedelta
from itertools import permutations

import pytest
from tests.api.controlplanes.kit import NAMES, Stage, stage

from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.api.core import CONFIG_MAP, EVENT, NAMESPACE
from kubewright.base.errors import KubewrightError
from kubewright.builtin import Settings
from kubewright.compose.api_servers import Planes
from kubewright.compose.task_hosting import TaskHosting
from kubewright.controlplanes.hosting.contract import Hosts, Workload
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key

ALL = ("plane", "etcd", "apiserver", "controllerManager")
COMPONENTS = ALL[1:]


async def create(on: Stage, what: str) -> None:
    if what == "plane":
        await on.plane(*COMPONENTS)
    else:
        await on.apply(NAMES[what], f"demo-{what.lower()}")


async def delete(on: Stage, what: str) -> None:
    kind = NESTED_CONTROL_PLANE if what == "plane" else NAMES[what]
    if await on.get(kind, "demo" if what == "plane" else f"demo-{what.lower()}") is not None:
        await on.client.delete(kind, Key("default", "demo" if what == "plane" else f"demo-{what.lower()}"))


def the_api_server(on: Stage):
    """The client of the one control plane that serves."""
    found = on.planes.find("127.0.0.1:20001")
    return None if found is None else found.client


@pytest.mark.parametrize("order", list(permutations(ALL)), ids=" ".join)
async def test_objects_in_any_order_make_a_control_plane_that_answers(order):
    """E-01."""
    async with stage() as on:
        for what in order:
            await create(on, what)
        await on.ready(*COMPONENTS)
        names = {each.name for each in await the_api_server(on).list(NAMESPACE)}
        assert {"default", "kube-system"} <= names


@pytest.mark.parametrize("order", list(permutations(ALL))[::3], ids=" ".join)
async def test_objects_deleted_in_any_order_leave_nothing(order):
    """Acceptance 13."""
    async with stage() as on:
        for what in ALL:
            await create(on, what)
        await on.ready(*COMPONENTS)
        for what in order:
            await delete(on, what)

        async def gone() -> bool:
            left = [await on.get(NAMES[what], f"demo-{what.lower()}") for what in COMPONENTS]
            return not any(left)

        await on.until(gone)
        assert the_api_server(on) is None


async def test_an_api_server_starts_after_its_etcd_and_the_controllers_after_the_api_server():
    """Acceptance 1: the order, by looking at status."""
    async with stage() as on:
        await create(on, "plane")
        await create(on, "controllerManager")
        await on.until(
            lambda: _says(
                on,
                NESTED_CONTROLLER_MANAGER,
                "demo-controllermanager",
                "there is no NestedAPIServer demo-apiserver",
            )
        )
        await create(on, "apiserver")
        await on.until(
            lambda: _says(on, NESTED_API_SERVER, "demo-apiserver", "there is no NestedEtcd demo-etcd")
        )
        assert the_api_server(on) is None
        assert not (await on.status(NESTED_CONTROLLER_MANAGER, "demo-controllermanager")).ready
        await create(on, "etcd")
        await on.ready(*COMPONENTS)
        since = [(await on.status(NAMES[what], f"demo-{what.lower()}")).conditions for what in COMPONENTS]
        times = [next(each.last_transition_time for each in found if each.type == "Ready") for found in since]
        assert times == sorted(times)


async def test_a_version_beside_a_channel_counts_and_an_event_says_that_the_channel_is_ignored():
    async with stage() as on:
        await on.apply(NESTED_ETCD, "demo-etcd", {"version": "embedded", "channel": "fast"})
        await create(on, "plane")
        await create(on, "apiserver")
        await on.ready("etcd", "apiserver")

        async def told() -> bool:
            found = [each.message for each in await on.client.list(EVENT) if each.reason == "ChannelIgnored"]
            return found == ["spec.channel fast is ignored, because spec.version is embedded"]

        await on.until(told)


async def test_a_control_plane_of_two_components_works():
    """Acceptance 15: what is named counts."""
    async with stage() as on:
        await on.plane("etcd", "apiserver")
        await create(on, "etcd")
        await create(on, "apiserver")
        await on.ready("etcd", "apiserver")


async def test_a_component_that_falls_asleep_keeps_its_data_and_wakes_with_it():
    """Acceptance 3: 0 of 0 is never ready."""
    async with stage() as on:
        for what in ALL:
            await create(on, what)
        await on.ready(*COMPONENTS)
        await the_api_server(on).create(
            CONFIG_MAP, {"metadata": {"name": "mine", "namespace": "default"}, "data": {"a": "b"}}
        )
        await _replicas(on, 0)
        await on.until(lambda: _phase(on, "Sleeping"))
        status = await on.status(NESTED_ETCD, "demo-etcd")
        assert (status.ready, status.replicas, the_api_server(on)) == (False, 0, None)
        await _replicas(on, 1)
        await on.ready(*COMPONENTS)
        found = await the_api_server(on).get(CONFIG_MAP, Key("default", "mine"))
        assert found.data == {"a": "b"}


async def test_an_unknown_channel_is_told_and_mending_it_is_enough():
    """Acceptance 4."""
    async with stage() as on:
        await on.plane("etcd", "apiserver")
        await create(on, "apiserver")
        await on.apply(NESTED_ETCD, "demo-etcd", {"channel": "fast"})
        told = "there is no channel fast; there are: 1.35, 1.36, embedded, stable"
        await on.until(lambda: _says(on, NESTED_ETCD, "demo-etcd", told))
        assert (await on.status(NESTED_ETCD, "demo-etcd")).errors == (told,)
        await on.client.patch(NESTED_ETCD, Key("default", "demo-etcd"), {"spec": {"channel": None}})
        await on.ready("etcd", "apiserver")


async def test_a_patch_for_no_object_is_told_and_mending_it_is_enough():
    """Acceptance 5."""
    async with stage() as on:
        await on.plane("etcd")
        patch = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "other"}}
        await on.apply(NESTED_ETCD, "demo-etcd", {"patches": [patch]})
        told = "spec.patches[0] is for no object: StatefulSet other; there are: StatefulSet demo-etcd"
        await on.until(lambda: _says(on, NESTED_ETCD, "demo-etcd", told))
        await on.client.patch(NESTED_ETCD, Key("default", "demo-etcd"), {"spec": {"patches": None}})
        await on.ready("etcd")


async def test_an_etcd_waits_for_its_api_server_also_while_the_wall_clock_leaps(monkeypatch):
    """How long it has waited is counted on a clock that does not step."""
    async with stage() as on:
        for what in ALL:
            await create(on, what)
        await on.ready(*COMPONENTS)
        key, held = Key("default", "demo-apiserver"), {"metadata": {"finalizers": ["example.com/hold"]}}
        found = await on.get(NESTED_API_SERVER, key.name)
        held["metadata"]["finalizers"] += found.metadata.finalizers
        await on.client.patch(NESTED_API_SERVER, key, held)
        await delete(on, "apiserver")
        await delete(on, "etcd")
        told = on.clock.now
        monkeypatch.setattr(on.clock, "now", lambda: told() + timedelta(hours=1))
        await on.clock.sleep(100)
        assert (await on.get(NESTED_ETCD, "demo-etcd")).metadata.finalizers
        await on.clock.sleep(30)
        assert await on.get(NESTED_ETCD, "demo-etcd") is None


async def test_of_a_paused_component_only_the_pause_is_told_until_it_is_over():
    """Acceptance 14."""
    async with stage() as on:
        await on.plane("etcd")
        await on.apply(NESTED_ETCD, "demo-etcd", annotations={"cluster.x-k8s.io/paused": ""})
        await on.clock.sleep(5)
        found = await on.get(NESTED_ETCD, "demo-etcd")
        assert (found.metadata.finalizers, found.status.phase) == ((), "")
        assert [each.type for each in found.status.conditions] == ["Paused"]
        await on.client.patch(
            NESTED_ETCD,
            Key("default", "demo-etcd"),
            {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}},
        )
        await on.ready("etcd")


async def test_a_spec_that_cannot_be_takes_nothing_away_that_runs():
    async with stage() as on:
        for what in ALL:
            await create(on, what)
        await on.ready(*COMPONENTS)
        key = Key("default", "demo-apiserver")
        await on.client.patch(NESTED_API_SERVER, key, {"spec": {"extraArgs": {"no-such-flag": "1"}}})
        told = "version embedded takes no flags: remove spec.extraArgs"
        await on.clock.sleep(60)
        server, whole = (
            await on.status(NESTED_API_SERVER, key.name),
            await on.status(NESTED_CONTROL_PLANE, "demo"),
        )
        assert (server.ready, server.phase, whole.ready) == (True, "Failed", True)
        late = next(each for each in whole.conditions if each.type == "UpToDate")
        assert (late.status, late.message) == ("False", f"NestedAPIServer demo-apiserver: {told}")


async def test_a_foreign_etcd_is_left_alone_and_its_addresses_are_enough():
    """Acceptance 9, with our own API server: it starts when the foreign program says that etcd is ready."""
    async with stage() as on:
        await on.plane("etcd", "apiserver")
        await create(on, "apiserver")
        await on.apply(NESTED_ETCD, "demo-etcd", annotations={"cluster.x-k8s.io/managed-by": "eco"})
        await on.clock.sleep(5)
        found = await on.get(NESTED_ETCD, "demo-etcd")
        assert (found.metadata.finalizers, found.status.phase) == ((), "")
        told = "NestedEtcd demo-etcd is not ready"
        await on.until(lambda: _says(on, NESTED_API_SERVER, "demo-apiserver", told))


async def test_instances_beyond_one_are_refused_by_this_host_and_told():
    async with stage() as on:
        await on.plane("etcd", "apiserver")
        await create(on, "etcd")
        await on.apply(NESTED_API_SERVER, "demo-apiserver", {"replicas": 2})
        told = "version embedded runs one instance of each component, and spec.replicas is 2"
        await on.until(lambda: _says(on, NESTED_API_SERVER, "demo-apiserver", told))


class Broken(TaskHosting):
    """A host whose disk is full."""

    async def apply(self, workload: Workload) -> None:
        raise KubewrightError(f"{workload.identity.workload}: the disk is full")


async def test_what_a_host_cannot_do_is_told():
    clock = LoopClock()
    broken = Broken(Planes(clock), clock, None, Settings())
    async with stage(Hosts(broken)) as on:
        await on.plane("etcd")
        await create(on, "etcd")
        await on.until(lambda: _says(on, NESTED_ETCD, "demo-etcd", "demo-etcd: the disk is full"))


async def test_a_version_that_no_host_runs_is_told():
    async with stage() as on:
        await on.plane("etcd")
        await on.apply(NESTED_ETCD, "demo-etcd", {"version": "3.6.8"})
        told = "this program cannot run version 3.6.8: it has only channel embedded"
        await on.until(lambda: _says(on, NESTED_ETCD, "demo-etcd", told))


async def _replicas(on: Stage, count: int) -> None:
    for what in COMPONENTS:
        await on.client.patch(
            NAMES[what], Key("default", f"demo-{what.lower()}"), {"spec": {"replicas": count}}
        )


async def _phase(on: Stage, phase: str) -> bool:
    found = [await on.status(NAMES[what], f"demo-{what.lower()}") for what in COMPONENTS]
    return all(each.phase == phase for each in found)


async def _says(on: Stage, kind, name: str, told: str) -> bool:
    status = await on.status(kind, name)
    return any(each.type == "Ready" and each.message == told for each in status.conditions)
