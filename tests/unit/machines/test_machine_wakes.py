"""Which changes of a machine wake its controller."""

import pytest
from msgspec import structs

from kubewright.api.machine.v1alpha1 import Machine
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.kube.cache import Change
from kubewright.kube.header import Header
from kubewright.machines.machine.wiring import machine_if_it_matters
from kubewright.testing.scenes import machine
from kubewright.wire.gvk import Key

KEY = Key("default", "m1")
OWNER = OwnerReference(
    api_version="machine.sapcloud.io/v1alpha1", kind="MachineSet", name="s", uid="s1", controller=True
)
RUNNING = machine("Running")


def with_meta(**changes: object) -> Machine:
    meta: ObjectMeta = structs.replace(RUNNING.metadata, **changes)
    return structs.replace(RUNNING, metadata=meta)


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        pytest.param(RUNNING, RUNNING, False, id="nothing"),
        pytest.param(RUNNING, machine("Unknown"), True, id="another phase"),
        pytest.param(RUNNING, with_meta(annotations={"a": "b"}), True, id="an annotation"),
        pytest.param(RUNNING, with_meta(finalizers=()), True, id="a finalizer"),
        pytest.param(with_meta(owner_references=(OWNER,)), RUNNING, True, id="its set lets it go"),
        pytest.param(RUNNING, with_meta(owner_references=(OWNER,)), True, id="a set takes it"),
    ],
)  # fmt: skip
def test_a_change_of_metadata_or_status(before: Machine, after: Machine, wakes: bool) -> None:
    old = Header(KEY, "u1", 1, 1, "", False, b'{"metadata":{}}')
    new = Header(KEY, "u1", 2, 1, "", False, b'{"metadata":{}}')
    change = Change(KEY, old, new, lambda header: before if header is old else after)
    assert list(machine_if_it_matters(change)) == ([KEY] if wakes else [])
