"""The switches of MCM's programs on ``kubewright run``: what they set, what has no effect, what is refused."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.cli import main
from kubewright.cli.run import mcm, switches
from kubewright.cli.run.switches import RunSwitches
from kubewright.machines.settings import MachineSettings, ReplacementLimits, SetSettings, drain_policy

DEFAULTS = MachineSettings()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[RunSwitches]:
    """What the command got, one for each call."""
    found: list[RunSwitches] = []
    monkeypatch.setattr("kubewright.cli.run.command.run", found.append)
    return found


def status_of(*words: str) -> int:
    try:
        main(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


SETTINGS: list[tuple[str, str, MachineSettings]] = [
    ("machine-creation-timeout", "1h30m", replace(DEFAULTS, creation_timeout=timedelta(minutes=90))),
    ("machine-health-timeout", "30s", replace(DEFAULTS, health_timeout=timedelta(seconds=30))),
    ("machine-drain-timeout", "0", replace(DEFAULTS, drain_timeout=timedelta())),
    ("machine-max-evict-retries", "0", replace(DEFAULTS, max_evict_retries=0)),
    ("machine-pv-detach-timeout", "1m", replace(DEFAULTS, detach_timeout=timedelta(minutes=1))),
    ("machine-pv-reattach-timeout", "1m", replace(DEFAULTS, reattach_timeout=timedelta(minutes=1))),
    ("machine-preserve-timeout", "1h", replace(DEFAULTS, preserve_timeout=timedelta(hours=1))),
    ("resource-exhausted-retry", "1m", replace(DEFAULTS, resource_exhausted_retry=timedelta(minutes=1))),
    ("node-conditions", "DiskPressure, Hot", replace(DEFAULTS, node_conditions=("DiskPressure", "Hot"))),
    (
        "bootstrap-token-auth-extra-groups",
        "system:bootstrappers:a, system:bootstrappers:b",
        replace(DEFAULTS, token_groups="system:bootstrappers:a,system:bootstrappers:b"),
    ),
    (
        "machine-max-replacements",
        "25%",
        replace(DEFAULTS, replacement_limits=ReplacementLimits(replacements="25%")),
    ),
    ("machine-max-unhealthy", "7", replace(DEFAULTS, replacement_limits=ReplacementLimits(unhealthy=7))),
    ("safety-up", "5", replace(DEFAULTS, sets=SetSettings(safety_up=5))),
    ("safety-down", "0", replace(DEFAULTS, sets=SetSettings(safety_down=0))),
    (
        "machine-safety-overshooting-period",
        "5m",
        replace(DEFAULTS, sets=SetSettings(overshooting_period=timedelta(minutes=5))),
    ),
    ("machine-min-ready-seconds", "false", replace(DEFAULTS, sets=SetSettings(min_ready=False))),
    (
        "autoscaler-scaledown-annotation-during-rollout",
        "F",
        replace(DEFAULTS, sets=SetSettings(spare_nodes=False)),
    ),
    ("concurrent-syncs", "10", replace(DEFAULTS, workers=10)),
    ("kube-api-qps", "50", DEFAULTS),
    ("vmodule", "drain=4", DEFAULTS),
]


@pytest.mark.parametrize(("name", "text", "wanted"), SETTINGS, ids=[name for name, _, _ in SETTINGS])
def test_a_switch_sets_its_field_and_no_other(name: str, text: str, wanted: MachineSettings) -> None:
    assert mcm.settings({name: text}, DEFAULTS) == wanted


def test_the_defaults_in_the_table_are_those_of_the_settings() -> None:
    typed = {each.name: each.default for each in mcm.SWITCHES}
    found = mcm.settings(typed, DEFAULTS)
    assert found == replace(DEFAULTS, max_evict_retries=360)
    assert drain_policy(found) == drain_policy(DEFAULTS)  # where it is not given, it follows from the time


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        pytest.param("machine-health-timeout", "-1s", "'-1s' is negative", id="a negative duration"),
        pytest.param("machine-health-timeout", "1d", "'1d' is not a duration", id="a unit that Go has not"),
        pytest.param("machine-max-evict-retries", "many", "'many' is no whole number", id="a word"),
        pytest.param("machine-max-evict-retries", "1_000", "is no whole number", id="Python's digits"),
        pytest.param(
            "autoscaler-scaledown-annotation-during-rollout", "no", "neither true nor", id="no boolean"
        ),
        pytest.param("concurrent-syncs", "0", "at least one machine", id="no worker"),
        pytest.param("machine-max-unhealthy", "1.5%", "neither a whole number", id="half a percent"),
        pytest.param(
            "bootstrap-token-auth-extra-groups",
            "system:masters",
            "must begin with system:bootstrappers:",
            id="a group that no token may have",
        ),
        pytest.param(
            "leader-elect-resource-lock", "endpoints", "Kubernetes has no other kind", id="another lock"
        ),
        pytest.param("profiling", "maybe", "neither true nor false", id="profiles, perhaps"),
        pytest.param("contention-profiling", "true", "one thread does all work", id="profiles of locks"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=f"^--{name}.*{sentence}"):
        mcm.settings({name: text}, DEFAULTS)


def test_a_switch_without_effect_is_told_with_its_reason() -> None:
    assert mcm.unused({"kube-api-content-type": "json", "machine-health-timeout": "1m"}) == [
        "--kube-api-content-type has no effect: custom resources are JSON"
    ]


@pytest.mark.parametrize(
    ("typed", "level"), [({}, "info"), ({"v": "3"}, "info"), ({"v": "4"}, "debug"), ({"v": "10"}, "debug")]
)
def test_the_level_of_the_log_follows_v(typed: dict[str, str], level: str) -> None:
    assert mcm.log_level(typed, "info") == level


def test_the_command_lines_of_gardener_are_accepted(given: list[RunSwitches]) -> None:
    of_both = ["--control-kubeconfig=inClusterConfig", "--target-kubeconfig=/target", "--v=3"]
    sets = [
        "--namespace=shoot--a",
        "--port=10258",
        "--safety-up=2",
        "--safety-down=1",
        "--machine-safety-overshooting-period=1m",
    ]
    machines = [
        "--namespace=shoot--a",
        "--port=10259",
        "--machine-creation-timeout=20m",
        "--machine-drain-timeout=2h",
        "--machine-health-timeout=10m",
        "--machine-safety-apiserver-statuscheck-timeout=30s",
        "--machine-safety-apiserver-statuscheck-period=1m",
        "--machine-safety-orphan-vms-period=30m",
    ]
    assert [status_of("run", *of_both, *sets), status_of("run", *of_both, *machines)] == [0, 0]
    first, second = given
    assert (str(first.kubeconfig), first.namespace, first.health_port) == (
        "inClusterConfig",
        "shoot--a",
        10258,
    )
    assert second.mcm == {
        "v": "3",
        "machine-creation-timeout": "20m",
        "machine-drain-timeout": "2h",
        "machine-health-timeout": "10m",
        "machine-safety-apiserver-statuscheck-period": "1m",
    }


@pytest.mark.parametrize(
    ("word", "elects"),
    [
        ("--leader-elect=false", False),
        ("--leader-elect=F", False),
        ("--leader-elect=true", True),
        ("--leader-elect", True),
        ("--no-leader-elect", False),
    ],
)
def test_a_boolean_switch_is_written_as_go_or_as_python_does(
    word: str, elects: bool, given: list[RunSwitches]
) -> None:
    assert status_of("run", word, "--strict-running=false") == 0
    assert (given[0].leader_elect, given[0].strict_running) == (elects, False)


def test_a_boolean_switch_wants_true_or_false(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("run", "--leader-elect=maybe") == 1
    assert capsys.readouterr().err == "kubewright: --leader-elect 'maybe': write true or false\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--shard=3/3"], "--shard '3/3': the last of 3 is 2/3"),
        (
            ["--shard=0/3", "--leader-elect=false"],
            "--shard needs --leader-elect: Leases keep two processes from having one shard",
        ),
        (
            ["--shard=0/3", "--controllers=*,clusters"],
            "shards are for machines; leave out those of clusters: --controllers machines",
        ),
    ],
    ids=["there is no such shard", "without Leases", "with controllers whose objects are not divided"],
)
def test_a_shard_that_cannot_be_is_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("run", "--driver=sim", *words) == 1
    assert capsys.readouterr().err.strip().endswith(told)


def test_a_file_gives_switches_and_the_command_line_goes_before_it(
    given: list[RunSwitches], tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "machine-health-timeout: 5m\nmachine-drain-timeout: 1h\nleader-elect: false\nport: 10259\n"
        "driver-option: [rate=5, zone=a]\n"
    )
    assert status_of("run", "--config", str(file), "--machine-drain-timeout=3h") == 0
    (found,) = given
    assert found.mcm == {"machine-health-timeout": "5m", "machine-drain-timeout": "3h"}
    assert (found.leader_elect, found.health_port) == (False, 10259)
    assert found.driver_option == ["rate=5", "zone=a"]


@pytest.mark.parametrize(
    ("words", "file", "controllers"),
    [
        pytest.param([], "", [], id="not at all"),
        pytest.param(["--controllers=*,a", "--controllers=b"], "", ["*,a", "b"], id="twice, as overlays do"),
        pytest.param([], "controllers: '*,reserve'\n", ["*,reserve"], id="a text in a file"),
        pytest.param([], "controllers: ['*', reserve]\n", ["*", "reserve"], id="a list in a file"),
    ],
)
def test_controllers_may_be_named_in_several_places(
    words: list[str], file: str, controllers: list[str], given: list[RunSwitches], tmp_path: Path
) -> None:
    (path := tmp_path / "run.yaml").write_text(file)
    assert status_of("run", "--config", str(path), *words) == 0
    assert [list(each.controllers or ()) for each in given] == [controllers]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"", {}, id="an empty file"),
        pytest.param(b"a-b: 5", {"a_b": "5"}, id="a number"),
        pytest.param(b"a-b: [x, 1]", {"a_b": ["x", "1"]}, id="a list"),
        pytest.param(b"a-b: true", {"a_b": True}, id="a boolean"),
    ],
)
def test_what_a_file_says(content: bytes, found: dict[str, Any]) -> None:
    assert switches.parsed(content, {"a-b": "a_b"}, "f") == found


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"- a", "it is no mapping", id="a list"),
        pytest.param(b"a-b: {", "did not find expected node content", id="no YAML"),
        pytest.param(b"b: 1", "there is no switch --b", id="an unknown switch"),
        pytest.param(b"a-b:", "a-b wants a text", id="no value"),
        pytest.param(b"a-b: [[1]]", "a-b wants a text", id="a list in a list"),
        pytest.param(b"1: 2", "there is no switch --1", id="a number as a name"),
        pytest.param(b"\xff\xfe\x00", "", id="bytes that are no text"),
    ],
)
def test_a_file_that_cannot_be_is_refused(content: bytes, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=f"^--config f: .*{sentence}"):
        switches.parsed(content, {"a-b": "a_b"}, "f")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        switches.load(tmp_path / "none", {})


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(InvalidInput, match="larger than 1048576 bytes"):
        switches.load(tmp_path / "large", {})


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        pytest.param({}, False, id="not typed"),
        pytest.param({"profiling": "true"}, True, id="true"),
        pytest.param({"profiling": "F"}, False, id="as Go spells it"),
    ],
)
def test_whether_profiles_are_served(typed: dict[str, str], wanted: bool) -> None:
    assert mcm.profiling(typed) is wanted
