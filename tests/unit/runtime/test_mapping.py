"""From changes to keys."""

from dataclasses import dataclass
from typing import Any

import pytest

from kubewright.api.core import NODE, POD
from kubewright.runtime.mapping import only, own_key, spec_or_life
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


def test_kinds_used_here_are_what_they_seem():
    assert (NODE.resource.namespaced, POD.resource.namespaced) == (False, True)
