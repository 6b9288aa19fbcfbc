"""The watch loop's decisions, case by case, and its pace against a server that keeps failing."""

import itertools
from dataclasses import dataclass

import pytest

from kubewright.kube.errors import BadAnswer, ConnectFailed, Disconnected, TimedOut
from kubewright.kube.reflector import (
    LONGEST,
    SHORTEST,
    STEADY,
    UNKNOWN_KIND,
    Cut,
    Failed,
    Listing,
    Outcome,
    PageRead,
    State,
    Watching,
    step,
)
from kubewright.wire.errors import Forbidden, Gone, NotFound, ServerError, Unavailable


@dataclass(frozen=True)
class Case:
    name: str
    state: State
    happened: Outcome
    then: State
    pause: float = 0.0


NOW = Cut(7, lived=0.0)

CASES = [
    Case("the first page of several leads to the second", Listing(), PageRead(7, "t"), Listing("t")),
    Case("the last page leads to the watch", Listing("t"), PageRead(7), Watching(7)),
    Case("a list forgives the lists that failed before it", Listing(failures=3), PageRead(7), Watching(7)),
    Case(
        "but not the streams that made us list",
        Listing(failures=3, streams=2),
        PageRead(7),
        Watching(7, 2),
    ),
    Case("nor does a page of several", Listing(failures=3), PageRead(7, "t"), Listing("t", failures=3)),
    Case("a watch that ends after its time goes on at once", Watching(7, 3), Cut(7, 400), Watching(7)),
    Case("a busy watch that is cut goes on at once", Watching(7, 3), Cut(9, 1.5), Watching(9)),
    Case(
        "a watch that brought nothing for ten seconds was a good one",
        Watching(7, 3),
        Cut(7, STEADY),
        Watching(7),
    ),
    Case("a watch that ends at once waits", Watching(7), NOW, Watching(7, 1), SHORTEST),
    Case(
        "two watches that bring something begin a second apart", Watching(7), Cut(9, 0.25), Watching(9), 0.75
    ),
    Case("410 lists again without a wait", Watching(7), Failed(Gone("old")), Listing(failures=1, streams=1)),
    Case(
        "410 again waits first",
        Watching(7, 1),
        Failed(Gone("old")),
        Listing(failures=2, streams=2),
        SHORTEST,
    ),
    Case(
        "410 in the body of a good stream lists again without a wait",
        Watching(7, 5),
        Failed(Gone("old"), Cut(9, 60)),
        Listing(failures=1, streams=1),
    ),
    Case("410 to the first page asks for pages again", Listing(), Failed(Gone("old")), Listing(failures=1)),
    Case(
        "a failure at the end of a good stream goes on where the stream had got",
        Watching(7, 5),
        Failed(Unavailable(""), Cut(9, 60)),
        Watching(9, 1),
        SHORTEST,
    ),
    Case(
        "a failure at the end of a bad stream adds to the others",
        Watching(7, 5),
        Failed(Unavailable(""), NOW),
        Watching(7, 6),
        LONGEST / 2,
    ),
    Case(
        "a page whose list is forgotten asks for everything at once",
        Listing("t"),
        Failed(Gone("old")),
        Listing(whole=True, failures=1),
    ),
    Case("503 repeats the watch", Watching(7), Failed(Unavailable("")), Watching(7, 1), SHORTEST),
    Case(
        "503 with Retry-After waits that long",
        Watching(7),
        Failed(Unavailable("", retry_after=7.0)),
        Watching(7, 1),
        7.0,
    ),
    Case(
        "a failing page is asked for again",
        Listing("t"),
        Failed(ServerError("")),
        Listing("t", failures=1),
        SHORTEST,
    ),
    Case(
        "a failing list adds nothing to the streams that made us list",
        Listing(failures=2, streams=2),
        Failed(ServerError("")),
        Listing(failures=3, streams=2),
        4 * SHORTEST,
    ),
    Case("403 keeps trying", Listing(), Failed(Forbidden("no")), Listing(failures=1), SHORTEST),
    Case(
        "refused connections repeat the watch", Watching(7, 1), Failed(ConnectFailed("")), Watching(7, 2), 1.6
    ),
    Case(
        "an answer that is no event lists again",
        Watching(7),
        Failed(BadAnswer("")),
        Listing(failures=1, streams=1),
        0.8,
    ),
    Case(
        "an unknown kind is looked for often",
        Listing(failures=9),
        Failed(NotFound("")),
        Listing(failures=10),
        UNKNOWN_KIND,
    ),
    Case(
        "a kind that is gone is looked for",
        Watching(7),
        Failed(NotFound("")),
        Listing(failures=1, streams=1),
        UNKNOWN_KIND,
    ),
    Case(
        "pauses grow to half a minute at most",
        Watching(7, 99),
        Failed(TimedOut("")),
        Watching(7, 100),
        LONGEST / 2,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_follows_an_outcome(case: Case) -> None:
    following = step(case.state, case.happened, 0.0)
    assert (following.state, following.pause) == (case.then, pytest.approx(case.pause))


@pytest.mark.parametrize(
    ("failed", "pause"),
    [
        pytest.param(Failed(Unavailable("")), SHORTEST * 1.5, id="a pause grows by its half"),
        pytest.param(Failed(Unavailable("", retry_after=7.0)), 7.5, id="Retry-After by half a second"),
        pytest.param(Failed(NotFound("")), UNKNOWN_KIND * 1.5, id="the look for a kind by its half"),
    ],
)
def test_chance_only_lengthens_a_pause(failed: Failed, pause: float) -> None:
    assert step(Watching(7), failed, 0.5).pause == pytest.approx(pause)


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
@pytest.mark.parametrize(
    "errors",
    [
        [Gone("old")],
        [Unavailable("")],
        [Forbidden("no")],
        [NotFound("")],
        [ConnectFailed("")],
        [Disconnected("")],
        [BadAnswer("")],
        [Gone("old"), NotFound(""), Unavailable("")],
        [],
    ],
    ids=lambda errors: " ".join(type(error).__name__ for error in errors) or "ends at once",
)
def test_a_server_whose_watches_always_fail_is_asked_less_than_once_a_second(errors, draw) -> None:
    """Lists succeed, so that every way around the machine is taken."""
    state: State = Listing()
    failures = itertools.cycle([Failed(error) for error in errors] or [NOW])
    elapsed, requests = 0.0, 0
    while elapsed < 600:
        happened = PageRead(7) if isinstance(state, Listing) else next(failures)
        following = step(state, happened, draw)
        state, elapsed, requests = following.state, elapsed + following.pause, requests + 1
    assert requests < 600


def test_a_server_that_answers_every_second_list_and_no_watch_is_asked_less_than_once_a_second() -> None:
    state: State = Listing()
    lists = itertools.cycle([Failed(ServerError("")), PageRead(7)])
    elapsed, requests = 0.0, 0
    while elapsed < 600:
        happened = next(lists) if isinstance(state, Listing) else Failed(Gone("old"))
        following = step(state, happened, 0.0)
        state, elapsed, requests = following.state, elapsed + following.pause, requests + 1
    assert requests < 600


def test_the_longest_pause_is_spread_so_that_clients_do_not_meet() -> None:
    worst = Watching(7, 50)
    pauses = [step(worst, Failed(ConnectFailed("")), draw).pause for draw in (0.0, 0.999)]
    assert pauses == [pytest.approx(15.0), pytest.approx(30.0, abs=0.1)]
