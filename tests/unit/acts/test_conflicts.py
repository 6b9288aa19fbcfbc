"""A write that meets another version changes nothing and is told nobody: the next look decides anew.

Each act is given a plan that was made from an older version than the server has by now.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from msgspec import structs

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, InitConfiguration, KubeadmConfigSpec
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    ApiEndpoint,
    Cluster,
    Condition,
    Machine,
    MachineHealthCheck,
    MachineSpec,
    ObjectReference,
)
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NestedControlPlane
from kubewright.api.core import SECRET, Secret
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE, KubewrightMachine
from kubewright.api.machine.v1alpha1 import MACHINE as MCM_MACHINE
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.bootstrap import act as bootstrap
from kubewright.bootstrap import seen as bootstrap_steps
from kubewright.clusters.cluster import seen as cluster_seen
from kubewright.clusters.external.object import External
from kubewright.clusters.healthcheck import seen as check_seen
from kubewright.clusters.machine import seen as machine_seen
from kubewright.clusters.machine.look import WorkloadCalls
from kubewright.controlplanes.caches import Caches as PlaneCaches
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.plane import act as plane_act
from kubewright.controlplanes.plane import decide as plane_decide
from kubewright.controlplanes.plane.seen import Seen as PlaneSeen
from kubewright.driver.contract import Instance
from kubewright.infra.machine import seen as infra_steps
from kubewright.infra.machine.act import InfraMachines
from kubewright.infra.machine.seen import Seen as InfraSeen
from kubewright.infra.settings import InfraSettings
from kubewright.machines.machine import act as mcm_act
from kubewright.machines.machine import seen as mcm_seen
from kubewright.machines.machine.memory import Memory, Moments
from kubewright.machines.settings import MachineSettings
from kubewright.pki.clusters import new_pair
from kubewright.pki.credentials import Purpose
from kubewright.pki.keys import Algorithm
from kubewright.runtime.credentials.contents import read_secret
from kubewright.runtime.credentials.values import Found
from kubewright.runtime.kernel import unless_refused
from kubewright.runtime.lease import WHOLE
from kubewright.runtime.result import Result
from kubewright.testing import scenes
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf
from kubewright.wire.errors import Conflict, Forbidden

from ..looks.of_kubeadm_configs import TOKEN as DATA_TOKEN
from ..looks.of_kubeadm_configs import Provider, config, data_for, machine
from . import of_cluster_machines, of_clusters, of_health_checks


@dataclass
class Told:
    """The events that were recorded, and the writer of each component."""

    events: list[tuple[object, ...]] = field(default_factory=list)

    def event(self, *event: object, **_how: object) -> None:
        self.events.append(event)

    def of(self, _component: str) -> "Told":
        return self


NOBODY = Told()
META = ObjectMeta(name="m", namespace="n", uid="u", resource_version="7")
VM = Instance("sim:///here/vm-1", "m")


@dataclass
class Happened:
    """What one act did: the error that ended it, what it would show, and the events that it sent."""

    error: BaseException | None = None
    shown: dict[str, str] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    events: list[tuple[object, ...]] = field(default_factory=list)


async def done(work, told: Told) -> Happened:
    try:
        outcome = await work
    except KubewrightError as error:
        return Happened(error, events=told.events)
    return Happened(None, getattr(outcome, "failed", {}), getattr(outcome, "errors", []), told.events)


async def kubeadm_config(*, data: bool) -> tuple[Shelf, Happened]:
    provider, told = Provider(), Told()
    await provider.has(of=machine(data="m"))
    old = structs.replace(config(), metadata=structs.replace(config().metadata, resource_version="7"))
    provider.lay(KUBEADM_CONFIG, config())
    if data:
        await provider.put(SECRET, data_for(DATA_TOKEN))
        seen = await provider.looker.look(old)
        await provider.put(SECRET, data_for(DATA_TOKEN))  # another client writes it
        steps: tuple[bootstrap_steps.Step, ...] = (bootstrap_steps.OwnData(),)
    else:
        seen = await provider.looker.look(old)
        steps = (bootstrap_steps.PatchSpec(KubeadmConfigSpec(init_configuration=InitConfiguration())),)
    configs = bootstrap.KubeadmConfigs(
        provider.client, provider.in_caches.configs, told, provider.looker, provider.calls
    )
    provider.asked.clear()
    return provider, await done(configs.carry_out(old, seen, bootstrap_steps.Plan(steps)), told)


async def kubeadm_spec() -> tuple[Shelf, Happened]:
    return await kubeadm_config(data=False)


async def kubeadm_data() -> tuple[Shelf, Happened]:
    return await kubeadm_config(data=True)


class Nothing:
    """What an act does not need for these steps."""

    def __init__(self, **what: object) -> None:
        self.__dict__ |= what


async def mcm_machine() -> tuple[Shelf, Happened]:
    shelf, told, of = Shelf(), Told(), scenes.machine("", vm=False)
    shelf.lay(MCM_MACHINE, of)
    shared = Nothing(
        control=shelf.client,
        target=shelf.client,
        recorder=told,
        clock=shelf.clock,
        removals=None,
        caches=Nothing(machines=shelf.caches.get(MCM_MACHINE)),
        settings=MachineSettings(),
        shard=WHOLE,
        volume_ids=None,
        console=None,
        hot_fields=None,
        one_clock=False,
    )
    memory = Memory(Moments(shelf.client.steady()), timedelta())
    machines = mcm_act.Machines(
        shared, None, memory, busy=lambda: False, wake=lambda *_: None, performed=lambda *_: None
    )
    plan = mcm_seen.Plan((mcm_seen.Record(scenes.VM),))
    return shelf, await done(machines.carry_out(of, scenes.seen(of), plan), told)


async def infra_machine() -> tuple[Shelf, Happened]:
    shelf, told = Shelf(), Told()
    of = KubewrightMachine(metadata=META)
    shelf.lay(KUBEWRIGHT_MACHINE, of)
    caches = Nothing(machines=shelf.caches.get(KUBEWRIGHT_MACHINE))
    shared = Nothing(control=shelf.client, clock=shelf.clock, recorder=told, caches=caches)
    actor = InfraMachines(shared, None, None, shelf.clock)
    seen = InfraSeen(machine=of, settings=InfraSettings(), now=BEGIN)
    plan = infra_steps.Plan((infra_steps.Record(VM, ""),))
    return shelf, await done(unless_refused(actor.carry_out(of, seen, plan), of, told), told)


async def cluster_machine() -> tuple[Shelf, Happened]:
    shelf = of_cluster_machines.Stage()
    of = Machine(metadata=META, spec=MachineSpec(cluster_name="c"))
    shelf.lay(MACHINE, of)
    seen = machine_seen.Seen(of, BEGIN, BEGIN, External(ObjectReference()))
    step = machine_seen.UpdateMachine({"metadata": {"labels": {"a": "b"}}})
    calls = WorkloadCalls(shelf.clock)
    return shelf, await done(of_cluster_machines.performed(shelf, NOBODY, seen, calls, step), NOBODY)


async def cluster() -> tuple[Shelf, Happened]:
    shelf = of_clusters.Stage()
    of = Cluster(metadata=META)
    shelf.lay(CLUSTER, of)
    saw = cluster_seen.Seen(of, BEGIN)
    return shelf, await done(of_clusters.performed(shelf, NOBODY, saw, cluster_seen.AddFinalizer()), NOBODY)


async def kubeconfig() -> tuple[Shelf, Happened]:
    shelf = of_clusters.Stage()
    there = Secret(metadata=ObjectMeta(name="m-kubeconfig", namespace="n", uid="s", resource_version="7"))
    shelf.lay(SECRET, there)
    pair = new_pair(Purpose.CA, BEGIN, Algorithm.EC)
    authority = Found({}, pair, metadata=ObjectMeta(name="m-ca"))
    old = read_secret(there)
    step = cluster_seen.WriteKubeconfig(ApiEndpoint(host="h", port=6443), authority, old)
    seen = cluster_seen.Seen(Cluster(metadata=META), BEGIN)
    return shelf, await done(of_clusters.performed(shelf, NOBODY, seen, step), NOBODY)


async def health_check() -> tuple[Shelf, Happened]:
    shelf, told = Shelf(), Told()
    of = Machine(metadata=META, spec=MachineSpec(cluster_name="c"))
    shelf.lay(MACHINE, of)
    seen = check_seen.Seen(MachineHealthCheck(metadata=META), None, 0.0, BEGIN)
    told_of = (Condition(type="HealthCheckSucceeded", status="False"),)
    plan = Plan((check_seen.WriteConditions(of, told_of, unhealthy=True),))
    return shelf, await done(of_health_checks.performed(shelf.client, shelf, told, seen, plan), told)


async def plane() -> tuple[Shelf, Happened]:
    shelf, told = Shelf(), Told()
    of = NestedControlPlane(metadata=META)
    shelf.lay(NESTED_CONTROL_PLANE, of)
    environment = Nothing(control=Nothing(client=shelf.client), recorder=told)
    actor = plane_act.ControlPlanes(environment, PlaneCaches(shelf.caches))
    plan = plane_decide.Plan((plane_decide.AddFinalizer(),))
    return shelf, await done(actor.carry_out(of, PlaneSeen(Family(of), BEGIN), plan), told)


ACTS = {
    each.__name__: each
    for each in (
        kubeadm_spec,
        kubeadm_data,
        mcm_machine,
        infra_machine,
        cluster_machine,
        cluster,
        kubeconfig,
        health_check,
        plane,
    )
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
async def test_a_conflict_is_another_look_and_neither_condition_nor_event(act):
    shelf, happened = await act()
    met = [happened.error] if happened.error is not None else happened.errors
    assert [type(each) for each in met] == [Conflict]
    assert (happened.shown, happened.events) == ({}, [])
    assert len(shelf.asked) == 1  # no status says so either
    assert {body["metadata"]["resourceVersion"] for body in shelf.objects.values()} != {"7"}


async def test_what_is_refused_for_good_is_told():
    """The other way round: else the test above would also pass if nothing were ever told."""
    told, about = Told(), KubewrightMachine(metadata=META)

    async def refused() -> Result:
        raise Forbidden("no")

    await unless_refused(refused(), about, told)
    assert [event[1] for event in told.events] == ["FailedUpdate"]
