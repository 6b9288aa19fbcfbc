"""Components in pods: the objects that there should be, and what is done with those that there are."""

from dataclasses import replace

import pytest

from kubewright.api.controlplane.names import MANIFEST_ANNOTATION, Component
from kubewright.api.controlplane.v1alpha4 import API_VERSION
from kubewright.api.meta import OwnerReference
from kubewright.controlplanes.hosting.contract import Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.pods import objects
from kubewright.controlplanes.hosting.pods.objects import Change, Create, Leave, Obstacle, covers, decide
from kubewright.controlplanes.templates.render import Rendered

PLACE = WorkloadIdentity(
    "team",
    "demo",
    Component.ETCD,
    OwnerReference(api_version=API_VERSION, kind="NestedEtcd", name="mine", uid="u-1"),
)
NAMES = {"component-name": "mine", "controlplane.cluster.x-k8s.io/component": "etcd"}
LABELS = {**NAMES, "cluster.x-k8s.io/cluster-name": "demo"}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "demo-etcd", "namespace": "team"},
    "spec": {"clusterIP": "None", "selector": {"component-name": "mine"}},
}
STATEFUL_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "demo-etcd", "namespace": "team", "annotations": {"mine": "yes"}},
    "spec": {
        "serviceName": "demo-etcd",
        "replicas": 1,
        "selector": {"matchLabels": {"component-name": "mine"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        "template": {
            "metadata": {"labels": {"component-name": "mine", "more": "x"}},
            "spec": {
                "containers": [
                    {
                        "name": "etcd",
                        "env": [{"name": "GOGC", "value": "40"}, {"name": "HOST", "value": "elsewhere"}],
                        "resources": {"limits": {"memory": "1Gi"}},
                    }
                ]
            },
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
    },
}
CLAIMS = "persistentVolumeClaimRetentionPolicy"


def workload(*manifests, replicas=3, **changes):
    rendered = Rendered(manifests or (STATEFUL_SET, SERVICE))
    return Workload(PLACE, "3.6.8", rendered, replicas, **changes)


def made(*manifests, **changes):
    return {each["kind"]: each for each in objects.wanted(workload(*manifests, **changes))}


def template(found):
    return found["StatefulSet"]["spec"]["template"]


def environment(found):
    return {each["name"]: each.get("value") for each in template(found)["spec"]["containers"][0]["env"]}


# ---------------------------------------------------------------- what there should be


def test_services_come_first_since_the_stateful_set_needs_them():
    assert [each["kind"] for each in objects.wanted(workload())] == ["Service", "StatefulSet"]


def test_the_component_object_is_the_controlling_owner_of_everything():
    owner = {
        "apiVersion": API_VERSION,
        "kind": "NestedEtcd",
        "name": "mine",
        "uid": "u-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert [each["metadata"]["ownerReferences"] for each in made().values()] == [[owner], [owner]]


def test_everything_has_our_labels_and_keeps_its_own():
    found = made()
    assert [each["metadata"]["labels"] for each in found.values()] == [LABELS, LABELS]
    assert template(found)["metadata"]["labels"] == {**LABELS, "more": "x"}


def test_selectors_tell_objects_of_two_kinds_and_one_name_apart():
    found = made()
    assert found["Service"]["spec"]["selector"] == NAMES
    assert found["StatefulSet"]["spec"]["selector"] == {"matchLabels": NAMES}


def test_a_service_that_a_patch_points_elsewhere_stays_so():
    elsewhere = {**SERVICE, "spec": {"selector": {"app": "proxy"}}}
    assert made(STATEFUL_SET, elsewhere)["Service"]["spec"]["selector"] == {"app": "proxy"}


def test_pods_carry_the_fingerprint_and_the_version():
    asked = workload(contents={"demo-etcd": {"tls.crt": b"x"}})
    (annotations,) = [
        each["spec"]["template"]["metadata"]["annotations"]
        for each in objects.wanted(asked)
        if each["kind"] == "StatefulSet"
    ]
    assert annotations == {
        "controlplane.cluster.x-k8s.io/fingerprint": asked.fingerprint,
        "controlplane.cluster.x-k8s.io/version": "3.6.8",
    }


def test_instances_find_themselves_in_their_environment():
    found = environment(made(environment={"INITIAL_CLUSTER_STATE": "new"}))
    assert found == {
        "INSTANCE": None,
        "NAMESPACE": None,
        "ADDRESS": None,
        "HOST": "elsewhere",
        "ADVERTISE_ADDRESS": "$(ADDRESS)",
        "ENDPOINT_RECONCILER": "lease",
        "PKI_DIR": "/etc/kubernetes/pki",
        "FILES_DIR": "/etc/kubernetes/files",
        "DATA_DIR": "/var/lib/etcd/data",
        "INITIAL_CLUSTER_STATE": "new",
        "GOGC": "40",
    }


def test_a_host_is_named_by_the_pod_and_its_service():
    plain = {**STATEFUL_SET, "spec": {**STATEFUL_SET["spec"], "template": {"spec": {"containers": [{}]}}}}
    assert environment(made(plain))["HOST"] == "$(INSTANCE).demo-etcd.$(NAMESPACE).svc"


@pytest.mark.parametrize(
    ("replicas", "scaled"),
    [
        pytest.param(3, "Delete", id="the claims of instances that are too many go"),
        pytest.param(0, "Retain", id="all claims stay while it sleeps"),
    ],
)
def test_claims(replicas, scaled):
    spec = made(replicas=replicas)["StatefulSet"]["spec"]
    assert (spec["replicas"], spec[CLAIMS]) == (replicas, {"whenDeleted": "Retain", "whenScaled": scaled})


def test_pods_are_replaced_one_by_one_by_us_alone():
    assert made()["StatefulSet"]["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_without_claims_nothing_is_said_of_them():
    spec = {name: value for name, value in STATEFUL_SET["spec"].items() if name != "volumeClaimTemplates"}
    assert CLAIMS not in made({**STATEFUL_SET, "spec": spec})["StatefulSet"]["spec"]


def test_contents_of_secrets_are_in_no_object():
    assert b"hunter2" not in repr(objects.wanted(workload(contents={"s": {"k": b"hunter2"}}))).encode()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param(workload(), "", id="what we make"),
        pytest.param(
            workload(STATEFUL_SET, {"kind": "ConfigMap", "metadata": {"name": "more"}}),
            "the templates have the ConfigMap more; components in pods are made of StatefulSets and Services only",
            id="another kind",
        ),
        pytest.param(
            replace(workload(), identity=replace(PLACE, object=OwnerReference(name="n" * 64))),
            f"the name {'n' * 64} is longer than 63 characters and cannot be a label of pods",
            id="a name that is too long",
        ),
    ],
)
def test_what_cannot_be_made_is_told(asked, told):
    assert objects.unfit(asked) == told


# ---------------------------------------------------------------- what is done with what there is


def manifest(**changes):
    return made(**changes)["StatefulSet"]


def there(wanted=None, **spec):
    """The StatefulSet on the server: with defaults, in the server's order of things."""
    found = wanted or manifest()
    pod = found["spec"]["template"]["spec"]
    container = {**pod["containers"][0], "imagePullPolicy": "Always"}
    template = {**found["spec"]["template"], "spec": {"containers": [container], "dnsPolicy": "ClusterFirst"}}
    return {
        **found,
        "metadata": {**found["metadata"], "uid": "s-1", "resourceVersion": "7", "generation": 2},
        "spec": {**found["spec"], "revisionHistoryLimit": 10, "template": template, **spec},
        "status": {"replicas": 3},
    }


def owned_by(uid):
    return {
        **there(),
        "metadata": {**there()["metadata"], "ownerReferences": [{"uid": uid, "controller": True}]},
    }


def test_what_is_not_there_is_created():
    assert decide(None, manifest()) == Create()


def test_defaults_of_the_server_are_no_difference():
    assert decide(there(), manifest()) == Leave()


def test_a_change_names_the_object_and_the_version_that_it_was_computed_from():
    wanted = manifest(replicas=5)
    step = decide(there(), wanted)
    assert isinstance(step, Change)
    annotations = {MANIFEST_ANNOTATION: wanted["metadata"]["annotations"][MANIFEST_ANNOTATION]}
    assert step.patch["metadata"] == {"annotations": annotations, "uid": "s-1", "resourceVersion": "7"}
    assert step.patch["spec"]["replicas"] == 5


def test_what_a_user_took_from_the_template_goes():
    limits = {"limits": {"memory": "1Gi"}}
    before = there()
    before["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "fast"}
    found = {**before, "metadata": {**before["metadata"], "annotations": {}}}
    step = decide(found, manifest())
    assert isinstance(step, Change)
    assert step.patch["spec"]["template"]["spec"]["nodeSelector"] is None
    assert step.patch["spec"]["template"]["spec"]["containers"][0]["resources"] == limits


def test_what_another_program_changed_is_changed_back():
    step = decide(there(replicas=9), manifest())
    assert isinstance(step, Change)
    assert step.patch["spec"]["replicas"] == 3


def test_what_cannot_be_changed_is_never_sent():
    step = decide(there(), manifest(replicas=5))
    assert isinstance(step, Change)
    assert {"selector", "serviceName", "volumeClaimTemplates"}.isdisjoint(step.patch["spec"])


@pytest.mark.parametrize(
    ("seen", "told", "passes"),
    [
        pytest.param(
            there(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {"accessModes": ["X"]}}]),
            "the StatefulSet team/demo-etcd has another spec.volumeClaimTemplates, which cannot be changed "
            "while it exists; after `kubectl delete statefulset demo-etcd --cascade=orphan` it is made anew "
            "around its pods",
            False,
            id="other claims: a user has to act",
        ),
        pytest.param(
            owned_by("u-2"),
            "the StatefulSet team/demo-etcd is there already and belongs to another, so it is left alone",
            True,
            id="that of another owner, which may be an object that was deleted",
        ),
        pytest.param(
            {**there(), "metadata": {**there()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "the StatefulSet team/demo-etcd is still being deleted",
            True,
            id="one that is being deleted",
        ),
    ],
)
def test_obstacles(seen, told, passes):
    assert decide(seen, manifest()) == Obstacle(told, passes)


@pytest.mark.parametrize(
    ("seen", "wanted", "same"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="more members"),
        pytest.param({"a": 1}, {"a": 2}, False, id="another value"),
        pytest.param({}, {"a": 1}, False, id="a missing member"),
        pytest.param({}, {"a": "", "b": [], "c": {}, "d": False}, True, id="what the server leaves out"),
        pytest.param({"m": "1Gi"}, {"m": "1024Mi"}, True, id="a quantity that the server writes its own way"),
        pytest.param({"m": "1Gi"}, {"m": "1G"}, False, id="another quantity"),
        pytest.param([{"a": 1, "b": 2}], [{"a": 1}], True, id="a list, one by one"),
        pytest.param([1, 2], [1], False, id="a longer list"),
        pytest.param("x", {"a": 1}, False, id="another type"),
    ],
)
def test_what_is_seen_covers_what_is_wanted(seen, wanted, same):
    assert covers(seen, wanted) is same
