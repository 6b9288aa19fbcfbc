"""Built-in kinds: what of a status is always written, and which objects are refused."""

from typing import Any

import pytest

from kubewright.testing.api import Answer, Api, Object

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


def tainted(**taint: Any) -> Object:
    return {"spec": {"taints": [{"key": "a", "effect": "NoSchedule", **taint}]}}


def holds(**status: Any) -> Object:
    return {"status": status}


def networks(*cidrs: str) -> Object:
    return {"spec": {"podCIDRs": list(cidrs)}}


LABEL = "name part must consist of alphanumeric characters"
NODES = [
    pytest.param(tainted(key="a b"), {"metadata.taints[0].key": LABEL}, id="the key of a taint"),
    pytest.param(tainted(key=""), {"metadata.taints[0].key": LABEL}, id="a taint without a key"),
    pytest.param(tainted(value="-x"), {"metadata.taints[0].value": "a valid label must"}, id="the value of a taint"),
    pytest.param(tainted(effect=""), {"metadata.taints[0].effect": "Required value"}, id="a taint without an effect"),
    pytest.param(tainted(effect="x"), {"metadata.taints[0].effect": 'supported values: "NoSchedule"'}, id="an effect"),
    pytest.param(
        holds(capacity={"cpu": "-1"}),
        dict.fromkeys(("status.allocatable.cpu", "status.capacity.cpu"), '"-1": must be greater than or equal to 0'),
        id="a negative capacity",
    ),
    pytest.param(
        holds(allocatable={"pods": "1500m"}), {"status.allocatable.pods": '"1500m": must be an integer'}, id="half a pod"
    ),
    pytest.param(
        holds(allocatable={"example.com/gpu": "0.5"}),
        {"status.allocatable.example.com/gpu": '"500m": must be an integer'},
        id="half a device",
    ),
    pytest.param({"spec": {"podCIDR": "x"}}, {"spec.podCIDRs[0]": "must be a valid CIDR value"}, id="no network"),
    pytest.param(networks("10.0.0.0/40"), {"spec.podCIDRs[0]": "must be a valid CIDR value"}, id="a prefix too long"),
    pytest.param(networks("010.0.0.0/8"), {"spec.podCIDRs[0]": "must not have leading 0s"}, id="leading zeros"),
    pytest.param(networks("10.0.0.1/8"), {"spec.podCIDRs[0]": "must not have bits set beyond"}, id="bits beyond"),
    pytest.param(
        networks("10.0.0.0/8", "10.1.0.0/16"), {"spec.podCIDRs": "may specify no more than one CIDR"}, id="two networks"
    ),
]  # fmt: skip


def refused(answer: Answer, causes: dict[str, str]) -> None:
    """The server refuses for these reasons, by field, and for no others."""
    assert answer.code == 422, answer.body
    assert {field for _, field, _ in answer.causes} == set(causes)
    for field, words in causes.items():
        assert any(words in said for _, where, said in answer.causes if where == field), answer.causes


@pytest.mark.parametrize(("body", "causes"), NODES)
async def test_a_node_that_misleads_a_scheduler_is_refused(
    api: Api, body: Object, causes: dict[str, str]
) -> None:
    refused(await api.post("/api/v1/nodes", {"metadata": {"name": f"bad-{api.namespace}"}, **body}), causes)


async def test_the_networks_and_the_room_of_a_node_are_completed(api: Api) -> None:
    name = f"full-{api.namespace}"
    body = {"spec": {"podCIDR": "10.0.0.0/8"}, "status": {"capacity": {"cpu": "2"}}}
    made = (await api.post("/api/v1/nodes", {"metadata": {"name": name}, **body})).ok()
    assert made["spec"]["podCIDRs"] == ["10.0.0.0/8"]
    assert made["status"]["allocatable"] == {"cpu": "2"}
    both = {"spec": networks("10.0.0.0/8", "fd00::/64")["spec"]}
    (await api.call("DELETE", f"/api/v1/nodes/{name}"))
    made = (await api.post("/api/v1/nodes", {"metadata": {"name": name}, **both})).ok()
    assert made["spec"]["podCIDR"] == "10.0.0.0/8"
    twice = [{"type": "InternalIP", "address": "10.0.0.1"}] * 2
    answer = await api.patch(f"/api/v1/nodes/{name}/status", {"status": {"addresses": twice}})
    refused(answer, {"status.addresses[1]": "Duplicate value"})
    await api.call("DELETE", f"/api/v1/nodes/{name}")


def asks(**resources: Any) -> Object:
    return {"containers": [{"name": "c", "image": "i", "resources": resources}]}


def tolerates(**toleration: Any) -> Object:
    return {**CONTAINERS, "tolerations": [toleration]}


RESOURCES, TOLERATION = "containers[0].resources", "tolerations[0]"
PODS = [
    pytest.param(tolerates(key="a b", operator="Exists"), {f"{TOLERATION}.key": LABEL}, id="the key of a toleration"),
    pytest.param(
        tolerates(operator="Equal"), {f"{TOLERATION}.operator": "operator must be Exists when `key`"}, id="no key"
    ),
    pytest.param(
        tolerates(key="a", operator="Exists", value="x"), {f"{TOLERATION}.operator": "value must be empty"}, id="a value"
    ),
    pytest.param(
        tolerates(key="a", operator="Nope"), {f"{TOLERATION}.operator": 'values: "Equal", "Exists"'}, id="an operator"
    ),
    pytest.param(tolerates(key="a", value="-x"), {f"{TOLERATION}.operator": "a valid label must"}, id="a bad value"),
    pytest.param(
        tolerates(key="a", operator="Exists", effect="Nope"), {f"{TOLERATION}.effect": "values: "}, id="an effect"
    ),
    pytest.param(
        tolerates(key="a", operator="Exists", tolerationSeconds=3),
        {f"{TOLERATION}.effect": "effect must be 'NoExecute'"},
        id="seconds of a taint that does not evict",
    ),
    pytest.param(asks(requests={"cpu": "-1"}), {f"{RESOURCES}.requests[cpu]": '"-1": must be greater'}, id="negative"),
    pytest.param(
        asks(requests={"cpu": "2"}, limits={"cpu": "1"}),
        {f"{RESOURCES}.requests": "must be less than or equal to cpu limit of 1"},
        id="more than its limit",
    ),
    pytest.param(
        asks(requests={"foo": "1"}), {f"{RESOURCES}.requests[foo]": "must be a standard resource type"}, id="no resource"
    ),
    pytest.param(
        asks(requests={"example.com/gpu": "1"}), {f"{RESOURCES}.limits": "Limit must be set"}, id="a device, no limit"
    ),
    pytest.param(
        asks(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"}),
        {f"{RESOURCES}.requests": "must be equal to example.com/gpu limit of 2"},
        id="fewer devices than its limit",
    ),
    pytest.param(
        asks(limits={"hugepages-2Mi": "2Mi"}), {RESOURCES: "HugePages require cpu or memory"}, id="huge pages alone"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "causes"), PODS)
async def test_a_pod_that_asks_what_no_node_has_is_refused(
    api: Api, spec: Object, causes: dict[str, str]
) -> None:
    answer = await api.post(api.at("pods"), {"metadata": {"name": "p"}, "spec": spec})
    refused(answer, {f"spec.{field}": words for field, words in causes.items()})
    template = {"metadata": TEMPLATE["metadata"], "spec": spec}
    body = {"metadata": {"name": "d"}, "spec": {"selector": SELECTS, "template": template}}
    answer = await api.post(api.at("deployments", group="apps"), body)
    refused(answer, {f"spec.template.spec.{field}": words for field, words in causes.items()})


LAYOUT = '"2006-01-02T15:04:05.000000Z07:00"'
LEASES = [
    ("2026-11-27T01:02:03Z", f'as {LAYOUT}: cannot parse "Z" as ".000000"'),
    ("2026-11-27T01:02:03.123Z", f'as {LAYOUT}: cannot parse ".123Z" as ".000000"'),
    ("2026-11-27T01:02:03.1234567Z", f'as {LAYOUT}: cannot parse "7Z" as "Z07:00"'),
    ("soon", f'as {LAYOUT}: cannot parse "soon" as "2006"'),
]


@pytest.mark.parametrize(("time", "words"), LEASES, ids=["none", "three", "seven", "no time"])
async def test_a_time_of_a_lease_has_six_digits(api: Api, time: str, words: str) -> None:
    for field in ("renewTime", "acquireTime"):
        body = {"metadata": {"name": "l"}, "spec": {field: time}}
        answer = await api.post(api.at("leases", group="coordination.k8s.io"), body)
        assert answer.code == 400
        said = f'Lease in version "v1" cannot be handled as a Lease: parsing time "{time}" '
        assert answer.message == said + words


async def test_a_lease_is_as_other_programs_write_it(api: Api) -> None:
    spec = {
        "renewTime": "2026-11-27T03:02:03.000001+02:00",
        "strategy": "OldestEmulationVersion",
        "preferredHolder": "x",
    }
    made = (
        await api.post(
            api.at("leases", group="coordination.k8s.io"), {"metadata": {"name": "l"}, "spec": spec}
        )
    ).ok()
    assert made["spec"] == {"renewTime": "2026-11-27T01:02:03.000001Z"}


async def test_times_of_conditions_have_whole_seconds(api: Api) -> None:
    spec = {"selector": SELECTS, "template": TEMPLATE, "paused": True, "replicas": 0}
    path = api.at("deployments", group="apps")
    (await api.post(path, {"metadata": {"name": "d"}, "spec": spec})).ok()
    said = {"type": "Mine", "status": "True", "lastUpdateTime": "2026-11-27T01:02:03.987654Z"}
    body = {"status": {"conditions": [{**said, "lastTransitionTime": "2026-11-27T03:02:03.9+02:00"}]}}
    after = (await api.patch(f"{path}/d/status", body)).ok()
    mine = next(each for each in after["status"]["conditions"] if each["type"] == "Mine")
    assert (mine["lastUpdateTime"], mine["lastTransitionTime"]) == (
        "2026-11-27T01:02:03Z",
        "2026-11-27T01:02:03Z",
    )


NEW = "2026-11-27T01:02:03.000000Z"
SAID = {
    "reason": "R",
    "type": "Normal",
    "action": "A",
    "reportingController": "x.io/c",
    "reportingInstance": "i",
}
ABOUT = {"kind": "ConfigMap", "apiVersion": "v1", "name": "c"}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"action": None}, {"action"}),
        ({"reason": ""}, {"reason"}),
        ({"reportingController": None}, {"reportingController"}),
        ({"reportingController": "a b"}, {"reportingController"}),
        ({"reportingInstance": "x" * 129}, {"reportingInstance"}),
        ({"note": "x" * 1025}, {"message"}),
        ({"type": "Odd"}, {"type"}),
        ({"deprecatedCount": 2}, {"count"}),
        ({"series": {"count": 1, "lastObservedTime": NEW}}, {"series.count"}),
    ],
    ids=["action", "reason", "controller", "bad controller", "instance", "note", "type", "count", "series"],
)
async def test_a_new_event_that_says_too_little_or_too_much_is_refused(
    api: Api, change: Object, fields: set[str]
) -> None:
    body = {"metadata": {"name": "e"}, **SAID, "eventTime": NEW, "note": "n", **change}
    regarding = {**ABOUT, "namespace": api.namespace}
    answer = await api.post(api.at("events", group="events.k8s.io"), {**body, "regarding": regarding})
    assert (answer.code, {cause[1] for cause in answer.causes}) == (422, fields)


async def test_where_events_may_be(api: Api) -> None:
    new = {**SAID, "eventTime": NEW, "note": "n", "regarding": {**ABOUT, "namespace": "another"}}
    path = api.at("events", group="events.k8s.io")
    assert (await api.post(path, {"metadata": {"name": "a"}, **new})).code == 201
    old = {"involvedObject": {"kind": "Node", "name": "n"}, "reason": "R", "message": "m", "type": "Normal"}
    answer = await api.post(
        "/api/v1/namespaces/kube-system/events", {"metadata": {"name": f"a-{api.namespace}"}, **old}
    )
    assert (answer.code, answer.causes[0][1]) == (422, "involvedObject.namespace")
    name = {"metadata": {"name": f"b-{api.namespace}"}}
    assert (await api.post("/api/v1/namespaces/default/events", {**name, **old})).code == 201
    answer = await api.post(api.at("events"), {"metadata": {"name": "c"}, **old, "eventTime": NEW})
    assert (answer.code, {cause[1] for cause in answer.causes}) == (
        422,
        {"action", "involvedObject.namespace", "reportingComponent", "reportingInstance"},
    )
