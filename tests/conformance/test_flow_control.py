"""``deploy/flow-control`` on a real kube-apiserver: our requests, and no others, are in the flows that it declares."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kubewright.api.kinds import Kind
from kubewright.base.clock import SystemClock
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.testing.kubectl import Kubectl
from kubewright.testing.real_kubernetes import RealKubernetes, find
from kubewright.wire.gvk import Key, Resource

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

FOLDER = Path(__file__).parents[2] / "deploy" / "flow-control"
FILE = str(FOLDER / "flow-control.yaml")
OURS = "system:serviceaccount:kubewright-system:kubewright"
OTHER = "system:serviceaccount:default:other"
GROUP = ("flowcontrol.apiserver.k8s.io", "v1")
SCHEMAS = Kind(Resource(*GROUP, "flowschemas", "FlowSchema", namespaced=False), dict)
LEVELS = Kind(
    Resource(*GROUP, "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False), dict
)
MACHINES = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machines"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kubewright-system/leases"


@pytest.fixture
def applied(real_kubernetes: RealKubernetes, tmp_path: Path) -> Iterator[Kubectl]:
    kubectl = Kubectl(find().kubectl, real_kubernetes.kubeconfig, tmp_path, "real", "")
    kubectl("apply", "--validate=strict", "-f", FILE)
    try:
        yield kubectl
    finally:
        kubectl("delete", "-f", FILE)


@pytest.fixture
async def client(real_kubernetes: RealKubernetes) -> AsyncIterator[Client]:
    found = Client(load(real_kubernetes.kubeconfig), SystemClock())
    yield found
    await found.close()


async def flow(client: Client, user: str, method: str, path: str) -> tuple[str, str]:
    """The names of the flow schema and of the priority level in which the server handled a request."""
    groups = {"impersonate-user": user, "impersonate-group": "system:serviceaccounts"}
    request = client.request(method, path)
    answer = await client.transport.request(
        replace(request, headers={**request.headers, **groups}), timeout=10
    )
    names = []
    for kind, header in ((SCHEMAS, "flowschema"), (LEVELS, "prioritylevel")):
        uid = answer.headers[f"x-kubernetes-pf-{header}-uid"]
        objects = await client.list(kind)
        names.append(next(each["metadata"]["name"] for each in objects if each["metadata"]["uid"] == uid))
    return names[0], names[1]


async def test_our_requests_have_a_level_of_their_own_and_our_leases_go_with_kubernetes_leases(
    applied: Kubectl, client: Client
) -> None:
    applied("wait", "flowschema/kubewright", "flowschema/kubewright-leases", "--for=condition=Dangling=False")
    async with asyncio.timeout(30):
        while await flow(client, OURS, "GET", MACHINES) != ("kubewright", "kubewright"):
            await client.clock.sleep(0.1)  # a server learns of it by its own watch
    assert await flow(client, OURS, "PATCH", f"{MACHINES}/a/status") == ("kubewright", "kubewright")
    assert await flow(client, OURS, "GET", "/version") == ("kubewright", "kubewright")
    assert await flow(client, OURS, "GET", f"{LEASES}/machine-controller") == (
        "kubewright-leases",
        "leader-election",
    )
    assert await flow(client, OTHER, "GET", MACHINES) == ("service-accounts", "workload-low")


async def test_the_seats_of_our_level_are_as_many_as_its_comment_says(
    applied: Kubectl, client: Client
) -> None:
    shares = [
        each["spec"]["limited"]["nominalConcurrencyShares"]
        for each in await client.list(LEVELS)
        if each["spec"]["type"] == "Limited"
    ]
    ours = (await client.get(LEVELS, Key("", "kubewright")))["spec"]["limited"]["nominalConcurrencyShares"]
    assert (ours, sum(shares)) == (20, 265)
    metric = 'apiserver_flowcontrol_nominal_limit_seats{priority_level="kubewright"}'
    text = applied("get", "--raw", "/metrics")
    found = next(line for line in text.splitlines() if line.startswith(metric))
    assert float(found.split()[1]) == 46


def test_the_flows_are_those_of_the_account_that_the_roles_are_bound_to() -> None:
    documents = list(yaml.safe_load_all(Path(FILE).read_text()))
    account = yaml.safe_load((FOLDER.parent / "service-account.yaml").read_text())["metadata"]
    subjects = [
        subject["serviceAccount"]
        for each in documents
        if each["kind"] == "FlowSchema"
        for rule in each["spec"]["rules"]
        for subject in rule["subjects"]
    ]
    assert subjects == [{"name": account["name"], "namespace": account["namespace"]}] * 2
