"""PriorityClasses on the embedded server alone; tests/conformance/test_priorities.py compares it with a real one."""

import pytest

from kubewright.testing.servers import embedded_api

PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@pytest.fixture
async def api():
    async with embedded_api() as found:
        yield found


async def make(api, name, **members):
    return await api.post(PATH, {"metadata": {"name": name}, **members})


async def pod(api, name="p", **spec):
    spec["containers"] = [{"name": "c", "image": "i:1"}]
    return await api.post(api.at("pods"), {"metadata": {"name": name}, "spec": spec})


async def classes(api):
    return {each["metadata"]["name"]: each["value"] for each in (await api.get(PATH)).ok()["items"]}


async def test_each_cluster_has_the_classes_of_the_system_and_keeps_them(api):
    (await make(api, "mine", value=5)).ok()
    assert await classes(api) == {**SYSTEM, "mine": 5}
    assert (await api.delete(f"{PATH}/system-node-critical")).code == 403
    refused = await api.delete(PATH)
    assert (refused.code, "system priority class" in refused.message) == (403, True)
    assert await classes(api) == SYSTEM


async def test_a_pod_without_a_class_gets_the_default_one(api):
    assert (await pod(api)).ok()["spec"]["priority"] == 0
    (await make(api, "usual", value=7, globalDefault=True, preemptionPolicy="Never")).ok()
    spec = (await pod(api, "q")).ok()["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("usual", 7, "Never")
    second = await make(api, "second", value=8, globalDefault=True)
    assert "PriorityClass usual is already marked as default" in second.message


async def test_a_class_without_a_value_is_zero(api):
    (await make(api, "zero")).ok()
    assert (await pod(api, priorityClassName="zero")).ok()["spec"]["priority"] == 0


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec"),
        ({"preemptionPolicy": "Never"}, "the string value of PreemptionPolicy (Never) must not be provided"),
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
    ],
)
async def test_a_pod_that_contradicts_its_class_is_refused(api, spec, why):
    refused = await pod(api, **spec)
    assert refused.code == 403
    assert why in refused.message
