"""What ``kubewright watch`` shows of machines of both APIs, and which rows fit on a small terminal."""

import pytest
from msgspec import structs

from kubewright.api.cluster.v1beta1 import Cluster, ObjectReference
from kubewright.api.cluster.v1beta1 import Machine as ClusterMachine
from kubewright.api.cluster.v1beta1 import MachineSpec as ClusterMachineSpec
from kubewright.api.cluster.v1beta1 import MachineStatus as ClusterMachineStatus
from kubewright.api.core import Event
from kubewright.api.core import ObjectReference as Reference
from kubewright.api.meta import ObjectMeta
from kubewright.cli.demo.view import Row, View, fitting
from kubewright.cli.watch.command import line, view_of
from kubewright.testing.scenes import machine, node


def member(name, phase, at=""):
    return ClusterMachine(
        metadata=ObjectMeta(name=name),
        spec=ClusterMachineSpec(version="v1.36.3", provider_id="sim:///x" if at else ""),
        status=ClusterMachineStatus(phase=phase, node_ref=ObjectReference(name=at) if at else None),
    )


def row(name, state="Running"):
    return Row(name, "small", state, "")


OWN = Row("m1", "small", "Running", "m1")


@pytest.mark.parametrize(
    ("machines", "members", "nodes", "shown"),
    [
        pytest.param([], [], [], View((), 0, 0, 0), id="nothing"),
        pytest.param([machine("Running")], [], [node()], View((OWN,), 1, 1, 1), id="a machine with its node"),
        pytest.param([], [], [node()], View((), 0, 0, 0), id="a node without a machine is not counted"),
        pytest.param(
            [],
            [member("a", "Running", "na"), member("b", "Provisioning")],
            [],
            View((Row("a", "v1.36.3", "Running", "na"), Row("b", "v1.36.3", "Provisioning", "")), 1, 1, 1),
            id="machines of Cluster API tell of their nodes",
        ),
        pytest.param(
            [machine("Running")],
            [member("m1", "Pending")],
            [node()],
            View((OWN, Row("m1 (cluster)", "v1.36.3", "Pending", "")), 1, 1, 1),
            id="of two machines with one name the second says whose it is",
        ),
    ],
)
def test_what_is_shown(machines, members, nodes, shown):
    assert view_of(machines, members, [], nodes) == shown


@pytest.mark.parametrize(
    ("clusters", "phase"),
    [
        pytest.param([Cluster()], "Provisioning", id="one cluster has a phase"),
        pytest.param([Cluster(), Cluster()], "", id="of several none is shown"),
    ],
)
def test_the_phase_of_a_cluster(clusters, phase):
    assert view_of([], [], clusters, []).cluster == phase


@pytest.mark.parametrize(
    ("room", "names"),
    [
        pytest.param(4, ["a", "b", "c", "d"], id="all fit"),
        pytest.param(2, ["a", "c"], id="those that are not Running come first"),
        pytest.param(1, ["c"], id="a single line"),
    ],
)
def test_which_rows_fit(room, names):
    rows = (row("a"), row("b"), row("c", "Failed"), row("d"))
    assert [each.name for each in fitting(rows, room)] == names


def test_an_event_is_a_sentence():
    about = Reference(kind="Machine", name="m1")
    event = Event(involved_object=about, reason="Joined", message="it joined", count=2)
    assert line(event) == "machine m1: Joined: it joined (2 times)"
    assert (
        line(structs.replace(event, message="\x1b[2Jit joined"))
        == "machine m1: Joined: [2Jit joined (2 times)"
    )
