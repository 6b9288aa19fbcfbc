"""The life of a bootstrap token in its cluster: how long it is good, and what comes after an outage."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from kubewright.api.core import SECRET
from kubewright.base.delays import UNHEARD
from kubewright.bootstrap.seen import TokenSeen
from kubewright.bootstrap.token_calls import TokenCalls, ensure_token
from kubewright.bootstrap.tokens import EXPIRATION, Token, check_every, expiration, token_secret
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.sessions.session import NotConnected, Session
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf
from kubewright.wire.errors import AlreadyExists, Forbidden, to_status
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

TTL, MINUTE = timedelta(minutes=15), timedelta(minutes=1)
TOKEN, OTHER = Token("abcdef", "0123456789abcdef"), Token("fedcba", "0123456789abcdef")
CONFIG, CLUSTER = Key("n", "m"), Key("n", "c")


def end_of(shelf: Shelf, token: Token = TOKEN):
    """Until when the token is good, as its cluster has it."""
    return expiration(SECRET.from_plain(shelf.at(SECRET, token.key)))


@pytest.mark.parametrize(
    ("age", "until"),
    [
        (0, 15),  # it was made just now
        (2, 15),  # it is good for more than five sixths of its life
        (3, 18),  # and then for a whole life from now
        (14, 29),
        (15, 30),  # it is over, and its Secret still there
        (600, 615),  # an outage: nobody looked for hours
    ],
)
async def test_a_token_is_good_for_a_life_from_the_look_that_finds_it_old(age, until):
    shelf = Shelf()
    shelf.lay(SECRET, token_secret(TOKEN, BEGIN + TTL))
    now = BEGIN + age * MINUTE
    assert await ensure_token(shelf.client, TOKEN, TTL, now) == BEGIN + until * MINUTE
    assert end_of(shelf) == BEGIN + until * MINUTE


@pytest.mark.parametrize("age", [0, 600])
async def test_a_token_whose_secret_is_gone_is_made_again_for_a_whole_life(age):
    shelf, now = Shelf(), BEGIN + age * MINUTE
    assert await ensure_token(shelf.client, TOKEN, TTL, now) == now + TTL
    assert end_of(shelf) == now + TTL


async def test_a_token_that_another_leader_made_meanwhile_is_the_one_that_counts():
    shelf = Shelf()

    async def overtaken(request: Request) -> Response:
        if request.method != "POST":
            return await shelf.handle(request)
        shelf.lay(SECRET, token_secret(TOKEN, BEGIN + MINUTE))
        return Response(409, json.dumps(to_status(AlreadyExists("it is there"))).encode())

    client = Client(InProcess(overtaken), shelf.clock)
    assert await ensure_token(client, TOKEN, TTL, BEGIN) == BEGIN + TTL
    assert end_of(shelf) == BEGIN + TTL


async def test_an_end_that_cannot_be_read_is_written_anew():
    shelf, broken = Shelf(), token_secret(TOKEN, BEGIN + TTL)
    broken.data[EXPIRATION] = b"soon"
    shelf.lay(SECRET, broken)
    assert await ensure_token(shelf.client, TOKEN, TTL, BEGIN) == BEGIN + TTL


class Workload:
    """A workload cluster that may be away, and the calls about tokens in it."""

    def __init__(self) -> None:
        self.shelf, self.away = Shelf(), False
        self.clock = self.shelf.clock
        self.done = asyncio.Event()
        self.calls = TokenCalls(self, self.clock, TTL, lambda _key: self.done.set())

    def get(self, cluster: Key) -> Session:
        if self.away:
            raise NotConnected(f"{cluster} is away")
        return Session(self.shelf.client, Informers(self.shelf.client), cluster)

    def seen(self, token: Token = TOKEN) -> TokenSeen:
        return self.calls.seen(CONFIG, CLUSTER, token)

    async def keep(self, token: Token = TOKEN) -> TokenSeen:
        self.done.clear()
        self.calls.keep(CONFIG, CLUSTER, token)
        await self.done.wait()
        return self.seen(token)


@asynccontextmanager
async def workload() -> AsyncIterator[Workload]:
    made = Workload()
    task = asyncio.create_task(made.calls.run())
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_token_is_looked_at_every_third_of_its_life():
    async with workload() as it:
        assert it.seen() == TokenSeen()
        assert await it.keep() == TokenSeen(BEGIN + TTL, BEGIN + check_every(TTL))
        it.clock.passed = 240
        assert it.seen() == TokenSeen(BEGIN + TTL, BEGIN + check_every(TTL))


async def test_while_its_cluster_is_away_a_token_is_looked_at_each_half_minute_and_its_end_is_no_reason_to_wait():
    async with workload() as it:
        await it.keep()
        it.away, it.clock.passed = True, 600
        told = f"{CLUSTER} is away"
        assert it.seen() == TokenSeen(BEGIN + TTL, BEGIN + 10 * MINUTE + UNHEARD, told)
        it.clock.passed = 7200
        assert it.seen() == TokenSeen(BEGIN + TTL, BEGIN + 120 * MINUTE + UNHEARD, told)


async def test_when_its_cluster_is_back_a_token_is_due_at_once_and_lives_from_then():
    async with workload() as it:
        await it.keep()
        it.clock.passed = 7200
        late = it.seen()
        assert late.next is not None
        assert late.next < BEGIN + 120 * MINUTE
        assert await it.keep() == TokenSeen(BEGIN + 135 * MINUTE, BEGIN + 120 * MINUTE + check_every(TTL))
        assert end_of(it.shelf) == BEGIN + 135 * MINUTE


async def test_a_call_that_fails_is_tried_again_soon_and_says_why_without_the_token():
    async with workload() as it:
        it.shelf.answers[SECRET.resource.path(TOKEN.key.namespace, TOKEN.key.name)] = Forbidden(TOKEN.text)
        seen = await it.keep()
        assert seen.until is None
        assert seen.next == BEGIN + timedelta(seconds=1)
        assert "403" in seen.problem
        assert TOKEN.secret not in seen.problem


async def test_what_is_known_of_another_token_is_not_said_of_this_one():
    async with workload() as it:
        await it.keep()
        assert it.seen(OTHER) == TokenSeen()
        assert it.seen(TOKEN) == TokenSeen()
