"""Cloud calls beside the workers: what is known after each way in which they can end."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from kubewright.api.core import Secret
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec, stub
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented, Uninitialized
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb, VmSeen
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request
from kubewright.wire.errors import Forbidden
from kubewright.wire.gvk import Key

KEY = Key("default", "m1")
CLASS = class_request("small", "default")
REQUEST = CLASS.of(stub("m1", "default", "u1"))
VM = Instance("sim:///vm-1", "m1")


async def request() -> MachineRequest:
    return REQUEST


@dataclass
class Scripted:
    """A driver that answers as told: a value, an error, or a function."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def _answer(self, verb: str) -> Any:
        self.asked.append(verb)
        answer = self.answers.get(verb, Unimplemented(verb))
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return VM
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def create(self, request: MachineRequest) -> Instance:
        found: Instance = await self._answer("create")
        return found

    async def initialize(self, request: MachineRequest) -> Instance:
        found: Instance = await self._answer("initialize")
        return found

    async def delete(self, request: MachineRequest) -> str | None:
        left: str | None = await self._answer("delete")
        return left

    async def status(self, request: MachineRequest) -> Instance:
        found: Instance = await self._answer("status")
        return found

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return []

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return []


CASES: list[Any] = [
    pytest.param(
        {"status": VM}, Verb.ENSURE, ["status"], lambda s: s.instance == VM, id="a VM that exists is adopted"
    ),
    pytest.param(
        {"status": NotFound("no"), "create": VM},
        Verb.ENSURE,
        ["status", "create", "initialize"],
        lambda s: s.instance == VM,
        id="a VM that does not is made, and initialized if that is offered",
    ),
    pytest.param(
        {"create": VM},
        Verb.ENSURE,
        ["status", "create", "initialize"],
        lambda s: s.instance == VM,
        id="a driver without status simply creates",
    ),
    pytest.param(
        {"status": Uninitialized("half", provider_id="p", node_name="n"), "initialize": VM},
        Verb.ENSURE,
        ["status", "initialize"],
        lambda s: s.instance == VM,
        id="a half made VM is only initialized",
    ),
    pytest.param(
        {"create": VM, "initialize": DriverError("no net")},
        Verb.ENSURE,
        ["status", "create", "initialize"],
        lambda s: s.instance == VM and s.initializing and s.error,
        id="a VM whose initialization fails is known all the same",
    ),
    pytest.param(
        {"create": VM, "initialize": NotFound("no such VM")},
        Verb.ENSURE,
        ["status", "create", "initialize"],
        lambda s: s.instance == VM and s.settled(Verb.ENSURE),
        id="an initialization that finds no VM is skipped",
    ),
    pytest.param(
        {"create": VM, "initialize": Instance("", "")},
        Verb.ENSURE,
        ["status", "create", "initialize"],
        lambda s: s.instance == VM and s.settled(Verb.ENSURE),
        id="an initialization that names nothing leaves the names that are known",
    ),
    pytest.param(
        {"create": Instance("", "m1")},
        Verb.ENSURE,
        ["status", "create", "initialize"],
        lambda s: s.instance is None and s.doubt and "without a provider id" in str(s.failed(Verb.ENSURE)),
        id="a VM without a provider id is not believed, and leaves a doubt",
    ),
    pytest.param(
        {"create": Instance("sim:///vm-1", "")},
        Verb.ENSURE,
        ["status", "create", "initialize"],
        lambda s: s.instance is None and s.doubt and "without a node name" in str(s.failed(Verb.ENSURE)),
        id="nor is one without a node name",
    ),
    pytest.param(
        {"status": Instance("", "")},
        Verb.ENSURE,
        ["status"],
        lambda s: s.instance is None and s.failed(Verb.ENSURE).code is Code.Internal,
        id="nor one that exists",
    ),
    pytest.param(
        {"status": Uninitialized("half"), "initialize": VM},
        Verb.ENSURE,
        ["status", "initialize"],
        lambda s: s.instance == VM,
        id="a half made VM may get its names from its initialization",
    ),
    pytest.param(
        {"status": Uninitialized("half"), "initialize": DriverError("no net")},
        Verb.ENSURE,
        ["status", "initialize"],
        lambda s: s.instance is None and s.initializing and s.doubt and s.error.message == "no net",
        id="a half made VM without names is not recorded, and leaves a doubt",
    ),
    pytest.param(
        {"status": Instance("", "m1")},
        Verb.LOOK,
        ["status"],
        lambda s: s.settled(Verb.LOOK) and s.instance is None and not s.absent,
        id="a look that finds a VM without its names has found one, and it is not recorded",
    ),
    pytest.param(
        {"create": DriverError.of(Code.ResourceExhausted, "full")},
        Verb.ENSURE,
        ["status", "create"],
        lambda s: s.error and s.doubt is None,
        id="a clear refusal leaves no doubt",
    ),
    pytest.param(
        {"create": DriverError.of(Code.DeadlineExceeded, "late")},
        Verb.ENSURE,
        ["status", "create"],
        lambda s: s.error and s.doubt is not None,
        id="a creation without an answer leaves a doubt",
    ),
    pytest.param({"delete": None}, Verb.DELETE, ["delete"], lambda s: s.settled(Verb.DELETE), id="deleted"),
    pytest.param(
        {"delete": NotFound("no")},
        Verb.DELETE,
        ["delete"],
        lambda s: s.settled(Verb.DELETE),
        id="deleting what is not there is a success",
    ),
    pytest.param(
        {"delete": DriverError("busy")},
        Verb.DELETE,
        ["delete"],
        lambda s: s.error and not s.running,
        id="a failed deletion is known as failed",
    ),
    pytest.param(
        {"status": NotFound("no")},
        Verb.LOOK,
        ["status"],
        lambda s: s.settled(Verb.LOOK) and s.absent and not s.deleted,
        id="a look that finds nothing",
    ),
    pytest.param(
        {},
        Verb.LOOK,
        ["status"],
        lambda s: s.settled(Verb.LOOK) and not s.absent,
        id="a driver that cannot look has not said that there is nothing",
    ),
    pytest.param(
        {"status": DriverError.of(Code.Unavailable, "busy")},
        Verb.ENSURE,
        ["status"],
        lambda s: s.error and s.doubt is None,
        id="a failed look-up asked for no VM, so it leaves no doubt",
    ),
]


@pytest.mark.parametrize(("answers", "verb", "asked", "known"), CASES)
async def test_what_is_known_after_a_call(
    answers: dict[str, Any], verb: Verb, asked: list[str], known: Callable[[VmSeen], object]
) -> None:
    driver, woken = Scripted(answers), asyncio.Event()
    calls = VmCalls(driver, LoopClock(), lambda _key: woken.set())
    calls.start(KEY, "u1", verb, request, inputs="inputs")
    assert calls.seen("u1").running
    await woken.wait()
    seen = calls.seen("u1")
    assert driver.asked == asked
    assert known(seen)
    assert (seen.running, seen.inputs) == (False, "inputs")


@pytest.mark.parametrize("answer", [NotFound("no"), Unimplemented("status")], ids=["denied", "not asked"])
@pytest.mark.parametrize(("node", "known"), [("n1", Instance("sim:///old", "n1")), ("", None)])
async def test_a_vm_on_record_is_never_made_again(
    answer: DriverError, node: str, known: Instance | None
) -> None:
    """It is believed in; where not even its node is known, people are told instead."""
    recorded, woken = (
        CLASS.of(stub("m1", "default", "u1", provider_id="sim:///old", node_name=node)),
        asyncio.Event(),
    )
    driver = Scripted({"status": answer, "create": VM})
    calls = VmCalls(driver, LoopClock(), lambda _key: woken.set())

    async def ask() -> MachineRequest:
        return recorded

    calls.start(KEY, "u1", Verb.ENSURE, ask, inputs="")
    await woken.wait()
    seen = calls.seen("u1")
    assert driver.asked == ["status"]
    assert seen.instance == known
    assert (seen.error is None) == (known is not None)


async def test_a_second_call_waits_for_the_first() -> None:
    hanging = asyncio.Event()
    driver = Scripted({"status": hanging})
    calls = VmCalls(driver, LoopClock(), lambda _key: None)
    calls.start(KEY, "u1", Verb.ENSURE, request, inputs="")
    calls.start(KEY, "u1", Verb.DELETE, request, inputs="")
    await asyncio.sleep(1)
    assert driver.asked == ["status"]
    assert calls.seen("u1").verb is Verb.ENSURE
    await calls.close()


async def test_a_deletion_remembers_the_doubt_before_it() -> None:
    driver = Scripted({"create": DriverError.of(Code.Unavailable, "?"), "delete": None})
    woken = asyncio.Event()
    calls = VmCalls(driver, LoopClock(), lambda _key: woken.set())
    calls.start(KEY, "u1", Verb.ENSURE, request, inputs="")
    await woken.wait()
    doubt = calls.seen("u1").doubt
    woken.clear()
    calls.start(KEY, "u1", Verb.DELETE, request, inputs="")
    await woken.wait()
    assert doubt is not None
    assert calls.seen("u1").doubt == doubt


async def test_a_forgotten_machine_leaves_nothing_behind() -> None:
    hanging = asyncio.Event()
    calls = VmCalls(Scripted({"status": hanging}), LoopClock(), lambda _key: None)
    calls.start(KEY, "u1", Verb.ENSURE, request, inputs="")
    for uid in ("u1", "u1", "u2"):  # what is not known may be forgotten, too
        calls.forget(uid)
    assert (calls.busy("u1"), calls.busy("u2")) == (True, False)
    hanging.set()
    await asyncio.sleep(1)
    assert calls.seen("u1") == VmSeen()
    assert (len(calls), calls.busy("u1")) == (0, False)


async def test_the_console_of_a_machine_that_is_forgotten_meanwhile_is_not_kept() -> None:
    shown, woken = asyncio.Event(), asyncio.Event()

    async def read() -> str:
        await shown.wait()
        return "it boots"

    calls = VmCalls(Scripted(), LoopClock(), lambda _key: woken.set())
    for uid in ("u1", "u2"):
        calls.read_console(KEY, uid, read)
    calls.forget("u1")
    shown.set()
    await woken.wait()
    await asyncio.sleep(1)
    kept = calls.console("u2")
    assert kept is not None
    assert (kept.text, calls.console("u1")) == ("it boots", None)


async def test_a_call_runs_until_it_has_ended_though_one_before_it_has() -> None:
    driver = Scripted({"status": VM})
    calls = VmCalls(driver, LoopClock(), lambda _key: None)
    calls.start(KEY, "u1", Verb.ENSURE, request, inputs="")
    await asyncio.sleep(1)
    assert not calls.seen("u1").running
    driver.answers = {"status": asyncio.Event()}
    calls.start(KEY, "u1", Verb.LOOK, request, inputs="")
    await asyncio.sleep(1)
    assert calls.seen("u1").running
    await calls.close()
    assert len(calls) == 0, "what is cancelled is waited for"


async def test_a_call_that_has_not_begun_when_its_owner_ends_leaves_nothing_behind() -> None:
    driver = Scripted({"status": VM})
    calls = VmCalls(driver, LoopClock(), lambda _key: None)
    calls.start(KEY, "u1", Verb.LOOK, request, inputs="")
    await calls.close()
    assert not calls.busy("u1")


async def test_a_doubt_counts_from_our_start_and_from_a_creation_without_an_answer() -> None:
    clock, confirm = LoopClock(), timedelta(seconds=10)
    clock.monotonic()
    await asyncio.sleep(60)
    driver = Scripted({"status": NotFound("no"), "create": DriverError.of(Code.DeadlineExceeded, "late")})
    calls = VmCalls(driver, clock, lambda _key: None)
    started = clock.now()
    await asyncio.sleep(3600)

    def until(created: datetime | None) -> datetime | None:
        return calls.doubt_until("u1", created=created, recorded=False, confirm_absent=confirm)

    assert (until(started), until(clock.now())) == (started + confirm, None)
    calls.start(KEY, "u1", Verb.ENSURE, request, inputs="")
    await asyncio.sleep(1)
    asked = started + timedelta(hours=1)
    assert (until(started), until(asked)) == (asked + confirm, asked + confirm)


async def test_a_vm_on_record_is_not_created_again_because_it_is_not_visible() -> None:
    driver, woken = Scripted({"status": NotFound("not yet")}), asyncio.Event()
    calls = VmCalls(driver, LoopClock(), lambda _key: woken.set())

    async def recorded() -> MachineRequest:
        return CLASS.of(stub("m1", "default", "u1", provider_id=VM.provider_id, node_name=VM.node_name))

    calls.start(KEY, "u1", Verb.ENSURE, recorded, inputs="")
    await woken.wait()
    assert driver.asked == ["status"]
    assert calls.seen("u1").instance == VM


async def test_a_request_that_cannot_be_made_is_a_failure_without_doubt() -> None:
    driver, woken = Scripted({"status": NotFound("no"), "create": VM}), asyncio.Event()
    calls = VmCalls(driver, LoopClock(), lambda _key: woken.set())

    async def broken() -> MachineRequest:
        raise Forbidden("secrets is forbidden")

    calls.start(KEY, "u1", Verb.ENSURE, broken, inputs="")
    await woken.wait()
    seen = calls.seen("u1")
    assert driver.asked == []
    assert "secrets is forbidden" in str(seen.failed(Verb.ENSURE))
    assert seen.doubt is None


def note(code: Code, left: str = "") -> DriverError:
    return DriverError.of(code, "no", last_known_state=left)


LEFT: list[Any] = [
    pytest.param(
        {"create": replace(VM, last_known_state="half")}, Verb.ENSURE, "half", id="a creation leaves a state"
    ),
    pytest.param({"create": VM}, Verb.ENSURE, "old", id="one that leaves none keeps the one before"),
    pytest.param(
        {"create": replace(VM, last_known_state="half"), "initialize": replace(VM, last_known_state="")},
        Verb.ENSURE,
        "half",
        id="an initialization without one keeps that of the creation",
    ),
    pytest.param(
        {"create": replace(VM, last_known_state="half"), "initialize": note(Code.Internal, "net")},
        Verb.ENSURE,
        "net",
        id="one that fails may leave another",
    ),
    pytest.param(
        {"create": note(Code.Unavailable)}, Verb.ENSURE, "old", id="a creation that fails for now keeps it"
    ),
    pytest.param(
        {"create": note(Code.ResourceExhausted)}, Verb.ENSURE, "old", id="one without capacity keeps it, too"
    ),
    pytest.param(
        {"create": note(Code.DeadlineExceeded, "half")}, Verb.ENSURE, "half", id="unless its error leaves one"
    ),
    pytest.param(
        {"create": note(Code.InvalidArgument)}, Verb.ENSURE, "", id="a creation that is wrong makes it void"
    ),
    pytest.param(
        {"create": note(Code.Internal, "half")}, Verb.ENSURE, "half", id="unless its error leaves one, too"
    ),
    pytest.param({"status": note(Code.Internal)}, Verb.ENSURE, "", id="so does a failed look before it"),
    pytest.param({"status": note(Code.Internal)}, Verb.LOOK, "old", id="a look that fails keeps it"),
    pytest.param({"status": VM}, Verb.LOOK, "old", id="as does one that succeeds"),
    pytest.param({"delete": "disks"}, Verb.DELETE, "disks", id="a deletion leaves a state"),
    pytest.param({"delete": None}, Verb.DELETE, "", id="or makes it void"),
    pytest.param({"delete": note(Code.NotFound, "disks")}, Verb.DELETE, "disks", id="also by its NotFound"),
    pytest.param({"delete": note(Code.Unavailable, "half")}, Verb.DELETE, "half", id="or by its error"),
    pytest.param({"delete": note(Code.Unavailable)}, Verb.DELETE, "", id="an error of it makes it void"),
]


@pytest.mark.parametrize(("answers", "verb", "left"), LEFT)
async def test_what_a_driver_leaves_for_its_next_call(answers: dict[str, Any], verb: Verb, left: str) -> None:
    driver, woken = Scripted({"status": replace(VM, last_known_state="old")}), asyncio.Event()
    calls = VmCalls(driver, LoopClock(), lambda _key: woken.set())
    calls.start(KEY, "u1", Verb.ENSURE, request, inputs="")
    await woken.wait()
    woken.clear()
    driver.answers = answers
    calls.start(KEY, "u1", verb, request, inputs="")
    await woken.wait()
    assert calls.seen("u1").last_known_state == left


async def test_before_a_driver_has_left_anything_what_is_on_record_stays() -> None:
    driver, woken = Scripted({"status": NotFound("no"), "create": VM}), asyncio.Event()
    calls = VmCalls(driver, LoopClock(), lambda _key: woken.set())
    calls.start(KEY, "u1", Verb.ENSURE, request, inputs="")
    await woken.wait()
    assert calls.seen("u1").last_known_state is None


def test_a_request_shows_no_secret() -> None:
    whole = replace(REQUEST, secret=Secret(data={"password": b"hunter2"}))
    assert "hunter2" not in repr(whole)
    assert "password" in repr(whole)
