"""From changes to keys."""

from dataclasses import dataclass
from typing import Any

import pytest

from kubewright.api.core import NODE, POD, Pod
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.runtime.mapping import by_index, only, own_key, owner_of, referenced, spec_or_life
from kubewright.wire.gvk import Key, Resource

SETS = Resource("machine.sapcloud.io", "v1alpha1", "machinesets", "MachineSet")
ME = Key("ns", "me")


@dataclass
class Header:
    uid: str = "u"
    owner_uid: str = ""
    generation: int = 1
    deleting: bool = False
    labels: tuple = ()


@dataclass
class Change:
    old: Any = None
    new: Any = None
    was: Any = None
    is_: Any = None
    key: Key = ME

    def before(self):
        return self.was

    def after(self):
        return self.is_


def pod(*owners):
    return Pod(metadata=ObjectMeta(name="me", namespace="ns", owner_references=owners))


def ref(name, kind="MachineSet", group="machine.sapcloud.io/v1alpha1", controller=True):
    return OwnerReference(api_version=group, kind=kind, name=name, uid=name, controller=controller)


def change(before, after):
    def header(side):
        return side and Header(
            owner_uid=next((o.uid for o in side.metadata.owner_references if o.controller), "")
        )

    return Change(header(before), header(after), before, after)


CASES = [
    pytest.param(None, pod(ref("a")), {"a"}, id="a new child wakes its owner"),
    pytest.param(pod(ref("a")), None, {"a"}, id="a lost child wakes its owner"),
    pytest.param(pod(ref("a")), pod(ref("b")), {"a", "b"}, id="a child that moves wakes both"),
    pytest.param(pod(ref("a")), pod(), {"a"}, id="a child that is released wakes its former owner"),
    pytest.param(pod(ref("a")), pod(ref("a")), {"a"}, id="a changed child wakes its owner"),
    pytest.param(pod(), pod(), set(), id="an orphan wakes nobody"),
    pytest.param(None, pod(ref("a", controller=False)), set(), id="a mere owner is not woken"),
    pytest.param(None, pod(ref("a", kind="Job")), set(), id="an owner of another kind is not woken"),
    pytest.param(None, pod(ref("a", group="x/v1")), set(), id="an owner of another group is not woken"),
    pytest.param(
        None, pod(ref("a", group="machine.sapcloud.io/v1")), {"a"}, id="the version does not matter"
    ),
]


@pytest.mark.parametrize(("before", "after", "names"), CASES)
def test_owner_of(before, after, names):
    assert owner_of(SETS)(change(before, after)) == {Key("ns", name) for name in names}


def test_owner_of_a_plain_object():
    obj = {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "controller": True}]
        }
    }
    mapped = owner_of(NODE.resource)(Change(new=Header(owner_uid="n"), is_=obj))
    assert mapped == {Key("", "n")}


def test_own_key_and_what_an_object_names():
    assert own_key(Change()) == (ME,)
    names = referenced(lambda obj: [Key("", obj)])
    assert names(Change(was="a", is_="b")) == {Key("", "a"), Key("", "b")}


def test_by_index_looks_up_both_sides():
    class Informer:
        def keys_by(self, index, value):
            return {("node", "n1"): frozenset({ME})}.get((index, value), frozenset())

    mapped = by_index(Informer(), "node", lambda obj: [obj])
    assert mapped(Change(was="n1", is_="n2")) == {ME}
    assert mapped(Change(is_="n2")) == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "matters"),
    [
        pytest.param(None, Header(), True, id="creation"),
        pytest.param(Header(), None, True, id="end"),
        pytest.param(Header(), Header(), False, id="status only"),
        pytest.param(Header(), Header(generation=2), True, id="spec"),
        pytest.param(Header(), Header(deleting=True), True, id="deletion begun"),
        pytest.param(Header(), Header(uid="other"), True, id="another object of that name"),
    ],
)
def test_spec_or_life(old, new, matters):
    assert bool(list(only(spec_or_life)(Change(old, new)))) is matters


def test_kinds_used_here_are_what_they_seem():
    assert (NODE.resource.namespaced, POD.resource.namespaced) == (False, True)
