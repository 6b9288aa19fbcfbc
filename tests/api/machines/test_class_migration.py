"""Classes of old kinds become MachineClasses (``machines.migration``), and no machine is replaced for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.api.machines.test_unreadable_objects import loosen, spoil

from kubewright.api.core import CRD, EVENT
from kubewright.api.kinds import dynamic
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MachineClass,
)
from kubewright.driver.contract import OldClass
from kubewright.driver.errors import Code, DriverError
from kubewright.providers.sim import manifests
from kubewright.providers.sim.driver import OLD_KIND
from kubewright.testing.stage import Borrowed, Stage, stage
from kubewright.testing.world import Snapshot, in_phase
from kubewright.wire.errors import NotFound

OLD = dynamic(OLD_KIND)
KIND = OLD_KIND.kind
DEFINITION = {
    "metadata": {"name": f"{OLD_KIND.plural}.{OLD_KIND.group}"},
    "spec": {
        "group": OLD_KIND.group,
        "scope": "Namespaced",
        "names": {"plural": OLD_KIND.plural, "kind": KIND, "listKind": f"{KIND}List"},
        "versions": [
            {
                "name": OLD_KIND.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


class Moody(Borrowed):
    """A driver that migrates; ``failures`` are what it raises first."""

    failures: tuple[DriverError, ...] = ()

    async def generate_machine_class(self, old: OldClass) -> MachineClass:
        if self.failures:
            failure, *rest = self.failures
            self.failures = tuple(rest)
            raise failure
        return await super().generate_machine_class(old)


@asynccontextmanager
async def old_times() -> AsyncIterator[Stage]:
    """A stage with the old class ``ancient``, as MCM kept it, and no MachineClass of that name."""
    async with stage() as here:
        await here.world.client.create(CRD, DEFINITION)
        await here.clock.sleep(1)
        await make_old(here)
        yield here


async def make_old(here: Stage, name: str = "ancient", **spec: Any) -> None:
    body = manifests.machine_class(name, here.world.namespace, pace=0.1)
    reference = {"name": manifests.SECRET_NAME, "namespace": here.world.namespace}
    metadata = {"name": name, "namespace": here.world.namespace, "finalizers": [names.FINALIZER]}
    spec = {**body["providerSpec"], "secretRef": reference, **spec}
    await here.world.client.create(OLD, {"metadata": metadata, "spec": spec})


async def deploy_old(here: Stage, name: str = "workers", replicas: int = 2) -> None:
    """A deployment as the seed's walk-through writes it."""
    template = {
        "metadata": {"labels": {"pool": name}},
        "spec": {"class": {"kind": KIND, "name": "ancient"}},
    }
    await here.world.deploy(name, replicas, template=template)


async def make_machine(here: Stage, name: str, machine_class: str = "ancient") -> None:
    spec = {"class": {"kind": KIND, "name": machine_class}}
    body = {"metadata": {"name": name, "namespace": here.world.namespace}, "spec": spec}
    await here.world.client.create(MACHINE, body)


async def kinds_of(here: Stage) -> set[str]:
    """The kinds that all references of all machines, sets and deployments name."""
    client, namespace = here.world.client, here.world.namespace
    machines = await client.list(MACHINE, namespace)
    templates = [
        each.spec.template
        for kind in (MACHINE_SET, MACHINE_DEPLOYMENT)
        for each in await client.list(kind, namespace)
    ]
    references = [*(m.spec.machine_class for m in machines), *(t.spec.machine_class for t in templates)]
    return {each.kind for each in references}


async def old_metadata(here: Stage, name: str = "ancient") -> dict[str, Any]:
    found: dict[str, Any] = (await here.world.client.get(OLD, here.world.key(name)))["metadata"]
    return found


async def is_migrated(here: Stage, name: str = "ancient") -> bool:
    metadata = await old_metadata(here, name)
    marked = metadata.get("annotations", {}).get("machine.sapcloud.io/migrated")
    return marked == f"machine-controller-{KIND}" and not metadata.get("finalizers")


async def until_migrated(here: Stage) -> None:
    deadline = here.clock.monotonic() + 30
    while not await is_migrated(here):
        assert here.clock.monotonic() < deadline, "not migrated within 30 s"
        await here.clock.sleep(0.1)


async def test_manifests_of_the_seed_work_with_a_driver_that_migrates_their_class() -> None:
    async with old_times() as here, here.process():
        await deploy_old(here)
        await make_machine(here, "alone")
        await here.world.settled(3, "ancient")
        await until_migrated(here)
        made = await here.world.client.get(MACHINE_CLASS, here.world.key("ancient"))
        assert made.provider == "sim"
        assert made.secret_ref is not None
        assert made.secret_ref.name == manifests.SECRET_NAME
        assert "secretRef" not in made.provider_spec
        assert made.metadata.annotations == {names.MIGRATED_FROM_ANNOTATION: KIND}
        assert await kinds_of(here) == {"MachineClass"}
        await here.world.client.delete(OLD, here.world.key("ancient"))
        with pytest.raises(NotFound):
            await old_metadata(here)
        await here.world.settled(3, "ancient")


async def as_mcm_left_it(here: Stage) -> Snapshot:
    """Running machines of an old class, with their set and deployment; no controller runs."""
    body = manifests.machine_class("ancient", here.world.namespace, pace=0.1)
    client = here.world.client
    await client.create(MACHINE_CLASS, body)
    async with here.process():
        await here.world.deploy("workers", 2, "ancient")
        await here.world.make("alone", "ancient")
        before = await here.world.settled(3)
    await client.patch(MACHINE_CLASS, here.world.key("ancient"), {"metadata": {"finalizers": None}})
    await client.delete(MACHINE_CLASS, here.world.key("ancient"))
    for kind in (MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE):
        for each in await client.list(kind, here.world.namespace):
            await point(here, kind, each.metadata.name, KIND)
    return before


async def point(here: Stage, kind: Any, name: str, class_kind: str) -> None:
    spec: dict[str, Any] = {"spec": {"class": {"kind": class_kind}}}
    patch = spec if kind is MACHINE else {"spec": {"template": spec}}
    await here.world.client.patch(kind, here.world.key(name), patch)


async def made_already(here: Stage) -> None:
    body = manifests.machine_class("ancient", here.world.namespace, pace=0.1)
    body["metadata"]["annotations"] = {names.MIGRATED_FROM_ANNOTATION: KIND}
    await here.world.client.create(MACHINE_CLASS, body)


LEFT_AT = {
    "nothing was done": (),
    "the class was made": (None,),
    "the deployment refers to it": (None, MACHINE_DEPLOYMENT),
    "its sets do, too": (None, MACHINE_DEPLOYMENT, MACHINE_SET),
    "all but the mark was done": (None, MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE),
}


@pytest.mark.parametrize("done", LEFT_AT.values(), ids=LEFT_AT)
async def test_a_migration_goes_on_where_a_crash_left_it_and_no_machine_is_replaced(
    done: tuple[Any, ...],
) -> None:
    async with old_times() as here:
        before = await as_mcm_left_it(here)
        for step in done:
            if step is None:
                await made_already(here)
            else:
                for each in await here.world.client.list(step, here.world.namespace):
                    if each.metadata.name != "alone":  # what a crash left of the last step
                        await point(here, step, each.metadata.name, "MachineClass")
        async with here.process():
            await until_migrated(here)
            await here.clock.sleep(20)
            after = await here.world.settled(3, "ancient")
            assert after.uids == before.uids
            assert {m.spec.provider_id for m in after.machines} == {
                m.spec.provider_id for m in before.machines
            }
            assert await kinds_of(here) == {"MachineClass"}
            assert len(await here.world.client.list(MACHINE_SET, here.world.namespace)) == 1


async def test_a_migration_that_fails_with_internal_is_tried_again_and_told() -> None:
    async with old_times() as here:
        driver = Moody(here.cloud)
        driver.failures = (DriverError.of(Code.Internal, "its books are burnt"),) * 2
        async with here.process(driver):
            await make_machine(here, "alone")
            await here.world.settled(1, "ancient", seconds=900)
            told = [
                each.message for each in await here.world.events("alone") if each.reason == "FailedMigration"
            ]
            assert told
            assert "its books are burnt" in told[0]


async def test_an_old_class_that_the_driver_does_not_understand_is_told_and_migrated_when_it_is_mended() -> (
    None
):
    async with old_times() as here, here.process():
        await make_old(here, "broken", bootSeconds="soon")
        await make_machine(here, "alone", "broken")
        sight = await here.world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it waits")
        await here.clock.sleep(5)
        sight = await here.world.look()
        assert "broken" in sight.machines[0].status.last_operation.description
        assert "FailedMigration" in await here.world.warnings()
        await here.world.client.patch(OLD, here.world.key("broken"), {"spec": {"bootSeconds": None}})
        await here.world.settled(1, "broken", seconds=180)


async def test_the_status_of_a_machine_follows_what_stands_in_the_way_of_its_class() -> None:
    async with old_times() as here, here.process():
        await make_machine(here, "alone", "late")
        await here.world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it waits")
        await make_old(here, "late", bootSeconds="soon")
        await here.clock.sleep(70)
        [machine] = (await here.world.look()).machines
        assert "bootSeconds" in machine.status.last_operation.description


async def test_a_machine_whose_class_can_be_migrated_is_never_told_to_be_wrong() -> None:
    async with old_times() as here, here.process():
        await deploy_old(here, replicas=1)
        await here.world.settled(1, "ancient")
        told = {each.reason for each in await here.world.client.list(EVENT, here.world.namespace)}
        assert "Migrated" in told
        assert not told & {"FailedValidation", "FailedMigration"}


async def test_a_machine_class_that_says_something_else_is_not_overwritten_until_a_user_says_so() -> None:
    async with old_times() as here, here.process():
        body = manifests.machine_class("ancient", here.world.namespace, pace=0.2)
        await here.world.client.create(MACHINE_CLASS, body)
        await make_machine(here, "alone")
        await here.world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it waits")
        await here.clock.sleep(5)
        [told] = [each for each in await here.world.events("alone") if each.reason == "FailedMigration"]
        assert "says something else" in told.message
        mark = {"metadata": {"annotations": {names.MIGRATED_FROM_ANNOTATION: KIND}}}
        found = await here.world.client.patch(MACHINE_CLASS, here.world.key("ancient"), mark)
        assert found.provider_spec == body["providerSpec"]
        await here.world.settled(1, "ancient", seconds=180)


async def test_an_old_manifest_that_is_applied_again_follows_the_class_as_users_keep_it() -> None:
    async with old_times() as here, here.process():
        await deploy_old(here, replicas=1)
        before = await here.world.settled(1, "ancient")
        await until_migrated(here)
        kept = {"providerSpec": {"cpu": "4"}}
        await here.world.client.patch(MACHINE_CLASS, here.world.key("ancient"), kept)
        await here.world.client.patch(OLD, here.world.key("ancient"), {"spec": {"cpu": "16"}})
        await point(here, MACHINE_DEPLOYMENT, "workers", KIND)
        await here.clock.sleep(10)
        assert await kinds_of(here) == {"MachineClass"}
        found = await here.world.client.get(MACHINE_CLASS, here.world.key("ancient"))
        assert found.provider_spec["cpu"] == "4"
        assert (await here.world.settled(1)).uids == before.uids


async def test_a_machine_whose_old_class_is_not_there_says_so_and_can_be_deleted() -> None:
    async with old_times() as here, here.process():
        await make_machine(here, "alone", "never")
        await here.clock.sleep(5)
        [machine] = (await here.world.look()).machines
        assert 'SimMachineClass "never" not found' in machine.status.last_operation.description
        assert "FailedMigration" in {each.reason for each in await here.world.client.list(EVENT, "")}
        await here.world.unmake("alone")
        await here.world.settled(0)


async def test_a_machine_class_that_cannot_be_read_is_told_and_followed_once_it_can() -> None:
    async with old_times() as here, here.process():
        await loosen(here.world, MACHINE_CLASS)
        body = manifests.machine_class("ancient", here.world.namespace, pace=0.1)
        body["metadata"]["annotations"] = {names.MIGRATED_FROM_ANNOTATION: KIND}
        plain = dynamic(MACHINE_CLASS.resource)
        await here.world.client.create(plain, {**body, "credentialsSecretRef": 5})
        await make_machine(here, "alone")
        await here.world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it waits")
        [told] = [each for each in await here.world.events("alone") if each.reason == "FailedMigration"]
        assert (
            'MachineClass "ancient" is unreadable: cannot read MachineClass: credentialsSecretRef'
            in told.message
        )
        await here.world.client.patch(plain, here.world.key("ancient"), {"credentialsSecretRef": None})
        await here.world.settled(1, "ancient", seconds=30)


async def test_a_deployment_that_cannot_be_read_holds_up_no_set_and_no_machine_of_it() -> None:
    async with old_times() as here:
        before = await as_mcm_left_it(here)
        await loosen(here.world, MACHINE_DEPLOYMENT)
        await spoil(here.world, MACHINE_DEPLOYMENT, "workers", {"minReadySeconds": "soon"})
        async with here.process():
            await until_migrated(here)
            await here.clock.sleep(5)
            after = await here.world.look()
            assert after.uids == before.uids
            assert {each.spec.machine_class.kind for each in after.machines} == {"MachineClass"}


async def test_a_driver_that_says_unimplemented_is_not_asked_again_until_something_changes() -> None:
    async with old_times() as here:
        driver = Moody(here.cloud)
        driver.failures = (DriverError.of(Code.Unimplemented, "not for these"),)
        async with here.process(driver):
            await make_machine(here, "alone")
            await here.clock.sleep(600)
            [machine] = (await here.world.look()).machines
            assert machine.spec.machine_class.kind == KIND
            assert "not for these" in machine.status.last_operation.description
            await make_machine(here, "another")
            await here.world.settled(2, "ancient", seconds=60)
