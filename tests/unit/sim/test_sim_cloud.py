"""The simulated cloud as an API: latency, faults, operators, and what goes on without its caller."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, stub
from kubewright.driver.errors import Code, DriverError, InvalidArgument, NotFound, Uninitialized
from kubewright.driver.registry import Settings
from kubewright.providers.sim import driver as make
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.vm import Vm, Volume
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request


@pytest.fixture
def sim() -> SimDriver:
    return make(Settings(LoopClock()))


def machine(
    name: str, *, uid: str = "", provider_id: str = "", class_name: str = "c", **spec: Any
) -> MachineRequest:
    of = stub(name, "ns", uid or f"uid-{name}", provider_id=provider_id)
    return class_request(class_name, **spec).of(of)


async def outcome(call: Any) -> str:
    """``OK`` or the name of the error code."""
    try:
        await call
    except DriverError as error:
        return error.code.name
    return "OK"


async def seconds(call: Any) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await call
    return loop.time() - began


# ---------------------------------------------------------------- latency, and callers that leave


async def test_calls_take_the_time_that_the_class_says(sim: SimDriver) -> None:
    request = machine("m1", createSeconds=3, deleteSeconds=7)
    assert await seconds(sim.create(request)) == pytest.approx(3)
    assert await seconds(sim.status(request)) == 0
    assert await seconds(sim.delete(request)) == pytest.approx(7)


async def test_a_creation_whose_caller_left_has_made_its_vm(sim: SimDriver) -> None:
    request = machine("m1", createSeconds=30)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await sim.create(request)
    assert (await sim.status(request)).machine_name == "m1"


async def test_a_deletion_whose_caller_left_goes_on(sim: SimDriver) -> None:
    request = machine("m1", deleteSeconds=30)
    await sim.create(request)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await sim.delete(request)
    assert await outcome(sim.status(request)) == "OK"
    assert await outcome(sim.create(request)) == "Aborted"
    assert await seconds(sim.delete(request)) == pytest.approx(29)
    assert not sim.cloud.vms


# ---------------------------------------------------------------- whose VM is it


async def test_a_name_that_another_owner_has_is_refused(sim: SimDriver) -> None:
    await sim.create(machine("m1", uid="first"))
    assert await outcome(sim.create(machine("m1", uid="second"))) == "AlreadyExists"
    assert await outcome(sim.status(machine("m1", uid="second"))) == "NotFound"
    assert await outcome(sim.delete(machine("m1", uid="second"))) == "NotFound"
    assert len(sim.cloud.vms) == 1


async def test_a_machine_that_was_restored_finds_its_vm_by_provider_id(sim: SimDriver) -> None:
    made = await sim.create(machine("m1", uid="before the restore"))
    found = await sim.status(machine("m1", uid="after the restore", provider_id=made.provider_id))
    assert found.provider_id == made.provider_id


async def test_a_provider_id_that_points_at_another_machines_vm_hits_nothing(sim: SimDriver) -> None:
    other = await sim.create(machine("m1"))
    assert await outcome(sim.delete(machine("m2", provider_id=other.provider_id))) == "NotFound"
    assert len(sim.cloud.vms) == 1


async def test_an_old_provider_id_does_not_hide_the_machines_vm_and_does_not_delete_it(
    sim: SimDriver,
) -> None:
    made = await sim.create(machine("m1"))
    old = machine("m1", provider_id="sim:///sim-1/vm-000999")
    assert (await sim.status(old)).provider_id == made.provider_id
    assert await outcome(sim.delete(old)) == "NotFound"
    assert len(sim.cloud.vms) == 1


@pytest.mark.parametrize(
    ("node_names", "node"),
    [("machine", "m1"), ("id", "vm-000001"), ("address", "ip-10-0-0-1")],
    ids=["named after the machine", "named after the VM", "named after its address"],
)
async def test_nodes_are_named_as_the_class_says(sim: SimDriver, node_names: str, node: str) -> None:
    made = await sim.create(machine("m1", nodeNames=node_names, region="r"))
    assert made == Instance(
        "sim:///r/vm-000001", node, "m1", "uid-m1", (("InternalIP", "10.0.0.1"), ("Hostname", node))
    )


# ---------------------------------------------------------------- names that choose a behaviour


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        pytest.param("quota-a", ["ResourceExhausted"] * 2, id="quota refuses"),
        pytest.param("capacity-a", ["ResourceExhausted"] * 2, id="capacity refuses"),
        pytest.param("denied-a", ["PermissionDenied"] * 2, id="denied refuses"),
        pytest.param("invalid-a", ["InvalidArgument"] * 2, id="invalid refuses"),
        pytest.param("throttle-a", ["Unavailable"] * 3 + ["OK"], id="throttle lets the fourth through"),
        pytest.param("lost-a", ["Unavailable", "OK"], id="lost answers the second time"),
        pytest.param("quotas-a", ["OK"], id="a longer word is another word"),
        pytest.param("my-quota-a", ["OK"], id="only the first word counts"),
    ],
)
async def test_a_name_chooses_how_creation_goes(sim: SimDriver, name: str, calls: list[str]) -> None:
    assert [await outcome(sim.create(machine(name))) for _ in calls] == calls
    assert len(sim.cloud.vms) == (calls[-1] == "OK")


async def test_a_lost_answer_left_a_vm(sim: SimDriver) -> None:
    await outcome(sim.create(machine("lost-a")))
    assert (await sim.status(machine("lost-a"))).machine_name == "lost-a"


async def test_a_creation_that_hangs_makes_nothing(sim: SimDriver) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await sim.create(machine("hang-a"))
    assert not sim.cloud.vms


async def test_a_partial_vm_exists_and_is_initialized_at_the_third_try(sim: SimDriver) -> None:
    request = machine("partial-a")
    made = await sim.create(request)
    with pytest.raises(Uninitialized) as half:
        await sim.status(request)
    assert (half.value.provider_id, half.value.node_name) == (made.provider_id, made.node_name)
    tries = [await outcome(sim.initialize(request)) for _ in range(3)]
    assert tries == ["Uninitialized", "Uninitialized", "OK"]
    assert await outcome(sim.status(request)) == "OK"


async def test_a_stuck_vm_goes_at_the_fourth_deletion(sim: SimDriver) -> None:
    await sim.create(machine("stuck-a"))
    assert [await outcome(sim.delete(machine("stuck-a"))) for _ in range(4)] == ["Unavailable"] * 3 + ["OK"]


async def test_a_deletion_whose_answer_is_lost_has_deleted(sim: SimDriver) -> None:
    await sim.create(machine("lostdelete-a"))
    tries = [await outcome(sim.delete(machine("lostdelete-a"))) for _ in range(2)]
    assert tries in (["Unavailable", "NotFound"], ["Unavailable", "OK"])
    assert not sim.cloud.vms


# ---------------------------------------------------------------- what a class can ask for


async def test_a_quota_counts_the_vms_of_its_class(sim: SimDriver) -> None:
    made = [await outcome(sim.create(machine(f"m{number}", quota=2))) for number in range(3)]
    assert made == ["OK", "OK", "ResourceExhausted"]
    assert await outcome(sim.create(machine("n1", class_name="other", quota=2))) == "OK"
    await sim.delete(machine("m0", quota=2))
    assert await outcome(sim.create(machine("m2", quota=2))) == "OK"


async def test_a_rate_is_enforced_and_recovers(sim: SimDriver) -> None:
    request = machine("m1", callsPerSecond=2)
    assert [await outcome(sim.create(request)) for _ in range(3)] == ["OK", "OK", "Unavailable"]
    await asyncio.sleep(1)
    assert await outcome(sim.status(request)) == "OK"


async def test_a_seed_repeats_its_faults() -> None:
    async def day() -> list[str]:
        sim = make(Settings(LoopClock(seed=7)))
        return [await outcome(sim.create(machine(f"flaky-{number}"))) for number in range(20)]

    first, second = await day(), await day()
    assert first == second
    assert {"OK", "Unavailable"} == set(first)


async def test_a_list_that_lags_shows_the_past(sim: SimDriver) -> None:
    request = machine("m1", listLagSeconds=60)

    async def listed() -> list[str]:
        return [vm.machine_name for vm in await sim.list(ClassRequest(request.machine_class))]

    await sim.create(request)
    assert await listed() == []
    await asyncio.sleep(61)
    assert await listed() == ["m1"]
    await sim.delete(request)
    assert await listed() == ["m1"]
    await asyncio.sleep(61)
    assert await listed() == []


async def test_a_class_without_tags_lists_what_was_made_for_it(sim: SimDriver) -> None:
    await sim.create(machine("m1"))
    await sim.create(machine("n1", class_name="other"))
    assert [vm.machine_name for vm in await sim.list(ClassRequest(machine("m1").machine_class))] == ["m1"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"bootSecond": 3}, "unknown field `bootSecond`", id="an unknown field"),
        pytest.param({"bootSeconds": "3"}, "bootSeconds: Expected `float`, got `str`", id="a wrong type"),
        pytest.param({"bootSeconds": -1}, "bootSeconds: Expected `float` >= 0", id="a number out of range"),
        pytest.param({"faults": [{"operation": "explode"}]}, r"faults\[0\].operation: ", id="deep inside"),
        pytest.param(
            {"taints": [{"key": "k", "effect": "Never"}]}, r"taints\[0\].effect: ", id="a bad taint"
        ),
    ],
)
async def test_a_wrong_provider_spec_is_refused_by_field(
    sim: SimDriver, spec: dict[str, Any], says: str
) -> None:
    with pytest.raises(DriverError, match=says) as refused:
        await sim.create(machine("m1", **spec))
    assert refused.value.code is Code.InvalidArgument


TAINT = {"key": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param(
            {"labels": {"a b": "x"}}, "labels: 'a b': name part must consist", id="a key with a space"
        ),
        pytest.param({"labels": {"a": "x y"}}, "labels: 'a': a valid label", id="a value with a space"),
        pytest.param({"labels": {"a": "x" * 64}}, "no more than 63 bytes", id="a value that is too long"),
        pytest.param({"annotations": {"/a": ""}}, "annotations: '/a': prefix part", id="no prefix"),
        pytest.param(
            {"annotations": {"a": "x" * 2**18}}, "annotations: must have at most 262144", id="a flood"
        ),
        pytest.param({"zone": "here and there"}, "zone: a valid label", id="a zone is a label, too"),
        pytest.param(
            {"taints": [{**TAINT, "key": "a b"}]}, r"taints\[0\].key: name part", id="a taint's key"
        ),
        pytest.param({"taints": [{**TAINT, "value": "x y"}]}, r"taints\[0\].value: ", id="a taint's value"),
        pytest.param({"taints": [TAINT, TAINT]}, r"taints\[1\]: there is another", id="a taint twice"),
        pytest.param(
            {"capacity": {"cpu": "two"}}, "capacity: 'cpu': 'two' is not a quantity", id="no number"
        ),
        pytest.param({"capacity": {"cpu": "-1"}}, "capacity: 'cpu': must be greater", id="less than nothing"),
        pytest.param({"capacity": {"pods": "1.5"}}, "capacity: 'pods': must be an integer", id="half a pod"),
        pytest.param({"capacity": {"a.b/gpu": "500m"}}, "'a.b/gpu': must be an integer", id="half a GPU"),
        pytest.param({"capacity": {"a.b/gpu": "1e-400"}}, "'a.b/gpu': must be an integer", id="next to none"),
        pytest.param({"capacity": {"a b": 1}}, "capacity: 'a b': name part", id="no name of a resource"),
    ],
)
async def test_no_vm_is_made_that_no_node_can_stand_for(
    sim: SimDriver, spec: dict[str, Any], says: str
) -> None:
    request = machine("m1", **spec)
    for call in (sim.create(request), sim.validate(ClassRequest(request.machine_class))):
        with pytest.raises(DriverError, match=says) as refused:
            await call
        assert refused.value.code is Code.InvalidArgument
    assert not sim.cloud.vms


async def test_a_vm_whose_class_no_node_can_have_any_more_can_be_deleted(sim: SimDriver) -> None:
    await sim.create(machine("m1"))
    await sim.delete(machine("m1", labels={"a b": "x"}))
    assert not sim.cloud.vms


async def test_no_vm_is_made_for_a_name_that_is_too_long_for_a_label(sim: SimDriver) -> None:
    await sim.create(machine("m" * 63))
    with pytest.raises(DriverError, match="must be no more than 63 characters") as refused:
        await sim.create(machine("m" * 64))
    assert refused.value.code is Code.InvalidArgument
    assert len(sim.cloud.vms) == 1


async def test_a_class_of_another_provider_is_refused(sim: SimDriver) -> None:
    found = class_request(provider="aws")
    assert await outcome(sim.create(found.of(stub("m1", "ns", "u")))) == "InvalidArgument"
    with pytest.raises(DriverError, match="is for provider 'aws'"):
        await sim.validate(found)


# ---------------------------------------------------------------- operators, disks, restarts


async def test_a_vm_that_vanished_is_not_found_and_made_anew(sim: SimDriver) -> None:
    first = await sim.create(machine("m1"))
    vm = sim.cloud.named("m1")
    assert vm is not None
    sim.cloud.vanish(vm.id)
    with pytest.raises(NotFound):
        await sim.status(machine("m1"))
    assert (await sim.create(machine("m1"))).provider_id != first.provider_id


async def test_a_deleted_vm_lets_go_of_its_disks(sim: SimDriver) -> None:
    await sim.create(machine("m1"))
    vm = sim.cloud.named("m1", "ns")
    assert vm is not None
    disks = sim.cloud.disks
    disks.create(Volume(id="disk-1", gib=10))
    disks.attach("disk-1", vm.id)
    with pytest.raises(DriverError, match="is attached to"):
        disks.attach("disk-1", "vm-000099")
    with pytest.raises(DriverError, match="is attached to"):
        disks.delete("disk-1")
    await sim.delete(machine("m1"))
    assert disks.all["disk-1"].vm_id == ""
    disks.delete("disk-1")
    assert not disks.all


async def test_what_was_done_to_a_vm_outlives_the_process(tmp_path: Any) -> None:
    clock = LoopClock()
    before = make(Settings(clock, tmp_path))
    for name in ("m1", "m2", "m3"):
        await before.create(machine(name, labels={"a": "b"}))
    ids = {vm.name: vm.id for vm in before.cloud.vms.values()}
    before.cloud.kill(ids["m1"])
    before.cloud.obey(ids["m2"], "disk-pressure, stop-kubelet")
    before.cloud.disks.create(Volume(id="disk-1"))
    before.cloud.disks.attach("disk-1", ids["m3"])
    await before.delete(machine("m3"))
    said = before.cloud.vms
    await before.close()

    after = make(Settings(clock, tmp_path))
    assert after.cloud.vms == said
    assert after.cloud.disks.all["disk-1"].vm_id == ""
    assert (await after.create(machine("m3"))).provider_id.endswith("vm-000004")
    await after.close()


async def test_a_file_of_format_1_is_read_with_its_old_name_of_a_lifecycle(tmp_path: Any) -> None:
    before = make(Settings(LoopClock(), tmp_path))
    await before.create(machine("m1", lifecycle={"joins": False}))
    said = before.cloud.vms
    await before.close()
    with closing(sqlite3.connect(tmp_path / "cloud.db")) as file, file:
        old = "UPDATE specs SET spec = CAST(replace(CAST(spec AS TEXT), 'lifecycle', 'fate') AS BLOB)"
        assert file.execute(old).rowcount == 1
        file.execute("PRAGMA user_version = 1")
    for _ in range(2):
        after = make(Settings(LoopClock(), tmp_path))
        assert after.cloud.vms == said
        await after.close()


async def test_a_file_of_a_later_format_is_refused(tmp_path: Any) -> None:
    await make(Settings(LoopClock(), tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "cloud.db")) as file, file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(InvalidInput, match=r"cloud\.db was written by another version \(format 99, "):
        make(Settings(LoopClock(), tmp_path))


async def test_one_process_at_a_time_has_the_file(tmp_path: Any) -> None:
    sim = make(Settings(LoopClock(), tmp_path))
    with pytest.raises(InvalidInput, match=r"cannot use .*cloud\.db: database is locked"):
        make(Settings(LoopClock(), tmp_path))
    await sim.close()
    await make(Settings(LoopClock(), tmp_path)).close()


async def test_its_file_is_missed_where_a_simulated_cloud_had_the_folder(tmp_path: Any) -> None:
    """Where another driver had it so far, the file is made."""
    await make(Settings(LoopClock(), tmp_path, used=True)).close()
    (tmp_path / "cloud.db").unlink()
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"cloud\.db is missing or empty"):
            make(Settings(LoopClock(), tmp_path, used=True))


async def test_its_file_is_for_its_owner_only_who_may_read_it_meanwhile(tmp_path: Any) -> None:
    (tmp_path / "cloud.db").touch(0o644)
    sim = make(Settings(LoopClock(), tmp_path))
    await sim.create(machine("m1"))
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert set(modes.values()) == {"0o600"}, modes
    with closing(sqlite3.connect(tmp_path / "cloud.db", timeout=0)) as reader:
        assert reader.execute("SELECT count(*) FROM vms").fetchone() == (1,)
    await sim.close()


async def test_a_file_that_is_none_is_refused(tmp_path: Any) -> None:
    (tmp_path / "cloud.db").write_text("not a database, and long enough to be looked at twice" * 20)
    with pytest.raises(InvalidInput, match="file is not a database"):
        make(Settings(LoopClock(), tmp_path))


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"driver sim: .*leaseSecond"):
        make(Settings(LoopClock(), options={"leaseSecond": "4"}))


# ---------------------------------------------------------------- updates in place

CLUSTER = "kubernetes.io/cluster/blue"
FOUND_BY = {CLUSTER: "1", "kubernetes.io/role/node": "1"}


def on_record(made: Instance, **spec: Any) -> MachineRequest:
    return machine("m1", provider_id=made.provider_id, **spec)


def vm_of(sim: SimDriver, name: str = "m1") -> Vm:
    found = sim.cloud.named(name, "ns")
    assert found is not None
    return found


async def test_a_vm_its_interface_and_its_disk_have_tags_of_their_own(sim: SimDriver) -> None:
    tags = {"vm": {"a": "1"}, "network": {"public": ""}, "disk": {"backup": "daily"}}
    made = await sim.create(machine("m1", tags=tags, sourceDestCheck=False))
    vm = vm_of(sim)
    assert vm.objects == {
        "vm-000001": ("vm", {"a": "1"}),
        "nic-000001": ("network", {"public": ""}),
        "boot-000001": ("disk", {"backup": "daily"}),
    }
    assert not vm.interface.source_dest_check
    await sim.update(
        on_record(made, tags={"disk": {"backup": "never"}}), {"tags": tags, "sourceDestCheck": False}
    )
    vm = vm_of(sim)
    assert {name: tags for name, (_, tags) in vm.objects.items()} == {
        "vm-000001": {},
        "nic-000001": {},
        "boot-000001": {"backup": "never"},
    }
    assert vm.interface.source_dest_check, "a class that does not say it any more has the cloud's own default"


async def test_a_flat_map_of_tags_is_for_vms_alone(sim: SimDriver) -> None:
    made = await sim.create(machine("m1", tags={"team": "a", "vm": "x"}))
    assert vm_of(sim).objects["vm-000001"] == ("vm", {"team": "a", "vm": "x"})
    assert vm_of(sim).boot_disk.tags == {}
    await sim.update(on_record(made, tags={"vm": {"team": "b"}}), {"tags": {"team": "a", "vm": "x"}})
    assert vm_of(sim).tags == {"team": "b"}


REFUSED = {
    "another resource": ({"tags": {"vm": {}, "nic": {}}}, r"tags: Object contains unknown field `nic`"),
    "both forms at once": ({"tags": {"vm": {}, "team": "a"}}, r"tags: Object contains unknown field `team`"),
    "a text for a resource": ({"tags": {"vm": {"a": "1"}, "disk": "x"}}, r"tags.disk: Expected `object`, got `str`"),
    "too many": ({"tags": {"disk": {f"k{n}": "" for n in range(51)}}}, r"tags.disk: 51 tags, and a resource has at most 50"),
    "too many in a flat map": ({"tags": {f"k{n}": "" for n in range(51)}}, r"tags.vm: 51 tags"),
    "a key of an interface": ({"tags": {"network": {"A_b": ""}}}, r"tags.network: 'A_b': a key has at most 63 lower-case"),
    "a long key": ({"tags": {"k" * 129: ""}}, r"tags.vm: 'k{128}': a key has between 1 and 128 characters"),
    "a long value": ({"tags": {"disk": {"k": "v" * 257}}}, r"tags.disk: 'k': a value has at most 256 characters"),
    "a check that is none": ({"sourceDestCheck": "no"}, r"sourceDestCheck: Expected `bool \| null`, got `str`"),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "text"), REFUSED.values(), ids=REFUSED.keys())
async def test_tags_that_the_cloud_does_not_take_are_refused(
    sim: SimDriver, spec: dict[str, Any], text: str
) -> None:
    made = await sim.create(machine("m1"))
    before = vm_of(sim)
    for call in (
        sim.create(machine("m2", **spec)),
        sim.validate(ClassRequest(machine("m2", **spec).machine_class)),
        sim.update(on_record(made, **spec), {}),
    ):
        with pytest.raises(InvalidArgument, match=f"providerSpec: {text}"):
            await call
    assert (vm_of(sim), len(sim.cloud.vms)) == (before, 1)


async def test_a_resource_that_would_have_too_many_tags_with_those_of_others_is_left_as_it_is(
    sim: SimDriver,
) -> None:
    made = await sim.create(machine("m1"))
    sim.cloud.tag("vm-000001", "disk", {f"hers-{n}": "x" for n in range(50)})
    with pytest.raises(
        InvalidArgument, match="boot-000001 would have 51 tags, and a resource has at most 50"
    ):
        await sim.update(on_record(made, tags={"vm": {"a": "1"}, "disk": {"a": "1"}}), {})
    assert vm_of(sim).tags == {"a": "1"}, "the objects before it have theirs, as at other clouds"
    assert len(vm_of(sim).boot_disk.tags) == 50


@pytest.mark.parametrize("wanted", [{}, {CLUSTER: "other", "team": "b"}], ids=["missing", "another"])
async def test_tags_by_which_vms_are_found_are_not_updated(sim: SimDriver, wanted: dict[str, str]) -> None:
    made = await sim.create(machine("m1", tags={**FOUND_BY, "team": "a"}))
    with pytest.raises(InvalidArgument, match=CLUSTER):
        await sim.update(on_record(made, tags=wanted), {"tags": {**FOUND_BY, "team": "a"}})
    assert vm_of(sim).tags == {**FOUND_BY, "team": "a"}


async def test_a_vm_whose_tags_are_to_be_changed_is_listed_all_the_same(sim: SimDriver) -> None:
    """While an update is under way, and when its machine is gone: else an orphan would stay for ever."""
    made = await sim.create(machine("m1", tags={**FOUND_BY, "team": "a"}))
    changed = ClassRequest(machine("", tags={**FOUND_BY, "team": "b"}).machine_class)
    assert [vm.provider_id for vm in await sim.list(changed)] == [made.provider_id]


async def test_an_update_that_fails_after_a_part_has_done_that_part_also_for_the_next_process(
    tmp_path: Any,
) -> None:
    fault = {"operation": "update", "code": "Unavailable", "times": 1, "afterObjects": 2}
    tags = {each: {"a": "1"} for each in ("vm", "network", "disk")}
    before = make(Settings(LoopClock(), tmp_path))
    made = await before.create(machine("m1", faults=[fault]))
    assert await outcome(before.update(on_record(made, tags=tags), {})) == "Unavailable"
    await before.close()
    after = make(Settings(LoopClock(), tmp_path))
    assert [tags for _, tags in vm_of(after).objects.values()] == [{"a": "1"}, {"a": "1"}, {}]
    assert await outcome(after.update(on_record(made, tags=tags), {})) == "Unavailable"  # counts begin anew
    assert await outcome(after.update(on_record(made, tags=tags), {})) == "OK"
    assert vm_of(after).boot_disk.tags == {"a": "1"}
    await after.close()


async def test_a_name_shows_an_update_that_is_done_in_part(sim: SimDriver) -> None:
    made = await sim.create(machine("halfdone-1"))
    asked = machine("halfdone-1", provider_id=made.provider_id, tags={"vm": {"a": "1"}, "disk": {"a": "1"}})
    assert [await outcome(sim.update(asked, {})) for _ in range(3)] == ["Unavailable", "Unavailable", "OK"]


async def test_only_a_vm_that_is_there_is_updated(sim: SimDriver) -> None:
    made = await sim.create(machine("m1", deleteSeconds=5))
    assert await outcome(sim.update(machine("m2"), None)) == "NotFound"
    assert await outcome(sim.update(machine("m1", provider_id="sim:///sim-1/vm-000009"), None)) == "NotFound"
    assert await outcome(sim.update(machine("m1", uid="another"), None)) == "NotFound"
    going = asyncio.create_task(sim.delete(machine("m1")))
    await asyncio.wait([going], timeout=1)
    assert await outcome(sim.update(on_record(made), None)) == "Aborted"
    await going
    assert await outcome(sim.update(on_record(made), None)) == "NotFound"


async def test_a_check_of_addresses_that_the_class_never_named_is_anothers(sim: SimDriver) -> None:
    made = await sim.create(machine("m1"))
    await sim.update(on_record(made, sourceDestCheck=False), None)
    last: dict[str, Any] | None
    for last in (None, {}):
        await sim.update(on_record(made), last)
        assert not vm_of(sim).interface.source_dest_check
    await sim.update(on_record(made), {"sourceDestCheck": False})
    assert vm_of(sim).interface.source_dest_check


async def test_a_file_of_format_2_is_read_with_its_tags_of_vms_alone(tmp_path: Any) -> None:
    before = make(Settings(LoopClock(), tmp_path))
    await before.create(machine("m1", tags={"a": 'x"y', "b": ""}, capacity={"cpu": 3}))
    await before.create(machine("m2", capacity={"cpu": 3}))
    said = before.cloud.vms
    await before.close()
    with closing(sqlite3.connect(tmp_path / "cloud.db")) as file, file:
        old = (
            "UPDATE specs SET spec = CAST(json_set(CAST(spec AS TEXT), '$.tags', "
            "json_extract(CAST(spec AS TEXT), '$.tags.vm')) AS BLOB) WHERE CAST(spec AS TEXT) LIKE '%tags%'"
        )
        assert file.execute(old).rowcount == 1
        file.execute("PRAGMA user_version = 2")
    for _ in range(2):
        after = make(Settings(LoopClock(), tmp_path))
        assert after.cloud.vms == said
        await after.close()
