"""Events: what is written, what is counted up, what is dropped, and that no reconciliation waits for it."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from kubewright.api.core import NODE, Node
from kubewright.api.meta import ObjectMeta
from kubewright.kube.client import Client
from kubewright.kube.errors import ConnectFailed
from kubewright.kube.transport import InProcess
from kubewright.runtime.events import PENDING, Recorder
from kubewright.testing.clocks import LoopClock
from kubewright.wire.http import Response

SET = {
    "apiVersion": "machine.sapcloud.io/v1alpha1",
    "kind": "MachineSet",
    "metadata": {"name": "ms", "namespace": "ns", "uid": "u1"},
}


class Server:
    """Keeps events by path. ``troubles`` are status codes to answer first; of so many Events that it takes the
    answer is lost.
    """

    def __init__(self):
        self.events, self.requests, self.troubles, self.delay, self.losses = {}, [], [], 0.0, 0

    async def handle(self, request):
        body = msgspec.json.decode(request.body)
        self.requests.append((request.method, body))
        await asyncio.sleep(self.delay)
        if self.troubles:
            return Response(self.troubles.pop(0))
        if request.method == "POST":
            path = f"{request.path}/{body['metadata']['name']}"
            if path in self.events:
                return Response(409, b'{"kind": "Status", "reason": "AlreadyExists", "code": 409}')
            self.events[path] = body
            if self.losses:
                self.losses -= 1
                raise ConnectFailed("the answer was lost")
            return Response(201, msgspec.json.encode(body))
        if request.path not in self.events:
            return Response(404)
        self.events[request.path] |= body
        return Response(200, msgspec.json.encode(self.events[request.path]))

    @property
    def counted(self):
        return [(event["message"], event["count"]) for event in self.events.values()]


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def recorder(server):
    clock = LoopClock()
    return Recorder(Client(InProcess(server.handle), clock), clock, "machineset-controller", kinds=[NODE])


@asynccontextmanager
async def running(recorder):
    task = asyncio.create_task(recorder.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_event_says_who_what_and_when(server, recorder):
    async with running(recorder):
        recorder.event(SET, "SuccessfulCreate", "Created machine: m1")
        await asyncio.sleep(1)
    (event,) = server.events.values()
    assert event["involvedObject"] == {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineSet",
        "name": "ms",
        "namespace": "ns",
        "uid": "u1",
    }
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"].startswith("ms.")
    assert event["source"] == {"component": "machineset-controller"}
    assert (event["reason"], event["type"], event["count"]) == ("SuccessfulCreate", "Normal", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2030-01-01T00:00:00Z"


async def test_objects_without_a_kind_get_that_of_their_type(server, recorder):
    async with running(recorder):
        recorder.event(Node(metadata=ObjectMeta(name="n1", uid="u2")), "Gone", "gone", warning=True)
        await asyncio.sleep(1)
    (event,) = server.events.values()
    assert (event["involvedObject"]["kind"], event["involvedObject"]["apiVersion"]) == ("Node", "v1")
    assert event["metadata"]["namespace"] == "default"
    assert event["type"] == "Warning"


async def test_a_repetition_is_counted_up(server, recorder):
    async with running(recorder):
        for _ in range(3):
            recorder.event(SET, "FailedCreate", "quota exceeded", warning=True)
            await asyncio.sleep(1)
    assert server.counted == [("quota exceeded", 3)]
    assert [method for method, _ in server.requests] == ["POST", "PATCH", "PATCH"]


async def test_repetitions_that_wait_become_one_request(server, recorder):
    async with running(recorder):
        for _ in range(20):
            recorder.event(SET, "FailedCreate", "quota exceeded")
        await asyncio.sleep(1)
    assert server.counted == [("quota exceeded", 20)]
    assert len(server.requests) == 1


async def test_an_event_that_expired_is_made_anew(server, recorder):
    async with running(recorder):
        recorder.event(SET, "A", "a")
        await asyncio.sleep(1)
        server.events.clear()
        recorder.event(SET, "A", "a")
        await asyncio.sleep(1)
    assert server.counted == [("a", 1)]


async def test_many_messages_for_one_reason_are_combined(server, recorder):
    async with running(recorder):
        for number in range(14):
            recorder.event(SET, "SuccessfulCreate", f"Created machine: m{number}")
            await asyncio.sleep(1)
    messages = [message for message, _ in server.counted]
    assert messages[:10] == [f"Created machine: m{number}" for number in range(10)]
    assert messages[10] == "(combined from similar events): Created machine: m10"


async def test_an_object_with_too_many_events_gets_no_more_for_a_while(server, recorder):
    async with running(recorder):
        for _ in range(40):
            recorder.event(SET, "A", "a")
            await asyncio.sleep(0.1)
        assert server.counted == [("a", 25)]
        assert recorder.statistics().dropped == 15
        await asyncio.sleep(300)
        recorder.event(SET, "A", "a")
        await asyncio.sleep(1)
    assert server.counted == [("a", 26)]


async def test_a_server_in_trouble_is_asked_again(server, recorder):
    server.troubles = [500, 503]
    async with running(recorder):
        recorder.event(SET, "A", "a")
        await asyncio.sleep(10)
    assert server.counted == [("a", 1)]


async def test_an_event_whose_answer_was_lost_is_not_written_twice(server, recorder):
    server.losses = 1
    async with running(recorder):
        recorder.event(SET, "A", "a")
        await asyncio.sleep(10)
        recorder.event(SET, "A", "a")
        await asyncio.sleep(1)
    assert server.counted == [("a", 2)]
    assert (recorder.statistics().written, recorder.statistics().dropped) == (2, 0)


async def test_all_repetitions_of_what_is_dropped_are_counted(server, recorder):
    server.troubles = [403]
    async with running(recorder):
        for _ in range(3):
            recorder.event(SET, "A", "a")
        await asyncio.sleep(1)
    assert recorder.statistics().dropped == 3


async def test_what_is_under_way_at_the_end_is_sent_again_or_counted(server, recorder):
    server.delay = 1e6
    async with running(recorder):
        for _ in range(3):
            recorder.event(SET, "A", "a")
        recorder.event(SET, "B", "b")
        await asyncio.sleep(1)
    assert (recorder.statistics().dropped, recorder.statistics().waiting) == (4, 0)


async def test_what_is_under_way_when_a_recorder_ends_reaches_a_server_that_answers_again(server, recorder):
    server.delay = 1e6
    async with running(recorder):
        recorder.event(SET, "A", "a")
        await asyncio.sleep(1)
        server.delay = 0.0
    assert server.counted == [("a", 1)]


async def test_a_refusal_is_final(server, recorder):
    server.troubles = [403]
    async with running(recorder):
        recorder.event(SET, "A", "a")
        await asyncio.sleep(10)
    assert len(server.requests) == 1
    assert recorder.statistics().dropped == 1


async def test_no_caller_waits_for_a_dead_server_and_the_queue_is_bounded(server, recorder):
    server.delay = 1e6
    async with running(recorder):
        for number in range(PENDING + 50):
            recorder.event({**SET, "metadata": {"name": f"ms{number}", "uid": str(number)}}, "A", "a")
        statistics = recorder.statistics()
    assert (statistics.waiting, statistics.dropped) == (PENDING, 50)


async def test_a_warning_takes_the_place_of_something_normal_that_waits(server, recorder):
    server.delay = 5.0
    async with running(recorder):
        recorder.event(SET, "A", "first")
        await asyncio.sleep(1)
        for number in range(PENDING):
            recorder.event({**SET, "metadata": {"name": f"ms{number}", "uid": str(number)}}, "A", "a")
        recorder.event({**SET, "metadata": {"name": "sick", "uid": "sick"}}, "B", "b", warning=True)
        recorder.event({**SET, "metadata": {"name": "well", "uid": "well"}}, "A", "c")
        server.delay = 0.0
        await asyncio.sleep(60)
    said = {message for message, _ in server.counted}
    assert said == {"first", "a", "b"}
    assert recorder.statistics().dropped == 2


@pytest.mark.parametrize("about", [{}, {"metadata": {}}, None], ids=["empty", "nameless", "nothing at all"])
async def test_an_object_without_a_name_raises_nothing(recorder, about):
    recorder.event(about, "A", "a")
    assert recorder.statistics().dropped == 1


async def test_what_waits_at_the_end_is_still_written(server, recorder):
    async with running(recorder):
        await asyncio.sleep(1)
        recorder.event(SET, "Stopping", "bye")
    assert server.counted == [("bye", 1)]
