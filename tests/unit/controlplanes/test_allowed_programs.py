"""What a user who may edit a component can have its program do on this machine: as in a container, and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.controlplanes.hosting.contract import Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.processes.allowed import (
    LARGEST_SETTINGS,
    problem_of_command,
    problems,
    runs_commands,
    variables_of,
)
from kubewright.controlplanes.hosting.processes.instances import Site, program_of
from kubewright.controlplanes.templates.render import Rendered
from kubewright.processes.program import Command, Probe, Program

OWNER = OwnerReference(api_version="v1", kind="Toy", name="toy", uid="u")
PLACE = WorkloadIdentity("team", "demo", Component.API_SERVER, OWNER)
HOMES = [
    pytest.param("/data/my plane, x=1/programs", None, id="as ourselves"),
    pytest.param("/p", (7, 7), id="as another user"),
]


def workload(args=(), env=(), command=("kube-apiserver",), files=None):
    mounts = [{"name": "f", "mountPath": "/etc/audit"}, {"name": "tmp", "mountPath": "/tmp"}]
    container = {"name": "toy", "args": list(args), "env": list(env), "volumeMounts": mounts}
    if command is not None:
        container["command"] = list(command)
    volumes = [{"name": "f", "secret": {"secretName": "f"}}, {"name": "tmp", "emptyDir": {}}]
    spec = {"containers": [container], "volumes": volumes}
    manifest = {"kind": "StatefulSet", "spec": {"template": {"spec": spec}}}
    return Workload(PLACE, "1.36.3", Rendered([manifest]), 1, {"f": files or {}})


def told(programs="/p", user=None, **asked):
    program = program_of(workload(**asked), 0, Site("", "127.64.0.9", programs, user))
    home = "/proc/self/cwd" if user else f"{programs}/{program.name}"
    return list(problems(program, home))


GOOD = [
    "--audit-policy-file=/etc/audit/p.yaml",
    "--audit-log-path=/tmp/audit.log",
    "--audit-log-path=-",
    "--tls-cert-file=$(PKI_DIR)/apiserver/tls.crt",
    "--config=$(FILES_DIR)/c.yaml",
    "--data-dir=$(DATA_DIR)",
    "--tls-sni-cert-key=/etc/audit/c,/etc/audit/k:example.com,other.com",
    "--etcd-servers=https://127.0.0.1:2379,https://10.0.0.1:2379",
    "--etcd-prefix=/registry",
    "--etcd-servers-overrides=/events#https://127.0.0.1:2379",
    "--authorization-always-allow-paths=/healthz,/readyz",
    "--cors-allowed-origins=//localhost(:|$)",
    "--runtime-config=api/all=true",
    "--service-cluster-ip-range=10.0.0.0/16,fd00::/108",
    "--feature-gates=A=true,B=false",
    "--initial-cluster=a=https://127.0.0.1:2380,b=https://127.0.0.2:2380",
    "--log-outputs=stderr,/dev/null",
    '--log-rotation-config-json={"maxsize": 100}',
    "--vmodule=httplog=3",
    "--authorization-mode=Node,RBAC",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local/x/y",
    "--kubelet-preferred-address-types=InternalIP,ExternalIP",
    "--encryption-provider-config-automatic-reload=true",
    "--oidc-username-prefix=oidc:",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    "--audit-log-maxage=3",
    "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
    "-v=4",
]


@pytest.mark.parametrize(("programs", "user"), HOMES)
@pytest.mark.parametrize("argument", GOOD)
def test_arguments_that_users_write(argument, programs, user):
    assert told(programs, user, args=[argument]) == []


BAD = [
    ["--audit-log-path=/srv/ann/.bashrc"],
    ["--audit-log-path", "/srv/ann/.bashrc"],
    ["--audit_log_path=/srv/ann/.bashrc"],
    ["-data-dir=/srv/ann"],
    ["-data-dir", "/srv/ann"],
    ["--config-file=/etc/shadow"],
    ["--tls-cert-file=/etc/auditor/x"],
    ["--tls-cert-file=/etc/audit/../../../x"],
    ["--tls-cert-file=$(PKI_DIR)/../../../../x"],
    ["--client-ca-file=x/../../../etc/passwd"],
    ["--client-ca-file=.."],
    ["--audit-log-path=process.json"],
    ["--audit-log-path", "../../../workloads/a/b/etcd.json"],
    ["--wal-dir=wal"],
    ["--log-outputs=stderr,x.log"],
    ["--log-outputs=stderr,/x.log"],
    ['--log-rotation-config-json={"filename":"/x"}'],
    ["--kubeconfig=~/.kube/config"],
    ["--listen-client-urls=unix:///run/x.sock"],
    ["--listen-client-urls=unixs://x.sock:1"],
    ["--egress=unix:x"],
    ["--x=file:///etc/shadow"],
    ["--service-account-signing-endpoint=x.sock"],
    ["--debug-socket-path=/run/x"],
    ["--flex-volume-plugin-dir=/tmp/../x"],
    ["--tls-sni-cert-key=/etc/audit/c,/etc/shadow"],
    ["--x=a;/etc/shadow"],
    ["--x=a /etc/shadow"],
    ['--x={"a":"/etc/shadow"}'],
    ["--x=$(WHERE)"],
    ["--x=$(HALF)$(REST)"],
    ["/etc/shadow"],
    ["start", "--", "/etc/shadow"],
    ["--audit-log-path", "-/../../x"],
    ["--x=/proc/self/cwd/process.json"],
    ["--x=/p/team/demo/apiserver-0/process.json"],
    ["--x=/p/team/other/apiserver-0/files/etc/x"],
    ["--x=/p/team/demo/apiserver-0/filesx"],
    ["--x=https://a,/etc/shadow"],
    ["--x=/dev/null,/etc/shadow"],
    ["--x=/dev/sda"],
    ["--x=a\0b"],
    ["--authentication-token-webhook-config-file=/tmp/written"],
    ["--kubeconfig=$(DATA_DIR)/written"],
    ["--flex-volume-plugin-dir=/tmp"],
    ["--audit-log-path=/etc/audit/kubeconfig"],
    ["--log-outputs=stderr,$(FILES_DIR)/x"],
]
ENV = [
    {"name": "WHERE", "value": "/etc/shadow"},
    {"name": "HALF", "value": "/et"},
    {"name": "REST", "value": "c/shadow"},
]


@pytest.mark.parametrize("user", [None, (7, 7)], ids=["as ourselves", "as another user"])
@pytest.mark.parametrize("args", BAD, ids=" ".join)
def test_arguments_that_lead_to_files_of_the_machine(args, user):
    found = told(args=args, env=ENV, user=user)
    assert len(found) == 1
    assert found[0].startswith("the argument ")


@given(
    st.sampled_from(["--a", "-a", "--audit-log-path", "--etcd-prefix"]),
    st.text("ax1=,:;\"' ", max_size=4),
    st.sampled_from(["/etc/passwd", "/srv/x", "/proc/1/environ", "/p/team/demo/apiserver-0/output.log"]),
    st.sampled_from(["", ",b", ":x"]),
)
def test_no_delimiter_hides_a_path(flag, before, path, after):
    """One flag has paths of URLs. A letter or digit right before the slash makes it a relative path."""
    found = told(args=[f"{flag}={before}{path}{after}"])
    assert found or flag == "--etcd-prefix" or before[-1:].isalnum()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ETCD_DATA_DIR", "/srv/ann"),
        ("ETCD_CONFIG_FILE", "/etc/shadow"),
        ("ETCD_LOG_OUTPUTS", "x.log"),
        ("ETCD_LISTEN_CLIENT_URLS", "unix://x"),
        ("TZ", ":/etc/shadow"),
        ("HTTPS_PROXY", "unix:///x"),
    ],
)
def test_variables_that_lead_to_files_of_the_machine(name, value):
    (found,) = told(env=[{"name": name, "value": value}])
    assert found.startswith(f"the variable {name} ")


def test_variables_that_no_process_gets_are_told_unless_an_argument_names_them():
    env = [{"name": name, "value": "x"} for name in ("LD_PRELOAD", "USED", "GOGC", "BASH_FUNC_x%%", "THEN")]
    env[1]["value"] = "$(THEN)"
    found = list(variables_of(workload(args=["--x=$(USED)"], env=env)))
    assert [each.partition(" cannot")[0] for each in found] == [
        "env[0]: the variable 'LD_PRELOAD'",
        "env[3]: the variable 'BASH_FUNC_x%%'",
    ]


@pytest.mark.parametrize(
    ("command", "good"),
    [
        (["kube-apiserver"], True),
        (["kube-apiserver-fips"], True),
        (["/bin/sh"], False),
        (["./x"], False),
        (["../x"], False),
        (["x/y"], False),
        ([""], False),
        (["-x"], False),
        (["kube-apiserver", "--v=4"], False),
        (["sh", "-c", "id"], False),
        ([], False),
        (None, False),
    ],
)
def test_a_command_is_one_name(command, good):
    assert (problem_of_command(workload(command=command)) == "") is good


def test_programs_that_an_earlier_version_kept_with_commands_in_their_probes_are_known():
    probe = Probe(Command(("touch", "x")))
    assert runs_commands(Program("a", ("/a",), liveness=probe))
    assert not runs_commands(Program("a", ("/a",)))


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://x", certificate-authority-data: YQ==}}]
users: [{name: a, user: %s}]
"""
PEM = "-----BEGIN CERTIFICATE-----\nTUlJ\nexec\nQQ==\n-----END CERTIFICATE-----"
EXEC = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, id]}}"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(KUBECONFIG % "{client-certificate-data: YQ==, client-key-data: YQ==}", "", id="good"),
        pytest.param(KUBECONFIG % "{tokenFile: token}", "", id="a file beside it"),
        pytest.param(KUBECONFIG % EXEC, "'users.user.exec' names a command to run", id="a command"),
        pytest.param(
            (KUBECONFIG % EXEC).replace("exec", '"\\x65xec"'),
            "'users.user.exec' names a command to run",
            id="a command, escaped",
        ),
        pytest.param(
            'exec: ["\nx: {command: sh}',
            "it cannot be read as YAML, and may name a command",
            id="unreadable",
        ),
        pytest.param(
            KUBECONFIG % "{auth-provider: {name: oidc, config: {cmd-path: x}}}",
            "'users.user.auth-provider' names a command to run",
            id="an auth provider",
        ),
        pytest.param(
            (KUBECONFIG % EXEC).encode("utf-16"), "'users.user.exec' names a command to run", id="in UTF-16"
        ),
        pytest.param(
            KUBECONFIG % "{tokenFile: /srv/key}",
            "'users.user.tokenFile' names a path outside of the file's own folder",
            id="a token elsewhere",
        ),
        pytest.param(
            KUBECONFIG % "{client-key: ../../x}",
            "'users.user.client-key' names a path outside of the file's own folder",
            id="a key elsewhere",
        ),
        pytest.param(
            "plugins: [{name: x, path: /etc/shadow}]",
            "'plugins.path' names a path outside of the file's own folder",
            id="settings of admission",
        ),
        pytest.param("anonymous: {conditions: [{path: /livez}]}", "", id="a path of a URL"),
        pytest.param(
            "providers: [{kms: {endpoint: 'unix:///run/x'}}]",
            "'providers.kms.endpoint' names a path outside of the file's own folder",
            id="a socket",
        ),
        pytest.param(
            "data-dir: x\nname: a",
            "'data-dir' names what is written to, which only a flag may",
            id="settings of etcd",
        ),
        pytest.param("rules: [{level: None, nonResourceURLs: ['/healthz*']}]", "", id="a policy of audits"),
        pytest.param("-----BEGIN CERTIFICATE-----\nexec\n-----END", "", id="a certificate"),
        pytest.param(f"# of us\n{PEM}\n\n# path !\r\n{PEM}", "", id="certificates with notes"),
        pytest.param(
            f"-----BEGIN a: b\n{KUBECONFIG % EXEC}",
            "'users.user.exec' names a command to run",
            id="a first line as of PEM",
        ),
        pytest.param(
            f"-----BEGIN A: b-----\n{KUBECONFIG % EXEC}-----END A: b-----",
            "'users.user.exec' names a command to run",
            id="bounds as of PEM",
        ),
        pytest.param(
            f"{PEM}\n---\n{KUBECONFIG % EXEC}",
            "'users.user.exec' names a command to run",
            id="a certificate before it",
        ),
        pytest.param(
            f"# \u2028{KUBECONFIG % EXEC}\n{PEM}",
            "it cannot be read as YAML, and may name a command",
            id="a note with another line break",
        ),
        pytest.param(
            "users: [{user: {? !!binary ZXhlYw== : {command: sh}}}]",
            "it has a tag, which cannot be judged",
            id="a key in base64",
        ),
        pytest.param(
            "users: [{user: {? !<tag:yaml.org,2002:binary> ZXhlYw== : {command: sh}}}]",
            "it has a tag, which cannot be judged",
            id="a key in base64 with a long tag",
        ),
        pytest.param("a: !!map {b: c}", "it has a tag, which cannot be judged", id="a map with a tag"),
        pytest.param(
            '{"? !!binary x": [}',
            "it cannot be read as YAML, and may name a command",
            id="unreadable with a tag",
        ),
        pytest.param(
            "u\u017fers: [{u: x}]",
            "it has a key with letters beyond ASCII, which cannot be judged",
            id="a long s for an s",
        ),
        pytest.param("a: h\u00e9llo\nb: well!", "", id="values beyond ASCII"),
        pytest.param("#!/bin/sh\ncase x in [", "", id="a script"),
        pytest.param("token,user,uid,exec", "", id="a list of tokens"),
        pytest.param(b"\xff\xfe\x00exec", "it cannot be read as YAML, and may name a command", id="bytes"),
        pytest.param(
            "path: " + "x" * LARGEST_SETTINGS,
            f"it has {LARGEST_SETTINGS + 6} bytes, and {LARGEST_SETTINGS} are the most of a file of settings",
            id="too large",
        ),
        pytest.param("path: " + "[" * 100_000, "it is nested too deeply", id="brackets"),
        pytest.param("{[{exec: x}]: {path: x}, ? [a] : 1}", "", id="keys that are lists"),
        pytest.param("[[{exec: [sh]}]]", "'exec' names a command to run", id="in lists"),
        pytest.param(
            "a: &a /etc/shadow\ntokenFile: *a", "it has an alias, which cannot be judged", id="an alias"
        ),
    ],
)
def test_files_of_settings_name_no_command_and_no_file_elsewhere(content, found):
    raw = content if isinstance(content, bytes) else content.encode()
    assert told(files={"c.yaml": raw}) == ([f"file 'etc/audit/c.yaml': {found}"] if found else [])


def test_no_content_of_a_file_is_told():
    (found,) = told(files={"c.yaml": b"tokenFile: /very/secret"})
    assert "secret" not in found


def test_a_long_file_is_judged_in_time_that_grows_with_its_length() -> None:
    """Half a megabyte of it; a search of each scheme from each letter would take hours."""
    for text in ("a." * 250_000, "a" * 500_000, "1-" * 250_000, "a:" * 250_000):
        assert told(files={"c.yaml": f"path: {text}x".encode()}) == []


@pytest.mark.parametrize("text", ["xhttp://a", "ftp://a", "x-http://a", "UNIX:a", "1.x+y://a", "file:a"])
def test_a_scheme_other_than_http_is_found(text: str) -> None:
    assert told(files={"c.yaml": f"tokenFile: {text}".encode()})
