"""What a NestedCluster takes from the control plane of its Cluster, and when it is ready."""

from datetime import timedelta

import pytest
from msgspec import structs

from kubewright.api.cluster.v1beta1 import CLUSTER, ApiEndpoint
from kubewright.api.controlplane.v1alpha4 import NESTED_CLUSTER, NESTED_CONTROL_PLANE
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.nestedcluster.decide import PublishEndpoint, Seen, decide, status_of
from kubewright.testing.clocks import BEGIN as NOW

ENDPOINT = {"host": "127.0.0.2", "port": 6443}
OWNER = CLUSTER.from_plain({"metadata": {"name": "mine"}})


def cluster(spec=None, **meta):
    return NESTED_CLUSTER.from_plain(
        {"metadata": {"name": "mine", "generation": 2, **meta}, "spec": spec or {}}
    )


def plane(*, endpoint=ENDPOINT, **status):
    spec = {} if endpoint is None else {"controlPlaneEndpoint": endpoint}
    told = {"ready": True, "initialized": True} | status
    return NESTED_CONTROL_PLANE.from_plain({"metadata": {"name": "demo"}, "spec": spec, "status": told})


def seen(of=None, **facts):
    return Seen(of or cluster(), NOW, **({"owner": OWNER, "plane": plane()} | facts))


PUBLISHED = (PublishEndpoint(ApiEndpoint(**ENDPOINT)),)


@pytest.mark.parametrize(
    ("view", "steps", "silent"),
    [
        pytest.param(seen(), PUBLISHED, False, id="it takes the endpoint"),
        pytest.param(seen(plane=plane(ready=False)), PUBLISHED, False, id="also before all is ready"),
        pytest.param(seen(cluster({"controlPlaneEndpoint": ENDPOINT})), (), False, id="it has one"),
        pytest.param(
            seen(cluster({"controlPlaneEndpoint": {"host": "", "port": 0}})), PUBLISHED, False, id="it has none yet"
        ),
        pytest.param(seen(plane=plane(endpoint=None)), (), False, id="the control plane has none"),
        pytest.param(seen(plane=None), (), False, id="there is no control plane"),
        pytest.param(seen(pause=Pause("it is paused")), (), False, id="paused"),
        pytest.param(seen(cluster(deletionTimestamp="2030-01-01T00:00:00Z")), (), True, id="deleted"),
        pytest.param(
            seen(cluster(annotations={"cluster.x-k8s.io/managed-by": "me"})), (), True, id="another program's"
        ),
    ],
)  # fmt: skip
def test_what_comes_next(view, steps, silent):
    answer = decide(view)
    assert (answer.steps, answer.silent) == (steps, silent)
    assert answer.because


@pytest.mark.parametrize(
    ("view", "told"),
    [
        pytest.param(seen(), ("True", "", ""), id="its control plane is ready"),
        pytest.param(
            seen(owner=None, plane=None),
            ("False", "WaitingForOwner", "no Cluster that is there owns it"),
            id="no Cluster",
        ),
        pytest.param(
            seen(plane=None),
            ("False", "WaitingForControlPlane", "Cluster mine names no NestedControlPlane that is there"),
            id="no control plane",
        ),
        pytest.param(
            seen(plane=plane(ready=False)),
            ("False", "WaitingForControlPlane", "NestedControlPlane demo is not ready"),
            id="it is not ready",
        ),
        pytest.param(
            seen(plane=plane(initialized=False)),
            ("False", "WaitingForControlPlane", "NestedControlPlane demo is not ready"),
            id="its API server has never answered",
        ),
        pytest.param(
            seen(plane=plane(endpoint=None)),
            ("False", "WaitingForEndpoint", "NestedControlPlane demo has no endpoint yet"),
            id="it has no endpoint",
        ),
    ],
)
def test_it_is_ready_when_machines_can_join_both_ways(view, told):
    before = structs.replace(view.cluster.status, ready=told[0] != "True")
    again = Seen(structs.replace(view.cluster, status=before), NOW, view.owner, view.plane)
    status = status_of(again)
    (condition,) = status.conditions
    assert (condition.status, condition.reason, condition.message) == told
    assert (status.ready, status.observed_generation) == (told[0] == "True", 2)


def test_an_equal_view_writes_nothing_new():
    first = status_of(seen())
    later = Seen(structs.replace(cluster(), status=first), NOW + timedelta(days=1), OWNER, plane())
    assert status_of(later) == first
