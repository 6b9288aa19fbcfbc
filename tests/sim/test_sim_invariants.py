"""Invariants of machines, their VMs and nodes: steps, and the rules that the last one breaks."""

from operator import attrgetter

import pytest

from kubewright.api.machine import names
from kubewright.testing.simulation.journal import NODES
from kubewright.testing.simulation.tape import Case, Tape, told

VMS = [
    Case("one VM is right", lambda t: t.up()),
    Case(
        "a second one for the same machine is not",
        told(lambda t: t.up(), lambda t: t.vm(serial=2)),
        "one_vm_for_a_machine",
    ),
    Case(
        "a second one after the first was deleted is",
        told(lambda t: t.up(leaving=True), lambda t: t.ends(), lambda t: t.vm(serial=2)),
    ),
    Case(
        "a VM may be without a machine for a moment",
        told(lambda t: t.vm(), lambda t: t.wait(20), lambda t: t.pod()),
    ),
    Case(
        "but not for long",
        told(lambda t: t.vm(), lambda t: t.wait(40), lambda t: t.pod()),
        "no_vm_without_a_machine",
    ),
    Case(
        "a VM whose machine lives is not deleted",
        told(lambda t: t.up(), lambda t: t.ends()),
        "a_living_machine_keeps_its_vm",
    ),
    Case("one whose machine is leaving is", told(lambda t: t.up(leaving=True), lambda t: t.ends())),
    Case(
        "the finalizer does not leave a machine with a VM",
        told(lambda t: t.up(leaving=True), lambda t: t.machine(leaving=True, finalizers=[])),
        "the_finalizer_goes_last",
    ),
    Case(
        "it does when the VM is being deleted",
        told(
            lambda t: t.up(leaving=True), lambda t: t.ends(), lambda t: t.machine(leaving=True, finalizers=[])
        ),
    ),
    Case(
        "the VM on record never becomes another",
        told(lambda t: t.up(vm="sim:///r/vm-000001"), lambda t: t.machine(vm="sim:///r/vm-000002")),
        "a_vm_on_record_stays",
    ),
    Case(
        "but a leaving machine finds a late one after the first is gone",
        told(
            lambda t: t.machine(vm="sim:///r/vm-000001", leaving=True),
            lambda t: t.machine(vm="sim:///r/vm-000002", leaving=True),
        ),
    ),
    Case(
        "two machines do not claim one VM",
        told(lambda t: t.machine("a", vm="sim:///r/x"), lambda t: t.machine("b", vm="sim:///r/x")),
        "a_vm_on_record_stays",
    ),
    Case(
        "nor one node",
        told(lambda t: t.machine("a", node="n"), lambda t: t.machine("b", node="n")),
        "a_vm_on_record_stays",
    ),
]

DRAINS = [
    Case(
        "a VM under pods is not deleted",
        told(lambda t: t.pod(), lambda t: t.up(leaving=True), lambda t: t.ends()),
        "a_drained_vm",
    ),
    Case(
        "pods that have ended do not count",
        told(lambda t: t.pod(phase="Succeeded"), lambda t: t.up(leaving=True), lambda t: t.ends()),
    ),
    Case(
        "nor those of others",
        told(lambda t: t.pod(node="other"), lambda t: t.up(leaving=True), lambda t: t.ends()),
    ),
    Case(
        "nothing runs on a VM without power",
        told(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True),
            lambda t: t.vm(powered=False),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "the death of another VM is no excuse",
        told(
            lambda t: t.vm("other", 7),
            lambda t: t.vm("other", 7, powered=False),
            lambda t: t.pod(),
            lambda t: t.up(leaving=True),
            lambda t: t.ends(),
        ),
        "a_drained_vm",
    ),
    Case(
        "a person may force it",
        told(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True, labels={names.FORCE_DELETION_LABEL: "True"}),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "a drain may take its time, and no longer",
        told(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True, drainTimeout="5m"),
            lambda t: t.wait(300),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "its time is not up earlier",
        told(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True, drainTimeout="5m"),
            lambda t: t.wait(200),
            lambda t: t.ends(),
        ),
        "a_drained_vm",
    ),
    Case(
        "a kubelet that was silent for long ends no pods",
        told(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True),
            lambda t: t.node(ready=False),
            lambda t: t.wait(301),
            lambda t: t.ends(),
        ),
    ),
    Case(
        "one that has just fallen silent may",
        told(
            lambda t: t.pod(),
            lambda t: t.up(leaving=True),
            lambda t: t.node(ready=False),
            lambda t: t.wait(60),
            lambda t: t.ends(),
        ),
        "a_drained_vm",
    ),
    Case(
        "a Node is not deleted before its VM",
        told(lambda t: t.up(leaving=True), lambda t: t.put(NODES, "m", None)),
        "a_node_goes_after_its_vm",
    ),
    Case(
        "it is after it",
        told(lambda t: t.up(leaving=True), lambda t: t.ends(), lambda t: t.put(NODES, "m", None)),
    ),
    Case(
        "a person may delete it",
        told(
            lambda t: t.up(),
            lambda t: t.past.deleted_by_users.add("nodes/m"),
            lambda t: t.put(NODES, "m", None),
        ),
    ),
]

LIVES = [
    Case("a machine that runs may fall ill", told(lambda t: t.up(), lambda t: t.machine(phase="Unknown"))),
    Case(
        "it does not become young again",
        told(lambda t: t.up(), lambda t: t.machine(phase="Pending")),
        "no_way_back",
    ),
    Case(
        "nor does one come back that is leaving",
        told(lambda t: t.up("Terminating", leaving=True), lambda t: t.machine(leaving=True)),
        "no_way_back",
    ),
    Case(
        "a machine whose node is well has not failed",
        told(lambda t: t.up(), lambda t: t.machine(phase="Failed")),
        "a_healthy_machine_is_not_failed",
    ),
    Case(
        "one whose node is not may have",
        told(lambda t: t.up("Unknown"), lambda t: t.node(ready=False), lambda t: t.machine(phase="Failed")),
    ),
    Case(
        "that it has just become well cannot be known",
        told(
            lambda t: t.up("Unknown"),
            lambda t: t.node(ready=False),
            lambda t: t.node(),
            lambda t: t.machine(phase="Failed"),
        ),
    ),
]


@pytest.mark.parametrize("case", [*VMS, *DRAINS, *LIVES], ids=attrgetter("name"))
def test_an_invariant(case: Case) -> None:
    tape = Tape()
    case.play(tape)
    assert tape.wrong == case.wrong.split()
