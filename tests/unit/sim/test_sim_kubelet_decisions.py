"""What a hollow kubelet decides: pure, values in, values out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kubewright.api.core import NodeCondition, PodStatus
from kubewright.api.meta import Condition
from kubewright.providers.sim import pods
from kubewright.providers.sim.cloud import BEHAVIOURS, shaped_by
from kubewright.providers.sim.kubelets import Act, KubeletState, Next, NodeView, Situation, decide
from kubewright.providers.sim.registration import conditions, node, statuses
from kubewright.providers.sim.spec import KubeletSettings, Lifecycle, SimSpec, TaintSpec
from kubewright.providers.sim.vm import Vm, VmState, state_at

UP = 1000.0
VM = Vm(
    serial=1,
    name="m1",
    namespace="ns",
    owner_uid="u",
    class_name="c",
    spec=SimSpec(),
    created_at=900,
    up_at=UP,
)
SILENT = VmState(kubelet=False)
T0 = datetime(2030, 1, 1, tzinfo=UTC)


def vm(**changes: Any) -> Vm:
    """The VM above with other fields; ``lifecycle``, ``spec`` are replaced member by member."""
    spec = msgspec.structs.replace(VM.spec, **changes.pop("spec", {}))
    if "lifecycle" in changes:
        spec = msgspec.structs.replace(spec, lifecycle=Lifecycle(**changes.pop("lifecycle")))
    return msgspec.structs.replace(VM, spec=spec, **changes)


# ---------------------------------------------------------------- what a VM does, by time

LIVES = [
    pytest.param(
        vm(), UP - 1, VmState(False, until=UP), id="while it boots its kubelet is silent, until it is up"
    ),
    pytest.param(vm(), UP, VmState(True), id="after its boot it sends requests, for ever"),
    pytest.param(vm(powered=False), UP, SILENT, id="without power it is silent for ever"),
    pytest.param(vm(gone_at=UP + 50), UP, SILENT, id="while it is being deleted it is silent"),
    pytest.param(vm(orders=("stop-kubelet",)), UP, SILENT, id="an order stops its kubelet"),
    pytest.param(vm(lifecycle={"joins": False}), UP, SILENT, id="one that never joins is silent"),
    pytest.param(vm(spec={"needs_initialize": True}), UP, SILENT, id="uninitialized it is silent"),
    pytest.param(
        vm(spec={"needs_initialize": True}, initialized=True),
        UP,
        VmState(True),
        id="initialized it sends requests",
    ),
    pytest.param(
        vm(lifecycle={"dies_after_seconds": 20}),
        UP,
        VmState(True, until=UP + 20),
        id="before its death it sends requests until then",
    ),
    pytest.param(
        vm(lifecycle={"dies_after_seconds": 20}), UP + 20, SILENT, id="after its death it is silent"
    ),
    pytest.param(
        vm(lifecycle={"dies_after_seconds": 20, "kubelet_stops_after_seconds": 5}),
        UP + 5,
        SILENT,
        id="the first end counts",
    ),
    pytest.param(
        vm(spec={"ready_seconds": 9}),
        UP,
        VmState(True, frozenset({"NotReady"}), UP + 9),
        id="a node may join before it is ready",
    ),
    pytest.param(
        vm(lifecycle={"condition": "DiskPressure", "condition_after_seconds": 20}),
        UP,
        VmState(True, until=UP + 20),
        id="a condition to come ends the state",
    ),
    pytest.param(
        vm(lifecycle={"condition": "DiskPressure", "condition_after_seconds": 20}),
        UP + 20,
        VmState(True, frozenset({"DiskPressure"})),
        id="a condition that has come stays",
    ),
    pytest.param(
        vm(orders=("disk-pressure", "not-ready")),
        UP,
        VmState(True, frozenset({"DiskPressure", "NotReady"})),
        id="orders show as conditions",
    ),
]


@pytest.mark.parametrize(("machine", "now", "expected"), LIVES)
def test_state_at(machine: Vm, now: float, expected: VmState) -> None:
    assert state_at(machine, now) == expected


def test_every_word_for_a_behaviour_changes_something_and_says_what() -> None:
    for word, behaviour in BEHAVIOURS.items():
        assert shaped_by(f"{word}-1", SimSpec()) != SimSpec(), word
        assert "-" not in word
        assert behaviour.shows


# ---------------------------------------------------------------- what its kubelet does

GOOD = {"Ready": "True", "DiskPressure": "False", "MemoryPressure": "False", "PIDPressure": "False"}


def view(note: str = "", **changes: str) -> NodeView:
    return NodeView(
        "n1", [NodeCondition(type=kind, status=status) for kind, status in {**GOOD, **changes}.items()], note
    )


REST = Situation(
    KubeletState("m1", renew_at=60, heartbeat_at=300), VmState(True), view(), now=50, changes_at=None
)
DECISIONS = [
    pytest.param(REST, Next(None, 60), id="at rest it comes back for its lease"),
    pytest.param(
        replace(REST, vm=SILENT, node=None), Next(None), id="silent, it does nothing until something changes"
    ),
    pytest.param(
        replace(REST, vm=SILENT, changes_at=55), Next(None, 55), id="booting, it comes back when it is up"
    ),
    pytest.param(replace(REST, node=None), Next(Act.REGISTER), id="without a node it registers"),
    pytest.param(
        replace(REST, node=None, kubelet=KubeletState("m1", not_before=70)),
        Next(None, 70),
        id="after a failure it waits",
    ),
    pytest.param(replace(REST, now=60), Next(Act.RENEW), id="it renews its lease in time"),
    pytest.param(
        replace(REST, node=view(Ready="Unknown")), Next(Act.REPORT), id="it corrects what others say of it"
    ),
    pytest.param(
        replace(REST, node=view(Ready="Unknown"), kubelet=KubeletState("m1", renew_at=60, write_from=51)),
        Next(None, 51),
        id="it pauses between two corrections",
    ),
    pytest.param(
        replace(REST, node=view(Terminating="True")),
        Next(None, 60),
        id="conditions of others are not its business",
    ),
    pytest.param(
        replace(REST, vm=VmState(True, frozenset({"DiskPressure"}))),
        Next(Act.REPORT),
        id="it reports news at once",
    ),
    pytest.param(
        replace(REST, kubelet=KubeletState("m1", renew_at=400, heartbeat_at=300), now=300),
        Next(Act.REPORT),
        id="it has a heartbeat",
    ),
    pytest.param(
        replace(REST, changes_at=55), Next(None, 55), id="it comes back when the state of its VM changes"
    ),
    pytest.param(
        replace(REST, node=view("restart")), Next(Act.CLEAR), id="it clears away an order carried out"
    ),
    pytest.param(
        replace(REST, node=view(KernelDeadlock="True")),
        Next(Act.REPORT),
        id="a fault that ended is reported as ended",
    ),
]


@pytest.mark.parametrize(("situation", "expected"), DECISIONS)
def test_what_a_kubelet_does_next(situation: Situation, expected: Next) -> None:
    assert decide(situation) == expected


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    earlier = T0 - timedelta(hours=1)
    before = [
        NodeCondition(type="Ready", status="True", last_transition_time=earlier),
        NodeCondition(type="DiskPressure", status="False", last_transition_time=earlier),
    ]
    told = conditions(statuses(frozenset({"DiskPressure"}), frozenset()), before, T0)
    since = {condition["type"]: condition["lastTransitionTime"] for condition in told}
    assert since["Ready"] == "2029-12-31T23:00:00Z"
    assert since["DiskPressure"] == "2030-01-01T00:00:00Z"


def test_a_node_carries_what_the_class_says() -> None:
    spec = {
        "region": "r",
        "zone": "z",
        "instance_type": "big",
        "labels": {"pool": "a"},
        "taints": (TaintSpec(key="k", effect="NoSchedule"),),
        "capacity": {"cpu": 4},
    }
    made = node(vm(spec=spec), GOOD, T0)
    assert made["metadata"]["labels"] == {
        "kubernetes.io/hostname": "m1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "big",
        "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/zone": "z",
        "pool": "a",
    }
    assert made["spec"] == {
        "providerID": "sim:///r/vm-000001",
        "taints": [{"key": "k", "effect": "NoSchedule"}],
    }
    assert made["status"]["capacity"] == made["status"]["allocatable"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("kubelets", "every"),
    [(1, 10), (500, 10), (1000, 20), (10_000, 24)],
    ids=[
        "one kubelet renews every ten seconds",
        "so do five hundred",
        "a thousand share fifty writes a second",
        "ten thousand still renew in time",
    ],
)
def test_leases_stay_affordable(kubelets: int, every: float) -> None:
    assert KubeletSettings().renewal(kubelets) == every


# ---------------------------------------------------------------- what becomes of pods


def pod(phase: str = "Pending", *, deleted: float | None = None, grace: int = 30) -> pods.PodSlice:
    """``deleted`` is how many seconds ago it was deleted."""
    metadata: dict[str, Any] = {"uid": "p1", "creationTimestamp": "2029-12-31T23:59:50Z"}
    if deleted is not None:
        by = T0 - timedelta(seconds=deleted) + timedelta(seconds=grace)
        metadata |= {"deletionTimestamp": by, "deletionGracePeriodSeconds": grace}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase}}, pods.PodSlice)


SLOW = KubeletSettings(pod_start_seconds=15, pod_stop_seconds=20)
PODS = [
    pytest.param(pod(), KubeletSettings(), pods.Start(), id="a pending pod is started"),
    pytest.param(pod(), SLOW, pods.Wait(T0 + timedelta(seconds=5)), id="its start takes its time"),
    pytest.param(pod("Running"), KubeletSettings(), pods.Wait(), id="a running pod is left alone"),
    pytest.param(pod("Succeeded"), KubeletSettings(), pods.Wait(), id="a finished pod is left alone"),
    pytest.param(
        pod("Running", deleted=25), SLOW, pods.Remove(), id="a deleted pod is removed when it ended"
    ),
    pytest.param(
        pod("Running", deleted=5),
        SLOW,
        pods.Wait(T0 + timedelta(seconds=15)),
        id="a deleted pod ends in its time",
    ),
    pytest.param(
        pod("Running", deleted=3, grace=2),
        SLOW,
        pods.Remove(),
        id="its grace may be shorter than that",
    ),
    pytest.param(
        pod("Running", deleted=3, grace=0),
        SLOW,
        pods.Wait(),
        id="what a finalizer holds is left alone",
    ),
]


@pytest.mark.parametrize(
    ("lost", "ready_since", "confirms"),
    [
        pytest.param(-30, 0, True, id="its node was lost, and is back"),
        pytest.param(8, 0, True, id="it was marked just after its node was back"),
        pytest.param(60, 0, False, id="a user took its readiness away later"),
        pytest.param(-30, None, False, id="its node is not ready yet"),
        pytest.param(None, 0, False, id="nobody says when it lost its readiness"),
    ],
)
def test_a_kubelet_that_is_back_says_that_its_pods_are_ready(
    lost: int | None, ready_since: int | None, confirms: bool
) -> None:
    def at(seconds: int | None) -> datetime | None:
        return None if seconds is None else T0 + timedelta(seconds=seconds)

    conditions = (
        Condition(type="Ready", status="False", last_transition_time=at(lost)),
        Condition(type="ContainersReady", status="True"),
    )
    it = msgspec.structs.replace(pod("Running"), status=PodStatus(phase="Running", conditions=conditions))
    step = pods.decide(it, KubeletSettings(), T0, lambda: at(ready_since))
    assert step == (pods.Confirm() if confirms else pods.Wait())


@pytest.mark.parametrize(("it", "settings", "expected"), PODS)
def test_what_happens_to_a_pod(it: pods.PodSlice, settings: KubeletSettings, expected: object) -> None:
    assert pods.decide(it, settings, T0) == expected
