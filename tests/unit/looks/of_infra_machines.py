"""Scenes of a KubewrightMachine: what the management cluster's caches hold, and what the look must say."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, KubewrightMachine
from kubewright.driver.guard import GuardedDriver
from kubewright.driver.life.seen import NOTHING, ConsoleSeen, Verb
from kubewright.driver.registry import RoutedDriver
from kubewright.infra.caches import Caches, Shared
from kubewright.infra.machine.look import Looker
from kubewright.infra.machine.seen import Seen
from kubewright.infra.settings import InfraSettings
from kubewright.runtime.metrics import Metrics
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene, Shelf
from kubewright.testing.scenes import called

from .of_machines import Calls

NS, LABELS = "n", {"cluster.x-k8s.io/cluster-name": "c"}
SETTINGS, PATIENT = InfraSettings(), InfraSettings(confirm_absent=timedelta(minutes=1))
MINUTE = timedelta(minutes=1)


def _meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": NS, "uid": name, **more}


def machine(**spec: Any) -> KubewrightMachine:
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "m", "uid": "owner"}
    meta = _meta("m", labels=LABELS, ownerReferences=[{**owner, "controller": True}], generation=4)
    meta["creationTimestamp"] = "2029-12-31T00:00:00Z"
    return KUBEWRIGHT_MACHINE.from_plain({"metadata": meta, "spec": spec})


INFRA_REF = {"apiVersion": KUBEWRIGHT_MACHINE.resource.api_version, "kind": "KubewrightMachine"}


def original(name: str, **spec: Any) -> KubewrightMachine:
    return KUBEWRIGHT_MACHINE.from_plain({"metadata": _meta(name, labels=LABELS), "spec": spec})


def owner(data: str | None = None, **spec: Any) -> tuple[Any, Any]:
    bootstrap = {} if data is None else {"dataSecretName": data}
    given = {"clusterName": "c", "bootstrap": bootstrap, "version": "v1.31.0", **spec}
    return MACHINE, MACHINE.from_plain({"metadata": _meta("m", labels=LABELS), "spec": given})


def cluster(**spec: Any) -> tuple[Any, Any]:
    kind = KUBEWRIGHT_CLUSTER.resource
    ref = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "c"}
    return CLUSTER, CLUSTER.from_plain({"metadata": _meta("c"), "spec": {"infrastructureRef": ref, **spec}})


def infrastructure(**spec: Any) -> tuple[Any, Any]:
    meta = _meta("c", labels=LABELS, generation=2)
    return KUBEWRIGHT_CLUSTER, KUBEWRIGHT_CLUSTER.from_plain({"metadata": meta, "spec": spec})


def secret(name: str, **data: str) -> tuple[Any, Any]:
    return SECRET, SECRET.from_plain({"metadata": _meta(name), "data": data})


class Machines(Shelf):
    """The caches, and the looker of KubewrightMachines."""

    def __init__(
        self,
        calls: Calls | None = None,
        settings: InfraSettings = SETTINGS,
        *,
        one_clock: bool = False,
        driver: Any = None,
    ) -> None:
        super().__init__()
        self.client.one_clock = one_clock
        self.calls = calls or Calls()
        routed = RoutedDriver({"sim": GuardedDriver(driver, self.clock)}, "sim")
        shared = Shared(self.client, Caches(self.caches), routed, None, self.clock, settings, Metrics())
        self.looker = Looker(shared, self.calls)


def scene(
    of: KubewrightMachine,
    *there: tuple[Any, Any],
    calls: Calls | None = None,
    settings: InfraSettings = SETTINGS,
    created: datetime | None = None,
    now: datetime = BEGIN,
) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        machines = Machines(calls, settings)
        for kind, each in there:
            await machines.put(kind, each)
        return machines.looker.look(of, created, now)

    return look


ENDED = ConsoleSeen(BEGIN, "panic")
SHARED = {"credentialsRef": {"name": "cloud"}}
LOOK = Look(
    "infra.machine.look",
    Seen,
    (
        Scene(
            "nothing else is there",
            scene(machine()),
            {"machine": machine(), "settings": SETTINGS, "now": BEGIN, "owner": None, "cluster": None}
            | {
                "infrastructure": None,
                "paused": False,
                "vm": NOTHING,
                "source_missing": True,
                "data_problem": "",
            }
            | {"inputs": "4/0/None//", "doubt_until": None, "original": "", "console": None}
            | {
                "problem": "there is neither Cluster c nor its KubewrightCluster, "
                "which would name driver and credentials"
            },
        ),
        Scene(
            "all is there",
            scene(
                machine(failureDomain="a"),
                owner("data"),
                cluster(),
                infrastructure(**SHARED),
                secret("cloud", key="eA=="),
                secret("data", value="eA=="),
                calls=Calls(called(Verb.LOOK, absent=True), BEGIN + MINUTE, ENDED),
                settings=PATIENT,
                now=BEGIN + MINUTE,
            ),
            {"machine": machine(failureDomain="a"), "settings": PATIENT, "now": BEGIN + MINUTE, "problem": ""}
            | {"owner": Named("m", "m"), "cluster": Named("c"), "infrastructure.name": "c", "paused": False}
            | {"vm": called(Verb.LOOK, absent=True), "doubt_until": BEGIN + MINUTE, "source_missing": False}
            | {"inputs": "4/2/None/v1.31.0/104", "data_problem": "", "console": ENDED},
        ),
        Scene(
            "its Cluster is paused, and its Machine is placed",
            scene(machine(), owner(failureDomain="b"), cluster(paused=True), infrastructure()),
            {"paused": True, "inputs": "4/2/b/v1.31.0/"},
        ),
        Scene(
            "its credentials are missing",
            scene(machine(), owner(), cluster(), infrastructure(**SHARED)),
            {"source_missing": True, "problem": "there is no Secret cloud with credentials"},
        ),
        Scene(
            "its data are missing",
            scene(machine(), owner("data"), cluster(), infrastructure()),
            {"data_problem": "there is no Secret data, which the Machine names as its bootstrap data"},
        ),
        Scene(
            "its data are without a value",
            scene(machine(), owner("data"), cluster(), infrastructure(), secret("data", other="eA==")),
            {"data_problem": "Secret data has no key value, which bootstrap data needs"},
        ),
        Scene(
            "its Machine names another one, which has the same VM",
            scene(
                machine(providerID="vm-1"),
                owner(infrastructureRef={**INFRA_REF, "name": "first"}),
                cluster(),
                infrastructure(),
                (KUBEWRIGHT_MACHINE, original("first", providerID="vm-1")),
            ),
            {"owner": None, "original": "first", "cluster": Named("c")},
        ),
        Scene(
            "another one that has the same VM is named by no Machine",
            scene(
                machine(providerID="vm-1"),
                owner(infrastructureRef={**INFRA_REF, "name": "m"}),
                (KUBEWRIGHT_MACHINE, original("first", providerID="vm-1")),
            ),
            {"owner": Named("m", "m"), "original": ""},
        ),
        Scene(
            "each of two that have the same VM is named by a Machine",
            scene(
                machine(providerID="vm-1"),
                owner(infrastructureRef={**INFRA_REF, "name": "m"}),
                (
                    MACHINE,
                    MACHINE.from_plain(
                        {
                            "metadata": _meta("n"),
                            "spec": {"infrastructureRef": {**INFRA_REF, "name": "first"}},
                        }
                    ),
                ),
                (KUBEWRIGHT_MACHINE, original("first", providerID="vm-1")),
            ),
            {"owner": Named("m", "m"), "original": ""},
        ),
        Scene(
            "its driver does not run here",
            scene(machine(driver="foo"), owner(), cluster(), infrastructure()),
            {"problem": "driver 'foo' does not run in this program, only: sim", "source_missing": False},
        ),
    ),
)


async def inputs_of(*there: tuple[Any, Any], then: tuple[Any, Any]) -> list[str]:
    """What the driver is told from, before and after an object changes."""
    machines = Machines()
    for kind, each in there:
        await machines.put(kind, each)
    first = machines.looker.look(machine(), None, BEGIN).inputs
    await machines.put(*then)
    return [first, machines.looker.look(machine(), None, BEGIN).inputs]
