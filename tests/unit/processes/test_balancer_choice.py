"""Which instances are tried for a new connection: the ready ones with the fewest connections, then the others."""

import pytest

from kubewright.processes.balancer import (
    MOST_INSTANCES,
    NEVER,
    Instance,
    addresses_in,
    adjust,
    in_rotation,
    order,
)

NOW = 100.0


def one(host, ready=True, connections=0, failed=NEVER):
    return Instance(host, ready, connections, failed)


CASES = {
    "ready ones before one that is not": ((one("a", ready=False), one("b")), "ba"),
    "the one with the fewest connections first": ((one("a", connections=2), one("b", connections=1)), "ba"),
    "in their own order where all is equal": ((one("a"), one("b"), one("c")), "abc"),
    "one that has just failed after the others": (
        (one("a", failed=NOW - 0.5), one("b", connections=9)),
        "ba",
    ),
    "one that failed a second ago as the others": ((one("a", failed=NOW - 1), one("b", connections=9)), "ab"),
    "all of them though none is ready": ((one("a", ready=False, connections=1), one("b", ready=False)), "ba"),
}


@pytest.mark.parametrize(("instances", "expected"), CASES.values(), ids=CASES.keys())
def test_the_order_in_which_instances_are_tried(instances, expected):
    assert "".join(each.host for each in order(instances, NOW)) == expected


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        pytest.param(one("a"), True, id="ready"),
        pytest.param(one("a", ready=False), False, id="not ready"),
        pytest.param(one("a", failed=NOW), False, id="ready, and failed just now"),
    ],
)
def test_which_instances_are_in_rotation(instance, expected):
    assert in_rotation(instance, NOW) is expected


FILES = {
    "one a line": ("10.99.0.3\n10.99.0.2\n", ["10.99.0.3", "10.99.0.2"]),
    "each once": ("10.99.0.3\n10.99.0.3\n", ["10.99.0.3"]),
    "what is no address is left out": ("example.com\n\n 10.99.0.2 \n10.99.0\n", ["10.99.0.2"]),
    "no more than there may be": (
        "".join(f"10.0.0.{each}\n" for each in range(200)),
        [f"10.0.0.{each}" for each in range(MOST_INSTANCES)],
    ),
}


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES.keys())
def test_the_addresses_in_a_file_of_instances(text, expected):
    assert addresses_in(text) == expected


def test_an_instance_that_stays_keeps_what_is_known_of_it_when_others_come_and_go():
    stays = one("b", connections=3)
    instances = [one("a"), stays]
    new = adjust(instances, ["b", "c"], ready=False)
    assert (instances, new) == ([stays, one("c", ready=False)], [one("c", ready=False)])
    assert instances[0] is stays
