"""What a set's status is told of a pass in which creations or deletions have failed."""

from kubewright.api.meta import ObjectMeta
from kubewright.replicas.set.act import FAILED_CREATE, FAILED_DELETE, has_failed
from kubewright.runtime.kernel import Outcome
from kubewright.wire.errors import Forbidden

QUOTA, WEBHOOK = Forbidden("exceeded quota"), Forbidden("a webhook says no")


def test_the_first_failure_of_a_pass_is_told_and_every_error_is_retried() -> None:
    outcome = Outcome(ObjectMeta())
    has_failed(outcome, FAILED_CREATE, [QUOTA])
    has_failed(outcome, FAILED_DELETE, [WEBHOOK])
    assert outcome.shown == {"FailedCreate": "exceeded quota"}
    assert outcome.errors == [QUOTA, WEBHOOK]


def test_a_pass_without_errors_has_not_failed() -> None:
    outcome = Outcome(ObjectMeta())
    has_failed(outcome, FAILED_CREATE, [])
    assert (outcome.shown, outcome.errors) == ({}, [])
