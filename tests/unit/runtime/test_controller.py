"""One controller: what follows from each way a reconciliation can end."""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace

import pytest
import structlog

from kubewright.base.errors import After, Backoff, KubewrightError, OnChange
from kubewright.runtime.controller import YIELD_EVERY, Controller
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.passes import idle
from kubewright.runtime.queue import Curve
from kubewright.runtime.result import PartlyFailed, Result
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Conflict
from kubewright.wire.gvk import Key

A, B = Key("ns", "a"), Key("ns", "b")
CURVE = Curve(base=1, cap=8, jitter=0)


class Broken(KubewrightError):
    def __init__(self, retry):
        super().__init__("as the test wants it")
        self.retry = retry


class Scripted:
    """Plays one answer per look at A; looks at other keys succeed. Notes when each look began."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.looks = []

    async def reconcile(self, key):
        self.looks.append((asyncio.get_running_loop().time(), key))
        if key != A or not self.answers:
            return Result.done()
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return await answer() if callable(answer) else answer

    def times(self, key=A):
        return [at for at, looked in self.looks if looked == key]


@asynccontextmanager
async def running(controller):
    task = asyncio.create_task(controller.run())
    try:
        yield
    finally:
        controller.close()
        await asyncio.wait_for(task, 100)


async def play(*answers, seconds=100, **options):
    script = Scripted(*answers)
    controller = Controller("test", script, LoopClock(), workers=2, curve=CURVE, **options)
    async with running(controller):
        controller.enqueue(A)
        await asyncio.sleep(seconds)
    return script, controller


async def forever():
    await asyncio.sleep(1_000_000)


async def stray_cancellation():
    raise asyncio.CancelledError


async def inner_timeout():
    async with asyncio.timeout(2):
        await forever()


@pytest.mark.parametrize(
    ("answers", "looks"),
    [
        pytest.param([Result.done()], [0], id="done waits for a change"),
        pytest.param([Result.later(30)], [0, 30], id="later looks again then"),
        pytest.param([Result.later(0)], [0, 0], id="later 0 looks again at once"),
        pytest.param([Broken(Backoff())] * 5, [0, 1, 3, 7, 15, 23], id="backoff grows to its cap"),
        pytest.param([Broken(After(20))] * 2, [0, 20, 40], id="a fixed retry does not grow"),
        pytest.param([Conflict("stale")] * 3, [0, 1, 3, 7], id="a conflict that stays backs off"),
        pytest.param([Broken(OnChange())], [0], id="what only a change can help is left alone"),
        pytest.param([RuntimeError("defect")] * 2, [0, 1, 3], id="a defect is retried with backoff"),
        pytest.param(
            [Broken(Backoff()), Result.later(5), Broken(Backoff())],
            [0, 1, 6, 7],
            id="success forgets failures",
        ),
        pytest.param([stray_cancellation], [0, 1], id="a stray cancellation does not kill the worker"),
        pytest.param([inner_timeout], [0, 3], id="a deadline that is not ours is a failure"),
        pytest.param(
            [ExceptionGroup("two", [Broken(After(9)), Broken(OnChange())])],
            [0, 9],
            id="of several errors the soonest retry counts",
        ),
        pytest.param(
            [PartlyFailed([Broken(OnChange())], 7)],
            [0, 7],
            id="what waits for a change does not cancel the look that the pass has asked for",
        ),
        pytest.param(
            [PartlyFailed([Broken(OnChange()), Broken(After(9))], 7)],
            [0, 7],
            id="of that look and a fixed retry the sooner counts",
        ),
        pytest.param(
            [PartlyFailed([Broken(Backoff()), Broken(OnChange())], 0)] * 3,
            [0, 1, 3, 7],
            id="a look at once does not shorten a backoff",
        ),
        pytest.param(
            [PartlyFailed([Broken(OnChange())], 0)] * 2,
            [0, 1, 3],
            id="a look at once after a failure is one with backoff",
        ),
        pytest.param([PartlyFailed([Broken(OnChange())])], [0], id="a pass may wait for a change alone"),
        pytest.param(
            [ExceptionGroup("two", [Broken(After(9)), ValueError()])],
            [0, 1],
            id="a defect among them is a defect",
        ),
    ],
)
async def test_when_a_key_is_looked_at_again(answers, looks):
    script, _ = await play(*answers)
    assert script.times() == pytest.approx(looks, abs=1e-3)


async def test_a_reconciliation_has_a_deadline():
    script, _ = await play(forever, timeout=10)
    assert script.times() == pytest.approx([0, 11])


async def test_a_broken_key_stops_no_other():
    script = Scripted(*[RuntimeError("defect")] * 50)
    controller = Controller("test", script, LoopClock(), workers=1, curve=CURVE)
    async with running(controller):
        controller.enqueue(A)
        for _second in range(10):
            controller.enqueue(B)
            await asyncio.sleep(1)
    assert script.times(B) == pytest.approx(list(range(10)), abs=1e-3)


async def test_looks_that_never_wait_let_others_have_their_turn():
    script, turns = Scripted(), []
    controller = Controller("test", script, LoopClock(), workers=1)
    for number in range(100):
        controller.enqueue(Key("ns", str(number)))
    async with running(controller):
        while len(script.looks) < 100:
            turns.append(len(script.looks))
            await asyncio.sleep(0)
    assert max(b - a for a, b in pairwise(turns)) <= YIELD_EVERY


async def test_keys_of_another_program_let_others_have_their_turn_too():
    things, turns = Labelled(**{str(number): {} for number in range(100)}), []
    controller = Controller("test", Scripted(), LoopClock(), workers=1)
    controller.admits(things, lambda header: "ours" in header.labels)
    for key in things.labels:
        controller.enqueue(key)
    async with running(controller):
        while controller.load:
            turns.append(controller.load)
            await asyncio.sleep(0)
        turns.append(controller.load)
    assert max(a - b for a, b in pairwise(turns)) <= YIELD_EVERY


async def test_only_defects_have_a_traceback_in_the_log():
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as lines:
        await play(Broken(OnChange()))
        await play(RuntimeError("defect"), seconds=0.5)
    assert ["exc_info" in line for line in lines] == [False, True]


async def test_log_lines_carry_controller_key_and_reason():
    seen = {}

    class Looks:
        async def reconcile(self, _key):
            seen.update(structlog.contextvars.get_contextvars())
            return Result.done()

    controller = Controller("machines", Looks(), LoopClock())
    async with running(controller):
        controller.enqueue(A, "because")
        await asyncio.sleep(1)
    assert seen == {"controller": "machines", "key": "ns/a", "why": "because"}


async def test_close_lets_the_running_finish_and_starts_nothing_more():
    async def slow():
        await asyncio.sleep(5)
        return Result.later(1)

    script = Scripted(slow)
    controller = Controller("test", script, LoopClock(), workers=1)
    async with running(controller):
        controller.enqueue(A)
        controller.enqueue(B)
        await asyncio.sleep(1)
        controller.close()
        await controller.drained()
        assert asyncio.get_running_loop().time() == 5
    assert script.looks == [(0, A)]


async def test_a_watched_change_wakes_the_mapped_keys():
    listeners = []
    informer = SimpleNamespace(
        kind=SimpleNamespace(resource=SimpleNamespace(kind="Node")),
        subscribe=listeners.append,
        synced=True,
    )
    script = Scripted()
    controller = (
        Controller("test", script, LoopClock()).watches(informer).watches(informer, lambda change: [A, A])
    )
    async with running(controller):
        for listener in listeners:
            listener(SimpleNamespace(key=B, old=None, new=object()))
        await asyncio.sleep(1)
    assert [key for _, key in script.looks] == [B, A]


async def test_an_object_that_cannot_be_read_is_no_error_of_the_listener():
    listeners = []
    informer = SimpleNamespace(
        kind=SimpleNamespace(resource=SimpleNamespace(kind="Node")), subscribe=listeners.append, synced=True
    )

    def gather(_change):
        raise Broken(OnChange())

    script = Scripted()
    controller = Controller("test", script, LoopClock()).watches(informer, gather=gather)
    async with running(controller):
        listeners[0](SimpleNamespace(key=B, old=None, new=object()))
        await asyncio.sleep(1)
    assert script.looks == []


async def test_results_are_counted():
    metrics = Metrics()
    await play(Result.later(1), Broken(Backoff()), metrics=metrics)
    page = metrics.render().decode()
    assert 'controller_reconcile_total{controller="test",result="success"} 1.0' in page
    assert 'controller_reconcile_total{controller="test",result="backoff"} 1.0' in page
    assert 'workqueue_depth{name="test"} 0.0' in page
    assert 'workqueue_adds_total{name="test"} 3.0' in page


def test_the_sooner_of_two_results():
    assert Result.done().sooner(Result.later(5)) == Result.later(5)
    assert Result.later(3).sooner(Result.later(5)) == Result(3)
    assert Result.done().sooner(Result.done()) == Result.done()
    assert Result.later(-1) == Result(0.0)


class Labelled:
    """The informer of a controller's own kind, as far as doors need it: labels by key."""

    kind, synced = SimpleNamespace(resource=SimpleNamespace(kind="Thing")), True

    def __init__(self, **labels):
        self.labels = {Key("ns", name): each for name, each in labels.items()}
        self.listeners = []

    def header(self, key):
        return SimpleNamespace(labels=self.labels[key]) if key in self.labels else None

    def subscribe(self, listener):
        self.listeners.append(listener)

    def change(self, key, labels):
        before, self.labels[key] = self.header(key), labels
        for each in self.listeners:
            each(SimpleNamespace(key=key, old=before, new=self.header(key)))


async def test_objects_of_another_program_are_not_looked_at_until_they_are_ours():
    script, things = Scripted(), Labelled(a={"of": "us"}, b={"of": "them"})
    controller = Controller("test", script, LoopClock(), workers=2)
    controller.admits(things, lambda header: header.labels.get("of") == "us")
    async with running(controller):
        for key in (A, B, Key("ns", "gone")):
            controller.enqueue(key)
        await asyncio.sleep(1)
        assert {key for _, key in script.looks} == {A, Key("ns", "gone")}
        things.change(B, {"of": "us"})
        things.change(A, {"of": "them"})
        await asyncio.sleep(1)
        assert (len(script.times(A)), len(script.times(B))) == (1, 1)


async def test_of_an_object_that_is_ours_no_more_no_record_is_kept():
    class Rests:
        async def reconcile(self, _key):
            idle("at rest")
            return Result.done()

    things = Labelled(a={"of": "us"})
    controller = Controller("test", Rests(), LoopClock())
    controller.admits(things, lambda header: header.labels.get("of") == "us").watches(things)
    async with running(controller):
        controller.enqueue(A)
        await asyncio.sleep(1)
        assert [each.because for each in controller.passes.find()] == ["at rest"]
        things.change(A, {"of": "them"})
        await asyncio.sleep(1)
        assert controller.passes.find() == []
