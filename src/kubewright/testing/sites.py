"""Clusters where the controllers work under exactly the roles of ``deploy/rbac``; their requests are noted.

Theory.      A site has a control and a target cluster, perhaps the same one: two embedded servers, or real
             ones. In each there is our service account with the shipped roles and no others, and a
             ``PermissionLog`` between it and the controllers. The kubelets of the simulated cloud are not
             restricted: they join as the target's admin.
Invariants.  Real clusters: the account logs in with a token of its own, as a pod does; what was granted is
             taken back at the end. Embedded ones are reached in process under the account's name.
             Each half of the controllers may have an account of its own, with its roles (``Party``).
Called by    tests/conformance: test_access.py, and tests that begin with a site.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from kubewright.api import rbac as account
from kubewright.api.core import CRD, NAMESPACE
from kubewright.api.kinds import dynamic
from kubewright.api.machine import manifests
from kubewright.api.machine.manifests import crds
from kubewright.base.clock import Clock, SystemClock
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election
from kubewright.compose.preflight import Endpoint, Intent, Preflight
from kubewright.compose.worlds import kinds
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.kube import config
from kubewright.kube.access import Access, Token
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.kube.informer import Informers
from kubewright.kube.scope import Namespaces
from kubewright.kube.transport import InProcess, Transport
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.providers.sim.spec import KubeletSettings
from kubewright.runtime.lease import Timings
from kubewright.testing.permissions import Permission, PermissionLog, granted, missing, unused
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.stage import stage
from kubewright.testing.world import World, running, short_timeouts
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import Handler, Request, Response, User


@dataclass(frozen=True, slots=True)
class Party:
    """Some controllers, their account, and its roles.

    ``half`` is one of ``rbac.HALVES``; empty: both halves in one process, under the account and the roles of
    the files as they are. A half by itself has names of its own, since both are on one server.
    """

    half: str = ""

    @property
    def name(self) -> str:
        return f"{account.ACCOUNT}-{self.half}" if self.half else account.ACCOUNT

    @property
    def user(self) -> User:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.NAMESPACE}")
        who = f"system:serviceaccount:{account.NAMESPACE}:{self.name}"
        return User(who, (*groups, "system:authenticated"))

    @property
    def controllers(self) -> tuple[str, ...]:
        """As the overlays in ``deploy/beside-mcm`` choose them."""
        sets = ("machinedeployment", "machineset")
        chosen = {"sets": sets, "machines": ("*", *(f"-{each}" for each in sets))}
        return chosen.get(self.half, ("*",))

    def manifests(self, files: Iterable[str]) -> list[dict[str, Any]]:
        """The objects of some files of ``deploy/rbac``, with the rules of this party, for its account."""
        given = manifests.manifests(manifests.HALVES.get(self.half, manifests.BOTH))
        return [self._own(each) for name in files for each in given[name]]

    def _own(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self.half:
            return body
        own = deepcopy(body)
        for named in (own["metadata"], own.get("roleRef", {})):
            named["name"] = f"{body['metadata']['name']}-{self.half}"
        for subject in own.get("subjects", ()):
            subject["name"] = self.name
        return own


EVERYTHING = Party()


CONTROL, TARGET = "control.yaml", "target.yaml"
"""The files of ``deploy/rbac``."""

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = {
    kind: dynamic(Resource(RBAC_GROUP, "v1", plural, kind, namespaced=not kind.startswith("Cluster")))
    for kind, plural in (
        ("ClusterRole", "clusterroles"),
        ("ClusterRoleBinding", "clusterrolebindings"),
        ("Role", "roles"),
        ("RoleBinding", "rolebindings"),
    )
}
SERVICE_ACCOUNT = dynamic(Resource("", "v1", "serviceaccounts", "ServiceAccount"))
ORPHANS = OrphanSettings(
    period=timedelta(seconds=2), confirmation=timedelta(seconds=3), soon=timedelta(seconds=1)
)
OPTIONS = replace(short_timeouts(drain_timeout=4.0, detach_timeout=60.0), orphans=ORPHANS)
KUBELETS = KubeletSettings(lease_seconds=4)
ALWAYS_GRANTED = (Permission("authorization.k8s.io", "selfsubjectaccessreviews", "create"),)
"""What every authenticated user may ask, without a role of ours."""
TIMEOUT_SECONDS = 50.0
"""Longest wait in seconds: a real control plane has slow days."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster: its admin, a party's account, the log of what it asks for, its files of ``deploy/rbac``."""

    admin: Client
    account: Client
    log: PermissionLog
    files: tuple[str, ...]
    party: Party = EVERYTHING

    @property
    def grants(self) -> frozenset[Permission]:
        return granted(self.party.manifests(self.files))

    def verdict(self) -> dict[str, list[str]]:
        """What was wrong with the roles in the life that was seen."""
        enough = [*self.grants, *ALWAYS_GRANTED]
        return {
            "forbidden": self.log.refusals,
            "not granted": [str(each) for each in missing(self.log.needs, enough)],
            "never needed": [str(each) for each in unused(self.log.needs, self.grants)],
        }


@dataclass(frozen=True, slots=True)
class Site:
    """A control and a target cluster, perhaps the same, and a cloud with kubelets of the target's admin."""

    control: Cluster
    target: Cluster
    world: World

    @property
    def clusters(self) -> dict[str, Cluster]:
        return {"control": self.control, "target": self.target}

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """The controllers as our account, restricted to the world's namespace, and the kubelets."""
        async with self.joining(), self.working():
            yield

    @asynccontextmanager
    async def joining(self) -> AsyncIterator[None]:
        """Kubelets that join as the target's admin."""
        nodes = Informers(self.target.admin)
        kubelets = SimDriver(self.world.cloud, KUBELETS)

        async def join(stop: asyncio.Event) -> None:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(nodes.run()), group.create_task(kubelets.run(nodes))]
                await stop.wait()
                for task in tasks:
                    task.cancel()

        async with running(join):
            yield

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The party's controllers as its account, restricted to the world's namespace."""
        here = Namespaces.parsed(self.world.namespace)
        options = replace(OPTIONS, namespaces=here, controllers=self.control.party.controllers)
        election = Election(namespace=self.world.namespace, timings=Timings(6.0, 4.0, 1.0))
        driver = SimDriver(self.world.cloud, KubeletSettings(kubelets="off"))

        async def serve(stop: asyncio.Event) -> None:
            one, other = self.control.account, self.target.account
            await run_with(one, other, driver, options, election=election, stop=stop)

        control, target = (Endpoint(each.account, name, "") for name, each in self.clusters.items())
        assert await Preflight(control, target, Intent(kinds(options), self.world.namespace)).passed(
            asyncio.Event()
        )
        async with running(serve):
            yield


class As(InProcess):
    """A connection to an embedded server under the name of a user."""

    def __init__(self, handler: Handler, user: User) -> None:
        super().__init__(handler)
        self._user = user

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        return await super().request(replace(request, user=self._user), timeout=timeout)


@asynccontextmanager
async def embedded_site(*, two: bool) -> AsyncIterator[Site]:
    """Embedded servers on virtual time."""
    async with stage(OPTIONS, two=two) as scene:
        world, here, there = scene.world, scene.control.handle, scene.target.handle
        if not two:
            only = await _embedded(here, world.client, CONTROL, TARGET)
            yield Site(only, only, world)
        else:
            control = await _embedded(here, world.client, CONTROL)
            yield Site(control, await _embedded(there, world.target, TARGET), world)


@asynccontextmanager
async def embedded_halves() -> AsyncIterator[list[Site]]:
    """One embedded server, and a site for each half of the controllers."""
    async with stage(OPTIONS, two=False) as scene:
        found = []
        for party in map(Party, manifests.HALVES):
            only = await _embedded(scene.control.handle, scene.world.client, CONTROL, TARGET, party=party)
            found.append(Site(only, only, scene.world))
        yield found


async def _embedded(handler: Handler, admin: Client, *files: str, party: Party = EVERYTHING) -> Cluster:
    await _furnish(admin, party, files)
    log = PermissionLog(As(handler, party.user))
    return Cluster(admin, Client(log, admin.clock, name=party.name), log, files, party)


@asynccontextmanager
async def real_site(real_kubernetes: RealKubernetes, *, two: bool) -> AsyncIterator[Site]:
    """On one that runs; ``two``: another one is started as the target."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        if not two:
            control = target = await real_cluster(real_kubernetes, clock, stack, CONTROL, TARGET)
        else:
            control = await real_cluster(real_kubernetes, clock, stack, CONTROL)
            other = RealKubernetes(find(), clock, Options(fsync=False, node_grace_seconds=8))
            target = await real_cluster(await stack.enter_async_context(other), clock, stack, TARGET)
        yield Site(control, target, await _world(control, target, clock))


@asynccontextmanager
async def real_halves(real_kubernetes: RealKubernetes) -> AsyncIterator[list[Site]]:
    """One real Kubernetes, and a site for each half of the controllers."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        found: list[Site] = []
        for party in map(Party, manifests.HALVES):
            only = await real_cluster(real_kubernetes, clock, stack, CONTROL, TARGET, party=party)
            world = found[0].world if found else await _world(only, only, clock)
            found.append(Site(only, only, world))
        yield found


async def _world(control: Cluster, target: Cluster, clock: Clock) -> World:
    """A namespace of its own, with classes, on a control cluster that has the kinds from now on."""
    namespace = f"access-{next(_numbers)}"
    for crd in crds():
        with suppress(AlreadyExists):
            await control.admin.create(dynamic(CRD.resource), crd)
    await control.admin.create(NAMESPACE, {"metadata": {"name": namespace}})
    world = World(control.admin, Cloud(clock, Store(None)), clock, namespace, target=target.admin)
    await world.furnish()
    return world


async def real_cluster(
    real_kubernetes: RealKubernetes,
    clock: Clock,
    stack: AsyncExitStack,
    *files: str,
    party: Party = EVERYTHING,
) -> Cluster:
    """The party's account on a real Kubernetes, with the roles of ``files`` until ``stack`` is unwound."""
    admin = Client(load(real_kubernetes.kubeconfig, clock=clock), clock, name="admin")
    stack.push_async_callback(admin.transport.close)
    stack.push_async_callback(_take_back, admin, party, files)
    await _furnish(admin, party, files)
    log = PermissionLog(await _login(real_kubernetes, admin, party, clock))
    stack.push_async_callback(log.close)
    client = Client(log, clock, name=party.name)
    await _allowed(client, granted(party.manifests(files)))
    log.needs.clear()
    return Cluster(admin, client, log, files, party)


async def _furnish(admin: Client, party: Party, files: Iterable[str]) -> None:
    """The party's account and its roles."""
    with suppress(AlreadyExists):
        await admin.create(NAMESPACE, {"metadata": {"name": account.NAMESPACE}})
    with suppress(AlreadyExists):
        await admin.create(
            SERVICE_ACCOUNT, {"metadata": {"name": party.name, "namespace": account.NAMESPACE}}
        )
    for body in party.manifests(files):
        await admin.create(RBAC[body["kind"]], body, namespace=body["metadata"].get("namespace", ""))


async def _take_back(admin: Client, party: Party, files: Iterable[str]) -> None:
    for body in party.manifests(files):
        meta = body["metadata"]
        with suppress(NotFound):
            await admin.delete(RBAC[body["kind"]], Key(meta.get("namespace", ""), meta["name"]))


async def _login(real_kubernetes: RealKubernetes, admin: Client, party: Party, clock: Clock) -> Transport:
    """A connection with a token of the party's service account, as a pod has one."""
    path = f"/api/v1/namespaces/{account.NAMESPACE}/serviceaccounts/{party.name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await admin.send(admin.request("POST", path, json.dumps(body).encode()))
    token = json.loads(answer.body)["status"]["token"]
    return config.connect(
        Access(real_kubernetes.url, Token(token), (real_kubernetes.folder / "ca.crt").read_bytes()),
        clock=clock,
    )


async def _allowed(account: Client, grants: Iterable[Permission]) -> None:
    """Wait until the API server uses the roles."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for each in grants:
        resource, _, part = each.resource.partition("/")
        spec = {"group": each.group, "resource": resource, "subresource": part, "verb": each.verb}
        review = {"spec": {"resourceAttributes": {**spec, "namespace": each.namespace}}}

        async def may(body: bytes = json.dumps(review).encode()) -> bool:
            with suppress(ApiError):
                answer = await account.send(account.request("POST", path, body))
                return bool(json.loads(answer.body)["status"]["allowed"])
            return False

        await eventually(account.clock, may, bool, f"the server uses the role: {each}")


async def eventually(
    clock: Clock, ask: Callable[[], Awaitable[Any]], met: Callable[[Any], bool], what: str
) -> Any:
    """Ask until the answer is right, and return it; an assertion error after ``TIMEOUT_SECONDS`` seconds."""
    deadline = clock.monotonic() + TIMEOUT_SECONDS
    while not met(answer := await ask()):
        assert clock.monotonic() < deadline, f"not within {TIMEOUT_SECONDS:g} s: {what}; {answer}"
        await clock.sleep(0.25)
    return answer
