"""Defaults and rules of custom kinds, which the server calls in process (``api.admission``)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.api.catalog import CLUSTERCTL, EMBEDDED_RULES, crds
from kubewright.api.machine import manifests as machines
from kubewright.apiserver.server import ApiServer
from kubewright.kube.transport import InProcess
from kubewright.testing.api import Api
from kubewright.testing.clocks import LoopClock

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOME = "/apis/cluster.x-k8s.io/v1beta1/namespaces/default"
REF = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Foo", "name": "m"}
SPEC = {
    "clusterName": "c",
    "bootstrap": {"dataSecretName": "s"},
    "infrastructureRef": REF,
    "version": "1.30.0",
}


DRAIN_RULES = Path(__file__).parents[3] / "examples" / "drain-rules.yaml"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """A server with the kinds of Cluster API and of control planes."""
    clock = LoopClock()
    server = ApiServer(clock, admission=EMBEDDED_RULES)
    await server.start()
    found = Api(InProcess(server.handle), clock, "embedded")
    for crd in crds("clusters", "controlplanes", CLUSTERCTL):
        (await found.post(CRDS, crd)).ok()
    yield found
    await server.close()


def made(kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "o", **metadata},
        "spec": spec,
    }


async def test_the_example_of_drain_rules_is_accepted_as_it_stands(api: Api) -> None:
    bodies = list(yaml.safe_load_all(DRAIN_RULES.read_text()))
    stored = [(await api.post(f"{HOME}/machinedrainrules", body)).ok() for body in bodies]
    assert [each["spec"] for each in stored] == [body["spec"] for body in bodies]
    assert {each["spec"]["drain"]["behavior"] for each in stored} == {"Drain", "Skip", "WaitCompleted"}


async def test_no_machine_pool_is_made(api: Api) -> None:
    refused = await api.post(f"{HOME}/machinepools", made("MachinePool", {}))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == (
        'MachinePool.cluster.x-k8s.io "o" is invalid: <nil>: Forbidden: MachinePools are not supported '
        "here: no controller works on them. Use a MachineDeployment."
    )


async def test_a_machine_is_stored_with_its_defaults(api: Api) -> None:
    stored = (await api.post(f"{HOME}/machines", made("Machine", SPEC))).ok()
    assert stored["spec"]["version"] == "v1.30.0"
    assert stored["spec"]["nodeDeletionTimeout"] == "10s"
    assert stored["spec"]["infrastructureRef"]["namespace"] == "default"
    assert stored["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "c"}
    assert stored["metadata"]["generation"] == 1


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
SET = {"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


async def test_a_number_with_a_fraction_switches_no_default_off(api: Api) -> None:
    sent = made("MachineDeployment", {**SET, "progressDeadlineSeconds": 600.0, "minReadySeconds": 1.0})
    spec = (await api.post(f"{HOME}/machinedeployments", sent)).ok()["spec"]
    assert (repr(spec["progressDeadlineSeconds"]), repr(spec["minReadySeconds"])) == ("600", "1")
    assert (spec["replicas"], spec["template"]["spec"]["version"]) == (1, "v1.30.0")


async def test_a_number_with_a_fraction_switches_no_rule_off(api: Api) -> None:
    selector = {"matchLabels": {"other": "c"}}
    sent = made("MachineDeployment", {**SET, "selector": selector, "progressDeadlineSeconds": 600.0})
    refused = await api.post(f"{HOME}/machinedeployments", sent)
    assert refused.code == 422
    assert "spec.template.metadata.labels" in [field for _, field, _ in refused.causes]


async def test_a_share_with_a_fraction_is_a_number(api: Api) -> None:
    sent = made("MachineHealthCheck", {
        "clusterName": "c",
        "selector": {"matchLabels": {"a": "b"}},
        "maxUnhealthy": 1.0,
        "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "300s"}],
    })  # fmt: skip
    spec = (await api.post(f"{HOME}/machinehealthchecks", sent)).ok()["spec"]
    assert (repr(spec["maxUnhealthy"]), spec["nodeStartupTimeout"]) == ("1", "10m0s")


async def test_a_label_that_is_taken_off_comes_back(api: Api) -> None:
    await api.post(f"{HOME}/machines", made("Machine", SPEC))
    body = {"metadata": {"labels": None}}
    stored = (await api.patch(f"{HOME}/machines/o", body)).ok()
    assert stored["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "c"}


async def test_a_bad_object_is_refused_with_its_causes(api: Api) -> None:
    answer = await api.post(
        f"{HOME}/clusters", made("Cluster", {"topology": {"class": "x", "version": "v1.30.0"}})
    )
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message.startswith(
        'Cluster.cluster.x-k8s.io "o" is invalid: spec.topology: Forbidden: ClusterClass is not supported'
    )
    ((reason, path, _),) = answer.causes
    assert (reason, path) == ("FieldValueForbidden", "spec.topology")


@pytest.mark.parametrize(
    ("plural", "kind", "spec", "path"),
    [
        pytest.param("nestedetcds", "NestedEtcd", {"channel": "../etc"}, "spec.channel", id="etcd"),
        pytest.param(
            "nestedapiservers",
            "NestedAPIServer",
            {"withoutArgs": ["--v"]},
            "spec.withoutArgs[0]",
            id="an API server",
        ),
        pytest.param(
            "nestedcontrollermanagers",
            "NestedControllerManager",
            {"extraArgs": {"--v": "2"}},
            "spec.extraArgs[--v]",
            id="a controller manager",
        ),
        pytest.param(
            "nestedcontrolplanes",
            "NestedControlPlane",
            {"etcd": {"kind": "Other", "name": "e"}},
            "spec.etcd.kind",
            id="a control plane",
        ),
        pytest.param(
            "nestedcontrolplanetemplates",
            "NestedControlPlaneTemplate",
            {"template": {"spec": {"version": "../1"}}},
            "spec.template.spec.version",
            id="a template",
        ),
    ],
)
async def test_a_bad_part_of_a_control_plane_is_refused(
    api: Api, plural: str, kind: str, spec: dict[str, Any], path: str
) -> None:
    body = {**made(kind, spec), "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha4"}
    where = f"/apis/{body['apiVersion']}/namespaces/default/{plural}"
    answer = await api.post(where, body)
    assert (answer.code, [named for _, named, _ in answer.causes]) == (422, [path])
    assert (await api.post(where, {**body, "spec": {"template": {"spec": {}}}})).code == 201


async def test_a_change_is_checked_against_what_was(api: Api) -> None:
    await api.post(f"{HOME}/machines", made("Machine", SPEC))
    answer = await api.patch(f"{HOME}/machines/o", {"spec": {"clusterName": "d"}})
    assert answer.code == 422
    assert answer.causes == [
        ("FieldValueForbidden", "spec.clusterName", "Forbidden: field is immutable"),
    ]


async def test_schema_and_rules_are_told_apart(api: Api) -> None:
    answer = await api.post(f"{HOME}/machines", made("Machine", {**SPEC, "clusterName": 5}))
    assert [(reason, path) for reason, path, _ in answer.causes] == [
        ("FieldValueTypeInvalid", "spec.clusterName")
    ]


async def test_replicas_are_written_for_scale(api: Api) -> None:
    (await api.post(f"{HOME}/machinesets", made("MachineSet", {**SET}))).ok()
    scale = (await api.get(f"{HOME}/machinesets/o/scale")).ok()
    assert scale["spec"] == {"replicas": 1}


async def test_the_short_names_of_two_worlds_are_told_apart(api: Api) -> None:
    for crd in machines.crds():
        (await api.post(CRDS, crd)).ok()
    listed = {}
    for group in ("machine.sapcloud.io/v1alpha1", "cluster.x-k8s.io/v1beta1"):
        found = (await api.get(f"/apis/{group}")).ok()["resources"]
        listed[group] = {name for each in found for name in each.get("shortNames", ())}
    assert not listed["machine.sapcloud.io/v1alpha1"] & listed["cluster.x-k8s.io/v1beta1"]
    groups = [each["name"] for each in (await api.get("/apis")).ok()["groups"]]
    ours = [name for name in groups if name in ("machine.sapcloud.io", "cluster.x-k8s.io")]
    assert ours == ["cluster.x-k8s.io", "machine.sapcloud.io"]


SET = {"clusterName": "c", "selector": {}, "template": {"spec": SPEC}}
