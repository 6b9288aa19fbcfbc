"""What sets and deployments know about all machines: complete, current, and cheap to ask for."""

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, cast

import pytest
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, CurrentStatus, Machine, MachineStatus
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.clock import SteadyClock
from kubewright.kube import header as headers
from kubewright.kube.cache import Change, Store
from kubewright.kube.header import Header
from kubewright.kube.informer import Informer
from kubewright.machines.machineset.member import MachineMember, read
from kubewright.replicas.members import SECONDS_PER_MEMBER, MemberIndex, owners_of
from kubewright.replicas.objects import BY_UID, letters
from kubewright.runtime.controller import Controller
from kubewright.runtime.pace import FEW_MEMBERS
from kubewright.testing.clocks import BEGIN, ManualClock
from kubewright.wire.gvk import Key


def machine(
    name: str,
    owner: str = "",
    *,
    version: int = 1,
    uid: str = "",
    phase: str = "",
    since: datetime | None = None,
) -> Machine:
    owners = (OwnerReference(kind="MachineSet", name=owner, uid=owner, controller=True),) if owner else ()
    meta = ObjectMeta(
        name=name, namespace="ns", uid=uid or name, resource_version=str(version), owner_references=owners
    )
    return Machine(
        metadata=meta, status=MachineStatus(current_status=CurrentStatus(phase=phase, last_update_time=since))
    )


class Machines:
    """As much of an informer as an index of members asks of one, on a real store."""

    def __init__(self) -> None:
        self.store = Store(MACHINE)
        self._listeners: list[Callable[[Change[Machine]], None]] = []
        self.index, self.subscribe = self.store.index, self._listeners.append

    def get(self, key: Key) -> Machine | None:
        header = self.store.header(key)
        return self.store.decode(header) if header is not None else None

    def keys_by(self, index: str, value: str) -> tuple[Key, ...]:
        return tuple(self.store.keys_by(index, value))

    def put(self, made: Machine) -> None:
        header = headers.read(MACHINE.encode(made))
        old = self.store.header(header.key)
        self.store.put(header)
        self._tell(Change(header.key, old, header, self.store.decode))

    def remove(self, name: str) -> None:
        old = self.store.header(Key("ns", name))
        assert old is not None
        self.store.remove(old)
        self._tell(Change(old.key, old, None, self.store.decode))

    def _tell(self, change: Change[Machine]) -> None:
        for listener in self._listeners:
            listener(change)


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.fixture
def hands() -> ManualClock:
    return ManualClock()


@pytest.fixture
def index(machines: Machines, hands: ManualClock) -> MemberIndex[Machine, MachineMember]:
    return MemberIndex(cast("Informer[Machine]", machines), read, SteadyClock(hands))


def names_of(members: Any) -> list[str]:
    return [member.name for member in members]


def test_members_stand_in_the_order_of_their_names_in_whatever_order_they_come(machines, index) -> None:
    for name in ("c", "a", "b"):
        machines.put(machine(name, "set"))
    assert names_of(index.owned_by("set")) == ["a", "b", "c"]


def test_the_newest_version_is_held_though_its_facts_are_the_same(machines, index) -> None:
    told: list[tuple[MachineMember | None, MachineMember | None]] = []
    index.listen(lambda before, after: told.append((before, after)))
    machines.put(machine("a", "set", version=1))
    machines.put(machine("a", "set", version=2))
    assert [member.version for member in index.owned_by("set")] == ["2"]
    assert len(told) == 1


def test_each_version_of_a_machine_is_read_once_and_a_pass_over_all_reads_none(machines, hands) -> None:
    reads: list[str] = []

    def counted(header: Header, machine: Machine | None) -> MachineMember:
        reads.append(header.key.name)
        return read(header, machine)

    index = MemberIndex(cast("Informer[Machine]", machines), counted, SteadyClock(hands))
    for number in range(1000):
        machines.put(machine(f"m{number:04}", "set"))
    assert len(reads) == 1000
    machines.put(machine("m0500", "set", version=2, phase=Phase.RUNNING))
    assert [each.phase for each in index.owned_by("set")].count(Phase.RUNNING) == 1
    assert reads[1000:] == ["m0500"]


def test_listeners_get_the_facts_before_and_after_a_change(machines, index) -> None:
    machines.put(machine("a", "set"))
    told: list[tuple[MachineMember | None, MachineMember | None]] = []
    index.listen(lambda before, after: told.append((before, after)))
    machines.put(machine("a", "set", version=2, phase=Phase.RUNNING))
    machines.remove("a")
    assert [(b.phase if b else None, a.phase if a else None) for b, a in told] == [
        (Phase.NONE, Phase.RUNNING),
        (Phase.RUNNING, None),
    ]


def test_doubts_end_when_the_machine_is_seen(machines, index) -> None:
    for name in ("a", "b"):
        index.creations.creating("set", name, 0.0)
    assert index.doubted("set") == ("a", "b")
    early = machine("a", "set")
    machines.put(structs.replace(early, metadata=structs.replace(early.metadata, namespace="1")))
    assert index.doubted("set") == ("b",)
    index.forget_owner("set")
    assert index.doubted("set") == ()


def test_the_more_machines_the_longer_changes_are_gathered(machines, index) -> None:
    for number in range(2 * FEW_MEMBERS):
        machines.put(machine(f"m{number}", "set"))
    assert index.gather_seconds(0.03, "set", "none") == 0.03
    assert index.gather_seconds(0.0, "none", "set") == pytest.approx(2 * FEW_MEMBERS * SECONDS_PER_MEMBER)
    for number in range(FEW_MEMBERS):
        machines.remove(f"m{number}")
    assert index.gather_seconds(0.0, "set") == 0.0


@pytest.mark.parametrize("step", [0.0, 3600.0, -3600.0], ids=["right", "an hour ahead", "an hour behind"])
def test_a_machine_that_was_seen_becoming_ready_is_ready_since_then(machines, index, hands, step) -> None:
    index.time()
    machines.put(machine("a", "set", phase=Phase.PENDING, since=BEGIN))
    hands.passed, hands.ahead = 5.3, step
    machines.put(machine("a", "set", version=2, phase=Phase.RUNNING, since=BEGIN + timedelta(seconds=5)))
    (member,) = index.owned_by("set")
    assert member.ready_since == pytest.approx(BEGIN.timestamp() + 5.3, rel=0, abs=1e-3)
    assert not member.available_at(index.time(), 10)
    hands.passed = 15.4
    assert member.available_at(index.time(), 10)
    machines.put(machine("a", "set", version=3, phase=Phase.RUNNING, since=BEGIN + timedelta(seconds=5)))
    assert index.owned_by("set")[0].ready_since == member.ready_since, "another version says the same"


def test_a_machine_that_was_made_again_is_as_old_as_its_date_says(machines, index, hands) -> None:
    machines.put(machine("a", "set", phase=Phase.PENDING, since=BEGIN))
    hands.passed = 5.3
    machines.put(
        machine("a", "set", version=2, uid="b", phase=Phase.RUNNING, since=BEGIN + timedelta(seconds=5))
    )
    assert index.owned_by("set")[0].ready_since == BEGIN.timestamp() + 5


def numbered(number: int) -> Machine:
    made = machine(f"set-{letters('set-uid', number)}", "set-uid")
    notes = {names.NUMBER_ANNOTATION: str(number)}
    return structs.replace(made, metadata=structs.replace(made.metadata, annotations=notes))


def test_the_highest_number_is_known_until_the_set_is_gone(machines, index) -> None:
    assert index.last_number("set-uid") == 0
    for number in (7, 3):
        made = numbered(number)
        machines.put(made)
        machines.remove(made.name)
    assert index.last_number("set-uid") == 7
    for uid in ("set-uid", "unknown"):
        index.forget_owner(uid)
    assert index.last_number("set-uid") == 0


@pytest.mark.parametrize("first", ["the set", "the last member"])
def test_of_a_set_on_which_another_process_works_it_is_forgotten_with_the_last_member(
    machines, index, first: str
) -> None:
    sets, made = Machines(), numbered(7)
    sets.index(BY_UID, lambda found: (found.metadata.uid,))
    index.follow(cast("Informer[Machine]", sets))
    sets.put(machine("set", uid="set-uid"))
    machines.put(made)
    if first == "the set":
        sets.remove("set")
        assert index.last_number("set-uid") == 7, "its member may still be read"
        machines.remove(made.name)
    else:
        machines.remove(made.name)
        assert index.last_number("set-uid") == 7, "the set may make another member"
        sets.remove("set")
    assert index.last_number("set-uid") == 0


class Queue:
    """As much of a controller as an index of members asks of one."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Key, str, float]] = []

    def enqueue(self, key: Key, why: str, *, after: float, at_latest: bool) -> None:
        self.waiting.append((key, why, after))


def test_a_changed_fact_enqueues_what_it_concerns_later_for_large_sets(machines, index) -> None:
    for number in range(FEW_MEMBERS + 1):
        machines.put(machine(f"m{number:03}", "large"))
    machines.put(machine("a", "one"))
    queue = Queue()

    def concerned(before: MachineMember | None, after: MachineMember | None) -> list[Key]:
        return [Key("ns", uid) for uid in owners_of(before, after)]

    index.wake(cast("Controller", queue), concerned, 1e-6, "a machine changed")
    long = SECONDS_PER_MEMBER * (FEW_MEMBERS + 1)
    for made, expect in (
        (machine("b", "one"), [("one", 1e-6)]),
        (machine("c"), []),
        (machine("a", "large", version=2), [("large", pytest.approx(long + SECONDS_PER_MEMBER)), ("one", pytest.approx(long + SECONDS_PER_MEMBER))]),
        (machine("m000", "one", version=2), [("large", pytest.approx(long)), ("one", pytest.approx(long))]),
    ):  # fmt: skip
        queue.waiting.clear()
        machines.put(made)
        assert queue.waiting == [(Key("ns", uid), "a machine changed", after) for uid, after in expect]
    machines.remove("b")
    assert queue.waiting[2:] == [(Key("ns", "one"), "a machine changed", 1e-6)]
    assert index.gather_seconds(0.5) == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_after_any_history_the_index_says_what_the_cache_holds(machines, index, seed) -> None:
    random, there = Random(seed), dict[str, Machine]()
    for version in range(1, 300):
        name = f"m{random.randrange(12)}"
        if name in there and random.random() < 0.3:
            del there[name]
            machines.remove(name)
        else:
            uid = there[name].metadata.uid if name in there else f"{name}-{version}"
            owner = random.choice(("", "one", "two"))
            there[name] = machine(name, owner, version=version, uid=uid)
            machines.put(there[name])
        owners = {n: m.metadata.controller.uid if m.metadata.controller else "" for n, m in there.items()}
        for owner in ("one", "two"):
            assert names_of(index.owned_by(owner)) == sorted(n for n in there if owners[n] == owner)
        assert names_of(index.without_controller("ns")) == sorted(n for n in there if not owners[n])
        for member in (*index.owned_by("one"), *index.without_controller("ns")):
            assert there[member.name].metadata.resource_version == member.version
