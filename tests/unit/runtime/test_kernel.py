"""The pass that every reconciler has: what is asked, sent, told, remembered and noted, and in which order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, Value
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import AT_ONCE, Event, Plan
from kubewright.runtime.kernel import MAX_IN_FLIGHT, Effect, ObjectReconciler, Outcome, side_by_side
from kubewright.runtime.pace import STATUS_SECONDS, Pace
from kubewright.runtime.passes import Noted, noting
from kubewright.runtime.result import PartlyFailed, Result
from kubewright.testing.acts import Told
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Conflict, Forbidden, ServerError
from kubewright.wire.gvk import Key, Resource

KEY = Key("n", "t")
PATH = "/apis/toys.example.com/v1/namespaces/n/things/t"
FINALIZER = "toys.example.com/thing"


class Spec(Value, frozen=True, kw_only=True):
    size: int = 0


class Status(Value, frozen=True, kw_only=True):
    size: int = 0
    shown: str = ""
    conditions: tuple[str, ...] = ()


class Thing(KubeObject, frozen=True, kw_only=True):
    spec: Spec = Spec()
    status: Status = Status()


THINGS = Kind(Resource("toys.example.com", "v1", "things", "Thing"), Thing)


@dataclass(frozen=True)
class Seen:
    thing: Thing
    looks: int = 1


@dataclass(frozen=True)
class Finish:
    """The finalizer goes on (True) or off."""

    on: bool


@dataclass(frozen=True)
class Do:
    """Something outside, under this name; the error that it ends with; what it has in common with others."""

    name: str
    error: KubewrightError | None = None
    beside: str | None = None


@dataclass(frozen=True)
class Begin:
    """Something that is not waited for."""


Step = Finish | Do | Begin


@dataclass
class Said:
    """What a kind says in these tests, and (``done``) what its pass asked it to do."""

    plan: Plan[Step] | None = field(default_factory=lambda: Plan(because="nothing to do"))
    closer: Plan[Step] | None = None
    resting: str = ""
    after: float | None = None
    keeps_errors: bool = False
    goes_on: bool = False
    status: Status | None = None
    done: list[str] = field(default_factory=list)


class Things(ObjectReconciler[Thing, Seen, Plan[Step]]):
    def __init__(self, shelf: Shelf, told: Told, said: Said, pace: Pace | None = None) -> None:
        super().__init__(shelf.client, shelf.caches.get(THINGS), told, finalizer=FINALIZER, pace=pace)
        self.said, self.shelf = said, shelf

    def forget(self, key: Key, uid: str) -> None:
        self.said.done.append(f"forget {key} {uid}")

    def resting(self, found: Thing) -> str:
        return self.said.resting

    async def look(self, found: Thing) -> Seen:
        return Seen(found)

    def decide(self, seen: Seen) -> Plan[Step] | None:
        return self.said.closer if seen.looks > 1 else self.said.plan

    def closer(self, seen: Seen, plan: Plan[Step]) -> Any:
        return self._closer(seen) if self.said.closer is not None else None

    async def _closer(self, seen: Seen) -> Seen:
        return Seen(seen.thing, looks=2)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        match step:
            case Finish(True):
                return self.add_finalizer(outcome)
            case Finish():
                return self.remove_finalizer(outcome)
            case Begin():
                self.said.done.append("begin")
                return None
            case Do(name, error, beside):
                return self._do(name, error, beside=beside is not None)

    async def _do(self, name: str, error: KubewrightError | None, *, beside: bool) -> None:
        if beside:
            self.said.done.append(f"{name}+")
            await self.shelf.clock.sleep(0)
        self.said.done.append(name)
        if error is not None:
            raise error

    def together(self, step: Step) -> object:
        return step.beside if isinstance(step, Do) else None

    def after_step(self, seen: Seen, step: Step, error: KubewrightError | None, outcome: Outcome) -> bool:
        if error is None or not self.said.keeps_errors:
            return super().after_step(seen, step, error, outcome)
        outcome.errors.append(error)
        outcome.shown["it"] = str(error)
        return self.said.goes_on

    def status(self, seen: Seen, plan: Plan[Step], outcome: Outcome) -> Status | None:
        if self.said.status is None:
            return None
        return Status(size=self.said.status.size, shown=outcome.shown.get("it", ""))

    def reported(self, seen: Seen, status: Any, outcome: Outcome, *, written: bool) -> None:
        outcome.sooner(self.said.after)

    def events(self, seen: Seen, plan: Plan[Step], status: Any, *, written: bool) -> Iterable[Event]:
        return [Event("Written", f"size {status.size}")] if written else []


class LooksAgain(Things):
    looks_again = True

    async def look_again(self, found: Thing, seen: Seen, outcome: Outcome) -> Seen:
        self.said.done.append(f"look again at size {found.spec.size}")
        return Seen(found)


@dataclass
class Stage:
    things: Things
    shelf: Shelf
    told: Told
    said: Said

    async def passes(self) -> tuple[Result | KubewrightError | PartlyFailed, Noted]:
        """One pass: how it ends, and what is noted for users who ask."""
        with noting() as noted:
            try:
                return await self.things.reconcile(KEY), noted
            except (KubewrightError, PartlyFailed) as error:
                return error, noted


async def stage(
    of: type[Things] = Things,
    pace: Pace | None = None,
    answers: Mapping[str, KubewrightError] | None = None,
    *,
    there: bool = True,
    **says: Any,
) -> Stage:
    shelf, told, said = Shelf(), Told(), Said(**says)
    things = of(shelf, told, said, pace)
    if there:
        await shelf.put(THINGS, thing())
    shelf.answers |= answers or {}
    return Stage(things, shelf, told, said)


def thing(uid: str = "u", **spec: int) -> Thing:
    return THINGS.from_plain({"metadata": {"name": "t", "namespace": "n", "uid": uid}, "spec": spec})


def statuses(shelf: Shelf) -> list[Any]:
    return [each.body["status"] for each in shelf.writes if each.path.endswith("/status")]


async def test_without_an_object_nothing_is_done_and_nothing_noted() -> None:
    on = await stage(there=False)
    result, noted = await on.passes()
    assert (result, noted.silent, on.shelf.asked) == (Result.done(), True, [])


async def test_what_is_known_of_an_object_is_forgotten_once_when_it_goes_or_another_has_its_name() -> None:
    on = await stage()
    await on.passes()
    await on.passes()
    assert on.said.done == []
    await on.shelf.remove(THINGS, KEY)
    await on.shelf.put(THINGS, thing("other"))
    await on.passes()
    assert on.said.done == ["forget n/t u"]
    await on.shelf.remove(THINGS, KEY)
    await on.passes()
    await on.passes()
    assert on.said.done == ["forget n/t u", "forget n/t other"]


async def test_the_plan_is_noted_with_its_steps_and_an_object_that_is_nobodys_business_leaves_nothing() -> (
    None
):
    on = await stage(plan=Plan((Begin(),), timedelta(seconds=3), "it is time"))
    result, noted = await on.passes()
    assert (result, noted.because, noted.steps) == (Result(3.0), "it is time", ("Begin",))
    on.said.plan = None
    result, noted = await on.passes()
    assert (result, noted.silent) == (Result.done(), True)


async def test_a_closer_look_decides_anew_before_anything_is_done() -> None:
    on = await stage(plan=Plan((Do("hasty"),), because="it seems so"), closer=Plan(because="it is not so"))
    _, noted = await on.passes()
    assert (on.said.done, noted.because) == ([], "it is not so")


async def test_steps_run_in_order_and_those_in_a_row_that_go_together_beside_each_other() -> None:
    steps = (Do("a"), *(Do(each, beside="x") for each in "bc"), *(Do(each, beside="y") for each in "de"))
    on = await stage(plan=Plan((*steps, Begin(), Do("f")), because="so"))
    await on.passes()
    assert on.said.done == ["a", "b+", "c+", "b", "c", "d+", "e+", "d", "e", "begin", "f"]


@pytest.mark.parametrize(("goes_on", "done"), [(False, ["a", "b"]), (True, ["a", "b", "c"])])
async def test_an_error_beside_others_stops_none_of_them_and_may_stop_those_after_them(goes_on, done) -> None:
    beside = (Do("a", ServerError("not now"), beside="x"), Do("b", beside="x"))
    on = await stage(plan=Plan((*beside, Do("c")), because="so"), keeps_errors=True, goes_on=goes_on)
    await on.passes()
    assert [each for each in on.said.done if "+" not in each] == done


async def test_of_an_object_that_rests_the_reason_is_noted_and_nothing_is_looked_at() -> None:
    on = await stage(resting="it is paused", plan=Plan((Do("a"),), because="so"), status=Status(size=1))
    result, noted = await on.passes()
    assert (result, noted.because, noted.steps) == (Result.done(), "it is paused", ())
    assert (on.said.done, on.shelf.writes) == ([], [])


async def test_when_the_status_is_reported_the_next_pass_may_come_sooner() -> None:
    on = await stage(plan=Plan(wake=timedelta(seconds=9), because="so"), status=Status(size=1), after=0.5)
    result, _ = await on.passes()
    assert result == Result(0.5)


async def test_the_error_of_a_step_ends_the_pass() -> None:
    error = ServerError("not now")
    on = await stage(plan=Plan((Do("a", error), Do("b")), because="so"), status=Status(size=1))
    ended, _ = await on.passes()
    assert (ended, on.said.done, statuses(on.shelf)) == (error, ["a"], [])


@pytest.mark.parametrize(("goes_on", "done"), [(False, ["a"]), (True, ["a", "b"])])
async def test_an_error_that_is_kept_is_shown_in_the_status_and_raised_at_the_end(goes_on, done) -> None:
    error = ServerError("not now")
    on = await stage(
        plan=Plan((Do("a", error), Do("b")), timedelta(seconds=9), "so", silent=True),
        status=Status(size=1), keeps_errors=True, goes_on=goes_on,
    )  # fmt: skip
    ended, _ = await on.passes()
    assert isinstance(ended, PartlyFailed)
    assert (ended.exceptions, ended.after) == ((error,), 9.0)
    assert (on.said.done, statuses(on.shelf)) == (done, [{"size": 1, "shown": "not now"}])


async def test_a_refusal_is_told_noted_and_tried_again_after_a_pause() -> None:
    error = Forbidden("a webhook says no")
    on = await stage(plan=Plan((Do("a", error),), because="so"))
    result, noted = await on.passes()
    said = "The API server refused a write: a webhook says no"
    assert (result, noted.error) == (Result.later(delays.REFUSED), said)
    assert on.told.events == [("t", "FailedUpdate", said, True)]


async def test_each_write_names_the_version_that_the_one_before_it_made() -> None:
    on = await stage(plan=Plan((Finish(on=True),), AT_ONCE, "so"), status=Status(size=1))
    result, _ = await on.passes()
    assert result == Result(0.0)
    assert on.shelf.writes == [
        Write("PATCH", PATH, {"metadata": {"finalizers": [FINALIZER], "uid": "u", "resourceVersion": "101"}}),
        Write("PATCH", f"{PATH}/status", {"status": {"size": 1}, "metadata": {"uid": "u", "resourceVersion": "102"}}),
    ]  # fmt: skip
    assert on.told.events == [("t", "Written", "size 1", False)]


async def test_once_the_finalizer_is_off_nothing_more_is_written() -> None:
    on = await stage(plan=Plan((Finish(on=False),), because="so"), status=Status(size=1))
    await on.passes()
    assert [each.path for each in on.shelf.writes] == [PATH]


async def test_a_silent_plan_writes_no_status_and_the_same_status_is_not_written_twice() -> None:
    on = await stage(plan=Plan(because="so", silent=True), status=Status(size=1))
    await on.passes()
    assert on.shelf.writes == []
    on.said.plan = Plan(because="so")
    await on.passes()
    await on.passes()
    assert statuses(on.shelf) == [{"size": 1}]


async def test_a_status_with_a_pace_waits_and_the_pass_comes_back_for_it() -> None:
    on = await stage(pace=Pace(), status=Status(size=1))
    await on.passes()
    on.said.status = Status(size=2)
    result, _ = await on.passes()
    assert (result, statuses(on.shelf)) == (Result(STATUS_SECONDS), [{"size": 1}])
    on.shelf.clock.passed += STATUS_SECONDS
    result, _ = await on.passes()
    assert (result, statuses(on.shelf)) == (Result.done(), [{"size": 1}, {"size": 2}])


async def test_a_status_with_a_pace_that_says_what_failed_does_not_wait_for_more() -> None:
    slow = Pace(steady_for=60.0)
    on = await stage(pace=slow, status=Status(size=1))
    result, _ = await on.passes()
    assert (result, statuses(on.shelf)) == (Result(60.0), [])
    on.said.plan, on.said.keeps_errors = Plan((Do("a", Conflict("late")),), because="so"), True
    await on.passes()
    assert statuses(on.shelf) == [{"size": 1, "shown": "late"}]


async def test_the_second_look_is_at_what_there_is_after_the_steps_and_only_if_there_are_any() -> None:
    on = await stage(LooksAgain, plan=Plan(because="so"), status=Status(size=1))
    await on.passes()
    assert (on.said.done, statuses(on.shelf)) == ([], [{"size": 1}])
    on.said.plan, on.said.status = Plan((Finish(on=True),), because="so"), Status(size=2)
    await on.passes()
    assert on.said.done == ["look again at size 0"]
    assert statuses(on.shelf)[1:] == [{"size": 2}]


async def test_nothing_is_reported_of_an_object_that_is_gone_by_the_second_look() -> None:
    on = await stage(LooksAgain, plan=Plan((Begin(),), because="so"), status=Status(size=1))
    found = on.things.get(KEY)
    assert found is not None
    await on.shelf.remove(THINGS, KEY)
    assert await on.things.carry_out(found, Seen(found), Plan((Begin(),), because="so")) == Result.done()
    assert on.shelf.writes == []


async def test_at_most_so_many_are_in_flight_and_each_error_is_at_the_place_of_its_item() -> None:
    flying, most, wrong = 0, 0, ServerError("no")
    shelf = Shelf()

    async def effect(item: int) -> KubewrightError | None:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await shelf.clock.sleep(0)
        flying -= 1
        return wrong if item % 50 == 7 else None

    found = await side_by_side(range(100), effect)
    assert most == MAX_IN_FLIGHT
    assert [number for number, error in enumerate(found) if error is not None] == [7, 57]
