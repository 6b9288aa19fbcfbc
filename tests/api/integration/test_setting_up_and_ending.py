"""``kubewright driver test`` before and after its cases: classes, kinds, a seed, what was left, and Ctrl-C."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.api import apps
from kubewright.api.core import CRD, SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT
from kubewright.integration.bench import Bench, Limits, Settings
from kubewright.integration.cases import Case
from kubewright.integration.cleaning import clean_up
from kubewright.integration.furnish import Made, install_kinds
from kubewright.integration.managers import Running
from kubewright.integration.report import Outcome
from kubewright.integration.run import Trial
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError
from kubewright.kube.transport import Transport
from kubewright.providers.sim import manifests
from kubewright.testing.servers import embedded_api
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

from .clusters import NAMESPACE, Lab, class_file, lab, message, outcomes


def named(*names: str) -> dict[str, Any]:
    return {"metadata": {"name": names[0], "namespace": NAMESPACE, "labels": {"test-label": "test-label"}}}


# ---------------------------------------------------------------- classes and Secrets


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(
            {"name": "small"},
            "name of provided machine class is not `test-mc-v1`. Please change the name and run again",
            id="another name",
        ),
        pytest.param(
            {"secret": "mine"},
            "secretRef.name is 'mine' and should be 'test-mc-secret'. Please change the name and run again",
            id="another Secret",
        ),
        pytest.param(
            {"region": 7},
            "code = [InvalidArgument] message = [providerSpec: region: Expected",
            id="a class that the driver refuses",
        ),
    ],
)
async def test_a_class_that_is_not_the_agreed_one_ends_the_test_before_it_begins(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    async with lab(tmp_path) as here:
        path, managers = class_file(tmp_path, **given), Started()
        report = await here.test(class_v1=path, managers=managers).run()
        assert outcomes(report) == {"set-up": Outcome.ERROR}
        assert managers.begun == ("region" in given), "before anything is begun"
        assert said in message(report, "set-up")
        assert await here.here.world.client.list(MACHINE, NAMESPACE) == []


async def test_a_secret_that_is_missing_is_named_and_the_classes_go_again(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        client = here.here.world.client
        await client.delete(SECRET, Key(NAMESPACE, "test-mc-secret"))
        report = await here.test().run()
        assert message(report, "set-up").startswith(
            "there is no Secret test-mc-secret in namespace machines of the control cluster"
        )
        assert sorted(each.name for each in await client.list(MACHINE_CLASS, NAMESPACE)) == ["large", "small"]


async def test_a_secret_in_the_file_is_made_and_goes_and_one_made_by_hand_stays(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        client, key = here.here.world.client, Key(NAMESPACE, "test-mc-secret")
        path = class_file(tmp_path)
        secret = {**manifests.secret(NAMESPACE), "metadata": {"name": key.name}}
        path.write_text(f"{path.read_text()}---\n{yaml.safe_dump(secret)}")
        assert (await here.test().run()).well
        assert key.name in [each.name for each in await client.list(SECRET, NAMESPACE)]
        await client.delete(SECRET, key)
        assert (await here.test().run()).well
        assert key.name not in [each.name for each in await client.list(SECRET, NAMESPACE)]


async def test_a_second_class_of_a_file_is_the_one_that_machines_go_to(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        second = class_file(tmp_path, "test-mc-v2", instanceType="sim.large")
        seen: list[Any] = []

        async def look(bench: Bench) -> None:
            found = await bench.control.get(MACHINE_CLASS, bench.key("test-mc-v2"))
            seen.append(found.provider_spec["instanceType"])

        report = await here.test(class_v2=second, more=[Case("look", "look", look)]).run()
        assert (report.well, seen) == (True, ["sim.large"])


# ---------------------------------------------------------------- what is there already


async def test_what_an_earlier_run_has_left_goes_first(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        client = here.here.world.client
        spec = {"class": {"kind": "MachineClass", "name": "small"}}
        await client.create(MACHINE, {**named("test-machine"), "spec": spec})
        report = await here.test().run()
        assert report.well
        assert "an earlier run has left Machine test-machine: these go first" in here.lines


async def test_machines_of_a_deployment_that_an_earlier_run_has_deleted_go_first(tmp_path: Path) -> None:
    """It was killed while their VMs went, so that no object has a name of the test itself."""
    async with lab(tmp_path) as here:
        left = named("test-machine-deployment-55976-n4hzf")
        left["metadata"]["finalizers"] = ["kubewright.dev/driver-test"]
        spec = {"class": {"kind": "MachineClass", "name": "small"}}
        await here.here.world.client.create(MACHINE, {**left, "spec": spec})
        report = await here.test().run()
        assert report.well, report
        told = "an earlier run has left Machine test-machine-deployment-55976-n4hzf: these go first"
        assert here.lines.index(told) < next(
            at for at, line in enumerate(here.lines) if line.startswith("1/10")
        )


async def test_a_class_that_an_earlier_run_has_left_is_replaced_whole(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        client = here.here.world.client
        left = manifests.machine_class("test-mc-v1", NAMESPACE, more={"lifecycle": {"joins": False}})
        left["metadata"].update(named("test-mc-v1")["metadata"])
        await client.create(MACHINE_CLASS, left)
        report = await here.test().run()
        assert report.well, report
        assert sorted(each.name for each in await client.list(MACHINE_CLASS, NAMESPACE)) == ["large", "small"]


async def test_a_secret_in_the_file_goes_where_the_class_looks_for_it(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        client, seen = here.here.world.client, list[str]()
        path = class_file(tmp_path)
        body = yaml.safe_load(path.read_text())
        body["secretRef"]["namespace"] = "default"
        secret = {**manifests.secret(NAMESPACE), "metadata": {"name": "test-mc-secret"}}
        path.write_text(yaml.safe_dump_all([body, secret]))

        async def look(bench: Bench) -> None:
            seen.extend(each.name for each in await bench.control.list(SECRET, "default"))

        assert (await here.test(more=[Case("look", "look", look)]).run()).well
        assert "test-mc-secret" in seen
        assert "test-mc-secret" not in [each.name for each in await client.list(SECRET, "default")]


@pytest.mark.parametrize("kind", [MACHINE, MACHINE_DEPLOYMENT], ids=["a machine", "a deployment"])
async def test_what_has_a_name_of_the_test_and_is_not_of_it_stays(tmp_path: Path, kind: Any) -> None:
    async with lab(tmp_path) as here:
        client = here.here.world.client
        name = "test-machine" if kind is MACHINE else "test-machine-deployment"
        machine = {"class": {"kind": "MachineClass", "name": "small"}}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": machine}
        pool = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        meta = {"name": name, "namespace": NAMESPACE}
        await client.create(kind, {"metadata": meta, "spec": machine if kind is MACHINE else pool})
        report = await here.test().run()
        assert "which is not of this test; it uses that name" in message(report, "set-up")
        assert [each.name for each in await client.list(kind, NAMESPACE)] == [name]


async def test_a_class_of_a_user_by_the_name_of_the_test_stays(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        client = here.here.world.client
        await client.create(MACHINE_CLASS, manifests.machine_class("test-mc-v2", NAMESPACE))
        report = await here.test().run()
        assert "there is a MachineClass test-mc-v2 in namespace machines" in message(report, "set-up")
        names = sorted(each.name for each in await client.list(MACHINE_CLASS, NAMESPACE))
        assert names == ["large", "small", "test-mc-v2"]


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize("preserve", [False, True], ids=["and go again", "and stay if a user says so"])
async def test_kinds_that_are_missing_are_installed(*, preserve: bool) -> None:
    async with embedded_api() as api:
        client, made = Client(api.transport, api.clock), Made()
        bench = Bench(client, client, Settings(preserve_crds=preserve), list[str]().append)
        await install_kinds(bench, made)
        await install_kinds(bench, again := Made())
        assert (len(made.crds), again.crds) == (4, [])
        assert await clean_up(bench, made, Running()) == []
        left = [each["metadata"]["name"] for each in await client.list(dynamic(CRD.resource))]
        assert len(left) == (4 if preserve else 0)


async def test_kinds_with_objects_of_others_stay() -> None:
    async with embedded_api() as api:
        client, made = Client(api.transport, api.clock), Made()
        bench = Bench(client, client, Settings(), list[str]().append)
        await install_kinds(bench, made)
        await client.create(MACHINE_CLASS, manifests.machine_class("small", "default"))
        assert await clean_up(bench, made, Running()) == []
        assert len(await client.list(dynamic(CRD.resource))) == 4


# ---------------------------------------------------------------- a seed


class Started:
    """A manager that the test starts, played by the one of the lab. ``ended``: why it does not run."""

    starts = True
    told = "the manager is played"

    def __init__(self) -> None:
        self.running, self.begun, self.killed, self.ended = 0, 0, False, list[str]()

    async def start(self) -> None:
        self.running += 1
        self.begun += 1
        self.ended = []

    def dead(self) -> Sequence[str]:
        return self.ended

    async def stop(self) -> None:
        self.running = 0

    def kill(self) -> None:
        self.killed = True


async def seeded(here: Lab, **annotations: str) -> Any:
    """The manager of a seed: a Deployment with one replica."""
    meta = {"name": "machine-controller-manager", "namespace": NAMESPACE, "annotations": annotations}
    labels = {"app": "mcm"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return await here.here.world.client.create(apps.DEPLOYMENT, {"metadata": meta, "spec": spec})


IGNORE = "dependency-watchdog.gardener.cloud/ignore-scaling"


@pytest.mark.parametrize("before", [{}, {IGNORE: "false"}], ids=["no annotation", "an annotation"])
async def test_in_a_seed_a_class_is_copied_and_marked_and_its_manager_rests_meanwhile(
    tmp_path: Path, before: dict[str, str]
) -> None:
    async with lab(tmp_path) as here:
        client, seen = here.here.world.client, list[Any]()
        await seeded(here, **before)

        async def look(bench: Bench) -> None:
            found = await bench.control.get(apps.DEPLOYMENT, bench.key("machine-controller-manager"))
            first, second = [
                await bench.control.get(MACHINE_CLASS, bench.key(f"test-mc-v{number}")) for number in (1, 2)
            ]
            seen.extend([found.spec.replicas, found.metadata.annotations[IGNORE]])
            seen.extend([first.provider_spec == second.provider_spec, first.provider_spec["tags"]])

        managers = Started()
        test = here.test(seed=True, class_v1=None, managers=managers, more=[Case("look", "look", look)])
        report = await test.run()
        assert report.well, report
        assert seen == [0, "true", True, {**manifests.CLUSTER_TAGS, "mcm-integration-test": "true"}]
        after = await client.get(apps.DEPLOYMENT, Key(NAMESPACE, "machine-controller-manager"))
        assert (after.spec.replicas, after.metadata.annotations) == (1, before)
        assert managers.running == 0
        names = sorted(each.name for each in await client.list(MACHINE_CLASS, NAMESPACE))
        assert names == ["large", "small"]


async def test_a_manager_that_a_killed_run_has_left_at_rest_gets_back_what_it_had_before_that(
    tmp_path: Path,
) -> None:
    async with lab(tmp_path) as here:
        client, key = here.here.world.client, Key(NAMESPACE, "machine-controller-manager")
        await seeded(here, **{IGNORE: "false"})
        killed = asyncio.ensure_future(here.test(seed=True, class_v1=None, managers=Started()).run())
        here.at["4/10"] = killed.cancel
        with suppress(asyncio.CancelledError):
            await killed
        assert (await client.get(apps.DEPLOYMENT, key)).spec.replicas == 0
        report = await here.test(seed=True, class_v1=None, managers=Started()).run()
        assert report.well, report
        after = await client.get(apps.DEPLOYMENT, key)
        assert (after.spec.replicas, after.metadata.annotations) == (1, {IGNORE: "false"})


async def test_in_a_seed_the_patch_of_a_file_is_applied_to_the_copies(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        patch = tmp_path / "machine-class-patch.json"
        patch.write_text(json.dumps({"providerSpec": {"bootSeconds": 0.2, "tags": {"a": "b"}}}))
        seen: list[Any] = []

        async def look(bench: Bench) -> None:
            found = await bench.control.get(MACHINE_CLASS, bench.key("test-mc-v2"))
            seen.append(found.provider_spec["bootSeconds"])
            seen.append(found.provider_spec["tags"])

        test = here.test(seed=True, class_v1=None, class_patch=patch, more=[Case("look", "look", look)])
        assert (await test.run()).well
        assert seen == [0.2, {**manifests.CLUSTER_TAGS, "a": "b"}]


async def test_a_seed_without_its_manager_says_which_variable_names_it(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        report = await here.test(seed=True, class_v1=None, managers=Started()).run()
        assert message(report, "set-up").startswith(
            "there is no Deployment machine-controller-manager in namespace machines of the control cluster"
        )


# ---------------------------------------------------------------- the manager


async def test_a_manager_that_has_ended_fails_the_next_case_and_is_started_again_to_clean_up(
    tmp_path: Path,
) -> None:
    async with lab(tmp_path) as here:
        managers = Started()
        here.at["5/10"] = lambda: managers.ended.append("machine-controller has ended with status 1: no disk")
        report = await here.test(managers=managers).run()
        assert outcomes(report)["deployment-creation"] is Outcome.PASSED
        assert message(report, "scale-up") == "machine-controller has ended with status 1: no disk"
        assert outcomes(report)["deployment-deletion"] is Outcome.FAILED
        assert report.left == ()
        assert await here.here.world.client.list(MACHINE, NAMESPACE) == []


# ---------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize(
    "word", ["1/10", "5/10", "7/10", "its set to be frozen", "8/10", "the deployment to go"]
)
async def test_ctrl_c_ends_the_case_and_cleans_up(tmp_path: Path, word: str) -> None:
    async with lab(tmp_path) as here:
        test = here.test()
        here.at[word] = test.stop.set
        report = await test.run()
        assert (report.interrupted, report.well, report.left) == (True, False, ())
        assert "ended by a user" in [each.message for each in report.results]
        assert len(report.results) < 11
        assert await here.here.world.left() == []
        assert sorted(each.name for each in await test.bench.control.list(MACHINE_CLASS, NAMESPACE)) == [
            "large",
            "small",
        ]


async def test_twice_ctrl_c_ends_at_once_and_what_may_be_left_is_known(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        managers = Started()
        test = here.test(managers=managers)
        running = asyncio.ensure_future(test.run())
        here.at["6/10"] = test.stop.set
        here.at["cleaning up"] = running.cancel
        with suppress(asyncio.CancelledError):
            await running
        assert managers.killed
        assert list(test.bench.made) == [
            "MachineClass machines/test-mc-v1",
            "MachineClass machines/test-mc-v2",
            "MachineDeployment machines/test-machine-deployment",
        ]


async def test_the_clean_up_ends_in_time_and_says_what_is_left(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        class_file(tmp_path, deleteSeconds=3000)
        test = here.test(limits=Limits(poll=2, wait=30, clean=60))
        clock = here.here.world.clock
        began = clock.monotonic()
        report = await test.run()
        assert "Machine test-machine" in report.left
        assert clock.monotonic() - began < 11 * 30 + 60 + 60
        assert outcomes(report)["clean-up"] is Outcome.ERROR


class ConnectionRefused(TransportError):
    """No answer."""


@dataclass
class Away:
    """A way to a server that does not answer some requests."""

    real: Transport
    unanswered: Callable[[Request], bool]

    async def request(self, request: Request, *, timeout: float) -> Response:
        if self.unanswered(request):
            raise ConnectionRefused("refused")
        return await self.real.request(request, timeout=timeout)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.real.stream(request)

    async def close(self) -> None:
        await self.real.close()


def apart(test: Trial, unanswered: Callable[[Request], bool]) -> None:
    """From now on the test's own requests to the control cluster go that way."""
    control = test.bench.control
    test.bench.control = control.over(Away(control.transport, unanswered), user_agent="test")


async def test_a_server_that_is_away_for_a_moment_fails_no_case(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        test, calls = here.test(), count(1)
        machines = f"/apis/machine.sapcloud.io/v1alpha1/namespaces/{NAMESPACE}/machinesets"
        missed: list[str] = []

        def now_and_then(request: Request) -> bool:
            away = request.method == "GET" and request.path == machines and next(calls) % 7 == 0
            missed.extend([request.path] if away else [])
            return away

        apart(test, now_and_then)
        report = await test.run()
        assert report.well, report
        assert len(missed) > 3


async def test_what_was_made_is_named_where_the_server_has_gone_for_good(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        test, away = here.test(limits=Limits(poll=2, wait=20, clean=20)), asyncio.Event()
        apart(test, lambda _: away.is_set())
        here.at["5/10"] = away.set
        report = await test.run()
        assert "MachineDeployment machines/test-machine-deployment" in report.left
        assert "MachineClass machines/test-mc-v1" in report.left
