"""The bootstrap token of a machine of MCM's API: how long it is good, also when its creation is tried again."""

from datetime import datetime, timedelta

import pytest

from kubewright.api.core import SECRET
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.bootstrap.tokens import expiration
from kubewright.driver.life.seen import Verb
from kubewright.machines.machine.act import TOKEN_NAMESPACE, Incomplete, Requests, token_id, token_name
from kubewright.testing.scenes import NOW, machine, minutes
from kubewright.wire.gvk import Key

from ..looks.of_machines import SETTINGS, WANTS_TOKEN, Machines, klass, user_data

OF = machine("", vm=False)
KEY = Key(TOKEN_NAMESPACE, token_name(OF.metadata.uid))


async def kit() -> tuple[Machines, Requests]:
    shelf = Machines()
    await shelf.put(MACHINE_CLASS, klass(secret="user-data"))
    await shelf.put(SECRET, user_data(WANTS_TOKEN))
    return shelf, Requests(shelf.in_caches, shelf.client, shelf.clock, SETTINGS)


def end_of(shelf: Machines) -> datetime | None:
    return expiration(SECRET.from_plain(shelf.at(SECRET, KEY)))


@pytest.mark.parametrize("later", [0, 60, 7200])
async def test_each_try_moves_the_end_of_the_token_also_after_an_outage(later):
    """The second try meets the Secret of the first, whose end is long past."""
    shelf, requests = await kit()
    first = await requests.make(OF, Verb.ENSURE, minutes(20))
    assert end_of(shelf) == NOW + minutes(20)
    shelf.clock.passed = later
    second = await requests.make(OF, Verb.ENSURE, minutes(20))
    assert end_of(shelf) == NOW + timedelta(seconds=later) + minutes(20)
    assert second.secret.data["userData"] == first.secret.data["userData"]
    secret = SECRET.from_plain(shelf.at(SECRET, KEY)).data["token-secret"]
    assert second.secret.data["userData"] == f"join {token_id(OF.metadata.uid)}.".encode() + secret


async def test_the_end_is_by_the_clock_of_the_server_that_checks_it():
    shelf, requests = await kit()
    shelf.client.skew.ahead = 30
    await requests.make(OF, Verb.ENSURE, minutes(20))
    assert end_of(shelf) == NOW + minutes(20) - timedelta(seconds=30)


async def test_a_token_of_another_machine_with_the_same_id_stays_as_it_is():
    shelf, requests = await kit()
    shelf.lay(SECRET, SECRET.from_plain({"metadata": {"name": KEY.name, "namespace": KEY.namespace}}))
    with pytest.raises(Incomplete):
        await requests.make(OF, Verb.ENSURE, minutes(20))
    await requests.delete_token(OF)
    assert "data" not in shelf.at(SECRET, KEY)


@pytest.mark.parametrize("verb", [Verb.LOOK, Verb.DELETE])
async def test_only_a_creation_makes_a_token(verb):
    shelf, requests = await kit()
    await requests.make(OF, verb, minutes(20))
    with pytest.raises(KeyError):
        shelf.at(SECRET, KEY)
