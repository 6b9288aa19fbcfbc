"""What a user does to the labels and owners of a running cluster on a real kube-apiserver: no machine is made for
it, and the cluster can be deleted."""

from pathlib import Path
from typing import Any

import pytest
from tests.conformance.clusters import GROUP, core, it_is_deleted, listed, workers
from tests.conformance.test_clusters_whole import MIXTURES, it_comes_up, managed

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

HASH = "machine-template-hash"


def owners(item: dict[str, Any]) -> list[str]:
    return [each["kind"] for each in item["metadata"].get("ownerReferences", ())]


async def test_labels_make_no_machine_and_a_cluster_goes_though_its_deployment_has_left_it(
    tmp_path: Path,
) -> None:
    """Cluster API v1.7.1 makes another machine for each of these changes of labels, and waits for ever."""
    async with managed(MIXTURES["all ours"], tmp_path) as api:
        await it_comes_up(api)
        before = {each["metadata"]["uid"]: each["metadata"]["name"] for each in await workers(api, 3)}
        off = {"metadata": {"labels": {HASH: None}}}
        (await api.patch(core(api, "machines", min(before.values())), off)).ok()
        labels = {f"{GROUP}/deployment-name": "blue-workers", "tier": "x"}
        spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
        (await api.patch(core(api, "machinedeployments", "blue-workers"), {"spec": spec})).ok()
        after = await workers(api, 3, lambda each: {"tier", HASH} <= each["metadata"]["labels"].keys())
        assert {each["metadata"]["uid"] for each in after} == before.keys()

        orphan = {"propagationPolicy": "Orphan"}
        (await api.delete(core(api, "machinedeployments", "blue-workers"), orphan)).ok()
        sets = core(api, "machinesets")
        (left,) = await listed(api, sets, lambda items: [*map(owners, items)] == [["Cluster"]])
        assert left["spec"]["replicas"] == 3
        await it_is_deleted(api)
