"""Bootstrap data beside upstream's: the manager of Cluster API v1.7.1 and our decisions, on the same objects.

Upstream's manager makes the data of each case on a real kube-apiserver; then ours is decided from what the server
has, and both are parsed. What differs on purpose is taken out by name (``normal``, ``same_lines``).
"""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from kubewright.api.bootstrap import manifests as bootstrap
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.bootstrap.validate import with_defaults
from kubewright.api.cluster import manifests as core
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.base.clock import SystemClock
from kubewright.bootstrap.decide import decide
from kubewright.bootstrap.generation import completed
from kubewright.bootstrap.lock import Lock
from kubewright.bootstrap.seen import BootstrapSettings, Seen, TokenSeen, WriteData
from kubewright.pki.clusters import KeyPair, new_pair
from kubewright.pki.credentials import Purpose, secret_name
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes import Options, RealKubernetes, capi, find
from kubewright.testing.servers import real_api

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(400)]

FLAGS = ("--feature-gates=MachinePool=false,KubeadmBootstrapFormatIgnition=true", "--v=0")
PURPOSES = [each for each in Purpose if each is not Purpose.ETCD_CLIENT]
HOST = {
    "files": [
        {"path": "/etc/a", "owner": "root:root", "permissions": "0640", "content": "one\ntwo: 'three'\n"},
        {"path": "/etc/b", "permissions": "0600", "encoding": "base64", "content": "aGVsbG8="},
    ],
    "users": [
        {
            "name": "ann",
            "gecos": "Ann",
            "groups": "adm, wheel",
            "homeDir": "/srv/ann",
            "shell": "/bin/bash",
            "passwd": "$6$rounds",
            "primaryGroup": "staff",
            "lockPassword": False,
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
            "sshAuthorizedKeys": ["ssh-ed25519 AAAA ann"],
        },
        {"name": "bob"},
    ],
    "ntp": {"enabled": True, "servers": ["0.pool.example.com", "1.pool.example.com"]},
    "diskSetup": {
        "partitions": [{"device": "/dev/sdb", "layout": True, "overwrite": False, "tableType": "gpt"}],
        "filesystems": [
            {
                "device": "/dev/sdb",
                "filesystem": "ext4",
                "label": "etcd",
                "overwrite": True,
                "extraOpts": ["-F"],
            }
        ],
    },
    "mounts": [["etcd", "/var/lib/etcd", "noatime"]],
    "preKubeadmCommands": ["hostname node-1", "echo \"a: 'b'\""],
    "postKubeadmCommands": ["echo done"],
    "verbosity": 5,
}
REGISTRATION = {
    "name": "{{ ds.meta_data.local_hostname }}",
    "criSocket": "unix:///run/x.sock",
    "kubeletExtraArgs": {"node-labels": "a=b"},
    "ignorePreflightErrors": ["Swap"],
    "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
}
FULL = {
    "clusterConfiguration": {
        "apiServer": {
            "extraArgs": {"v": "4"},
            "certSANs": ["localhost"],
            "timeoutForControlPlane": "5m0s",
            "extraVolumes": [
                {"name": "n", "hostPath": "/h", "mountPath": "/m", "readOnly": True, "pathType": "File"}
            ],
        },
        "controllerManager": {"extraArgs": {"a": "b"}},
        "etcd": {
            "local": {"dataDir": "/d", "imageTag": "3.5", "extraArgs": {"c": "d"}, "serverCertSANs": ["s"]}
        },
        "networking": {"dnsDomain": "x.local"},
        "dns": {"imageTag": "v1"},
        "featureGates": {"G": True},
        "imageRepository": "r.example.com",
        "certificatesDir": "/pki",
    },
    "initConfiguration": {
        "nodeRegistration": REGISTRATION,
        "localAPIEndpoint": {"advertiseAddress": "10.0.0.1", "bindPort": 6443},
        "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttl": "24h0m0s", "groups": ["g"]}],
        "skipPhases": ["addon/kube-proxy"],
        "patches": {"directory": "/p"},
    },
}
DISCOVERY = {
    "bootstrapToken": {
        "token": "abcdef.0123456789abcdef",
        "apiServerEndpoint": "10.0.0.1:6443",
        "caCertHashes": ["sha256:00"],
    },
    "timeout": "5m0s",
}
JOIN = {
    "joinConfiguration": {
        "nodeRegistration": REGISTRATION,
        "discovery": DISCOVERY,
        "skipPhases": ["preflight"],
    }
}
NO_TAINTS = {"joinConfiguration": {"nodeRegistration": {"taints": []}, "discovery": DISCOVERY}}
PLANE = {"joinConfiguration": {**JOIN["joinConfiguration"], "controlPlane": {}}}
FILE = {"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/etc/k"}}}}
IGNITION = {"format": "ignition"}
FIRST, MORE = True, False

CASES = {
    "first-least": (FIRST, True, "v1.30.0", {"clusterConfiguration": {}, "initConfiguration": {}}),
    "first-full": (FIRST, True, "v1.30.0", {**FULL, **HOST}),
    "first-v1beta2": (FIRST, True, "v1.21.3", FULL),
    "first-ignition": (FIRST, True, "v1.28.0", {**FULL, **HOST, **IGNITION}),
    "plane": (MORE, True, "v1.30.0", {**PLANE, **HOST}),
    "plane-v1beta2": (MORE, True, "v1.20.0", PLANE),
    "worker": (MORE, False, "v1.30.0", {**JOIN, **HOST}),
    "worker-v1beta2": (MORE, False, "v1.21.0", JOIN),
    "worker-without-taints": (MORE, False, "v1.29.0", NO_TAINTS),
    "worker-by-a-file": (MORE, False, "v1.29.0", FILE),
    "worker-ignition": (MORE, False, "v1.30.0", {**JOIN, **HOST, **IGNITION}),
}
"""By name of the cluster: whether it is to be initialized, of the control plane, the version, the spec."""


@asynccontextmanager
async def upstream(folder: Path) -> AsyncIterator[Api]:
    """A real server with our CRDs, and upstream's manager at work."""
    async with (
        RealKubernetes(find(), SystemClock(), Options(fsync=False)) as real_kubernetes,
        real_api(real_kubernetes) as api,
    ):
        for each in (*core.crds(), *bootstrap.crds()):
            (await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)).ok()

        async def served() -> bool:
            kinds = (MACHINE, CLUSTER, KUBEADM_CONFIG)
            return all([(await api.get(kind.resource.path("default"))).code == 200 for kind in kinds])

        await api.eventually(served, "the kinds are served")
        program = capi.find().bootstrap
        manager = await capi.start(program, real_kubernetes.kubeconfig, folder, api.clock, *FLAGS)
        try:
            yield api
        except AssertionError as error:
            error.add_note(manager.last_lines())
            raise
        finally:
            await manager.stop()


async def make(
    api: Api, name: str, *, control_plane: bool, version: str, spec: dict, initialized: bool
) -> None:
    """A Cluster with one Machine, as the core leaves them for the provider."""
    labels = {"cluster.x-k8s.io/cluster-name": name}
    if control_plane:
        labels["cluster.x-k8s.io/control-plane"] = ""
    network = {
        "pods": {"cidrBlocks": ["10.1.0.0/16", "fd00::/48"]},
        "services": {"cidrBlocks": ["10.2.0.0/16"]},
    }
    cluster = {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}, "clusterNetwork": network}
    if initialized:
        for purpose in PURPOSES:
            await api.post(api.at("secrets"), pair(name, purpose, labels))
    (await post(api, CLUSTER, name, spec=cluster)).ok()
    ref = {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1", "kind": "KubeadmConfig", "name": name}
    machine = {
        "clusterName": name,
        "version": version,
        "bootstrap": {"configRef": ref},
        "infrastructureRef": {},
    }
    made = (await post(api, MACHINE, name, spec=machine, labels=labels)).ok()
    owner = {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Machine",
        "name": name,
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    given = KUBEADM_CONFIG.from_plain({"spec": spec})
    plain = KUBEADM_CONFIG.to_plain(with_defaults(given))["spec"]  # no admission is called here
    (await post(api, KUBEADM_CONFIG, name, spec=plain, labels=labels, ownerReferences=[owner])).ok()
    when = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {"type": "ControlPlaneInitialized", "status": str(initialized), "lastTransitionTime": when}
    status = {"status": {"infrastructureReady": True, "conditions": [condition]}}
    await api.patch(f"{CLUSTER.resource.path('default', name)}/status", status)


async def post(api: Api, kind, name: str, *, spec, **metadata):
    body = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }
    return await api.post(kind.resource.path("default"), body)


def pair(cluster: str, purpose: Purpose, labels: dict) -> dict:
    made = new_pair(purpose, datetime.now(UTC), BootstrapSettings().algorithm)
    texts = {"tls.crt": made.certificate.decode(), "tls.key": made.key.decode()}
    name = secret_name(cluster, purpose)
    return {
        "metadata": {"name": name, "labels": labels},
        "type": "cluster.x-k8s.io/secret",
        "stringData": texts,
    }


async def get(api: Api, kind, name: str):
    return kind.from_plain((await api.get(kind.resource.path("default", name))).ok())


async def secret(api: Api, name: str) -> dict[str, bytes]:
    found = (await api.get(api.at("secrets", name))).ok()
    return {key: base64.b64decode(value) for key, value in found["data"].items()}


async def ours(api: Api, name: str, spec: dict) -> tuple[str, object]:
    """Our data for the case as it was given, and the spec that we would leave."""
    config = await get(api, KUBEADM_CONFIG, name)
    plain = KUBEADM_CONFIG.to_plain(config)
    given = KUBEADM_CONFIG.from_plain({**plain, "spec": spec, "status": {}})
    pairs = {}
    for purpose in PURPOSES:
        data = await secret(api, secret_name(name, purpose))
        pairs[purpose] = KeyPair(data["tls.crt"], data["tls.key"])
    now = datetime.now(UTC)
    seen = Seen(
        config=given,
        now=now,
        settings=BootstrapSettings(),
        machine=await get(api, MACHINE, name),
        cluster=await get(api, CLUSTER, name),
        pairs=pairs,
        token=TokenSeen(until=now.replace(year=now.year + 1), next=now.replace(year=now.year + 1)),
    )
    if seen.role.name == "INIT":
        seen = Seen(**{**fields(seen), "lock": Lock("x", name, holder_exists=True)})
    else:  # what is filled in is on record first
        whole = {**plain, "spec": {**spec, **filled(completed(seen))}, "status": {}}
        seen = Seen(**{**fields(seen), "config": KUBEADM_CONFIG.from_plain(whole)})
    step = decide(seen).steps[-1]
    assert isinstance(step, WriteData), decide(seen)
    return step.text, completed(seen)


def fields(seen: Seen) -> dict:
    return {name: getattr(seen, name) for name in Seen.__dataclass_fields__}


def filled(spec) -> dict:
    plain = KUBEADM_CONFIG.to_plain(KUBEADM_CONFIG.type(spec=spec))
    return {"joinConfiguration": plain["spec"]["joinConfiguration"]}


def normal(value):
    """Without what is empty, which upstream writes, and without what is false, which it leaves out or not."""
    if isinstance(value, dict):
        found = {key: normal(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each or key == "taints"}
    if isinstance(value, list):
        return [normal(each) for each in value]
    return value


def documents(text: str) -> list:
    return [normal(each) for each in yaml.safe_load_all(text) if each]


def same_lines(text: str) -> list[str]:
    """What a program reads of a text: no comments, no blank lines, single spaces."""
    lines = (" ".join(line.partition("#")[0].split()).replace(" = ", "=") for line in text.splitlines())
    return [line for line in lines if line]


def cloud_config(text: str) -> dict:
    assert text.splitlines()[:2] == ["## template: jinja", "#cloud-config"]
    found = normal(
        yaml.safe_load(
            text.replace("{{ ds", "'{{ ds").replace("hostname }}", "hostname }}'") if False else text
        )
    )
    for file in found["write_files"]:
        if file["path"].startswith("/run/kubeadm/"):
            file["content"] = documents(file["content"])
        elif file["path"] == "/run/cluster-api/placeholder":
            del file["content"]
        elif "content" in file:
            file["content"] = file["content"].rstrip("\n")
    found["runcmd"] = [" ".join(each.split()) for each in found["runcmd"]]
    return found


def content(source: str) -> str:
    kind, _, rest = source.partition(",")
    return base64.b64decode(rest).decode() if kind.endswith("base64") else unquote(rest)


def ignition(text: str) -> dict:
    found = normal(json.loads(text))
    files = {}
    for file in found["storage"].pop("files"):
        path, said = file["path"], content(file.pop("contents")["source"])
        files[path] = (file, documents(said) if path == "/etc/kubeadm.yml" else same_lines(said))
    units = {each["name"]: each for each in found["systemd"].pop("units")}
    for unit in units.values():
        unit["contents"] = same_lines(unit.get("contents", ""))
    return {**found, "files": files, "units": units}


def differences(theirs, mine, path=""):
    """Where two values differ, and what stands there."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in sorted(theirs.keys() | mine.keys()):
            yield from differences(theirs.get(key), mine.get(key), f"{path}.{key}")
    elif isinstance(theirs, list | tuple) and isinstance(mine, list | tuple) and len(theirs) == len(mine):
        for number, (one, other) in enumerate(zip(theirs, mine, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif theirs != mine:
        yield path, (theirs, mine)


async def test_the_data_of_each_machine_says_what_upstreams_says(tmp_path: Path) -> None:
    async with upstream(tmp_path) as api:
        for name, (initialize, control_plane, version, spec) in CASES.items():
            await make(
                api, name, control_plane=control_plane, version=version, spec=spec, initialized=not initialize
            )
        different = {}
        for name, (_, _, _, spec) in CASES.items():

            async def ready(name=name) -> bool:
                return (await get(api, KUBEADM_CONFIG, name)).status.ready

            await api.eventually(ready, f"upstream made the data of {name}")
            data = await secret(api, name)
            made, _ = await ours(api, name, spec)
            read = ignition if data["format"] == b"ignition" else cloud_config
            theirs, mine = read(data["value"].decode()), read(made)
            different |= {f"{name}{path}": pair for path, pair in differences(theirs, mine)}
        assert not different, "\n".join(f"{path}: {pair}" for path, pair in different.items())
