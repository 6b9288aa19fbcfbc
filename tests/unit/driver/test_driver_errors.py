"""The vocabulary of driver errors: codes, classes, retries, and the text that others read."""

from datetime import timedelta

import pytest

from kubewright.base.errors import After
from kubewright.driver.errors import (
    MEANINGS,
    PAUSES,
    Code,
    DriverError,
    During,
    Exhausted,
    InvalidArgument,
    NotFound,
    Trouble,
    Unimplemented,
    Uninitialized,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.NotFound, NotFound),
        (Code.Unimplemented, Unimplemented),
        (Code.Uninitialized, Uninitialized),
        (Code.ResourceExhausted, Exhausted),
        (Code.InvalidArgument, InvalidArgument),
        (Code.Internal, DriverError),
    ],
    ids=lambda it: getattr(it, "name", getattr(it, "__name__", "")),
)
def test_a_code_becomes_its_most_specific_class(code: Code, kind: type[DriverError]) -> None:
    error = DriverError.of(code, "why")
    assert type(error) is kind
    assert (error.code, error.message) == (code, "why")


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK], ids=lambda code: code.name)
def test_temporary_trouble_is_retried_soon_and_all_else_later(code: Code) -> None:
    soon = {Code.Unknown, Code.DeadlineExceeded, Code.Aborted, Code.Unavailable}
    assert DriverError.of(code, "why").retry == (After(5) if code in soon else After(180))


FIVE_SECONDS, THREE_MINUTES, TEN_MINUTES = timedelta(seconds=5), timedelta(minutes=3), timedelta(minutes=10)
PAUSED = [
    pytest.param(Code.Unavailable, During.CREATING, FIVE_SECONDS, id="a creation that may work in a moment"),
    pytest.param(Code.InvalidArgument, During.CREATING, THREE_MINUTES, id="a creation that is wrong"),
    pytest.param(
        Code.ResourceExhausted, During.CREATING, timedelta(hours=1), id="no room: as the operator says"
    ),
    pytest.param(Code.ResourceExhausted, During.COMPLETING, FIVE_SECONDS, id="no room, for a VM that exists"),
    pytest.param(Code.InvalidArgument, During.COMPLETING, FIVE_SECONDS, id="an initialization that is wrong"),
    pytest.param(Code.Aborted, During.LOOKING, FIVE_SECONDS, id="a look that may work in a moment"),
    pytest.param(Code.ResourceExhausted, During.LOOKING, THREE_MINUTES, id="a look that is too much"),
    pytest.param(Code.PermissionDenied, During.LOOKING, THREE_MINUTES, id="a look that is not allowed"),
    pytest.param(Code.DeadlineExceeded, During.DELETING, FIVE_SECONDS, id="a deletion without an answer"),
    pytest.param(Code.ResourceExhausted, During.DELETING, TEN_MINUTES, id="a deletion that is too much"),
    pytest.param(Code.PermissionDenied, During.DELETING, TEN_MINUTES, id="a deletion that is not allowed"),
]


@pytest.mark.parametrize(("code", "during", "pause"), PAUSED)
def test_how_long_a_failed_call_is_not_repeated(code: Code, during: During, pause: timedelta) -> None:
    assert DriverError.of(code, "why").pause(during, exhausted=timedelta(hours=1)) == pause


def test_every_code_means_something_and_every_trouble_has_its_pauses() -> None:
    assert set(MEANINGS) == set(Code)
    assert all(set(pauses) == set(Trouble) for pauses in PAUSES.values())
    assert set(PAUSES) == set(During)


def test_a_creation_without_room_is_repeated_after_ten_minutes_by_default() -> None:
    assert Exhausted("full").pause(During.CREATING) == TEN_MINUTES


def test_the_text_is_the_form_that_others_read() -> None:
    error = DriverError.of(Code.Unavailable, "try [again] later")
    assert str(error) == "machine codes error: code = [Unavailable] message = [try [again] later]"
