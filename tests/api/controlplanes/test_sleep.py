"""Control planes that sleep and wake, by hand and by schedule: in order, and with all their data."""

import asyncio
from datetime import datetime

import pytest
from tests.api.controlplanes.kit import NAMES, Stage, stage
from tests.api.controlplanes.test_whole_planes import COMPONENTS, create, whole

from kubewright.api.controlplane.names import LOST_DATA_ANNOTATION
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import SECRET
from kubewright.kube.informer import Change, Informers
from kubewright.wire.gvk import Key

DEMO = Key("default", "demo")
NOTE = {"metadata": {"name": "note", "namespace": "default"}, "stringData": {"a": "b"}}


async def sleeping(on: Stage, *, asleep: bool) -> None:
    """Wait until all components have ended, or all are ready."""
    names = [(NAMES[each], f"demo-{each.lower()}") for each in COMPONENTS]

    async def so() -> bool:
        found = [await on.status(kind, name) for kind, name in names]
        return all(each.phase == ("Sleeping" if asleep else "Ready") for each in found)

    await on.until(so)


async def order(on: Stage, change: dict[str, object] | None, *, asleep: bool) -> list[str]:
    """In which order components end, or become ready, after this change of the spec.

    Without a change: after a user has written ``replicas: 0`` into all three, etcd first. Watches of three kinds
    come in any order, so the versions tell.
    """
    seen: dict[str, int] = {}
    informers = Informers(on.client)
    for each in COMPONENTS:

        def look(told: Change[object], name: str = each) -> None:
            after = told.after()
            there = after is not None and (not after.status.replicas if asleep else after.status.ready)
            if there and after is not None and name not in seen:
                seen[name] = int(after.metadata.resource_version)

        informers.get(NAMES[each]).subscribe(look)
    running = asyncio.create_task(informers.run())
    await on.clock.sleep(1)
    if change is not None:
        await on.client.patch(NESTED_CONTROL_PLANE, DEMO, {"spec": change})
    for each in COMPONENTS if change is None else ():
        await on.client.patch(NAMES[each], Key("default", f"demo-{each.lower()}"), {"spec": {"replicas": 0}})
        await on.clock.sleep(0.3)
    await sleeping(on, asleep=asleep)
    await on.clock.sleep(1)
    running.cancel()
    return sorted(seen, key=seen.__getitem__)


async def server(on: Stage):
    endpoint = (await on.get(NESTED_CONTROL_PLANE, "demo")).spec.control_plane_endpoint
    return on.planes.find(str(endpoint))


async def test_by_hand_components_end_in_reverse_order_and_start_in_order_with_all_data() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        await (await server(on)).client.create(SECRET, NOTE)
        assert await order(on, {"asleep": True}, asleep=True) == ["controllerManager", "apiserver", "etcd"]
        assert await server(on) is None
        status = await on.status(NESTED_CONTROL_PLANE, "demo")
        told = {each.type: (each.status, each.reason, each.message) for each in status.conditions}
        assert told["Sleeping"] == ("True", "Sleeping", "it sleeps until spec.asleep changes")
        assert told["Ready"][:2] == ("False", "Sleeping")
        assert (status.ready, status.asleep, status.wakes_at) == (False, True, None)
        await on.clock.sleep(60)
        assert await order(on, {"asleep": None}, asleep=False) == ["etcd", "apiserver", "controllerManager"]
        await whole(on)
        kept = await (await server(on)).client.get(SECRET, Key("default", "note"))
        assert kept.data == {"a": b"b"}
        status = await on.status(NESTED_CONTROL_PLANE, "demo")
        assert "Sleeping" not in {each.type for each in status.conditions}


@pytest.mark.parametrize("how", ["brought back", "given up"])
async def test_data_that_vanished_meanwhile_holds_the_waking_until_a_user_says_what_is_meant(tmp_path, how):
    async with stage(folder=tmp_path) as on:
        await create(on, *COMPONENTS)
        await whole(on)
        await (await server(on)).client.create(SECRET, NOTE)
        await on.client.patch(NESTED_CONTROL_PLANE, DEMO, {"spec": {"asleep": True}})
        await sleeping(on, asleep=True)
        (data,) = (tmp_path / "clusters").iterdir()
        data.rename(tmp_path / "aside")
        await on.client.patch(NESTED_CONTROL_PLANE, DEMO, {"spec": {"asleep": None}})
        await on.clock.sleep(120)
        status = await on.status(NAMES["etcd"], "demo-etcd")
        told = {each.type: (each.reason, each.message) for each in status.conditions}["Ready"]
        assert (told[0], told[1].startswith("the data of demo-etcd-0 is gone")) == ("DataLost", True)
        assert list((tmp_path / "clusters").iterdir()) == []
        if how == "brought back":
            (tmp_path / "aside").rename(data)
        else:
            given_up = {"metadata": {"annotations": {LOST_DATA_ANNOTATION: "demo-etcd-0"}}}
            await on.client.patch(NAMES["etcd"], Key("default", "demo-etcd"), given_up)
        await sleeping(on, asleep=False)
        await whole(on)
        names = {each.name for each in await (await server(on)).client.list(SECRET, "default")}
        assert ("note" in names) is (how == "brought back")


async def test_one_that_never_served_has_no_data_to_lose(tmp_path) -> None:
    async with stage(folder=tmp_path) as on:
        await create(on, "etcd")
        await on.ready("etcd")
        etcd = Key("default", "demo-etcd")
        for replicas in (0, 1):
            await on.client.patch(NAMES["etcd"], etcd, {"spec": {"replicas": replicas}})
            await on.clock.sleep(30)
        assert (await on.status(NAMES["etcd"], "demo-etcd")).ready


async def test_with_no_replicas_components_end_in_the_order_in_which_they_fall_asleep() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        begun = on.clock.monotonic()
        assert await order(on, None, asleep=True) == ["controllerManager", "apiserver", "etcd"]
        assert on.clock.monotonic() - begun < 5


async def test_a_schedule_lets_it_sleep_and_wakes_it_at_its_times() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        naps = {"sleep": "2 1 * * *", "wake": "4 1 * * *", "timeZone": "Europe/Berlin"}
        await on.client.patch(NESTED_CONTROL_PLANE, DEMO, {"spec": {"schedule": [naps]}})
        await on.clock.sleep(10)
        status = await on.status(NESTED_CONTROL_PLANE, "demo")
        assert (status.asleep, status.sleeps_at) == (False, datetime.fromisoformat("2030-01-01T00:02Z"))
        await until(on, "2030-01-01T00:01:50Z")
        assert (await on.status(NESTED_CONTROL_PLANE, "demo")).ready
        await until(on, "2030-01-01T00:02:10Z")
        await sleeping(on, asleep=True)
        status = await on.status(NESTED_CONTROL_PLANE, "demo")
        assert (status.asleep, status.wakes_at) == (True, datetime.fromisoformat("2030-01-01T00:04Z"))
        told = [each.message for each in status.conditions if each.type == "Sleeping"]
        assert told == ["it sleeps until 2030-01-01T00:04:00Z"]
        await until(on, "2030-01-01T00:03:50Z")
        await sleeping(on, asleep=True)
        await until(on, "2030-01-01T00:04:10Z")
        await sleeping(on, asleep=False)


async def until(on: Stage, moment: str) -> None:
    await on.clock.sleep((datetime.fromisoformat(moment) - on.clock.now()).total_seconds())


async def test_what_another_program_runs_is_not_waited_for() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        foreign = {"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": "other"}}}
        await on.client.patch(NAMES["controllerManager"], Key("default", "demo-controllermanager"), foreign)
        await on.client.patch(NESTED_CONTROL_PLANE, DEMO, {"spec": {"asleep": True}})
        await on.clock.sleep(10)
        phases = [(await on.status(NAMES[each], f"demo-{each}")).phase for each in ("etcd", "apiserver")]
        assert phases == ["Sleeping", "Sleeping"]


@pytest.mark.parametrize("first", ["asleep", "awake"])
async def test_one_that_sleeps_can_be_deleted_and_one_can_be_made_asleep(first: str) -> None:
    async with stage() as on:
        names = {each: {"name": f"demo-{each.lower()}"} for each in COMPONENTS}
        await on.apply(NESTED_CONTROL_PLANE, "demo", {**names, "asleep": first == "asleep"})
        for each in COMPONENTS:
            await on.apply(NAMES[each], f"demo-{each.lower()}")
        await sleeping(on, asleep=first == "asleep")
        await on.client.patch(NESTED_CONTROL_PLANE, DEMO, {"spec": {"asleep": True}})
        await sleeping(on, asleep=True)
        await on.client.delete(NESTED_CONTROL_PLANE, DEMO)

        async def gone() -> bool:
            return not [each for kind in NAMES.values() for each in await on.client.list(kind, "default")]

        await on.until(gone)
