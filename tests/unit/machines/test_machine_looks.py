"""What a look at a machine reads live, and what it notes of that."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from kubewright.api.core import NODE
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.driver.life.seen import NOTHING, VmSeen
from kubewright.kube.client import Client
from kubewright.kube.informers import Informers
from kubewright.kube.inprocess import InProcess
from kubewright.machines.machine.caches import Caches, LookDeps
from kubewright.machines.machine.look import Looker
from kubewright.machines.machine.moments import Moments
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.settings import MachineSettings
from kubewright.machines.machine.unanswered import Read
from kubewright.testing.clocks import ManualClock
from kubewright.testing.scenes import NOW, SILENT, machine, minutes, node
from kubewright.wire.errors import Unavailable
from kubewright.wire.http import Request, Response


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
        self.looker = Looker(deps, NoCalls(), Moments(client.steady()))

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
    assert (await eyes.look(10, Response(404))).unread is None
    with pytest.raises(Unavailable):
        await eyes.look(40, BROKEN)


async def test_a_node_that_only_live_reads_show_is_as_old_in_each_pass() -> None:
    eyes = Eyes(preserved())
    first = (await eyes.look(0, SHOWN)).begun
    later = (await eyes.look(60, SHOWN)).begun
    assert (later.node_since, later.update_since) == (first.node_since, first.update_since)
