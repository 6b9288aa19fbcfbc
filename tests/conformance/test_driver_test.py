"""``kubewright driver test`` as a person types it: the how-to page against ``kubewright up``, Ctrl-C, what is missing,
and both halves of the manager started by it against a real kube-apiserver."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

import pytest
import yaml
from tests.conformance.pages import blocks

from kubewright.cli.app import main
from kubewright.integration.managers import last_line
from kubewright.providers.sim import manifests
from kubewright.testing.real_kubernetes import RealKubernetes
from kubewright.testing.servers import embedded_kubeconfig

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "test-a-driver-against-clusters.md").read_text()
SECONDS = 100.0
QUICK = ("--poll-interval", "200ms")
KUBEWRIGHT = (sys.executable, "-m", "kubewright")
pytestmark = [pytest.mark.looptime(False), pytest.mark.timeout(150)]


def environment(**more: str) -> dict[str, str]:
    """Without what a user of the tests may have set."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


@contextmanager
def up(folder: Path) -> Iterator[Path]:
    """``kubewright up`` in a folder, with the class of the page; its kubeconfig."""
    (folder / "class.yaml").write_text(blocks(PAGE, "yaml")[0])
    words = [*KUBEWRIGHT, "up"]
    with subprocess.Popen(
        words, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "kubewright is ready" in process.stdout.readline()
            yield folder / ".kubewright" / "kubeconfig"
        finally:
            process.terminate()
            process.wait(30)


def typed(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KUBEWRIGHT, *words],
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def outcomes(path: Path) -> dict[str, str]:
    """By the name of a case, how it ended, as a CI system reads it."""
    (suite,) = ElementTree.parse(path).getroot().iter("testsuite")
    cases = suite.findall("testcase")
    assert suite.attrib["tests"] == str(len(cases))
    found = {}
    for case in cases:
        ends = [each.tag for each in case]
        assert ends in ([], ["failure"], ["error"], ["skipped"])
        found[case.attrib["name"].partition(":")[0]] = ends[0] if ends else "passed"
        assert float(case.attrib["time"]) >= 0
    for tag in ("failures", "errors", "skipped"):
        one = {"failures": "failure", "errors": "error"}.get(tag, tag)
        assert int(suite.attrib[tag]) == list(found.values()).count(one)
    return found


CASES = (
    *("machine-creation", "machine-deletion", "absent-machine", "deployment-creation", "scale-up"),
    *("scale-down", "freeze", "class-update", "deployment-deletion"),
)


def test_the_lines_of_the_page_test_the_simulated_cloud_of_up(tmp_path: Path) -> None:
    lines = [line.removeprefix("$ ") for block in blocks(PAGE, "console") for line in block.splitlines()]
    tests = [line for line in lines if line.startswith(".venv/bin/kubewright driver test --control")]
    (tmp_path / "cases.py").write_text(blocks(PAGE, "python")[0])
    assert lines[0] == ".venv/bin/kubewright up"
    with up(tmp_path):
        first = typed(tmp_path, *tests[0].split()[1:], *QUICK)
        assert first.returncode == 0, first.stdout + first.stderr
        assert outcomes(tmp_path / "report.xml") == {**dict.fromkeys(CASES, "passed"), "orphans": "skipped"}
        assert "nothing is left" in first.stdout
        assert "Traceback" not in first.stdout + first.stderr
        second = typed(tmp_path, *tests[1].split()[1:], *QUICK)
        assert second.returncode == 0, second.stdout + second.stderr
        assert "10/11  nodes have addresses" in second.stdout
        assert "10 passed, 1 skipped" in second.stdout, second.stdout


def begun(folder: Path, kubeconfig: Path) -> subprocess.Popen[str]:
    words = [*KUBEWRIGHT, "driver", "test", *QUICK, "--junit", "report.xml"]
    chosen = environment(CONTROL_KUBECONFIG=str(kubeconfig), MACHINECLASS_V1="class.yaml")
    return subprocess.Popen(
        words, cwd=folder, env=chosen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def read_until(stream: IO[str] | None, word: str) -> None:
    assert stream is not None
    for line in stream:
        if word in line:
            return
    raise AssertionError(f"it ended before it said {word!r}")


def test_ctrl_c_cleans_up_and_twice_ends_at_once_and_says_what_is_left(tmp_path: Path) -> None:
    with up(tmp_path) as kubeconfig:
        slow = yaml.safe_load((tmp_path / "class.yaml").read_text().split("---")[0])
        with begun(tmp_path, kubeconfig) as process:
            read_until(process.stdout, "6/10")
            process.send_signal(signal.SIGINT)
            said, complaints = process.communicate(timeout=SECONDS)
            assert (process.returncode, complaints) == (130, "")
            assert "nothing is left" in said
            assert "error: scale-down (it is scaled to 2): ended by a user" in said
            assert outcomes(tmp_path / "report.xml")["scale-down"] == "error"
        slow["providerSpec"]["deleteSeconds"] = 60
        rest = (tmp_path / "class.yaml").read_text().split("---")[1]
        (tmp_path / "class.yaml").write_text(f"{yaml.safe_dump(slow)}---{rest}")
        with begun(tmp_path, kubeconfig) as process:
            read_until(process.stdout, "waiting for machine test-machine to go")
            process.send_signal(signal.SIGINT)
            read_until(process.stdout, "cleaning up, 1 left: ")
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=20)
            assert process.returncode == 130
            assert re.fullmatch(
                r"kubewright: ended at once; perhaps left: .*Machine default/test-machine.*\n", complaints
            ), complaints


def test_what_is_missing_is_named_in_one_sentence_and_asked_for_on_a_terminal(tmp_path: Path) -> None:
    done = typed(tmp_path, "driver", "test")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kubewright: set what is missing: CONTROL_KUBECONFIG, the kubeconfig of the cluster that has the "
        "machines (--control-kubeconfig), and MACHINECLASS_V1, a file with MachineClass test-mc-v1 "
        "(--machineclass-v1)\n"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*KUBEWRIGHT, "driver", "test"],
        cwd=tmp_path,
        env=environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.write(ours, b"nowhere.kubeconfig\nclass.yaml\n")
        said, complaints = process.communicate(timeout=SECONDS)
    os.close(ours)
    os.close(theirs)
    assert (said + complaints).index("CONTROL_KUBECONFIG, the") < (said + complaints).index(
        "MACHINECLASS_V1, a"
    )
    assert complaints.endswith(
        "kubewright: --control-kubeconfig nowhere.kubeconfig: there is no such file\n"
    ), complaints
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--timeout", "soon"], "--timeout: ", id="a duration that is none"),
        pytest.param(["--timeout", "0s"], "are longer than 0s", id="no time"),
        pytest.param(["--run-switch", "x"], "--run-switch goes with --start-manager", id="a lonely switch"),
        pytest.param(["--junit", "no/report.xml"], "there is no folder no", id="no folder for the report"),
        pytest.param(["--cases", "cases.py"], "--cases cases.py: there is no such file", id="no cases"),
        pytest.param(["--machineclass-v2", "v2.yaml"], "there is no file v2.yaml", id="no second class"),
        pytest.param(["--driver", "nope"], "there is no driver 'nope'", id="no such driver"),
    ],
)
def test_a_switch_that_is_wrong_is_refused_in_one_sentence(
    door: Path,
    tmp_path: Path,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CONTROL_KUBECONFIG", str(door))
    monkeypatch.setenv("MACHINECLASS_V1", str(class_for(tmp_path, "default")))
    with pytest.raises(SystemExit) as ended:
        main(["driver", "test", *words])
    complaints = capsys.readouterr().err
    assert (ended.value.code, said in complaints, complaints.count("\n")) == (1, True, 1), complaints


def test_a_server_that_is_not_there_ends_the_test_soon(
    door: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = yaml.safe_load(door.read_text())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{taken.getsockname()[1]}"
    kubeconfig, report = tmp_path / "kubeconfig", tmp_path / "report.xml"
    kubeconfig.write_text(yaml.safe_dump(gone))
    monkeypatch.setenv("CONTROL_KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("MACHINECLASS_V1", str(class_for(tmp_path, "default")))
    with pytest.raises(SystemExit) as ended:
        main(["driver", "test", "--junit", str(report)])
    shown = capsys.readouterr()
    assert (ended.value.code, shown.err) == (1, "")
    assert outcomes(report) == {"set-up": "error"}
    assert "error: set-up (the clusters are made ready): GET /apis/machine.sapcloud.io/" in shown.out
    assert "nothing is left" in shown.out


def class_for(folder: Path, namespace: str) -> Path:
    body = manifests.machine_class("test-mc-v1", namespace, pace=0.1)
    body["secretRef"] = {"name": "test-mc-secret", "namespace": namespace}
    secret = {**manifests.secret(namespace), "metadata": {"name": "test-mc-secret", "namespace": namespace}}
    path = folder / "class.yaml"
    path.write_text(yaml.safe_dump_all([body, secret]))
    return path


@pytest.mark.kube
def test_on_a_real_api_server_it_starts_both_halves_and_ends_them(
    tmp_path: Path, real_kubernetes: RealKubernetes
) -> None:
    class_for(tmp_path, "default")
    words = ["driver", "test", *QUICK, "--start-manager", "--driver", "sim", "--junit", "report.xml"]
    words += ["--driver-option", "dataDir=vms"]
    done = typed(
        tmp_path,
        *words,
        "--run-switch=--allow-simulated-nodes",
        CONTROL_KUBECONFIG=str(real_kubernetes.kubeconfig),
        MACHINECLASS_V1="class.yaml",
        PRESERVE_CRD_AT_END="true",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert outcomes(tmp_path / "report.xml") == dict.fromkeys((*CASES, "orphans"), "passed")
    logs = tmp_path / ".ci" / "controllers-test" / "logs"
    assert sorted(path.name for path in logs.iterdir()) == ["mc_process.log", "mcm_process.log"]
    assert all(last_line(path) for path in logs.iterdir())
    assert not running_in(tmp_path)


def running_in(folder: Path) -> list[str]:
    """The processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")) == folder:
                found.append(process.name)
        except OSError:
            continue
    return found


def test_twice_ctrl_c_leaves_no_process_of_those_that_it_has_started(tmp_path: Path) -> None:
    class_for(tmp_path, "default")
    words = [*KUBEWRIGHT, "driver", "test", *QUICK, "--start-manager", "--driver", "sim"]
    with embedded_kubeconfig(tmp_path) as kubeconfig:
        chosen = environment(CONTROL_KUBECONFIG=str(kubeconfig), MACHINECLASS_V1="class.yaml")
        with subprocess.Popen(
            words, cwd=tmp_path, env=chosen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            read_until(process.stdout, "2/10")
            assert len(running_in(tmp_path)) == 3
            process.send_signal(signal.SIGTERM)
            read_until(process.stdout, "cleaning up")
            process.send_signal(signal.SIGHUP)
            _, complaints = process.communicate(timeout=20)
        assert process.returncode == 130
        assert complaints.startswith(
            "kubewright: ended at once; perhaps left: CustomResourceDefinition machine"
        )
        assert complaints.count("\n") == 1, complaints
        assert running_in(tmp_path) == []
