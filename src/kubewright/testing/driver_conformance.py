"""Does a driver keep the contract? A suite that any driver's author runs with pytest.

How.      Write a ``Bench`` for your cloud, as an async context manager that cleans up after itself,
          and subclass the suite in a test module::

              class TestMyCloud(DriverConformance):
                  def bench(self):
                      return my_bench()

          with ``asyncio_mode = "auto"`` of pytest-asyncio. Each test opens a bench of its own.
Theory.   The suite says only what ``driver.contract`` says, and asks only through the port, so it
          can run against a real account. What a cloud cannot do is skipped, not failed:
          ``Unimplemented`` for optional calls, None from ``restarted``. What an update does to the tags of
          the cloud's objects the port does not say: a bench that is a ``Tagging`` shows them.
Needs     pytest, pytest-asyncio (extra ``testing``).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol, TypeVar, runtime_checkable

import pytest
from msgspec import structs

from kubewright.driver.contract import (
    ClassRequest,
    Driver,
    Instance,
    MachineRequest,
    Updates,
    Validates,
    VolumeSpec,
    stub,
)
from kubewright.driver.errors import Code, DriverError, InvalidArgument, NotFound, Unimplemented
from kubewright.driver.hot import is_mandatory

T = TypeVar("T")
TIMEOUT_SECONDS = 600.0
"""Longest that one test may take; real clouds are slow, virtual time is free."""
REPEATS = 10
"""How often an update that fails is repeated."""
Tagged = Mapping[str, Mapping[str, str]]
"""The tags of a VM and of what belongs to it, by the cloud's names of these objects."""


class Bench(Protocol):
    """One cloud to test against, emptied of what the suite made when it is left.

    ``machine_class``  a class that works.
    ``other_class``    a class whose VMs must not show up in the first one's list.
    ``broken_class``   a class with a provider spec that the driver must refuse; None: it takes all.
    """

    machine_class: ClassRequest
    other_class: ClassRequest
    broken_class: ClassRequest | None

    async def driver(self) -> Driver:
        """The driver under test."""

    async def restarted(self) -> Driver | None:
        """The driver of the next process on the same cloud; None when that cannot be had."""

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        """Some volumes, at least one of them foreign, and the ids that the driver must answer."""


@runtime_checkable
class Tagging(Protocol):
    """A bench that shows what an update does to the tags of a VM, its interfaces and disks."""

    def tagged(self, tags: Mapping[str, str], *, mandatory: bool = True) -> ClassRequest:
        """``machine_class`` with these tags for all objects that may have some, besides those by which VMs
        are found; or without those."""

    async def tags(self, provider_id: str) -> Tagged:
        """What the cloud says that its objects have."""

    async def put_tag(self, provider_id: str, key: str, value: str) -> None:
        """Put a tag on each of these objects, as a person does who uses the cloud without us."""

    async def interrupt(self) -> bool:
        """Let the next update of a VM that is made from now on fail after a part of it; False where that
        cannot be done."""


class DriverConformance(ABC):
    """The suite. Subclass it and implement ``bench``."""

    @abstractmethod
    def bench(self) -> AbstractAsyncContextManager[Bench]:
        """A fresh cloud, or a fresh corner of one."""

    # ------------------------------------------------------------ create

    async def test_create_names_the_vm_and_its_node(self) -> None:
        async with self._open() as (bench, driver):
            made = await driver.create(_request(bench.machine_class, "m1"))
            assert made.provider_id, "a VM must have a provider id: nodes and deletions go by it"
            assert made.node_name, "the node name must be known from the start"

    async def test_create_twice_answers_the_same_vm(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            first, second = await driver.create(request), await driver.create(request)
            assert (first.provider_id, first.node_name) == (second.provider_id, second.node_name)
            await _assert_only(driver, bench.machine_class, [first])

    async def test_two_creations_at_the_same_time_make_one_vm(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            answers = await asyncio.gather(
                driver.create(request), driver.create(request), return_exceptions=True
            )
            made = {answer.provider_id for answer in answers if isinstance(answer, Instance)}
            _assert_vocabulary(answers)
            made.add((await driver.create(request)).provider_id)
            assert len(made) == 1, f"one machine has got several VMs: {sorted(made)}"

    async def test_a_cancelled_creation_can_be_repeated(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            call = asyncio.ensure_future(driver.create(request))
            await asyncio.wait([call], timeout=0)
            call.cancel()
            await asyncio.wait([call])
            made = await driver.create(request)
            await _assert_only(driver, bench.machine_class, [made])

    async def test_a_creation_that_is_told_of_its_last_known_state_finds_the_same_vm(self) -> None:
        async with self._open() as (bench, driver):
            first = await driver.create(_request(bench.machine_class, "m1"))
            told = _request(bench.machine_class, "m1", state=first.last_known_state)
            assert (await driver.create(told)).provider_id == first.provider_id
            await _assert_only(driver, bench.machine_class, [first])

    async def test_machines_have_vms_of_their_own(self) -> None:
        async with self._open() as (bench, driver):
            one = await driver.create(_request(bench.machine_class, "m1"))
            two = await driver.create(_request(bench.machine_class, "m2"))
            assert one.provider_id != two.provider_id
            assert one.node_name != two.node_name

    async def test_a_broken_class_is_an_invalid_argument(self) -> None:
        async with self._open() as (bench, driver):
            if bench.broken_class is None:
                pytest.skip("this driver takes any provider spec")
            with pytest.raises(InvalidArgument) as refused:
                await driver.create(_request(bench.broken_class, "m1"))
            assert refused.value.message, "the message must say what is wrong with the class"

    async def test_a_driver_that_validates_classes_says_of_them_what_a_creation_would(self) -> None:
        async with self._open() as (bench, driver):
            if not isinstance(driver, Validates):
                pytest.skip("this driver does not validate classes")
            await _or_skip(driver.validate(bench.machine_class))
            if bench.broken_class is not None:
                with pytest.raises(InvalidArgument):
                    await driver.validate(bench.broken_class)
            with suppress(Unimplemented):
                assert not await driver.list(bench.machine_class), "to validate a class makes nothing"

    # ------------------------------------------------------------ status, initialize

    async def test_status_of_a_missing_vm_is_not_found(self) -> None:
        async with self._open() as (bench, driver):
            with pytest.raises((NotFound, Unimplemented)):
                await driver.status(_request(bench.machine_class, "missing"))

    async def test_status_knows_a_vm_by_name_and_owner_alone(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            made = await driver.create(request)
            await _initialized(driver, request)
            found = await _or_skip(driver.status(request))
            assert (found.provider_id, found.node_name) == (made.provider_id, made.node_name)

    async def test_initialize_can_be_repeated(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            made = await driver.create(request)
            first = await _or_skip(driver.initialize(request))
            second = await driver.initialize(request)
            assert first.provider_id == second.provider_id == made.provider_id

    # ------------------------------------------------------------ update

    async def test_what_can_be_updated_is_named_by_fields_of_the_provider_spec(self) -> None:
        async with self._open() as (bench, driver):
            fields = _hot_fields(driver, bench.machine_class)
            assert all(fields), "hot fields are names"
            assert list(fields) == list(_hot_fields(driver, bench.machine_class))

    async def test_an_update_of_a_missing_vm_is_not_found(self) -> None:
        async with self._open() as (bench, driver):
            asked = _request(bench.machine_class, "missing")
            with pytest.raises((NotFound, Unimplemented)):
                await _updating(driver).update(asked, None)

    async def test_an_update_to_what_a_vm_has_leaves_it_as_it_is(self) -> None:
        async with self._open() as (bench, driver):
            request = await _made(driver, bench.machine_class)
            spec = bench.machine_class.machine_class.provider_spec
            before = await bench.tags(request.provider_id) if isinstance(bench, Tagging) else {}
            for last_applied in (spec, None, spec):
                await _or_skip(_updating(driver).update(request, last_applied))
            if isinstance(bench, Tagging):
                assert await bench.tags(request.provider_id) == before
            await _assert_listed(driver, bench.machine_class, request)

    async def test_an_update_puts_changes_and_takes_off_what_the_class_says_and_nothing_else(self) -> None:
        async with self._open() as (bench, driver):
            tagging, before = _tagging(bench), bench.machine_class.machine_class.provider_spec
            request = await _made(driver, bench.machine_class)
            await tagging.put_tag(request.provider_id, "another", "hers")
            started = await tagging.tags(request.provider_id)
            for wanted in ({"one": "1", "two": "2"}, {"one": "uno"}, {}):
                now = tagging.tagged(wanted)
                for _ in range(2):  # the second time there is nothing to do
                    await _or_skip(_updating(driver).update(_again(now, request), before))
                    expected = {name: {**tags, **wanted} for name, tags in started.items()}
                    assert await tagging.tags(request.provider_id) == expected
                before = now.machine_class.provider_spec

    async def test_an_update_that_is_not_told_what_was_applied_last_takes_nothing_off(self) -> None:
        async with self._open() as (bench, driver):
            tagging = _tagging(bench)
            request = await _made(driver, tagging.tagged({"one": "1"}))
            before = await tagging.tags(request.provider_id)
            await _or_skip(_updating(driver).update(_again(tagging.tagged({"two": "2"}), request), None))
            expected = {name: {**tags, "two": "2"} for name, tags in before.items()}
            assert await tagging.tags(request.provider_id) == expected

    async def test_no_update_takes_off_the_tags_by_which_a_vm_is_found(self) -> None:
        async with self._open() as (bench, driver):
            tagging, before = _tagging(bench), bench.machine_class.machine_class.provider_spec
            request = await _made(driver, bench.machine_class)
            found_by = _mandatory(await tagging.tags(request.provider_id))
            if not any(found_by.values()):
                pytest.skip("this bench has no tags of cluster and role")
            without = _again(tagging.tagged({"one": "1"}, mandatory=False), request)
            with suppress(DriverError):
                await _or_skip(_updating(driver).update(without, before))
            assert _mandatory(await tagging.tags(request.provider_id)) == found_by
            await _assert_listed(driver, bench.machine_class, request)

    async def test_an_update_that_failed_in_the_middle_is_completed_by_the_next_one(self) -> None:
        async with self._open() as (bench, driver):
            tagging, before = _tagging(bench), bench.machine_class.machine_class.provider_spec
            if not await tagging.interrupt():
                pytest.skip("this bench lets no update fail")
            now = tagging.tagged({"one": "1"})
            request = _again(now, await _made(driver, tagging.tagged({})))
            started = await tagging.tags(request.provider_id)
            with pytest.raises(DriverError):
                await _or_skip(_updating(driver).update(request, before))
            for _ in range(REPEATS):
                with suppress(DriverError):
                    await _updating(driver).update(request, before)
                    break
            expected = {name: {**tags, "one": "1"} for name, tags in started.items()}
            assert await tagging.tags(request.provider_id) == expected

    # ------------------------------------------------------------ delete

    async def test_deleting_a_missing_vm_is_no_failure(self) -> None:
        async with self._open() as (bench, driver):
            await _deleted(driver, _request(bench.machine_class, "missing"))

    async def test_after_delete_there_is_no_vm(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            made = await driver.create(request)
            await driver.delete(_request(bench.machine_class, "m1", provider_id=made.provider_id))
            with pytest.raises((NotFound, Unimplemented)):
                await driver.status(request)
            await _assert_only(driver, bench.machine_class, [])

    async def test_delete_works_without_the_provider_id(self) -> None:
        """The controller may have died between the creation and writing down its answer."""
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            await driver.create(request)
            await driver.delete(request)
            await _assert_only(driver, bench.machine_class, [])

    async def test_delete_works_without_the_owner(self) -> None:
        """Orphans are deleted by name and provider id: their owner is not known any more."""
        async with self._open() as (bench, driver):
            made = await driver.create(_request(bench.machine_class, "m1"))
            await driver.delete(_request(bench.machine_class, "m1", "", made.provider_id))
            await _assert_only(driver, bench.machine_class, [])

    async def test_an_old_owner_cannot_delete_the_vm_of_its_namesake(self) -> None:
        """A VM that is late for its machine is deleted when a new machine may have the name."""
        async with self._open() as (bench, driver):
            old = await driver.create(_request(bench.machine_class, "m1"))
            await driver.delete(_request(bench.machine_class, "m1"))
            new = await driver.create(_request(bench.machine_class, "m1", "another-owner"))
            await _deleted(driver, _request(bench.machine_class, "m1", provider_id=old.provider_id))
            await _assert_only(driver, bench.machine_class, [new])

    @pytest.mark.parametrize("owner", ["", "uid-of-m1"], ids=["without the owner", "with its owner"])
    async def test_of_two_vms_of_a_name_only_the_one_whose_id_is_given_goes(self, owner: str) -> None:
        """The cloud may carry out two creations for one machine; machines may have the same name in turn."""
        async with self._open() as (bench, driver):
            one = await driver.create(_request(bench.machine_class, "m1"))
            try:
                two = await driver.create(_request(bench.machine_class, "m1", "another-owner"))
            except DriverError:
                return  # a cloud without two VMs of a name deletes no wrong one
            await driver.delete(_request(bench.machine_class, "m1", owner, one.provider_id))
            await _assert_only(driver, bench.machine_class, [two])

    async def test_an_id_that_no_vm_has_deletes_none(self) -> None:
        """The machine's own neither: an id means that VM and no other."""
        async with self._open() as (bench, driver):
            gone = await driver.create(_request(bench.machine_class, "m1"))
            await driver.delete(_request(bench.machine_class, "m1", provider_id=gone.provider_id))
            made = await driver.create(_request(bench.machine_class, "m1"))
            assert made.provider_id != gone.provider_id, "an id must never mean two VMs"
            await _deleted(driver, _request(bench.machine_class, "m1", provider_id=gone.provider_id))
            await _assert_only(driver, bench.machine_class, [made])

    async def test_a_cancelled_deletion_can_be_repeated(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            await driver.create(request)
            call = asyncio.ensure_future(driver.delete(request))
            await asyncio.wait([call], timeout=0)
            call.cancel()
            await asyncio.wait([call])
            await _deleted(driver, request)
            await _assert_only(driver, bench.machine_class, [])

    async def test_deleting_one_machine_spares_the_others(self) -> None:
        async with self._open() as (bench, driver):
            await driver.create(_request(bench.machine_class, "m1"))
            two = await driver.create(_request(bench.machine_class, "m2"))
            await driver.delete(_request(bench.machine_class, "m1"))
            await _assert_only(driver, bench.machine_class, [two])

    async def test_a_name_can_be_used_again(self) -> None:
        async with self._open() as (bench, driver):
            first = await driver.create(_request(bench.machine_class, "m1"))
            await driver.delete(_request(bench.machine_class, "m1"))
            again = await driver.create(_request(bench.machine_class, "m1", "another-owner"))
            assert again.provider_id != first.provider_id, "an id must never mean two VMs"

    # ------------------------------------------------------------ list, volumes

    async def test_list_has_what_exists_with_names_and_owners(self) -> None:
        async with self._open() as (bench, driver):
            made = [await driver.create(_request(bench.machine_class, f"m{number}")) for number in range(3)]
            listed = {
                instance.provider_id: instance
                for instance in await _or_skip(driver.list(bench.machine_class))
            }
            assert set(listed) == {instance.provider_id for instance in made}
            for number, instance in enumerate(made):
                assert listed[instance.provider_id].machine_name == f"m{number}"
                assert listed[instance.provider_id].owner_uid in ("", _owner(f"m{number}"))

    async def test_what_a_list_says_is_enough_to_delete(self) -> None:
        """That is how a VM without a machine goes."""
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            await driver.create(request)
            two = await driver.create(_request(bench.machine_class, "m2"))
            listed = await _or_skip(driver.list(bench.machine_class))
            one = next(instance for instance in listed if instance.machine_name == "m1")
            await driver.delete(_request(bench.machine_class, "m1", one.owner_uid, one.provider_id))
            await _assert_only(driver, bench.machine_class, [two])

    async def test_list_has_only_what_is_ours(self) -> None:
        async with self._open() as (bench, driver):
            ours = await driver.create(_request(bench.machine_class, "m1"))
            await driver.create(_request(bench.other_class, "o1"))
            await _assert_only(driver, bench.machine_class, [ours])

    async def test_volume_ids_leaves_out_foreign_volumes(self) -> None:
        """No controller of Kubewright asks for them; a driver that offers them keeps to this."""
        async with self._open() as (bench, driver):
            volumes, expected = bench.volumes()
            assert list(await _or_skip(driver.volume_ids(volumes))) == list(expected)

    # ------------------------------------------------------------ restart, errors

    async def test_the_next_process_finds_the_same_vms(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "m1")
            made = await driver.create(request)
            if (after := await bench.restarted()) is None:
                pytest.skip("this bench cannot restart")
            again = await after.create(request)
            assert (again.provider_id, again.node_name) == (made.provider_id, made.node_name)
            await _assert_only(after, bench.machine_class, [made])

    async def test_errors_are_of_the_vocabulary(self) -> None:
        async with self._open() as (bench, driver):
            request = _request(bench.machine_class, "missing")
            calls = (driver.initialize(request), driver.status(request), driver.delete(request))
            _assert_vocabulary(await asyncio.gather(*calls, return_exceptions=True))

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[Bench, Driver]]:
        async with asyncio.timeout(TIMEOUT_SECONDS), self.bench() as bench:
            yield bench, await bench.driver()


def _owner(name: str) -> str:
    return f"uid-of-{name}"


def _request(
    of: ClassRequest, name: str, owner_uid: str | None = None, provider_id: str = "", state: str = ""
) -> MachineRequest:
    """The controller's request for a machine; ``owner_uid`` None: the machine's own uid."""
    uid = _owner(name) if owner_uid is None else owner_uid
    machine = stub(name, of.machine_class.metadata.namespace, uid, provider_id=provider_id)
    status = structs.replace(machine.status, last_known_state=state)
    return of.of(structs.replace(machine, status=status))


def _again(of: ClassRequest, before: MachineRequest) -> MachineRequest:
    """The request for the same machine, by another class."""
    return of.of(before.machine)


async def _made(driver: Driver, of: ClassRequest) -> MachineRequest:
    """The request for a machine whose VM was made, initialized, and is on record."""
    request = _request(of, "m1")
    made = await driver.create(request)
    await _initialized(driver, request)
    return _request(of, "m1", provider_id=made.provider_id)


def _updating(driver: Driver) -> Updates:
    if not isinstance(driver, Updates):
        pytest.skip("this driver updates no VM in place")
    return driver


def _hot_fields(driver: Driver, of: ClassRequest) -> Sequence[str]:
    try:
        return _updating(driver).hot_fields(of.machine_class)
    except Unimplemented:
        pytest.skip("this driver does not offer the call")


def _tagging(bench: Bench) -> Tagging:
    if not isinstance(bench, Tagging):
        pytest.skip("this bench shows no tags")
    return bench


def _mandatory(tagged: Tagged) -> Tagged:
    return {name: {key: tags[key] for key in filter(is_mandatory, tags)} for name, tags in tagged.items()}


async def _or_skip(call: Awaitable[T]) -> T:
    """The answer of an optional call; a driver that does not offer it skips the test."""
    try:
        return await call
    except Unimplemented:
        pytest.skip("this driver does not offer the call")


async def _initialized(driver: Driver, request: MachineRequest) -> None:
    """A machine is initialized after its creation, where the driver offers that."""
    with suppress(Unimplemented):
        await driver.initialize(request)


async def _deleted(driver: Driver, request: MachineRequest) -> None:
    with suppress(NotFound):
        left = await driver.delete(request)
        assert left is None or isinstance(left, str), "a deletion answers a last known state, or None"


async def _assert_only(driver: Driver, machine_class: ClassRequest, expected: Sequence[Instance]) -> None:
    """The class has exactly these VMs; without ``list`` nothing is checked."""
    with suppress(Unimplemented):
        listed = {instance.provider_id for instance in await driver.list(machine_class)}
        assert listed == {instance.provider_id for instance in expected}


async def _assert_listed(driver: Driver, machine_class: ClassRequest, request: MachineRequest) -> None:
    with suppress(Unimplemented):
        listed = [each.provider_id for each in await driver.list(machine_class)]
        assert listed == [request.provider_id], "an update must not lose a VM"


def _assert_vocabulary(answers: Iterable[object]) -> None:
    for answer in answers:
        if isinstance(answer, BaseException):
            assert isinstance(answer, DriverError), f"a driver may raise only DriverError, not {answer!r}"
            assert answer.code is not Code.OK
            assert answer.message, "an error must say something to a person"
