"""From changes to keys."""

from dataclasses import dataclass
from typing import Any

import pytest

from kubewright.api.core import NODE, POD, Pod, PodStatus
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.runtime.controller import (
    alike,
    in_order,
    only,
    own_key,
    spec_or_existence,
    spec_or_life,
    status_alone,
)
from kubewright.wire.gvk import Key

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


def test_own_key_is_the_changed_object():
    assert own_key(Change()) == (ME,)


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


@pytest.mark.parametrize(
    ("old", "new", "matters"),
    [
        pytest.param(None, Header(), True, id="it came"),
        pytest.param(Header(), None, True, id="it went"),
        pytest.param(Header(), Header(generation=2), True, id="its spec changed"),
        pytest.param(Header(), Header(uid="other"), True, id="another object has its name"),
        pytest.param(Header(), Header(deleting=True, labels=("a",)), False, id="deletion and labels"),
    ],
)
def test_spec_or_existence(old, new, matters):
    assert spec_or_existence(Change(old, new)) is matters


def pod(phase="Pending", **metadata):
    return Pod(metadata=ObjectMeta(name="me", **metadata), status=PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("change", "alone", "same_phase"),
    [
        pytest.param(Change(Header(), Header(), pod(), pod(resource_version="2")), True, True, id="nothing"),
        pytest.param(Change(Header(), Header(), pod(), pod("Running")), True, False, id="the phase"),
        pytest.param(
            Change(Header(), Header(), pod(), pod(annotations={"a": "b"})), False, False, id="annotations"
        ),
        pytest.param(
            Change(Header(), Header(), pod(), pod(finalizers=("a",))), False, False, id="finalizers"
        ),
        pytest.param(
            Change(Header(), Header(), pod(), pod(owner_references=(OwnerReference(uid="o"),))),
            False,
            False,
            id="owners",
        ),
        pytest.param(Change(Header(), Header(generation=2), pod(), pod()), False, False, id="the spec"),
        pytest.param(Change(None, Header(), None, pod()), False, False, id="it came"),
    ],
)
def test_status_alone(change, alone, same_phase):
    assert status_alone(change) is alone
    assert status_alone(change, lambda old, new: old.status.phase == new.status.phase) is same_phase


def test_a_comparison_of_ones_own_sees_only_what_is_more_than_status():
    same = Change(Header(), Header(), pod(), pod("Running", annotations={"a": "b"}))
    assert alike(same, lambda old, new: old.name == new.name)
    assert not alike(same, lambda old, new: old.status == new.status)
    assert not alike(Change(Header(), Header(labels=("a",)), pod(), pod()), lambda _old, _new: True)


def test_kinds_used_here_are_what_they_seem():
    assert (NODE.resource.namespaced, POD.resource.namespaced) == (False, True)


A, B, C = Key("a", "z"), Key("b", "a"), Key("b", "b")


@pytest.mark.parametrize(
    ("keys", "ordered"),
    [
        pytest.param({C, A, B}, (A, B, C), id="the keys of a set come by namespace and name"),
        pytest.param(frozenset((C, B)), (B, C), id="those of a frozenset too"),
        pytest.param((C, A, B), (C, A, B), id="the order of a tuple is the mapping's"),
        pytest.param(iter((B, A)), (B, A), id="and so is that of an iterator"),
    ],
)
def test_a_change_wakes_keys_in_the_same_order_in_each_process(keys, ordered):
    assert in_order(keys) == ordered
