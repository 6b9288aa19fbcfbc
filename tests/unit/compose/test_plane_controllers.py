"""Which requests of clients are work for the controllers of a cluster in this process."""

import pytest

from kubewright.compose.plane_controllers import concerns_controllers
from kubewright.wire.http import Request

NODE = "/api/v1/nodes/n"
TOKENS = "/api/v1/namespaces/kube-system/secrets"


@pytest.mark.parametrize(
    ("request_", "concerns"),
    [
        pytest.param(Request("POST", "/api/v1/namespaces/default/pods"), True, id="a Pod is made"),
        pytest.param(Request("DELETE", "/api/v1/namespaces/mine"), True, id="a namespace goes"),
        pytest.param(Request("PATCH", "/apis/policy/v1/poddisruptionbudgets"), True, id="a budget changes"),
        pytest.param(Request("GET", "/api/v1/namespaces/default/pods"), False, id="nothing is written"),
        pytest.param(Request("PATCH", NODE), False, id="a node gets its labels"),
        pytest.param(Request("DELETE", NODE), False, id="the node of a machine goes"),
        pytest.param(
            Request("DELETE", NODE, body=b'{"propagationPolicy":"Foreground"}'),
            True,
            id="a node goes after what it owns",
        ),
        pytest.param(
            Request("DELETE", NODE, query=(("propagationPolicy", "Orphan"),)), True, id="and without it"
        ),
        pytest.param(Request("POST", TOKENS), False, id="a bootstrap token is made"),
        pytest.param(
            Request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
            False,
            id="a user asks what they may do",
        ),
    ],
)
def test_a_request_concerns_the_controllers(request_: Request, concerns: bool) -> None:
    assert concerns_controllers(request_) is concerns
