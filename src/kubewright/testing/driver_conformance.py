"""Does a driver keep the contract? A suite that any driver's author runs with pytest.

How.      Write a ``Bench`` for your cloud, as an async context manager that cleans up after itself,
          and subclass the suite in a test module::

              class TestMyCloud(DriverConformance):
                  def bench(self):
                      return my_bench()

          with ``asyncio_mode = "auto"`` of pytest-asyncio. Each test opens a bench of its own.
Theory.   The suite says only what ``driver.contract`` says, and asks only through the port, so it
          can run against a real account. What a cloud cannot do is skipped, not failed:
          ``Unimplemented`` for optional calls, None from ``restarted``.
Needs     pytest, pytest-asyncio (extra ``testing``).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol, TypeVar

import pytest
from msgspec import structs

from kubewright.driver.contract import (
    ClassRequest,
    Driver,
    Instance,
    MachineRequest,
    Validates,
    VolumeSpec,
    stub,
)
from kubewright.driver.errors import Code, DriverError, InvalidArgument, NotFound, Unimplemented

T = TypeVar("T")
TIMEOUT_SECONDS = 600.0
"""Longest that one test may take; real clouds are slow, virtual time is free."""


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


def _assert_vocabulary(answers: Iterable[object]) -> None:
    for answer in answers:
        if isinstance(answer, BaseException):
            assert isinstance(answer, DriverError), f"a driver may raise only DriverError, not {answer!r}"
            assert answer.code is not Code.OK
            assert answer.message, "an error must say something to a person"
