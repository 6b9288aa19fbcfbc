"""Volumes without a VolumeAttachment: the driver says their ids, and the node's status whether they are attached."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from kubewright.driver.errors import Code, DriverError
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.nodes.drain.policy import DrainPolicy
from kubewright.nodes.drain.session import DrainSession, VolumeIds
from kubewright.nodes.drain.volumes import Attached, is_listed, without_attachment
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import ApiError, Forbidden, NotFound, ServerError, to_status
from kubewright.wire.http import Request, Response

NOW, MINUTE = datetime(2030, 1, 1, tzinfo=UTC), timedelta(minutes=1)
DISK = {"awsElasticBlockStore": {"volumeID": "aws://eu-west-1a/vol-1"}}
ON_NODE = "kubernetes.io/aws-ebs/aws://eu-west-1a/vol-1"
ANOTHER = "kubernetes.io/aws-ebs/aws://eu-west-1a/vol-12"


NAMES = [
    ("an id after the name of a plugin", ["vol-1"], [ON_NODE], True),
    ("an id with slashes", ["aws://eu-west-1a/vol-1"], [ON_NODE], True),
    ("an id that follows a caret", ["vol-1"], ["example.com/disk^vol-1"], True),
    ("a name that is just the id", ["vol-1"], ["vol-1"], True),
    ("a longer id is another volume", ["vol-1"], [ANOTHER], False),
    ("the end of an id is not the id", ["1"], [ON_NODE], False),
    ("a dot in an id is a dot", ["vol.1"], ["kubernetes.io/gce-pd/volx1"], False),
    ("one of two ids", ["vol-9", "vol-1"], [ANOTHER, ON_NODE], True),
    ("no id", [], [ON_NODE], False),
    ("nothing is attached", ["vol-1"], [], False),
]


@pytest.mark.parametrize(("ids", "names", "found"), [c[1:] for c in NAMES], ids=[c[0] for c in NAMES])
def test_whether_a_node_lists_a_volume(ids, names, found):
    assert is_listed(ids, names) is found


def test_volumes_of_csi_drivers_have_attachments_that_say_more():
    assert without_attachment(["kubernetes.io/csi/csi.sim^vol-1", ON_NODE]) == (ON_NODE,)


class Server:
    """A node with one pod, whose claim ``data`` has the volume ``pv-1``; counts the reads of volumes."""

    def __init__(self, volume: dict | ApiError = DISK) -> None:
        self.volume = volume
        self.reads = 0
        self.pods = 1
        self.pod = POD_A

    async def handle(self, request: Request) -> Response:
        if request.path.endswith("/pods"):
            listed = {"kind": "PodList", "metadata": {"resourceVersion": "1"}}
            return _ok({**listed, "items": [self.pod][: self.pods]})
        if "persistentvolumeclaims" in request.path:
            return _ok({"metadata": {"name": "data"}, "spec": {"volumeName": "pv-1"}})
        assert request.path == "/api/v1/persistentvolumes/pv-1"
        self.reads += 1
        if isinstance(self.volume, ApiError):
            return Response(self.volume.code, json.dumps(to_status(self.volume)).encode())
        return _ok({"metadata": {"name": "pv-1"}, "spec": self.volume})


class ManyVolumes(Server):
    """The same with a pod that has so many claims, each with its volume."""

    def __init__(self, count: int) -> None:
        super().__init__()
        volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(count)]
        self.pod = {**POD_A, "spec": {"volumes": volumes}}

    async def handle(self, request: Request) -> Response:
        name = request.path.rpartition("/")[2]
        if "persistentvolumeclaims" in request.path:
            return _ok({"metadata": {"name": name}, "spec": {"volumeName": f"pv-{name}"}})
        if "persistentvolumes" in request.path:
            return _ok({"metadata": {"name": name}, "spec": DISK})
        return await super().handle(request)


def _ok(body: dict) -> Response:
    return Response(200, json.dumps({"apiVersion": "v1", **body}).encode())


POD_A = {
    "metadata": {"name": "a", "namespace": "default", "uid": "uid-a"},
    "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
}


async def vol_1(_volume):
    return ["vol-1"]


class Drain:
    """Looks at a node, one after another. A volume is awaited when its pod is gone."""

    def __init__(self, server: Server, ids: VolumeIds | None) -> None:
        self.server, self.ids = server, ids
        self.session, self.client = DrainSession(), Client(InProcess(server.handle), LoopClock())

    async def look(self, *listed: str, here=()) -> list[str]:
        """The volumes that are awaited, on a node that lists these and has attachments of others."""
        plan = await self.session.look(
            self.client,
            "n",
            DrainPolicy(detach_timeout=MINUTE, reattach_timeout=MINUTE),
            now=NOW,
            started=NOW,
            attached=Attached(frozenset(here), listed=listed),
            volume_ids=self.ids,
        )
        return [str(trip) for trip in plan.moving.detaching + plan.moving.arriving]

    async def after_its_pod(self, *listed: str, here=()) -> list[str]:
        assert await self.look(*listed, here=here) == []
        self.server.pods = 0
        return await self.look(*listed, here=here)


async def test_a_volume_that_the_node_lists_is_awaited_until_it_lists_it_no_more():
    drain = Drain(Server(), vol_1)
    assert await drain.after_its_pod(ON_NODE) == ["pv-1 of default/a"]
    assert await drain.look(ANOTHER) == []
    assert drain.server.reads == 1


async def test_the_driver_gets_the_volume_as_the_server_has_it():
    asked = []

    async def ids(volume):
        asked.append((volume.metadata.name, volume.spec))
        return ["vol-1"]

    assert await Drain(Server(), ids).after_its_pod(ON_NODE) == ["pv-1 of default/a"]
    assert asked == [("pv-1", DISK)]


async def fails(_volume):
    raise DriverError.of(Code.Internal, "a bug")


async def knows_none(_volume):
    return []


async def hangs(_volume):
    await asyncio.sleep(3600)
    return ["vol-1"]


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(fails, id="the driver fails"),
        pytest.param(hangs, id="the driver hangs"),
        pytest.param(knows_none, id="it is of another cloud"),
        pytest.param(None, id="there is no driver to ask"),
    ],
)
async def test_a_volume_without_an_id_is_not_awaited(ids):
    drain = Drain(Server(), ids)
    assert await drain.after_its_pod(ON_NODE) == []


async def test_a_driver_that_hangs_is_asked_once():
    drain = Drain(Server(), hangs)
    began = drain.client.clock.monotonic()
    await drain.look(ON_NODE)
    await drain.look(ON_NODE)
    assert drain.client.clock.monotonic() - began == pytest.approx(5.0)


@pytest.mark.parametrize(
    "volume",
    [
        pytest.param(NotFound("gone"), id="the volume is gone"),
        pytest.param(Forbidden("no role"), id="volumes may not be read"),
    ],
)
async def test_a_volume_that_cannot_be_read_is_not_awaited(volume):
    assert await Drain(Server(volume), vol_1).after_its_pod(ON_NODE) == []


async def test_a_server_that_fails_to_answer_is_asked_again():
    drain = Drain(Server(ServerError("etcd is away")), vol_1)
    with pytest.raises(ApiError, match="etcd is away"):
        await drain.look(ON_NODE)
    drain.server.volume = DISK
    assert await drain.after_its_pod(ON_NODE) == ["pv-1 of default/a"]


async def test_no_driver_is_asked_about_a_volume_with_an_attachment():
    drain = Drain(Server(), vol_1)
    assert await drain.after_its_pod(ANOTHER, here=["pv-1"]) == ["pv-1 of default/a"]
    assert drain.server.reads == 0


async def test_a_volume_of_a_csi_driver_is_awaited_on_the_other_node_also_beside_others():
    """Its attachment is gone, so the next pod waits until it is attached elsewhere; no driver is asked for it."""
    drain = Drain(Server({"csi": {"driver": "csi.sim", "volumeHandle": "vol-1"}}), vol_1)
    owner = {"kind": "StatefulSet", "name": "o", "uid": "o", "controller": True}
    drain.server.pod = {**POD_A, "metadata": {**POD_A["metadata"], "ownerReferences": [owner]}}
    assert await drain.look(ANOTHER, here=["pv-1"]) == []
    drain.server.pods = 0
    assert await drain.look(ANOTHER) == ["pv-1 of default/a"]


async def test_a_driver_that_hangs_holds_up_a_look_once_however_many_volumes_there_are():
    drain = Drain(ManyVolumes(25), hangs)
    began = drain.client.clock.monotonic()
    await drain.look(ON_NODE)
    assert drain.client.clock.monotonic() - began == pytest.approx(5.0)
