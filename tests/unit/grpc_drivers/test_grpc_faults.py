"""Drivers that die, lie, flood and sleep: each is told, bounded, and nothing is lost. On virtual time."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from kubewright.driver.contract import Instance, MachineRequest, VolumeSpec, stub
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented
from kubewright.driver.guard import DriverMetrics, GuardedDriver
from kubewright.driver.registry import Settings
from kubewright.providers.grpc.client import DriverOffer
from kubewright.providers.grpc.connection import Why
from kubewright.providers.grpc.messages import (
    Created,
    Deleted,
    DriverSide,
    Failure,
    Listed,
    ListedVm,
    Registration,
    Status,
    Updated,
    VolumeIds,
    encode,
)
from kubewright.providers.grpc.operations import HUNG_SECONDS, STRAY
from kubewright.providers.sim import driver as make_sim
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request

from .pipes import ByHand, Manager, Pipe

OF_2018 = Registration("externalDriver", "machine.sapcloud.io", "MachineClass", "v1alpha1")
WHOLE = Registration(
    "externalDriver",
    "machine.sapcloud.io",
    "MachineClass",
    "v1alpha1",
    ("create", "delete", "list", "status"),
    9,
)
UPDATES = structs.replace(WHOLE, operations=("create", "update"))
CLASS = class_request("small", provider="")
VM = Created(provider_id="aws:///eu/i-1", node_name="n1")


def of(name: str = "m1", provider_id: str = "") -> MachineRequest:
    return CLASS.of(stub(name, "ns", f"uid-{name}", provider_id=provider_id))


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    found = Manager()
    yield found
    await found.close()


async def failing(call: "asyncio.Task[object]") -> DriverError:
    with pytest.raises(DriverError) as failed:
        await call
    return failed.value


async def dialled(manager: Manager, registration: Registration = OF_2018) -> ByHand:
    driver = ByHand(registration)
    await manager.dialled(driver)
    return driver


# ---------------------------------------------------------------- a stream that ends


async def test_without_a_driver_nothing_was_begun_and_the_awaited_one_is_named(manager: Manager) -> None:
    await manager.dialled(ByHand(Registration("gcp", *OF_2018_KIND)))
    with pytest.raises(
        DriverError, match=r"class small has provider 'aws'.*connected: driver 'gcp'"
    ) as missing:
        await manager.driver.create(class_request("small", provider="aws").of(stub("m1", "ns")))
    assert (missing.value.code, missing.value.meaning.nothing_done) == (Code.Unavailable, True)


OF_2018_KIND = ("machine.sapcloud.io", "MachineClass", "v1alpha1")


async def test_a_stream_that_ends_leaves_a_doubt_where_something_was_sent_and_none_where_not(
    manager: Manager,
) -> None:
    driver = await dialled(manager)
    one, two = (asyncio.create_task(manager.driver.create(of(name))) for name in ("m1", "m2"))
    await driver.asked.get()
    driver.stream.cut()
    errors = [await failing(one), await failing(two)]
    assert [each.code for each in errors] == [Code.Unavailable, Code.Unavailable]
    assert [each.meaning.nothing_done for each in errors] == [False, True]


@pytest.mark.parametrize("after", range(4))
async def test_wherever_a_stream_ends_the_next_one_works(manager: Manager, after: int) -> None:
    """Before the registration, after it, while a creation is under way, after its answer."""

    async def dying(stream: Pipe) -> None:
        if after:
            await stream.read()
            await stream.write(encode(DriverSide(1, "register", OF_2018)))
        if after > 1:
            await stream.read()
        if after > 2:
            await stream.write(encode(DriverSide(1, "create", VM)))
            await asyncio.sleep(0.001)
        stream.cut()

    await manager.dialled(dying)
    call = asyncio.create_task(manager.driver.create(of()))
    await asyncio.wait([call])
    error = call.exception()
    assert (error is None) == (after == 3)
    assert error is None or (isinstance(error, DriverError) and error.begun == (after == 2))
    await asyncio.sleep(0.01)
    driver = await dialled(manager)
    again = asyncio.create_task(manager.driver.create(of()))
    await driver.say(await driver.asked.get(), VM)
    assert (await again).provider_id == VM.provider_id


async def test_a_driver_that_says_goodbye_may_come_again_at_once(manager: Manager) -> None:
    driver = await dialled(manager)
    await driver.stream.write(encode(DriverSide(operation_type="unregister")))
    await asyncio.sleep(0.01)
    with pytest.raises(DriverError, match="no driver for it is connected"):
        await manager.driver.list(CLASS)
    again = await dialled(manager)
    call = asyncio.create_task(manager.driver.list(CLASS))
    await again.say(await again.asked.get(), Listed())
    assert await call == []


async def test_several_drivers_get_the_classes_of_their_names(manager: Manager) -> None:
    drivers = {
        "aws": await dialled(
            manager, Registration("externalDriver", "machine.sapcloud.io", "AWSMachineClass", "v1")
        ),
        "gcp": await dialled(manager, Registration("gcp", *OF_2018_KIND)),
        "": await dialled(manager),
    }
    for provider, driver in drivers.items():
        call = asyncio.create_task(manager.driver.list(class_request("small", provider=provider)))
        await driver.say(await driver.asked.get(), Listed())
        assert await call == []


async def test_calls_are_counted_by_the_driver_that_carried_them_out(manager: Manager) -> None:
    registry = CollectorRegistry()
    guarded = GuardedDriver(manager.driver, LoopClock(), on_end=DriverMetrics(registry).of("grpc"))
    aws = await dialled(
        manager, Registration("externalDriver", "machine.sapcloud.io", "AWSMachineClass", "v1")
    )
    gcp = await dialled(manager, Registration("gcp", *OF_2018_KIND))
    call = asyncio.create_task(guarded.list(class_request("small", provider="gcp")))
    await gcp.say(await gcp.asked.get(), Listed(error="no"))
    await failing(call)
    call = asyncio.create_task(guarded.list(class_request("small", provider="AWS")))
    await aws.say(await aws.asked.get(), Listed(error="no"))
    await failing(call)
    with pytest.raises(DriverError):
        await guarded.list(class_request("small", provider="nonsense of a user"))
    failed = "mcm_cloud_api_driver_requests_failed_total"
    for provider in ("gcp", "AWSMachineClass"):
        by = {"operation": "list", "error_code": "Unknown", "provider": provider}
        assert registry.get_sample_value(failed, by) == 1
    by = {"operation": "list", "error_code": "Unavailable", "provider": "grpc"}
    assert registry.get_sample_value(failed, by) == 1


async def test_leadership_that_moves_in_the_middle_of_a_creation_leaves_one_vm(manager: Manager) -> None:
    """The old leader ends its streams; the driver dials the new one, which asks again."""
    clock, slow = LoopClock(), class_request("small", tags={"a": "b"}, createSeconds=40)
    cloud = make_sim(Settings(clock))
    request = slow.of(stub("m1", "ns", "uid-m1"))
    await manager.dialled(DriverOffer(cloud, clock, "sim"))
    call = asyncio.create_task(manager.driver.create(request))
    await asyncio.sleep(20)
    await manager.close()
    error = await failing(call)
    assert (error.code, error.meaning.nothing_done) == (Code.Unavailable, False)
    leader = Manager()
    await leader.dialled(DriverOffer(cloud, clock, "sim"))
    made = await leader.driver.create(request)
    assert [each.provider_id for each in await leader.driver.list(slow)] == [made.provider_id]
    await leader.close()
    await cloud.close()


# ---------------------------------------------------------------- answers that are none


@pytest.mark.parametrize(
    ("response", "code", "text"),
    [
        (None, Code.Unimplemented, "does not know the operation create"),
        (Deleted(), Code.Internal, "the response Deleted"),
        (Created(node_name="n"), Code.Internal, "without a provider id"),
        (Created(provider_id="p"), Code.Internal, "without a node name"),
        (Created(error="it broke"), Code.Unknown, "it broke"),
        (
            Created(error="machine codes error: code = [ResourceExhausted] message = [no m5.large\nin eu]"),
            Code.ResourceExhausted,
            "no m5.large\nin eu",
        ),
        (
            Created(error="machine codes error: code = [Resource Exhausted] message = [x]"),
            Code.ResourceExhausted,
            "x",
        ),
        (Created(error="machine codes error: code = [OK] message = [x]"), Code.Unknown, "x"),
        (Created(error="machine codes error: code = [Nonsense] message = [x]"), Code.Unknown, "x"),
        (Created(error="quota", error_code=8), Code.ResourceExhausted, "quota"),
        (Created(error_code=99), Code.Unknown, "does not say why"),
    ],
)
async def test_an_answer_that_names_no_vm_is_an_error_of_the_vocabulary(
    manager: Manager, response: Failure | None, code: Code, text: str
) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.create(of()))
    await driver.say(await driver.asked.get(), response)
    error = await failing(call)
    assert error.code is code
    assert text in error.message


async def test_answers_to_other_operations_change_nothing_and_a_flood_of_them_ends_the_stream(
    manager: Manager,
) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.create(of()))
    asked = await driver.asked.get()
    for number in range(STRAY - 1):
        await driver.stream.write(encode(DriverSide(1000 + number, "create", Created(provider_id="theirs"))))
    await driver.say(asked, VM)
    assert (await call).provider_id == VM.provider_id
    await driver.say(asked, Created(provider_id="a second answer", node_name="n"))
    await asyncio.sleep(0.01)
    assert "answers to operations that were not asked" in manager.refusals[0].message


async def test_an_answer_for_the_operation_of_another_driver_is_none(manager: Manager) -> None:
    """Ids begin with 1 on each stream: the one that answers was asked nothing."""
    asked, lying = await dialled(manager), await dialled(manager, Registration("gcp", *OF_2018_KIND))
    call = asyncio.create_task(manager.driver.create(of()))
    message = await asked.asked.get()
    await lying.say(message, Created(provider_id="theirs", node_name="n"))
    await asyncio.sleep(1)
    assert not call.done()
    await asked.say(message, VM)
    assert (await call).provider_id == VM.provider_id


async def test_bytes_that_are_no_message_end_the_stream_with_a_doubt(manager: Manager) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.create(of()))
    await driver.asked.get()
    await driver.stream.write(b"\xff\xff")
    error = await failing(call)
    assert (error.code, error.meaning.nothing_done) == (Code.Unavailable, False)
    await asyncio.sleep(0.01)
    assert manager.refusals[0].why is Why.INVALID


# ---------------------------------------------------------------- answers that are late


async def test_a_creation_that_was_answered_late_is_found_by_the_next_try(manager: Manager) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.create(of()))
    asked = await driver.asked.get()
    assert (await failing(call)).code is Code.DeadlineExceeded
    await driver.say(asked, VM)
    again = await manager.driver.create(of())
    assert again.provider_id == VM.provider_id
    assert driver.asked.empty(), "it was not asked twice"


async def test_a_deletion_that_was_answered_late_is_over_at_the_next_try(manager: Manager) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.delete(of(provider_id="p")))
    asked = await driver.asked.get()
    assert (await failing(call)).code is Code.DeadlineExceeded
    again = asyncio.create_task(manager.driver.delete(of(provider_id="p")))
    await asyncio.sleep(1)
    await driver.say(asked, Deleted())
    assert await again is None
    assert driver.asked.empty()


async def test_a_driver_that_hangs_is_sent_away_and_may_dial_again(manager: Manager) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.create(of()))
    await driver.asked.get()
    await failing(call)
    await asyncio.sleep(HUNG_SECONDS)
    assert [each.why for each in manager.refusals] == [Why.HUNG]
    assert "create (operationID 1) was not answered within 900 s" in manager.refusals[0].message
    await dialled(manager)


async def test_fifty_creations_of_thirty_seconds_each_all_succeed_one_after_the_other(
    manager: Manager,
) -> None:
    """By a driver of 2018: no creation fails by waiting for others, and each is carried out once."""
    driver = await dialled(manager)
    made: list[str] = []

    async def cloud() -> None:
        while True:
            asked = await driver.asked.get()
            assert asked.params is not None
            await asyncio.sleep(30)
            made.append(asked.params.machine_name)
            name = asked.params.machine_name
            await driver.say(asked, Created(provider_id=f"p-{name}", node_name=f"n-{name}"))

    async def controller(name: str) -> Instance:
        while True:
            try:
                return await manager.driver.create(of(name))
            except DriverError as error:
                if error.code is not Code.Unavailable or error.begun:
                    raise
                await asyncio.sleep(5)

    working = asyncio.create_task(cloud())
    names = [f"m{number}" for number in range(50)]
    found = await asyncio.gather(*(controller(name) for name in names))
    working.cancel()
    assert [each.provider_id for each in found] == [f"p-{name}" for name in names]
    assert sorted(made) == sorted(names)
    assert asyncio.get_running_loop().time() < 50 * 30 * 1.1, "the driver was hardly ever idle"


# ---------------------------------------------------------------- what a driver of 2018 lacks


async def test_a_deletion_without_a_provider_id_looks_it_up_by_the_machines_name(manager: Manager) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.delete(of()))
    listed = Listed(vms=(ListedVm("p-1", "m1"), ListedVm("p-2", "m2")))
    await driver.say(await driver.asked.get(), listed)
    asked = await driver.asked.get()
    assert asked.params is not None
    assert (asked.operation_type, asked.params.machine_id, asked.params.credentials) == ("delete", "p-1", "")
    assert asked.params.machine == "", "fields since Kubewright are for those that name what they know"
    await driver.say(asked, Deleted())
    assert await call is None
    gone = asyncio.create_task(manager.driver.delete(of("m3")))
    await driver.say(await driver.asked.get(), listed)
    assert isinstance(await failing(gone), NotFound)


async def test_the_status_of_a_vm_is_looked_up_in_the_list(manager: Manager) -> None:
    driver = await dialled(manager)
    vms = (ListedVm("p-1", "m1"), ListedVm("p-2", "m2"), ListedVm("p-3", "m2"))
    answers = []
    for name in ("m1", "m2", "m3"):
        call = asyncio.create_task(manager.driver.status(of(name)))
        await driver.say(await driver.asked.get(), Listed(vms=vms))
        await asyncio.wait([call])
        answers.append(call)
    assert answers[0].result().provider_id == "p-1"
    assert (await failing(answers[1])).code is Code.OutOfRange
    assert isinstance(await failing(answers[2]), NotFound)


async def test_what_a_driver_does_not_know_is_not_asked_of_it(manager: Manager) -> None:
    driver = await dialled(manager)
    for call in (
        manager.driver.initialize(of()),
        manager.driver.validate(CLASS),
        manager.driver.size(CLASS),
        manager.driver.update(of("m1", "p-1"), {}),
        manager.driver.console(of("m1", "p-1")),
        manager.driver.volume_ids([VolumeSpec("pv", {})]),
    ):
        with pytest.raises(Unimplemented):
            await call
    with pytest.raises(Unimplemented):
        manager.driver.hot_fields(CLASS.machine_class)
    assert driver.asked.empty()


async def test_an_update_tells_what_was_applied_last_or_that_it_is_not_known(manager: Manager) -> None:
    with pytest.raises(DriverError) as away:
        manager.driver.hot_fields(CLASS.machine_class)
    assert away.value.code is Code.Unavailable
    driver = await dialled(manager, structs.replace(UPDATES, hot_fields=("tags", "sourceDestCheck")))
    assert tuple(manager.driver.hot_fields(CLASS.machine_class)) == ("tags", "sourceDestCheck")
    for last, text in ((None, ""), ({}, "{}"), ({"tags": {"a": "1"}}, '{"tags":{"a":"1"}}')):
        call = asyncio.create_task(manager.driver.update(of("m1", "p-1"), last))
        asked = await driver.asked.get()
        assert asked.params is not None
        assert (asked.operation_type, asked.params.machine_id) == ("update", "p-1")
        assert asked.params.last_applied == text
        await driver.say(asked, Updated())
        assert await call is None


async def test_an_update_that_is_answered_by_nothing_is_not_offered_and_one_that_failed_says_why(
    manager: Manager,
) -> None:
    driver = await dialled(manager, UPDATES)
    for response, code in (
        (None, Code.Unimplemented),
        (Updated("no", 14), Code.Unavailable),
        (Deleted(), Code.Internal),
    ):
        call = asyncio.create_task(manager.driver.update(of("m1", "p-1"), {}))
        await driver.say(await driver.asked.get(), response)
        assert (await failing(call)).code is code


async def test_updates_of_one_machine_are_one_after_the_other_and_no_two_changes_are_one(
    manager: Manager,
) -> None:
    driver = await dialled(manager, UPDATES)
    calls = [asyncio.create_task(manager.driver.update(of("m1", "p-1"), last)) for last in ({}, {}, {"a": 1})]
    first = await driver.asked.get()
    await asyncio.sleep(1)
    assert driver.asked.empty(), "the third one waits, and the second is the first"
    await driver.say(first, Updated())
    await driver.say(await driver.asked.get(), Updated())
    await asyncio.gather(*calls)
    assert driver.asked.empty()


async def test_a_hundred_questions_for_one_list_are_one_message(manager: Manager) -> None:
    driver = await dialled(manager)
    calls = [
        asyncio.create_task(manager.driver.status(of(f"m{number}", f"p{number}"))) for number in range(100)
    ]
    vms = tuple(ListedVm(f"p{number}", f"m{number}") for number in range(100))
    await asyncio.sleep(0.01)
    asked = 0
    while not all(call.done() for call in calls):
        await driver.say(await driver.asked.get(), Listed(vms=vms))
        asked += 1
        await asyncio.sleep(0.01)
    assert asked <= 2


async def test_a_status_answer_carries_what_a_driver_says_of_its_vm(manager: Manager) -> None:
    driver = await dialled(manager, WHOLE)
    call = asyncio.create_task(manager.driver.status(of()))
    asked = await driver.asked.get()
    assert asked.params is not None
    assert '"name":"m1"' in asked.params.machine
    await driver.say(asked, Status(provider_id="p", node_name="n", owner_uid="uid-m1", last_known_state="s"))
    assert await call == Instance("p", "n", "m1", "uid-m1", last_known_state="s")


async def test_a_listed_vm_without_an_id_is_no_vm_that_could_be_deleted(manager: Manager) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.list(CLASS))
    await driver.say(await driver.asked.get(), Listed(vms=(ListedVm("p-1", "m1"), ListedVm("", "m2"))))
    error = await failing(call)
    assert (error.code, "without a provider id" in str(error)) == (Code.Internal, True)


async def test_a_driver_that_cannot_tell_volumes_hides_those_of_no_other(manager: Manager) -> None:
    kinds = ("create", "delete", "list", "volumeids")
    drivers = [await dialled(manager, Registration(name, *OF_2018_KIND, kinds)) for name in ("one", "two")]
    for known in (True, False):
        call = asyncio.create_task(manager.driver.volume_ids([VolumeSpec("pv", {})]))
        await drivers[0].say(await drivers[0].asked.get(), None)
        await drivers[1].say(await drivers[1].asked.get(), VolumeIds(ids=("v-1",)) if known else None)
        if known:
            assert await call == ["v-1"]
        else:
            assert isinstance(await failing(call), Unimplemented)


@pytest.mark.looptime(False)
async def test_while_a_large_message_is_read_everything_else_goes_on(manager: Manager) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.list(CLASS))
    asked = await driver.asked.get()
    turns = 0
    data = encode(DriverSide(asked.operation_id, "list", Listed(vms=(ListedVm("p", "m"),) * 20_000)))
    await driver.stream.write(data)
    while not call.done():
        turns += 1
        await asyncio.sleep(0)
    assert (len(await call), turns > 50) == (20_000, True)


async def test_a_list_that_fails_names_its_class(manager: Manager) -> None:
    driver = await dialled(manager)
    call = asyncio.create_task(manager.driver.list(CLASS))
    await driver.asked.get()
    driver.stream.cut()
    assert str(await failing(call)).count("list of small:") == 1
