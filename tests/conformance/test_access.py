"""The shipped roles are enough for everything that the controllers do, and have no rule that is not needed.

The controllers run as the account that ``deploy/rbac`` names, under exactly those roles, on one cluster
and on two: on a real kube-apiserver, which refuses what was not granted, and on the embedded one, where
requests and roles are compared. A role that a change made necessary, or useless, fails here.
"""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.life import whole_life

from kubewright.api.core import CRD
from kubewright.api.kinds import dynamic
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.names import FINALIZER
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET
from kubewright.base.clock import SystemClock
from kubewright.kube.client import Client
from kubewright.providers.sim import manifests
from kubewright.providers.sim.driver import OLD_KIND
from kubewright.testing.permissions import granted, missing, unused
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.sites import (
    ALWAYS_GRANTED,
    CONTROL,
    EVERYTHING,
    RBAC,
    Site,
    embedded_halves,
    embedded_site,
    eventually,
    real_cluster,
    real_halves,
    real_site,
)
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key

ROOT = Path(__file__).parents[2]
NewSite = Callable[..., AbstractAsyncContextManager[Site]]
NewHalves = Callable[[], AbstractAsyncContextManager[list[Site]]]
SERVERS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.kube, pytest.mark.looptime(False)]),
]


@pytest.fixture(params=SERVERS)
def new_site(request: pytest.FixtureRequest) -> NewSite:
    """Begins a site, with one cluster or with ``two``."""
    if request.param == "embedded":
        return embedded_site
    real_kubernetes = request.getfixturevalue("real_kubernetes")
    return partial(real_site, real_kubernetes)


@pytest.fixture(params=SERVERS)
def new_halves(request: pytest.FixtureRequest) -> NewHalves:
    """Begins a site for each half of the controllers, on one cluster."""
    if request.param == "embedded":
        return embedded_halves
    return partial(real_halves, request.getfixturevalue("real_kubernetes"))


@pytest.mark.timeout(150)
@pytest.mark.parametrize("two", [False, True], ids=["one cluster", "two clusters"])
async def test_the_shipped_roles_are_enough_and_none_is_idle(new_site: NewSite, two: bool) -> None:
    async with new_site(two=two) as site:
        async with site.at_work():
            await whole_life(site.world)
        wrong = {name: found.verdict() for name, found in site.clusters.items()}
        assert not any(any(each.values()) for each in wrong.values()), json.dumps(wrong, indent=1)
        if two:  # with --namespace, a RoleBinding there will do instead of the ClusterRoleBinding
            within = [replace(grant, namespace=site.world.namespace) for grant in site.control.grants]
            assert missing(site.control.log.needs, within) == []


@pytest.mark.timeout(150)
async def test_the_roles_of_each_half_are_enough_for_it_and_none_is_idle(new_halves: NewHalves) -> None:
    async with new_halves() as sites:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(sites[0].joining())
            for site in sites:
                await stack.enter_async_context(site.working())
            await whole_life(sites[0].world)
        wrong = {site.control.party.half: site.control.verdict() for site in sites}
        assert not any(any(each.values()) for each in wrong.values()), json.dumps(wrong, indent=1)


@pytest.mark.timeout(150)
async def test_the_component_for_migrations_is_enough_for_one_and_has_no_idle_right(
    new_site: NewSite,
) -> None:
    """The role is of AWSMachineClass; the simulated cloud's kind stands in for it."""
    text = (ROOT / "deploy/migration/rbac.yaml").read_text().replace("awsmachine", "simmachine")
    component = list(yaml.safe_load_all(text))
    async with new_site(two=False) as site, AsyncExitStack() as stack:
        world, admin, log = site.world, site.control.admin, site.control.log
        for each in (*component, *old_class(world.namespace)):
            made = dynamic(OLD_KIND) if each["kind"] == OLD_KIND.kind else MADE[each["kind"]]
            await eventually(
                world.clock, partial(stands, admin, made, each), bool, f"{each['kind']} is there"
            )
            stack.push_async_callback(gone, admin, made, each)
        log.needs.clear()
        async with site.at_work():
            spec = {"class": {"kind": OLD_KIND.kind, "name": "ancient"}}
            template = {"metadata": {"labels": {"pool": "old"}}, "spec": spec}
            await world.deploy("old", 1, template=template)
            await world.settled(1, "ancient", seconds=60)
        grants = granted(component)
        assert log.refusals == []
        assert missing(log.needs, [*site.control.grants, *grants, *ALWAYS_GRANTED]) == []
        assert unused(log.needs, grants) == []


MADE = {**RBAC, "CustomResourceDefinition": dynamic(CRD.resource)}


def old_class(namespace: str) -> list[dict[str, Any]]:
    """The definition of the simulated cloud's old kind, and a class of it."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": OLD_KIND.version, "served": True, "storage": True, "schema": anything}
    named = {"plural": OLD_KIND.plural, "kind": OLD_KIND.kind, "listKind": f"{OLD_KIND.kind}List"}
    spec = {"group": OLD_KIND.group, "scope": "Namespaced", "names": named, "versions": [version]}
    definition = {"metadata": {"name": f"{OLD_KIND.plural}.{OLD_KIND.group}"}, "spec": spec}
    reference = {"name": manifests.SECRET_NAME, "namespace": namespace}
    of_vms = {
        **manifests.machine_class("ancient", namespace, pace=0.1)["providerSpec"],
        "secretRef": reference,
    }
    metadata = {"name": "ancient", "namespace": namespace, "finalizers": [FINALIZER]}
    return [
        {"kind": "CustomResourceDefinition", **definition},
        {"kind": OLD_KIND.kind, "metadata": metadata, "spec": of_vms},
    ]


async def stands(admin: Client, kind: Any, body: dict[str, Any]) -> bool:
    """Whether the object is there now; not yet, while a server does not serve its kind."""
    with suppress(NotFound):
        await admin.create(kind, {"apiVersion": kind.resource.api_version, **body})
        return True
    return False


async def gone(admin: Client, kind: Any, body: dict[str, Any]) -> None:
    with suppress(NotFound):
        meta = body["metadata"]
        await admin.delete(kind, Key(meta.get("namespace", ""), meta["name"]))


@pytest.mark.kube
@pytest.mark.looptime(False)
async def test_references_that_hold_their_owner_are_admitted_because_of_the_finalizers_rule() -> None:
    """Where a cluster asks for it (OwnerReferencesPermissionEnforcement); most do not."""
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    options, clock = Options(fsync=False, apiserver_flags=(plugin,)), SystemClock()
    async with RealKubernetes(find(), clock, options) as real_kubernetes, AsyncExitStack() as stack:
        cluster = await real_cluster(real_kubernetes, clock, stack, CONTROL)
        admin = cluster.admin
        for crd in crds():
            await admin.create(dynamic(CRD.resource), crd)
        owner = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"replicas": 0}}
        reference = {"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "s"}
        path = MACHINE.resource.path("default")

        async def refusal() -> str:
            try:
                await cluster.account.send(
                    cluster.account.request(
                        "POST", path, json.dumps(machine).encode(), query=(("dryRun", "All"),)
                    )
                )
            except ApiError as error:
                return str(error)
            return ""

        made = await eventually(clock, lambda: created(admin, owner), bool, "the kinds are served")
        held = {**reference, "uid": made, "blockOwnerDeletion": True}
        machine = {
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m", "ownerReferences": [held]},
            "spec": {"class": {"kind": "MachineClass", "name": "small"}},
        }
        await eventually(clock, refusal, lambda said: not said, "the machine is admitted")
        role = next(each for each in EVERYTHING.manifests([CONTROL]) if each["kind"] == "ClusterRole")
        rules = [rule for rule in role["rules"] if "machinesets/finalizers" not in rule["resources"]]
        await admin.patch(RBAC["ClusterRole"], Key("", role["metadata"]["name"]), {"rules": rules})
        await eventually(
            clock, refusal, lambda said: "blockOwnerDeletion" in said, "it is refused without the rule"
        )


async def created(admin: Client, machine_set: dict[str, Any]) -> str:
    """The uid of a set; empty while its kind is not served yet."""
    try:
        return (await admin.create(MACHINE_SET, machine_set)).metadata.uid
    except NotFound:
        return ""
