"""The integration test for drivers (`kubewright driver test`) with driver aws, on an EC2 for tests (moto), whose instances
boot nothing: their nodes are made here. It is in this lane since it takes a minute."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from bench import worlds
from bench.aws import KEYS, Ec2, serving
from bench.nodes import NodeMaker
from tests.vm.conftest import ROOT

from kubewright.base.clock import SystemClock
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers

pytestmark = [pytest.mark.vm, pytest.mark.looptime(False), pytest.mark.timeout(600)]
SECONDS = 500.0


def class_of(ec2: Ec2) -> str:
    """The file with the class and its Secret."""
    objects = [
        {
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "MachineClass",
            "metadata": {"name": "test-mc-v1"},
            "provider": "AWS",
            "providerSpec": ec2.provider_spec(),
            "secretRef": {"name": "test-mc-secret", "namespace": "default"},
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "test-mc-secret"}, "stringData": KEYS},
    ]
    return "\n---\n".join(map(json.dumps, objects))


async def ran(*words: str) -> tuple[int | None, str]:
    """How a command of kubewright ends, and what it says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubewright", *words),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(SECONDS):
        said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_all_ten_cases_pass_with_instances_of_ec2(tmp_path: Path) -> None:
    ec2, clock, kubeconfig = Ec2(), SystemClock(), tmp_path / "up" / "kubeconfig"
    (tmp_path / "class.yaml").write_text(class_of(ec2))
    async with serving(ec2) as url:
        driver = ("--driver", "aws", "--driver-option", f"endpointUrl={url}")
        up = (
            "up",
            "--data-dir",
            str(tmp_path / "up"),
            "--log-level",
            "error",
            "--worlds",
            "machines",
            *driver,
        )
        async with worlds.product(up, ready=b"ready"):
            client = Client(config.load(kubeconfig, clock=clock), clock)
            informers = Informers(client)
            nodes = NodeMaker(client, informers)
            tasks = [asyncio.create_task(each.run()) for each in (informers, nodes)]
            try:
                given = ("--machineclass-v1", str(tmp_path / "class.yaml"), *driver)
                code, said = await ran("driver", "test", "--control-kubeconfig", str(kubeconfig), *given)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await client.transport.close()
    assert code == 0, said
    assert said.count(" passed") >= 10, said
    assert ec2.live == 0
