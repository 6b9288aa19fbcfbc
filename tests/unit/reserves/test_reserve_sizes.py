"""How many placeholders a reserve has, which nodes are its pool, and when they become fewer."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE, MOST, CapacityReserveSpec, Reason
from kubewright.api.core import NODE, Node
from kubewright.reserves.sizing import WINDOW, Pace, Pool, belongs, fits, gathering, paced, pool_of, wanted

T0 = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
UNIT = {"cpu": "500m", "memory": "1Gi"}


def spec(**members) -> CapacityReserveSpec:
    return CAPACITY_RESERVE.from_plain({"spec": {"unit": UNIT, **members}}).spec


def a_node(name="n", *, ready="True", allocatable=None, labels=None, deleting=False, **members) -> Node:
    meta = {"name": name, "labels": labels or {}}
    if deleting:
        meta["deletionTimestamp"] = T0.isoformat()
    offers = allocatable or {"cpu": "4", "memory": "16Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    return NODE.from_plain(
        {"metadata": meta, "spec": members, "status": {"allocatable": offers, "conditions": conditions}}
    )


def pool(*cpus: int, pods: int = 110) -> Pool:
    offers = [{"cpu": f"{each}", "memory": f"{4 * each}Gi", "pods": f"{pods}"} for each in cpus]
    return pool_of(spec(), [a_node(f"n{at}", allocatable=each) for at, each in enumerate(offers)])


def taint(key: str, effect: str = "NoSchedule", **more: str) -> dict[str, str]:
    return {"key": key, "effect": effect, **more}


BATCH = spec(replicas=1, tolerations=[{"key": "batch", "operator": "Exists"}])
EVERY = spec(replicas=1, tolerations=[{"operator": "Exists"}])


@pytest.mark.parametrize(
    ("of", "node", "belonging"),
    [
        pytest.param(spec(), a_node(), True, id="a Ready node"),
        pytest.param(spec(), a_node(ready="False"), False, id="one that is not Ready"),
        pytest.param(spec(), a_node(ready="Unknown"), False, id="one that has fallen silent"),
        pytest.param(spec(), a_node(ready=""), False, id="one that has not said yet"),
        pytest.param(spec(), a_node(unschedulable=True), False, id="a cordoned one"),
        pytest.param(EVERY, a_node(unschedulable=True), False, id="a cordoned one, though all is tolerated"),
        pytest.param(spec(), a_node(deleting=True), False, id="one that is being deleted"),
        pytest.param(spec(nodeSelector={"p": "a"}), a_node(labels={"p": "a", "x": ""}), True, id="its label"),
        pytest.param(spec(nodeSelector={"p": "a"}), a_node(labels={"p": "b"}), False, id="another label"),
        pytest.param(spec(), a_node(taints=[taint("batch")]), False, id="a taint"),
        pytest.param(spec(), a_node(taints=[taint("batch", "PreferNoSchedule")]), True, id="a soft taint"),
        pytest.param(BATCH, a_node(taints=[taint("batch")]), True, id="a taint that is tolerated"),
        pytest.param(BATCH, a_node(taints=[taint("gpu", "NoExecute")]), False, id="another taint"),
        pytest.param(
            spec(tolerations=[{"key": "a", "value": "1"}]), a_node(taints=[taint("a", value="2")]), False,
            id="a taint of another value",
        ),
        pytest.param(
            spec(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute"}]),
            a_node(taints=[taint("a")]),
            False,
            id="a taint of another effect",
        ),
        pytest.param(
            EVERY, a_node(taints=[taint("ToBeDeletedByClusterAutoscaler")]), False,
            id="one that an autoscaler removes, though all is tolerated",
        ),
    ],
)  # fmt: skip
def test_the_pool_is_what_is_there_to_stay(of, node, belonging):
    assert belongs(of, node) is belonging


@pytest.mark.parametrize(
    ("of", "nodes", "number", "because"),
    [
        pytest.param(spec(replicas=3), pool(), 3, "spec.replicas is 3", id="a number"),
        pytest.param(spec(replicas=0), pool(4), 0, "spec.replicas is 0", id="none"),
        pytest.param(spec(percent={"cpu": 10}), pool(4, 4), 2, "10 % of cpu of 2 nodes", id="rounded up"),
        pytest.param(spec(percent={"cpu": 25}), pool(4, 4), 4, "25 % of cpu of 2 nodes", id="a share, exactly"),
        pytest.param(
            spec(percent={"cpu": 10, "memory": 50}), pool(4, 4), 16, "10 % of cpu and 50 % of memory of 2 nodes",
            id="the resource that needs most",
        ),
        pytest.param(spec(percent={"cpu": 10}), pool(), 0, "10 % of cpu of 0 nodes", id="a share of nothing"),
        pytest.param(spec(total={"cpu": "2200m"}), pool(), 5, "spec.total is cpu 2200m", id="an amount"),
        pytest.param(spec(total={"memory": "0"}), pool(), 0, "spec.total is memory 0", id="no amount"),
        pytest.param(spec(machines=2), pool(4, 8), 32, "16 for each of 2 machines", id="the largest machine"),
        pytest.param(spec(machines=2), pool(64, pods=20), 40, "20 for each of 2 machines", id="pods of a machine"),
        pytest.param(spec(machines=2), pool(), 2, "1 for each of 2 machines", id="machines, of no node yet"),
    ],
)  # fmt: skip
def test_each_way_to_say_how_much(of, nodes, number, because):
    size = wanted(of, nodes)
    assert (size.number, size.unbounded, size.bound, size.because) == (number, number, None, because)


@pytest.mark.parametrize(
    ("of", "number", "unbounded", "bound"),
    [
        pytest.param(spec(replicas=9, limits={"cpu": "2"}), 4, 9, Reason.BY_LIMITS, id="a limit"),
        pytest.param(spec(replicas=9, limits={"cpu": "2100m"}), 4, 9, Reason.BY_LIMITS, id="rounded down"),
        pytest.param(
            spec(replicas=9, limits={"cpu": "2", "memory": "3Gi"}), 3, 9, Reason.BY_LIMITS, id="the narrowest"
        ),
        pytest.param(spec(replicas=4, limits={"cpu": "2"}), 4, 4, None, id="a limit that is just enough"),
        pytest.param(spec(total={"cpu": "600"}), MOST, 1200, Reason.BY_NUMBER, id="the bound of all reserves"),
        pytest.param(
            spec(total={"cpu": "600"}, limits={"cpu": "550"}), MOST, 1200, Reason.BY_NUMBER, id="the lower of two"
        ),
    ],
)  # fmt: skip
def test_bounds(of, number, unbounded, bound):
    size = wanted(of, pool(4))
    assert (size.number, size.unbounded, size.bound) == (number, unbounded, bound)


def test_a_unit_fits_where_each_resource_does():
    node = {"cpu": Decimal(4), "memory": Decimal(10)}
    assert fits({"cpu": Decimal("1.5")}, node) == 2
    assert fits({"cpu": Decimal(1), "memory": Decimal(3)}, node) == 3
    assert fits({"cpu": Decimal(1), "example.com/gpu": Decimal(1)}, node) == 0


@pytest.mark.parametrize(
    ("size", "before", "at", "pace"),
    [
        pytest.param(5, Pace(3), 0, Pace(5), id="more, at once"),
        pytest.param(3, Pace(3), 0, Pace(3), id="as many"),
        pytest.param(3, Pace(3, 2, T0), 4, Pace(3), id="as many again: nothing lower is on record"),
        pytest.param(2, Pace(3), 0, Pace(3, 2, T0, WINDOW), id="fewer: that is noted"),
        pytest.param(1, Pace(3, 2, T0), 3, Pace(3, 2, T0, 2 * MINUTE), id="still fewer: the highest counts"),
        pytest.param(2, Pace(3, 1, T0), 3, Pace(3, 2, T0, 2 * MINUTE), id="not so few: the highest counts"),
        pytest.param(2, Pace(3, 2, T0), 5, Pace(2), id="fewer for five minutes"),
        pytest.param(
            1, Pace(9, 4, T0), 6, Pace(4, 1, T0 + 6 * MINUTE, WINDOW), id="then the highest of them, and on"
        ),
        pytest.param(
            2, Pace(3, 7, T0), 5, Pace(3, 2, T0 + 5 * MINUTE, WINDOW), id="a record that was edited"
        ),
    ],
)
def test_fewer_placeholders_must_be_enough_for_a_while(size, before, at, pace):
    assert paced(size, before, T0 + at * MINUTE, at_once=False) == pace


def test_a_clock_that_was_wrong_holds_placeholders_no_longer_than_a_right_one():
    ahead = Pace(9, 4, T0 + timedelta(days=400))
    assert paced(3, ahead, T0, at_once=False) == Pace(9, 4, T0, WINDOW)
    assert paced(3, Pace(9, 4, T0), T0 + timedelta(days=400), at_once=False) == Pace(
        4, 3, T0 + timedelta(days=400), WINDOW
    )


def test_what_a_user_changes_counts_at_once():
    assert paced(1, Pace(9, 4, T0), T0, at_once=True) == Pace(1)


@pytest.mark.parametrize(
    ("nodes", "reserves", "seconds"),
    [(3, 1, 0.0), (100, 1, 0.0), (1000, 1, 0.4), (5000, 3, 6.0), (5000, 99, 30.0)],
)
def test_the_more_a_look_costs_the_longer_a_change_of_a_node_waits_for_others(nodes, reserves, seconds):
    assert gathering(nodes, reserves) == pytest.approx(seconds)


def test_a_node_that_flaps_moves_no_placeholder():
    of, pace = spec(percent={"cpu": 20}), Pace(0)
    numbers = []
    for minute in range(30):
        nodes = pool(4, 4, 4) if minute % 3 else pool(4, 4)
        pace = paced(wanted(of, nodes).number, pace, T0 + minute * MINUTE, at_once=not minute)
        numbers.append(pace.number)
    assert set(numbers[1:]) == {5}


@given(
    share=st.integers(0, 50),
    work=st.integers(0, 400),
    cores=st.integers(1, 64),
    unit=st.sampled_from(["100m", "500m", "1"]),
)
def test_an_autoscaler_that_adds_nodes_for_placeholders_comes_to_an_end(share, work, cores, unit):
    """The nodes are those that work and placeholders need; each raises what the percentage is of."""
    of = CAPACITY_RESERVE.from_plain({"spec": {"unit": {"cpu": unit}, "percent": {"cpu": share}}}).spec
    size, history = Decimal(unit.removesuffix("m")) / (1000 if unit.endswith("m") else 1), []
    nodes = ceil(Decimal(work) / cores)
    for _round in range(60):
        number = wanted(of, Pool(({"cpu": Decimal(cores)},) * nodes)).number
        history.append(nodes)
        needed = max(nodes, ceil((work + number * size) / cores))  # none is removed meanwhile
        if needed == nodes:
            break
        nodes = needed
    else:
        pytest.fail(f"it did not end: {history}")
    bound = (work + size + cores) / (1 - Decimal(share) / 100)
    assert nodes * cores <= bound + cores
