"""What a driver is told from: it is asked again as soon as any of it has changed."""

import pytest

from kubewright.testing.clocks import BEGIN

from ..looks.of_infra_machines import (
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
