"""What the errors of an API server mean for the pass that gets them."""

import pytest

from kubewright.wire.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    from_status,
    is_stale,
    to_status,
)

REPLICAS = Invalid("negative", details={"causes": [{"field": "spec.replicas", "message": "negative"}]})


@pytest.mark.parametrize(
    ("error", "stale"),
    [
        pytest.param(Conflict("changed"), True, id="it has changed"),
        pytest.param(NotFound("gone", details={"name": "a"}), True, id="it is gone"),
        pytest.param(NotFound("404 page not found"), False, id="a proxy knows no backend"),
        pytest.param(AlreadyExists("there"), True, id="it exists already"),
        pytest.param(REPLICAS, False, id="it breaks a rule"),
        pytest.param(Invalid("a webhook says no"), False, id="a webhook refuses it without a cause"),
        pytest.param(Forbidden("no"), False, id="a role is missing"),
        pytest.param(ServerError("etcd"), False, id="the server has failed"),
    ],
)
def test_whether_an_object_is_no_longer_as_it_was_seen(error: ApiError, stale: bool) -> None:
    assert is_stale(error) is stale
    assert is_stale(from_status(error.code, to_status(error))) is stale
