"""Authorities of a control plane that runs are replaced, and at no moment does a credential fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.api.controlplanes.kit import NAMES, Stage, stage
from tests.api.controlplanes.test_whole_planes import COMPONENTS, create, whole

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_ETCD,
    NestedAPIServer,
)
from kubewright.api.core import SECRET, Secret
from kubewright.api.meta import ObjectMeta
from kubewright.kube.access import Access
from kubewright.kube.config import inline_access
from kubewright.kube.informer import Change, Informers
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import is_signed_by
from kubewright.pki.keys import Algorithm, pems
from kubewright.wire.gvk import Key

AUTHORITIES = ("demo-ca", "demo-etcd", "demo-proxy")


async def ask(on: Stage, **said: str) -> None:
    """Ask for new authorities, an hour after those that there are were made."""
    after = (on.clock.now() - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"spec": {"certificateAuthorities": {"rotateAfter": after, **said}}}
    await on.client.patch(NESTED_CONTROL_PLANE, Key("default", "demo"), body)


async def bundles(on: Stage) -> dict[str, list[bytes]]:
    return {name: pems((await on.get(SECRET, name)).data["tls.crt"]) for name in AUTHORITIES}


async def condition(on: Stage, kind: object, name: str, about: str) -> tuple[str, str, str]:
    status = await on.status(kind, name)
    found = [each for each in status.conditions if each.type == about] if status is not None else []
    return (found[0].status, found[0].reason, found[0].message) if found else ("", "", "")


class Sight:
    """What the API server presents and trusts, and what the kubeconfig does, at each change of an object."""

    def __init__(self, on: Stage, address: str) -> None:
        self.on, self.address = on, address
        self.access: Access | None = None
        self.phases: set[str] = set()
        self.presented: set[bytes] = set()
        self.bundles: set[bytes] = set()
        self.failures: list[str] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        informers = Informers(self.on.client)
        informers.get(SECRET).subscribe(self.of_secret)
        informers.get(NESTED_API_SERVER).subscribe(self.of_server)
        running = asyncio.create_task(informers.run())
        await self.on.clock.sleep(1)
        yield
        running.cancel()

    def of_secret(self, change: Change[Secret]) -> None:
        if change.key.name == "demo-kubeconfig" and (found := change.after()) is not None:
            self.access = inline_access(found.data["value"])
        self.look()

    def of_server(self, change: Change[NestedAPIServer]) -> None:
        if (found := change.after()) is not None:
            self.phases.add(found.status.phase)
        self.look()

    def look(self) -> None:
        plane = self.on.planes.find(self.address)
        if plane is None or self.access is None:
            return
        presented = plane.keys().server.certificate
        self.presented.add(presented)
        self.bundles.add(plane.authority)
        if not verifies(presented, self.access.ca):
            self.failures.append("the kubeconfig does not trust what the API server presents")
        if not verifies(self.access.certificate, plane.authority):
            self.failures.append("the API server does not trust what the kubeconfig presents")


def verifies(certificate: bytes, bundle: bytes) -> bool:
    return any(is_signed_by(certificate, each) for each in pems(bundle))


async def test_while_authorities_are_replaced_every_credential_verifies() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        before = await bundles(on)
        address = str((await on.get(NESTED_CONTROL_PLANE, "demo")).spec.control_plane_endpoint)
        await on.clock.sleep(10)
        seen = Sight(on, address)

        async def replaced() -> bool:
            now = await bundles(on)
            return all(now[name] != before[name] and len(now[name]) == 1 for name in AUTHORITIES)

        async with seen.watching():
            await ask(on)
            await on.until(replaced, 300)
        await whole(on)
        now = await bundles(on)
        assert all(not set(now[name]) & set(before[name]) for name in AUTHORITIES)
        for name in AUTHORITIES:
            assert set((await on.get(SECRET, name)).data) == {"tls.crt", "tls.key"}
        assert (seen.failures, len(seen.presented), len(seen.bundles)) == ([], 2, 4)
        assert (
            {"Ready", "RotatingCertificates"} <= seen.phases <= {"Ready", "RotatingCertificates", "Unready"}
        )
        for kind, name in ((NESTED_ETCD, "demo-etcd"), (NESTED_API_SERVER, "demo-apiserver")):
            assert (await condition(on, kind, name, "AuthoritiesRotated"))[0] == "True"
        assert (await condition(on, NESTED_CONTROL_PLANE, "demo", "RotatingCertificates"))[0] == ""
        plane = on.planes.find(address)
        assert plane is not None
        assert plane.authority.strip() == now["demo-ca"][0].strip()


async def test_a_rotation_stops_where_a_user_says_and_goes_on_when_that_changes() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        old = (await bundles(on))["demo-ca"]
        await on.clock.sleep(10)
        for stop, signs_old, count in (("Signing", True, 2), ("Dropping", False, 2), ("Never", False, 1)):
            await ask(on, stopBefore=stop) if stop == "Signing" else await on.client.patch(
                NESTED_CONTROL_PLANE,
                Key("default", "demo"),
                {"spec": {"certificateAuthorities": {"stopBefore": stop}}},
            )
            await on.clock.sleep(60)
            now = (await bundles(on))["demo-ca"]
            assert (now[0] == old[0], len(now)) == (signs_old, count)
            await whole(on)
            _, _, told = await condition(on, NESTED_CONTROL_PLANE, "demo", "RotatingCertificates")
            assert (f"stops before {stop}" in told) is (stop != "Never")


async def test_where_a_cluster_owns_the_control_plane_its_machines_are_waited_for() -> None:
    async with stage(clusters=True) as on:
        reference = {"apiVersion": "controlplane.cluster.x-k8s.io/v1alpha4", "kind": "NestedControlPlane"}
        await create(on, *COMPONENTS)
        await on.apply(CLUSTER, "demo", {"controlPlaneRef": {**reference, "name": "demo"}})
        await whole(on)
        await on.clock.sleep(60)
        await ask(on)
        await on.clock.sleep(60)
        assert len((await bundles(on))["demo-ca"]) == 2
        _, reason, told = await condition(on, NESTED_CONTROL_PLANE, "demo", "RotatingCertificates")
        assert (reason, "it stops before Signing" in told) == ("TrustingBoth", True)


async def test_a_users_authority_is_refused_and_the_others_are_replaced() -> None:
    async with stage() as on:
        pair = new_cluster_authority(on.clock.now(), Algorithm.EC, "mine")
        mine = Secret(
            metadata=ObjectMeta(name="demo-ca", namespace="default"),
            data={"tls.crt": pair.certificate, "tls.key": pair.key},
        )
        kept = await on.client.create(SECRET, mine)
        await create(on, *COMPONENTS)
        await whole(on)
        before = await bundles(on)
        await on.clock.sleep(10)
        await ask(on)

        async def refused() -> bool:
            now = await bundles(on)
            _, reason, _ = await condition(on, NESTED_API_SERVER, "demo-apiserver", "AuthoritiesRotated")
            others = [now[name] != before[name] and len(now[name]) == 1 for name in AUTHORITIES[1:]]
            return all(others) and reason == "NotOurs"

        await on.until(refused)
        assert await on.get(SECRET, "demo-ca") == kept
        await on.clock.sleep(1)  # a burst of changes is one write of the control plane's status
        _, reason, told = await condition(on, NESTED_CONTROL_PLANE, "demo", "RotatingCertificates")
        assert (reason, told.startswith("Secret demo-ca is not ours to write")) == ("NotOurs", True)
        await whole(on)


async def test_a_foreign_etcd_that_does_not_say_what_it_runs_with_is_waited_for() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        await on.clock.sleep(10)
        ours = {"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": "other"}}}
        await on.client.patch(NAMES["controllerManager"], Key("default", "demo-controllermanager"), ours)
        await ask(on)
        await on.clock.sleep(60)
        assert [len(each) for each in (await bundles(on)).values()] == [2, 1, 1]
        told = (await condition(on, NESTED_CONTROL_PLANE, "demo", "RotatingCertificates"))[2]
        assert "NestedControllerManager demo-controllermanager: another program manages it" in told


async def test_a_user_replaces_their_own_authority_by_hand_in_the_same_three_steps() -> None:
    """As docs/how-to/rotate-control-plane-certificates.md says."""
    async with stage() as on:
        old, new = (new_cluster_authority(on.clock.now(), Algorithm.EC, "mine") for _ in range(2))
        label = {"cluster.x-k8s.io/cluster-name": "demo"}
        meta = ObjectMeta(name="demo-ca", namespace="default", labels=label)
        data = {"tls.crt": old.certificate, "tls.key": old.key}
        await on.client.create(SECRET, Secret(metadata=meta, data=data))
        await create(on, *COMPONENTS)
        await whole(on)
        seen = Sight(on, str((await on.get(NESTED_CONTROL_PLANE, "demo")).spec.control_plane_endpoint))
        async with seen.watching():
            for trusted, signs in (
                (old.certificate + new.certificate, old),
                (new.certificate + old.certificate, new),
                (new.certificate, new),
            ):
                data = {"tls.crt": trusted, "tls.key": signs.key}
                body = SECRET.to_plain(Secret(metadata=meta, data=data))["data"]
                await on.client.patch(SECRET, Key("default", "demo-ca"), {"data": body})
                await on.clock.sleep(20)
                await whole(on)
        assert (seen.failures, len(seen.presented), len(seen.bundles)) == ([], 2, 4)
