"""Invariants of machines, their VMs and nodes: steps, and the rules that the last one breaks."""

from collections import Counter
from operator import attrgetter

import pytest

from kubewright.api.machine import names
from simulation.journal import ATTACHMENTS, MACHINES, NODES, PODS, VMS
from simulation.rules import Rule
from simulation.rules.table import OF_CLUSTERS, OF_CONTROL_PLANES, OF_MACHINES, OF_WHOLE_CLUSTERS
from simulation.tape import Case, Tape, steps

SOON = {"healthTimeout": "1m"}


def _fails(tape: Tape, after: float, **more: str) -> None:
    """The machine is Failed after so many seconds, and its node has not been Ready for as long."""
    tape.node(ready=False)
    tape.wait(after)
    tape.machine(phase="Failed", **more)


_FIRST_OF_TWO = (
    lambda t: t.up(leaving=True),
    lambda t: t.pod(name="a", claim="a"),
    lambda t: t.pod(name="b", claim="b"),
    lambda t: t.attached(),
    lambda t: t.wait(5),
    lambda t: t.put(PODS, "ns/a", None),
)
"""The first of two pods with volumes is gone, and its volume is attached."""

LIFE_OF_VMS = [
    Case("one VM is right", lambda t: t.up()),
    Case(
        "a second one for the same machine is not",
        steps(lambda t: t.up(), lambda t: t.vm(serial=2)),
        "one_vm_for_a_machine",
    ),
    Case(
        "a second one after the first was deleted is",
        steps(lambda t: t.up(leaving=True), lambda t: t.ends(), lambda t: t.vm(serial=2)),
    ),
    Case(
        "a VM may be without a machine for a moment",
        steps(lambda t: t.vm(), lambda t: t.wait(20), lambda t: t.pod()),
    ),
    Case(
        "but not for long",
        steps(lambda t: t.vm(), lambda t: t.wait(40), lambda t: t.pod()),
        "no_vm_without_a_machine",
    ),
    Case(
        "a VM whose machine lives is not deleted",
        steps(lambda t: t.up(), lambda t: t.ends()),
        "a_living_machine_keeps_its_vm",
    ),
    Case("one whose machine is leaving is", steps(lambda t: t.up(leaving=True), lambda t: t.ends())),
    Case(
        "the finalizer does not leave a machine with a VM",
        steps(lambda t: t.up(leaving=True), lambda t: t.machine(leaving=True, finalizers=[])),
        "the_finalizer_goes_last",
    ),
    Case(
        "it does when the VM is being deleted",
        steps(
            lambda t: t.up(leaving=True), lambda t: t.ends(), lambda t: t.machine(leaving=True, finalizers=[])
        ),
    ),
    Case(
        "the VM on record never becomes another",
        steps(lambda t: t.up(vm="sim:///r/vm-000001"), lambda t: t.machine(vm="sim:///r/vm-000002")),
        "a_vm_on_record_stays",
    ),
    Case(
        "but a leaving machine finds a late one after the first is gone",
        steps(
            lambda t: t.machine(vm="sim:///r/vm-000001", leaving=True),
            lambda t: t.machine(vm="sim:///r/vm-000002", leaving=True),
        ),
    ),
    Case(
        "two machines do not claim one VM",
        steps(lambda t: t.machine("a", vm="sim:///r/x"), lambda t: t.machine("b", vm="sim:///r/x")),
        "a_vm_on_record_stays",
    ),
    Case(
        "nor one node",
        steps(lambda t: t.machine("a", node="n"), lambda t: t.machine("b", node="n")),
        "a_vm_on_record_stays",
    ),
]

DRAINS = [
    Case(
        "a VM under pods is not deleted",
        steps(lambda t: t.pod(), lambda t: t.up(leaving=True), lambda t: t.ends()),
        "a_vm_is_drained_first",
    ),
    Case(
        "pods that have ended do not count",
        steps(lambda t: t.pod(phase="Succeeded"), lambda t: t.up(leaving=True), lambda t: t.ends()),
    ),
    Case(
        "nor those of others",
        steps(lambda t: t.pod(node="other"), lambda t: t.up(leaving=True), lambda t: t.ends()),
    ),
    Case(
        "nothing runs on a VM without power",
        steps(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True),
            lambda t: t.vm(powered=False),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "the death of another VM is no excuse",
        steps(
            lambda t: t.vm("other", 7),
            lambda t: t.vm("other", 7, powered=False),
            lambda t: t.pod(),
            lambda t: t.up(leaving=True),
            lambda t: t.ends(),
        ),
        "a_vm_is_drained_first",
    ),
    Case(
        "a person may force it",
        steps(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True, labels={names.FORCE_DELETION_LABEL: "True"}),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "a drain may take its time, and no longer",
        steps(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True, drainTimeout="5m"),
            lambda t: t.wait(300),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "its time is not up earlier",
        steps(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True, drainTimeout="5m"),
            lambda t: t.wait(200),
            lambda t: t.ends(),
        ),
        "a_vm_is_drained_first",
    ),
    Case(
        "a kubelet that was silent for long ends no pods",
        steps(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True),
            lambda t: t.node(ready=False),
            lambda t: t.wait(301),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "one that has just fallen silent may",
        steps(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True),
            lambda t: t.node(ready=False),
            lambda t: t.wait(60),
            lambda t: t.ends(),
        ),
        "a_vm_is_drained_first",
    ),
    Case(
        "a Node is not deleted before its VM",
        steps(lambda t: t.up(leaving=True), lambda t: t.put(NODES, "m", None)),
        "a_node_goes_after_its_vm",
    ),
    Case(
        "it is after it",
        steps(lambda t: t.up(leaving=True), lambda t: t.ends(), lambda t: t.put(NODES, "m", None)),
    ),
    Case(
        "a person may delete it",
        steps(
            lambda t: t.up(),
            lambda t: t.past.deleted_by_users.add("nodes/m"),
            lambda t: t.put(NODES, "m", None),
        ),
    ),
]

PODS_LEAVE = [
    Case(
        "a pod is evicted at any time",
        steps(lambda t: t.up(leaving=True), lambda t: t.pod(), lambda t: t.asks()),
    ),
    Case(
        "it is not deleted before its time",
        steps(lambda t: t.up(leaving=True), lambda t: t.pod(), lambda t: t.asks(eviction=False, grace=0)),
        "no_pod_is_forced_early",
    ),
    Case(
        "it is when its drain has had its time",
        steps(
            lambda t: t.up(leaving=True, drainTimeout="60s"),
            lambda t: t.pod(),
            lambda t: t.wait(50),
            lambda t: t.asks(eviction=False, grace=0),
        ),
    ),
    Case(
        "or after so many refusals",
        steps(
            lambda t: t.up(leaving=True, maxEvictRetries=1),
            lambda t: t.pod(),
            lambda t: t.wait(10),
            lambda t: t.asks(eviction=False, grace=0),
        ),
    ),
    Case(
        "or when its node is gone",
        steps(lambda t: t.machine(), lambda t: t.pod(), lambda t: t.asks(eviction=False, grace=0)),
    ),
    Case(
        "what has another uid is not deleted at all",
        steps(lambda t: t.up(leaving=True), lambda t: t.pod(), lambda t: t.asks(uid="other", eviction=False)),
    ),
    Case(
        "a budget with room lets a pod go",
        steps(
            lambda t: t.up(),
            lambda t: t.budget(1),
            lambda t: t.pod(name="q"),
            lambda t: t.pod(),
            lambda t: t.evicted(),
        ),
    ),
    Case(
        "one without does not",
        steps(lambda t: t.up(), lambda t: t.budget(1), lambda t: t.pod(), lambda t: t.evicted()),
        "budgets_hold",
    ),
    Case(
        "a user may delete the pod",
        steps(lambda t: t.up(), lambda t: t.budget(1), lambda t: t.pod(), lambda t: t.pod(leaving=True)),
    ),
    Case(
        "a pod with a volume leaves beside one without",
        steps(
            lambda t: t.up(leaving=True),
            lambda t: t.pod(name="a", claim="a"),
            lambda t: t.pod(name="b"),
            lambda t: t.evicted("b"),
            lambda t: t.evicted("a", claim="a"),
        ),
    ),
    Case(
        "but not beside another with a volume",
        steps(
            lambda t: t.up(leaving=True),
            lambda t: t.pod(name="a", claim="a"),
            lambda t: t.pod(name="b", claim="b"),
            lambda t: t.evicted("b", claim="b"),
            lambda t: t.evicted("a", claim="a"),
        ),
        "volumes_leave_one_by_one",
    ),
    Case(
        "unless that is on another node",
        steps(
            lambda t: t.up(leaving=True),
            lambda t: t.pod(name="a", claim="a"),
            lambda t: t.pod("n", name="b", claim="b", leaving=True),
            lambda t: t.wait(5),
            lambda t: t.evicted("a", claim="a"),
        ),
    ),
    Case(
        "a pod with a volume waits until that of the pod before is detached",
        steps(*_FIRST_OF_TWO, lambda t: t.wait(5), lambda t: t.evicted("b", claim="b")),
        "volumes_move_before_the_next_pod",
    ),
    Case(
        "a pod without one does not",
        steps(*_FIRST_OF_TWO, lambda t: t.pod(name="c"), lambda t: t.wait(5), lambda t: t.evicted("c")),
    ),
    Case(
        "it leaves when that is detached",
        steps(
            *_FIRST_OF_TWO,
            lambda t: t.wait(5),
            lambda t: t.put(ATTACHMENTS, "csi", None),
            lambda t: t.evicted("b", claim="b"),
        ),
    ),
    Case(
        "or has had its time",
        steps(*_FIRST_OF_TWO, lambda t: t.wait(120), lambda t: t.evicted("b", claim="b")),
    ),
    Case(
        "that the pod before has just gone cannot be known",
        steps(*_FIRST_OF_TWO, lambda t: t.evicted("b", claim="b")),
    ),
    Case(
        "a VM goes when its volumes are detached, not before",
        steps(lambda t: t.up(leaving=True), lambda t: t.attached(), lambda t: t.ends()),
        "volumes_are_detached_first",
    ),
    Case(
        "or when they have had their time",
        steps(
            lambda t: t.up(leaving=True),
            lambda t: t.pod(),
            lambda t: t.attached(),
            lambda t: t.put(PODS, "ns/p", None),
            lambda t: t.wait(120),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "a machine is deleted as the one that was seen",
        steps(lambda t: t.up(), lambda t: t.asks("m", MACHINES, uid="")),
        "what_was_seen_is_deleted",
    ),
    Case(
        "its version will do", steps(lambda t: t.up(), lambda t: t.asks("m", MACHINES, uid="", version="7"))
    ),
    Case(
        "a VM is deleted for the machine that has it",
        steps(lambda t: t.up(), lambda t: t.asks("m", VMS, vm="sim:///r/vm-000001")),
    ),
    Case(
        "and for no other",
        steps(lambda t: t.up(), lambda t: t.asks("n", VMS, vm="sim:///r/vm-000001")),
        "a_vm_is_deleted_for_its_machine",
    ),
]

LIVES = [
    Case("a machine that runs may fall ill", steps(lambda t: t.up(), lambda t: t.machine(phase="Unknown"))),
    Case(
        "it does not become young again",
        steps(lambda t: t.up(), lambda t: t.machine(phase="Pending")),
        "no_phase_goes_back",
    ),
    Case(
        "nor does one come back that is leaving",
        steps(lambda t: t.up("Terminating", leaving=True), lambda t: t.machine(leaving=True)),
        "no_phase_goes_back",
    ),
    Case(
        "a machine whose node is well has not failed",
        steps(lambda t: t.up(), lambda t: t.wait(600), lambda t: t.machine(phase="Failed")),
        "a_healthy_machine_is_not_failed",
    ),
    Case(
        "one whose node is not may have",
        steps(
            lambda t: t.up("Unknown"),
            lambda t: t.node(ready=False),
            lambda t: t.wait(600),
            lambda t: t.machine(phase="Failed"),
        ),
    ),
    Case(
        "that it has just become well cannot be known",
        steps(
            lambda t: t.up("Unknown"),
            lambda t: t.node(ready=False),
            lambda t: t.wait(600),
            lambda t: t.node(),
            lambda t: t.machine(phase="Failed"),
        ),
    ),
]

GIVEN_UP = [
    Case(
        "a machine has its health time-out",
        steps(lambda t: t.up(), lambda t: t.machine(phase="Unknown"), lambda t: _fails(t, 500)),
        "a_machine_has_its_time",
    ),
    Case(
        "or its own",
        steps(
            lambda t: t.up(), lambda t: t.machine(phase="Unknown", **SOON), lambda t: _fails(t, 60, **SOON)
        ),
    ),
    Case(
        "one that a manager may not know to be longer now",
        steps(
            lambda t: t.machine(phase="Unknown", **SOON),
            lambda t: t.wait(60),
            lambda t: t.machine(phase="Unknown"),
            lambda t: _fails(t, 0),
        ),
    ),
    Case(
        "before it joins, its creation time-out",
        steps(
            lambda t: t.machine(phase="Pending", creationTimeout="2m"),
            lambda t: _fails(t, 60, operation="Create", creationTimeout="2m"),
        ),
        "a_machine_has_its_time",
    ),
    Case(
        "and not much more",
        steps(lambda t: t.machine(phase="Unknown"), lambda t: _fails(t, 700)),
        "a_machine_is_given_up_in_time",
    ),
    Case(
        "while another of its deployment is replaced, none is given up",
        steps(
            lambda t: t.pool("Running", "Unknown", "Failed"),
            lambda t: t.wait(600),
            lambda t: t.machine("b", "Failed"),
        ),
        "replacements_are_limited",
    ),
    Case(
        "but that another has just begun to be cannot be known",
        steps(
            lambda t: t.pool("Running", "Unknown", "Unknown"),
            lambda t: t.wait(600),
            lambda t: t.machine("c", "Failed"),
            lambda t: t.machine("b", "Failed"),
        ),
    ),
    Case(
        "once the other is replaced, it may be given up",
        steps(
            lambda t: t.pool("Running", "Unknown", "Pending"),
            lambda t: t.wait(900),
            lambda t: t.machine("c", "Running"),
            lambda t: t.machine("b", "Failed"),
        ),
    ),
]


@pytest.mark.parametrize(
    "case", [*LIFE_OF_VMS, *DRAINS, *PODS_LEAVE, *LIVES, *GIVEN_UP], ids=attrgetter("name")
)
def test_an_invariant(case: Case) -> None:
    tape = Tape()
    case.play(tape)
    assert tape.wrong == case.wrong.split()


@pytest.mark.parametrize(
    "row", [*OF_MACHINES, *OF_CLUSTERS, *OF_WHOLE_CLUSTERS, *OF_CONTROL_PLANES], ids=attrgetter("name")
)
def test_a_row_of_the_table_is_a_sentence_about_some_kind(row: Rule) -> None:
    assert row.sentence[0].isupper() or row.sentence.startswith("etcd")
    assert row.sentence.endswith(".")
    assert row.name.replace("_", "").isalpha()
    assert not row.finalizer or row.kinds, "a finalizer is one of some kind"


def test_a_name_stands_once_in_the_table_but_for_what_is_true_of_several_owners() -> None:
    names = Counter(
        (row.name, row.owner) for row in (*OF_MACHINES, *OF_CLUSTERS, *OF_WHOLE_CLUSTERS, *OF_CONTROL_PLANES)
    )
    assert set(names.values()) == {1}
