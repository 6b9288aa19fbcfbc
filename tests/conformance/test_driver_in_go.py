"""The example of a driver in Go, made from the proto file alone, keeps the driver contract through grpc-go."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from kubewright.base.clock import SystemClock
from kubewright.driver.contract import ClassRequest, Driver, VolumeSpec, stub
from kubewright.driver.errors import Code, DriverError, InvalidArgument
from kubewright.driver.registry import Settings, load
from kubewright.providers.grpc.dispatch import GrpcDriver
from kubewright.testing.driver_conformance import Bench, DriverConformance
from kubewright.testing.scenes import class_request

ROOT = Path(__file__).parents[2]
EXAMPLE, PROTO = ROOT / "examples" / "driver-go", ROOT / "src/kubewright/providers/grpc/driver.proto"
GO = shutil.which("go") or ""
pytestmark = [
    pytest.mark.kube,
    pytest.mark.looptime(False),
    pytest.mark.timeout(300),
    pytest.mark.skipif(not GO, reason="there is no Go on PATH"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built."""
    folder = tmp_path_factory.mktemp("driver") / "source"
    shutil.copytree(EXAMPLE, folder)
    shutil.copy(PROTO, folder)
    subprocess.run([GO, "build", "-o", "driver", "."], cwd=folder, check=True, timeout=240)
    return folder / "driver"


class GoBench:
    """A manager's driver ``grpc``, and the program that dials it."""

    def __init__(self, folder: Path) -> None:
        self.grpc = load("grpc", Settings(SystemClock(), folder))
        self.machine_class = class_request("small", provider="go", tags={"kubernetes.io/cluster/c1": "1"})
        self.other_class = class_request("small", provider="go", tags={"kubernetes.io/cluster/c2": "1"})
        self.broken_class: ClassRequest | None = class_request("broken", provider="go", bootSecond=3)

    async def driver(self) -> Driver:
        async with asyncio.timeout(20):
            while True:
                try:
                    await self.grpc.list(self.machine_class)
                    return self.grpc
                except DriverError as error:
                    if error.code is not Code.Unavailable:
                        raise
                    await asyncio.sleep(0.02)

    async def restarted(self) -> Driver | None:
        return None

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        return [VolumeSpec("pv1", {"nfs": {}})], []


@asynccontextmanager
async def dialled(folder: Path, program: Path) -> AsyncIterator[GoBench]:
    """The program runs, and may dial in."""
    bench = GoBench(folder)
    assert isinstance(bench.grpc, GrpcDriver)
    term = asyncio.create_task(bench.grpc.lead())
    path = folder / "grpc" / "drivers.sock"
    for _ in range(500):  # who dials too early dials again in five seconds
        if path.exists():
            break
        await asyncio.sleep(0.01)
    process = await asyncio.create_subprocess_exec(program, f"unix:{path}")
    try:
        yield bench
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        term.cancel()
        await asyncio.gather(term, return_exceptions=True)


class TestGo(DriverConformance):
    @pytest.fixture(autouse=True)
    def _program(self, tmp_path: Path, program: Path) -> None:
        self.folder, self.program = tmp_path, program

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        return dialled(self.folder, self.program)

    @pytest.mark.parametrize("owner", ["", "uid-of-m1"])
    async def test_of_two_vms_of_a_name_only_the_one_whose_id_is_given_goes(self, owner: str) -> None:
        """It is never told owners: a second creation under a name answers with the first VM."""
        async with self.bench() as bench:
            driver = await bench.driver()
            first = await driver.create(bench.machine_class.of(stub("m1", "ns", owner)))
            second = await driver.create(bench.machine_class.of(stub("m1", "ns", "another-owner")))
            assert first.provider_id == second.provider_id

    async def test_tags_are_updated_and_those_by_which_vms_are_found_stay(self) -> None:
        async with self.bench() as bench:
            driver, spec = await bench.driver(), bench.machine_class.machine_class.provider_spec
            assert isinstance(driver, GrpcDriver)
            assert list(driver.hot_fields(bench.machine_class.machine_class)) == ["tags"]
            made = await driver.create(bench.machine_class.of(stub("m1", "ns", "u")))
            now = class_request("small", provider="go", tags={**spec["tags"], "team": "a"})
            on_record = stub("m1", "ns", "u", provider_id=made.provider_id)
            for last in (None, spec, now.machine_class.provider_spec):
                await driver.update(now.of(on_record), last)
            assert [each.provider_id for each in await driver.list(bench.machine_class)] == [made.provider_id]
            with pytest.raises(InvalidArgument, match="VMs are found by those of cluster and role"):
                await driver.update(bench.other_class.of(on_record), spec)


def test_the_example_is_small_and_has_no_generated_code() -> None:
    assert {each.name for each in EXAMPLE.iterdir()} == {"go.mod", "go.sum", "main.go"}
    assert len((EXAMPLE / "main.go").read_text().splitlines()) < 300
