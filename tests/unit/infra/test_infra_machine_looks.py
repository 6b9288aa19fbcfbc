"""What a driver is told from: it is asked again as soon as any of it has changed."""

import pytest

from kubewright.driver.life.seen import Verb
from kubewright.infra.machine.look import CannotTell
from kubewright.testing.clocks import BEGIN

from ..looks.of_infra_machines import (
    NS,
    SHARED,
    Machines,
    cluster,
    infrastructure,
    inputs_of,
    machine,
    owner,
    secret,
)

THERE = (owner(), cluster(), infrastructure(**SHARED), secret("cloud", key="eA=="))


@pytest.mark.parametrize(
    ("then", "differs"),
    [
        (secret("cloud", key="eQ=="), True),
        (owner(failureDomain="b"), True),
        (owner(version="v1.32.0"), True),
        (cluster(), False),
        (secret("another", key="eQ=="), False),
    ],
    ids=[
        "the credentials",
        "the failure domain",
        "the release",
        "the Cluster, written again",
        "another Secret",
    ],
)
async def test_the_inputs_change_with_what_the_driver_is_told(then, differs):
    first, second = await inputs_of(*THERE, then=then)
    assert (first != second) is differs


@pytest.mark.parametrize(
    ("created", "one_clock", "asked"),
    [(None, True, (False, None)), (BEGIN, False, (True, None)), (BEGIN, True, (True, BEGIN))],
    ids=["it was there before", "another machine's clock dates it", "our own clock dates it"],
)
async def test_a_doubt_is_asked_for_with_what_this_process_saw(created, one_clock, asked):
    machines = Machines(one_clock=one_clock)
    of = machine()
    machines.looker.look(of, created, BEGIN)
    (facts,) = machines.calls.asked
    dated = BEGIN if asked[0] else of.metadata.creation_timestamp
    assert (facts["created"], facts["witnessed"]) == (dated, asked[1])
    assert facts["recorded"] is False


WHOLE = (
    owner("data", failureDomain="b"),
    cluster(),
    secret("cloud", key="eA=="),
    secret("data", value="aGk="),
)
DOMAINS = {"a": {"providerSpec": {"zone": "1"}}, "b": {"providerSpec": {"zone": "2"}}}


async def asked(of, verb, *there):
    machines = Machines()
    for kind, each in there:
        await machines.put(kind, each)
    return machines.looker.request(of, verb, "left behind")


async def test_a_creation_is_told_place_credentials_data_and_release():
    shared = infrastructure(
        **SHARED, driver="sim", providerSpec={"size": 1, "zone": "0"}, failureDomains=DOMAINS
    )
    request = await asked(machine(providerSpec={"size": 2}), Verb.ENSURE, *WHOLE, shared)
    assert request.machine_class.provider_spec == {"size": 2, "zone": "2"}
    assert request.machine_class.provider == "sim"
    assert (request.machine_class.name, request.machine_class.namespace) == (
        "c.infrastructure.cluster.x-k8s.io",
        NS,
    )
    assert request.machine_class.metadata.uid == "kubewrightcluster.c"
    assert request.secret.data == {"key": b"x", "userData": b"hi"}
    assert (request.data_format, request.version) == ("cloud-config", "v1.31.0")
    assert not request.control_plane
    assert (request.name, request.machine.status.last_known_state) == ("m", "left behind")


async def test_a_machine_s_own_place_goes_before_that_of_its_machine():
    shared = infrastructure(**SHARED, failureDomains=DOMAINS)
    request = await asked(machine(failureDomain="a"), Verb.ENSURE, *WHOLE, shared)
    assert request.machine_class.provider_spec == {"zone": "1"}


async def test_a_look_and_a_deletion_are_told_no_data():
    for verb in (Verb.LOOK, Verb.DELETE):
        request = await asked(machine(), verb, *WHOLE[:3], infrastructure(**SHARED))
        assert (request.secret.data, request.data_format, request.version) == ({"key": b"x"}, "", "")


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ((*WHOLE[:3], infrastructure(**SHARED)), "there is no Secret data, which the Machine names"),
        ((*WHOLE[:2], WHOLE[3], infrastructure(**SHARED)), "there is no Secret cloud with credentials"),
        (
            (*WHOLE, infrastructure(**SHARED, failureDomains={"z": {}})),
            "failure domain 'b' is none of the cluster's: z",
        ),
    ],
    ids=["its data", "its credentials", "its place"],
)
async def test_what_is_gone_since_the_look_is_not_made_up(there, says):
    with pytest.raises(CannotTell, match=says):
        await asked(machine(), Verb.ENSURE, *there)


async def test_a_place_that_is_gone_does_not_matter_once_there_is_a_vm():
    shared = infrastructure(**SHARED, failureDomains={"z": {}})
    request = await asked(machine(providerID="sim:///here/vm-1"), Verb.DELETE, *WHOLE, shared)
    assert request.machine.spec.provider_id == "sim:///here/vm-1"


@pytest.mark.parametrize(("data", "told"), [(None, b""), ("", b"")], ids=["not yet", "nothing to bootstrap"])
async def test_without_a_name_there_are_no_data(data, told):
    request = await asked(machine(), Verb.ENSURE, owner(data), cluster(), WHOLE[2], infrastructure(**SHARED))
    assert (request.secret.data["userData"], request.data_format) == (told, "cloud-config")


async def test_data_in_another_notation_are_told_so():
    ignition = secret("data", value="aGk=", format="aWduaXRpb24=")
    request = await asked(
        machine(), Verb.ENSURE, owner("data"), cluster(), WHOLE[2], infrastructure(**SHARED), ignition
    )
    assert request.data_format == "ignition"
