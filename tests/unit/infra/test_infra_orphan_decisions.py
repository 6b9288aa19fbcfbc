"""VMs of clusters without a KubewrightMachine: what keeps one alive, and when nothing can be said."""

from dataclasses import replace

import pytest

from kubewright.api.cluster.names import DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.driver.contract import Instance
from kubewright.infra.orphans.decide import ListedVm, why_kept_by_cache, why_kept_by_server, why_not_judged
from kubewright.infra.provision import new_cloud_owner


def cluster(uid="c1", **annotations):
    meta = {"name": "demo", "namespace": "ns", "uid": uid, "annotations": annotations}
    return KUBEWRIGHT_CLUSTER.from_plain({"metadata": meta})


def owner(*, paused=False, **annotations):
    return CLUSTER.from_plain(
        {"metadata": {"name": "demo", "annotations": annotations}, "spec": {"paused": paused}}
    )


def machine(uid="u2", known="", vm=""):
    annotations = {CLOUD_OWNER_ANNOTATION: known} if known else {}
    return KUBEWRIGHT_MACHINE.from_plain(
        {
            "metadata": {"name": "m1", "uid": uid, "annotations": annotations},
            "spec": {"providerID": vm or None},
        }
    )


HERE = cluster()
OWNER = new_cloud_owner(HERE.metadata, "u1")
STRAY = Instance("sim:///here/vm-9", "m1", machine_name="m1", owner_uid=OWNER)
ELSEWHERE = "it was not made for this KubewrightCluster"

KEPT = [
    ("nothing wants it", ListedVm(STRAY), ""),
    ("its machine was moved", ListedVm(STRAY, moved=True), "clusterctl has moved its machine away"),
    ("its KubewrightMachine is here", ListedVm(STRAY, owner_exists=True), "its KubewrightMachine exists"),
    ("a Machine has it on record", ListedVm(STRAY, recorded=True), "a machine has it on record"),
    (
        "a creation may be about to answer it",
        ListedVm(STRAY, busy=True),
        "a call for its machine is under way",
    ),
    (
        "it says no name",
        ListedVm(replace(STRAY, machine_name="")),
        "nothing says which machine it was made for",
    ),
    ("it has no id", ListedVm(replace(STRAY, provider_id="")), "nothing says which machine it was made for"),
    ("it says no owner", ListedVm(replace(STRAY, owner_uid="")), ELSEWHERE),
    ("it is a VM of Gardener's API", ListedVm(replace(STRAY, owner_uid="u1")), ELSEWHERE),
    (
        "it was made in another management cluster, for a cluster of that name",
        ListedVm(replace(STRAY, owner_uid=new_cloud_owner(cluster("c2").metadata, "u1"))),
        ELSEWHERE,
    ),
    (
        "it was made where the infrastructure is another provider's",
        ListedVm(replace(STRAY, owner_uid=new_cloud_owner(None, "u1"))),
        ELSEWHERE,
    ),
    ("a namesake has a VM of its own", ListedVm(STRAY, same_name=machine(vm="sim:///here/vm-1")), ""),
    (
        "a namesake is being made",
        ListedVm(STRAY, same_name=machine()),
        "a machine of its name is still being made",
    ),
]


@pytest.mark.parametrize(("seen", "because"), [pytest.param(*row[1:], id=row[0]) for row in KEPT])
def test_what_keeps_a_vm(seen: ListedVm, because: str) -> None:
    assert why_kept_by_cache(HERE, seen) == because


SPARED = [
    ("there is no such machine", None, ""),
    ("it is there, by what is written on it", machine(known=OWNER), "its KubewrightMachine exists"),
    ("a namesake has it on record", machine(vm=STRAY.provider_id), "a machine has it on record"),
    ("a namesake has no VM yet", machine(), "a machine of its name is still being made"),
    ("a namesake has another", machine(vm="sim:///here/vm-1"), ""),
]


@pytest.mark.parametrize(("live", "because"), [pytest.param(*row[1:], id=row[0]) for row in SPARED])
def test_what_the_server_says_at_last(live, because: str) -> None:
    assert why_kept_by_server(STRAY, live) == because


GONE, LATER = "there is no such cluster here", "it is paused, or being moved"
UNSEEN = [
    ("it is here and at work", HERE, owner(), ""),
    ("it was moved away", None, None, GONE),
    ("its Cluster is gone", HERE, None, GONE),
    ("its Cluster is paused, as in a move", HERE, owner(paused=True), LATER),
    ("its Cluster has the annotation of a pause", HERE, owner(**{PAUSED_ANNOTATION: ""}), LATER),
    ("it has the annotation itself", cluster(**{PAUSED_ANNOTATION: ""}), owner(), LATER),
    ("clusterctl is deleting what was moved", cluster(**{DELETE_FOR_MOVE_ANNOTATION: ""}), owner(), LATER),
    ("clusterctl is deleting its Cluster", HERE, owner(**{DELETE_FOR_MOVE_ANNOTATION: ""}), LATER),
]


@pytest.mark.parametrize(
    ("found", "cluster_of_it", "because"), [pytest.param(*row[1:], id=row[0]) for row in UNSEEN]
)
def test_when_nothing_can_be_said(found, cluster_of_it, because: str) -> None:
    assert why_not_judged(found, cluster_of_it) == because
