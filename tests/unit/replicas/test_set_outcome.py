"""What a set's status is told of a pass in which creations or deletions have failed."""

from kubewright.replicas.set.act import FAILED_CREATE, FAILED_DELETE, Outcome
from kubewright.replicas.set.policy import Failure
from kubewright.wire.errors import Forbidden

QUOTA, WEBHOOK = Forbidden("exceeded quota"), Forbidden("a webhook says no")


def test_the_first_failure_of_a_pass_is_told_and_every_error_is_retried() -> None:
    outcome = Outcome()
    outcome.failed(FAILED_CREATE, [QUOTA])
    outcome.failed(FAILED_DELETE, [WEBHOOK])
    assert outcome.failure == Failure("FailedCreate", "exceeded quota")
    assert outcome.errors == [QUOTA, WEBHOOK]


def test_a_pass_without_errors_has_not_failed() -> None:
    outcome = Outcome()
    outcome.failed(FAILED_CREATE, [])
    assert outcome == Outcome()
