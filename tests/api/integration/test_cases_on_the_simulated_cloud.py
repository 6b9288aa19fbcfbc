"""The ten cases of ``kubewright driver test`` on the simulated cloud, and a bad driver for each, which it fails."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.core import NODE
from kubewright.api.machine.v1alpha1 import MACHINE, MachineClass
from kubewright.compose.options import Options
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError, Exhausted, InvalidArgument
from kubewright.integration.bench import Bench, CaseFailed, Limits
from kubewright.integration.cases import Case
from kubewright.integration.report import Outcome
from kubewright.integration.tracker import NO_TRACKER, Tracked
from kubewright.testing.stage import Borrowed
from kubewright.testing.world import short_timeouts
from kubewright.wire.gvk import Key

from .clusters import NAMESPACE, class_file, lab, message, outcomes

TEN = (
    "machine-creation",
    "machine-deletion",
    "absent-machine",
    "deployment-creation",
    "scale-up",
    "scale-down",
    "freeze",
    "class-update",
    "deployment-deletion",
    "orphans",
)


@pytest.mark.parametrize("two", [False, True], ids=["one cluster for both", "two clusters"])
async def test_a_good_driver_passes_all_ten_cases_and_leaves_nothing(tmp_path: Path, *, two: bool) -> None:
    async with lab(tmp_path, two=two) as here:
        test = here.test()
        report = await test.run()
        assert outcomes(report) == dict.fromkeys(TEN, Outcome.PASSED)
        assert (report.well, report.left, test.bench.made) == (True, (), {})
        assert await here.here.world.left() == []
        assert sum(line.endswith("  passed") for line in here.lines) == len(TEN)


class Plain(Borrowed):
    """A good driver."""


class KeepsTheFirst(Borrowed):
    async def delete(self, request: MachineRequest) -> None:
        if request.name == "test-machine":
            raise DriverError.of(Code.Internal, "the VM is protected")
        await super().delete(request)


class BringsItBack(Borrowed):
    """Its VM comes back some seconds after it was deleted."""

    again: asyncio.Task[Instance] | None = None

    async def delete(self, request: MachineRequest) -> None:
        await super().delete(request)
        if request.name == "test-machine" and self.again is None:
            self.again = asyncio.create_task(self._come_back(request))

    async def _come_back(self, request: MachineRequest) -> Instance:
        await asyncio.sleep(10)
        return await super().create(request)


class HasNoVmsForDeployments(Borrowed):
    async def create(self, request: MachineRequest) -> Instance:
        if request.name != "test-machine":
            raise Exhausted("no capacity in this zone")
        return await super().create(request)


class KeepsThoseOfDeployments(Borrowed):
    async def delete(self, request: MachineRequest) -> None:
        if request.name != "test-machine":
            raise DriverError.of(Code.Internal, "the VM is protected")
        await super().delete(request)


class RefusesTheOtherClass(Borrowed):
    async def create(self, request: MachineRequest) -> Instance:
        if request.machine_class.name == "test-mc-v2":
            raise InvalidArgument("machineType: there is none of this name")
        return await super().create(request)


class KeepsThoseOfTheOtherClass(Borrowed):
    async def delete(self, request: MachineRequest) -> None:
        if request.machine_class.name == "test-mc-v2":
            raise DriverError.of(Code.Internal, "the VM is protected")
        await super().delete(request)


class LeavesADisk(Borrowed):
    """Of a VM that it has deleted something stays, and is in its list."""

    left = ()

    async def delete(self, request: MachineRequest) -> None:
        self.left = (Instance(f"{request.provider_id}-disk", request.name, machine_name=request.name),)
        await super().delete(request)

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return (*await super().list(request), *self.left)


def never_frozen() -> Options:
    options = short_timeouts()
    sets = replace(options.machine.sets, safety_up=50)
    return replace(options, machine=replace(options.machine, sets=sets))


@pytest.mark.parametrize(
    ("failed", "driver", "spec", "options", "words"),
    [
        pytest.param(
            "machine-creation",
            Plain,
            {"lifecycle": {"joins": False}},
            None,
            ("one more node: 0 of 1 nodes are Ready", "machine test-machine is Pending"),
            id="a VM that never joins",
        ),
        pytest.param(
            "machine-deletion",
            KeepsTheFirst,
            {},
            None,
            ("machine test-machine to go", "the VM is protected"),
            id="a VM that is not deleted",
        ),
        pytest.param(
            "absent-machine",
            BringsItBack,
            {},
            None,
            ("not: the nodes to stay as they are: the nodes have changed; new: test-machine",),
            id="a VM that comes back",
        ),
        pytest.param(
            "deployment-creation",
            HasNoVmsForDeployments,
            {},
            None,
            ("availableReplicas is 0, not 1", "no capacity in this zone"),
            id="no VMs for a deployment",
        ),
        pytest.param("scale-up", Plain, {"quota": 3}, None, ("3 of 6 nodes are Ready",), id="a small quota"),
        pytest.param(
            "scale-down",
            KeepsThoseOfDeployments,
            {},
            None,
            ("2 more nodes than at first: there are 6 nodes, not 2", "the VM is protected"),
            id="VMs of deployments that are not deleted",
        ),
        pytest.param(
            "freeze",
            Plain,
            {},
            never_frozen(),
            ("its set is not frozen, and has 18 machines by now",),
            id="a manager that freezes no set",
        ),
        pytest.param(
            "class-update",
            RefusesTheOtherClass,
            {},
            None,
            ("updatedReplicas is ", "there is none of this name"),
            id="no VM by the other class",
        ),
        pytest.param(
            "deployment-deletion",
            KeepsThoseOfTheOtherClass,
            {},
            None,
            ("the deployment to go, and its machines: still there: ", "the VM is protected"),
            id="VMs of the other class that are not deleted",
        ),
        pytest.param("orphans", LeavesADisk, {}, None, ("left in the cloud after 60 s: VM ",), id="a leak"),
    ],
)
async def test_each_case_is_failed_by_a_driver_or_manager_that_is_bad_at_it(
    tmp_path: Path,
    failed: str,
    driver: type[Borrowed],
    spec: Mapping[str, Any],
    options: Options | None,
    words: tuple[str, ...],
) -> None:
    async with lab(tmp_path, driver, options) as here:
        class_file(tmp_path, **spec)
        report = await here.test(limits=Limits(wait=60, clean=60)).run()
        before = TEN[: TEN.index(failed)]
        assert [outcomes(report)[each] for each in before] == [Outcome.PASSED for _ in before]
        assert outcomes(report)[failed] is Outcome.FAILED
        assert [word for word in words if word not in message(report, failed)] == [], message(report, failed)
        assert not report.well
        assert len(report.results) >= len(TEN), "the others are tried too"


async def test_what_does_not_go_is_named_after_the_clean_up_and_the_rest_is_gone(tmp_path: Path) -> None:
    async with lab(tmp_path, KeepsTheFirst) as here:
        report = await here.test().run()
        assert report.left == ("Machine test-machine",)
        assert outcomes(report)["clean-up"] is Outcome.ERROR
        assert outcomes(report)["absent-machine"] is Outcome.SKIPPED
        assert outcomes(report)["deployment-deletion"] is Outcome.PASSED
        assert [each.name for each in await here.here.world.client.list(MACHINE, NAMESPACE)] == [
            "test-machine"
        ]


async def test_a_node_that_is_not_ready_fails_each_case_before_it_begins(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        await here.here.world.target.create(NODE, {"metadata": {"name": "sick"}})
        report = await here.test().run()
        assert {outcomes(report)[each] for each in TEN} == {Outcome.FAILED}
        assert "all nodes to be Ready: nodes are not Ready: sick" in message(report, "freeze")


async def test_cases_of_a_drivers_author_run_before_the_look_for_what_is_left(tmp_path: Path) -> None:
    async def tried(bench: Bench) -> None:
        assert await bench.target.list(NODE) == []
        raise CaseFailed("the load balancer has no address")

    async def wrong(bench: Bench) -> None:
        await bench.control.get(MACHINE, Key(NAMESPACE, "nothing"))

    def broken(_bench: Bench) -> Any:
        raise KeyError("address")

    more = [Case("balancer", "a balancer", tried), Case("wrong", "b", wrong), Case("broken", "c", broken)]
    async with lab(tmp_path) as here:
        report = await here.test(more=more).run()
        assert [each.identity for each in report.results] == [
            *TEN[:-1],
            "balancer",
            "wrong",
            "broken",
            "orphans",
        ]
        assert message(report, "balancer") == "the load balancer has no address"
        assert outcomes(report)["wrong"] is outcomes(report)["broken"] is Outcome.ERROR
        assert message(report, "broken") == "KeyError: 'address'"
        assert outcomes(report)["orphans"] is Outcome.PASSED


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        pytest.param(pytest.fail.Exception("no address"), "Failed: no address", id="a failure of pytest's"),
        pytest.param(SystemExit("no account"), "SystemExit: no account", id="an end of Python"),
        pytest.param(asyncio.CancelledError(), "it has cancelled itself", id="a cancellation of its own"),
    ],
)
async def test_no_case_of_an_author_ends_the_test(tmp_path: Path, raised: BaseException, said: str) -> None:
    async def ends(_bench: Bench) -> None:
        raise raised

    async with lab(tmp_path) as here:
        report = await here.test(more=[Case("mine", "mine", ends)]).run()
        assert (outcomes(report)["mine"], message(report, "mine")) == (Outcome.ERROR, said)
        assert outcomes(report)["orphans"] is Outcome.PASSED
        assert here.lines[-1].endswith("nothing is left")


class Tracker:
    """A driver's own: what it was told of, and what is left as a test says."""

    def __init__(self, left: Any) -> None:
        self.left = left
        self.told: list[tuple[str, Mapping[str, bytes], str]] = []

    async def initialize_resources_tracker(
        self, machine_class: MachineClass, secret_data: Mapping[str, bytes], cluster_name: str
    ) -> None:
        self.told.append((machine_class.name, secret_data, cluster_name))

    async def is_orphaned_resources_available(self) -> Any:
        if isinstance(self.left, Exception):
            raise self.left
        return self.left


@pytest.mark.parametrize(
    ("left", "said"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param(False, "", id="nothing, as in Go"),
        pytest.param(["disk d-1"], "left in the cloud after 300 s: disk d-1", id="a disk"),
        pytest.param(True, "left in the cloud after 300 s: something", id="something, as in Go"),
        pytest.param(
            KeyError("x"), "the resource tracker cannot say what is left: KeyError: 'x'", id="a bug"
        ),
    ],
)
async def test_a_drivers_own_tracker_is_told_of_class_secret_and_cluster_and_asked_at_the_end(
    tmp_path: Path, left: Any, said: str
) -> None:
    async with lab(tmp_path) as here:
        tracker = Tracker(left)
        report = await here.test(tracker=tracker, target_cluster="shoot--one").run()
        ((name, data, cluster),) = tracker.told
        assert (name, sorted(data), cluster) == ("test-mc-v1", ["userData"], "shoot--one")
        assert outcomes(report)["orphans"] is (Outcome.FAILED if said else Outcome.PASSED)
        assert said in message(report, "orphans")


async def test_the_cluster_is_that_of_the_tags_where_none_is_named(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        tracker = Tracker([])
        await here.test(tracker=tracker).run()
        assert [cluster for *_, cluster in tracker.told] == ["sim"]


async def test_without_a_tracker_all_but_the_last_case_run(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        test = here.test()
        test.tracked = Tracked(None)
        report = await test.run()
        assert outcomes(report) == {**dict.fromkeys(TEN, Outcome.PASSED), "orphans": Outcome.SKIPPED}
        assert message(report, "orphans") == NO_TRACKER
        assert report.well
