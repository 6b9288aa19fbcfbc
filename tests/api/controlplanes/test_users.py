"""Users of control planes with a certificate: a kubeconfig of their own, renewed in time."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.api.controlplanes.kit import Stage, stage
from tests.api.controlplanes.test_whole_planes import COMPONENTS, create, whole

from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_USER,
    NESTED_CONTROL_PLANE,
    ControlPlaneUser,
    ControlPlaneUserSpec,
)
from kubewright.api.controlplane.validate import validate_user
from kubewright.api.core import SECRET
from kubewright.api.faults import summary
from kubewright.api.meta import ObjectMeta
from kubewright.kube.config import inline_access
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import facts_of, is_signed_by
from kubewright.pki.keys import Algorithm, pems
from kubewright.wire.gvk import Key

ALICE = {"controlPlaneName": "demo", "groups": ["developers"], "credential": "Certificate"}


async def ready(on: Stage, name: str = "alice") -> Any:
    async def so() -> bool:
        status = await on.status(CONTROL_PLANE_USER, name)
        return status is not None and status.ready

    await on.until(so)
    return await on.status(CONTROL_PLANE_USER, name)


async def said(on: Stage, name: str = "alice") -> tuple[str, str]:
    status = await on.status(CONTROL_PLANE_USER, name)
    return next(((each.status, each.message) for each in status.conditions), ("", ""))


async def certificate(on: Stage) -> bytes:
    return inline_access((await on.get(SECRET, "demo-user-alice")).data["value"]).certificate


async def test_a_user_has_a_kubeconfig_of_their_own_name_and_groups_and_lifetime() -> None:
    async with stage() as on:
        await on.apply(CONTROL_PLANE_USER, "alice", {**ALICE, "user": "alice@example", "lifetime": "8h"})
        await on.clock.sleep(1)
        assert await said(on) == ("False", "there is no NestedControlPlane demo")
        await create(on, *COMPONENTS)
        await whole(on)
        status = await ready(on)
        secret = await on.get(SECRET, status.secret_name)
        access, authority = inline_access(secret.data["value"]), await on.get(SECRET, "demo-ca")
        facts = facts_of(access.certificate)
        assert (facts.user.name, facts.user.groups) == ("alice@example", ("developers",))
        assert is_signed_by(access.certificate, authority.data["tls.crt"])
        endpoint = (await on.get(NESTED_CONTROL_PLANE, "demo")).spec.control_plane_endpoint
        assert access.server == f"https://{endpoint}"
        assert status.expires_at == facts.not_after
        lives = facts.not_after - on.clock.now()
        assert timedelta(hours=7, minutes=58) < lives <= timedelta(hours=8)
        assert secret.metadata.controller.name == "alice"


async def test_it_is_renewed_at_half_of_its_life_and_when_groups_or_lifetime_change() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await on.apply(CONTROL_PLANE_USER, "alice", {**ALICE, "lifetime": "10m"})
        await ready(on)
        first = await certificate(on)
        await on.clock.sleep(290)
        assert await certificate(on) == first
        await on.clock.sleep(20)
        second = await certificate(on)
        assert facts_of(second).not_after - facts_of(first).not_after >= timedelta(minutes=4, seconds=59)
        for change in ({"groups": ["admins"]}, {"lifetime": "1h"}, {"lifetime": "10m"}):
            await on.client.patch(CONTROL_PLANE_USER, Key("default", "alice"), {"spec": change})
            await on.clock.sleep(310)
            third = await certificate(on)
            assert third != second
            second = third
        assert facts_of(second).user.groups == ("admins",)
        assert facts_of(second).not_after <= on.clock.now() + timedelta(minutes=10)


async def test_the_secret_goes_with_the_object_and_a_secret_of_another_is_never_written() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        mine = {"metadata": {"name": "demo-user-bob", "namespace": "default"}, "stringData": {"value": "x"}}
        kept = await on.client.create(SECRET, mine)
        await on.apply(CONTROL_PLANE_USER, "bob", ALICE)
        await on.apply(CONTROL_PLANE_USER, "alice", ALICE)
        await ready(on)
        assert "demo-user-bob" in (await said(on, "bob"))[1]
        await on.client.delete(CONTROL_PLANE_USER, Key("default", "alice"))
        await on.client.delete(CONTROL_PLANE_USER, Key("default", "bob"))

        async def gone() -> bool:
            return await on.get(SECRET, "demo-user-alice") is None

        await on.until(gone)
        assert await on.get(SECRET, "demo-user-bob") == kept


async def test_a_new_authority_reaches_users_in_both_phases() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        await on.apply(CONTROL_PLANE_USER, "alice", ALICE)
        await ready(on)
        await on.clock.sleep(10)
        after = (on.clock.now() - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for stop, trusted in (("Signing", 2), ("Dropping", 2), ("Never", 1)):
            said = {"rotateAfter": after, "stopBefore": stop}
            body = {"spec": {"certificateAuthorities": said}}
            await on.client.patch(NESTED_CONTROL_PLANE, Key("default", "demo"), body)
            await on.clock.sleep(60)
            access = inline_access((await on.get(SECRET, "demo-user-alice")).data["value"])
            bundle = (await on.get(SECRET, "demo-ca")).data["tls.crt"]
            assert (pems(access.ca), len(pems(bundle))) == (pems(bundle), trusted)
            assert is_signed_by(access.certificate, bundle)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({}, "", id="a good one"),
        pytest.param({"control_plane_name": ""}, "spec.controlPlaneName: Required value: it names no control plane", id="no control plane"),
        pytest.param({"groups": ()}, "spec.groups: Required value: name one group at least: roles are given to groups", id="no group"),
        pytest.param({"groups": ("",)}, 'spec.groups[0]: Invalid value: "": must have 1 to 64 characters', id="an empty group"),
        pytest.param({"user": "u" * 65}, f'spec.user: Invalid value: "{"u" * 65}": must have 1 to 64 characters', id="a long name"),
        pytest.param({"groups": ("system:masters",)}, "spec.groups[0]: Forbidden: names that begin with system: are for spec.privileged users only", id="masters"),
        pytest.param({"user": "system:admin"}, "spec.user: Forbidden: names that begin with system: are for spec.privileged users only", id="a user of the system"),
        pytest.param({"groups": ("system:masters",), "privileged": True}, "", id="masters, asked for explicitly"),
        pytest.param({"user": "system:serviceaccount:a:b", "privileged": True}, "spec.user: Forbidden: a name that begins with system:serviceaccount: needs spec.credential Certificate", id="a service account by token"),
        pytest.param({"user": "system:serviceaccount:a:b", "privileged": True, "credential": "Certificate"}, "", id="a service account by certificate"),
        pytest.param({"lifetime": "5m"}, 'spec.lifetime: Invalid value: "5m": must be from 10m to 168h', id="too short"),
        pytest.param({"lifetime": "169h"}, 'spec.lifetime: Invalid value: "169h": must be from 10m to 168h', id="too long"),
        pytest.param({"lifetime": "168h"}, "", id="a week"),
    ],
)  # fmt: skip
def test_which_users_are_refused(spec: dict[str, Any], told: str) -> None:
    given = {"control_plane_name": "demo", "groups": ("developers",), **spec}
    user = ControlPlaneUser(metadata=ObjectMeta(name="alice"), spec=ControlPlaneUserSpec(**given))
    assert summary(validate_user(user)) == told


async def test_an_authority_without_a_label_that_its_user_mends_is_noticed_soon() -> None:
    async with stage() as on:
        pair = new_cluster_authority(on.clock.now(), Algorithm.EC, "mine")
        await on.client.create(
            SECRET, {"metadata": {"name": "demo-ca", "namespace": "default"}, "data": {"tls.crt": b"eA=="}}
        )
        await create(on, *COMPONENTS)
        await on.client.patch(
            NESTED_CONTROL_PLANE,
            Key("default", "demo"),
            {"spec": {"controlPlaneEndpoint": {"host": "mine.example.com", "port": 443}}},
        )
        await on.apply(CONTROL_PLANE_USER, "alice", ALICE)
        await on.clock.sleep(70)
        assert "Secret demo-ca" in (await said(on))[1]
        mended = {"tls.crt": pair.certificate.decode(), "tls.key": pair.key.decode()}
        await on.client.patch(SECRET, Key("default", "demo-ca"), {"stringData": mended})
        async with asyncio.timeout(35):
            await ready(on)
