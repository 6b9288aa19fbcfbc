"""Which members of an etcd have lost their data, so that it does not start empty where it had some."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.controlplanes.component_views import NOW, family, plane

from kubewright.api.controlplane.names import LOST_DATA_ANNOTATION, Component
from kubewright.api.controlplane.v1alpha4 import Address, NestedEtcd, NestedEtcdSpec, NestedEtcdStatus
from kubewright.api.meta import ObjectMeta, owner_of
from kubewright.controlplanes.component.policies import ETCD
from kubewright.controlplanes.component.seen import Seen
from kubewright.controlplanes.hosting.contract import Running, WorkloadIdentity
from kubewright.controlplanes.templates.render import Rendered

ALL_GONE = Running(data=frozenset())
"""Neither a StatefulSet is there nor a claim."""
ASLEEP = Running(applied="f", exists=True, data=frozenset({0, 1, 2}))
CLAIMS = ({"metadata": {"name": "data"}, "spec": {}},)


def lost(
    running: Running,
    *,
    members: int = 3,
    version: str = "3.6.8",
    replicas: int = 3,
    notes: Mapping[str, str] | None = None,
    claims: Any = CLAIMS,
) -> tuple[str, ...]:
    addresses = tuple(Address(ip=f"127.64.0.{number}", port=2379) for number in range(members))
    found = NestedEtcd(
        metadata=ObjectMeta(name="store", namespace="team", uid="e", annotations=notes or {}),
        spec=NestedEtcdSpec(replicas=replicas),
        status=NestedEtcdStatus(version=version, addresses=addresses),
    )
    owner = owner_of(found, "v1", "NestedEtcd")
    identity = WorkloadIdentity("team", "demo", Component.ETCD, owner)
    manifest = {"kind": "StatefulSet", "spec": {"template": {}, "volumeClaimTemplates": [*claims]}}
    return Seen(
        ETCD,
        found,
        NOW,
        family=family(of=plane()),
        identity=identity,
        running=running,
        rendered=Rendered([manifest]),
    ).lost


BOTH = ("demo-etcd-1", "demo-etcd-2")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(lost(ASLEEP), (), id="it sleeps, and all of its data is there"),
        pytest.param(lost(Running(applied="f", data=frozenset({0}))), BOTH, id="of two members it is gone"),
        pytest.param(
            lost(Running(applied="f", data=frozenset({0})), notes={LOST_DATA_ANNOTATION: "demo-etcd-1"}),
            ("demo-etcd-2",),
            id="one of these was given up",
        ),
        pytest.param(lost(ALL_GONE), ("demo-etcd-0", *BOTH), id="with the StatefulSet, too"),
        pytest.param(
            lost(ALL_GONE, members=1, replicas=1), ("demo-etcd-0",), id="with the StatefulSet of a single one"
        ),
        pytest.param(lost(Running(data=frozenset({0, 1, 2}))), (), id="the StatefulSet alone is gone"),
        pytest.param(lost(ALL_GONE, version=""), (), id="it has never run"),
        pytest.param(lost(ALL_GONE, replicas=0), (), id="it is to run no instance"),
        pytest.param(lost(ALL_GONE, claims=()), (), id="its templates keep the data nowhere"),
        pytest.param(lost(Running(applied="f", replicas=3)), (), id="it runs, and is not asked for its data"),
    ],
)
def test_which_members_have_lost_their_data(found: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert found == expected
