"""Headers: what is read from an object's bytes, and what an answer says about its life."""

import json
from typing import Any

import pytest

from kubewright.api.kinds import Undecodable
from kubewright.api.machine.v1alpha1 import MACHINE
from kubewright.kube import header
from kubewright.kube.errors import BadAnswer
from kubewright.kube.header import Header, read_page
from kubewright.kube.scope import Scope
from kubewright.wire import watch
from kubewright.wire.gojson import MOST_READ
from kubewright.wire.gvk import Key


def body(spec: Any = None, **metadata: Any) -> bytes:
    base = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    return json.dumps({"metadata": {**base, **metadata}, "spec": spec or {}}, separators=(",", ":")).encode()


def test_a_header_is_what_the_metadata_says() -> None:
    owners = [{"uid": "o1"}, {"uid": "o2", "controller": True}]
    data = body(
        labels={"x": "y"},
        generation=3,
        ownerReferences=owners,
        deletionTimestamp="2030-01-01T00:00:00Z",
        finalizers=["f"],
    )
    assert header.read(data) == Header(Key("n", "a"), "u", 7, 3, "o2", True, data)
    assert header.read(data).labels == {"x": "y"}
    assert header.read(data).finalizers == ["f"]


def test_a_bare_object_has_a_header_too() -> None:
    found = header.read(b'{"metadata":{"name":"a","resourceVersion":"1"}}')
    assert (found.key, found.uid, dict(found.labels), found.owner_uid, found.deleting) == (
        Key("", "a"),
        "",
        {},
        "",
        False,
    )


@pytest.mark.parametrize(
    "data", [b"<html>", b"[]", b"{}", b'{"metadata":{"name":"a"}}', body(resourceVersion="x"), body(uid=3)]
)
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        header.read(data)


def test_a_secret_does_not_show_in_the_representation() -> None:
    assert "hidden" not in repr(header.read(body(spec={"key": "hidden"})))


@pytest.mark.parametrize("place", ["first", "middle", "last", "alone"])
def test_managed_fields_are_not_kept(place: str) -> None:
    managed = [{"manager": "m", "fieldsV1": {'f:"x"': {}}}]
    meta = {"name": "a", "resourceVersion": "1"}
    names = {"first": ["managedFields", *meta], "middle": ["name", "managedFields", "resourceVersion"]}
    order = names.get(place, [*meta, "managedFields"])
    whole = {**meta, "managedFields": managed}
    data = json.dumps({"metadata": {name: whole[name] for name in order}}, separators=(",", ":")).encode()
    found = header.read(data)
    assert json.loads(found.data) == {"metadata": meta}


def test_managed_fields_that_stand_twice_stay() -> None:
    """Rather too much than the wrong ones cut out."""
    managed = [{"manager": "m"}]
    data = body(spec={"template": {"managedFields": managed}}, managedFields=managed)
    assert header.read(data).data == data


NOW = "2030-01-01T00:00:00Z"
LIVES = [
    ("a plain object lives", body(), False, True),
    ("a finalizer holds it", body(deletionTimestamp=NOW, finalizers=["f"]), False, True),
    ("a grace period holds it", body(deletionTimestamp=NOW, deletionGracePeriodSeconds=30), True, True),
    (
        "a namespace is held by its spec",
        body({"finalizers": ["kubernetes"]}, deletionTimestamp=NOW),
        True,
        True,
    ),
    ("the last finalizer was taken away", body(deletionTimestamp=NOW, finalizers=[]), False, False),
    (
        "a pod was deleted without grace",
        body(deletionTimestamp=NOW, deletionGracePeriodSeconds=0),
        True,
        False,
    ),
    ("a delete answered with the object as it was", body(), True, False),
]


@pytest.mark.parametrize(
    ("data", "deleted", "lives"), [case[1:] for case in LIVES], ids=[case[0] for case in LIVES]
)
def test_whether_an_object_lives_after_a_write(data: bytes, deleted: bool, lives: bool) -> None:
    assert header.read_answer(data, deleted=deleted)[1] is lives


SCOPES = [
    ("everything", Scope(), True),
    ("its namespace", Scope("n"), True),
    ("another namespace", Scope("m"), False),
    ("its labels", Scope(labels="x in (y, z)"), True),
    ("other labels", Scope(labels="x!=y"), False),
    ("its fields", Scope(fields="metadata.name=a,spec.nodeName=w,spec.unschedulable=true"), True),
    ("an absent field is empty", Scope(fields="spec.other="), True),
    ("other fields", Scope(fields="spec.nodeName!=w"), False),
]


@pytest.mark.parametrize(("scope", "covers"), [case[1:] for case in SCOPES], ids=[case[0] for case in SCOPES])
def test_a_scope_takes_what_the_server_would_send(scope: Scope, covers: bool) -> None:
    data = body({"nodeName": "w", "unschedulable": True}, labels={"x": "y"})
    assert scope.covers(header.read(data)) is covers


def nested(levels: int) -> bytes:
    deep = '{"a":' * levels + "1" + "}" * levels
    meta = '{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}'
    spec = f'{{"class":{{"name":"c"}},"providerID":{deep},"text":"}}]"}}'
    return f'{{"metadata":{meta},"spec":{spec}}}'.encode()


@pytest.mark.parametrize("levels", [MOST_READ, 950, 3_000])
def test_an_object_that_is_nested_too_deep_is_told_and_spoils_no_list(levels: int) -> None:
    """A real API server takes 10,000 levels."""
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (nested(2), nested(levels))
    whole, cut = (header.read(bytes(item)) for item in read_page(body).items)
    event = header.read(watch.decode(watch.encode(watch.ADDED, nested(levels)).strip()).data)
    assert (whole.data, cut.key, event) == (nested(2), Key("n", "a"), cut)
    assert json.loads(cut.data)["spec"] == {
        "class": {"name": "c"},
        "providerID": "it is nested too deeply",
        "text": "}]",
    }
    with pytest.raises(Undecodable, match=r"spec.class: Expected"):
        MACHINE.decode(header.read(nested(levels).replace(b'"providerID"', b'"class"')).data)


def test_an_object_that_is_not_nested_too_deep_stays_as_it_is() -> None:
    assert header.read(nested(MOST_READ - 3)).data == nested(MOST_READ - 3)
