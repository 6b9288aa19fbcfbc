"""What a look at a machine reads live, and what it notes of that."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import json, structs

from kubewright.api.core import NODE
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.api.storage import VOLUME_ATTACHMENT, VolumeAttachment, VolumeAttachmentStatus
from kubewright.driver.contract import VolumeSpec
from kubewright.driver.life.seen import NOTHING, Verb, VmSeen
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.header import read
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.machines.caches import Caches, LookDeps, shared_of
from kubewright.machines.machine.decide import refusal_of
from kubewright.machines.machine.look import Looker
from kubewright.machines.machine.memory import Memory, Moments, Read
from kubewright.machines.machine.seen import Seen
from kubewright.machines.settings import MachineSettings
from kubewright.runtime.lease import Shard
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.testing.clocks import ManualClock
from kubewright.testing.looks import Named, Shelf
from kubewright.testing.scenes import ENSURED, NOW, SILENT, called, machine, minutes, node
from kubewright.wire.errors import Forbidden, NotFound, Unavailable, to_status
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

from ..looks.of_machines import ALONE, Machines, named


class NoCalls:
    """The driver has not been called."""

    def seen(self, uid: str) -> VmSeen:
        return NOTHING

    def doubt_until(
        self,
        uid: str,
        *,
        created: datetime | None,
        recorded: bool,
        confirm_absent: timedelta,
        witnessed: datetime | None = None,
    ) -> datetime | None:
        return None


class Eyes:
    """A looker whose caches have no node, and a target cluster that answers reads of it with ``answer``."""

    def __init__(self, found: Machine) -> None:
        self.machine = found
        self.answer = Response(404)
        self.clock = ManualClock()
        client = Client(InProcess(self._answer), self.clock)
        informers = Informers(client)
        caches = Caches(informers, informers, MachineSettings())
        caches.nodes.visibility.gained(0)
        deps = LookDeps(target=client, caches=caches, clock=self.clock, settings=MachineSettings())
        self.looker = Looker(
            deps, NoCalls(), Memory(Moments(client.steady()), deps.settings.unreachable_after)
        )

    async def look(self, at: float, answer: Response) -> Seen:
        self.clock.passed, self.answer = at, answer
        return await self.looker.look(self.machine, busy=False)

    async def _answer(self, _request: Request) -> Response:
        return self.answer


def preserved() -> Machine:
    """A machine that the annotation of its node preserves."""
    of = machine("Unknown")
    asked = {**of.metadata.annotations, names.LAST_APPLIED_PRESERVE_ANNOTATION: "now"}
    current = structs.replace(of.status.current_status, preserve_expiry_time=NOW + minutes(999))
    return structs.replace(
        of,
        metadata=structs.replace(of.metadata, annotations=asked),
        status=structs.replace(of.status, current_status=current),
    )


SHOWN, BROKEN = Response(200, body=NODE.encode(node(SILENT))), Response(503)
MISSING = Response(404, body=json.encode(to_status(NotFound("it is gone", details={"name": "m1"}))))


async def test_a_node_that_was_read_live_ends_the_silence_about_it() -> None:
    eyes = Eyes(preserved())
    with pytest.raises(Unavailable):
        await eyes.look(0, BROKEN)
    assert (await eyes.look(10, SHOWN)).node is not None
    with pytest.raises(Unavailable):
        await eyes.look(40, BROKEN)
    unread = (await eyes.look(75, BROKEN)).unread
    assert unread is not None
    assert unread.unanswered


async def test_the_live_read_before_a_machine_fails_ends_it_too() -> None:
    eyes = Eyes(machine("Unknown"))
    seen = await eyes.look(0, BROKEN)
    assert not eyes.looker.note_failure(eyes.machine, Read.NODE)
    eyes.answer = SHOWN
    assert (await eyes.looker.with_live_node(seen)).node is not None
    eyes.clock.passed = 40
    assert not eyes.looker.note_failure(eyes.machine, Read.NODE)


async def test_that_the_node_is_not_there_is_an_answer_too() -> None:
    eyes = Eyes(preserved())
    with pytest.raises(Unavailable):
        await eyes.look(0, BROKEN)
    assert (await eyes.look(10, MISSING)).unread is None
    with pytest.raises(Unavailable):
        await eyes.look(40, BROKEN)


async def test_a_404_that_names_no_node_is_no_answer() -> None:
    eyes = Eyes(preserved())
    with pytest.raises(NotFound):
        await eyes.look(0, Response(404))
    unread = (await eyes.look(35, Response(404))).unread
    assert unread is not None
    assert unread.unanswered


async def test_a_node_that_only_live_reads_show_is_as_old_in_each_pass() -> None:
    eyes = Eyes(preserved())
    first = (await eyes.look(0, SHOWN)).begun
    later = (await eyes.look(60, SHOWN)).begun
    assert (later.node_since, later.update_since) == (first.node_since, first.update_since)


def attachment(name: str, volume: str, at: str, **more: Any) -> VolumeAttachment:
    source = {"persistentVolumeName": volume} if volume else {}
    meta = {"name": name, "uid": name, "finalizers": ["csi"], **more}
    return VOLUME_ATTACHMENT.from_plain({"metadata": meta, "spec": {"nodeName": at, "source": source}})


def attached(of: VolumeAttachment) -> VolumeAttachment:
    return structs.replace(of, status=VolumeAttachmentStatus(attached=True))


async def test_a_volume_is_on_its_node_until_its_attachment_is_gone_and_elsewhere_once_it_is_attached() -> (
    None
):
    """One that is being detached is still on its node: the next pod with volumes waits for it."""
    shelf = Shelf()
    caches = Caches(shelf.caches, shelf.caches, MachineSettings())
    going = attachment("b", "pv-b", "m1", deletionTimestamp="2030-01-01T00:00:00Z")
    asked_for, arrived = attachment("c", "pv-c", "m2"), attached(attachment("d", "pv-d", "m2"))
    inline = attachment("e", "", "m1")
    await shelf.put(
        VOLUME_ATTACHMENT, attached(attachment("a", "pv-a", "m1")), going, asked_for, arrived, inline
    )
    found = caches.volumes_of(node())
    assert found.here == {"pv-a", "pv-b"}
    assert [found.elsewhere(f"pv-{each}") for each in "abcd"] == [False, False, False, True]
    assert found.listed == ()


async def test_volumes_without_attachments_are_those_that_the_node_lists() -> None:
    of = NODE.from_plain(
        {
            "metadata": {"name": "m1"},
            "status": {
                "volumesAttached": [{"name": "kubernetes.io/csi/d^v"}, {"name": "kubernetes.io/aws-ebs/vol"}]
            },
        }
    )
    shelf = Shelf()
    assert Caches(shelf.caches, shelf.caches, MachineSettings()).volumes_of(of).listed == (
        "kubernetes.io/aws-ebs/vol",
    )


@pytest.mark.parametrize("one_clock", [False, True])
async def test_a_doubt_is_asked_for_with_what_the_server_and_this_process_saw(one_clock: bool) -> None:
    machines = Machines(one_clock=one_clock)
    machines.in_caches.machines.subscribe(lambda change: machines.moments.on_change(change, live=True))
    of = machine("", vm=False)
    await machines.put(MACHINE, of)
    await machines.look(of)
    assert machines.calls.asked == [
        {
            "created": of.metadata.creation_timestamp,
            "recorded": False,
            "confirm_absent": MachineSettings().confirm_absent,
            "witnessed": NOW if one_clock else None,
        }
    ]


READS_NODE = "GET /api/v1/nodes/m1"


async def test_the_node_is_read_once_before_its_vm_goes_and_once_after() -> None:
    machines, of = Machines(), machine("Terminating", deleted=minutes(1))
    for _ in range(2):
        assert (await machines.look(of)).node is None
    assert machines.asked == [READS_NODE]
    machines.calls.vm = called(Verb.DELETE)
    for _ in range(2):
        await machines.look(of)
    assert machines.asked == [READS_NODE] * 2


async def test_a_node_that_only_the_server_shows_is_read_again_at_each_look() -> None:
    machines, of = Machines(), machine("Terminating", deleted=minutes(1))
    machines.lay(NODE, node())
    for _ in range(2):
        assert (await machines.look(of)).node == Named("m1")
    assert machines.asked == [READS_NODE] * 2


async def test_while_its_vm_is_being_deleted_no_node_is_read() -> None:
    machines, of = Machines(), machine("Terminating", deleted=minutes(1))
    machines.calls.vm = VmSeen(verb=Verb.DELETE, began=NOW)
    await machines.look(of)
    assert machines.asked == []


async def test_a_machine_without_a_node_name_has_no_node_to_read() -> None:
    machines = Machines()
    await machines.look(machine("Terminating", vm=False, deleted=minutes(1)))
    assert machines.asked == []


async def test_of_a_machine_that_is_gone_nothing_is_kept() -> None:
    machines, of = Machines(), machine("Terminating", deleted=minutes(1))
    machines.moments.on_change(
        Change(Key("default", "m1"), None, read(MACHINE.encode(of)), lambda _: of), live=True
    )
    before = machines.looker.notes(of, None)
    machines.memory.refuse(of.metadata.uid, refusal_of(None, Forbidden("no"), NOW))
    machines.memory.forget(of.metadata.uid)
    seen = await machines.look(of)
    assert machines.looker.notes(of, None) is not before
    assert (seen.refused, seen.begun.created) == ((), None)


async def test_another_machines_notes_stay_when_one_is_forgotten() -> None:
    machines, of = Machines(), machine("Terminating", deleted=minutes(1))
    before = machines.looker.notes(of, None)
    machines.memory.refuse(of.metadata.uid, refusal_of(None, Forbidden("no"), NOW))
    machines.memory.forget("another")
    assert machines.looker.notes(of, None) is before
    assert len((await machines.look(of)).refused) == 1


async def test_notes_on_the_living_are_kept_only_while_something_goes_on() -> None:
    machines, of = Machines(), machine("Running")
    assert machines.looker.notes(of, None) is not machines.looker.notes(of, None)
    kept = machines.looker.notes(of, None, keep=True)
    assert machines.looker.notes(of, None, keep=True) is kept
    assert machines.looker.notes(of, None) is kept  # for the last time
    assert machines.looker.notes(of, None) is not kept
    asked_for = preserved()
    assert machines.looker.notes(asked_for, None) is machines.looker.notes(asked_for, None)


async def test_a_vm_that_the_driver_told_of_two_machines_is_the_first_ones() -> None:
    """Recorded for both, it would be deleted with the first of them."""
    machines = Machines()
    machines.calls.vm = ENSURED
    first, second = (named(machine("", vm=False), name) for name in ("m1", "m2"))
    assert (await machines.look(first)).vm == ENSURED
    assert (await machines.look(second)).vm.instance is None
    machines.memory.forget(first.metadata.uid)
    assert (await machines.look(second)).vm == ENSURED


async def test_machines_are_looked_at_on_one_server_and_nodes_on_the_other() -> None:
    control, target = Shelf(), Shelf()
    control.client.one_clock = True
    driver = Volumes()
    environment = SimpleNamespace(
        control=Session(control.client, control.caches),
        targets=Fixed(Session(target.client, target.caches)),
        recorder="recorder",
        clock=control.clock,
        metrics="metrics",
        shard=Shard(1, 2),
    )
    shared = shared_of(environment, driver, ALONE)
    assert (shared.control, shared.target) == (control.client, target.client)
    assert (shared.recorder, shared.metrics, shared.shard) == ("recorder", "metrics", Shard(1, 2))
    assert (shared.clock, shared.settings, shared.driver) == (control.clock, ALONE, driver)
    assert shared.one_clock
    await target.put(NODE, node())
    await control.put(MACHINE, machine("Running"))
    assert shared.caches.nodes.get(Key("", "m1")) == Named("m1")
    assert shared.caches.machines.get(Key("default", "m1")) == Named("m1")
    volume = SimpleNamespace(name="pv", spec={"csi": {}})
    assert shared.volume_ids is not None
    assert await shared.volume_ids(volume) == [VolumeSpec("pv", {"csi": {}})]
    assert shared.console is not None
    assert await shared.console("m1") == "console of m1"
    assert shared.hot_fields is not None
    assert shared.hot_fields("small") == ["field of small"]


class Volumes:
    """A driver that answers the volumes that it is asked for, and whose console ends so."""

    async def console(self, request: Any) -> Any:
        return f"console of {request}"

    async def volume_ids(self, volumes: Any) -> Any:
        return volumes

    def hot_fields(self, machine_class: Any) -> Any:
        return [f"field of {machine_class}"]

    def migrated_kinds(self) -> Any:
        return ()
