"""The certificates of a control plane on a server: made, kept through a year, and never those of a user."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import Component
from kubewright.api.core import SECRET, Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.apiserver.server import ApiServer
from kubewright.controlplanes.certificates.act import Destination, Maker
from kubewright.controlplanes.certificates.look import Reader
from kubewright.controlplanes.certificates.sets import Naming, wanted_by
from kubewright.controlplanes.hosting.contract import WorkloadAddresses
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess, Transport
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.credentials import Wanted, secrets_of
from kubewright.pki.facts import is_signed_by
from kubewright.pki.keyring import Plan, decide
from kubewright.pki.keys import Algorithm, read_private_key
from kubewright.runtime.credentials.contents import read_secret
from kubewright.runtime.credentials.values import Found, controlled
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Faulty
from kubewright.wire.errors import Conflict
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request

DAY = timedelta(days=1)
OWNER = OwnerReference(
    api_version="controlplane.cluster.x-k8s.io/v1alpha4",
    kind="NestedControlPlane",
    name="demo",
    uid="u1",
    controller=True,
)
DESTINATION = Destination("default", "demo", OWNER)
NAMING = Naming(
    "demo",
    "default",
    WorkloadAddresses(("127.0.0.2",), ("127.0.0.2", 6443)),
    "10.96.0.0/12",
    "cluster.local",
    ApiEndpoint(host="127.0.0.2", port=6443),
)
ROOTS = {"demo-ca", "demo-etcd", "demo-proxy", "demo-sa"}
KUBECONFIGS = {"demo-kubeconfig", "demo-controller-manager-kubeconfig"}
LEAVES = {
    *("demo-etcd-server", "demo-etcd-peer", "demo-etcd-health-client", "demo-apiserver"),
    *("demo-apiserver-etcd-client", "demo-kubelet-client", "demo-proxy-client"),
}
SIGNER = {"demo-controller-manager-signer"}


class Plane:
    """What the controllers of all three components do about certificates, at a time that a test chooses."""

    def __init__(self, transport: Transport, clock: LoopClock) -> None:
        self.transport = transport
        self.client = client = Client(transport, clock)
        self.now = clock.now()
        self.around = NAMING
        self.maker = Maker(client, Algorithm.EC)

    @property
    def wanted(self) -> list[Wanted]:
        return [each for component in Component for each in wanted_by(component, self.around)]

    async def found(self, names: Iterable[str]) -> dict[str, Found]:
        there = await self.client.list(SECRET, "default")
        return {each.name: read_secret(each) for each in there if each.name in names}

    async def keep(self, wanted: list[Wanted] | None = None) -> tuple[set[str], Plan]:
        """One pass: the Secrets that are written anew, and the plan for what is there then."""
        asked = self.wanted if wanted is None else wanted
        before = await self.found(secrets_of(asked))
        plan = decide(asked, before, controlled(before, OWNER), self.now)
        await self.maker.perform(DESTINATION, plan.steps, before, self.now)
        after = await self.found(secrets_of(asked))
        written = {name for name, each in after.items() if each.contents != _contents(before.get(name))}
        return written, decide(asked, after, controlled(after, OWNER), self.now)


def _contents(found: Found | None) -> object:
    return found.contents if found is not None else None


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    yield Plane(InProcess(server.handle), clock)
    await server.close()


async def test_all_are_made_in_one_pass_in_the_form_of_the_contract(plane: Plane) -> None:
    written, rest = await plane.keep()
    assert written == ROOTS | LEAVES | KUBECONFIGS | SIGNER
    assert (rest.steps, rest.waiting, rest.problems) == ((), (), ())
    for secret in await plane.client.list(SECRET, "default"):
        assert (secret.type, secret.metadata.labels) == (
            "cluster.x-k8s.io/secret",
            {"cluster.x-k8s.io/cluster-name": "demo"},
        )
        assert secret.metadata.controller == OWNER
        keys = {"value"} if secret.name in KUBECONFIGS else {"tls.crt", "tls.key"}
        assert set(secret.data) == keys


async def test_authorities_have_keys_as_asked_for_and_what_they_sign_has_keys_on_p_256(plane: Plane) -> None:
    plane.maker = Maker(plane.client, Algorithm.RSA)
    await plane.keep(list(wanted_by(Component.ETCD, NAMING)))
    made = {
        each.name: type(read_private_key(each.data["tls.key"]))
        for each in await plane.client.list(SECRET, "default")
    }
    assert {name for name, kind in made.items() if issubclass(kind, RSAPrivateKey)} == {"demo-etcd"}


async def test_a_deleted_leaf_is_made_again_and_nothing_else(plane: Plane) -> None:
    """E-06, the first half."""
    await plane.keep()
    await plane.client.delete(SECRET, Key("default", "demo-proxy-client"))
    written, rest = await plane.keep()
    assert (written, rest.steps) == ({"demo-proxy-client"}, ())


async def test_a_users_authority_is_used_and_stays_as_it_is(plane: Plane) -> None:
    """E-06, the second half."""
    pair = new_cluster_authority(plane.now, Algorithm.EC, "my own")
    mine = Secret(
        metadata=ObjectMeta(name="demo-ca", namespace="default"),
        type="kubernetes.io/tls",
        data={"tls.crt": pair.certificate, "tls.key": pair.key},
    )
    before = await plane.client.create(SECRET, mine)
    written, rest = await plane.keep()
    assert written == (ROOTS | LEAVES | KUBECONFIGS | SIGNER) - {"demo-ca"}
    assert (rest.steps, rest.problems) == ((), ())
    assert await plane.client.get(SECRET, Key("default", "demo-ca")) == before
    found = await plane.found(["demo-apiserver", "demo-kubelet-client", "demo-etcd-peer"])
    signed = {name for name, each in found.items() if is_signed_by(each.pair.certificate, pair.certificate)}
    assert signed == {"demo-apiserver", "demo-kubelet-client"}


async def test_in_a_year_everything_is_made_anew_in_time_and_nothing_ends(plane: Plane) -> None:
    """E-07: after 200 days the kubeconfigs, after 300 days the leaves too."""
    await plane.keep()
    plane.now += 200 * DAY
    assert (await plane.keep())[0] == KUBECONFIGS
    plane.now += 100 * DAY
    assert (await plane.keep())[0] == LEAVES
    for each in (await plane.found(LEAVES)).values():
        assert each.facts is not None
        assert each.facts.not_after > plane.now + 364 * DAY


async def test_who_looks_when_the_plan_says_finds_nothing_that_has_ended(plane: Plane) -> None:
    _, rest = await plane.keep()
    ends = plane.now + 3 * 365 * DAY
    passes = 0
    while plane.now < ends:
        assert rest.wake is not None
        plane.now += rest.wake
        found = await plane.found(LEAVES | ROOTS)
        assert all(each.facts is None or each.facts.not_after > plane.now for each in found.values())
        written, rest = await plane.keep()
        assert written
        passes += 1
    assert passes < 20


async def test_another_endpoint_changes_the_servers_names_and_all_kubeconfigs(plane: Plane) -> None:
    """E-08."""
    await plane.keep()
    plane.around = replace(NAMING, endpoint=ApiEndpoint(host="api.example", port=443))
    written, rest = await plane.keep()
    assert (written, rest.steps) == ({"demo-apiserver", *KUBECONFIGS}, ())
    found = await plane.found(["demo-apiserver", "demo-kubeconfig"])
    facts, held = found["demo-apiserver"].facts, found["demo-kubeconfig"].kubeconfig
    assert facts is not None
    assert held is not None
    assert ("api.example" in facts.names, held.server) == (True, "https://api.example:443")


async def test_what_another_writer_makes_first_stays_and_nothing_is_signed_with_ours(plane: Plane) -> None:
    """Two writers decide on the same view: the second one finds each Secret made."""
    plan = decide(plane.wanted, {}, controlled({}, OWNER), plane.now)
    await plane.maker.perform(DESTINATION, plan.steps, {}, plane.now)
    before = await plane.found(ROOTS | LEAVES | KUBECONFIGS)
    await plane.maker.perform(DESTINATION, plan.steps, {}, plane.now)
    assert await plane.found(ROOTS | LEAVES | KUBECONFIGS) == before
    assert (await plane.keep())[0] == set()


async def test_what_another_writers_authority_signs_is_not_signed_with_ours(plane: Plane) -> None:
    plan = decide(plane.wanted, {}, controlled({}, OWNER), plane.now)
    pair = new_cluster_authority(plane.now, Algorithm.EC)
    theirs = Secret(
        metadata=ObjectMeta(name="demo-ca", namespace="default"),
        data={"tls.crt": pair.certificate, "tls.key": pair.key},
    )
    await plane.client.create(SECRET, theirs)
    await plane.maker.perform(DESTINATION, plan.steps, {}, plane.now)
    of_it = {"demo-apiserver", "demo-kubelet-client", *KUBECONFIGS}
    assert set(await plane.found(LEAVES | KUBECONFIGS)) == (LEAVES | KUBECONFIGS) - of_it
    assert (await plane.keep())[0] == of_it | SIGNER


async def test_each_version_of_a_secret_is_read_once(plane: Plane) -> None:
    asked: list[str] = []
    clock = LoopClock()

    def count(request: Request) -> None:
        if request.method == "GET" and "/secrets/" in request.path:
            asked.append(request.path.rpartition("/")[2])

    informers = Informers(Client(Faulty(plane.transport, clock, count), clock))
    reader = Reader(informers)
    await plane.keep()
    running = asyncio.create_task(informers.run())
    await asyncio.sleep(1)
    first = await reader.read("default", ["demo-ca", "demo-none"])
    assert await reader.read("default", ["demo-ca", "demo-none"]) == first
    assert asked == ["demo-ca", "demo-none", "demo-none"]
    body = {"metadata": {"labels": {"a": "b"}}}
    await plane.client.patch(SECRET, Key("default", "demo-ca"), body)
    await asyncio.sleep(1)
    second = await reader.read("default", ["demo-ca"])
    assert second["demo-ca"].metadata.labels["a"] == "b"
    assert asked[3:] == ["demo-ca"]
    running.cancel()


async def test_a_secret_that_changed_since_it_was_read_is_not_written_over(plane: Plane) -> None:
    await plane.keep()
    plane.now += 300 * DAY
    before = await plane.found(secrets_of(plane.wanted))
    plan = decide(plane.wanted, before, controlled(before, OWNER), plane.now)
    mine = {"data": {"tls.crt": "bWluZQ=="}}
    for name in LEAVES:
        await plane.client.patch(SECRET, Key("default", name), mine)
    with pytest.raises(Conflict):
        await plane.maker.perform(DESTINATION, plan.steps, before, plane.now)
    after = await plane.found(LEAVES)
    assert {each.pair.certificate for each in after.values()} == {b"mine"}


async def test_with_etcd_elsewhere_what_its_authority_signs_is_waited_for(plane: Plane) -> None:
    """The contract of provisioners (A15): ``<cluster>-etcd`` without a key, and a pair for the API server."""
    pair = new_cluster_authority(plane.now, Algorithm.EC, "etcd")
    brought = ObjectMeta(name="demo-etcd", namespace="default")
    await plane.client.create(SECRET, Secret(metadata=brought, data={"tls.crt": pair.certificate}))
    wanted = list(wanted_by(Component.API_SERVER, NAMING))
    written, rest = await plane.keep(wanted)
    assert "demo-apiserver-etcd-client" not in written
    assert rest.steps == ()
    assert rest.waiting == (
        "waits for Secret demo-apiserver-etcd-client, which another program has to make: "
        "Secret demo-etcd has no tls.key",
    )
