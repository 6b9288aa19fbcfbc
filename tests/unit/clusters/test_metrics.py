"""The numbers about clusters that Prometheus scrapes: read from objects as a cache has them."""

import msgspec
import pytest

from kubewright.clusters.metrics import families
from kubewright.kube.header import Header
from kubewright.wire.gvk import Key

FAMILIES = {each.name: each for each in families()}


def header(name, spec=None, status=None):
    data = msgspec.json.encode({"metadata": {"name": name}, "spec": spec or {}, "status": status or {}})
    return Header(Key("ns", name), name, 1, 1, "", deleting=False, data=data)


def demo(name, spec=None, **status):
    return header(name, {"clusterName": "demo", **(spec or {})}, status)


ODD = Header(Key("ns", "odd"), "odd", 1, 1, "", deleting=False, data=b'{"spec":{"replicas":"many"}}')
POOL = demo(
    "pool", {"replicas": 5}, phase="ScalingUp", replicas=4, readyReplicas=3, availableReplicas=2,
    unavailableReplicas=3, updatedReplicas=1,
)  # fmt: skip
CHECK = demo("check", expectedMachines=5, currentHealthy=4, remediationsAllowed=1)
OF_POOL, OF_CHECK = ("ns", "pool", "demo"), ("ns", "check", "demo")
ROWS = [
    ("capi_cluster_status_phase", [header("demo", None, {"phase": "Provisioned"}), header("new")], {("ns", "demo", "Provisioned"): 1, ("ns", "new", "Unknown"): 1}),
    ("capi_machines", [demo("a", phase="Running"), demo("b", phase="Running"), demo("c", phase="Failed"), header("d", {"clusterName": "other"})], {("ns", "demo", "Running"): 2, ("ns", "demo", "Failed"): 1, ("ns", "other", "Unknown"): 1}),
    ("capi_machinedeployment_status_phase", [POOL], {(*OF_POOL, "ScalingUp"): 1}),
    ("capi_machinedeployment_spec_replicas", [POOL, ODD], {OF_POOL: 5}),
    ("capi_machinedeployment_status_replicas", [POOL], {OF_POOL: 4}),
    ("capi_machinedeployment_status_replicas_ready", [POOL], {OF_POOL: 3}),
    ("capi_machinedeployment_status_replicas_available", [POOL], {OF_POOL: 2}),
    ("capi_machinedeployment_status_replicas_unavailable", [POOL], {OF_POOL: 3}),
    ("capi_machinedeployment_status_replicas_updated", [POOL], {OF_POOL: 1}),
    ("capi_machineset_spec_replicas", [POOL, demo("old", {"replicas": 0}, replicas=0), demo("shrinking", {"replicas": 0}, replicas=2)], {OF_POOL: 5, ("ns", "shrinking", "demo"): 0}),
    ("capi_machineset_status_replicas", [POOL], {OF_POOL: 4}),
    ("capi_machineset_status_replicas_ready", [POOL], {OF_POOL: 3}),
    ("capi_machineset_status_replicas_available", [POOL], {OF_POOL: 2}),
    ("capi_machinehealthcheck_status_expected_machines", [CHECK], {OF_CHECK: 5}),
    ("capi_machinehealthcheck_status_current_healthy", [CHECK], {OF_CHECK: 4}),
    ("capi_machinehealthcheck_status_remediations_allowed", [CHECK], {OF_CHECK: 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "headers", "rows"), ROWS, ids=[row[0] for row in ROWS])
def test_a_family_shows(name, headers, rows):
    family = FAMILIES[name]
    shown = dict(family.rows(headers))
    assert shown == rows
    assert {len(labels) for labels in shown} == {len(family.labels)}


def test_every_family_is_shown_here():
    assert set(FAMILIES) == {row[0] for row in ROWS}
