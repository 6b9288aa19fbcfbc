"""Requests for certificates and tokens over hours, in a world of trouble, and what they cost at rest; on virtual time."""

import asyncio
from base64 import b64encode
from datetime import timedelta

import pytest

from kubewright.api.certificates import KUBELET_CLIENT, SIGNING_REQUEST
from kubewright.api.core import CONFIG_MAP, NAMESPACE, SECRET
from kubewright.api.kinds import dynamic
from kubewright.builtin import Settings
from kubewright.pki.certificates import new_authority, new_request
from kubewright.wire.gvk import Key
from kubewright.wire.http import User

REQUESTS, MAPS, NAMESPACES, SECRETS = (
    dynamic(kind.resource) for kind in (SIGNING_REQUEST, CONFIG_MAP, NAMESPACE, SECRET)
)


@pytest.fixture
def settings(world):
    return Settings(authority=new_authority("test", world.clock.now(), timedelta(days=3650)))


async def asked(world, name, *, signer=KUBELET_CLIENT, decision=""):
    request = new_request(User("system:node:a", ("system:nodes",)))[0]
    spec = {
        "request": b64encode(request).decode(),
        "signerName": signer,
        "usages": ["digital signature", "client auth"],
    }
    await world.create(REQUESTS, name, "", spec=spec)
    if decision:
        status = {"conditions": [{"type": decision, "status": "True"}]}
        await world.user.patch(REQUESTS, Key("", name), {"status": status}, subresource="approval")


async def names(world):
    return {each["metadata"]["name"] for each in await world.user.list(REQUESTS)}


async def test_requests_go_when_they_are_over(world, settings):
    async with world.controlled(settings):
        await asked(world, "signed")  # an administrator's, which is approved at once
        await asked(world, "denied", signer="example.com/own", decision="Denied")
        await asked(world, "approved", signer="example.com/own", decision="Approved")
        await asked(world, "open", signer="example.com/own")
        await asyncio.sleep(3500)
        assert await names(world) == {"signed", "denied", "approved", "open"}
        await asyncio.sleep(200)
        assert await names(world) == {"approved", "open"}


async def test_at_rest_nothing_is_asked(world, settings):
    async with world.controlled(settings):
        await asked(world, "open", signer="example.com/own")
        data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"}
        meta = {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}
        token = {"metadata": meta, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        await world.user.create(SECRETS, token)
        await asyncio.sleep(60)
        world.requests.take()
        await asyncio.sleep(7200)
        assert world.requests.take() == {}


async def test_a_namespace_costs_two_writes(world, settings):
    async with world.controlled(settings):
        await asyncio.sleep(60)
        world.requests.take()
        await world.create(NAMESPACES, "team", "")
        await asyncio.sleep(60)
        assert world.requests.take() == {
            ("POST", "/api/v1/namespaces/team/configmaps"): 1,
            ("POST", "/api/v1/namespaces/team/serviceaccounts"): 1,
        }


async def test_trouble_delays_certificates_and_gifts_and_loses_none(world, settings):
    world.requests.trouble = 0.3
    async with world.controlled(settings):
        for number in range(5):
            await asked(world, f"r{number}")
            await world.create(NAMESPACES, f"team{number}", "")
        await asyncio.sleep(900)
        for number in range(5):
            found = await world.user.get(REQUESTS, Key("", f"r{number}"))
            assert found["status"]["certificate"]
            assert len(found["status"]["conditions"]) == 1
            given = await world.user.get(MAPS, Key(f"team{number}", "kube-root-ca.crt"))
            assert given["data"]["ca.crt"] == settings.authority.certificate.decode()
