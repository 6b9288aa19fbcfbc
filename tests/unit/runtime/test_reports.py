"""Reports: a status is written when it says something new and not too often, and a problem is one event."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec
import pytest
from tests.unit.replicas.things import DEPLOYMENTS, T0, Condition, ThingDeployment, deployment

from kubewright.api.cluster.v1beta1 import Condition as CapiCondition
from kubewright.api.cluster.v1beta1 import MachineDeploymentStatus as ObservedStatus
from kubewright.api.core import NODE
from kubewright.base.delays import WORDS_SECONDS
from kubewright.kube import header as headers
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.replicas.objects import INVALID, REPLICA_FAILURE
from kubewright.replicas.set.seen import Failure, with_failure
from kubewright.runtime.events import Recorder
from kubewright.runtime.pace import STATUS_SECONDS, UNPACED, Pace
from kubewright.runtime.reports import Echoes, Reports
from kubewright.runtime.result import Result
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import NotFound, to_status
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

READ = deployment()
META = msgspec.structs.replace(READ.metadata, resource_version="7")
READ = msgspec.structs.replace(READ, metadata=META)
NEW = msgspec.structs.replace(READ.status, replicas=1)
NEWER = msgspec.structs.replace(READ.status, replicas=2)


class Server:
    """Answers every patch with this status code, after a while; keeps the bodies."""

    def __init__(self, answer: int = 200, refusal: object = None) -> None:
        self.answer, self.refusal = answer, msgspec.json.encode(refusal or {})
        self.bodies: list[dict[str, object]] = []
        self.during: Callable[[], None] = lambda: None

    async def handle(self, request: Request) -> Response:
        self.bodies.append(msgspec.json.decode(request.body))
        self.during()
        return Response(self.answer, DEPLOYMENTS.encode(READ) if self.answer == 200 else self.refusal)


def reports(server: Server, pace: Pace = UNPACED) -> tuple[Reports, Recorder]:
    client = Client(InProcess(server.handle), LoopClock())
    recorder = Recorder(client, LoopClock(), "things", kinds=[NODE])
    return Reports(client, DEPLOYMENTS, recorder.of("things"), pace), recorder


async def test_a_status_is_written_when_it_is_new_onto_what_was_read() -> None:
    server = Server()
    said, _ = reports(server)
    assert await said.write(META, READ.status, READ.status) == (False, Result.done())
    assert await said.write(META, READ.status, NEW) == (True, Result.done())
    meta = {"uid": "d-uid", "resourceVersion": "7"}
    assert server.bodies == [{"metadata": meta, "status": {"replicas": 1}}]


async def test_the_first_write_goes_out_at_once_and_the_others_are_spaced() -> None:
    server = Server()
    said, _ = reports(server)
    await said.write(META, READ.status, NEW)
    await asyncio.sleep(STATUS_SECONDS / 4)
    written, again = await said.write(META, NEW, NEWER)
    assert (written, again.after) == (False, pytest.approx(STATUS_SECONDS * 3 / 4))
    await asyncio.sleep(STATUS_SECONDS)
    assert await said.write(META, NEW, NEWER) == (True, Result.done())
    said.forget(READ_KEY)
    assert await said.write(META, NEWER, NEW) == (True, Result.done())


WAITS = CapiCondition(type="Ready", status="False", severity="Info", reason="A")


def rephrased(**changes: object) -> ObservedStatus:
    return ObservedStatus(conditions=(msgspec.structs.replace(WAITS, **changes),))


@pytest.mark.parametrize(
    ("after", "wait"),
    [
        pytest.param(rephrased(reason="B", message="m"), WORDS_SECONDS, id="another reason can wait"),
        pytest.param(rephrased(status="True"), STATUS_SECONDS, id="another status is news"),
        pytest.param(rephrased(severity="Error"), STATUS_SECONDS, id="so is a failure"),
        pytest.param(ObservedStatus(), STATUS_SECONDS, id="and a condition that is gone"),
        pytest.param(
            msgspec.structs.replace(rephrased(reason="B"), ready_replicas=1),
            STATUS_SECONDS,
            id="and a number",
        ),
    ],
)
async def test_where_conditions_repeat_what_others_wait_for_new_words_wait_longer(
    after: ObservedStatus, wait: float
) -> None:
    said, _ = reports(Server(), Pace(WORDS_SECONDS))
    await said.write(META, ObservedStatus(), rephrased())
    assert await said.write(META, rephrased(), after) == (False, Result.later(wait))
    await asyncio.sleep(wait)
    assert await said.write(META, rephrased(), after) == (True, Result.done())


async def test_what_is_underway_is_written_when_it_lasts_and_again_no_sooner() -> None:
    said, _ = reports(Server(), Pace(2.0, only_waiting=lambda _before, status: status.replicas < 3))
    assert await said.write(META, READ.status, NEW) == (False, Result.later(2.0))
    await asyncio.sleep(1.5)
    assert await said.write(META, READ.status, NEWER) == (False, Result.later(0.5))
    await asyncio.sleep(0.5)
    assert await said.write(META, READ.status, NEWER) == (True, Result.done())
    assert await said.write(META, NEWER, NEW) == (False, Result.later(2.0))
    await asyncio.sleep(STATUS_SECONDS)
    done = msgspec.structs.replace(READ.status, replicas=3)
    assert await said.write(META, NEWER, done) == (True, Result.done())


@pytest.mark.parametrize(
    ("others", "wait"),
    [
        pytest.param(9, 3.0, id="few objects wait: soon"),
        pytest.param(10, 15.0, id="more than ten wait: later"),
        pytest.param(199, 50.0, id="two hundred wait: later still"),
        pytest.param(5_000, 120.0, id="thousands wait: two minutes, and no later"),
    ],
)
async def test_the_more_objects_wait_the_longer_must_what_they_wait_for_last(
    others: int, wait: float
) -> None:
    said, _ = reports(Server(), Pace(WORDS_SECONDS, only_waiting=lambda _before, _status: True))
    for number in range(others):
        meta = msgspec.structs.replace(META, name=f"other-{number}")
        await said.write(meta, READ.status, NEW)
    assert await said.write(META, READ.status, NEW) == (False, Result.later(wait))


async def test_objects_about_which_nothing_is_done_do_not_delay_the_statuses_of_others() -> None:
    said, _ = reports(Server(), Pace(WORDS_SECONDS, only_waiting=lambda _before, _status: True))
    for number in range(5_000):
        meta = msgspec.structs.replace(META, name=f"other-{number}")
        await said.write(meta, READ.status, NEW)
        said.rest(Key("ns", f"other-{number}"))
    assert await said.write(META, READ.status, NEW) == (False, Result.later(3.0))


async def test_what_is_taken_back_before_it_was_written_did_not_last() -> None:
    said, _ = reports(Server(), Pace(2.0, only_waiting=lambda _before, _status: True))
    await said.write(META, READ.status, NEW)
    await asyncio.sleep(1.5)
    await said.write(META, READ.status, READ.status)
    assert await said.write(META, READ.status, NEW) == (False, Result.later(2.0))


async def test_news_that_comes_in_parts_is_one_write() -> None:
    said, _ = reports(Server(), Pace(steady_for=0.25))
    assert await said.write(META, READ.status, NEW) == (False, Result.later(0.25))
    await asyncio.sleep(0.25)
    assert await said.write(META, READ.status, NEWER) == (True, Result.done())


async def test_news_comes_in_parts_also_after_a_long_wait() -> None:
    said, _ = reports(Server(), Pace(2.0, 0.25, only_waiting=lambda _before, status: status.replicas < 2))
    await said.write(META, READ.status, NEW)
    await asyncio.sleep(1.9)
    assert await said.write(META, READ.status, NEWER) == (False, Result.later(0.25))
    await asyncio.sleep(0.25)
    assert await said.write(META, READ.status, NEWER) == (True, Result.done())


async def test_what_waits_is_written_in_time_although_it_was_news_in_between() -> None:
    said, _ = reports(Server(), Pace(2.0, 0.25, only_waiting=lambda _before, status: status.replicas < 2))
    for wait, status in ((1.8, NEW), (0.1, NEWER), (0.1, NEW)):
        assert (await said.write(META, READ.status, status))[0] is False
        await asyncio.sleep(wait)
    assert await said.write(META, READ.status, NEW) == (True, Result.done())


async def test_a_status_of_what_is_gone_is_not_written() -> None:
    server = Server(404, to_status(NotFound("it is gone", details={"name": READ_KEY.name})))
    said, _ = reports(server)
    assert await said.write(META, READ.status, NEW) == (False, Result.done())


async def test_a_404_that_names_no_object_is_raised_so_that_the_status_is_written_later() -> None:
    server = Server(404)
    said, _ = reports(server)
    with pytest.raises(NotFound):
        await said.write(META, READ.status, NEW)


async def test_a_write_that_was_refused_does_not_count() -> None:
    server = Server(404)
    said, _ = reports(server)
    with suppress(NotFound):
        await said.write(META, READ.status, NEW)
    server.answer = 200
    assert await said.write(META, READ.status, NEW) == (True, Result.done())


async def test_the_status_that_is_being_written_wakes_no_pass_and_other_changes_do() -> None:
    server = Server()
    said, _ = reports(server)
    relabelled = msgspec.structs.replace(READ, metadata=msgspec.structs.replace(META, annotations={"a": "b"}))
    found: list[list[object]] = []
    server.during = lambda: found.extend(
        list(said.matters(change(READ, after)))
        for after in (msgspec.structs.replace(READ, status=NEW), relabelled)
    )
    await said.write(META, READ.status, NEW)
    assert found == [[], [READ_KEY]]
    assert list(said.matters(change(READ, msgspec.structs.replace(READ, status=NEW)))) == [READ_KEY]


async def test_what_another_client_writes_meanwhile_is_looked_at() -> None:
    server = Server()
    said, _ = reports(server)
    theirs = msgspec.structs.replace(
        READ, metadata=msgspec.structs.replace(META, resource_version="8"), status=NEWER
    )
    server.during = lambda: found.extend(said.matters(change(READ, theirs)))
    found: list[object] = []
    assert await said.write(META, READ.status, NEW) == (True, Result.later(0))
    assert found == []


def change(before: ThingDeployment, after: ThingDeployment) -> Change[ThingDeployment]:
    old, new = (headers.read(DEPLOYMENTS.encode(each)) for each in (before, after))
    return Change(old.key, old, new, lambda header: DEPLOYMENTS.decode(header.data))


READ_KEY = change(READ, READ).key


async def test_a_problem_is_one_event_until_it_is_another() -> None:
    server = Server()
    said, recorder = reports(server)
    task = asyncio.create_task(recorder.run())
    for problem in ("wrong", "wrong", "worse", "", "wrong"):
        said.report_problem(READ, "InvalidSpec", problem)
        await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [body["count"] for body in server.bodies] == [1, 1, 2]  # the first one is told once more


OTHER, LATER = Condition(type="Mine", status="True"), T0 + timedelta(hours=1)


def failed(reason: str, message: str, since: datetime = T0) -> Condition:
    return Condition(
        type=REPLICA_FAILURE, status="True", last_transition_time=since, reason=reason, message=message
    )


@pytest.mark.parametrize(
    ("before", "failure", "after"),
    [
        pytest.param((), None, (), id="no failure, no condition"),
        pytest.param(
            (OTHER,),
            ("FailedCreate", "one"),
            (OTHER, failed("FailedCreate", "one", LATER)),
            id="a first failure",
        ),
        pytest.param(
            (failed("FailedCreate", "one"), OTHER),
            ("FailedCreate", "two"),
            (failed("FailedCreate", "one"), OTHER),
            id="other words for the same reason are not written",
        ),
        pytest.param(
            (failed("FailedCreate", "one"), OTHER),
            ("FailedDelete", "two"),
            (failed("FailedDelete", "two"), OTHER),
            id="another reason is written, and its status is as old as before",
        ),
        pytest.param(
            (failed(INVALID, "one"),),
            (INVALID, "two"),
            (failed(INVALID, "two"),),
            id="what is wrong with a spec is told anew",
        ),
        pytest.param((failed("FailedCreate", "one"), OTHER), None, (OTHER,), id="it is over"),
    ],
)
def test_the_condition_of_a_failure(before, failure, after) -> None:
    assert with_failure(before, Failure(*failure) if failure else None, Condition, LATER) == after


@pytest.mark.parametrize(
    ("changes", "known", "wakes"),
    [
        pytest.param(1, True, [], id="its own writes"),
        pytest.param(2, False, ["a"], id="more than its own writes"),
        pytest.param(0, False, [], id="a pass that failed before it wrote"),
    ],
)
def test_what_a_pass_holds_back_calls_for_one_pass_if_it_did_not_write_all_of_it(
    changes: int, known: bool, wakes: list[str]
) -> None:
    woken: list[str] = []
    echoes = Echoes(lambda key, _why: woken.append(key.name))
    key, other = Key("", "a"), Key("", "b")
    change: Change[object] = Change(key, None, None, lambda _header: None)
    to_keys = echoes.but_own(lambda _change: (key, other))
    echoes.begin(key)
    for _ in range(changes):
        assert list(to_keys(change)) == [other]
    echoes.end(key, known=known)
    assert woken == wakes
    assert list(to_keys(change)) == [key, other]
