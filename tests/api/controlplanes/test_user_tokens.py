"""Users of control planes with a token: who they are inside, what ends with their object, and when it waits."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.controlplanes import test_snapshots as snapshots
from tests.api.controlplanes.kit import NAMES, Stage, stage
from tests.api.controlplanes.test_users import ready, said
from tests.api.controlplanes.test_whole_planes import COMPONENTS, create, whole

from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE, CONTROL_PLANE_SNAPSHOT
from kubewright.api.controlplane.v1alpha4 import CONTROL_PLANE_USER, NESTED_CONTROL_PLANE
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.api.kinds import dynamic
from kubewright.compose.plane_transports import PlaneTransports
from kubewright.kube.client import Client
from kubewright.kube.config import inline_access
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key, Resource

ALICE = {"controlPlaneName": "demo", "groups": ["developers", "testers"]}
RBAC = "rbac.authorization.k8s.io"
ROLE = dynamic(Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False))
BINDING = dynamic(Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False))
ACCOUNT = dynamic(Resource("", "v1", "serviceaccounts", "ServiceAccount"))
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@asynccontextmanager
async def user_stage(**spec: Any) -> AsyncIterator[Stage]:
    """A whole control plane with the user alice, whose kubeconfig is ready."""
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        await on.apply(CONTROL_PLANE_USER, "alice", {**ALICE, **spec})
        await ready(on)
        yield on


async def kubeconfig(on: Stage, secret: str = "demo-user-alice") -> bytes:
    return (await on.get(SECRET, secret)).data["value"]


def client(on: Stage, value: bytes) -> Client:
    return Client(PlaneTransports(on.planes)(inline_access(value), on.clock), on.clock)


async def whoami(on: Stage, value: bytes, **headers: str) -> Any:
    """Name and groups of a kubeconfig's user, or the code of the refusal."""
    asking = client(on, value)
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    request = asking.request("POST", path, msgspec.json.encode(REVIEW))
    others = {name.replace("_", "-"): text for name, text in headers.items()}
    request = replace(request, headers={**request.headers, **others})
    try:
        answer = msgspec.json.decode((await asking.send(request)).body)["status"]["userInfo"]
    except ApiError as error:
        return error.code
    return answer["username"], tuple(answer["groups"])


async def administrator(on: Stage) -> Client:
    return client(on, await kubeconfig(on, "demo-kubeconfig"))


async def inside(on: Stage) -> list[str]:
    """The names of what users have in the control plane."""
    admin = await administrator(on)
    found = [
        *await admin.list(ACCOUNT, "kube-system", labels="controlplane.cluster.x-k8s.io/user"),
        *await admin.list(ROLE, labels="controlplane.cluster.x-k8s.io/user"),
        *await admin.list(BINDING, labels="controlplane.cluster.x-k8s.io/user"),
    ]
    return [each["metadata"]["name"] for each in found]


async def sleep(on: Stage, asleep: bool | None) -> None:
    await on.client.patch(NESTED_CONTROL_PLANE, Key("default", "demo"), {"spec": {"asleep": asleep}})
    await on.clock.sleep(5)


async def delete(on: Stage) -> None:
    await on.client.delete(CONTROL_PLANE_USER, Key("default", "alice"))


async def gone(on: Stage) -> None:
    async def so() -> bool:
        return await on.get(CONTROL_PLANE_USER, "alice") is None

    await on.until(so)


async def test_the_user_has_the_name_and_groups_of_the_object_and_may_do_what_roles_say() -> None:
    async with user_stage(user="alice@example", lifetime="8h") as on:
        value = await kubeconfig(on)
        groups = ("developers", "testers", "system:authenticated")
        assert await whoami(on, value) == ("alice@example", groups)
        status = await on.status(CONTROL_PLANE_USER, "alice")
        lives = status.expires_at - on.clock.now()
        assert timedelta(hours=7, minutes=58) < lives <= timedelta(hours=8)
        asking = client(on, value)
        try:
            await asking.list(CONFIG_MAP, "default")
        except ApiError as error:
            refused = (error.code, "alice@example" in str(error))
        assert refused == (403, True)
        await (await administrator(on)).create(
            BINDING,
            {
                "metadata": {"name": "developers"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "Group", "apiGroup": RBAC, "name": "developers"}],
            },
        )
        assert await asking.list(CONFIG_MAP, "default") == []


async def test_the_account_may_impersonate_no_other_user_and_no_other_group() -> None:
    async with user_stage() as on:
        bare = msgspec.yaml.decode(await kubeconfig(on))
        login = bare["users"][0]["user"]
        del login["as"], login["as-groups"]
        value = msgspec.yaml.encode(bare)
        alone = {"impersonate_user": "alice"}
        assert await whoami(on, value, **alone, impersonate_group="developers") == (
            "alice",
            ("developers", "system:authenticated"),
        )
        for others in (
            {"impersonate_user": "bob"},
            {"impersonate_user": "kubernetes-admin", "impersonate_group": "system:masters"},
            {**alone, "impersonate_group": "developers\nsystem:masters"},
            {**alone, "impersonate_uid": "1"},
            {**alone, "impersonate_extra_scopes": "all"},
        ):
            assert await whoami(on, value, **others) == 403, others


async def test_a_kubeconfig_of_one_control_plane_opens_no_other() -> None:
    async with user_stage() as on:
        await on.plane("etcd", "apiserver", plane="other")
        for name in ("etcd", "apiserver"):
            await on.apply(NAMES[name], f"other-{name}")
        await on.ready("etcd", "apiserver", plane="other")
        mine, other = [await on.get(NESTED_CONTROL_PLANE, each) for each in ("demo", "other")]
        authority = (await on.get(SECRET, "other-ca")).data["tls.crt"]
        moved = msgspec.yaml.decode(await kubeconfig(on))
        moved["clusters"][0]["cluster"] = {
            "server": f"https://{other.spec.control_plane_endpoint}",
            "certificate-authority-data": base64.b64encode(authority).decode(),
        }
        assert mine.spec.control_plane_endpoint != other.spec.control_plane_endpoint
        assert await whoami(on, msgspec.yaml.encode(moved)) == 401


async def test_every_copy_ends_with_the_object_and_nothing_of_it_is_left_inside() -> None:
    async with user_stage() as on:
        copied = await kubeconfig(on)
        assert len(await inside(on)) == 3
        await delete(on)
        await gone(on)
        assert await whoami(on, copied) == 401
        assert await inside(on) == []
        await on.apply(CONTROL_PLANE_USER, "alice", ALICE)
        await ready(on)
        assert await whoami(on, copied) == 401
        assert (await whoami(on, await kubeconfig(on)))[0] == "alice"


async def test_it_is_renewed_at_half_of_its_life_and_the_former_token_is_good_until_its_end() -> None:
    async with user_stage(lifetime="10m") as on:
        first = await kubeconfig(on)
        await on.clock.sleep(280)
        assert await kubeconfig(on) == first
        await on.clock.sleep(40)
        second = await kubeconfig(on)
        assert second != first
        assert [(await whoami(on, each))[0] for each in (first, second)] == ["alice", "alice"]
        await on.clock.sleep(290)
        assert [await whoami(on, first), (await whoami(on, await kubeconfig(on)))[0]] == [401, "alice"]


async def test_a_group_that_is_taken_away_and_a_shorter_life_count_for_copies_too() -> None:
    async with user_stage() as on:
        copied = await kubeconfig(on)
        for spec, code in (({"groups": ["developers"]}, 403), ({"lifetime": "1h"}, 401)):
            await on.client.patch(CONTROL_PLANE_USER, Key("default", "alice"), {"spec": spec})
            await on.clock.sleep(5)
            assert await whoami(on, copied) == code
            copied = await kubeconfig(on)
            assert await whoami(on, copied) == ("alice", ("developers", "system:authenticated"))
        status = await on.status(CONTROL_PLANE_USER, "alice")
        assert status.expires_at <= on.clock.now() + timedelta(hours=1)


async def test_a_secret_that_is_deleted_ends_all_copies_and_is_made_anew() -> None:
    async with user_stage() as on:
        copied = await kubeconfig(on)
        await on.client.delete(SECRET, Key("default", "demo-user-alice"))
        await on.clock.sleep(5)
        assert await whoami(on, copied) == 401
        assert (await whoami(on, await kubeconfig(on)))[0] == "alice"


async def test_what_is_deleted_inside_is_made_again_and_the_token_with_it() -> None:
    async with user_stage() as on:
        copied = await kubeconfig(on)
        admin = await administrator(on)
        await admin.delete(ACCOUNT, Key("kube-system", "kubewright-user-alice"))
        await admin.delete(BINDING, Key("", "kubewright:user:alice"))
        await on.clock.sleep(3700)
        assert await whoami(on, copied) == 401
        assert (await whoami(on, await kubeconfig(on)))[0] == "alice"


async def test_an_account_of_another_program_is_told_and_stays() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        admin, key = await administrator(on), Key("kube-system", "kubewright-user-alice")
        theirs = await admin.create(ACCOUNT, {"metadata": {"name": key.name, "namespace": key.namespace}})
        await on.apply(CONTROL_PLANE_USER, "alice", ALICE)
        await on.clock.sleep(5)
        told = "ServiceAccount kube-system/kubewright-user-alice of the control plane is not ours"
        assert await said(on) == ("False", told)
        await delete(on)
        await gone(on)
        assert await admin.get(ACCOUNT, key) == theirs


async def test_while_it_sleeps_a_deletion_waits_and_says_so_and_ends_when_it_wakes() -> None:
    async with user_stage() as on:
        copied = await kubeconfig(on)
        await sleep(on, True)
        assert (await on.status(CONTROL_PLANE_USER, "alice")).ready
        await delete(on)
        await on.clock.sleep(60)
        told = "its account cannot be deleted yet: NestedControlPlane demo sleeps"
        assert await said(on) == ("False", told)
        await sleep(on, None)
        await gone(on)
        await whole(on)
        assert (await whoami(on, copied), await inside(on)) == (401, [])


async def test_a_deletion_waits_no_longer_than_the_last_token_is_good() -> None:
    async with user_stage(lifetime="10m") as on:
        await sleep(on, True)
        await delete(on)
        await on.clock.sleep(540)
        assert await on.get(CONTROL_PLANE_USER, "alice") is not None
        await on.clock.sleep(60)
        await gone(on)


async def test_one_that_expires_while_it_sleeps_is_made_anew_when_it_wakes() -> None:
    async with user_stage(lifetime="10m") as on:
        await sleep(on, True)
        await on.clock.sleep(700)
        assert await said(on) == ("False", "half of the token's life is over; NestedControlPlane demo sleeps")
        await sleep(on, None)
        await ready(on)
        assert (await whoami(on, await kubeconfig(on)))[0] == "alice"


@pytest.mark.looptime(False)
@pytest.mark.parametrize("again", [False, True], ids=["deleted", "deleted and created again"])
async def test_a_restore_brings_no_user_back_that_was_deleted(tmp_path: Path, *, again: bool) -> None:
    async with stage(folder=tmp_path) as on:
        await create(on, *COMPONENTS)
        await whole(on)
        for name in ("alice", "bob"):
            await on.apply(CONTROL_PLANE_USER, name, ALICE)
            await ready(on, name)
        copied = await kubeconfig(on)
        await on.apply(CONTROL_PLANE_SNAPSHOT, "first", {"controlPlaneName": "demo"})
        await snapshots.is_ready(on, CONTROL_PLANE_SNAPSHOT, "first")
        await delete(on)
        await gone(on)
        if again:
            await on.apply(CONTROL_PLANE_USER, "alice", ALICE)
            await ready(on)
        await on.apply(CONTROL_PLANE_RESTORE, "back", {"snapshotName": "first"})
        await snapshots.is_ready(on, CONTROL_PLANE_RESTORE, "back")

        async def out() -> bool:
            return await whoami(on, copied) == 401

        async def in_again() -> bool:
            found = await whoami(on, await kubeconfig(on))
            return isinstance(found, tuple) and found[0] == "alice"

        await on.until(out, 20)
        if again:
            await on.until(in_again, 20)

        async def bob_is_in() -> bool:
            found = await whoami(on, await kubeconfig(on, "demo-user-bob"))
            return isinstance(found, tuple) and found[0] == "bob"

        await on.until(bob_is_in, 20)
        wanted = {"kubewright-user-bob", *(["kubewright-user-alice"] if again else [])}

        async def no_others_are_left() -> bool:
            return {each for each in await inside(on) if each.startswith("kubewright-user")} == wanted

        await on.until(no_others_are_left, 20)


async def test_a_control_plane_that_is_deleted_holds_no_user() -> None:
    async with user_stage() as on:
        await sleep(on, True)
        await on.client.delete(NESTED_CONTROL_PLANE, Key("default", "demo"))
        await delete(on)
        await gone(on)


async def test_a_user_that_asks_for_a_certificate_instead_has_nothing_inside_any_more() -> None:
    async with user_stage() as on:
        copied = await kubeconfig(on)
        body = {"spec": {"credential": "Certificate"}}
        await on.client.patch(CONTROL_PLANE_USER, Key("default", "alice"), body)
        await on.clock.sleep(5)
        await ready(on)
        assert (await whoami(on, copied), await inside(on)) == (401, [])
        assert inline_access(await kubeconfig(on)).certificate != b""
        assert (await on.get(CONTROL_PLANE_USER, "alice")).metadata.finalizers == ()
