"""What is cloned for a new machine of a set: whose clones count as its own, and which are taken back."""

from collections.abc import Mapping
from typing import Any

import pytest

from kubewright.api.cluster.v1beta1 import MACHINE, MACHINE_SET, ObjectReference
from kubewright.api.kinds import dynamic
from kubewright.clusters.external.object import External
from kubewright.clusters.machineset.around import Around
from kubewright.clusters.machineset.clones import create, discard
from kubewright.testing.looks import Shelf
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Resource

GROUP, THERE = "foo.example.com", "/apis/foo.example.com/v1/namespaces/n"
CONFIG, INFRA = f"{THERE}/fooconfigs/x", f"{THERE}/foomachines/x"
MACHINE_PATH = MACHINE.resource.path("n", "x")
SET = MACHINE_SET.from_plain(
    {"metadata": {"name": "s", "namespace": "n", "uid": "s"}, "spec": {"clusterName": "c"}}
)
OF_THE_SET = {"apiVersion": MACHINE_SET.resource.api_version, "kind": "MachineSet", "name": "s", "uid": "s"}
OF_ITS_MACHINE = {"apiVersion": MACHINE.resource.api_version, "kind": "Machine", "name": "x", "uid": "x"}
OF_ANOTHER = {**OF_THE_SET, "name": "t", "uid": "t"}


def template(kind: str) -> External:
    ref = ObjectReference(api_version=f"{GROUP}/v1", kind=kind, namespace="n", name="t")
    served = dynamic(Resource(GROUP, "v1", f"{kind.lower()}s", kind))
    return External(ref, {"spec": {"template": {"spec": {"size": 1}}}}, served)


AROUND = Around(bootstrap=template("FooConfigTemplate"), infrastructure=template("FooMachineTemplate"))


def there(*owners: Mapping[str, Any], deleting: bool = False) -> Shelf:
    """A server on which there is an infrastructure object of the name already."""
    shelf = Shelf()
    meta: dict[str, Any] = {"name": "x", "namespace": "n", "uid": "i", "ownerReferences": list(owners)}
    if deleting:
        meta |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["foo.example.com/vm"]}
    shelf.objects[INFRA] = {"metadata": {**meta, "resourceVersion": "1"}}
    return shelf


@pytest.mark.parametrize("owner", [OF_THE_SET, OF_ITS_MACHINE], ids=["the set's", "its machine's"])
async def test_a_clone_of_an_earlier_attempt_is_taken(owner):
    shelf = there(owner)
    await create(shelf.client, SET, AROUND, "x")
    assert shelf.objects[MACHINE_PATH]["spec"]["infrastructureRef"]["name"] == "x"
    assert set(shelf.objects) == {CONFIG, INFRA, MACHINE_PATH}


@pytest.mark.parametrize(
    ("owner", "deleting"),
    [(OF_ANOTHER, False), (OF_THE_SET, True), (OF_ITS_MACHINE, True)],
    ids=[
        "another set's",
        "the set's, which is being deleted",
        "an earlier machine's, which is being deleted",
    ],
)
async def test_no_machine_is_made_on_a_clone_that_is_not_its_own_for_good(owner, deleting):
    shelf = there(owner, deleting=deleting)
    with pytest.raises(AlreadyExists):
        await create(shelf.client, SET, AROUND, "x")
    assert MACHINE_PATH not in shelf.objects
    await discard(shelf.client, SET, AROUND, "x")
    assert (CONFIG in shelf.objects, INFRA in shelf.objects) == (False, owner is OF_ANOTHER)
