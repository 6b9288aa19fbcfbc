"""How many instances of an etcd run, and with what they begin, from what its members say."""

import pytest
from tests.unit.controlplanes.test_members import member, peer

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.controlplanes.component.workload import (
    Membership,
    endpoints,
    membership,
    must_be_asked,
    peers,
    problem_of_number,
)
from kubewright.controlplanes.hosting.contract import Instance, Running, WorkloadAddresses, WorkloadIdentity
from kubewright.controlplanes.members import AddLearner, Endpoint, Plan, Promote, Remove, Seen, peer_url

PLACE = WorkloadIdentity("team", "demo", Component.ETCD, OwnerReference(name="store", uid="e"))
HOSTS = tuple(f"127.64.0.{number}" for number in range(7))
PLACED = WorkloadAddresses(HOSTS)
BEGUN = {"INITIAL_CLUSTER": "demo-etcd-0=x", "INITIAL_CLUSTER_STATE": "existing"}


def instance(number, *, ready=True, **fields):
    return Instance(number, f"demo-etcd-{number}", HOSTS[number], ready=ready, **fields)


def running(count, *, ready=True, variables=BEGUN):
    """So many that were applied, ready or not."""
    there = tuple(instance(number, ready=ready) for number in range(count))
    return Running(there, "f", count, exists=True, variables={"PATH": "/bin", **variables})


def said(asked, *members, silent=(), caught_up=()):
    answering = frozenset(each.id for each in members) - set(silent)
    return Seen(peers(PLACE, PLACED, asked), members, answering, frozenset(caught_up))


def started(names, state="existing"):
    listed = ",".join(f"demo-etcd-{number}={peer(number)}" for number in names)
    return {"INITIAL_CLUSTER": listed, "INITIAL_CLUSTER_STATE": state}


def known(asked, runs, found=None, *, before=0, begun=False, placed=PLACED):
    return membership(asked, PLACE, placed, runs, before=before, begun=begun, found=found)


ALONE, SECOND, THIRD = member(0), member(1), member(2)
LEARNER = member(1, name="", learner=True)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            known(3, Running()),
            Membership(3, started(range(3), "new")),
            id="a new etcd begins with all of its members at once",
        ),
        pytest.param(
            known(1, running(1)), Membership(1, BEGUN), id="one that runs alone goes on with what it was given"
        ),
        pytest.param(
            known(3, running(1), said(3, ALONE)),
            Membership(
                1,
                started([0]),
                Plan((AddLearner("demo-etcd-1", peer(1)),), because="demo-etcd-1 is to become a member"),
                settled=False,
            ),
            id="more are wanted: no more run before they are members",
        ),
        pytest.param(
            known(3, running(1), said(3, ALONE, LEARNER, silent=[101])),
            Membership(
                2, started([0, 1]), Plan(because=f"{peer(1)} does not have all data yet"), settled=False
            ),
            id="a learner is started, and finds the others",
        ),
        pytest.param(
            known(3, running(3), said(3, ALONE, SECOND, member(2, learner=True), caught_up=[102])),
            Membership(
                3, started(range(3)), Plan((Promote(102, "demo-etcd-2"),), because="demo-etcd-2 has all data"), settled=False,
                needs_all=True,
            ),
            id="all run, and one has no vote yet",
        ),
        pytest.param(
            known(3, running(3), said(3, ALONE, SECOND, THIRD)),
            Membership(3, started(range(3)), Plan(because="all instances are members")),
            id="all are members",
        ),
        pytest.param(
            known(1, running(3), said(1, ALONE, SECOND, THIRD)),
            Membership(
                3,
                started(range(3)),
                Plan((Remove(102, "demo-etcd-2"),), because="demo-etcd-2 is not wanted any more"),
                settled=False,
            ),
            id="fewer are wanted: all run until they are no members",
        ),
        pytest.param(
            known(1, running(3), said(1, ALONE, SECOND)),
            Membership(
                2,
                started([0, 1]),
                Plan((Remove(101, "demo-etcd-1"),), because="demo-etcd-1 is not wanted any more"),
                settled=False,
                needs_all=True,
            ),
            id="what is no member ends",
        ),
        pytest.param(
            known(1, running(3), Seen(peers(PLACE, PLACED, 1), unasked="127.64.0.0: refused")),
            Membership(
                3, BEGUN, Plan(because="its members could not be asked: 127.64.0.0: refused"), settled=False
            ),
            id="while they do not answer nothing ends and nothing changes",
        ),
        pytest.param(
            known(3, running(1, ready=False)),
            Membership(
                1, BEGUN, Plan(because="none of its members is ready, so that they could be asked"), settled=False
            ),
            id="nor while none is ready",
        ),
        pytest.param(
            known(3, running(3, ready=False)),
            Membership(3, BEGUN),
            id="while all are being started there is nothing to say",
        ),
        pytest.param(known(0, running(3)), Membership(0, BEGUN), id="asleep"),
        pytest.param(
            known(3, running(0), before=3, begun=True),
            Membership(3, started(range(3), "existing")),
            id="one that was stopped before it could join joins when all start again",
        ),
        pytest.param(
            known(1, running(0), before=1, begun=True),
            Membership(1, started([0], "new")),
            id="one that is alone joins no other",
        ),
        pytest.param(
            known(1, running(0), before=3),
            Membership(3, started(range(3), "new"), settled=False),
            id="it wakes with as many as it fell asleep with: else it had no majority",
        ),
        pytest.param(
            known(1, Running(kept=3)),
            Membership(3, started(range(3), "new"), settled=False),
            id="made anew where the data of three was kept, it starts with three",
        ),
        pytest.param(
            known(3, running(0)),
            Membership(3, started(range(3), "new")),
            id="it wakes with what is asked for where nothing says how many there were",
        ),
        pytest.param(
            known(3, running(1, variables={}), placed=WorkloadAddresses()),
            Membership(3),
            id="an etcd inside of this process has no members, and its host says what it cannot",
        ),
    ],
)  # fmt: skip
def test_what_runs_and_what_is_next(found, expected):
    assert found == expected


@pytest.mark.parametrize(
    ("asked", "there", "up_to_date", "expected"),
    [
        pytest.param(1, running(1), True, False, id="one alone, as it should be"),
        pytest.param(1, running(1), False, True, id="one alone, which three were asked of in between"),
        pytest.param(3, running(1), False, True, id="more are wanted"),
        pytest.param(3, running(3), False, True, id="all run: one may be a learner"),
        pytest.param(1, running(3), False, True, id="fewer are wanted"),
        pytest.param(3, running(3, ready=False), False, False, id="none is ready"),
        pytest.param(3, Running(), False, False, id="none runs"),
        pytest.param(0, running(3), False, False, id="it is to sleep"),
        pytest.param(2, running(1), False, False, id="the number is refused"),
    ],
)
def test_when_members_are_asked(asked, there, up_to_date, expected):
    assert must_be_asked(asked, there, up_to_date=up_to_date) is expected


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (0, ""),
        (1, ""),
        (3, ""),
        (7, ""),
        (
            2,
            "spec.replicas is 2: etcd needs an odd number of members: with 2 it stands the loss of no more of "
            "them than with 1",
        ),
        (
            4,
            "spec.replicas is 4: etcd needs an odd number of members: with 4 it stands the loss of no more of "
            "them than with 3",
        ),
        (9, "spec.replicas is 9: more than 7 members make an etcd slower, not safer"),
    ],
)
def test_which_numbers_are_refused(asked, told):
    assert problem_of_number(asked) == told


def test_members_are_called_at_their_addresses_and_not_while_they_end():
    pod = Instance(0, "demo-etcd-0", "demo-etcd-0.demo-etcd.team.svc", "fd00::1", ready=True)
    assert endpoints(Running((pod, instance(1), instance(2, ending=True)))) == [
        Endpoint("https://[fd00::1]:2379", "demo-etcd-0.demo-etcd.team.svc"),
        Endpoint("https://127.64.0.1:2379"),
    ]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        pytest.param("demo-etcd-0.demo-etcd", "https://demo-etcd-0.demo-etcd:2380", id="a name"),
        pytest.param("127.64.0.1", "https://127.64.0.1:2380", id="an address of IPv4"),
        pytest.param("fd00::1", "https://[fd00::1]:2380", id="one of IPv6 in brackets"),
    ],
)
def test_a_restored_member_is_reached_by_the_url_of_its_host(host: str, url: str) -> None:
    assert peer_url(host) == url
