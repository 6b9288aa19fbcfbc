"""Which nodes of a deployment are marked while it rolls out (DEP-01 to DEP-03), and how a node is patched."""

from collections.abc import Container, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import Node, NodeSpec, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    ClassSpec,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineDeploymentStrategy,
    MachineSet,
    MachineSpec,
    MachineTemplateSpec,
    RollingUpdate,
)
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.node_marks import rolling
from kubewright.machines.rolling.act import marks_of
from kubewright.machines.rolling.decide import decide
from kubewright.machines.rolling.seen import MarkNode, MarkSet, Nodes
from kubewright.replicas.deployment.decide import new_set
from kubewright.replicas.deployment.seen import Seen
from kubewright.rollout.model import Sizes
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)
NOW = T0.timestamp()


def deployment(
    of: str = "large", *, replicas: int = 2, kind: str = "RollingUpdate", **spec: Any
) -> MachineDeployment:
    rolling_update = RollingUpdate(max_surge=1, max_unavailable=0)
    return MachineDeployment(
        metadata=ObjectMeta(name="md", namespace="ns", uid="md-uid"),
        spec=MachineDeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": "a"}),
            strategy=MachineDeploymentStrategy(
                type=kind, rolling_update=rolling_update if kind == "RollingUpdate" else None
            ),
            template=MachineTemplateSpec(
                metadata=ObjectMeta(labels={"app": "a"}),
                spec=MachineSpec(machine_class=ClassSpec(kind="MachineClass", name=of)),
            ),
            **spec,
        ),
    )


def machine_set(of: str, size: int, *, says: bool = False) -> MachineSet:
    made = new_set(MACHINE_DEPLOYMENTS, deployment(of), 1, Sizes(desired=2, ceiling=3), size)
    notes = {**made.metadata.annotations, **({names.PREFER_NO_SCHEDULE: "True"} if says else {})}
    return structs.replace(
        made,
        metadata=structs.replace(made.metadata, name=of, uid=of, creation_timestamp=T0, annotations=notes),
    )


def machine(node: str, phase: Phase = Phase.RUNNING, **facts: Any) -> MachineMember:
    facts.setdefault("deleting", False)
    facts.setdefault("ready_since", NOW - 1000 if phase is Phase.RUNNING else None)
    labels = {names.NODE_LABEL: node} if node else {}
    return MachineMember(Key("ns", f"m-{node}"), f"uid-{node}", "", labels, phase=phase, **facts)


def seen(
    old: Iterable[MachineMember],
    new: Iterable[MachineMember],
    *,
    md: MachineDeployment | None = None,
    sets: tuple[MachineSet, ...] = (),
) -> Seen[Any, Any, Any]:
    old, new = tuple(old), tuple(new)
    sets = sets or (machine_set("small", len(old)), machine_set("large", 2))
    return Seen(
        MACHINE_DEPLOYMENTS, md or deployment(), T0, NOW, sets=sets, members={"small": old, "large": new}
    )


def there(*names_of_nodes: str, **marks: tuple[str, ...]) -> Nodes:
    found = {mark: frozenset(nodes) for mark, nodes in marks.items()}
    found["annotated"] = found.get("annotated", frozenset()) | found.get("ours", frozenset())
    return Nodes(frozenset(names_of_nodes), **found)


def changes(world: Seen[Any, Any, Any], nodes: Nodes, *, spare_nodes: bool = True) -> list[tuple[Any, ...]]:
    steps = decide(world, nodes, spare_nodes=spare_nodes).steps
    return [
        (step.node, step.taint, step.annotate)
        if isinstance(step, MarkNode)
        else (step.set.name, step.tainted)
        for step in steps
    ]


OLD, NEW = (machine("a"), machine("b")), (machine("c"),)


@pytest.mark.parametrize(
    ("world", "nodes", "expect"),
    [
        pytest.param(
            seen(OLD, NEW),
            there("a", "b", "c"),
            [("small", True), ("a", True, True), ("b", True, True), ("c", None, True)],
            id="a rollout says so on the old set, then marks old nodes with both, new ones for the autoscaler",
        ),
        pytest.param(
            seen(OLD, NEW, sets=(machine_set("small", 2, says=True), machine_set("large", 2))),
            there("a", "b", "c", foreign=("a",)), [("b", True, True), ("c", None, True)],
            id="a node that stands on another VM than the machine of its name is not marked",
        ),
        pytest.param(
            seen(OLD, (machine(""),)), there("a", "b", tainted=("a", "b"), ours=("a", "b")), [("small", True)],
            id="a machine without a node has nothing to mark",
        ),
        pytest.param(
            seen(OLD, NEW), there("a", "c", tainted=("a",), ours=("a",)), [("small", True), ("c", None, True)],
            id="a node that joins in the middle is marked, one that is there no more is not",
        ),
        pytest.param(
            seen((machine("a"),), NEW), there("a", "c", annotated=("a",), ours=("c",)),
            [("small", True), ("a", True, None)],
            id="an annotation that a user gave stays as it is",
        ),
        pytest.param(
            seen((machine("a", deleting=True),), NEW), there("a", "c"), [("c", None, True)],
            id="the node of a machine that is going is left alone, and the rollout goes on until it has gone",
        ),
        pytest.param(
            seen((), (machine("c"), machine("d"))), there("c", "d", ours=("c",), annotated=("d",)),
            [("c", None, False)],
            id="when it is over what is ours goes, and what a user gave stays",
        ),
        pytest.param(
            seen((), (machine("c"), machine("d", Phase.PENDING))), there("c", "d", ours=("c", "d")), [],
            id="it is not over while a new machine is missing",
        ),
        pytest.param(
            seen((), (machine("c", preserved_until=NOW + 60), machine("d"))), there("c", "d", ours=("c", "d")),
            [("d", None, False)],
            id="a preservation keeps its annotation",
        ),
        pytest.param(
            seen((), (machine("c"), machine("d")), sets=(machine_set("large", 2, says=True),)),
            there("c", "d", tainted=("c", "d")),
            [("c", False, None), ("d", False, None), ("large", False)],
            id="a set that a rollback made current again loses its taints",
        ),
        pytest.param(
            seen(OLD, NEW, sets=(machine_set("small", 2, says=True), machine_set("large", 2))),
            there("a", "b", "c", tainted=("a", "b"), ours=("a", "b", "c")), [],
            id="what is marked already is not written again",
        ),
        pytest.param(
            seen(OLD, (), md=deployment(kind="Recreate")), there("a", "b"),
            [("a", None, True), ("b", None, True)],
            id="a Recreate has no nodes to prefer",
        ),
        pytest.param(
            seen(OLD, NEW, md=deployment(paused=True)), there("a", "b", "c"), [],
            id="a paused deployment is left as it is",
        ),
        pytest.param(
            seen(OLD, NEW, md=deployment("huge")), there("a", "b", "c"), [],
            id="nothing is marked before the current set is there",
        ),
        pytest.param(
            seen(OLD, NEW, md=deployment(replicas=-1)), there("a", "b", "c"), [],
            id="an invalid deployment is left as it is",
        ),
    ],
)  # fmt: skip
def test_which_nodes_are_marked(world: Any, nodes: Nodes, expect: list[tuple[Any, ...]]) -> None:
    assert changes(world, nodes) == expect


UP, COMING = (machine("c"), machine("d")), (machine("c"), machine("d", Phase.PENDING))
DONE = (machine_set("small", 0), machine_set("large", 2, says=True))


@pytest.mark.parametrize(
    ("world", "because"),
    [
        pytest.param(
            seen(OLD, NEW),
            "it rolls out, nodes to mark: 3; sets to annotate: 1",
            id="while old machines are there",
        ),
        pytest.param(
            seen((), UP, sets=DONE),
            "its rollout is over, nodes to mark: 1; sets whose annotation goes: 1",
            id="when enough new ones are available",
        ),
        pytest.param(
            seen((), COMING, sets=DONE),
            "its new machines become available, nodes to mark: 1; sets whose annotation goes: 1",
            id="and between the two, after a rollback",
        ),
    ],
)
@pytest.mark.parametrize(
    "ours", [pytest.param((), id="no node is annotated"), pytest.param(("c",), id="a node is annotated")]
)
def test_words_say_how_far_the_rollout_is(world: Any, because: str, ours: tuple[str, ...]) -> None:
    nodes = there("a", "b", "c", "d", tainted=("c",), ours=ours)
    assert decide(world, nodes, spare_nodes=False).because == because


def test_an_operator_can_leave_the_autoscaler_to_itself() -> None:
    assert changes(seen(OLD, NEW), there("a", "b", "c"), spare_nodes=False) == [
        ("small", True),
        ("a", True, None),
        ("b", True, None),
    ]
    over = seen((), (machine("c"), machine("d")))
    assert changes(over, there("c", "d", ours=("c",)), spare_nodes=False) == [("c", None, False)]


def test_the_end_of_min_ready_seconds_ends_a_rollout_though_nothing_changes() -> None:
    made = machine_set("large", 2)
    sets = (structs.replace(made, spec=structs.replace(made.spec, min_ready_seconds=60)),)
    young = (machine("c", ready_since=NOW - 20), machine("d"))
    plan = decide(
        seen((), young, md=deployment(min_ready_seconds=60), sets=sets),
        there("c", "d", ours=("c",)),
        spare_nodes=True,
    )
    assert (plan.steps, plan.wake and plan.wake.total_seconds()) == ((), 40)


def test_a_plan_with_steps_knows_the_end_of_min_ready_seconds_too() -> None:
    made = machine_set("large", 2, says=True)
    sets = (structs.replace(made, spec=structs.replace(made.spec, min_ready_seconds=60)),)
    young = (machine("c", ready_since=NOW - 20), machine("d"))
    plan = decide(
        seen((), young, md=deployment(min_ready_seconds=60), sets=sets),
        there("c", "d", ours=("c",), tainted=("d",)),
        spare_nodes=True,
    )
    assert [type(step) for step in plan.steps] == [MarkNode, MarkSet]
    assert plan.wake is not None
    assert plan.wake.total_seconds() == 40


def test_a_set_says_that_its_nodes_are_tainted_until_the_last_pass_over_them() -> None:
    many = tuple(machine(f"n{number}") for number in range(300))
    marked = tuple(f"n{number}" for number in range(300))
    world = seen((), many, sets=(machine_set("large", 300, says=True),))
    assert not [
        s
        for s in decide(world, there(*marked, tainted=marked), spare_nodes=True).steps
        if isinstance(s, MarkSet)
    ]
    last = decide(world, there(*marked, tainted=marked[:50]), spare_nodes=True)
    assert isinstance(last.steps[-1], MarkSet)


def node(*taints: Taint, **annotations: str) -> Node:
    keys = {
        "disabled": names.SCALE_DOWN_DISABLED_ANNOTATION,
        "ours": names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION,
    }
    notes = {keys.get(key, key): text for key, text in annotations.items()}
    return Node(
        metadata=ObjectMeta(name="n", annotations=notes, resource_version="7"), spec=NodeSpec(taints=taints)
    )


OLD_TAINT = Taint(key=names.PREFER_NO_SCHEDULE, value="True", effect="PreferNoSchedule")
OTHER = Taint(key="dedicated", value="gpu", effect="NoSchedule")
BOTH = {names.SCALE_DOWN_DISABLED_ANNOTATION: "true", names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION: "true"}


@pytest.mark.parametrize(
    ("found", "taint", "annotated", "expect"),
    [
        pytest.param(
            node(OTHER), True, True,
            {
                "metadata": {"resourceVersion": "7", "annotations": BOTH},
                "spec": {
                    "taints": [
                        {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
                        {"key": names.PREFER_NO_SCHEDULE, "value": "True", "effect": "PreferNoSchedule"},
                    ]
                },
            },
            id="both in one patch, beside the taints of others",
        ),
        pytest.param(
            node(OLD_TAINT), False, None, {"metadata": {"resourceVersion": "7"}, "spec": {"taints": None}},
            id="the taint goes",
        ),
        pytest.param(node(disabled="false"), None, True, {}, id="a user's value stays"),
        pytest.param(
            node(disabled="true", ours="true"), None, False, {"metadata": {"annotations": dict.fromkeys(BOTH)}},
            id="ours go together",
        ),
        pytest.param(
            node(disabled="false", ours="true"), None, False,
            {"metadata": {"annotations": {names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION: None}}},
            id="a value that a user changed since stays",
        ),
        pytest.param(node(disabled="true"), None, False, {}, id="without the proof that it is ours it stays"),
    ],
)  # fmt: skip
def test_how_a_node_is_patched(found: Node, taint: bool | None, annotated: bool | None, expect: Any) -> None:
    assert rolling(found, taint=taint, annotated=annotated) == expect


@pytest.mark.parametrize(
    ("found", "expect"),
    [
        pytest.param(node(), [], id="nothing"),
        pytest.param(node(OLD_TAINT, OTHER), ["tainted"], id="the taint"),
        pytest.param(node(disabled="true"), ["annotated"], id="a user's annotation"),
        pytest.param(node(disabled="true", ours="true"), ["annotated", "ours"], id="ours"),
    ],
)
def test_which_marks_a_node_has(found: Node, expect: list[str]) -> None:
    assert marks_of(found) == expect


def test_a_thousand_nodes_are_marked_in_several_passes() -> None:
    many = tuple(machine(f"n{number}") for number in range(300))
    plan = decide(seen(many, ()), there(*(f"n{number}" for number in range(300))), spare_nodes=True)
    assert sum(isinstance(step, MarkNode) for step in plan.steps) == 250
    assert not any(isinstance(step, MarkSet) and not step.tainted for step in plan.steps)
    assert plan.wake == AT_ONCE


class Unasked(Container[str]):
    """Nodes of which none may be asked for."""

    def __contains__(self, name: object) -> bool:
        raise AssertionError(f"asked for {name}")


@pytest.mark.parametrize(
    ("new", "sets"),
    [
        pytest.param(NEW, (machine_set("large", 2),), id="while its machines are made"),
        pytest.param(
            (*NEW, machine("d")), (machine_set("large", 2), machine_set("small", 0)), id="when all run"
        ),
    ],
)
def test_a_deployment_without_old_machines_and_marks_asks_for_no_node(
    new: tuple[MachineMember, ...], sets: tuple[MachineSet, ...]
) -> None:
    assert decide(seen((), new, sets=sets), Nodes(Unasked()), spare_nodes=True) == Plan()
