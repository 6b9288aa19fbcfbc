"""Which control planes and components admission accepts, and what it says of the others."""

import pytest

from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE, CONTROL_PLANE_SNAPSHOT_SCHEDULE
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_CONTROL_PLANE,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NESTED_ETCD,
)
from kubewright.api.controlplane.validate import (
    validate_component,
    validate_control_plane,
    validate_restore,
    validate_schedule,
    validate_template,
)

GROUP = "controlplane.cluster.x-k8s.io"
SECRET = {"name": "oidc", "key": "ca.crt"}


def component(**spec):
    return NESTED_ETCD.from_plain({"spec": spec}).spec


def plane(name="demo", **spec):
    metadata = {"name": name, "namespace": "default"}
    return NESTED_CONTROL_PLANE.from_plain({"metadata": metadata, "spec": spec})


def messages(errors):
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing at all, as in the manifests of v0.1.0"),
        pytest.param({"replicas": 1}, id="one instance"),
        pytest.param({"replicas": 0}, id="no instance, which the controller answers with a condition"),
        pytest.param({"version": "1.36.3"}, id="a version"),
        pytest.param({"version": "v1.36.3"}, id="a version with its letter"),
        pytest.param({"channel": "stable"}, id="a channel"),
        pytest.param({"channel": "1.36"}, id="a minor version as a channel"),
        pytest.param({"channel": "stable", "version": "1.36.3"}, id="both, of which the version counts"),
        pytest.param(
            {"patches": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": 1}}]},
            id="a part of an object as a patch",
        ),
        pytest.param(
            {"patches": [{"target": {"kind": "StatefulSet"}, "type": "json", "patch": [{"op": "remove"}]}]},
            id="a patch with a target",
        ),
        pytest.param({"extraArgs": {"v": "2", "oidc-issuer-url": "https://i"}}, id="flags"),
        pytest.param({"withoutArgs": ["anonymous-auth"]}, id="a flag that is not wanted"),
        pytest.param({"extraFiles": [{"path": "oidc/ca.crt", "secret": SECRET}]}, id="a file from a Secret"),
    ],
)
def test_a_component_is_accepted(spec):
    assert validate_component(component(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param(
            {"version": "../../etc"},
            'spec.version: Invalid value: "../../etc": must be a version such as 1.36.3',
            id="a version that leaves its folder",
        ),
        pytest.param(
            {"version": "1..2"},
            'spec.version: Invalid value: "1..2": must be a version such as 1.36.3',
            id="a version with two dots in a row",
        ),
        pytest.param(
            {"channel": "a/b"},
            'spec.channel: Invalid value: "a/b": must be lower-case letters, such as stable, or a minor '
            "version, such as 1.36",
            id="a path as a channel",
        ),
        pytest.param(
            {"patches": [{"spec": {}}]},
            "spec.patches[0]: Required value: needs apiVersion and kind of what it changes, or a target",
            id="a patch of nothing",
        ),
        pytest.param(
            {"patches": [{"target": {"kind": "StatefulSet"}}]},
            "spec.patches[0].patch: Required value: a patch with a target needs what it changes",
            id="a target without a change",
        ),
        pytest.param(
            {"patches": [{"target": "StatefulSet", "patch": {"spec": {}}}]},
            'spec.patches[0].target: Invalid value: "StatefulSet": must be an object',
            id="a target that is a word",
        ),
        pytest.param(
            {"patches": [{"target": {}, "type": "yaml", "patch": {"spec": {}}}]},
            'spec.patches[0].type: Invalid value: "yaml": must be one of strategic, merge, json',
            id="a patch of an unknown form",
        ),
        pytest.param(
            {"replicas": -1},
            "spec.replicas: Invalid value: -1: must not be negative",
            id="fewer than no instances",
        ),
        pytest.param(
            {"extraArgs": {"--v": "2"}},
            'spec.extraArgs[--v]: Invalid value: "--v": must be the name of a flag, without dashes before it',
            id="a flag with its dashes",
        ),
        pytest.param(
            {"extraArgs": {"v": "2"}, "withoutArgs": ["v"]},
            "spec.extraArgs[v]: Forbidden: spec.withoutArgs names it too",
            id="a flag that is both set and not wanted",
        ),
        pytest.param(
            {"extraFiles": [{"path": "../key", "secret": SECRET}]},
            'spec.extraFiles[0].path: Invalid value: "../key": must be a path below the component\'s folder, '
            "without . and ..",
            id="a file outside the folder",
        ),
        pytest.param(
            {"extraFiles": [{"path": "a", "secret": SECRET}, {"path": "a", "configMap": SECRET}]},
            'spec.extraFiles[1].path: Invalid value: "a": another file has it',
            id="two files of one path",
        ),
        pytest.param(
            {"extraFiles": [{"path": "a"}]},
            "spec.extraFiles[0]: Required value: needs one source: a secret or a configMap",
            id="a file without a source",
        ),
    ],
)
def test_a_component_is_refused(spec, told):
    assert messages(validate_component(component(**spec))) == [told]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no component"),
        pytest.param({"etcd": {"name": "demo-etcd"}}, id="a name alone"),
        pytest.param(
            {"etcd": {"apiVersion": f"{GROUP}/v1alpha4", "kind": "NestedEtcd", "name": "e"}},
            id="a whole reference",
        ),
        pytest.param({"etcd": {"name": "e", "namespace": "default"}}, id="the same namespace"),
        pytest.param({"version": "v1.36.3", "replicas": 3}, id="a version and three instances"),
    ],
)
def test_a_control_plane_is_accepted(spec):
    assert validate_control_plane(plane(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param(
            {"etcd": {"kind": "NestedEtcd"}},
            "spec.etcd.name: Required value: it names no object",
            id="a reference without a name",
        ),
        pytest.param(
            {"apiserver": {"kind": "NestedEtcd", "name": "e"}},
            'spec.apiserver.kind: Invalid value: "NestedEtcd": must be NestedAPIServer',
            id="a reference to another component",
        ),
        pytest.param(
            {"controllerManager": {"apiVersion": "v1", "name": "e"}},
            None,
            id="the core group, which an apiVersion without a slash means, says nothing",
        ),
        pytest.param(
            {"controllerManager": {"apiVersion": "apps/v1", "name": "e"}},
            f'spec.controllerManager.apiVersion: Invalid value: "apps/v1": must be of the group {GROUP}',
            id="a reference to another group",
        ),
        pytest.param(
            {"etcd": {"name": "e", "namespace": "other"}},
            'spec.etcd.namespace: Invalid value: "other": components are in the namespace of their control '
            "plane",
            id="a reference to another namespace",
        ),
        pytest.param(
            {"version": "new/est"},
            'spec.version: Invalid value: "new/est": must be a version such as 1.36.3',
            id="a version that is none",
        ),
        pytest.param(
            {"replicas": -3},
            "spec.replicas: Invalid value: -3: must not be negative",
            id="fewer than no instances",
        ),
        pytest.param(
            {"schedule": [{"sleep": "0 20 * * 1-5", "wake": "0 7 * * 1-5", "timeZone": "Europe/Berlin"}]},
            None,
            id="a schedule of nights",
        ),
        pytest.param(
            {"schedule": [{"timeZone": "UTC"}]},
            "spec.schedule[0]: Required value: needs sleep, wake, or both",
            id="a schedule without a moment",
        ),
        pytest.param(
            {"schedule": [{"sleep": "0 25 * * *"}]},
            'spec.schedule[0].sleep: Invalid value: "0 25 * * *": it cannot be read: bad hour',
            id="an hour that is none",
        ),
        pytest.param(
            {"schedule": [{"wake": "0 7 * * *", "timeZone": "../Berlin"}]},
            "spec.schedule[0].timeZone: Invalid value: \"../Berlin\": there is no time zone '../Berlin', such as "
            "Europe/Berlin",
            id="a time zone that is none",
        ),
        pytest.param(
            {"schedule": [{"sleep": "0 20 * * *"}] * 101},
            "spec.schedule: Invalid value: 101: may have 100 entries at most",
            id="more entries than anybody needs",
        ),
    ],
)
def test_a_control_plane_is_refused(spec, told):
    assert messages(validate_control_plane(plane(**spec))) == ([told] if told else [])


def test_a_name_leaves_room_for_the_names_of_workloads():
    assert validate_control_plane(plane(name="a" * 33)) == []
    assert messages(validate_control_plane(plane(name="a" * 34))) == [
        f'metadata.name: Invalid value: "{"a" * 34}": must be no longer than 33 characters, since names of '
        "workloads end in it"
    ]


def test_a_template_is_checked_like_what_is_made_from_it():
    body = {"spec": {"template": {"spec": {"etcd": {"name": ""}, "replicas": -1}}}}
    assert messages(validate_template(NESTED_CONTROL_PLANE_TEMPLATE.from_plain(body))) == [
        "spec.template.spec.etcd.name: Required value: it names no object",
        "spec.template.spec.replicas: Invalid value: -1: must not be negative",
    ]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"timeZone": "Europe/Berlin"}, None, id="every hour in a zone"),
        pytest.param(
            {"schedule": "61 * * * *"},
            'spec.schedule: Invalid value: "61 * * * *": it cannot be read: bad minute',
            id="a minute that is none",
        ),
        pytest.param(
            {"schedule": "often"},
            'spec.schedule: Invalid value: "often": a schedule has five fields: minute, hour, day of month, '
            "month, day of week",
            id="a word",
        ),
        pytest.param(
            {"timeZone": "../etc"},
            "spec.timeZone: Invalid value: \"../etc\": there is no time zone '../etc', such as Europe/Berlin",
            id="a time zone that is a path",
        ),
        pytest.param(
            {"schedule": f"{'0,' * 480}0 * * * *"}, None, id="an expression that is long and says little"
        ),
    ],
)
def test_a_schedule_of_snapshots_is_checked(spec, told):
    body = {"spec": {"controlPlaneName": "demo", "schedule": "0 * * * *", **spec}}
    found = validate_schedule(CONTROL_PLANE_SNAPSHOT_SCHEDULE.from_plain(body))
    assert messages(found) == ([told] if told else [])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("schedule", "0," * 300_000 + "0 * * * *", ": it has 600009 characters, and may have 1000 at most"),
        ("schedule", "1" * 5_000 + " * * * *", ": it has 5008 characters, and may have 1000 at most"),
        ("timeZone", "a/" * 300, ": there is no time zone of 600 characters; one is Europe/Berlin"),
    ],
    ids=["a list of numbers", "a long number", "a long time zone"],
)
def test_a_text_that_no_schedule_needs_is_refused_before_it_is_read(field, value, words):
    body = {"spec": {"controlPlaneName": "demo", "schedule": "0 * * * *", field: value}}
    (told,) = messages(validate_schedule(CONTROL_PLANE_SNAPSHOT_SCHEDULE.from_plain(body)))
    assert told.endswith(words)
    assert told.startswith(f'spec.{field}: Invalid value: "{value[:50]}')


FILE = "default/demo/first-1"
ITS_NAME = "must be default/, and two more names with a slash between them, as status.file was"
BUCKET = {"bucket": {"bucket": "kept", "secretName": "s3"}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"snapshotName": "first"}, [], id="a snapshot"),
        pytest.param({}, ["spec.snapshotName: Required value: it names no object"], id="nothing"),
        pytest.param({"controlPlaneName": "demo", "file": {"name": FILE}}, [], id="a file"),
        pytest.param(
            {"file": {"name": FILE}},
            ["spec.controlPlaneName: Required value: it names no object"],
            id="a file without a control plane",
        ),
        pytest.param(
            {"controlPlaneName": "demo", "snapshotName": "first", "file": {"name": FILE}},
            ["spec.snapshotName: Forbidden: a file is named too"],
            id="a snapshot and a file",
        ),
        *(
            pytest.param(
                {"controlPlaneName": "demo", "file": {"name": name}},
                [f'spec.file.name: Invalid value: "{name}": {ITS_NAME}'],
                id=what,
            )
            for name, what in (
                ("other/demo/first-1", "a file of another namespace"),
                ("default/../other/demo/first-1", "a file above its folder"),
                ("default/demo", "a folder"),
                ("default/demo/..", "what is above"),
                ("", "no name"),
            )
        ),
        pytest.param(
            {"controlPlaneName": "demo", "file": {"name": "any/key", "location": BUCKET}}, [], id="a key"
        ),
        pytest.param(
            {"controlPlaneName": "demo", "file": {"name": FILE, "location": {"folder": "../up"}}},
            [
                'spec.file.location.folder: Invalid value: "../up": must be names of letters, digits, dashes '
                "and dots, with slashes between them"
            ],
            id="a folder that is elsewhere",
        ),
        pytest.param(
            {"controlPlaneName": "demo", "file": {"name": FILE, "sha256": "A" * 64}},
            [f'spec.file.sha256: Invalid value: "{"A" * 64}": must be 64 digits of 0-9 and a-f'],
            id="no SHA-256",
        ),
    ],
)
def test_a_restore_names_a_snapshot_or_a_file(spec, told):
    body = {"metadata": {"name": "back", "namespace": "default"}, "spec": spec}
    assert messages(validate_restore(CONTROL_PLANE_RESTORE.from_plain(body))) == told
