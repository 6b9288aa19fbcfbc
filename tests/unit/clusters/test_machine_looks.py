"""What a look at a Machine of Cluster API keeps, asks servers for, and takes from the look before."""

from dataclasses import replace

import pytest

from kubewright.clusters.machine.look import as_certain
from kubewright.runtime.references.reference import Cause
from kubewright.testing.looks import Named

from ..looks.of_cluster_machines import (
    DELETED,
    GOING,
    INFRA,
    KEY,
    SINCE,
    VM,
    Machines,
    Providers,
    found,
    machine,
    missing,
    node,
)

GONE, MISSING, FOUND = missing(INFRA, gone=True), missing(INFRA), found(INFRA)
SYNCING = replace(MISSING, transient=True)


@pytest.mark.parametrize(
    ("now", "before", "after"),
    [
        (MISSING, GONE, GONE),
        (MISSING, MISSING, MISSING),
        (MISSING, None, MISSING),
        (FOUND, GONE, FOUND),
        (SYNCING, GONE, SYNCING),
        (SYNCING, None, SYNCING),
    ],
    ids=[
        "still gone",
        "never certain",
        "no look before",
        "it was made again",
        "not synced",
        "not synced at first",
    ],
)
def test_what_was_certain_stays_so_until_the_object_is_seen(now, before, after):
    assert as_certain(now, before) == after


async def test_a_second_look_in_the_caches_keeps_what_servers_said():
    machines = Machines(Providers({}, served=False))
    first = await machines.looker.look(GOING)
    first = replace(first, bootstrap=GONE, deletion=replace(first.deletion, volumes=("v",), unread="no"))
    again = machines.looker.look_in_caches(GOING, first)
    assert again.infrastructure.gone
    assert (again.deletion.volumes, again.deletion.unread) == (("v",), "no")
    assert again.deletion.deleted_at == SINCE
    assert again.bootstrap is None  # the machine names none


async def test_of_a_machine_that_is_gone_nothing_is_kept():
    machines = Machines(Providers({}))
    await machines.looker.look(machine())
    notes = machines.looker.notes("m")
    machines.looker.forget(KEY)
    assert machines.looker.notes("m") is not notes
    assert machines.providers.forgotten == [KEY]


async def test_a_machine_of_the_same_name_begins_anew():
    machines = Machines(Providers({}))
    await machines.looker.look(machine())
    notes = machines.looker.notes("m")
    await machines.looker.look(machine(meta={"uid": "another"}))
    assert machines.looker.notes("m") is not notes
    await machines.looker.look(machine(meta={"uid": "another"}))
    assert machines.providers.forgotten == [KEY]


async def test_a_deletion_that_this_process_saw_begins_by_its_own_clock():
    machines = Machines(Providers({}))
    await machines.looker.look(machine())
    machines.clock.passed = 100
    seen = await machines.looker.look(machine(meta=DELETED))
    assert seen.deletion.deleted_at == seen.now
    machines.looker.forget(KEY)
    assert (await machines.looker.look(machine(meta=DELETED))).deletion.deleted_at == SINCE


ON_RECORD = machine(node="node-1", providerID=VM)
LEAVING = machine(node="node-1", providerID=VM, meta=DELETED)
NODES = [
    ("a machine without a providerID has none", machine(), [node("node-1")], ()),
    ("one with it has that Node", machine(providerID=VM), [node("node-1")], ("node-1",)),
    ("two have it: all are seen", ON_RECORD, [node("node-1"), node("node-2")], ("node-1", "node-2")),
    ("in deletion the one on record counts", LEAVING, [node("node-2"), node("node-1")], ("node-1",)),
    ("in deletion one without a providerID does", LEAVING, [node("node-1", "")], ("node-1",)),
    ("another VM's does not", LEAVING, [node("node-1", "sim:///here/vm-2")], ()),
    ("nor one that is not on record, where that is another's", LEAVING,
     [node("node-1", "sim:///here/vm-2"), node("node-2")], ("node-2",)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("of", "nodes", "seen"), [each[1:] for each in NODES], ids=[each[0] for each in NODES]
)
async def test_which_nodes_are_a_machines(of, nodes, seen):
    machines = Machines(Providers({}))
    for kind, each in nodes:
        await machines.workload.put(kind, each)
    assert (machines.looker.look_in_caches(of)).workload.nodes == tuple(map(Named, seen))


async def test_whether_a_kind_is_served_is_asked_of_the_kind_that_the_reference_names():
    machines = Machines(Providers({}, served=False))
    await machines.looker.look(GOING)
    assert machines.providers.asked == [("infrastructure.cluster.x-k8s.io", "Foo")]


async def test_where_it_is_certain_that_an_object_is_gone_no_server_is_asked():
    machines = Machines(Providers({}, cause=Cause.MISSING))
    assert (await machines.looker.look(GOING)).infrastructure.gone
    assert machines.providers.asked == []
