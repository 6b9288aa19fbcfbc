"""Which clients are let in over TLS, and as which users."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from kubewright.apiserver.http.authn import AUTHENTICATED
from kubewright.base.clock import SystemClock
from kubewright.testing import keys
from kubewright.wire.http import User

PODS = "/api/v1/namespaces/default/pods"
TOKEN = {"authorization": "Bearer ann-token"}
Serving = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.mark.parametrize(
    ("certificate", "headers", "user"),
    [
        pytest.param(True, {}, User("bob", ("ops", AUTHENTICATED)), id="a certificate of ours"),
        pytest.param(False, TOKEN, User("ann", ("devs", AUTHENTICATED)), id="a token"),
        pytest.param(False, {}, User(), id="no credentials, for a public path"),
    ],
)  # fmt: skip
async def test_the_handler_learns_who_asks_and_not_by_what(
    serving: Serving, certificate: bool, headers: dict[str, str], user: User
) -> None:
    async with serving() as world:
        identity = world.authority.issue("bob", "ops") if certificate else None
        async with world.client(world.authority.client_context(identity)) as client:
            assert (await client.get("/version", headers=headers)).status == 200
    assert world.asked[0].user == user
    assert "authorization" not in world.asked[0].headers


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param(PODS, {}, id="no credentials, for a path that is not public"),
        pytest.param(PODS, {"authorization": "Bearer wrong"}, id="a wrong token"),
        pytest.param("/version", {"authorization": "Bearer wrong"}, id="even for a public path"),
    ],
)
async def test_who_proves_nothing_is_unauthorized(
    serving: Serving, path: str, headers: dict[str, str]
) -> None:
    async with serving() as world, world.client(world.authority.client_context()) as client:
        answer = await client.get(path, headers=headers)
        assert await world.refusal(answer) == (401, "Unauthorized", "Unauthorized")
    assert world.asked == []


async def test_whom_to_be_taken_for_reaches_the_handler_value_by_value(serving: Serving) -> None:
    async with serving() as world, world.client() as client:
        headers = [("Impersonate-User", "ann"), ("Impersonate-Group", "a, b"), ("Impersonate-Group", "c")]
        assert (await client.get(PODS, headers=headers)).status == 200
    (asked,) = world.asked
    assert asked.user.name == "kubewright-admin"
    assert asked.headers["impersonate-user"] == "ann"
    assert asked.headers["impersonate-group"] == "a, b\nc"


async def test_certificates_of_others_and_old_ones_fail_in_the_handshake(serving: Serving) -> None:
    async with serving() as world:
        trust = world.authority.client_context
        old = world.authority.issue("ann", lifetime=timedelta(minutes=-1))
        for identity in (keys.in_memory(SystemClock()).admin, old):
            async with world.client(trust(identity)) as client:
                with pytest.raises(aiohttp.ClientError):
                    await client.get("/version")
    assert world.asked == []


async def test_a_client_of_another_authority_does_not_talk_to_us(serving: Serving) -> None:
    async with serving() as world:
        other = keys.in_memory(SystemClock()).client_context()
        async with world.client(other) as client:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await client.get("/version")
