"""What ``kubewright run`` prints as a process: its log on stderr, nothing on stdout, and no secret anywhere."""

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.machines.caches import TOKEN_PLACE
from kubewright.machines.machine.act import TOKEN_NAMESPACE
from kubewright.providers.sim import manifests
from kubewright.testing.kubectl import Kubectl

pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False)]

CRDS = str(Path(__file__).parents[2] / "deploy" / "crds")
END_SECONDS = 20.0
PASSWORD = "hush-4711"
USER_DATA = f"#cloud-config\npassword: {PASSWORD}\ntoken: {TOKEN_PLACE.decode()}\n"
MACHINE = "neverjoin-log"
"""Its VM never joins, so its bootstrap token stays."""


@dataclass
class Printed:
    """What the process printed, once it has ended."""

    stdout: str = ""
    stderr: str = ""


@contextmanager
def program(kubectl: Kubectl) -> Iterator[Printed]:
    words = ["run", "--driver=sim", "--allow-simulated-nodes", f"--kubeconfig={kubectl.kubeconfig}"]
    command = [sys.executable, "-m", "kubewright", *words, f"--namespace={kubectl.namespace}", "--v=9"]
    printed, pipe = Printed(), subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            yield printed
        finally:
            running.terminate()
            printed.stdout, printed.stderr = running.communicate(timeout=END_SECONDS)


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def objects(namespace: str) -> str:
    """A class whose Secret has a password in two places, and a machine of it."""
    secret: dict[str, Any] = manifests.secret(namespace)
    secret["data"] = {"userData": encoded(USER_DATA), "apiKey": encoded(PASSWORD)}
    machine = {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": MACHINE, "namespace": namespace},
        "spec": {"class": {"kind": "MachineClass", "name": "small"}},
    }
    return yaml.safe_dump_all([secret, manifests.machine_class("small", namespace), machine])


def token_of(kubectl: Kubectl) -> str:
    """The secret part of the machine's bootstrap token."""
    listed = json.loads(kubectl("get", "secrets", "-n", TOKEN_NAMESPACE, "-o", "json"))
    tokens = [each for each in listed["items"] if each["type"] == "bootstrap.kubernetes.io/token"]
    (data,) = [each["data"] for each in tokens if MACHINE in b64decode(each["data"]["description"]).decode()]
    return b64decode(data["token-secret"]).decode()


def test_the_log_is_on_stderr_and_shows_no_secret(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", CRDS)
    kubectl("wait", "--for=condition=Established", "-f", CRDS, "--timeout=20s")
    with program(kubectl) as printed:
        kubectl("apply", "-f", "-", stdin=objects(kubectl.namespace))
        pending = "jsonpath={.status.currentStatus.phase}=Pending"
        kubectl("wait", f"--for={pending}", f"machines.machine.sapcloud.io/{MACHINE}", "--timeout=30s")
        token = token_of(kubectl)
    assert printed.stdout == ""
    assert any("plan" in line and MACHINE in line for line in printed.stderr.splitlines())
    secrets = (PASSWORD, token, USER_DATA)
    assert [each for each in (*secrets, *map(encoded, secrets)) if each in printed.stderr] == []
