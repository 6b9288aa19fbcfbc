"""Which changes of a Machine enqueue its KubeadmConfig: those that a decision could see, and no others."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from kubewright.api.bootstrap.v1beta1 import KubeadmConfig, KubeadmConfigStatus
from kubewright.api.cluster.v1beta1 import (
    MACHINE,
    Bootstrap,
    Machine,
    MachineSpec,
    MachineStatus,
    ObjectReference,
)
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.bootstrap.look import Caches, Looker
from kubewright.bootstrap.wiring import Wakes
from kubewright.kube import header as headers
from kubewright.kube.cache import Change
from kubewright.wire.gvk import Key

CONFIG = Key("n", "config")
REF = ObjectReference(
    api_version="bootstrap.cluster.x-k8s.io/v1beta1", kind="KubeadmConfig", name=CONFIG.name
)
NODE = ObjectReference(kind="Node", name="node")
OWNER = OwnerReference(api_version="cluster.x-k8s.io/v1beta1", kind="Machine", name="m", uid="machine")
WAITS = KubeadmConfigStatus()
READY = KubeadmConfigStatus(ready=True, data_secret_name=CONFIG.name)
MACHINE_BEFORE = Machine(
    metadata=ObjectMeta(name="m", namespace="n", uid="machine", resource_version="1"),
    spec=MachineSpec(cluster_name="c", bootstrap=Bootstrap(config_ref=REF)),
)
JOINED = structs.replace(MACHINE_BEFORE, status=MachineStatus(node_ref=NODE))
WITH_DATA = structs.replace(
    MACHINE_BEFORE,
    spec=structs.replace(
        MACHINE_BEFORE.spec, bootstrap=Bootstrap(config_ref=REF, data_secret_name=CONFIG.name)
    ),
)
NEWER = structs.replace(MACHINE_BEFORE, spec=structs.replace(MACHINE_BEFORE.spec, version="v1.35.0"))
RUNNING = structs.replace(MACHINE_BEFORE, status=MachineStatus(phase="Running"))


def change(before: Machine | None, after: Machine | None) -> Change[Machine]:
    old, new = (None if each is None else headers.read(MACHINE.encode(each)) for each in (before, after))
    return Change(Key("n", "m"), old, new, lambda header: MACHINE.decode(header.data))


def woken(status: KubeadmConfigStatus, owners: tuple[OwnerReference, ...], told: Change[Machine]) -> bool:
    config = KubeadmConfig(
        metadata=ObjectMeta(name=CONFIG.name, namespace=CONFIG.namespace, owner_references=owners),
        status=status,
    )
    configs: dict[Key, Any] = {CONFIG: config}
    caches = SimpleNamespace(configs=configs, machines=SimpleNamespace(by=lambda _index, _value: []))
    return set(Wakes(cast("Caches", caches), cast("Looker", None)).by_machine(told)) == {CONFIG}


@pytest.mark.parametrize(
    ("status", "before", "after", "expected"),
    [
        pytest.param(WAITS, None, MACHINE_BEFORE, True, id="the machine is there"),
        pytest.param(READY, MACHINE_BEFORE, None, True, id="the machine is gone"),
        pytest.param(WAITS, MACHINE_BEFORE, NEWER, True, id="its version is another"),
        pytest.param(READY, MACHINE_BEFORE, NEWER, True, id="also when there is data"),
        pytest.param(WAITS, MACHINE_BEFORE, RUNNING, False, id="its phase is another"),
        pytest.param(WAITS, MACHINE_BEFORE, WITH_DATA, True, id="a user gave it data"),
        pytest.param(READY, MACHINE_BEFORE, WITH_DATA, False, id="it has taken the data that is there"),
        pytest.param(READY, MACHINE_BEFORE, JOINED, False, id="it has joined with the data that is there"),
        pytest.param(WAITS, MACHINE_BEFORE, JOINED, True, id="it has joined, and the status was lost"),
        pytest.param(READY, JOINED, MACHINE_BEFORE, True, id="it must join again, with a token that is good"),
    ],
)
def test_a_change_of_its_machine(
    status: KubeadmConfigStatus, before: Machine | None, after: Machine | None, expected: bool
) -> None:
    assert woken(status, (OWNER,), change(before, after)) is expected


def test_a_machine_that_does_not_own_it_yet_enqueues_nothing() -> None:
    assert not woken(WAITS, (), change(None, MACHINE_BEFORE))
    assert not woken(WAITS, (structs.replace(OWNER, name="other"),), change(None, MACHINE_BEFORE))
