"""From a manifest to the program of a process: every field that it may have, and every one that it may not."""

from dataclasses import replace
from importlib.resources import files as resources
from itertools import pairwise

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.processes.allowed import unsafe, unsupported
from kubewright.controlplanes.hosting.processes.host import LONGEST, reason
from kubewright.controlplanes.hosting.processes.instances import (
    SEARCH_PATH,
    ProgramSettings,
    Site,
    command_of,
    files,
    folders,
    program_of,
)
from kubewright.controlplanes.templates import catalog
from kubewright.controlplanes.templates.render import Rendered
from kubewright.processes.program import HttpGet, Probe, TcpConnect

OWNER = OwnerReference(api_version="v1", kind="Toy", name="toy", uid="u")
PLACE = WorkloadIdentity("team", "demo", Component.ETCD, OWNER)
SITE = Site("/opt/etcd", "127.64.0.9", "/p")
HOME = "/p/team/demo/etcd-1"
CONTAINER = {"name": "toy", "command": ["toy"], "args": []}


def manifest(pod=None, claims=(), **container):
    spec = {"containers": [{**CONTAINER, **container}], **(pod or {})}
    return {"kind": "StatefulSet", "spec": {"template": {"spec": spec}, "volumeClaimTemplates": list(claims)}}


def workload(found, contents=None, **environment):
    return Workload(PLACE, "3.6.8", Rendered([found]), 3, contents or {}, environment)


def program(pod=None, *, site=SITE, contents=None, environment=None, **container):
    return program_of(workload(manifest(pod, **container), contents, **environment or {}), 1, site)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param(["--name=$(INSTANCE)"], ["--name=demo-etcd-1"], id="its name"),
        pytest.param(["--listen=https://$(ADDRESS):1"], ["--listen=https://127.64.0.9:1"], id="its address"),
        pytest.param(["--url=https://$(HOST):1"], ["--url=https://127.64.0.9:1"], id="where others reach it"),
        pytest.param(["--ns=$(NAMESPACE)"], ["--ns=team"], id="its namespace"),
        pytest.param(
            ["--ca=$(PKI_DIR)/ca/tls.crt"],
            [f"--ca={HOME}/files/etc/kubernetes/pki/ca/tls.crt"],
            id="its certificates",
        ),
        pytest.param(
            ["--audit=$(FILES_DIR)/a.yaml"],
            [f"--audit={HOME}/files/etc/kubernetes/files/a.yaml"],
            id="a user's files",
        ),
        pytest.param(
            ["--data=$(DATA_DIR)"], [f"--data={HOME}/volumes/data"], id="a folder for data without a claim"
        ),
        pytest.param(
            ["--adv=$(ADVERTISE_ADDRESS)", "--rec=$(ENDPOINT_RECONCILER)"],
            ["--adv=127.64.0.9", "--rec=none"],
            id="nothing is announced to nodes",
        ),
        pytest.param(["--peers=$(PEERS)"], ["--peers=a,b"], id="a variable of the workload"),
        pytest.param(["--own=$(OWN)"], ["--own=demo-etcd-1/127.64.0.9"], id="a variable of the container"),
        pytest.param(["--x=$(NONE)"], ["--x=$(NONE)"], id="a variable that there is not stays"),
        pytest.param(
            ["--policy=/etc/audit/p.yaml", "/etc/audit", "--etc=/etc/auditor"],
            [f"--policy={HOME}/files/etc/audit/p.yaml", f"{HOME}/files/etc/audit", "--etc=/etc/auditor"],
            id="paths below a mount, and no others",
        ),
    ],
)
def test_arguments(args, expected):
    env = [
        {"name": "SELF", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "OWN", "value": "$(SELF)/$(ADDRESS)"},
    ]
    mounts = [{"name": "audit", "mountPath": "/etc/audit/"}]
    found = program(args=args, env=env, volumeMounts=mounts, environment={"PEERS": "a,b"})
    assert found.argv == ("/opt/etcd", *expected)
    assert {"SELF", "OWN"}.isdisjoint(found.environment)


def test_another_user_gets_paths_below_the_working_folder_whatever_is_above_it():
    found = program(args=["$(PKI_DIR)", "$(DATA_DIR)"], site=replace(SITE, user=(1, 2)))
    assert found.argv[1:] == ("/proc/self/cwd/files/etc/kubernetes/pki", "/proc/self/cwd/volumes/data")
    assert (found.user, found.data) == ((1, 2), ("volumes/data",))


CONTENTS = {"ca": {"tls.crt": b"crt", "tls.key": b"key"}}
CONFIG = {"policy": {"a": b"A", "b": b"B"}, "ca": {"tls.crt": b"of a ConfigMap"}}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param(
            {"secret": {"secretName": "ca"}}, {"m/tls.crt": b"crt", "m/tls.key": b"key"}, id="all of a Secret"
        ),
        pytest.param(
            {"secret": {"secretName": "ca", "items": [{"key": "tls.crt", "path": "x/ca.crt"}]}},
            {"m/x/ca.crt": b"crt"},
            id="one entry, under another path",
        ),
        pytest.param({"configMap": {"name": "policy"}}, {"m/a": b"A", "m/b": b"B"}, id="a ConfigMap"),
        pytest.param(
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "ca", "items": [{"key": "tls.crt", "path": "ca"}]}},
                        {"configMap": {"name": "policy", "items": [{"key": "b", "path": "b"}]}},
                    ]
                }
            },
            {"m/ca": b"crt", "m/b": b"B"},
            id="several in one volume",
        ),
        pytest.param(
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "ca", "items": [{"key": "tls.crt", "path": "secret"}]}},
                        {"configMap": {"name": "ca", "items": [{"key": "tls.crt", "path": "config"}]}},
                        {"serviceAccountToken": {"path": "token"}},
                    ]
                }
            },
            {"m/secret": b"crt", "m/config": b"of a ConfigMap"},
            id="a Secret and a ConfigMap of one name",
        ),
        pytest.param({"secret": {"secretName": "none", "optional": True}}, {}, id="none, which is allowed"),
        pytest.param({"emptyDir": {}}, {}, id="an empty folder"),
        pytest.param(
            {"secret": {"secretName": "none"}}, "none, which a volume names, is not there", id="none"
        ),
        pytest.param(
            {"secret": {"secretName": "ca", "items": [{"key": "x", "path": "x"}]}},
            "ca, which a volume names, has no key x",
            id="no such key",
        ),
    ],
)
def test_files(volume, expected):
    found = manifest({"volumes": [{"name": "v", **volume}]}, volumeMounts=[{"name": "v", "mountPath": "/m"}])
    mounting = replace(workload(found, CONTENTS), config=CONFIG)
    if isinstance(expected, str):
        with pytest.raises(InvalidInput, match=expected):
            files(mounting)
    else:
        assert files(mounting) == expected


def test_claims_and_empty_folders_are_data_that_stays():
    found = folders(
        manifest(
            {"volumes": [{"name": "tmp", "emptyDir": {}}]},
            claims=[{"metadata": {"name": "data"}}],
            volumeMounts=[
                {"name": "data", "mountPath": "/var/lib/etcd"},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        ),
        "/state",
    )
    assert found.data == ("volumes/data", "volumes/tmp")
    assert found.of("/var/lib/etcd/data") == "/state/volumes/data/data"


@pytest.mark.parametrize(
    ("limits", "environment", "memory"),
    [
        ({}, {}, 0),
        ({"memory": "1000Mi"}, {"GOMEMLIMIT": "943718400"}, 1048576000),
        ({"cpu": "1500m"}, {"GOMAXPROCS": "2"}, 0),
        ({"cpu": "100m"}, {"GOMAXPROCS": "1"}, 0),
        ({"cpu": 3}, {"GOMAXPROCS": "3"}, 0),
    ],
    ids=str,
)
def test_limits(limits, environment, memory):
    found = program(resources={"limits": limits})
    assert {name: value for name, value in found.environment.items() if name.startswith("GO")} == environment
    assert found.memory == memory


def test_what_the_container_sets_counts_before_what_follows_from_limits():
    env = [{"name": "GOMAXPROCS", "value": "7"}]
    assert program(resources={"limits": {"cpu": "2"}}, env=env).environment["GOMAXPROCS"] == "7"


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param(
            {"httpGet": {"path": "/readyz", "port": "api", "scheme": "HTTPS"}, "periodSeconds": 2},
            Probe(HttpGet("https://127.64.0.9:6443/readyz"), period=2.0),
            id="over HTTPS at a named port",
        ),
        pytest.param(
            {"httpGet": {"port": 2381, "path": "//x"}, "timeoutSeconds": 3, "failureThreshold": 8},
            Probe(HttpGet("http://127.64.0.9:2381/x"), timeout=3.0, failures=8),
            id="over HTTP",
        ),
        pytest.param(
            {"tcpSocket": {"port": "api"}, "initialDelaySeconds": 4},
            Probe(TcpConnect("127.64.0.9", 6443), delay=4.0),
            id="a connection",
        ),
    ],
)
def test_probes(probe, expected):
    ports = [{"name": "api", "containerPort": 6443}]
    assert program(ports=ports, readinessProbe=probe).readiness == expected


def test_only_what_was_applied_is_a_reason_for_another_process():
    found = workload(manifest())
    one, other = program_of(found, 0, SITE), program_of(replace(found, environment={"A": "b"}), 0, SITE)
    assert (one.fingerprint, one.environment == other.environment) == (other.fingerprint, False)
    renewed = program_of(replace(found, contents=CONTENTS), 0, SITE)
    assert renewed.fingerprint != one.fingerprint
    assert ProgramSettings.read(one.settings) == ProgramSettings(found.fingerprint, 0, "3.6.8")
    assert ProgramSettings.read("of another form") == ProgramSettings()


def test_the_program_is_what_command_names():
    assert command_of(workload(manifest(command=["etcd-fips"]))) == "etcd-fips"
    assert command_of(workload(manifest(command=None, args=["etcd"]))) == ""


POD = "spec.template.spec"
AT = f"{POD}.containers[0]"


@pytest.mark.parametrize(
    ("pod", "container", "named"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"initContainers": []}, {}, [f"{POD}.initContainers"], id="containers that run before"),
        pytest.param({"nodeSelector": {}, "tolerations": []}, {}, [], id="where a pod goes does not matter"),
        pytest.param(
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            {},
            [f"{POD}.volumes[0].hostPath"],
            id="a folder of the node",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}}]},
            {},
            [f"{POD}.volumes[0].projected.sources[0].downwardAPI"],
            id="a source of a projected volume",
        ),
        pytest.param(
            {
                "volumes": [
                    {"name": "v", "secret": {"secretName": "s", "items": [{"key": "a", "path": "../a"}]}}
                ]
            },
            {},
            [f"{POD}.volumes[0].secret.items[0].path"],
            id="a path that leads out of its volume",
        ),
        pytest.param({}, {"lifecycle": {}}, [f"{AT}.lifecycle"], id="hooks"),
        pytest.param({}, {"envFrom": []}, [f"{AT}.envFrom"], id="variables from elsewhere"),
        pytest.param(
            {},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            [f"{AT}.env[0].valueFrom"],
            id="a secret in a variable",
        ),
        pytest.param(
            {},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            [f"{AT}.env[0].valueFrom"],
            id="a field that a process does not have",
        ),
        pytest.param(
            {},
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}]},
            [f"{AT}.volumeMounts[0].subPath"],
            id="a part of a volume",
        ),
        pytest.param(
            {},
            {"livenessProbe": {"exec": {"command": ["touch", "/tmp/x"]}}},
            [f"{AT}.livenessProbe.exec"],
            id="a probe that runs a command",
        ),
        pytest.param(
            {},
            {"startupProbe": {"httpGet": {"port": 80, "host": "169.254.169.254"}}},
            [f"{AT}.startupProbe.httpGet.host"],
            id="a probe of another host",
        ),
        pytest.param(
            {},
            {"startupProbe": {"tcpSocket": {"port": 80, "host": "10.0.0.1"}}},
            [f"{AT}.startupProbe.tcpSocket.host"],
            id="a connection to another host",
        ),
        pytest.param(
            {}, {"livenessProbe": {"grpc": {"port": 1}}}, [f"{AT}.livenessProbe.grpc"], id="a probe over gRPC"
        ),
        pytest.param(
            {},
            {"readinessProbe": {"httpGet": {"port": 1, "httpHeaders": []}, "successThreshold": 2}},
            [f"{AT}.readinessProbe.successThreshold", f"{AT}.readinessProbe.httpGet.httpHeaders"],
            id="a probe with headers that has to succeed twice",
        ),
        pytest.param(
            {},
            {"securityContext": {"privileged": True, "capabilities": {"add": ["NET_ADMIN"]}}},
            [f"{AT}.securityContext.privileged", f"{AT}.securityContext.capabilities"],
            id="rights that a process does not get",
        ),
        pytest.param(
            {},
            {"securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}},
            [],
            id="rights that it does not have anyway",
        ),
    ],
)
def test_fields_that_a_process_cannot_have_are_named(pod, container, named):
    assert unsupported(manifest(pod, **container)) == named


LONG = "x" * 64
UP = "and has to be an absolute path without . and .."


def claim(name):
    return [{"metadata": {"name": name}}]


def mounted(path, name="v"):
    return {"volumeMounts": [{"name": name, "mountPath": path}]}


def probed(**check):
    return {"ports": [{"name": "api", "containerPort": 6443}], "readinessProbe": {"httpGet": check}}


EMPTY = {"volumes": [{"name": "v", "emptyDir": {}}]}


@pytest.mark.parametrize(
    ("pod", "claims", "container", "told"),
    [
        pytest.param(EMPTY, (), mounted("/etc/audit/"), [], id="a good mount"),
        *(
            pytest.param(
                EMPTY,
                (),
                mounted(path),
                [f"{AT}.volumeMounts[0].mountPath is {path!r}, {UP}"],
                id=path or "none",
            )
            for path in (
                "",
                "/",
                "//",
                "etc",
                "/etc/../../..",
                "/..",
                "../x",
                "/etc/./x",
                "/a//b",
                "/a\0b",
                "/a:b",
                "/a\nb",
            )
        ),
        *(
            pytest.param(
                {"volumes": [{"name": name, "emptyDir": {}}]},
                (),
                mounted("/m", name),
                [f"{POD}.volumes[0] has the name {name!r}, which is no DNS label"],
                id=f"a volume {name}",
            )
            for name in ("../x", "..", ".", "", "a/b", "A", "a.b", "-a", "a-", LONG, "a\0")
        ),
        pytest.param(
            {},
            claim("../../x"),
            mounted("/m", "../../x"),
            ["spec.volumeClaimTemplates[0] has the name '../../x', which is no DNS label"],
            id="a claim",
        ),
        pytest.param(
            {},
            claim("data"),
            mounted("/m", "other"),
            [f"{AT}.volumeMounts[0] names the volume 'other', which there is not"],
            id="a mount without a volume",
        ),
        *(
            pytest.param(
                {},
                (),
                {"resources": {"limits": {"memory": amount}}},
                [
                    f"{AT}.resources.limits.memory is {amount!r}, and has to be an amount from 0 to "
                    "9223372036854775807"
                ],
                id=f"memory {amount}",
            )
            for amount in ("much", "-1", "Infinity", "")
        ),
        pytest.param(
            {}, (), {"resources": {"limits": {"memory": "7Ei", "cpu": 3, "x": "y"}}}, [], id="limits"
        ),
        pytest.param(
            {},
            (),
            {"resources": {"limits": {"memory": "1e99"}}},
            [],
            id="more memory than there is: the most",
        ),
        pytest.param({}, (), probed(port="api", path="/readyz?a=b", scheme="HTTPS"), [], id="a good probe"),
        *(
            pytest.param(
                {},
                (),
                probed(port=port),
                [
                    f"{AT}.readinessProbe.httpGet.port is {port!r}, and has to be a number, or the name of a port"
                ],
                id=f"port {port}",
            )
            for port in ("80@10.0.0.1", "80/x", "other", "6443")
        ),
        pytest.param(
            {},
            (),
            probed(port=1, scheme="file"),
            [f"{AT}.readinessProbe.httpGet.scheme has to be HTTP or HTTPS"],
            id="another scheme",
        ),
        pytest.param(
            {},
            (),
            probed(port=1, path="/ HTTP/1.1\r\nHost: x"),
            [f"{AT}.readinessProbe.httpGet.path has characters that no path of a URL has"],
            id="a header in a path",
        ),
    ],
)
def test_names_and_paths_of_which_folders_and_addresses_are_made_are_judged(pod, claims, container, told):
    assert list(unsafe(manifest(pod, claims, **container))) == told


DOUBLED = [
    {"name": f"V{letter}", "value": f"$(V{before})" * 8 if before else "x" * 100}
    for before, letter in pairwise(["", *"ABCDEFGHIJKLMNOP"])
]
TOO_LONG = {
    "one argument": {"args": ["x" * 200_000]},
    "an argument of many variables": {"args": ["$(VA)" * 2_000], "env": DOUBLED[:1]},
    "variables that each name the one before many times": {"env": DOUBLED},
    "many arguments of one variable": {"args": ["$(VA)" * 1_000] * 20, "env": DOUBLED[:1]},
    "many variables": {"env": [{"name": f"V{n}", "value": "x" * 100_000} for n in range(11)]},
    "letters of several bytes": {"args": ["\N{EURO SIGN}" * 50_000]},
}


@pytest.mark.parametrize("container", TOO_LONG.values(), ids=TOO_LONG)
def test_a_program_that_no_system_would_start_is_refused_before_it_is_made(container):
    with pytest.raises(InvalidInput, match=r"args and env.* with (?:its|their) variables filled in"):
        program(**container)


def test_several_paths_of_one_argument_are_changed():
    mounts = [{"name": "audit", "mountPath": "/etc/audit"}]
    found = program(
        args=["--tls-sni-cert-key=/etc/audit/a,/etc/audit/b:x.io", "-x=/etc/audit"], volumeMounts=mounts
    )
    below = f"{HOME}/files/etc/audit"
    assert found.argv[1:] == (f"--tls-sni-cert-key={below}/a,{below}/b:x.io", f"-x={below}")


def test_a_process_gets_only_variables_that_no_loader_or_runtime_obeys():
    bad = [
        "LD_PRELOAD",
        "LD_AUDIT",
        "GODEBUG",
        "GOCOVERDIR",
        "HOME",
        "KUBECONFIG",
        "BASH_ENV",
        "SSL_CERT_FILE",
    ]
    names = [*bad, "GOGC", "ETCD_QUOTA_BACKEND_BYTES", "HTTPS_PROXY", "KUBE_FEATURE_X"]
    env = [{"name": name, "value": "1"} for name in names]
    found = program(args=[f"--x=$({name})" for name in bad], env=env)
    assert {name for name in names if name in found.environment} == set(names) - set(bad)
    assert found.environment["PATH"] == SEARCH_PATH
    assert program(env=[{"name": "PATH", "value": "/tmp"}]).environment["PATH"] == SEARCH_PATH


def test_a_second_container_is_named():
    found = manifest()
    found["spec"]["template"]["spec"]["containers"].append(CONTAINER)
    assert unsupported(found) == [f"{POD}.containers[1]"]


def test_our_own_templates_have_nothing_that_a_process_cannot_have():
    sets = catalog.read(resources("kubewright.controlplanes.templates") / "sets")
    found = [
        each for manifests in sets.packages.values() for each in manifests if each["kind"] == "StatefulSet"
    ]
    assert len(found) == len(sets.packages)
    assert [unsupported(each) for each in found] == [[]] * len(found)
    assert [list(unsafe(each)) for each in found] == [[]] * len(found)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param(["a", "b", ""], "b", id="the last line"),
        pytest.param(
            ['E1123 04:51:58.028060    8383 run.go:72] "command failed" err="no such gate"'],
            '"command failed" err="no such gate"',
            id="a line of klog",
        ),
        pytest.param(
            ['{"level":"fatal","ts":"t","msg":"discovery failed","error":"address in use","stacktrace":"s"}'],
            "discovery failed: address in use",
            id="a line of etcd",
        ),
        pytest.param(['{"level": cut off'], '{"level": cut off', id="a line that was cut off"),
        pytest.param(["panic: nil map", "goroutine 1", "main.go"], "panic: nil map", id="a panic"),
        pytest.param(
            ["flag provided but not defined: -x", "Usage:"], "flag provided but not defined: -x", id="a flag"
        ),
        pytest.param(
            [
                '{"level":"panic","msg":"failed to create WAL","error":"no space left"}',
                "panic: failed to create WAL",
            ],
            "failed to create WAL: no space left",
            id="a panic of etcd, which it has logged with its cause",
        ),
        pytest.param(
            ["panic: first", "x", "panic: second", "y"], "panic: second", id="the latest of two ends"
        ),
        pytest.param(["x" * 1000], "x" * LONGEST, id="a long line"),
    ],
)
def test_why_a_program_ended(lines, told):
    assert reason(lines) == told
