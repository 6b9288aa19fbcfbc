"""What can be said of ``deploy/Containerfile`` without building it: no machine of ours runs a daemon for images."""

import json
import re
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
STAGE = re.compile(r"(\S+)(?: AS (\S+))?")


@dataclass
class Stage:
    """The image it begins with, and its instructions: (word, rest)."""

    image: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        return [rest for each, rest in self.instructions if each == word]


def parsed() -> tuple[dict[str, str], list[Stage]]:
    """The arguments before the first stage, and the stages."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE).replace(
        "\\\n", " "
    )
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        assert word in ("ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"), line
        if word == "FROM":
            found = STAGE.fullmatch(rest)
            assert found is not None, line
            stages.append(Stage(found[1], found[2] or ""))
        elif stages:
            stages[-1].instructions.append((word, rest))
        else:
            name, _, value = rest.partition("=")
            arguments[name] = value
    return arguments, stages


ARGUMENTS, (BUILD, IMAGE) = parsed()


def test_both_stages_begin_with_the_python_that_the_code_is_checked_for() -> None:
    assert [stage.image for stage in (BUILD, IMAGE)] == ["${PYTHON}", "${PYTHON}"]
    checked = PROJECT["tool"]["mypy"]["python_version"]
    assert list(ARGUMENTS.items()) == [("PYTHON", f"python:{checked}-slim")]  # and no registry before it
    assert PROJECT["project"]["requires-python"] == f">={checked}"
    assert f"--python-version {checked} " in (ROOT / "tools" / "lock.sh").read_text()


def test_what_is_copied_is_there_and_not_ignored() -> None:
    copied = [source for rest in BUILD.all("COPY") for source in rest.split()[:-1]]
    assert [source for source in copied if not (ROOT / source).exists()] == []
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    let_in = [line[1:] for line in ignored if line.startswith("!")]
    assert sorted(let_in) == sorted(copied)
    assert any(fnmatch("anything", line) for line in ignored)
    assert IMAGE.all("COPY") == [f"--from={BUILD.name} /opt/kubewright /opt/kubewright"]


def test_everything_that_the_package_is_built_from_is_copied() -> None:
    copied = {source for rest in BUILD.all("COPY") for source in rest.split()[:-1]}
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    named = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "pyproject.toml"}
    assert named | {package.partition("/")[0] for package in wheel} <= copied


def test_packages_come_from_the_lock_file_with_their_hashes_and_from_nowhere_else() -> None:
    fetch, build, drivers = BUILD.all("RUN")
    assert "--require-hashes" in fetch.split()
    assert "requirements.lock" in fetch.split()
    installs = [each for each in re.split(r"&&", build) if "pip install" in each or "pip wheel" in each]
    assert len(installs) == 3
    assert all("--no-index" in each or "--no-deps" in each for each in installs)
    assert "--constraint constraints.txt ${DRIVERS}" in drivers
    (extras,) = re.findall(r"kubewright\[(\S+)\]", build)
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()


def test_it_runs_the_console_script_as_the_user_of_the_deployment() -> None:
    (user,), (entry,), (default,) = IMAGE.all("USER"), IMAGE.all("ENTRYPOINT"), IMAGE.all("CMD")
    deployment = yaml.safe_load((DEPLOY / "deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{pod['runAsUser']}:{pod['runAsGroup']}"
    assert pod["runAsUser"] > 0
    assert json.loads(entry) == ["/opt/kubewright/bin/kubewright"]
    assert "kubewright" in PROJECT["project"]["scripts"]
    assert json.loads(default) == ["--help"]


def test_no_registry_is_named() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert re.findall(r"https?://|--index-url|--extra-index|--trusted-host", text) == []
