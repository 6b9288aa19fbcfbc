"""The integration test for drivers (`kubewright driver test`), ten of ten: with driver aws on an EC2 for tests (moto), and
with drivers in other processes, the one in Go and `driver serve qemu`, on a real kube-apiserver. None of their VMs boots
a kubelet: nodes are made here. It is in this lane since each takes a minute or two."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from bench import worlds
from bench.aws import KEYS, Ec2, serving
from bench.nodes import nodes_of
from tests.vm.conftest import ROOT

from kubewright.base.clock import SystemClock
from kubewright.driver.contract import stub
from kubewright.driver.registry import Settings, load
from kubewright.providers.qemu.host import LINE, boot_sector
from kubewright.testing.real_kubernetes import RealKubernetes, find
from kubewright.testing.scenes import class_request

pytestmark = [pytest.mark.vm, pytest.mark.looptime(False), pytest.mark.timeout(900)]
SECONDS = 800.0
TAGS = {"kubernetes.io/cluster/tried": "1", "kubernetes.io/role/node": "1"}
TINY = {
    "image": "tiny",
    "memory": "32Mi",
    "disk": "1Mi",
    "architecture": "amd64",
    "accelerator": "tcg",
    "tags": {"vm": TAGS},
}
"""A VM of 32 MiB that boots a sector and prints a line."""


def class_file(path: Path, provider: str, spec: Mapping[str, Any], secret: Mapping[str, str]) -> Path:
    """The file with the class and its Secret."""
    objects = [
        {
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "MachineClass",
            "metadata": {"name": "test-mc-v1"},
            "provider": provider,
            "providerSpec": spec,
            "secretRef": {"name": "test-mc-secret", "namespace": "default"},
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "test-mc-secret"}, "stringData": secret},
    ]
    path.write_text("\n---\n".join(map(json.dumps, objects)))
    return path


async def ran(*words: str, cwd: Path = ROOT) -> tuple[int | None, str]:
    """How a command of kubewright ends, and what it says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubewright", *words),
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(SECONDS):
        printed, _ = await process.communicate()
    return process.returncode, printed.decode()


async def test_all_ten_cases_pass_with_instances_of_ec2(tmp_path: Path) -> None:
    ec2, kubeconfig = Ec2(), tmp_path / "up" / "kubeconfig"
    file = class_file(tmp_path / "class.yaml", "AWS", ec2.provider_spec(), KEYS)
    async with serving(ec2) as url:
        driver = ("--driver", "aws", "--driver-option", f"endpointUrl={url}")
        quiet = ("--data-dir", str(tmp_path / "up"), "--log-level", "error", "--worlds", "machines")
        async with worlds.product(("up", *quiet, *driver), ready=b"ready"), nodes_of(kubeconfig):
            given = ("--machineclass-v1", str(file), *driver)
            code, printed = await ran("driver", "test", "--control-kubeconfig", str(kubeconfig), *given)
    assert code == 0, printed
    assert printed.count(" passed") >= 10, printed
    assert ec2.live == 0


def records_of_vms(folder: Path) -> list[dict[str, Any]]:
    """What driver qemu has written down of the VMs in its folder."""
    return [json.loads(each.read_bytes()) for each in folder.glob("qemu/vms/*/vm.json")]


async def ended(folder: Path) -> list[str]:
    """End the VMs that are left in the folder of driver qemu, if it made any; their names."""
    records = await asyncio.to_thread(records_of_vms, folder)
    if records:
        driver = load("qemu", Settings(SystemClock(), folder, {"images": str(folder.parent / "images")}))
        for vm in records:
            left = stub(vm["name"], vm["namespace"], vm["owner_uid"], provider_id=vm["provider_id"])
            await driver.delete(class_request("left", provider="qemu", **TINY).of(left))
    return [vm["name"] for vm in records]


def in_go(folder: Path, address: str, _kubeconfig: Path) -> tuple[list[str], str, Mapping[str, Any]]:
    """The example in Go, built; its provider and providerSpec."""
    if (go := shutil.which("go")) is None:
        pytest.skip("there is no Go on PATH")
    shutil.copytree(ROOT / "examples" / "driver-go", folder / "source")
    shutil.copy(ROOT / "src/kubewright/providers/grpc/driver.proto", folder / "source")
    subprocess.run([go, "build", "-o", "driver", "."], cwd=folder / "source", check=True, timeout=240)
    return [str(folder / "source" / "driver"), address], "go", {"tags": TAGS}


def in_python(folder: Path, address: str, _kubeconfig: Path) -> tuple[list[str], str, Mapping[str, Any]]:
    """Three functions and a main, by the package for authors."""
    return (
        [sys.executable, str(Path(__file__).with_name("driver_in_python.py")), address],
        "memory",
        {"tags": TAGS},
    )


def qemu_served(folder: Path, address: str, kubeconfig: Path) -> tuple[list[str], str, Mapping[str, Any]]:
    """``driver serve qemu``, whose VMs boot one sector."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("qemu-system-x86_64 is not installed")
    (images := folder / "images").mkdir()
    (images / "tiny").write_bytes(boot_sector(LINE))
    serve = [sys.executable, "-m", "kubewright", "driver", "serve", "qemu", "--manager", address]
    options = [f"dataDir={folder / 'vms'}", f"images={images}"]
    chosen = [word for each in options for word in ("--driver-option", each)]
    return [*serve, "--kubeconfig", str(kubeconfig), *chosen], "qemu", TINY


@pytest.mark.parametrize("driver", [in_go, in_python, qemu_served])
async def test_all_ten_cases_pass_with_a_driver_in_another_process(driver: Any, tmp_path: Path) -> None:
    with TemporaryDirectory() as short:  # the path of a socket has 107 letters at most
        address = f"unix:{short}/grpc.sock"
        async with RealKubernetes(find(), SystemClock()) as real, nodes_of(real.kubeconfig):
            argv, provider, spec = await asyncio.to_thread(driver, tmp_path, address, real.kubeconfig)
            file = class_file(tmp_path / "class.yaml", provider, spec, {"userData": "#!/bin/sh"})
            process = await asyncio.create_subprocess_exec(*argv, cwd=tmp_path)
            try:
                manager = ("--start-manager", "--driver", "grpc", "--driver-option", f"listen={address}")
                given = ("--control-kubeconfig", str(real.kubeconfig), "--machineclass-v1", str(file))
                code, printed = await ran("driver", "test", *manager, *given, cwd=tmp_path)
            finally:
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
                left = await ended(tmp_path / "vms")
    assert code == 0, printed
    assert printed.count(" passed") >= 11, printed
    assert "skipped" not in printed, printed
    assert not left, "VMs are left"
