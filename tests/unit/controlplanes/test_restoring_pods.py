"""The pods that put a snapshot into the volumes of an etcd: from the StatefulSet that is stopped."""

from datetime import UTC, datetime

import pytest

from kubewright.api.controlplane.names import COMPONENT_LABEL, RESTORING_ANNOTATION, ROLE_LABEL, Component
from kubewright.api.meta import OwnerReference
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.pods import restore_pods
from kubewright.controlplanes.hosting.pods.objects import INSTANCE, selector

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = WorkloadIdentity(
    "here", "demo", Component.ETCD, OwnerReference(kind="NestedEtcd", name="mine", uid="1")
)
FLAGS = ("--cert-file=$(PKI_DIR)/tls.crt", "--key-file=$(PKI_DIR)/tls.key", "--trusted-ca-file=$(PKI_DIR)/ca")
MOUNT = {"name": "data", "mountPath": "/var/lib/etcd"}
INSTANCE_VARIABLE = {"name": "INSTANCE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
PEERS = ",".join(f"demo-etcd-{n}=https://demo-etcd-{n}.demo-etcd.here.svc:2380" for n in range(3))


def stateful_set(flags=FLAGS, mounts=(MOUNT,), claims=("data",), user=None, **pod):
    container = {
        "name": "etcd",
        "image": "etcd:v3",
        "args": [*flags],
        "env": [INSTANCE_VARIABLE, {"name": "HOST", "value": "$(INSTANCE).demo-etcd"}],
        "volumeMounts": [*mounts],
    }
    if user is not None:
        container["securityContext"] = {"runAsUser": user}
    template = {"spec": {"containers": [container], "volumes": [{"name": "pki"}], **pod}}
    claimed = [{"metadata": {"name": each}} for each in claims]
    return {"spec": {"template": template, "volumeClaimTemplates": claimed}}


def pod_of(found, ordinal=1):
    return restore_pods.pod_of(found, restore_pods.Task(PLACE, ordinal, 3, "mark", "kubewright:1"))


def test_a_pod_receives_the_snapshot_restores_it_as_its_member_and_puts_it_in_place():
    pod = pod_of(stateful_set())
    receive, restore = pod["spec"]["initContainers"]
    (identity,) = pod["spec"]["containers"]
    assert (pod["metadata"]["name"], pod["spec"]["restartPolicy"]) == ("demo-etcd-1-restore", "Never")
    assert [receive["image"], restore["image"], identity["image"]] == [
        "kubewright:1",
        "etcd:v3",
        "kubewright:1",
    ]
    assert receive["args"] == [
        "restore-member",
        "receive",
        "--listen=$(ADDRESS):2379",
        *FLAGS,
        "--folder=/var/lib/etcd/restoring",
    ]
    assert restore["command"] == ["etcdutl"]
    assert restore["args"] == [
        "snapshot",
        "restore",
        "/var/lib/etcd/restoring/snapshot",
        "--mark-compacted",
        "--data-dir=/var/lib/etcd/restoring/data",
        "--name=demo-etcd-1",
        f"--initial-cluster={PEERS}",
        "--initial-advertise-peer-urls=https://demo-etcd-1.demo-etcd.here.svc:2380",
        "--initial-cluster-token=mark",
        "--bump-revision=1000000000",
    ]
    assert identity["args"] == [
        "restore-member",
        "place",
        "--folder=/var/lib/etcd/restoring",
        "--data=/var/lib/etcd/data",
        "--mark=mark",
    ]


def test_a_pod_has_the_claims_the_volumes_and_the_variables_of_its_member():
    pod = pod_of(stateful_set(nodeSelector={"disk": "fast"}))
    assert pod["spec"]["volumes"] == [
        {"name": "pki"},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-demo-etcd-1"}},
    ]
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        assert container["env"][0] == {"name": "INSTANCE", "value": "demo-etcd-1"}
        assert container["volumeMounts"] == [MOUNT]


def test_no_service_and_no_stateful_set_selects_a_pod_that_has_no_token_of_an_account():
    pod = pod_of(stateful_set())
    labels = pod["metadata"]["labels"]
    assert labels[COMPONENT_LABEL] == "mine"
    assert labels[ROLE_LABEL] != selector(PLACE)[ROLE_LABEL]
    assert pod["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("found", "user"),
    [
        (stateful_set(), {"runAsUser": 0}),
        (stateful_set(user=7), {"runAsUser": 7}),
        (stateful_set(securityContext={"runAsUser": 7}), {}),
    ],
    ids=["that of the image of etcd", "that of the container", "that of the pod"],
)
def test_our_containers_run_as_the_user_who_owns_the_volume(found, user):
    receive, _ = pod_of(found)["spec"]["initContainers"]
    assert receive["securityContext"] == user


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (stateful_set(), ""),
        (stateful_set(claims=()), "mounts no volume claim at /var/lib/etcd"),
        (stateful_set(mounts=[{"name": "data", "mountPath": "/data"}]), "mounts no volume claim"),
        (stateful_set(flags=FLAGS[1:]), "has no flag cert-file"),
    ],
    ids=["as our templates are", "no claims", "data that is elsewhere", "no certificate"],
)
def test_what_does_not_fit_is_told(found, told):
    assert told in restore_pods.unfit(found)
    assert bool(restore_pods.unfit(found)) == bool(told)


def pod(mark="mark", phase="Running", made="2025-12-31T23:59:59Z", **status):
    meta = {"name": "demo-etcd-0-restore", "annotations": {RESTORING_ANNOTATION: mark}}
    body = {"metadata": {**meta, "creationTimestamp": made}, "status": {"phase": phase, **status}}
    return INSTANCE.from_plain(body)


@pytest.mark.parametrize(
    ("seen", "over"),
    [
        (pod(), False),
        (pod("other"), True),
        (pod(phase="Succeeded"), False),
        (pod(phase="Failed"), False),
        (pod(phase="Failed", made="2025-12-31T23:58:00Z"), True),
    ],
    ids=["at work", "of another restore", "done", "failed just now", "failed a while ago"],
)
def test_a_pod_is_deleted_that_is_of_another_restore_or_has_failed_a_while_ago(seen, over):
    assert restore_pods.is_over(seen, "mark", NOW) == over


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, "it is at work"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node fits"}]},
            "it has no node: no node fits",
        ),
        (
            {
                "phase": "Failed",
                "initContainerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
            },
            "it ended: Failed; it ended with exit code 1 (Error)",
        ),
        (
            {"initContainerStatuses": [{"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]},
            "it is at work",
        ),
    ],
    ids=["nothing known", "no node", "failed", "one container is done"],
)
def test_what_a_pod_waits_for_is_told(status, told):
    assert restore_pods.waits_for(pod(**status)) == f"demo-etcd-0-restore: {told}"


@pytest.mark.parametrize(
    ("claims", "kept"),
    [
        ([], 0),
        (["data-demo-etcd-0", "data-demo-etcd-2"], 3),
        (["data-other-etcd-4", "data-demo-etcd-x"], 0),
    ],
    ids=["none", "those of the first and the third", "none of ours"],
)
def test_claims_that_are_left_tell_how_many_members_there_were(claims, kept):
    assert restore_pods.kept(PLACE, claims) == kept


def templates(*names):
    """A StatefulSet with claims of these names for each pod."""
    claims = [{"metadata": {"name": each}, "spec": {"storageClassName": "fast"}} for each in names]
    return {"spec": {"selector": {"matchLabels": {"role": "etcd"}}, "volumeClaimTemplates": claims}}


@pytest.mark.parametrize(
    ("names", "claims", "there"),
    [
        pytest.param((), ["data-demo-etcd-0"], None, id="nothing is known of an etcd without claims"),
        pytest.param(("data",), [], frozenset(), id="all are gone"),
        pytest.param(("data",), ["data-demo-etcd-0", "data-demo-etcd-2"], {0, 2}, id="one of three is gone"),
        pytest.param(("data", "wal"), ["data-demo-etcd-0"], frozenset(), id="one of two of a member is gone"),
    ],
)
def test_which_members_have_all_their_claims(names, claims, there):
    assert restore_pods.with_data(templates(*names), PLACE, claims) == there


def test_a_claim_is_made_as_a_stateful_set_makes_it():
    (claim,) = restore_pods.claim_manifests(templates("data"), PLACE, 1)
    assert claim == {
        "metadata": {
            "name": "data-demo-etcd-1",
            "namespace": PLACE.namespace,
            "labels": {"role": "etcd"},
        },
        "spec": {"storageClassName": "fast"},
    }
