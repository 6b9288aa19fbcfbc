"""The record of each key's last pass: what it says, since when, what comes next, and how many are kept."""

import asyncio
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import SimpleNamespace

import pytest

from kubewright.api.core import Node
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import After, Backoff, KubewrightError, OnChange
from kubewright.base.plan import Awaited, Plan
from kubewright.runtime.controller import Controller
from kubewright.runtime.kernel import unless_refused
from kubewright.runtime.passes import Noted, Passes, idle, noting, planned
from kubewright.runtime.queue import Curve
from kubewright.runtime.records import Acted, answer, longest_waits, wanted_waits
from kubewright.runtime.result import Result
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Forbidden
from kubewright.wire.gvk import Key

A, B = Key("ns", "a"), Key("ns", "b")
START = datetime(2030, 1, 1, tzinfo=UTC)


class Call(Enum):
    ENSURE = "ensure"


class Failed(KubewrightError):
    def __init__(self, retry):
        super().__init__("the server said no")
        self.retry = retry


async def pass_of(work):
    """The record of one pass of a controller whose reconciler does ``work``."""

    class Once:
        async def reconcile(self, key):
            return work()

    controller = Controller("machine", Once(), LoopClock(), curve=Curve(base=4, cap=8, jitter=0))
    task = asyncio.create_task(controller.run())
    controller.enqueue(A, "Machine ns/a changed")
    await asyncio.sleep(1)
    controller.close()
    await task
    (found,) = controller.passes.find(namespace="ns", name="a")
    return found


def plan_and(result):
    def work():
        planned(Plan((Call.ENSURE, Noted()), because="it has no VM on record"))
        if isinstance(result, Exception):
            raise result
        return result

    return work


def resting():
    idle("the cluster is paused")
    return Result.done()


@pytest.mark.parametrize(
    ("work", "said"),
    [
        pytest.param(
            plan_and(Result.done()),
            ("it has no VM on record", ("ensure", "Noted"), "", None, ""),
            id="a plan without a wake-up waits for a change",
        ),
        pytest.param(
            plan_and(Result.later(30)),
            ("it has no VM on record", ("ensure", "Noted"), "", 30, "its plan asked for it"),
            id="a plan with a wake-up says when",
        ),
        pytest.param(
            plan_and(Failed(Backoff())),
            ("it has no VM on record", ("ensure", "Noted"), "the server said no", 4, "retry with backoff"),
            id="a failure keeps the plan, and says the error and the retry",
        ),
        pytest.param(
            plan_and(Failed(After(20))),
            ("it has no VM on record", ("ensure", "Noted"), "the server said no", 20, "retry after 20 s"),
            id="a failure with a fixed retry",
        ),
        pytest.param(
            plan_and(Failed(OnChange())),
            ("it has no VM on record", ("ensure", "Noted"), "the server said no", None, ""),
            id="a failure that only a change can mend",
        ),
        pytest.param(
            plan_and(ValueError("a password")),
            (
                "it has no VM on record",
                ("ensure", "Noted"),
                "a defect of Kubewright, ValueError: see its log",
                4,
                "retry with backoff",
            ),
            id="a defect is named without its text",
        ),
        pytest.param(resting, ("the cluster is paused", (), "", None, ""), id="a pass that makes no plan"),
    ],
)
async def test_a_pass_is_told(work, said):
    found = await pass_of(work)
    wait = None if found.next is None else (found.next - found.at).total_seconds()
    assert (found.because, found.steps, found.error, wait, found.next_because) == said
    assert (found.controller, found.why, found.at) == ("machine", "Machine ns/a changed", START)


async def test_a_refusal_of_a_write_is_the_error_of_a_pass_that_says_nothing_else():
    told = []
    recorder = SimpleNamespace(event=lambda *said, **_: told.append(said[2]))

    async def write():
        raise Forbidden("no such role")

    class Writes:
        async def reconcile(self, key):
            return await unless_refused(write(), Node(metadata=ObjectMeta(name="a")), recorder)

    controller = Controller("machine", Writes(), LoopClock())
    task = asyncio.create_task(controller.run())
    controller.enqueue(A)
    await asyncio.sleep(1)
    controller.close()
    await task
    assert [each.error for each in controller.passes.find()] == told
    assert told == ["The API server refused a write: no such role"]


def kept(passes, key, noted, second):
    at = START + timedelta(seconds=second)
    passes.keep(key, noted, why="", at=at, seconds=0.0, after=None, then="")


@pytest.mark.parametrize(
    ("notes", "since", "acted"),
    [
        pytest.param([Noted("a")], 0, None, id="the first pass begins the reason"),
        pytest.param([Noted("a"), Noted("a"), Noted("a")], 0, None, id="the same reason goes on"),
        pytest.param([Noted("a"), Noted("b")], 1, None, id="another reason begins anew"),
        pytest.param([Noted("a"), Noted("a", error="no")], 1, None, id="another end begins anew"),
        pytest.param(
            [Noted("a", ("Call",)), Noted("b"), Noted("b")],
            1,
            Acted(at=START, because="a", steps=("Call",)),
            id="the last pass with steps is remembered",
        ),
    ],
)
def test_since_when_and_what_was_done_last(notes, since, acted):
    passes = Passes("machine")
    for second, noted in enumerate(notes):
        kept(passes, A, noted, second)
    (found,) = passes.find(namespace="ns", name="a")
    assert ((found.since - START).total_seconds(), found.acted) == (since, acted)


SECRET, NODE = Awaited("Secret a", "create it"), Awaited("Node n", "see the VM's console", START)


@pytest.mark.parametrize(
    ("notes", "waits"),
    [
        pytest.param([Noted("a", awaits=(SECRET,))], {"Secret a": 0}, id="the first pass begins the wait"),
        pytest.param(
            [Noted("a", awaits=(SECRET,)), Noted("b", awaits=(SECRET,))],
            {"Secret a": 0},
            id="the wait goes on under another reason",
        ),
        pytest.param(
            [Noted("a", awaits=(SECRET,)), Noted("a"), Noted("a", awaits=(SECRET,))],
            {"Secret a": 2},
            id="a wait that was over begins anew",
        ),
        pytest.param(
            [Noted("a"), Noted("a", awaits=(SECRET, NODE))],
            {"Secret a": 1, "Node n": 0},
            id="what is on record is older than this process",
        ),
    ],
)
def test_what_is_waited_for_and_since_when(notes, waits):
    passes = Passes("machine")
    for second, noted in enumerate(notes):
        kept(passes, A, noted, second)
    (found,) = passes.find(namespace="ns", name="a")
    assert {each.what: (each.since - START).total_seconds() for each in found.waits} == waits


def test_the_longest_waits_are_found_among_many():
    passes = Passes("machine")
    kept(passes, B, Noted("a", awaits=(SECRET,)), 3)
    kept(passes, A, Noted("a", awaits=(SECRET, Awaited("Node n", "wait", START))), 5)
    kept(passes, Key("ns", "c"), Noted("a"), 1)
    found = longest_waits(passes.find(), 2)
    assert [(record.name, wait.what) for record, wait in found] == [("a", "Node n"), ("b", "Secret a")]
    assert [each.name for each in answer(passes.find(), (), 1).passes] == ["a"]
    assert [wanted_waits(text) for text in ("", "20", "many", "-1", "9" * 9, "9" * 99)] == [
        0,
        20,
        0,
        0,
        1000,
        0,
    ]


def test_plans_in_order_await_all_that_each_of_them_does():
    first, second = Plan(awaits=(SECRET,)), Plan(awaits=(NODE, SECRET))
    assert first.then(second).awaits == (SECRET, NODE)


def test_a_pass_that_finds_no_object_drops_the_record_unless_it_failed():
    passes = Passes("machine")
    kept(passes, A, Noted("a"), 0)
    kept(passes, A, Noted(error="no answer", silent=True), 1)
    assert [each.error for each in passes.find()] == ["no answer"]
    kept(passes, A, Noted(silent=True), 2)
    assert passes.find() == []


def test_the_record_that_was_looked_at_longest_ago_is_dropped():
    passes = Passes("machine", limit=2)
    for second, name in enumerate(("a", "b", "a", "c")):
        kept(passes, Key("ns", name), Noted(), second)
    assert [each.name for each in passes.find()] == ["a", "c"]


@pytest.mark.parametrize(
    ("namespace", "name", "found"),
    [
        pytest.param("ns", "a", [("machine", "a"), ("infra", "a")], id="one object, of every controller"),
        pytest.param("ns", "", [("machine", "a"), ("infra", "a"), ("machine", "b")], id="a namespace"),
        pytest.param("", "b", [("machine", "b")], id="a name in any namespace"),
        pytest.param("other", "a", [], id="nothing"),
    ],
)
def test_what_is_asked_for_is_found(namespace, name, found):
    machine, infra = Passes("machine"), Passes("infra")
    kept(machine, A, Noted(), 0)
    kept(machine, B, Noted(), 2)
    kept(infra, A, Noted(), 1)
    records = [*infra.find(namespace=namespace, name=name), *machine.find(namespace=namespace, name=name)]
    answered = answer(records, [("l", "h")])
    assert [(each.controller, each.name) for each in answered.passes] == found
    assert answered.waits_for == (("l", "h"),)


def test_what_is_said_outside_of_a_pass_is_in_no_record():
    with noting() as noted:
        pass
    planned(Plan(because="too late"))
    assert noted == Noted(silent=True)
