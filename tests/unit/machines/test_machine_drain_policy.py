"""What the Machine API asks of a drain: the operator's settings, the machine's own, and a user's labels."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from kubewright.api.machine import names
from kubewright.machines.settings import MachineSettings, drain_policy
from kubewright.nodes.drain.policy import DrainPolicy, Force
from kubewright.testing.scenes import machine, seen

HOUR = timedelta(hours=1)
FORCE = Force(
    requested=False,
    at_timeout=True,
    healthy={"Ready": "True", "ReadonlyFilesystem": "False"},
    sick_after=timedelta(minutes=5),
    refusals=360,
)
DEFAULT = DrainPolicy(
    timeout=2 * HOUR,
    force=FORCE,
    one_by_one=True,
    detach_timeout=timedelta(minutes=2),
    reattach_timeout=timedelta(seconds=90),
)
HOURLY = replace(DEFAULT, timeout=HOUR, force=replace(FORCE, refusals=180))
REQUESTED = replace(DEFAULT, force=replace(FORCE, requested=True))


def labelled(of, **labels):
    own = {**of.metadata.labels, **labels}
    return structs.replace(of, metadata=structs.replace(of.metadata, labels=own))


LIVING, DYING = machine("Failed"), machine("Running", deleted=HOUR)
DELETE, DRAIN = {names.FORCE_DELETION_LABEL: "true"}, {names.FORCE_DRAIN_LABEL: "True"}
CASES = [
    ("a machine without settings of its own", DYING, DEFAULT),
    ("its own time counts, and as many refusals as fit into it", machine("Running", deleted=HOUR, drain_timeout="1h"), HOURLY),
    ("also if it is longer", machine("Running", drain_timeout="4h"),
     replace(DEFAULT, timeout=4 * HOUR, force=replace(FORCE, refusals=720))),
    ("both of its own count", machine("Running", drain_timeout="1h", max_evict_retries=9),
     replace(HOURLY, force=replace(FORCE, refusals=9))),
    ("a time that cannot be read does not", machine("Running", drain_timeout="soon"), DEFAULT),
    ("its own number of refusals counts", machine("Running", max_evict_retries=9),
     replace(DEFAULT, force=replace(FORCE, refusals=9))),
    ("none is a number, too", machine("Running", max_evict_retries=0),
     replace(DEFAULT, force=replace(FORCE, refusals=0))),
    ("a user forces its deletion", labelled(DYING, **DELETE), REQUESTED),
    ("that says nothing of the drain of a machine that is kept", labelled(LIVING, **DELETE), DEFAULT),
    ("which a user forces by another label", labelled(LIVING, **DRAIN), REQUESTED),
    ("that one says nothing of a deletion", labelled(DYING, **DRAIN), DEFAULT),
]  # fmt: skip


@pytest.mark.parametrize(("of", "policy"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_policy_of_a_machine(of, policy):
    assert seen(of).drain_policy == policy


def test_a_node_without_a_machine_is_drained_as_the_operator_says():
    settings = MachineSettings(
        drain_timeout=HOUR, max_evict_retries=9, detach_timeout=HOUR, reattach_timeout=2 * HOUR
    )
    wanted = DrainPolicy(HOUR, replace(FORCE, refusals=9), detach_timeout=HOUR, reattach_timeout=2 * HOUR)
    assert drain_policy(settings) == wanted


def test_the_operators_number_of_refusals_counts_where_the_machine_has_none():
    settings = MachineSettings(max_evict_retries=9)
    assert drain_policy(settings, machine("Running", drain_timeout="4h").spec).force.refusals == 9


@pytest.mark.parametrize(("at_once", "seconds"), [(1, 5), (1_000, 5), (2_000, 10), (10_000, 50)], ids=str)
def test_the_more_machines_are_drained_the_rarer_each_is_looked_at(at_once, seconds):
    assert drain_policy(MachineSettings(), at_once=at_once).poll == timedelta(seconds=seconds)
    dying = replace(seen(machine("Running", deleted=2 * HOUR)), drains_at_once=at_once)
    assert dying.drain_policy.poll == timedelta(seconds=seconds)
