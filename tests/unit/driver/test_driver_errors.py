"""The vocabulary of driver errors: codes, classes, retries, and the text that others read."""

import pytest

from kubewright.base.errors import After
from kubewright.driver.errors import (
    Code,
    DriverError,
    Exhausted,
    InvalidArgument,
    NotFound,
    Unimplemented,
    Uninitialized,
    parse_error_text,
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


TEXTS = [
    pytest.param(
        "machine codes error: code = [Internal] message = [boom]",
        Code.Internal,
        "boom",
        id="the text by itself",
    ),
    pytest.param(
        "Cloud provider message - machine codes error: code = [ResourceExhausted] message = [no VMs]",
        Code.ResourceExhausted,
        "no VMs",
        id="after a prefix",
    ),
    pytest.param(
        "VM deletion failed due to - machine codes error: code = [Aborted] message = [busy]. However, retry",
        Code.Aborted,
        "busy",
        id="before a suffix",
    ),
    pytest.param(
        "machine codes error: code = [Internal] message = [list [a, b] of\ntwo]",
        Code.Internal,
        "list [a, b] of\ntwo",
        id="with brackets and lines in it",
    ),
    pytest.param(
        "machine codes error: code = [Novel] message = [x]", Code.Unknown, "x", id="with a code of tomorrow"
    ),
]


@pytest.mark.parametrize(("text", "code", "message"), TEXTS)
def test_the_text_is_read_back(text: str, code: Code, message: str) -> None:
    error = parse_error_text(text)
    assert error is not None
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize("text", ["", "connection refused", "code = [Internal] message = [boom]"])
def test_other_text_is_none(text: str) -> None:
    assert parse_error_text(text) is None


def test_what_was_written_is_read() -> None:
    error = DriverError.of(Code.Unavailable, "try [again] later")
    again = parse_error_text(str(error))
    assert again is not None
    assert (again.code, again.message) == (error.code, error.message)
