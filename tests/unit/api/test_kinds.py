"""Bytes to values and back: what Go clients write must read, and what we write must be complete."""

import json
from datetime import UTC, datetime

import pytest

from kubewright.api import core
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.core import LEASE, NODE, POD, SECRET, Lease, LeaseSpec, NodeCondition
from kubewright.api.kinds import DROPPED, Kind, Undecodable, dynamic
from kubewright.api.machine import v1alpha1
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    LastOperation,
    Machine,
)
from kubewright.wire.gvk import Resource

KINDS = [value for module in (core, v1alpha1) for value in vars(module).values() if isinstance(value, Kind)]
T0 = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_empty_object_reads_and_is_written_with_its_type(kind):
    obj = kind.decode(b"{}")
    written = json.loads(kind.encode(obj))
    assert written["apiVersion"] == kind.resource.api_version
    assert written["kind"] == kind.resource.kind
    assert kind.decode(kind.encode(obj)) == kind.from_plain(written)


NULLS = [
    (
        "a template's creation time",
        MACHINE_SET,
        {"spec": {"template": {"metadata": {"creationTimestamp": None}}}},
    ),
    ("labels", MACHINE, {"metadata": {"labels": None, "name": "m"}}),
    ("one label", MACHINE, {"metadata": {"labels": {"a": None, "b": "c"}}}),
    ("conditions", MACHINE, {"status": {"conditions": None}}),
    ("an item of a list", NODE, {"spec": {"taints": [None, {"key": "a"}]}}),
    (
        "times inside a condition",
        NODE,
        {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": None}]}},
    ),
    ("a whole spec", MACHINE_DEPLOYMENT, {"spec": None}),
    ("an optional block", MACHINE_DEPLOYMENT, {"spec": {"strategy": {"rollingUpdate": None, "type": None}}}),
    ("data of a secret", SECRET, {"data": None}),
]


@pytest.mark.parametrize(("kind", "obj"), [case[1:] for case in NULLS], ids=[case[0] for case in NULLS])
def test_null_counts_as_absent_in(kind, obj):
    def stripped(value):
        if isinstance(value, dict):
            return {key: stripped(item) for key, item in value.items() if item is not None}
        return [stripped(item) for item in value if item is not None] if isinstance(value, list) else value

    assert kind.decode(json.dumps(obj).encode()) == kind.decode(json.dumps(stripped(obj)).encode())


def test_nulls_inside_a_provider_spec_are_the_drivers_business():
    text = b'{"metadata":{"labels":null},"providerSpec":{"spot":null,"disks":[null,{"size":null}]}}'
    assert MACHINE_CLASS.decode(text).provider_spec == {"spot": None, "disks": [None, {"size": None}]}


BROKEN = [
    ("half an object", POD, b'{"metadata":', ""),
    ("no object at all", POD, b"[]", ""),
    ("bytes that are no text", POD, b"\xff", ""),
    ("text where a number belongs", POD, b'{"spec":{"priority":"high"}}', "spec.priority"),
    ("a wrong type and then half an object", POD, b'{"spec":{"priority":"high"},', ""),
    ("a time without a zone", NODE, b'{"metadata":{"creationTimestamp":"2030-01-01T00:00:00"}}',
     "metadata.creationTimestamp"),
    ("a secret that is no base64", SECRET, b'{"data":{"a":"%%%"}}', "data[...]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "data", "path"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_refuses_and_says_where(kind, data, path):
    with pytest.raises(Undecodable) as caught:
        kind.decode(data)
    assert caught.value.path == path
    assert kind.resource.kind in str(caught.value)


PARTS = [
    ("a wrong text", b'{"spec":{"priority":"high","nodeName":"n"}}', ("n", {}, ())),
    ("a wrong value of a map takes the map", b'{"metadata":{"labels":{"a":1,"b":"c"}}}', ("", {}, ())),
    ("another map stays", b'{"metadata":{"labels":{"b":"c"},"annotations":{"a":1}}}', ("", {"b": "c"}, ())),
    ("a wrong item of a list takes the item", b'{"metadata":{"finalizers":["a",1,"b"]}}', ("", {}, ("a", "b"))),
    ("several wrong fields", b'{"spec":[],"metadata":{"finalizers":[1,2,"b"],"generation":"x"}}', ("", {}, ("b",))),
    ("nothing wrong", b'{"spec":{"nodeName":"n"}}', ("n", {}, ())),
]  # fmt: skip


@pytest.mark.parametrize(("data", "read"), [case[1:] for case in PARTS], ids=[case[0] for case in PARTS])
def test_what_can_be_read_is_read(data, read):
    found = POD.part(data)
    assert (found.spec.node_name, found.metadata.labels, found.metadata.finalizers) == read


@pytest.mark.parametrize(
    ("data", "paused"),
    [
        (b'{"spec":{"paused":"yes"}}', True),
        (b'{"spec":"well"}', True),
        (b'{"spec":{"paused":false,"clusterNetwork":{"apiServerPort":1.5}}}', False),
        (b'{"spec":{"clusterNetwork":7}}', False),
        (b'{"spec":{"paused":null,"clusterNetwork":7}}', False),
    ],
)
def test_a_brake_that_cannot_be_read_is_not_off(data, paused):
    assert CLUSTER.part(data).spec.paused is paused


@pytest.mark.parametrize("data", [b"[]", b'{"metadata":', b"\xff"])
def test_of_what_is_no_object_there_is_no_part(data):
    with pytest.raises(Undecodable):
        POD.part(data)


def test_as_many_fields_as_are_left_out_at_most():
    many = ",".join(["1"] * DROPPED)
    assert POD.part(b'{"metadata":{"finalizers":[%s]}}' % many.encode()).metadata.finalizers == ()
    with pytest.raises(Undecodable):
        POD.part(b'{"metadata":{"finalizers":[%s,1]}}' % many.encode())


def test_wire_names_where_camel_case_is_not_the_rule():
    machine = {
        "spec": {
            "class": {"kind": "MachineClass", "name": "c"},
            "providerID": "sim:///a",
            "nodeTemplate": {
                "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "externalID": "x"}
            },
        }
    }
    read = MACHINE.from_plain(machine)
    assert read.spec.machine_class.name == "c"
    assert read.spec.provider_id == "sim:///a"
    assert MACHINE.to_plain(read)["spec"] == {
        **machine["spec"],
        "nodeTemplate": {"metadata": {}, **machine["spec"]["nodeTemplate"]},
    }


def test_a_set_keeps_its_conditions_under_upstreams_name():
    read = MACHINE_SET.from_plain({"status": {"machineSetCondition": [{"type": "Frozen", "status": "True"}]}})
    assert read.status.machine_set_condition[0].type == "Frozen"


def test_our_times_are_whole_seconds():
    written = MACHINE.to_plain(
        Machine(
            status=v1alpha1.MachineStatus(
                last_operation=LastOperation(last_update_time=T0.replace(microsecond=5))
            )
        )
    )
    assert written["status"]["lastOperation"]["lastUpdateTime"] == "2030-01-01T12:00:00Z"


def test_a_lease_always_shows_a_fraction_of_a_second():
    written = LEASE.to_plain(Lease(spec=LeaseSpec(holder_identity="a", renew_time=T0)))
    assert written["spec"]["renewTime"] == "2030-01-01T12:00:00.000001Z"


def test_a_dynamic_kind_is_a_plain_dict():
    kind = dynamic(Resource("example.org", "v1", "things", "Thing"))
    assert kind.decode(b'{"spec":{"a":null}}') == {"spec": {"a": None}}
    assert json.loads(kind.encode({"spec": {}})) == {
        "apiVersion": "example.org/v1",
        "kind": "Thing",
        "spec": {},
    }


def test_kinds_are_equal_by_what_they_say():
    resource = Resource("example.org", "v1", "things", "Thing")
    assert dynamic(resource) == dynamic(resource)
    assert len({dynamic(resource), dynamic(resource), POD}) == 2


def test_values_cannot_be_changed():
    with pytest.raises(AttributeError):
        NodeCondition(type="Ready").type = "Other"


def test_a_secret_shows_its_keys_only():
    secret = SECRET.decode(b'{"metadata":{"name":"s"},"data":{"token":"aHVudGVyMg=="}}')
    assert secret.data["token"] == b"hunter2"
    assert "hunter2" not in repr(secret)


def test_an_object_that_is_nested_too_deep_is_undecodable() -> None:
    with pytest.raises(Undecodable, match=r"spec\.class"):
        MACHINE.decode(b'{"spec": {"class": ' + b'{"a":' * 3_000 + b"1" + b"}" * 3_002)
