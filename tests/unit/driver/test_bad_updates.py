"""The conformance suite notices a driver whose updates in place do what none may."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented
from kubewright.driver.hot import Tags, changed, changes, last_applied_tags
from kubewright.testing.driver_conformance import Bench, DriverConformance, Tagged
from kubewright.testing.scenes import class_request

FOUND_BY = {"kubernetes.io/cluster/blue": "1"}
HOT = ("tags",)


class Cloud:
    """A cloud in which all is well: a VM has tags, and so has its disk."""

    other_class = class_request("large")
    broken_class: ClassRequest | None = None

    def __init__(self) -> None:
        self.machine_class = self.tagged({})
        self.vms: dict[str, dict[str, dict[str, str]]] = {}
        self.interrupted = 0

    # ------------------------------------------------------------ as the bench

    async def driver(self) -> "Cloud":
        return self

    async def restarted(self) -> None:
        return None

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        return [], []

    def tagged(self, tags: Mapping[str, str], *, mandatory: bool = True) -> ClassRequest:
        return class_request("small", tags={**(FOUND_BY if mandatory else {}), **tags})

    async def tags(self, provider_id: str) -> Tagged:
        return {name: dict(tags) for name, tags in self.vms[provider_id].items()}

    async def put_tag(self, provider_id: str, key: str, value: str) -> None:
        for tags in self.vms[provider_id].values():
            tags[key] = value

    async def interrupt(self) -> bool:
        self.interrupted = 1
        return True

    # ------------------------------------------------------------ as the driver

    async def create(self, request: MachineRequest) -> Instance:
        tags = request.machine_class.provider_spec["tags"]
        self.vms.setdefault(f"cloud:///{request.name}", {"vm": dict(tags), "disk": dict(tags)})
        return self.instance(request.name)

    async def initialize(self, request: MachineRequest) -> Instance:
        raise Unimplemented("nothing to initialize")

    async def delete(self, request: MachineRequest) -> str | None:
        raise NotImplementedError

    async def status(self, request: MachineRequest) -> Instance:
        raise NotImplementedError

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return [
            self.instance(each.rpartition("/")[2])
            for each, objects in self.vms.items()
            if FOUND_BY.items() <= objects["vm"].items()
        ]

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return []

    def instance(self, name: str) -> Instance:
        return Instance(f"cloud:///{name}", name, name, f"uid-of-{name}")

    def hot_fields(self, _machine_class: MachineClass) -> Any:
        return HOT

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        if (objects := self.vms.get(request.provider_id)) is None:
            raise NotFound("there is no such VM")
        wanted = Tags(vm=request.machine_class.provider_spec["tags"])
        last = last_applied_tags(last_applied, ["vm"])
        for name, tags in self.order(objects).items():
            what = self.merged(last, wanted, tags)
            objects[name] = what
            if self.interrupted:
                self.interrupted -= 1
                raise DriverError.of(Code.Unavailable, "please try again")

    def order(self, objects: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        return objects

    def merged(self, last: Tags | None, wanted: Tags, tags: dict[str, str]) -> dict[str, str]:
        found = changes(last, wanted, {"it": ("vm", tags)})
        return changed(tags, found["it"]) if found else tags


class NamesNoFields(Cloud):
    def hot_fields(self, _machine_class: MachineClass) -> Any:
        return [None]


class UpdatesWhatIsNotThere(Cloud):
    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        if request.provider_id in self.vms:
            await super().update(request, last_applied)


class TakesOffForeignTags(Cloud):
    def merged(self, last: Tags | None, wanted: Tags, tags: dict[str, str]) -> dict[str, str]:
        return dict(wanted.vm)


class TakesNothingOff(Cloud):
    def merged(self, last: Tags | None, wanted: Tags, tags: dict[str, str]) -> dict[str, str]:
        return {**tags, **wanted.vm}


class TakesOffWhatItDoesNotKnow(Cloud):
    def merged(self, last: Tags | None, wanted: Tags, tags: dict[str, str]) -> dict[str, str]:
        return super().merged(Tags(vm=tags) if last is None else last, wanted, tags)


class TakesOffWhatVmsAreFoundBy(Cloud):
    def merged(self, last: Tags | None, wanted: Tags, tags: dict[str, str]) -> dict[str, str]:
        gone = {} if last is None else last.vm
        return {**{key: each for key, each in tags.items() if key not in gone}, **wanted.vm}


class CountsItsUpdates(Cloud):
    def merged(self, last: Tags | None, wanted: Tags, tags: dict[str, str]) -> dict[str, str]:
        count = str(int(tags.get("updates", "0")) + 1)
        return {**super().merged(last, wanted, tags), "updates": count}


class GoesOnFromTheFirst(Cloud):
    """It takes what the VM has for what all of its objects have."""

    def order(self, objects: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        return {} if "one" in objects["vm"] else objects


class Suite(DriverConformance):
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Bench]:
            yield self._cloud

        return opened()


UPDATES = [name for name in dir(DriverConformance) if name.startswith("test_") and "update" in name]
BAD = {
    NamesNoFields: "test_what_can_be_updated_is_named_by_fields_of_the_provider_spec",
    UpdatesWhatIsNotThere: "test_an_update_of_a_missing_vm_is_not_found",
    CountsItsUpdates: "test_an_update_to_what_a_vm_has_leaves_it_as_it_is",
    TakesOffForeignTags: "test_an_update_puts_changes_and_takes_off_what_the_class_says_and_nothing_else",
    TakesNothingOff: "test_an_update_puts_changes_and_takes_off_what_the_class_says_and_nothing_else",
    TakesOffWhatItDoesNotKnow: "test_an_update_that_is_not_told_what_was_applied_last_takes_nothing_off",
    TakesOffWhatVmsAreFoundBy: "test_no_update_takes_off_the_tags_by_which_a_vm_is_found",
    GoesOnFromTheFirst: "test_an_update_that_failed_in_the_middle_is_completed_by_the_next_one",
}


@pytest.mark.parametrize("name", UPDATES)
async def test_a_driver_that_does_what_it_should_passes(name: str) -> None:
    await getattr(Suite(Cloud()), name)()


@pytest.mark.parametrize(("bad", "name"), BAD.items(), ids=[each.__name__ for each in BAD])
async def test_one_that_does_not_is_noticed(bad: type[Cloud], name: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await getattr(Suite(bad()), name)()


def test_each_test_of_updates_has_a_driver_that_fails_it() -> None:
    assert {*BAD.values()} == {*UPDATES}
