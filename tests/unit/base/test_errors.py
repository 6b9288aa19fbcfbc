"""Every error knows how it wants to be retried; nobody has to compare strings."""

from kubewright.base.errors import After, Backoff, InvalidInput, KubewrightError, OnChange


def test_an_error_backs_off_unless_it_says_otherwise() -> None:
    assert KubewrightError("x").retry == Backoff()


def test_wrong_input_waits_for_other_input() -> None:
    assert InvalidInput("x").retry == OnChange()


def test_retry_classes_are_values() -> None:
    assert After(5) == After(5) != After(6)
    assert len({Backoff(), Backoff(), OnChange(), After(1)}) == 3
