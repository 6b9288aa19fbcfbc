"""What authors of drivers get wrong: the manager is told, and their stream goes on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from kubewright.driver.contract import stub
from kubewright.driver.errors import Code, DriverError
from kubewright.providers.grpc.client import (
    DataProvider,
    Dialling,
    Provider,
    ProviderOffer,
    serve_stream,
)
from kubewright.providers.grpc.messages import (
    Content,
    Deleted,
    DriverSide,
    Failure,
    Listed,
    MachineClassMeta,
    MCMside,
    Registration,
    SecretMeta,
    decode,
    encode,
)
from kubewright.testing.scenes import class_request

from .pipes import Manager, pipe

CLASS = class_request("small", provider="mine")
REQUEST = CLASS.of(stub("m1", "ns", "uid-m1", provider_id="p-1"))


class Returning(Provider):
    """A cloud that returns what a test gives it."""

    def __init__(self, answer: Any) -> None:
        self.given = answer

    async def create(self, machine_class: MachineClassMeta, *_: str) -> tuple[str, str]:
        return self.answer()

    async def delete(self, machine_class: MachineClassMeta, *_: str) -> None:
        self.answer()

    async def list(self, machine_class: MachineClassMeta, *_: str) -> Mapping[str, str]:
        return self.answer()

    def answer(self) -> Any:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    found = Manager()
    yield found
    await found.close()


@pytest.mark.parametrize(
    "returned", [(7, "n"), ("p", 7), (b"p", "n"), "pn", None, ("p", "n", "x"), {}, object(), [1, 2]]
)
async def test_a_creation_that_returns_no_two_texts_is_told_and_the_stream_lives(
    manager: Manager, returned: object
) -> None:
    cloud = Returning(returned)
    await manager.dialled(ProviderOffer(cloud, name="mine"))
    with pytest.raises(DriverError) as failed:
        await manager.driver.create(REQUEST)
    assert failed.value.code is Code.Internal
    assert "the contract says" in failed.value.message
    cloud.given = ("p-1", "n-1")
    assert (await manager.driver.create(REQUEST)).provider_id == "p-1"


@pytest.mark.parametrize("returned", [{1: "m"}, {"p": None}, {"p": 7}, None, 5, ["p"]])
async def test_a_list_of_other_things_is_told_and_the_stream_lives(
    manager: Manager, returned: object
) -> None:
    cloud = Returning(returned)
    await manager.dialled(ProviderOffer(cloud, name="mine"))
    with pytest.raises(DriverError) as failed:
        await manager.driver.list(CLASS)
    assert failed.value.code in (Code.Internal, Code.Unknown)
    cloud.given = {"p-1": "m1"}
    assert [each.machine_name for each in await manager.driver.list(CLASS)] == ["m1"]


async def test_the_log_of_a_driver_says_what_its_function_has_raised(manager: Manager) -> None:
    await manager.dialled(ProviderOffer(Returning(KeyError("zone")), name="mine"))
    with capture_logs() as lines, pytest.raises(DriverError):
        await manager.driver.create(REQUEST)
    (line,) = [each for each in lines if each["log_level"] == "error"]
    assert line["event"] == "a provider raised an exception that is no DriverError"
    assert (line["operation"], line["error"]) == ("create", "KeyError: 'zone'")


class Raw:
    """An offer whose answers are what a test gives: it is code of an author, too."""

    registration = Registration("mine", "machine.sapcloud.io", "MachineClass", "v1alpha1")

    def __init__(self, given: Any) -> None:
        self.given = given

    async def answer(self, message: MCMside, data: DataProvider) -> Failure | None:
        if isinstance(self.given, Exception):
            raise self.given
        found: Failure = self.given
        return found


@pytest.mark.parametrize(
    "given", [RuntimeError("no cloud"), ValueError(), Listed(vms=(1, 2)), Listed(error=b"x"), Listed(vms=7)]
)
async def test_an_answer_that_cannot_be_written_is_an_error_and_no_silence(
    manager: Manager, given: Any
) -> None:
    offer = Raw(given)
    await manager.dialled(offer)
    with pytest.raises(DriverError) as failed:
        await manager.driver.list(CLASS)
    assert failed.value.code is Code.Unknown
    offer.given = Listed()
    assert await manager.driver.list(CLASS) == []
    offer.given = Deleted()
    assert await manager.driver.delete(REQUEST) is None


async def test_an_error_in_an_operation_of_a_later_version_is_answered_without_a_response() -> None:
    ours, theirs = pipe()
    serving = asyncio.create_task(
        serve_stream(theirs, Raw(RuntimeError("new")), DataProvider(Manager().fetch), asyncio.Event())
    )
    await ours.write(encode(MCMside(7, "of later")))
    said = await ours.read()
    assert said is not None
    assert decode(DriverSide, said) == DriverSide(7, "of later", None)
    ours.cut()
    await asyncio.wait([serving])


async def test_what_has_a_revision_is_asked_once_and_what_has_none_each_time() -> None:
    """A manager of 2018 may always say 0: what is kept by that would be old for ever."""
    asked: list[tuple[str, int]] = []

    async def fetch(method: str, data: bytes) -> bytes:
        meta = decode(MachineClassMeta if method == "GetMachineClass" else SecretMeta, data)
        asked.append((method, meta.revision))
        return encode(Content(f"{method} number {len(asked)}"))

    data = DataProvider(fetch)
    for revision in (0, 7):
        for _ in range(2):
            await data.machine_class(MachineClassMeta("small", revision))
            await data.secret(SecretMeta("keys", "ns", revision))
    assert asked == [("GetMachineClass", 0), ("GetSecret", 0)] * 2 + [
        ("GetMachineClass", 7),
        ("GetSecret", 7),
    ]
    assert await data.secret(SecretMeta("keys", "ns", 7)) == "GetSecret number 6"


def test_a_registration_is_told_once_and_again_only_after_a_loss_that_was_told() -> None:
    registration = Registration("mine", "machine.sapcloud.io", "MachineClass", "v1alpha1")
    told = Dialling("unix:/d.sock", registration)
    with capture_logs() as lines:
        for _ in range(3):
            told.registered()
            told.lost("UNAVAILABLE: Socket closed")
        told.registered()
    registered = {"driver": "mine", "kind": "MachineClass", "address": "unix:/d.sock", "log_level": "info"}
    lost = {"address": "unix:/d.sock", "reason": "UNAVAILABLE: Socket closed", "log_level": "warning"}
    assert lines == [
        {"event": "registered with the manager", **registered},
        {"event": "the manager is not there; dialling again", **lost},
        {"event": "registered with the manager", **registered},
    ]
