"""The kubelet's double: what of a pod becomes which program, and what of a program becomes which status."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.processes.program import Command, HttpGet, Phase, Probe, Status, TcpConnect
from kubewright.testing.kubelets.hosts import hosts_of
from kubewright.testing.kubelets.programs import Ground, program_of
from kubewright.testing.kubelets.statuses import status_of

GROUND = Ground(Path("/run/p"), {"data-p": Path("/run/claims/d")}, "127.70.0.1", {"etcd": "/opt/etcd"})
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONTENTS = {("secret", "s"): {"tls.crt": b"c", "tls.key": b"k"}, ("configMap", "c"): {"policy": b"p"}}


def pod(*, volumes=(), mounts=(), status=None, **container):
    made = {
        "name": "main",
        "image": "etcd:v3",
        "command": ["etcd"],
        "volumeMounts": list(mounts),
        **container,
    }
    return {
        "metadata": {"name": "p", "namespace": "team", "uid": "u"},
        "spec": {"containers": [made], "volumes": list(volumes), "subdomain": "svc"},
        "status": status or {},
    }


def made(**changes):
    return program_of(pod(**changes), "p", GROUND, lambda kind, name: CONTENTS[kind, name])


def mount(name, path):
    return {"name": name, "mountPath": path}


SECRET = {"name": "v", "secret": {"secretName": "s"}}
PKI = {"volumes": [SECRET], "mounts": [mount("v", "/etc/pki/server")]}
DATA = {
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data-p"}}],
    "mounts": [mount("v", "/data")],
}


@pytest.mark.parametrize(
    ("changes", "argument", "written"),
    [
        pytest.param({}, "--name=x", "--name=x", id="no path"),
        pytest.param(PKI, "--cert=/etc/pki/server/a", "--cert=/run/p/files/etc/pki/server/a", id="a mount"),
        pytest.param(PKI, "--root=/etc/pki", "--root=/run/p/files/etc/pki", id="what is above a mount"),
        pytest.param(PKI, "--root=/etc/pki-2", "--root=/etc/pki-2", id="a name that begins so"),
        pytest.param(PKI, "/opt/etc/pki/server", "/opt/etc/pki/server", id="a path that ends so"),
        pytest.param(DATA, "--dir=/data/x", "--dir=/run/claims/d/x", id="a claim"),
        pytest.param(
            {**PKI, "env": [{"name": "PKI", "value": "/etc/pki"}]},
            "--cert=$(PKI)/server/a",
            "--cert=/run/p/files/etc/pki/server/a",
            id="a path in a variable, written once",
        ),
        pytest.param({}, "--x=$(NONE)", "--x=$(NONE)", id="a variable that there is not"),
    ],
)
def test_paths_of_the_container_become_those_of_its_folders(changes, argument, written):
    assert made(args=[argument], **changes).argv == ("/opt/etcd", written)


def test_variables_tell_a_pod_who_it_is():
    fields = {"NAME": "metadata.name", "IN": "metadata.namespace", "AT": "status.podIP"}
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    found = made(env=[*env, {"name": "URL", "value": "http://$(AT)"}])
    assert found.environment == {"NAME": "p", "IN": "team", "AT": "127.70.0.1", "URL": "http://127.70.0.1"}


@pytest.mark.parametrize(
    ("volume", "files"),
    [
        pytest.param(SECRET, {"etc/x/tls.crt": b"c", "etc/x/tls.key": b"k"}, id="a Secret"),
        pytest.param(
            {"name": "v", "secret": {"secretName": "s", "items": [{"key": "tls.crt", "path": "ca"}]}},
            {"etc/x/ca": b"c"},
            id="some entries of it",
        ),
        pytest.param({"name": "v", "configMap": {"name": "c"}}, {"etc/x/policy": b"p"}, id="a ConfigMap"),
        pytest.param(
            {
                "name": "v",
                "projected": {
                    "sources": [
                        {"secret": {"name": "s", "items": [{"key": "tls.key", "path": "a/k"}]}},
                        {"configMap": {"name": "c"}},
                    ]
                },
            },
            {"etc/x/a/k": b"k", "etc/x/policy": b"p"},
            id="both in one volume",
        ),
    ],
)
def test_volumes_are_files(volume, files):
    assert made(volumes=[volume], mounts=[mount("v", "/etc/x")]).files == files


@pytest.mark.parametrize(
    ("asked", "check"),
    [
        pytest.param(
            {"httpGet": {"path": "/z", "port": "web"}}, HttpGet("http://127.70.0.1:81/z"), id="HTTP"
        ),
        pytest.param(
            {"httpGet": {"port": 9, "scheme": "HTTPS", "host": "h"}},
            HttpGet("https://h:9/"),
            id="HTTPS elsewhere",
        ),
        pytest.param({"tcpSocket": {"port": "web"}}, TcpConnect("127.70.0.1", 81), id="a connection"),
        pytest.param({"exec": {"command": ["true"]}}, Command(("true",)), id="a command"),
    ],
)
def test_probes(asked, check):
    found = made(readinessProbe={**asked, "periodSeconds": 2}, ports=[{"name": "web", "containerPort": 81}])
    assert found.readiness == Probe(check, period=2.0)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"readinessProbe": {"grpc": {"port": 1}}}, id="a probe"),
        pytest.param(
            {"volumes": [{"name": "v", "hostPath": {}}], "mounts": [mount("v", "/x")]}, id="a volume"
        ),
        pytest.param({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {}}}]}, id="a variable"),
        pytest.param(
            {
                "volumes": [
                    {"name": "v", "secret": {"secretName": "s", "items": [{"key": "x", "path": "x"}]}}
                ],
                "mounts": [mount("v", "/x")],
            },
            id="a key that the Secret has not",
        ),
    ],
)
def test_what_the_double_cannot_do_it_refuses(changes):
    with pytest.raises(InvalidInput):
        made(**changes)


def shown(seen, **changes):
    status = status_of(pod(), seen, "127.70.0.1", NOW, **changes)
    (container,) = status["containerStatuses"]
    ready = {each["type"]: each["status"] for each in status["conditions"]}["Ready"]
    return status["phase"], ready, container["restartCount"], container["state"]


STARTED = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param(
            Status("p", Phase.RUNNING, ready=True, since=NOW.timestamp()),
            ("Running", "True", 0, STARTED),
            id="it is ready",
        ),
        pytest.param(
            Status("p", Phase.STARTING, since=NOW.timestamp()),
            ("Running", "False", 0, STARTED),
            id="it starts",
        ),
        pytest.param(
            Status("p", Phase.BACK_OFF, restarts=2, message="it ended with exit code 3"),
            (
                "Running",
                "False",
                2,
                {"waiting": {"reason": "CrashLoopBackOff", "message": "it ended with exit code 3"}},
            ),
            id="it ends again and again",
        ),
        pytest.param(
            None, ("Pending", "False", 0, {"waiting": {"reason": "ContainerCreating"}}), id="not yet"
        ),
    ],
)
def test_the_status_of_a_pod(seen, told):
    assert shown(seen) == told


def test_what_is_missing_is_told():
    state = {"waiting": {"reason": "ContainerCreating", "message": "no Secret s"}}
    assert shown(None, missing="no Secret s")[3] == state


def test_pods_have_names_of_their_own_and_of_their_service():
    lines = hosts_of([pod()]).splitlines()
    assert lines[0] == "127.0.0.1 localhost"
    assert lines[1].split()[1:] == ["p.svc.team.svc", "svc.team.svc"]
