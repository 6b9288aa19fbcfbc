"""Every error knows how it wants to be retried; no code has to compare strings."""

from kubewright.base.errors import (
    After,
    Backoff,
    InvalidInput,
    KubewrightError,
    OnChange,
    Retry,
    first_to_return,
    single,
)


def test_an_error_backs_off_unless_it_says_otherwise() -> None:
    assert KubewrightError("x").retry == Backoff()


def test_invalid_input_is_retried_only_on_a_change() -> None:
    assert InvalidInput("x").retry == OnChange()


def test_retry_classes_are_values() -> None:
    assert After(5) == After(5) != After(6)
    assert len({Backoff(), Backoff(), OnChange(), After(1)}) == 3


def test_of_several_errors_the_first_to_return_is_the_one_that_comes_back_by_itself() -> None:
    def error(retry: Retry) -> KubewrightError:
        found = KubewrightError("x")
        found.retry = retry
        return found

    late, soon, never, backing = error(After(9)), error(After(5)), error(OnChange()), error(Backoff())
    assert first_to_return([never, late, soon]) is soon
    assert first_to_return([never, late, backing]) is backing
    assert first_to_return([never]) is never


def test_the_one_error_of_a_group_is_unwrapped_and_several_stay_together() -> None:
    one, two = InvalidInput("a"), InvalidInput("b")
    several = ExceptionGroup("both", [one, two])
    assert single(one) is one
    assert single(ExceptionGroup("outer", [ExceptionGroup("inner", [one])])) is one
    assert single(ExceptionGroup("outer", [several])) is several
