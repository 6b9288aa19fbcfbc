"""Writes of ``machine.sapcloud.io`` that a server refuses: what its controllers would report is not stored."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.api.catalog import EMBEDDED_RULES, crds, with_migrated
from kubewright.apiserver.server import ApiServer
from kubewright.kube.transport import InProcess
from kubewright.testing.api import Api
from kubewright.testing.clocks import LoopClock

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOME = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default"
LABELS = {"test-label": "test-label"}
CLASS = {"kind": "MachineClass", "name": "test"}
OLD = {"kind": "AWSMachineClass", "name": "test-aws"}


class Server:
    """A server with the kinds of machines; ``rules`` and ``migrated`` may change under it."""

    def __init__(self) -> None:
        self.migrated: set[str] = set()
        self.clock = LoopClock()
        self.server = ApiServer(self.clock, admission=with_migrated(EMBEDDED_RULES, lambda: self.migrated))
        self.api = Api(InProcess(self.server.handle), self.clock, "embedded")

    async def stored(self, plural: str, body: dict[str, Any]) -> None:
        """Store what no driver migrates any more."""
        self.migrated.add("AWSMachineClass")
        (await self.api.post(f"{HOME}/{plural}", body)).ok()
        self.migrated.clear()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server()
    await found.server.start()
    for crd in crds("machines"):
        (await found.api.post(CRDS, crd)).ok()
    yield found
    await found.server.close()


def made(kind: str, spec: dict[str, Any], name: str = "o", **more: Any) -> dict[str, Any]:
    head = {"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
    return {**head, **({"spec": spec} if spec else {}), **more}


def fleet(machine_class: dict[str, str] = CLASS, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"class": machine_class}}
    return {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template, **spec}


CAPACITY = {"instanceType": "t", "region": "r", "zone": "z", "capacity": {"cpu": "1", "gpu": "0"}}
REFUSED = {
    "a set whose selector misses its template": (
        "machinesets",
        made("MachineSet", fleet(selector={"matchLabels": {"other": "x"}})),
        "spec.selector.matchLabels",
    ),
    "a deployment whose selector misses its template": (
        "machinedeployments",
        made("MachineDeployment", fleet(selector={"matchLabels": {"other": "x"}})),
        "spec.selector.matchLabels",
    ),
    "a deployment with a percentage that is none": (
        "machinedeployments",
        made(
            "MachineDeployment",
            fleet(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "many"}}),
        ),
        "spec.strategy.rollingUpdate.maxSurge",
    ),
    "a machine with a timeout that is none": (
        "machines",
        made("Machine", {"class": CLASS, "drainTimeout": "2 hours"}),
        "spec.drainTimeout",
    ),
    "a machine without the name of its class": (
        "machines",
        made("Machine", {"class": {"kind": "MachineClass"}}),
        "spec.class.name",
    ),
    "a class whose node template lacks the memory": (
        "machineclasses",
        made("MachineClass", {}, nodeTemplate=CAPACITY, providerSpec={}),
        "nodeTemplate.capacity",
    ),
    "a machine of the seed, whose kind of class no driver migrates": (
        "machines",
        made("Machine", {"class": OLD}),
        "spec.class.kind",
    ),
    "a set of the seed": ("machinesets", made("MachineSet", fleet(OLD)), "spec.template.spec.class.kind"),
    "a deployment of the seed": (
        "machinedeployments",
        made("MachineDeployment", fleet(OLD)),
        "spec.template.spec.class.kind",
    ),
}


@pytest.mark.parametrize(("plural", "body", "field"), REFUSED.values(), ids=REFUSED)
async def test_what_its_controllers_would_report_is_refused_with_the_field(
    server: Server, plural: str, body: dict[str, Any], field: str
) -> None:
    answer = await server.api.post(f"{HOME}/{plural}", body)
    assert answer.code == 422
    assert field in [path for _, path, _ in answer.causes]


async def test_of_a_foreign_kind_of_class_one_sentence_says_what_to_write(server: Server) -> None:
    told = (await server.api.post(f"{HOME}/machines", made("Machine", {"class": OLD}))).message
    assert told == (
        'Machine.machine.sapcloud.io "o" is invalid: spec.class.kind: Invalid value: "AWSMachineClass": machines '
        "are made of kind MachineClass, and no driver here migrates others: write kind MachineClass, and make "
        "one named test-aws with the driver's name as its provider and the old class's spec as its providerSpec"
    )


async def test_a_kind_of_class_that_a_driver_migrates_is_accepted(server: Server) -> None:
    server.migrated.add("AWSMachineClass")
    for plural, kind, spec in (
        ("machines", "Machine", {"class": OLD}),
        ("machinesets", "MachineSet", fleet(OLD)),
        ("machinedeployments", "MachineDeployment", fleet(OLD)),
    ):
        (await server.api.post(f"{HOME}/{plural}", made(kind, spec))).ok()


async def test_what_is_stored_and_wrong_can_be_scaled_and_finalized_and_mended_and_deleted(
    server: Server,
) -> None:
    await server.stored("machinedeployments", made("MachineDeployment", fleet(OLD)))
    place = f"{HOME}/machinedeployments/o"
    (await server.api.patch(place, {"spec": {"replicas": 5}})).ok()
    (await server.api.patch(f"{place}/scale", {"spec": {"replicas": 6}})).ok()
    (await server.api.patch(place, {"metadata": {"finalizers": ["example.com/a"]}})).ok()
    other = {"spec": {"template": {"spec": {"class": {"name": "another"}}}}}
    assert (await server.api.patch(place, other)).code == 422
    (await server.api.patch(place, {"metadata": {"finalizers": None}})).ok()
    mended = {"spec": {"template": {"spec": {"class": CLASS}}}}
    (await server.api.patch(place, mended)).ok()
    back = {"spec": {"template": {"spec": {"class": OLD}}}}
    assert (await server.api.patch(place, back)).code == 422
    (await server.api.delete(place)).ok()
