"""The distribution for authors: a wheel of its own, built here, installed alone, and a driver of six functions with it."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from bench import worlds
from bench.nodes import nodes_of
from packaging.requirements import Requirement

from kubewright.base.clock import SystemClock
from kubewright.driver.contract import ClassRequest, Driver, VolumeSpec
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.registry import Settings, load
from kubewright.providers.grpc.dispatch import GrpcDriver
from kubewright.testing.driver_conformance import Bench, DriverConformance
from kubewright.testing.scenes import class_request

pytestmark = [pytest.mark.looptime(False), pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[3]
PROJECT = ROOT / "packages" / "kubewright-driver"
EXAMPLE = ROOT / "examples" / "driver-python" / "memory.py"
CLOCK = SystemClock()
TAGS = {"kubernetes.io/cluster/tried": "1", "kubernetes.io/role/node": "1"}


def requirements(pyproject: Path) -> dict[str, Requirement]:
    project = tomllib.loads(pyproject.read_text())["project"]
    lines = [*project["dependencies"], *project.get("optional-dependencies", {}).get("grpc", ())]
    return {each.name: each for each in map(Requirement, lines)}


def needed(names: Sequence[str]) -> set[str]:
    """Distributions, and those that they need here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            asked = (Requirement(each) for each in distribution(name).requires or ())
            waiting += [
                each.name for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a user builds it, from the files of this repository and without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--no-index",
        "--no-deps",
        "-q",
    ]
    subprocess.run([*pip, "--no-build-isolation", "-w", folder, PROJECT], check=True, timeout=120)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel, what it says that it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    found = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", found]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", wheel], check=True, timeout=120)
    asked = subprocess.run([found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                           capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
    packages = Path(asked.stdout.strip())
    for name in needed(list(requirements(PROJECT / "pyproject.toml"))):
        for top in {each.parts[0] for each in distribution(name).files or () if each.parts[0] != ".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    return found


def test_its_wheel_has_what_is_imported_and_no_file_of_the_main_one(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        texts = {each: archive.read(each).decode() for each in names if each.endswith(".py")}
    assert {each.split("/")[0].partition("-")[0] for each in names} == {"kubewright_driver"}
    assert "kubewright_driver/py.typed" in names
    assert not [
        each for each, text in texts.items() if "\nfrom kubewright." in text or "\nimport kubewright." in text
    ]
    assert len(texts) < 40


def test_it_needs_what_it_imports_in_the_versions_of_the_main_distribution(python: Path) -> None:
    ours, main = requirements(PROJECT / "pyproject.toml"), requirements(ROOT / "pyproject.toml")
    assert {name: each.specifier for name, each in ours.items()} == {
        name: main[name].specifier for name in ours
    }
    show = "import kubewright_driver, json, sys; print(json.dumps(sorted(sys.modules)))"
    printed = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True, timeout=60)
    loaded = {each.split(".")[0] for each in json.loads(printed.stdout)}
    assert "kubewright" not in loaded
    assert {"grpc", "msgspec", "orjson", "prometheus_client", "structlog"} <= loaded


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param([], "the following arguments are required: --manager", id="no manager"),
        pytest.param(
            ["--manager", "unix:x", "--in-flight", "0"], "--in-flight 0: from 1 to 100", id="none at a time"
        ),
        pytest.param(
            ["--manager", "unix:x", "--in-flight", "many"], "invalid int value: 'many'", id="no number"
        ),
        pytest.param(["--manager", "http://foo"], "at unix:PATH or HOST:PORT, such as", id="a URL"),
        pytest.param(["--manager", "m:5000", "--key", "k"], "needs all three", id="a part of TLS"),
        pytest.param(
            [
                "--manager",
                "m:5000",
                *(f"--{each}=/no/file" for each in ("key", "certificate", "authorities")),
            ],
            "/no/file cannot be read: No such file or directory",
            id="no such file",
        ),
    ],
)
def test_what_is_wrong_with_the_arguments_is_one_sentence(
    python: Path, words: Sequence[str], said: str
) -> None:
    ended = subprocess.run([python, EXAMPLE, *words], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


@asynccontextmanager
async def driving(python: Path, address: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The example, which dials a manager; it ends by a signal."""
    process = await asyncio.create_subprocess_exec(python, EXAMPLE, "--manager", address)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(20):
            await process.wait()


class MemoryBench:
    """The example's cloud at one end of a socket, a manager at the other."""

    machine_class = class_request("small", provider="memory", tags=TAGS)
    other_class = class_request("small", provider="memory", tags={"kubernetes.io/cluster/other": "1"})
    broken_class: ClassRequest | None = class_request("broken", provider="memory", tags=["a"])

    def __init__(self, manager: GrpcDriver) -> None:
        self._manager = manager

    async def driver(self) -> Driver:
        async with asyncio.timeout(30):
            while True:
                try:
                    await self._manager.list(self.machine_class)
                    return self._manager
                except DriverError as error:
                    if error.code is not Code.Unavailable:
                        raise
                    await asyncio.sleep(0.05)

    async def restarted(self) -> Driver | None:
        return None

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        ours = {"csi": {"driver": "memory.example", "volumeHandle": "disk-7"}}
        return [VolumeSpec("pv1", {"nfs": {}}), VolumeSpec("pv2", ours)], ["disk-7"]


@pytest.fixture
def short() -> Iterator[Path]:
    """The path of a socket has 107 letters at most."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


class TestSixFunctions(DriverConformance):
    """The example, run by the small distribution, keeps the whole contract."""

    @pytest.fixture(autouse=True)
    def _environment(self, python: Path, short: Path) -> None:
        self.python, self.folder = python, short

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Bench]:
        manager = load("grpc", Settings(CLOCK, self.folder))
        assert isinstance(manager, GrpcDriver)
        term = asyncio.create_task(manager.lead())
        try:
            async with driving(self.python, f"unix:{self.folder / 'grpc' / 'drivers.sock'}"):
                yield MemoryBench(manager)
        finally:
            term.cancel()
            await asyncio.gather(term, return_exceptions=True)
            await manager.close()

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        return self._opened()


async def test_all_cases_of_the_integration_test_pass(python: Path, short: Path) -> None:
    address, data = f"unix:{short / 'g.sock'}", short / "up"
    up = ("up", "--data-dir", str(data), "--log-level", "error", "--worlds", "machines")
    listening = ("--driver", "grpc", "--driver-option", f"listen={address}")
    file = short / "class.json"
    meta = {"name": "test-mc-v1", "namespace": "default"}
    secret = {"name": "test-mc-secret", "namespace": "default"}
    spec = {"provider": "memory", "providerSpec": {"tags": TAGS}, "secretRef": secret}
    objects = [
        {"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": meta, **spec},
        {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"userData": "#!/bin/sh"}},
    ]
    file.write_text("\n---\n".join(map(json.dumps, objects)))
    async with (
        worlds.product((*up, *listening), ready=b"ready"),
        driving(python, address),
        nodes_of(data / "kubeconfig"),
    ):
        given = ("--control-kubeconfig", str(data / "kubeconfig"), "--machineclass-v1", str(file))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kubewright", "driver", "test", *given, "--poll-interval", "200ms"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=short,
            env={**os.environ, "NO_COLOR": "1"},
        )
        async with asyncio.timeout(240):
            printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    assert printed.decode().count(" passed") >= 10, printed.decode()
