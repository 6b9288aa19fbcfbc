"""Built-in kinds: what of a status is always written, and which objects are refused."""

import pytest

from kubewright.testing.api import Api, Object

SELECTS = {"matchLabels": {"a": "b"}}
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": CONTAINERS}
TASK = {"spec": {**CONTAINERS, "restartPolicy": "Never"}}
NODE_INFO = (
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
    "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID",
)  # fmt: skip
NODE_STATUS = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(NODE_INFO, ""),
}
SCHEDULED = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
HEALTHY = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
ATTACHMENT = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        ("deployments.apps", {"selector": SELECTS, "template": TEMPLATE, "paused": True}, {}),
        ("replicasets.apps", {"replicas": 0, "selector": SELECTS, "template": TEMPLATE}, {"replicas": 0}),
        ("daemonsets.apps", {"selector": SELECTS, "template": TEMPLATE}, dict.fromkeys(SCHEDULED, 0)),
        (
            "statefulsets.apps",
            {"replicas": 0, "selector": SELECTS, "template": TEMPLATE, "serviceName": "s"},
            {"availableReplicas": 0, "replicas": 0},
        ),
        ("jobs.batch", {"suspend": True, "template": TASK}, {}),
        ("cronjobs.batch", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TASK}}}, {}),
        ("services", {"ports": [{"port": 80}]}, {"loadBalancer": {}}),
        (
            "poddisruptionbudgets.policy",
            {"minAvailable": 1, "selector": SELECTS},
            dict.fromkeys(HEALTHY, 0),
        ),
        ("/nodes", {}, NODE_STATUS),
        ("/volumeattachments.storage.k8s.io", ATTACHMENT, {"attached": False}),
    ],
    ids=lambda each: each.strip("/") if isinstance(each, str) else "",
)
async def test_a_new_object_has_what_go_writes_of_a_status(
    api: Api, kind: str, spec: Object, status: Object
) -> None:
    plural, _, group = kind.strip("/").partition(".")
    path = api.at(plural, group=group)
    if kind.startswith("/"):
        path = path.replace(f"/namespaces/{api.namespace}", "")
    made = (await api.post(path, {"metadata": {"name": f"o-{api.namespace}"}, "spec": spec})).ok()
    assert made["status"] == status


async def test_zeros_of_a_status_stay_when_a_client_takes_them_away(api: Api) -> None:
    spec = {"replicas": 0, "selector": SELECTS, "template": TEMPLATE}
    path = api.at("replicasets", group="apps")
    (await api.post(path, {"metadata": {"name": "r"}, "spec": spec})).ok()
    for patch in ({"status": {"replicas": None}}, {"status": None}):
        after = (await api.patch(f"{path}/r/status", patch)).ok()
        assert after["status"]["replicas"] == 0
