"""Programs that divide the clusters of one API server: by a label, or by namespaces. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from kubewright.api.bootstrap import manifests as bootstrap_rbac
from kubewright.api.catalog import RULES, crds
from kubewright.api.cluster import manifests as core_rbac
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_SET
from kubewright.api.core import CRD, NAMESPACE
from kubewright.api.infra import manifests as infra_rbac
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, KUBEWRIGHT_MACHINE_TEMPLATE
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.rbac import ONE_NAMESPACE, within
from kubewright.apiserver.server import ApiServer
from kubewright.cli.run.command import leases
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.compose.worlds import chosen
from kubewright.compose.worlds import leases as of
from kubewright.kube.client import Client
from kubewright.kube.scope import Namespaces
from kubewright.kube.transport import InProcess
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.providers.sim.spec import KubeletSettings
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Faulty
from kubewright.testing.permissions import asked, granted, missing
from kubewright.testing.world import running
from kubewright.wire.gvk import Key

FILTER = "cluster.x-k8s.io/watch-filter"
CONTROLLERS = ("clusters", "bootstrap", "infra")
NOT_DIVIDED = ("/leases", "/events")


class Program:
    """A process with a cloud of its own, and what it asks of the server."""

    def __init__(self, server: ApiServer, clock: LoopClock, options: Options, names: str = "") -> None:
        """``names``: of its Leases, where neither filter nor namespace tells it from others."""
        self.cloud = Cloud(clock, Store(None))
        self._line = Faulty(InProcess(server.handle), clock, lambda _request: None)
        self._client = Client(self._line, clock)
        self._options = options
        self._driver = SimDriver(self.cloud, KubeletSettings(kubelets="off"))
        self._election = Election(
            leases=leases(names, of(chosen(options)), options.watch_filter),
            namespace=next(iter(options.namespaces.named), "default"),
        )

    async def serve(self, stop: asyncio.Event) -> None:
        control = self._client
        await run_with(control, control, self._driver, self._options, election=self._election, stop=stop)

    @property
    def vms(self) -> set[str]:
        """``cluster`` of each VM, as the machines of these tests are named after theirs."""
        return {f"{vm.namespace}/{vm.name.partition('-')[0]}" for vm in self.cloud.vms.values()}

    @property
    def needs(self) -> set[Any]:
        """What RBAC must allow the program."""
        return {need for _, request in self._line.asked for need in asked(request)}

    @property
    def written(self) -> set[str]:
        """The names of all objects that the program has tried to write, but Leases and events."""
        return {
            name
            for _, request in self._line.asked
            if request.method != "GET" and not any(each in request.path for each in NOT_DIVIDED)
            for name in _names(request.path, request.body)
        }


def _names(path: str, body: bytes) -> Iterable[str]:
    last = path.removesuffix("/status").rpartition("/")[2]
    known = msgspec.json.decode(body).get("metadata", {}).get("name") if body else None
    yield known or last


class Site:
    """One API server, and the user of its clusters."""

    def __init__(self, server: ApiServer, clock: LoopClock) -> None:
        self._server = server
        self.clock = clock
        self.user = Client(InProcess(server.handle), clock)

    @asynccontextmanager
    async def programs(self, *all_options: Options, names: str = "") -> AsyncIterator[list[Program]]:
        """Processes that run beside each other; ``names``: of the Leases of the last."""
        others, last = all_options[:-1], all_options[-1]
        found = [Program(self._server, self.clock, each) for each in others]
        found.append(Program(self._server, self.clock, last, names))
        async with AsyncExitStack() as stack:
            for each in found:
                await stack.enter_async_context(running(each.serve))
            await asyncio.sleep(1)
            yield found

    async def cluster(self, name: str, namespace: str, *, label: str = "") -> None:
        """A Cluster with two machines that have nothing to bootstrap; what a user makes is labelled."""
        labels = {FILTER: label} if label else {}
        template = {
            "clusterName": name,
            "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": ref(KUBEWRIGHT_MACHINE_TEMPLATE, name),
        }
        selector = {"matchLabels": {"cluster.x-k8s.io/cluster-name": name}}
        machines = {
            "clusterName": name,
            "replicas": 2,
            "selector": selector,
            "template": {"metadata": {"labels": selector["matchLabels"]}, "spec": template},
        }
        specs: dict[Kind[Any], dict[str, Any]] = {
            KUBEWRIGHT_CLUSTER: {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
            CLUSTER: {"infrastructureRef": ref(KUBEWRIGHT_CLUSTER, name)},
            KUBEWRIGHT_MACHINE_TEMPLATE: {"template": {"spec": {"providerSpec": {}}}},
            MACHINE_SET: machines,
        }
        for kind, spec in specs.items():
            body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
            await self.user.create(dynamic(kind.resource), body, namespace=namespace)

    async def label(self, name: str, namespace: str, value: str) -> None:
        """Give what a user has made for a cluster to the programs of this filter."""
        for kind in (KUBEWRIGHT_CLUSTER, CLUSTER, KUBEWRIGHT_MACHINE_TEMPLATE, MACHINE_SET):
            body = {"metadata": {"labels": {FILTER: value}}}
            await self.user.patch(dynamic(kind.resource), Key(namespace, name), body)

    async def phases(self) -> dict[str, list[str]]:
        """Of the machines of each cluster."""
        found: dict[str, list[str]] = {}
        for each in await self.user.list(MACHINE):
            found.setdefault(f"{each.namespace}/{each.spec.cluster_name}", []).append(each.status.phase or "")
        return found


def ref(kind: Kind[Any], name: str) -> dict[str, str]:
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


@asynccontextmanager
async def site(*namespaces: str) -> AsyncIterator[Site]:
    """An API server with all kinds and these namespaces."""
    clock = LoopClock()
    server = ApiServer(clock, admission=RULES)
    await server.start()
    try:
        found = Site(server, clock)
        for crd in crds():
            await found.user.create(CRD, crd)
        for name in namespaces:
            await found.user.create(NAMESPACE, {"metadata": {"name": name}})
        yield found
    finally:
        await server.close()


def options(namespaces: str = "", excluded: str = "", *, watch_filter: str = "") -> Options:
    found = Namespaces.parsed(namespaces, excluded)
    return Options(controllers=CONTROLLERS, namespaces=found, watch_filter=watch_filter)


UP = ["Provisioned", "Provisioned"]


async def test_programs_with_different_watch_filters_never_touch_each_others_objects() -> None:
    async with (
        site("x") as found,
        found.programs(options(watch_filter="a"), options(watch_filter="b")) as (one, other),
    ):
        for name, label in (("a", "a"), ("b", "b"), ("c", "")):
            await found.cluster(name, "x", label=label)
        await asyncio.sleep(60)

        assert await found.phases() == {"x/a": UP, "x/b": UP}
        assert (one.vms, other.vms) == ({"x/a"}, {"x/b"})
        for program, name in ((one, "a"), (other, "b")):
            assert {each.partition("-")[0] for each in program.written} == {name}
        machines = await found.user.list(MACHINE) + await found.user.list(KUBEWRIGHT_MACHINE)
        assert {(each.name[0], each.metadata.labels[FILTER]) for each in machines} == {("a", "a"), ("b", "b")}

        await found.user.delete(CLUSTER, Key("x", "a"))
        await asyncio.sleep(60)
        assert await found.phases() == {"x/b": UP}
        assert {each.partition("-")[0] for each in other.written} == {"b"}


async def test_a_cluster_is_begun_when_it_gets_the_label_and_left_when_it_gets_another() -> None:
    async with (
        site("x") as found,
        found.programs(options(watch_filter="a"), options(watch_filter="b")) as (one, other),
    ):
        await found.cluster("c", "x")
        await asyncio.sleep(30)
        assert (await found.phases(), one.written, other.written) == ({}, set(), set())

        await found.label("c", "x", "a")
        await asyncio.sleep(30)
        assert (await found.phases(), one.vms, other.written) == ({"x/c": UP}, {"x/c"}, set())

        await found.label("c", "x", "b")
        await asyncio.sleep(30)
        before = set(one.written)
        await found.user.patch(MACHINE_SET, Key("x", "c"), {"spec": {"replicas": 3}})
        await asyncio.sleep(30)
        assert (await found.phases())["x/c"] == [*UP, "Provisioned"]
        assert (one.written, len(one.cloud.vms), len(other.cloud.vms)) == (before, 2, 1)


async def test_programs_for_lists_beginnings_and_exclusions_of_namespaces_keep_to_theirs() -> None:
    there = ("east-1", "east-2", "west-1", "west-2", "rest", "kube-x")
    async with (
        site(*there) as found,
        found.programs(
            options("east-1,east-2"),
            options("west-*", "west-2"),
            options("", "east-*,west-*,kube-x"),
            names="one,two,three",
        ) as (listed, begins, without),
    ):
        for namespace in there:
            await found.cluster("c", namespace)
        await asyncio.sleep(60)

        assert set(await found.phases()) == {"east-1/c", "east-2/c", "west-1/c", "rest/c"}
        assert (listed.vms, begins.vms) == ({"east-1/c", "east-2/c"}, {"west-1/c"})
        assert without.vms == {"rest/c"}
        read = {each.namespace for each in listed.needs if each.resource != "customresourcedefinitions"}
        assert read == {"east-1", "east-2"}


async def test_the_roles_for_one_namespace_allow_all_that_a_program_in_it_asks_for() -> None:
    tables = (core_rbac.CORE, bootstrap_rbac.PROVIDER, infra_rbac.PROVIDER_RULES)
    grants = granted(role for table in tables for role in within(ONE_NAMESPACE, "r", table))
    async with site(ONE_NAMESPACE) as found, found.programs(options(ONE_NAMESPACE)) as (program,):
        await found.cluster("c", ONE_NAMESPACE)
        await asyncio.sleep(60)
        assert await found.phases() == {f"{ONE_NAMESPACE}/c": UP}
        await found.user.delete(CLUSTER, Key(ONE_NAMESPACE, "c"))
        await asyncio.sleep(60)
        assert await found.user.list(CLUSTER) == []
    assert missing(program.needs, grants) == []
    assert {each.resource for each in grants if not each.namespace} == {"customresourcedefinitions"}
