"""What the cases of ``kubewright driver test`` expect, what its classes must be, and its report: values in, values out."""

import json
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from operator import attrgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.core import Event, Node, NodeCondition, NodeStatus, ObjectReference
from kubewright.api.machine.v1alpha1 import (
    CurrentStatus,
    LastOperation,
    Machine,
    MachineDeployment,
    MachineDeploymentCondition,
    MachineDeploymentSpec,
    MachineDeploymentStatus,
    MachineSet,
    MachineSetCondition,
    MachineSetStatus,
    MachineStatus,
)
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput
from kubewright.cli.app import app
from kubewright.cli.driver.trial import Asked, completed, missing, programs, typed
from kubewright.integration import classes, expectations
from kubewright.integration.bench import Settings
from kubewright.integration.cases import Case
from kubewright.integration.expectations import MET, Answer, View
from kubewright.integration.extensions import Extension, from_file, installed
from kubewright.integration.report import MOST_CHARS, Outcome, Report, Result, junit, lines, valid
from kubewright.integration.tracker import what_is_left

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def node(name: str, status: str = "True") -> Node:
    conditions = (NodeCondition(type="Ready", status=status),)
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(conditions=conditions))


def machine(
    name: str, phase: str = "Running", *, deleting: bool = False, says: str = "", state: str = ""
) -> Machine:
    meta = ObjectMeta(name=name, namespace="default", deletion_timestamp=NOW if deleting else None)
    operation = LastOperation(description=says, state=state)
    status = MachineStatus(current_status=CurrentStatus(phase=phase), last_operation=operation)
    return Machine(metadata=meta, status=status)


WELL = (("Available", "True", "MinimumReplicasAvailable"), ("Progressing", "True", "NewMachineSetAvailable"))


def deployment(*conditions: tuple[str, str, str], updated: int = 0, available: int = 0) -> MachineDeployment:
    found = tuple(
        MachineDeploymentCondition(type=a, status=b, reason=c, message="m") for a, b, c in conditions
    )
    status = MachineDeploymentStatus(conditions=found, updated_replicas=updated, available_replicas=available)
    return MachineDeployment(
        metadata=ObjectMeta(name="md"), spec=MachineDeploymentSpec(replicas=1), status=status
    )


def machine_set(*, frozen: bool = False) -> MachineSet:
    condition = MachineSetCondition(type="Frozen", status="True", reason="OverShootingReplicaCount")
    status = MachineSetStatus(machine_set_condition=(condition,) if frozen else ())
    return MachineSet(metadata=ObjectMeta(name="ms"), status=status)


ONE, TWO = View(nodes=(node("a"),)), View(nodes=(node("a"), node("b")))
SICK = View(nodes=(node("a"), node("b", "Unknown")))
OVER = Answer("the deployment is gone", hopeless=True)


@pytest.mark.parametrize(
    ("wanted", "view", "answer"),
    [
        pytest.param(expectations.nodes(1), ONE, MET, id="as many nodes as wanted"),
        pytest.param(expectations.nodes(2), ONE, Answer("1 of 2 nodes are Ready"), id="a node is missing"),
        pytest.param(expectations.nodes(1), TWO, Answer("there are 2 nodes, not 1"), id="a node too many"),
        pytest.param(
            expectations.nodes(2), SICK, Answer("1 of 2 nodes are Ready; not Ready: b"), id="one is not Ready"
        ),
        pytest.param(expectations.all_ready, TWO, MET, id="all Ready"),
        pytest.param(expectations.all_ready, SICK, Answer("nodes are not Ready: b"), id="not all Ready"),
        pytest.param(expectations.same_nodes(frozenset("a")), ONE, MET, id="the same nodes"),
        pytest.param(
            expectations.same_nodes(frozenset("bc")),
            TWO,
            Answer("the nodes have changed; gone: c; new: a", hopeless=True),
            id="other nodes",
        ),
        pytest.param(
            expectations.machine_gone("m"),
            View(machines=(machine("m", deleting=True),)),
            Answer("machine m is Terminating"),
            id="a machine that goes",
        ),
        pytest.param(
            expectations.machine_gone("m"), View(machines=(machine("n"),)), MET, id="a machine is gone"
        ),
        pytest.param(expectations.one_set, View(sets=(machine_set(),)), MET, id="one set"),
        pytest.param(expectations.one_set, View(), Answer("the deployment has 0 sets, not 1"), id="no set"),
        pytest.param(
            expectations.available(1), View(deployment=deployment(*WELL, available=1)), MET, id="available"
        ),
        pytest.param(
            expectations.available(1),
            View(deployment=deployment(*WELL)),
            Answer("availableReplicas is 0, not 1"),
            id="not available",
        ),
        pytest.param(
            expectations.available(1),
            View(deployment=deployment(*WELL, ("Frozen", "True", "X"), available=1)),
            Answer(
                "its conditions are Available=True/MinimumReplicasAvailable, Frozen=True/X, "
                "Progressing=True/NewMachineSetAvailable"
            ),
            id="a condition more",
        ),
        pytest.param(
            expectations.available(1),
            View(deployment=deployment(WELL[0], available=1)),
            Answer("its conditions are Available=True/MinimumReplicasAvailable"),
            id="a condition less",
        ),
        pytest.param(expectations.available(1), View(), OVER, id="no deployment to be available"),
        pytest.param(
            expectations.rolled(4), View(deployment=deployment(updated=4, available=4)), MET, id="rolled"
        ),
        pytest.param(
            expectations.rolled(4),
            View(deployment=deployment(updated=2, available=4)),
            Answer("updatedReplicas is 2, not 4"),
            id="half rolled",
        ),
        pytest.param(expectations.rolled(4), View(), OVER, id="no deployment to roll"),
        pytest.param(
            expectations.running(1),
            View(pool=(machine("m"), machine("n", deleting=True))),
            MET,
            id="one runs beside one that goes",
        ),
        pytest.param(
            expectations.running(1),
            View(pool=(machine("m"), machine("n", "Pending"))),
            Answer("1 of 1 machines run"),
            id="one too many",
        ),
        pytest.param(
            expectations.unfrozen(3), View(sets=(machine_set(),), freezes=5), MET, id="frozen and unfrozen"
        ),
        pytest.param(
            expectations.unfrozen(3),
            View(sets=(machine_set(frozen=True),), freezes=4),
            Answer("the set is still frozen"),
            id="still frozen",
        ),
        pytest.param(
            expectations.unfrozen(3),
            View(sets=(machine_set(),), freezes=4),
            Answer("1 more events tell of freezes, not 2"),
            id="one event is missing",
        ),
        pytest.param(
            expectations.unfrozen(3),
            View(sets=(machine_set(),), freezes=6),
            Answer("3 more events tell of freezes, not 2", hopeless=True),
            id="an event too many",
        ),
        pytest.param(expectations.deployment_gone, View(machines=(machine("other"),)), MET, id="all gone"),
        pytest.param(
            expectations.deployment_gone,
            View(deployment=deployment(), sets=(machine_set(),), pool=(machine("m"),)),
            Answer("still there: the deployment, set ms, machine m (Running)"),
            id="all there",
        ),
        pytest.param(
            expectations.all_of(expectations.nodes(1), expectations.one_set),
            ONE,
            Answer("the deployment has 0 sets, not 1"),
            id="the second of two is not met",
        ),
    ],
)
def test_what_is_expected(wanted: expectations.Expectation, view: View, answer: Answer) -> None:
    assert wanted(view) == answer


@pytest.mark.parametrize(
    ("at_first", "now", "before"),
    [
        pytest.param(3, 4, 3, id="the event of this freeze is there"),
        pytest.param(3, 3, 3, id="and not yet"),
        pytest.param(
            3, 6, 5, id="a freeze for the replacement of a failed machine came and went, and this one"
        ),
        pytest.param(3, 5, 5, id="and the event of this one is not there yet"),
    ],
)
def test_a_freeze_that_came_and_went_before_is_not_counted_with_the_one_that_is_seen(
    at_first: int, now: int, before: int
) -> None:
    seen = View(sets=(machine_set(frozen=True),), freezes=now)
    assert expectations.freezes_before(seen, at_first) == before


def event(reason: str, message: str = "", count: int = 1, kind: str = "Warning") -> Event:
    about = ObjectReference(kind="Machine", name="m")
    return Event(
        involved_object=about, reason=reason, message=message, count=count, type=kind, last_timestamp=NOW
    )


def test_events_of_freezes_are_counted_by_reason_or_message_and_as_often_as_they_say() -> None:
    events = [
        event("FrozeMachineSet"),
        event("x", "Unfroze MachineSet ms", 2),
        event("Created"),
        event("Unfroze", "", 0),
    ]
    assert expectations.freezes(events) == 4


def test_why_it_takes_long_is_told_of_machines_conditions_and_warnings() -> None:
    view = View(
        of_test=(
            machine("slow", "Pending", says="Cloud provider message: no quota", state="Failed"),
            machine("well"),
            machine("going", deleting=True, says="joined", state="Successful"),
        ),
        deployment=deployment(("Available", "False", "X"), ("Frozen", "False", "Y")),
        sets=(machine_set(frozen=True),),
    )
    assert expectations.reasons(
        view, [event("FailedCreateVM", "no quota"), event("Created", kind="Normal")]
    ) == [
        "machine slow is Pending: Cloud provider message: no quota",
        "machine going is Terminating",
        "condition Available is False (X): m",
        "event FailedCreateVM of Machine m: no quota",
    ]
    many = View(of_test=tuple(machine(f"m{number}", "Pending") for number in range(9)))
    assert expectations.reasons(many)[-1] == "5 more machines do not run"


# ---------------------------------------------------------------- classes


def a_class(**spec: Any) -> dict[str, Any]:
    meta = {
        "name": "worker-1",
        "namespace": "shoot",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"a": "b"},
    }
    return {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": {**meta, "finalizers": ["x"]},
        "provider": "AWS",
        "secretRef": {"name": "worker", "namespace": "shoot"},
        "providerSpec": {"ami": "ami-1", **spec},
        "status": {"conditions": []},
    }


def test_a_copy_has_what_a_user_wrote_and_the_patch_and_nothing_of_the_server() -> None:
    patch = {"providerSpec": {"ami": None, "tags": {"t": "1"}}}
    copy = classes.copied(a_class(tags={"k": "v"}), "test-mc-v1", patch)
    labels = {"a": "b", "test-label": "test-label"}
    assert copy["metadata"] == {"name": "test-mc-v1", "namespace": "shoot", "labels": labels}
    assert copy["providerSpec"] == {"tags": {"k": "v", "t": "1"}}
    assert (copy["provider"], "status" in copy) == ("AWS", False)


@pytest.mark.parametrize(
    ("tags", "strings", "marked"),
    [
        pytest.param({"k": "v"}, False, {"k": "v", "mcm-integration-test": "true"}, id="tags with values"),
        pytest.param(["k"], True, ["k", "mcm-integration-test"], id="words, as on GCP"),
        pytest.param(["k"], False, ["k", "mcm-integration-test"], id="words that nothing says are words"),
        pytest.param(None, True, ["mcm-integration-test"], id="no tags, and words are wanted"),
        pytest.param(None, False, {"mcm-integration-test": "true"}, id="no tags"),
    ],
)
def test_a_copy_is_marked_as_the_provider_has_tags(tags: Any, strings: bool, marked: Any) -> None:
    found = a_class(**({} if tags is None else {"tags": tags}))
    patch = classes.marking(found, tags_are_strings=strings)
    assert classes.copied(found, "x", patch)["providerSpec"]["tags"] == marked


@pytest.mark.parametrize(
    ("tags", "cluster"),
    [
        ({"kubernetes.io/cluster/shoot--one": "1", "kubernetes.io/role/node": "1"}, "shoot--one"),
        (["a", "kubernetes-io-cluster-two"], "two"),
        ({"kubernetes.io/cluster/": "1"}, ""),
        (None, ""),
        ("kubernetes.io/cluster/x", ""),
    ],
    ids=["tags", "words", "no name in the tag", "no tags", "a text"],
)
def test_the_cluster_that_tags_name(tags: Any, cluster: str) -> None:
    assert classes.cluster_of(tags) == cluster


def test_the_class_to_copy_is_not_a_copy() -> None:
    named = [{**a_class(), "metadata": {"name": name}} for name in ("zone-2", "test-mc-v1", "zone-1")]
    assert classes.model_of(named, "shoot")["metadata"]["name"] == "zone-1"
    with pytest.raises(InvalidInput, match="namespace shoot of the control cluster has no MachineClass"):
        classes.model_of(named[1:2], "shoot")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: [", "f: ", id="no YAML"),
        pytest.param(
            "kind: Secret\nmetadata: {name: s}", "one MachineClass is needed, and there are 0", id="none"
        ),
        pytest.param("kind: Pod\nmetadata: {name: s}", "Pod is no MachineClass or Secret", id="another kind"),
        pytest.param("- a", "a document without kind is no MachineClass", id="a list"),
        pytest.param("kind: MachineClass", "an object has no metadata.name", id="no name"),
    ],
)
def test_a_file_without_a_class_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        classes.read_file(text, "f")
    assert said in str(refused.value)


def test_the_secret_of_an_old_class_stands_in_its_provider_spec() -> None:
    old = {**a_class(secretRef={"name": "test-mc-secret"}), "metadata": {"name": "test-mc-v1"}}
    del old["secretRef"]
    found = classes.checked(old, "test-mc-v1", "f")
    assert classes.secret_named(found) == "test-mc-secret"


# ---------------------------------------------------------------- report, tracker, extensions


@given(st.text())
def test_every_text_can_be_in_a_report(text: str) -> None:
    result = Result("x", text, Outcome.FAILED, 1.0, text)
    found = junit(Report((result,), NOW, 1.0, (text,)))
    (case,) = ElementTree.fromstring(found).iter("testcase")
    assert case.find("failure") is not None


def test_a_report_counts_and_names_what_did_not_pass() -> None:
    results = (
        Result("a", "first", Outcome.PASSED, 1.5),
        Result("b", "second", Outcome.FAILED, 300.0, "not within 300 s\x1b[31m"),
        Result("c", "third", Outcome.SKIPPED, 0.0, "there is none"),
        Result("clean-up", "nothing is left", Outcome.ERROR, 900.0, "left"),
    )
    report = Report(results, NOW, 1201.5, ("Machine m",))
    (suite,) = ElementTree.fromstring(junit(report)).iter("testsuite")
    assert {
        key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped", "time", "timestamp")
    } == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "1201.500",
        "timestamp": "2030-01-01T12:00:00",
    }
    failure = next(suite.iter("failure"))
    assert failure.text == failure.attrib["message"] == "not within 300 s[0x1b][31m"
    assert next(suite.iter("system-err")).text == "left: Machine m"
    assert lines(report.results)[0].startswith("failed: b (second): not within 300 s")
    assert report.summary() == "1 passed, 1 failed, 1 skipped, 1 error in 1202 s"
    assert not report.well
    assert len(valid("x" * 10 * MOST_CHARS)) < MOST_CHARS + 10


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ([], []),
        (["a", "b"], ["a", "b"]),
        (False, []),
        (None, []),
        (True, ["something; the tracker does not say what"]),
        ("a disk", ["a disk"]),
        (7, ["the resource tracker answers int, and should answer words or a bool"]),
    ],
)
def test_what_a_tracker_answers(answer: Any, left: list[str]) -> None:
    assert what_is_left(answer) == left


FILE = """
from kubewright.integration import Case

async def tried(bench):
    pass

class Tracker:
    async def initialize_resources_tracker(self, machine_class, secret_data, cluster_name):
        pass

    async def is_orphaned_resources_available(self):
        return []

CASES = [Case("mine", "something of mine", tried)]
TRACKER = Tracker()
"""


def test_a_file_and_a_package_bring_cases_and_a_tracker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cases_of_mine.py"
    path.write_text(FILE)
    found = from_file(path)
    assert ([each.identity for each in found.cases], found.tracker is not None) == (["mine"], True)
    monkeypatch.syspath_prepend(tmp_path)
    points = [
        EntryPoint("mine", "cases_of_mine", "kubewright.driver_tests"),
        EntryPoint("other", "nothing_there", "kubewright.driver_tests"),
    ]
    shipped = installed("mine", points)
    assert [each.identity for each in (shipped + found).cases] == ["mine", "mine"]
    assert (shipped + Extension()).tracker is shipped.tracker
    with pytest.raises(InvalidInput, match=r"the cases of driver 'other' \(nothing_there\) cannot be loaded"):
        installed("other", points)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("import nothing_there", "ModuleNotFoundError: No module named", id="an import"),
        pytest.param("CASES = [1]", "CASES should be a list of kubewright.integration.Case", id="no cases"),
        pytest.param("TRACKER = 1", "TRACKER should be an object with initialize_resources", id="no tracker"),
        pytest.param(FILE.replace("Tracker()", "Tracker"), "TRACKER should be an object", id="a class"),
        pytest.param("def f(:", "SyntaxError", id="no Python"),
        pytest.param("raise SystemExit(0)", "SystemExit: 0", id="an end of Python"),
        pytest.param("import pytest; pytest.skip('x', allow_module_level=True)", "Skipped", id="pytest's"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "cases.py"
    path.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        from_file(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


async def _nothing(_bench: Any) -> None:
    """A case that does nothing."""


def test_a_case_is_a_value() -> None:
    assert Case("a", "b", _nothing) == Case("a", "b", _nothing)


# ---------------------------------------------------------------- the command


def test_what_is_missing_is_asked_for_and_a_seed_needs_no_file() -> None:
    nothing = Asked(None, None, Settings(), start_manager=True)
    assert list(missing(nothing)) == ["CONTROL_KUBECONFIG", "MACHINECLASS_V1", "--driver"]
    answers = iter(["control", "class.yaml", "aws"])
    whole = completed(nothing, lambda _text: next(answers))
    assert (whole.control, whole.settings.class_v1, whole.driver) == (
        Path("control"),
        Path("class.yaml"),
        "aws",
    )
    assert missing(whole) == {}
    assert missing(Asked(Path("c"), None, Settings(seed=True))) == {}


VARIABLES = {
    "CONTROL_KUBECONFIG": ("control", "k", Path("k")),
    "TARGET_KUBECONFIG": ("target", "k", Path("k")),
    "CONTROL_CLUSTER_NAMESPACE": ("settings.namespace", "shoot", "shoot"),
    "CONTROL_NAMESPACE": ("settings.namespace", "shoot", "shoot"),
    "IS_CONTROL_CLUSTER_SEED": ("settings.seed", "true", True),
    "TARGET_CLUSTER_NAME": ("settings.target_cluster", "c", "c"),
    "MACHINECLASS_V1": ("settings.class_v1", "f", Path("f")),
    "MACHINECLASS_V2": ("settings.class_v2", "f", Path("f")),
    "MACHINE_CONTROLLER_MANAGER_DEPLOYMENT_NAME": ("settings.manager_deployment", "m", "m"),
    "PRESERVE_CRD_AT_END": ("settings.preserve_crds", "true", True),
    "TAGS_ARE_STRINGS": ("settings.tags_are_strings", "true", True),
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_each_variable_of_mcms_test_is_read(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    field, text, value = VARIABLES[variable]
    for each in VARIABLES:
        monkeypatch.delenv(each, raising=False)

    def asked() -> Any:
        whole: Any = typer.main.get_command(app)
        command = whole.commands["driver"].commands["test"]
        return attrgetter(field)(typed(command.make_context("test", []).params))

    assert asked() != value
    monkeypatch.setenv(variable, text)
    assert asked() == value


def test_both_halves_are_started_with_the_controllers_of_each() -> None:
    settings = Settings(namespace="shoot")
    asked = Asked(
        Path("c"),
        Path("t"),
        settings,
        driver="aws",
        driver_options=("a=b",),
        run_switches=("--log-level=debug",),
    )
    sets, machines = programs(asked)
    assert (sets.name, sets.log) == ("machine-controller-manager", "mcm_process.log")
    assert (machines.name, machines.log) == ("machine-controller", "mc_process.log")
    typed = " ".join(machines.command)
    assert " --kubeconfig c --namespace shoot --target-kubeconfig t --driver aws --driver-option a=b" in typed
    assert typed.endswith("--log-level=debug")
    assert "--driver" not in " ".join(sets.command)
    chosen = [each.command[each.command.index("--controllers") + 1] for each in (sets, machines)]
    assert json.dumps(chosen).count("machineset") == 1
    assert chosen[1].startswith("machine,machineclass,secret")
