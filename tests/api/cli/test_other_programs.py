"""Programs that go on with what we write: a shell with our completion, kubectl with our context; real processes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubewright.apiserver.http import kubeconfig
from kubewright.base.clock import SystemClock
from kubewright.cli import main
from kubewright.cli.up.command import Merge, merge
from kubewright.testing import keys
from kubewright.testing.kubectl import NoKubectl, find_kubectl

WORK = "# mine\ncurrent-context: work\ncontexts:\n- {name: work, context: {cluster: work, user: ann}}\n"
KEYS = keys.in_memory(SystemClock())


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "kubeconfig"
    kubeconfig.write(
        path, kubeconfig.render("https://127.0.0.1:4321", KEYS.authority, KEYS.admin), tmp_path / "data"
    )
    return path


def into(path: Path, ours: Path, name: str = "kubewright", *, use: bool = False) -> Path | None:
    return merge(Merge(name, use), ours, ours.parent, {"KUBECONFIG": str(path)})


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed_so_far", "offered"),
    [
        pytest.param("kubewright st", {"status"}, id="a command"),
        pytest.param("kubewright up --data", {"--data-dir"}, id="a switch"),
        pytest.param("kubewright vm cr", {"create"}, id="a command of a group"),
        pytest.param("kubewright completion ", {"bash", "zsh", "fish"}, id="a value"),
        pytest.param("kubewright up --data-dir src/", set(), id="a path is the shell's own business"),
    ],
)
def test_bash_completes(typed_so_far: str, offered: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "bash"])
    assert not ended.value.code
    script = capsys.readouterr().out
    words = typed_so_far.split(" ")
    ask = (
        f"COMP_WORDS=({' '.join(words)} {'' if words[-1] else chr(39) * 2}); COMP_CWORD={len(words) - 1}; "
        f'_kubewright_completion kubewright; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    asked = subprocess.run(
        ["bash", "--norc", "-c", script + "\n" + ask],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert set(asked.stdout.split()) == offered
    assert not asked.stderr


@pytest.mark.kubectl
def test_kubectl_knows_the_context_and_what_it_writes_back_is_still_ours(tmp_path: Path, ours: Path) -> None:
    try:
        program = find_kubectl()
    except NoKubectl as missing:
        pytest.skip(str(missing))
    path = tmp_path / "config"
    path.write_text(WORK)

    def kubectl(*words: str) -> str:
        environment = {**os.environ, "KUBECONFIG": str(path), "HOME": str(tmp_path)}
        ended = subprocess.run([program, *words], capture_output=True, text=True, env=environment, check=True)
        return ended.stdout

    into(path, ours, "toys")
    assert kubectl("config", "get-contexts", "-o", "name").split() == ["toys", "work"]
    assert kubectl("config", "current-context") == "work\n"
    kubectl("config", "use-context", "toys")
    kubectl("config", "set-context", "toys", "--namespace", "shop")
    into(path, ours, "toys")
    seen = json.loads(kubectl("config", "view", "--minify", "-o", "json"))
    assert seen["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:4321"
    assert seen["contexts"][0]["context"]["namespace"] == "shop"
    assert seen["clusters"][0]["cluster"]["extensions"] == [
        {"name": "kubewright", "extension": {"dataDir": str(ours.parent)}}
    ]
