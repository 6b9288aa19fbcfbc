"""What a person types: every mistake is one plain sentence and a status, and help is truthful and short."""

from pathlib import Path

import pytest
import yaml

from kubewright import __version__
from kubewright.api.bootstrap.names import TOKEN_GROUPS
from kubewright.base.errors import InvalidInput
from kubewright.cli import main
from kubewright.cli.run.command import leases, listening_on
from kubewright.cli.switches import (
    COMPONENT_ADDRESSES,
    ENCRYPTION_ALGORITHM,
    bootstrap,
    driver_options,
    pairs,
)
from kubewright.cli.up.command import first_look, greeting, standing_by, with_tokens_for_kubeadm
from kubewright.compose.options import Options
from kubewright.compose.worlds import kinds, listed
from kubewright.controlplanes.hosting.processes.addresses import RANGE
from kubewright.machines.world import Half
from kubewright.pki.keys import Algorithm


def typed(*words: str) -> int:
    """The exit status of a command line."""
    try:
        main(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        pytest.param(
            ["up", "--worlds", "machines", "--no-clusters"],
            1,
            "--worlds and --no-clusters choose the same twice",
            id="worlds chosen twice",
        ),
        pytest.param(["completion", "tcsh"], 2, "'tcsh' is not one of", id="an unknown shell"),
        pytest.param(
            ["down", "--timeout", "soon"], 1, "'soon' is not a duration", id="a duration that is not valid"
        ),
        pytest.param(["status", "--data-dir", ""], 2, "--data-dir is empty", id="an empty folder name"),
        pytest.param(["frobnicate"], 2, "No such command", id="an unknown command"),
        pytest.param(["up", "--port", "70000"], 2, "--port", id="a port out of range"),
        pytest.param(
            ["up", "--data-dir", ""], 2, "--data-dir is empty", id="a folder from an unset variable"
        ),
        pytest.param(
            ["up", "--kubeconfig", ""], 2, "--kubeconfig is empty", id="a file from an unset variable"
        ),
        pytest.param(
            ["up", "--kubeconfig", "/no/such/config"],
            1,
            "there is no folder /no/such; make it first",
            id="a file in a folder that is not there",
        ),
        pytest.param(["run", "--health-port", "70000"], 2, "--health-port", id="another"),
        pytest.param(["run", "--address", "here"], 1, "--address 'here' is no IP address", id="an address"),
        pytest.param(
            ["up", "--encryption-algorithm", "DSA"],
            1,
            "--encryption-algorithm 'DSA': there are RSA-2048, ECDSA-P256",
            id="an algorithm of keys that does not exist",
        ),
        pytest.param(
            ["up", "--component-programs", "/no/such/folder"],
            1,
            "--component-programs /no/such/folder: there is no such folder",
            id="a folder of programs that is not there",
        ),
        pytest.param(
            ["up", "--component-addresses", "8.0.0.0/8"],
            1,
            "addresses of control planes are in 127.0.0.0/8",
            id="addresses that are neither of loopback nor private",
        ),
        pytest.param(["up", "--log-level", "loud"], 1, "'loud' is no log level", id="a log level"),
        pytest.param(
            ["run", "--driver", "sim", "--kubeconfig", "/no/such"],
            1,
            "there is no kubeconfig at",
            id="a missing file",
        ),
        pytest.param(["run", "--namespace", "A b"], 1, "namespace 'A b'", id="a namespace that is not valid"),
        pytest.param(["run", "--driver", "acme"], 1, "there is no driver 'acme'", id="an unknown driver"),
        pytest.param(["run"], 1, "which cloud? Name its driver with --driver NAME", id="no driver"),
        pytest.param(
            ["run", "--controllers", "machineset"],
            1,
            "there is no kubeconfig at",
            id="but sets alone need none",
        ),
        pytest.param(
            ["run", "--leader-elect-retry-period", "25s"],
            1,
            "lease duration > renew deadline > retry period",
            id="an election that leaves no time to stop",
        ),
        pytest.param(
            ["run", "--leader-elect-resource-name", "one"],
            1,
            "in place of machine-controller-manager and machine-controller",
            id="one Lease for two halves",
        ),
        pytest.param(
            ["run", "--leader-elect-resource-name", "a,a"],
            1,
            "two halves with one Lease would wait for each other",
            id="the same Lease for both",
        ),
        pytest.param(
            ["run", "--leader-elect-resource-name", "A,b"],
            1,
            "--leader-elect-resource-name 'A'",
            id="a Lease's name that is not valid",
        ),
        pytest.param(["run", "--driver-option", "x"], 1, "wants NAME=VALUE, not 'x'", id="half an option"),
        pytest.param(
            ["run", "--machine-safety-orphan-vms-period", "1d"],
            1,
            "'1d' is not a duration",
            id="a unit that Go does not have",
        ),
        pytest.param(
            ["run", "--webhook-port", "9443"],
            1,
            "where does the API server reach it?",
            id="no address of webhooks",
        ),
        pytest.param(
            ["run", "--webhook-url", "https://127.0.0.1:9443"],
            1,
            "--webhook-url goes with --webhook-port",
            id="an address of no webhooks",
        ),
        pytest.param(
            ["run", "--webhook-port", "9443", "--webhook-url", "http://127.0.0.1:9443"],
            1,
            "must be https://HOST:PORT",
            id="an address without TLS",
        ),
        pytest.param(
            ["run", "--webhook-port", "9443", "--webhook-url", "https://h", "--webhook-service", "a/b"],
            1,
            "--webhook-service and --webhook-url are two addresses",
            id="two addresses of webhooks",
        ),
        pytest.param(
            ["run", "--webhook-port", "9443", "--webhook-service", "hooks"],
            1,
            "--webhook-service wants NAMESPACE/NAME, not 'hooks'",
            id="a Service without its namespace",
        ),
        pytest.param(
            ["run", "--webhook-failure-policy", "Open"],
            2,
            "'Open' is not one of",
            id="a failure policy that is none",
        ),
        pytest.param(
            ["run", "--machine-safety-orphan-vms-period", "0"],
            1,
            "more than once in a second",
            id="no period",
        ),
    ],
)
def test_a_mistake_is_one_plain_sentence(
    words: list[str], status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(*words) == status
    said = capsys.readouterr()
    assert sentence in said.err
    assert "Traceback" not in said.err
    assert not said.out


def test_up_in_a_folder_that_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert typed("up", "--data-dir", str(tmp_path / "file")) == 1
    assert capsys.readouterr().err.startswith("kubewright: cannot use ")


def test_help_of_run_lists_every_controller(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("run", "--help") == 0
    _, _, shown = capsys.readouterr().out.partition("Controllers of machines ")
    for each in listed(Options()):
        assert each.name in shown
        assert each.lease in shown


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_fits_each_command_in_its_line(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(flag) == 0
    page = capsys.readouterr().out
    commands = [line for line in page.partition("Commands:\n")[2].splitlines() if line.strip()]
    assert [line.split()[0] for line in commands] == [
        "up",
        "down",
        "status",
        "demo",
        "run",
        "crds",
        "explain",
        "watch",
        "completion",
        "version",
        "cluster",
        "rollout",
        "driver",
        "vm",
        "local",
        "class",
    ]
    assert not any(line.endswith("...") for line in commands)


def test_a_demo_that_is_not_known_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("demo", "pods") == 1
    assert capsys.readouterr().err == "kubewright: no demo of 'pods'; there are: machines, clusters\n"


EVERY = [
    "machine.sapcloud.io",
    "cluster.x-k8s.io",
    "bootstrap.cluster.x-k8s.io",
    "infrastructure.cluster.x-k8s.io",
    "controlplane.cluster.x-k8s.io",
    "capacity.kubewright.dev",
    "clusterctl.cluster.x-k8s.io",
]


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        pytest.param([], EVERY, id="of all APIs"),
        pytest.param(["clusters"], EVERY[1:2], id="of one"),
        pytest.param(["bootstrap", "machines"], [EVERY[2], EVERY[0]], id="of two, in the order given"),
    ],
)
def test_definitions_are_printed(
    words: list[str], groups: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("crds", *words) == 0
    out = capsys.readouterr().out
    printed = [each["spec"]["group"] for each in yaml.load_all(out, Loader=yaml.CSafeLoader)]
    assert list(dict.fromkeys(printed)) == groups


def test_definitions_of_an_unknown_api_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("crds", "cluster") == 1
    assert (
        "no API cluster; there are: machines, clusters, bootstrap, infrastructure" in capsys.readouterr().err
    )


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_the_version_is_printed_by_a_command_and_by_a_switch(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(*words) == 0
    assert capsys.readouterr().out == f"kubewright {__version__}\n"


@pytest.mark.parametrize(
    ("shell", "registers"), [("zsh", "compdef"), ("fish", "complete --command kubewright")]
)
def test_the_other_shells_get_a_script_of_their_own(
    shell: str, registers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("completion", shell) == 0
    assert registers in capsys.readouterr().out


def test_the_greeting_can_be_pasted_into_a_shell() -> None:
    ready, attempt = greeting(Path("/my folder/kubeconfig"), "machineclasses").splitlines()
    assert ready == "kubewright is ready; its kubeconfig is /my folder/kubeconfig"
    assert attempt == "  try: export KUBECONFIG='/my folder/kubeconfig'; kubectl get machineclasses"


@pytest.mark.parametrize(
    ("world", "shown"),
    [
        pytest.param("*", "machineclasses", id="all"),
        pytest.param("machines", "machineclasses", id="machines"),
        pytest.param("clusters", "clusters.cluster.x-k8s.io", id="clusters"),
        pytest.param("bootstrap", "kubeadmconfigs.bootstrap.cluster.x-k8s.io", id="bootstrap"),
        pytest.param("controlplanes", "nestedcontrolplanes.controlplane.cluster.x-k8s.io", id="planes"),
    ],
)
def test_the_greeting_shows_a_kind_that_is_served(world: str, shown: str) -> None:
    assert first_look(kinds(Options(controllers=(world,)))) == shown


def test_the_greeting_names_the_holders_that_the_controllers_wait_for() -> None:
    assert standing_by([]) == ""
    assert standing_by([("default/machine-controller", "mcm-0")]) == (
        "\n  mcm-0 holds the lease default/machine-controller: our own controllers wait until it is released"
    )


def test_words_of_a_driver_become_a_mapping() -> None:
    assert pairs(["zone=a", "url=x=y"]) == {"zone": "a", "url": "x=y"}


@pytest.mark.parametrize(
    ("told", "pod", "host"),
    [
        pytest.param(None, "", "127.0.0.1", id="outside a pod: loopback"),
        pytest.param(None, "10.0.0.1", "", id="in a pod: all addresses, for the kubelet"),
        pytest.param("127.0.0.1", "10.0.0.1", "127.0.0.1", id="an address that is given"),
        pytest.param("::", "", "::", id="an IPv6 address"),
    ],
)
def test_where_health_is_served(
    told: str | None, pod: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", pod)
    assert listening_on(told) == host


@pytest.mark.parametrize(
    ("typed", "halves", "names"),
    [
        pytest.param("", tuple(Half), {}, id="none: those of the original"),
        pytest.param(
            "sets, machines",
            tuple(Half),
            {"machine-controller-manager": "sets", "machine-controller": "machines"},
            id="one for each half",
        ),
        pytest.param("mine", (Half.MACHINES,), {"machine-controller": "mine"}, id="one half, one Lease"),
    ],
)
def test_leases_by_other_names(typed: str, halves: tuple[Half, ...], names: dict[str, str]) -> None:
    assert leases(typed, halves) == names


def test_each_watch_filter_has_leases_of_its_own() -> None:
    assert leases("", ["l", "m"], "blue") == {"l": "l-blue", "m": "m-blue"}
    assert leases("own", ["l"], "blue") == {"l": "own"}
    found = [leases("", ["l"], value)["l"] for value in ("a-b", "a_b", "a.b", "A-b")]
    assert len(set(found)) == 4
    assert all(each.islower() and "_" not in each for each in found)


def test_the_keys_of_clusters_are_of_the_algorithm_that_was_typed() -> None:
    assert bootstrap("ECDSA-P256").algorithm is Algorithm.EC
    assert bootstrap(ENCRYPTION_ALGORITHM).algorithm is Algorithm.RSA


@pytest.mark.parametrize("words", [[], ["--strict-running"]], ids=["up", "up --strict-running"])
def test_up_runs_all_controllers_as_its_switches_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    served: list[Options] = []
    monkeypatch.setattr(
        "kubewright.cli.up.command.up", lambda _config, options, _merging: served.append(options)
    )
    assert typed("up", "--data-dir", str(tmp_path), *words) == 0
    (options,) = served
    assert options.strict_running is bool(words)
    assert set(options.controllers) >= {"machines", "clusters", "bootstrap", "infra", "controlplanes"}


def test_components_listen_on_the_default_range_unless_another_is_named() -> None:
    assert COMPONENT_ADDRESSES == RANGE


def test_the_tokens_of_machines_of_up_are_for_kubeadm():
    assert with_tokens_for_kubeadm(Options()).machine.token_groups == TOKEN_GROUPS


def test_options_of_the_command_line_have_precedence_over_variables() -> None:
    environ = {"MC_LEASE_SECONDS": "40", "MC_KUBELETS": "off", "MC_SID": "unknown to the driver"}
    assert driver_options(["leaseSeconds=4"], "sim", environ) == {"leaseSeconds": "4", "kubelets": "off"}
    assert driver_options(["a=b"], "", environ) == {"a": "b"}, (
        "where no driver runs there are no options of one"
    )


def test_a_driver_that_is_not_there_is_told_before_its_variables_are_read() -> None:
    with pytest.raises(InvalidInput, match="there is no driver 'nope'"):
        driver_options([], "nope", {"MC_ZONE": "x"})
