"""A version of a control plane reaches its components one after another, or none of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.api.controlplanes.doubles import DoubleHost
from tests.api.controlplanes.kit import NAMES, Stage, stage

from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.api.core import EVENT
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.wire.gvk import Key

COMPONENTS = ("etcd", "apiserver", "controllerManager")
OLD = [("etcd", "3.6.6"), ("apiserver", "1.35.4"), ("controller-manager", "1.35.4")]
NEW = [("etcd", "3.6.8"), ("apiserver", "1.36.3"), ("controller-manager", "1.36.3")]


@asynccontextmanager
async def running(version: str) -> AsyncIterator[tuple[Stage, DoubleHost]]:
    """A control plane of this version, ready."""
    host = DoubleHost()
    async with stage(Hosts(programs=host)) as on:
        await on.plane(*COMPONENTS)
        await become(on, version)
        for each in COMPONENTS:
            await on.apply(NAMES[each], f"demo-{each.lower()}")
        await has(on, f"v{version}")
        yield on, host
        await on.client.delete(NESTED_CONTROL_PLANE, Key("default", "demo"))

        async def gone() -> bool:
            return await on.get(NESTED_CONTROL_PLANE, "demo") is None

        await on.until(gone)


async def become(on: Stage, version: str) -> None:
    body = {"spec": {"version": version}}
    await on.client.patch(NESTED_CONTROL_PLANE, Key("default", "demo"), body)


async def has(on: Stage, version: str) -> None:
    """Wait until the control plane is ready with this version, and all of it is as its spec says."""

    async def so() -> bool:
        status = await on.status(NESTED_CONTROL_PLANE, "demo")
        late = [each for each in status.conditions if each.type == "UpToDate" and each.status != "True"]
        return bool(status.ready and not late and status.version == version)

    await on.until(so)


async def told(on: Stage, message: str) -> None:
    """Wait until the control plane says why it is not as its spec says, and an event says so too."""

    async def so() -> bool:
        status = await on.status(NESTED_CONTROL_PLANE, "demo")
        said = [each.message for each in status.conditions if each.type == "UpToDate"]
        events = [each.message for each in await on.client.list(EVENT, "default")]
        return any(message in each for each in said) and any(message in each for each in events)

    await on.until(so)


async def test_a_new_version_reaches_etcd_then_the_api_server_then_the_controller_manager() -> None:
    async with running("1.35.4") as (on, host):
        assert host.journal == OLD
        await become(on, "v1.36.3")
        await has(on, "v1.36.3")
        assert host.journal == [*OLD, *NEW]


async def test_each_waits_until_the_one_before_is_ready_with_its_version() -> None:
    async with running("1.35.4") as (on, host):
        host.sick = {"1.36.3"}
        await become(on, "1.36.3")

        async def waits() -> bool:
            status = await on.status(NESTED_CONTROLLER_MANAGER, "demo-controllermanager")
            return any(
                "NestedAPIServer demo-apiserver is not ready" in each.message for each in status.conditions
            )

        await on.until(waits)
        assert host.journal == [*OLD, *NEW[:2]]


async def test_an_upgrade_that_does_not_become_ready_is_taken_back() -> None:
    async with running("1.35.4") as (on, host):
        host.sick = {"1.36.3"}
        await become(on, "1.36.3")

        async def broken() -> bool:
            ready = (await on.status(NESTED_CONTROL_PLANE, "demo")).ready
            return host.journal[-1] == ("apiserver", "1.36.3") and not ready

        await on.until(broken)
        await become(on, "1.35.4")
        await has(on, "v1.35.4")
        assert (await on.status(NESTED_ETCD, "demo-etcd")).version == "3.6.6"


async def test_a_step_back_is_refused_for_all_and_mending_the_version_is_enough() -> None:
    async with running("1.36.3") as (on, host):
        await become(on, "1.35.4")
        await told(on, "NestedControlPlane demo: it has version 1.36.3 and cannot become 1.35.4")
        assert (await on.status(NESTED_CONTROL_PLANE, "demo")).ready, "what runs goes on"
        assert host.journal == NEW
        await become(on, "1.36.3")
        await has(on, "v1.36.3")
        assert host.journal == NEW


async def test_a_component_may_have_a_version_of_its_own_within_what_its_neighbours_allow() -> None:
    async with running("1.35.4") as (on, host):
        key = Key("default", "demo-controllermanager")
        await on.client.patch(NESTED_CONTROLLER_MANAGER, key, {"spec": {"version": "1.36.3"}})
        await told(on, "version 1.36.3 is newer than 1.35.4 of NestedAPIServer demo-apiserver")
        server = Key("default", "demo-apiserver")
        await on.client.patch(NESTED_API_SERVER, server, {"spec": {"version": "1.36.3"}})
        await has(on, "v1.36.3")
        assert host.journal == [*OLD, *NEW[1:]]
