"""Snapshots of control planes inside this process, and their way back (decision 0036)."""

import asyncio
import hashlib
import json
import shutil
from pathlib import Path

import pytest
from tests.api.controlplanes.buckets import KEY, buckets
from tests.api.controlplanes.kit import KINDS, NAMES, Stage, stage

from kubewright.api.cluster.names import PAUSED_ANNOTATION
from kubewright.api.controlplane import manifests
from kubewright.api.controlplane.names import (
    FINALIZER,
    PUBLISHED_ANNOTATION,
    RESTORING_ANNOTATION,
    SCHEDULE_LABEL,
    Component,
)
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
)
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.base.clock import SystemClock
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.testing.permissions import granted, missing, unused
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

pytestmark = pytest.mark.looptime(False)
COMPONENTS = ("etcd", "apiserver", "controllerManager")
MINE = Key("default", "mine")
ADDRESS = "127.0.0.1:20001"


async def create(on: Stage) -> None:
    await on.plane(*COMPONENTS)
    for each in COMPONENTS:
        await on.apply(NAMES[each], f"demo-{each.lower()}")
    await on.ready(*COMPONENTS)


async def write(on: Stage, value: str) -> None:
    inside = on.planes.find(ADDRESS).client
    try:
        await inside.patch(CONFIG_MAP, MINE, {"data": {"a": value}})
    except NotFound:
        body = {"metadata": {"name": MINE.name, "namespace": MINE.namespace}, "data": {"a": value}}
        await inside.create(CONFIG_MAP, body)


async def post(on: Stage, path: str, body: dict[str, object]) -> dict:
    inside = on.planes.find(ADDRESS).client
    answer = await inside.send(inside.request("POST", path, json.dumps(body).encode()))
    return json.loads(answer.body)


async def read(on: Stage) -> str | None:
    try:
        return (await on.planes.find(ADDRESS).client.get(CONFIG_MAP, MINE)).data["a"]
    except NotFound:
        return None


async def take(on: Stage, name: str = "first", **spec: object) -> None:
    await on.apply(CONTROL_PLANE_SNAPSHOT, name, {"controlPlaneName": "demo", **spec})
    await is_ready(on, CONTROL_PLANE_SNAPSHOT, name)


async def restore(on: Stage, snapshot: str = "first", name: str = "back") -> None:
    await on.apply(CONTROL_PLANE_RESTORE, name, {"snapshotName": snapshot})


async def is_ready(on: Stage, kind, name: str) -> None:
    async def so() -> bool:
        return (await on.status(kind, name)).ready

    await on.until(so, 20)


async def says(on: Stage, kind, name: str, told: str) -> None:
    async def so() -> bool:
        status = await on.status(kind, name)
        return status is not None and any(told in each.message for each in status.conditions)

    await on.until(so, 20)


async def is_stopped(on: Stage) -> bool:
    """Whether a restore stops the control plane."""
    return RESTORING_ANNOTATION in (await on.get(NESTED_CONTROL_PLANE, "demo")).metadata.annotations


def files(folder: Path) -> list[Path]:
    return [each for each in (folder / "snapshots").rglob("*") if each.is_file()]


def former(folder: Path) -> str:
    """The one folder of former data, as the status says it."""
    (found,) = (folder / "clusters").glob("*.before-*")
    return str(found.relative_to(folder))


async def test_what_is_written_after_a_snapshot_is_gone_after_its_restore_and_kept_aside(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await write(on, "before")
        await take(on)
        status = await on.status(CONTROL_PLANE_SNAPSHOT, "first")
        (file,) = files(tmp_path)
        assert (status.size, status.format) == (file.stat().st_size, "embedded")
        assert (oct(file.stat().st_mode & 0o777), str(file)) == (
            "0o600",
            str(tmp_path / "snapshots" / status.file),
        )
        await write(on, "after")
        await restore(on)
        await is_ready(on, CONTROL_PLANE_RESTORE, "back")
        assert await read(on) == "before"
        status = await on.status(CONTROL_PLANE_RESTORE, "back")
        assert (status.phase, status.former_data) == ("Complete", former(tmp_path))
        await write(on, "later")
        assert await read(on) == "later"
        kept = (await on.get(NESTED_CONTROL_PLANE, "demo")).metadata.annotations
        assert set(kept) == {PUBLISHED_ANNOTATION}


async def test_a_snapshot_brings_back_what_a_deleted_data_folder_had(tmp_path):
    """E-11."""
    async with stage(folder=tmp_path) as on:
        await create(on)
        await write(on, "kept")
        await take(on)
        for component in COMPONENTS:
            key = Key("default", f"demo-{component.lower()}")
            await on.client.patch(NAMES[component], key, {"spec": {"replicas": 0}})
        await on.until(lambda: asleep(on), 20)
        (data,) = (tmp_path / "clusters").iterdir()
        shutil.rmtree(data)
        for component in COMPONENTS:
            key = Key("default", f"demo-{component.lower()}")
            await on.client.patch(NAMES[component], key, {"spec": {"replicas": 1}})
        await on.until(lambda: has_lost_data(on), 20)
        await restore(on)
        await is_ready(on, CONTROL_PLANE_RESTORE, "back")
        assert await read(on) == "kept"


async def has_lost_data(on: Stage) -> bool:
    found = await on.status(NESTED_ETCD, "demo-etcd")
    return any((each.type, each.reason) == ("Ready", "DataLost") for each in found.conditions)


async def asleep(on: Stage) -> bool:
    found = [await on.status(KINDS[each], f"demo-{NAME[each]}") for each in Component]
    return all(each.phase == "Sleeping" for each in found)


NAME = {
    Component.ETCD: "etcd",
    Component.API_SERVER: "apiserver",
    Component.CONTROLLER_MANAGER: "controllermanager",
}


async def test_a_token_of_an_account_that_the_snapshot_has_is_good_after_its_restore(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        plane = on.planes.find(ADDRESS)
        path = "/api/v1/namespaces/default/serviceaccounts"
        await post(on, path, {"metadata": {"name": "kept"}})
        await take(on)
        await post(on, path, {"metadata": {"name": "made-later"}})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        tokens = [
            (await post(on, f"{path}/{name}/token", asked))["status"]["token"]
            for name in ("kept", "made-later")
        ]
        assert [plane.accepts(each) for each in tokens] == [True, True]
        await restore(on)
        await is_ready(on, CONTROL_PLANE_RESTORE, "back")
        assert [on.planes.find(ADDRESS).accepts(each) for each in tokens] == [True, False]


async def test_while_the_control_plane_is_paused_nothing_is_copied_or_restored_and_all_of_it_says_so(
    tmp_path,
):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await write(on, "before")
        await take(on)
        await write(on, "after")
        plane, pause = Key("default", "demo"), {PAUSED_ANNOTATION: ""}
        await on.client.patch(NESTED_CONTROL_PLANE, plane, {"metadata": {"annotations": pause}})
        await restore(on)
        await on.apply(CONTROL_PLANE_SNAPSHOT, "second", {"controlPlaneName": "demo"})
        schedule = {"schedule": "* * * * *", "controlPlaneName": "demo"}
        await on.apply(CONTROL_PLANE_SNAPSHOT_SCHEDULE, "nightly", schedule)
        waiting = (
            (CONTROL_PLANE_RESTORE, "back"),
            (CONTROL_PLANE_SNAPSHOT, "second"),
            (CONTROL_PLANE_SNAPSHOT_SCHEDULE, "nightly"),
        )
        for kind, name in waiting:
            await says(on, kind, name, f"NestedControlPlane demo has the annotation {PAUSED_ANNOTATION}")
            assert (await on.get(kind, name)).metadata.finalizers == ()
        assert await read(on) == "after"
        await on.client.patch(
            NESTED_CONTROL_PLANE, plane, {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}
        )
        for kind, name in waiting[:2]:
            await is_ready(on, kind, name)
        for kind, name in waiting:
            assert "Paused" not in {each.type for each in (await on.status(kind, name)).conditions}
        assert await read(on) == "before"


async def test_a_damaged_file_stops_nothing_and_is_told(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await write(on, "before")
        await take(on)
        (file,) = files(tmp_path)
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        await write(on, "after")
        await restore(on)
        await says(on, CONTROL_PLANE_RESTORE, "back", "the snapshot was taken with")
        assert await read(on) == "after"
        assert not await is_stopped(on)


async def test_a_file_whose_snapshot_was_deleted_is_restored_by_its_name_and_its_hash(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await write(on, "before")
        await take(on)
        await write(on, "after")
        kept = await on.status(CONTROL_PLANE_SNAPSHOT, "first")
        await on.client.delete(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))
        wrong = {
            "gone": ({"name": "default/demo/none"}, "No such file"),
            "bare": ({"name": kept.file}, "set spec.file.sha256"),
            "other": ({"name": kept.file, "sha256": "0" * 64}, "the snapshot was taken with"),
            "theirs": ({"name": "theirs/demo/first", "sha256": kept.sha256}, "spec.file.name"),
        }
        for name, (file, told) in wrong.items():
            await on.apply(CONTROL_PLANE_RESTORE, name, {"controlPlaneName": "demo", "file": file})
            await says(on, CONTROL_PLANE_RESTORE, name, told)
            await on.client.delete(CONTROL_PLANE_RESTORE, Key("default", name))
        assert not await is_stopped(on)
        assert await read(on) == "after"
        right = {"name": kept.file, "sha256": kept.sha256}
        await on.apply(CONTROL_PLANE_RESTORE, "back", {"controlPlaneName": "demo", "file": right})
        await is_ready(on, CONTROL_PLANE_RESTORE, "back")
        assert await read(on) == "before"


async def test_what_an_etcd_has_sent_is_refused_by_an_embedded_control_plane_before_it_stops(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await write(on, "kept")
        file = tmp_path / "snapshots" / "default" / "demo" / "of-etcd"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"data" + hashlib.sha256(b"data").digest())
        spec = {"controlPlaneName": "demo", "file": {"name": "default/demo/of-etcd"}}
        await on.apply(CONTROL_PLANE_RESTORE, "back", spec)
        told = "a snapshot of format etcd cannot take the place of the data of NestedEtcd demo-etcd"
        await says(on, CONTROL_PLANE_RESTORE, "back", told)
        assert await read(on) == "kept"


async def test_a_restore_that_is_deleted_half_way_lets_the_control_plane_start(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await take(on)
        plane = Key("default", "demo")
        restoring = {"nested.controlplane.cluster.x-k8s.io/restoring": "back"}
        body = {"metadata": {"name": "back", "namespace": "default", "finalizers": [FINALIZER]}}
        await on.client.create(CONTROL_PLANE_RESTORE, {**body, "spec": {"snapshotName": "gone"}})
        await on.client.patch(NESTED_CONTROL_PLANE, plane, {"metadata": {"annotations": restoring}})
        told = "it is stopped for ControlPlaneRestore back"
        await says(on, NESTED_ETCD, "demo-etcd", told)
        await on.client.delete(CONTROL_PLANE_RESTORE, Key("default", "back"))
        await on.ready(*COMPONENTS)


async def test_a_control_plane_stops_in_order_for_a_restore(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        stopped: list[str] = []

        def watch(component):
            def changed(change):
                after = change.after()
                if after is not None and not after.status.replicas and component not in stopped:
                    stopped.append(component)

            return changed

        await take(on)
        informers = on.informers
        for component, kind in KINDS.items():
            informers.get(kind).subscribe(watch(str(component)))
        await restore(on)
        await is_ready(on, CONTROL_PLANE_RESTORE, "back")
        assert stopped == ["controller-manager", "apiserver", "etcd"]


async def test_a_bucket_keeps_a_snapshot_and_gives_it_back(tmp_path):
    async with buckets() as served, stage(folder=tmp_path) as on:
        await create(on)
        await write(on, "before")
        secret = {"metadata": {"name": "s3", "namespace": "default"}}
        keys = {"accessKeyId": KEY, "secretAccessKey": "secret"}
        await on.client.create(SECRET, {**secret, "stringData": keys})
        bucket = {"bucket": "kept", "endpoint": served.url, "secretName": "s3"}
        await take(on, location={"bucket": bucket})
        status = await on.status(CONTROL_PLANE_SNAPSHOT, "first")
        assert {path: len(content) for path, content in served.kept.items()} == {
            f"/kept/{status.file}": status.size
        }
        await write(on, "after")
        await restore(on)
        await is_ready(on, CONTROL_PLANE_RESTORE, "back")
        assert (await read(on), files(tmp_path)) == ("before", [])


async def schedule(on: Stage, **spec: object) -> None:
    """A schedule whose last time is long ago, so that one is due now."""
    spec = {"schedule": "0 * * * *", "controlPlaneName": "demo", **spec}
    await on.apply(CONTROL_PLANE_SNAPSHOT_SCHEDULE, "hourly", spec)

    async def has_last() -> bool:
        body = {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}}
        key = Key("default", "hourly")
        status = await on.status(CONTROL_PLANE_SNAPSHOT_SCHEDULE, "hourly")
        if status.next_schedule_time is not None:
            await on.client.patch(CONTROL_PLANE_SNAPSHOT_SCHEDULE, key, body, subresource="status")
            await on.client.patch(CONTROL_PLANE_SNAPSHOT_SCHEDULE, key, {"metadata": {"labels": {"a": "b"}}})
        return status.next_schedule_time is not None

    await on.until(has_last, 20)


async def test_a_schedule_creates_what_is_due_and_deletes_what_is_too_many_with_its_file(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        body = {"name": "a-former", "namespace": "default", "labels": {SCHEDULE_LABEL: "hourly"}}
        spec = {"controlPlaneName": "demo", "deletionPolicy": "Delete"}
        await on.client.create(CONTROL_PLANE_SNAPSHOT, {"metadata": body, "spec": spec})
        await is_ready(on, CONTROL_PLANE_SNAPSHOT, "a-former")
        await schedule(on, keep=1)

        async def one_new() -> bool:
            found = await on.client.list(CONTROL_PLANE_SNAPSHOT, "default")
            return len(found) == 1 and found[0].name.startswith("hourly-") and found[0].status.ready

        await on.until(one_new, 20)
        (file,) = files(tmp_path)
        assert file.name.startswith("hourly-")


async def test_the_role_of_the_controllers_is_enough_for_snapshots_and_restores_and_little_else(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await take(on)
        await restore(on)
        await is_ready(on, CONTROL_PLANE_RESTORE, "back")
        await schedule(on, keep=1)

        async def replaced() -> bool:
            (_, *more) = await on.client.list(CONTROL_PLANE_SNAPSHOT, "default")
            return any(each.status.ready for each in more)

        await on.until(replaced, 20)
        first = {"metadata": {"labels": {SCHEDULE_LABEL: "hourly"}}}
        await on.client.patch(CONTROL_PLANE_SNAPSHOT, Key("default", "first"), first)
        await on.client.delete(CONTROL_PLANE_RESTORE, Key("default", "back"))

        async def gone() -> bool:
            there = [
                await on.get(CONTROL_PLANE_SNAPSHOT, "first"),
                await on.get(CONTROL_PLANE_RESTORE, "back"),
            ]
            return there == [None, None]

        await on.until(gone, 20)
        grants = granted(manifests.manifest())
        assert missing(on.log.needs, grants) == []
        names = ("controlplanesnapshot", "controlplanerestore")
        writes = [each for each in grants if each.verb not in ("get", "list", "watch")]
        ours = [each for each in writes if each.resource.startswith(names)]
        assert [str(each) for each in unused(on.log.needs, ours)] == []


async def test_a_file_goes_with_its_object_where_the_object_says_so(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await take(on, "kept")
        await take(on, "let-go", deletionPolicy="Delete", location={"folder": "some/where"})
        assert len(files(tmp_path)) == 2
        for name in ("kept", "let-go"):
            await on.client.delete(CONTROL_PLANE_SNAPSHOT, Key("default", name))

        async def gone() -> bool:
            return not await on.client.list(CONTROL_PLANE_SNAPSHOT, "default")

        await on.until(gone, 20)
        (left,) = files(tmp_path)
        assert left.name.startswith("kept-")
        assert not (tmp_path / "snapshots" / "some" / "where" / "default").exists()


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"controlPlaneName": "none"}, "there is no NestedControlPlane none"),
        ({"controlPlaneName": "demo", "location": {"folder": "../up"}}, "spec.location.folder"),
        (
            {"controlPlaneName": "demo", "location": {"bucket": {"bucket": "b", "secretName": "none"}}},
            "there is no Secret none for bucket b",
        ),
    ],
    ids=["no control plane", "a folder that is elsewhere", "a bucket without credentials"],
)
async def test_why_a_snapshot_is_not_taken_is_told(tmp_path, spec, told):
    async with stage(folder=tmp_path) as on:
        await create(on)
        await on.apply(CONTROL_PLANE_SNAPSHOT, "first", spec)
        await says(on, CONTROL_PLANE_SNAPSHOT, "first", told)


async def test_what_a_killed_process_left_on_its_way_goes_at_the_next_start_and_files_stay(tmp_path):
    for name in ("kubewright-abc", "default"):
        folder = tmp_path / "snapshots" / name
        folder.mkdir(parents=True)
        (folder / "file").write_text("content")
    async with Embedded(ServerConfig(tmp_path), Options(), SystemClock()):
        assert [each.name for each in files(tmp_path)] == ["file"]
        assert not (tmp_path / "snapshots" / "kubewright-abc").exists()


async def test_two_restores_of_one_control_plane_come_one_after_the_other(tmp_path):
    async with stage(folder=tmp_path) as on:
        await create(on)
        for value in ("one", "two"):
            await write(on, value)
            await take(on, value)
        await asyncio.gather(restore(on, "one", "to-one"), restore(on, "two", "to-two"))
        for name in ("to-one", "to-two"):
            await is_ready(on, CONTROL_PLANE_RESTORE, name)
        replaced = {
            (await on.status(CONTROL_PLANE_RESTORE, f"to-{value}")).replaced_at: value
            for value in ("one", "two")
        }
        assert await read(on) == replaced[max(replaced)]
