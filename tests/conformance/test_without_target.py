"""``kubewright run --target-kubeconfig none`` as a user starts it: machines without nodes, seen with kubectl."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kubewright.providers.sim import manifests
from kubewright.testing.kubectl import Kubectl

pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False)]

ROOT = Path(__file__).parents[2]
CRDS = str(ROOT / "deploy" / "crds")
DEPLOYMENT = """
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineDeployment
metadata: {name: workers}
spec:
  replicas: 2
  selector: {matchLabels: {pool: workers}}
  template:
    metadata: {labels: {pool: workers}}
    spec: {class: {kind: MachineClass, name: small}}
"""
END_SECONDS = 20.0


@contextmanager
def program(kubectl: Kubectl) -> Iterator[None]:
    """The program on the server of this kubectl, without another cluster for nodes."""
    words = ["run", "--driver=sim", "--target-kubeconfig=none", f"--kubeconfig={kubectl.kubeconfig}"]
    command = [sys.executable, "-m", "kubewright", *words, f"--namespace={kubectl.namespace}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            yield
        finally:
            running.terminate()
            said = running.communicate(timeout=END_SECONDS)[0]
    assert running.returncode == 0, said
    assert "there is no target cluster" in said


def test_machines_are_available_without_nodes_and_go(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", CRDS)
    kubectl("wait", "--for=condition=Established", "-f", CRDS, "--timeout=20s")
    small = [manifests.secret(kubectl.namespace), manifests.machine_class("small", kubectl.namespace)]
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(small))
    with program(kubectl):
        kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
        available = "jsonpath={.status.availableReplicas}=2"
        kubectl(
            "wait", f"--for={available}", "machinedeployments.machine.sapcloud.io/workers", "--timeout=30s"
        )
        phases = kubectl(
            "get", "machines.machine.sapcloud.io", "-o", "jsonpath={.items[*].status.currentStatus.phase}"
        )
        assert phases.split() == ["Available", "Available"]
        addressed = kubectl(
            "get", "machines.machine.sapcloud.io", "-o", "jsonpath={.items[*].status.addresses[*].type}"
        )
        assert addressed.split() == ["Hostname", "InternalIP"] * 2
        names = "jsonpath={.items[*].metadata.name}"
        machines = kubectl("get", "machines.machine.sapcloud.io", "-o", names).split()
        nodes = kubectl("get", "nodes", "-o", names).split()  # other tests on this server have left some
        assert (len(machines), {*machines} & {*nodes}) == (2, set())
        kubectl("delete", "machinedeployments.machine.sapcloud.io", "workers", "--timeout=30s")
        kubectl("wait", "--for=delete", "machines.machine.sapcloud.io", "--all", "--timeout=30s")
