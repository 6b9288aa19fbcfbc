"""Worlds and their controllers: the list is true, and each half can begin again and again in one process."""

from datetime import timedelta

import pytest

from kubewright import builtin
from kubewright.base.errors import InvalidInput
from kubewright.compose.assembly import Assembly
from kubewright.compose.options import Options
from kubewright.compose.worlds import chosen, complete, every_word, idle, leases, listed, named
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.machines.world import Half
from kubewright.pki.certificates import new_authority
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.runtime.lease import WHOLE, Shard
from kubewright.runtime.metrics import Metrics
from kubewright.testing.clocks import BEGIN, LoopClock
from kubewright.wire.http import Response

AUTHORITY = new_authority("test", BEGIN, timedelta(days=1))
BESIDE = builtin.world(builtin.Settings(schedule_pods=True, run_apps=True, authority=AUTHORITY))


def names(controllers):
    return [each.name for each in controllers]


def test_every_controller_has_a_name_of_its_own():
    everything = names([*listed(Options()), *BESIDE.controllers])
    assert len(set(everything)) == len(everything)


def test_a_watch_filter_is_refused_where_objects_have_no_such_label():
    with pytest.raises(
        InvalidInput, match="leave out those of machines: --controllers clusters,bootstrap,infra"
    ):
        chosen(Options(controllers=("*", "clusters"), watch_filter="a"))
    assert chosen(Options(controllers=("clusters", "bootstrap", "infra"), watch_filter="a"))


def test_shards_are_refused_where_objects_are_not_divided():
    with pytest.raises(InvalidInput, match="leave out those of clusters: --controllers machines"):
        chosen(Options(controllers=("*", "clusters"), shard=Shard(0, 2)))
    assert chosen(Options(controllers=("machines",), shard=Shard(0, 2)))
    assert chosen(Options(controllers=("*", "clusters"), shard=WHOLE))


@pytest.mark.parametrize(
    ("controllers", "found"),
    [
        (("*",), [Half.SETS, Half.MACHINES]),
        (("machineset",), [Half.SETS]),
        (("*", "-machinedeployment", "-machineset"), [Half.MACHINES]),
        (("secret",), [Half.MACHINES]),
    ],
)
def test_the_halves_that_run(controllers, found):
    assert leases(chosen(Options(controllers=controllers))) == found


@pytest.mark.parametrize(
    ("controllers", "marks"),
    [
        pytest.param(("*",), True, id="all of them"),
        pytest.param(("machinedeployment",), True, id="the one that it follows"),
        pytest.param(("machineset",), False, id="another of its half"),
        pytest.param(("*", "-machinedeployment"), False, id="all but the one that it follows"),
        pytest.param(("*", "-rolloutnodes"), False, id="all but itself"),
        pytest.param(("machineset", "rolloutnodes"), True, id="itself"),
    ],
)
def test_nodes_are_marked_where_deployments_are_reconciled(controllers, marks):
    names = [each.name for each in chosen(Options(controllers=controllers))]
    assert ("rolloutnodes" in names) is marks


@pytest.fixture
def assembly():
    async def no_server(_request):
        return Response(503)

    clock = LoopClock()
    control, target = (Client(InProcess(no_server), clock, name=name) for name in ("control", "target"))
    driver = SimDriver(Cloud(clock, Store(None)))
    options = Options(controllers=every_word(Options()))
    return Assembly(control, target, driver, options, Metrics(), beside=[BESIDE])


def of(assembly, half):
    return [each for each in assembly.controllers if each.lease == half]


async def test_the_controllers_that_are_made_are_those_of_the_list_in_its_order(assembly):
    work = assembly.work(assembly.controllers)
    assert names(work.controllers) == names([*listed(Options()), *BESIDE.controllers])
    for each in assembly.controllers:
        assert each.name in names(assembly.work([each]).controllers)


async def test_a_half_that_lost_its_lease_can_begin_again_and_leaves_nothing_behind(assembly):
    for _ in range(3):
        for half in Half:
            work = assembly.term(of(assembly, half), half.value, lambda: True)
            assert names(work.controllers) == names(of(assembly, half))
            work.end()
        assert [each.statistics() for each in assembly.informers] == [[], []]
    assert assembly.metrics.render()


async def test_halves_that_work_at_once_share_what_both_watch(assembly):
    for half in Half:
        assembly.term(of(assembly, half), half.value, lambda: True)
    kinds = [each.resource for each in assembly.informers[0].statistics()]
    assert len(kinds) == len(set(kinds))
    assert {"machines.machine.sapcloud.io", "machinesets.machine.sapcloud.io"} <= set(kinds)


@pytest.mark.parametrize(
    ("controllers", "names"),
    [
        pytest.param(
            ("*",), ["clusters", "bootstrap", "infra", "controlplanes", "reserves"], id="by default"
        ),
        pytest.param(
            ("clusters", "bootstrap", "infra", "controlplanes"), ["machines", "reserves"], id="clusters alone"
        ),
        pytest.param(
            ("*", "clusters", "bootstrap", "infra", "controlplanes", "reserve"), [], id="everything"
        ),
        pytest.param(
            ("*", "clusters", "-machines", "reserves"),
            ["bootstrap", "infra", "controlplanes"],
            id="switched off",
        ),
        pytest.param(
            ("*", "bootstrap", "infra", "controlplanes", "machineset"),
            ["clusters", "reserves"],
            id="a part of a world runs",
        ),
    ],
)
def test_worlds_of_which_nothing_runs(controllers, names):
    assert list(idle(Options(controllers=controllers))) == names


@pytest.mark.parametrize("name", ["bootstrap", "infra", "controlplanes"])
def test_a_server_with_one_world_alone_has_the_kinds_that_its_controllers_read(name):
    """Without them they would wait for ever, and `up` would end when its time to start is over."""
    with pytest.raises(
        InvalidInput, match=rf"{name} read objects of clusters, too: --worlds {name},clusters$"
    ):
        complete(named([name]))
    assert [each.name for each in complete(named([name, "clusters"]))] == ["clusters", name]


def test_machines_and_clusters_need_no_other_world():
    for chosen_names in (["machines"], ["clusters"], []):
        found = named(chosen_names)
        assert complete(found) == found
