"""Kinds on which nothing here acts, on both servers: what is filled in, refused and shown of them."""

from typing import Any

import pytest
from tests.conformance.pairs import Pair

from kubewright.testing.api import Api, Object

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
POD: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
DEVICE: Object = {"deviceClassName": "a.example"}
EXACT = {"name": "r", "exactly": DEVICE}
COUNTED = {"name": "r", "exactly": {**DEVICE, "allocationMode": "ExactCount", "count": 1}}
SERVED = (
    "replicationcontrollers", "limitranges", "resourcequotas", "horizontalpodautoscalers.autoscaling/v1",
    "horizontalpodautoscalers.autoscaling/v2", "ingresses.networking.k8s.io", "ingressclasses.networking.k8s.io", "networkpolicies.networking.k8s.io",
    "deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io",
    "resourceslices.resource.k8s.io", "csistoragecapacities.storage.k8s.io",
    "certificatesigningrequests.certificates.k8s.io", "runtimeclasses.node.k8s.io",
)  # fmt: skip


def group_version(resource: str) -> tuple[str, str, str]:
    """Plural, group and version: ``hpas.autoscaling/v2``; without a version it is v1."""
    named, _, version = resource.partition("/")
    plural, _, group = named.partition(".")
    return plural, group, version or "v1"


def path_of(api: Api, resource: str) -> str:
    plural, group, version = group_version(resource)
    base = f"/apis/{group}/{version}" if group else "/api/v1"
    scoped = plural not in ("ingressclasses", "deviceclasses", "resourceslices")
    return f"{base}/namespaces/{api.namespace}/{plural}" if scoped else f"{base}/{plural}"


@pytest.mark.kube
@pytest.mark.looptime(False)
@pytest.mark.parametrize("resource", SERVED)
async def test_discovery_names_it_with_its_subresources(pair: Pair, resource: str) -> None:
    plural, group, version = group_version(resource)
    path = f"/apis/{group}/{version}" if group else "/api/v1"

    async def entries(api: Api) -> list[Object]:
        listed = (await api.get(path)).ok()["resources"]
        mine = [each for each in listed if each["name"].split("/")[0] == plural]
        return [{key: value for key, value in each.items() if key != "storageVersionHash"} for each in mine]

    embedded, real = pair.both
    assert await entries(embedded) == await entries(real) != []


@pytest.mark.parametrize(
    ("resource", "spec", "filled"),
    [
        pytest.param(
            "replicationcontrollers",
            {"template": POD},
            {"replicas": 1, "selector": {"a": "b"}},
            id="a controller selects the pods of its template",
        ),
        pytest.param(
            "limitranges",
            {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Gi"}}]},
            {
                "limits": [
                    {
                        "type": "Container",
                        "max": {"cpu": "1"},
                        "min": {"memory": "1Gi"},
                        "default": {"cpu": "1"},
                        "defaultRequest": {"cpu": "1", "memory": "1Gi"},
                    }
                ]
            },
            id="the most that a container may have is what it gets",
        ),
        pytest.param(
            "horizontalpodautoscalers.autoscaling/v2",
            {"scaleTargetRef": TARGET, "maxReplicas": 5},
            {
                "minReplicas": 1,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 80},
                        },
                    }
                ],
            },
            id="an autoscaler looks at the cpu",
        ),
        pytest.param(
            "networkpolicies.networking.k8s.io",
            {},
            {"policyTypes": ["Ingress"]},
            id="a policy is about what comes in",
        ),
        pytest.param(
            "networkpolicies.networking.k8s.io",
            {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]},
            {"policyTypes": ["Ingress", "Egress"], "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}]},
            id="and about what goes out if it says so",
        ),
        pytest.param(
            "resourceclaims.resource.k8s.io",
            {"devices": {"requests": [EXACT]}},
            {"devices": {"requests": [COUNTED]}},
            id="a claim asks for one device",
        ),
        pytest.param(
            "resourceclaimtemplates.resource.k8s.io",
            {"spec": {"devices": {"requests": [EXACT]}}},
            {"spec": {"devices": {"requests": [COUNTED]}}},
            id="and so does a template of claims",
        ),
    ],
)
async def test_defaults(api: Api, resource: str, spec: Object, filled: Object) -> None:
    made = (await api.post(path_of(api, resource), {"metadata": {"name": "a"}, "spec": spec})).ok()
    assert {field: made["spec"].get(field) for field in filled} == filled


@pytest.mark.parametrize(
    ("resource", "status"),
    [
        ("replicationcontrollers", {"replicas": 0}),
        ("resourcequotas", {}),
        ("ingresses.networking.k8s.io", {"loadBalancer": {}}),
        ("resourceclaims.resource.k8s.io", {}),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
async def test_it_has_a_status_at_once(api: Api, resource: str, status: Object) -> None:
    specs: dict[str, Object] = {
        "replicationcontrollers": {"template": POD},
        "ingresses.networking.k8s.io": {"defaultBackend": BACKEND},
    }
    body = {"metadata": {"name": "a"}, "spec": specs.get(resource, {})}
    assert (await api.post(path_of(api, resource), body)).ok()["status"] == status


REFUSED: list[tuple[str, Object, list[tuple[str, str]]]] = [
    (
        "replicationcontrollers",
        {"selector": {"x": "y"}, "template": POD},
        [("spec.template.metadata.labels", "`selector` does not match template `labels`")],
    ),
    (
        "replicationcontrollers",
        {},
        [("spec.selector", "Required value"), ("spec.template", "Required value")],
    ),
    (
        "horizontalpodautoscalers.autoscaling/v2",
        {"scaleTargetRef": TARGET, "minReplicas": 9, "maxReplicas": 5},
        [("spec.maxReplicas", "must be greater than or equal to `minReplicas`")],
    ),
    (
        "ingresses.networking.k8s.io",
        {},
        [("spec", "either `defaultBackend` or `rules` must be specified")],
    ),
    (
        "ingresses.networking.k8s.io",
        {"rules": [{"http": {"paths": [{"path": "/x", "backend": BACKEND}]}}]},
        [("spec.rules[0].http.paths[0].pathType", "pathType must be specified")],
    ),
    (
        "ingresses.networking.k8s.io",
        {"rules": [{"http": {"paths": [{"path": "x", "pathType": "Prefix", "backend": BACKEND}]}}]},
        [("spec.rules[0].http.paths[0].path", "must be an absolute path")],
    ),
    (
        "ingressclasses.networking.k8s.io",
        {"controller": "x"},
        [("spec.controller", "must be a domain-prefixed path")],
    ),
    (
        "networkpolicies.networking.k8s.io",
        {"podSelector": {}, "policyTypes": ["All"]},
        [("spec.policyTypes[0]", 'supported values: "Ingress", "Egress"')],
    ),
    ("resourcequotas", {"hard": {"pods": "-1"}}, [("spec.hard[pods]", "must be greater than or equal to 0")]),
    (
        "resourcequotas",
        {"hard": {"cars": "1"}},
        [
            ("spec.hard[cars]", "must be a standard resource type or fully qualified"),
            ("spec.hard[cars]", "must be a standard resource for quota"),
        ],
    ),
    (
        "resourceclaims.resource.k8s.io",
        {"devices": {"requests": [{"name": "r"}]}},
        [("spec.devices.requests[0]", "exactly one of `exactly` or `firstAvailable` is required")],
    ),
    (
        "resourceslices.resource.k8s.io",
        {},
        [
            ("spec.driver", "Required value"),
            ("spec.pool.name", "Required value"),
            ("spec.pool.resourceSliceCount", "must be greater than zero"),
            ("spec", "exactly one of"),
        ],
    ),
]


@pytest.mark.parametrize(
    ("resource", "spec", "causes"), REFUSED, ids=[f"{each[0]} {each[2][0][0]}" for each in REFUSED]
)
async def test_refusals(api: Api, resource: str, spec: Object, causes: list[tuple[str, str]]) -> None:
    answer = await api.post(path_of(api, resource), {"metadata": {"name": "a"}, "spec": spec})
    assert answer.code == 422
    assert [field for _, field, _ in answer.causes] == [field for field, _ in causes]
    assert [
        said for (_, _, said), (_, words) in zip(answer.causes, causes, strict=True) if words not in said
    ] == []


ROWS: list[tuple[str, Object, Object, list[str], list[Any]]] = [
    (
        "replicationcontrollers",
        {"replicas": 2, "template": POD},
        {},
        ["Name", "Desired", "Current", "Ready", "Age", "Containers", "Images", "Selector"],
        ["a", 2, 0, 0, "c", "i", "a=b"],
    ),
    (
        "horizontalpodautoscalers.autoscaling/v2",
        {"scaleTargetRef": TARGET, "maxReplicas": 5},
        {
            "desiredReplicas": 3,
            "currentReplicas": 2,
            "currentMetrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "current": {"averageUtilization": 20, "averageValue": "5m"}},
                }
            ],
        },
        ["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"],
        ["a", "Deployment/web", "cpu: 20%/80%", "1", 5, 2],
    ),
    (
        "ingresses.networking.k8s.io",
        {
            "ingressClassName": "x",
            "tls": [{"hosts": ["h.example"]}],
            "rules": [{"host": "h.example"}, {"host": "i.example"}],
        },
        {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "lb.example"}]}},
        ["Name", "Class", "Hosts", "Address", "Ports", "Age"],
        ["a", "x", "h.example,i.example", "10.0.0.1,lb.example", "80, 443"],
    ),
    (
        "networkpolicies.networking.k8s.io",
        {"podSelector": {"matchLabels": {"a": "b"}}},
        {},
        ["Name", "Pod-Selector", "Age"],
        ["a", "a=b"],
    ),
    (
        "resourcequotas",
        {"hard": {"pods": "10"}},
        {"hard": {"pods": "10", "limits.cpu": "2"}, "used": {"pods": "3", "limits.cpu": "1"}},
        ["Name", "Request", "Limit", "Age"],
        ["a", "pods: 3/10", "limits.cpu: 1/2"],
    ),
    (
        "resourceclaims.resource.k8s.io",
        {"devices": {"requests": [EXACT]}},
        {},
        ["Name", "State", "Age"],
        ["a", "pending"],
    ),
]


@pytest.mark.parametrize(
    ("resource", "spec", "status", "columns", "cells"), ROWS, ids=[each[0].partition(".")[0] for each in ROWS]
)
async def test_what_kubectl_shows(
    api: Api, resource: str, spec: Object, status: Object, columns: list[str], cells: list[Any]
) -> None:
    path = path_of(api, resource)
    (await api.post(path, {"metadata": {"name": "a"}, "spec": spec})).ok()
    if status:
        (await api.patch(f"{path}/a/status", {"status": status})).ok()
    table = (await api.get(path, accept=TABLE)).ok()
    assert [each["name"] for each in table["columnDefinitions"]] == columns
    age = columns.index("Age")
    (row,) = (each["cells"] for each in table["rows"])
    assert row[:age] + row[age + 1 :] == cells


async def test_a_controller_is_scaled_by_its_subresource(api: Api) -> None:
    path = path_of(api, "replicationcontrollers")
    (await api.post(path, {"metadata": {"name": "a"}, "spec": {"template": POD}})).ok()
    (await api.patch(f"{path}/a/scale", {"spec": {"replicas": 3}})).ok()
    scale = (await api.get(f"{path}/a/scale")).ok()
    assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (3, "a=b")


async def test_slices_are_found_by_their_node(api: Api) -> None:
    path = path_of(api, "resourceslices.resource.k8s.io")
    for name in ("one", "two"):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example", "pool": pool, "nodeName": name}
        (await api.post(path, {"metadata": {"name": f"{api.namespace}-{name}"}, "spec": spec})).ok()
    found = (await api.get(path, fieldSelector="spec.nodeName=two,spec.driver=d.example")).ok()["items"]
    assert [each["spec"]["pool"]["name"] for each in found] == ["two"]


@pytest.mark.parametrize("note", ["[1]", '[{"type": 5}]', '[{"type": "Bogus"}]'])
async def test_metrics_in_an_annotation_that_are_none_are_not_stored(api: Api, note: str) -> None:
    path = path_of(api, "horizontalpodautoscalers.autoscaling/v1")
    metadata = {"name": "a", "annotations": {"autoscaling.alpha.kubernetes.io/metrics": note}}
    answer = await api.post(
        path, {"metadata": metadata, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 5}}
    )
    assert answer.code in (201, 422)
    listed = (await api.get(path_of(api, "horizontalpodautoscalers.autoscaling/v2"), accept=TABLE)).ok()[
        "rows"
    ]
    assert [each["cells"][2] for each in listed] in ([], ["cpu: <unknown>/80%"])


async def test_an_autoscaler_is_one_object_in_both_versions(api: Api) -> None:
    older, newer = (path_of(api, f"horizontalpodautoscalers.autoscaling/{each}") for each in ("v1", "v2"))
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 5, "targetCPUUtilizationPercentage": 50}
    (await api.post(older, {"metadata": {"name": "a"}, "spec": spec})).ok()
    found = (await api.get(f"{newer}/a")).ok()
    (metric,) = found["spec"]["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}

    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    }
    down = {"scaleDown": {"stabilizationWindowSeconds": 5, "selectPolicy": "Disabled"}}
    (await api.patch(f"{newer}/a", {"spec": {"metrics": [metric, memory], "behavior": down}})).ok()
    before = (await api.get(f"{newer}/a")).ok()
    as_older = (await api.get(f"{older}/a")).ok()
    assert as_older["spec"]["targetCPUUtilizationPercentage"] == 50
    assert "autoscaling.alpha.kubernetes.io/metrics" in as_older["metadata"]["annotations"]
    (await api.put(f"{older}/a", {**as_older, "spec": {**as_older["spec"], "maxReplicas": 7}})).ok()
    after = (await api.get(f"{newer}/a")).ok()
    assert all(each in after["spec"]["metrics"] for each in before["spec"]["metrics"])
    assert len(after["spec"]["metrics"]) == 2
    assert after["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 5
    assert (after["spec"]["maxReplicas"], after["metadata"].get("annotations", {})) == (7, {})


RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


async def test_a_runtime_class_names_a_handler_for_good(api: Api) -> None:
    made = (await api.post(RUNTIMES, {"metadata": {"name": api.namespace}, "handler": "runc"})).ok()
    changed = await api.put(f"{RUNTIMES}/{api.namespace}", {**made, "handler": "gvisor"})
    assert changed.causes == [
        ("FieldValueInvalid", "handler", 'Invalid value: "gvisor": field is immutable')
    ]  # fmt: skip
    table = (await api.get(f"{RUNTIMES}/{api.namespace}", accept=TABLE)).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Handler", "Age"]
    assert table["rows"][0]["cells"][:2] == [api.namespace, "runc"]


@pytest.mark.parametrize("handler", [None, "", "Not A Handler"])
async def test_a_runtime_class_without_a_good_handler_is_refused(api: Api, handler: str | None) -> None:
    answer = await api.post(RUNTIMES, {"metadata": {"name": api.namespace}, "handler": handler})
    assert (answer.code, [cause[1] for cause in answer.causes]) == (422, ["handler"])


async def test_a_kubelet_deletes_the_slices_of_its_node_and_no_others(api: Api) -> None:
    names = [f"{api.namespace}-{node}" for node in ("a", "b")]
    for name in names:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "a.example", "nodeName": name, "pool": pool}
        (await api.post(SLICES, {"metadata": {"name": name}, "spec": spec})).ok()
    (await api.delete(SLICES, fieldSelector=f"spec.nodeName={names[0]}")).ok()
    await api.gone(f"{SLICES}/{names[0]}")
    assert (await api.get(f"{SLICES}/{names[1]}")).code == 200
