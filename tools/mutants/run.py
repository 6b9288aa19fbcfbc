"""Would a test notice? `make mutants` changes the code in one place at a time, and runs the tests.

mutmut makes the mutants and runs the tests. This file gives it a room at a time (tools/mutants/rooms.toml:
some modules, and their own unit tests), keeps the results in .mutants/, and prints the mutants that no test
noticed. A mutant is killed when a test fails or mypy refuses it. For each that survives, write the test or,
where no test can see a difference, an entry in tools/mutants/equivalent.toml with the reason.

It may be stopped at any time: a killed mutant is not tried again until its function changes; a survivor is,
and so is one whose time was up, which on a busy machine does not mean that a test noticed.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEPT = ROOT / ".mutants"
GOAL = 90  # percent of the mutants that are not equivalent
NOT_OURS_TO_TEST = [r"^\s*assert_never\(", r"^\s*(self\.)?_?log\.\w+\("]  # never reached; text for users only
ENVIRONMENT = os.environ | {"HYPOTHESIS_PROFILE": "mutants"}
TIME_UP = {36, -24, 24, 152}
DEAD = {1, 3, 37, 255} | TIME_UP  # mutmut's exit codes: a test failed; mypy refused; the time was up


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test noticed: its function, the lines it lost and the lines it got."""

    where: str
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Tally:
    """What is known of one room. ``idle`` are the entries of the list that no mutant needs any more."""

    room: str
    mutants: int
    killed: int
    unchecked: int
    equivalent: int
    survivors: tuple[Survivor, ...]
    idle: tuple[Survivor, ...]

    @property
    def percent(self) -> float:
        counted = self.killed + len(self.survivors)
        return 100 * self.killed / counted if counted else 0.0


def prepare(room: str, facts: dict) -> Path:
    """A folder in which mutmut finds the sources, the tests and its configuration, and keeps its results."""
    folder = KEPT / room
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("src", "tests"):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(Path("../..") / name)
    shutil.rmtree(folder / "mutants" / "tests", ignore_errors=True)
    (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    only = [f"src/kubewright/{each}" for each in facts["modules"]]
    if gone := [each for each in only if not any(ROOT.glob(each))]:
        raise SystemExit(f"mutants: {', '.join(gone)} is not a module; correct tools/mutants/rooms.toml")
    settings = {
        "source_paths": ["src"],
        "only_mutate": only,
        "do_not_mutate": [f"src/kubewright/{each}" for each in facts.get("spared", [])],
        "do_not_mutate_patterns": NOT_OURS_TO_TEST,
        "pytest_add_cli_args": [
            "-c",
            str(ROOT / "pyproject.toml"),
            "-p",
            "no:cacheprovider",
            "--timeout",
            "30",
        ],
        "pytest_add_cli_args_test_selection": [f"tests/{each}" for each in facts["tests"]],
        "type_check_command": [
            *(sys.executable, "-m", "mypy", "--config-file", str(HERE / "mypy.ini"), "--output", "json"),
            *(str(path.relative_to(ROOT)) for each in only for path in sorted(ROOT.glob(each))),
        ],
        "timeout_constant": 2.0,
        "timeout_multiplier": 5.0,
        "track_dependencies": False,
        "use_git_change_detection": False,
    }
    lines = (f"{key} = {json.dumps(value)}" for key, value in settings.items())
    (folder / "pyproject.toml").write_text("\n".join(["[tool.mutmut]", *lines, ""]))
    return folder


def results(folder: Path) -> Iterator[tuple[Path, dict]]:
    """Each mutated module's path below ``folder``, and what mutmut noted of it."""
    for meta in sorted((folder / "mutants").rglob("*.meta")):
        path = meta.with_suffix("").relative_to(folder / "mutants")
        if (folder / path).exists():
            yield path, json.loads(meta.read_text())


def try_again(folder: Path) -> None:
    """Forget the verdict on mutants that lived, for which there may be a test now, or whose time was up."""
    for path, notes in results(folder):
        codes = notes["exit_code_by_key"]
        notes["exit_code_by_key"] = {
            name: code if code in DEAD - TIME_UP else None for name, code in codes.items()
        }
        (folder / "mutants" / f"{path}.meta").write_text(json.dumps(notes, indent=4))


def run(folder: Path, processes: int, minutes: float) -> None:
    """Let mutmut work until it is done or the time is up; its results are kept either way.

    Raises:
        SystemExit: mutmut failed by itself; most often because it was stopped while it wrote a module.
    """
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(processes)]
    with (folder / "said").open("w") as said:
        output = None if sys.stdout.isatty() else said  # a line that counts upwards, for a terminal
        with subprocess.Popen(
            command, cwd=folder, start_new_session=True, stdout=output, env=ENVIRONMENT
        ) as process:
            try:
                process.wait(minutes * 60)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                os.killpg(process.pid, signal.SIGTERM)
    if process.returncode > 0:
        raise SystemExit(f"mutants: mutmut failed; {folder / 'said'} says why. Remove {folder} to begin anew")


def survivor(folder: Path, path: Path, mutant: str) -> Survivor:
    from mutmut.mutation.diff_apply import get_diff_for_mutant  # reads mutmut's notes in the current folder

    os.chdir(folder)
    lines = get_diff_for_mutant(mutant, path=path).splitlines()[2:]
    was = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    now = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    function = mutant.partition("__mutmut_")[0].replace(".xǁ", ".").replace("ǁ", ".").replace(".x_", ".")
    return Survivor(function, was, now)


def tally(room: str, folder: Path, known: set[Survivor]) -> Tally:
    kinds: Counter[str] = Counter()
    survived = []
    for path, notes in results(folder):
        for mutant, code in notes["exit_code_by_key"].items():
            kinds["mutants"] += 1
            kinds["killed"] += code in DEAD
            kinds["unchecked"] += code is None
            if code is not None and code not in DEAD:
                survived.append(survivor(folder, path, mutant))
    modules = tuple(".".join(path.with_suffix("").parts[1:]) for path, _ in results(folder))
    ours = {each for each in known if each.where.startswith(modules)}
    return Tally(
        room,
        kinds["mutants"],
        kinds["killed"],
        kinds["unchecked"],
        sum(each in known for each in survived),
        tuple(each for each in survived if each not in known),
        tuple(ours - set(survived)),
    )


def say(found: Tally) -> None:
    for each in found.survivors:
        print(f"\nsurvived: {each.where}\n  was {each.was}\n  now {each.now}")
    for each in found.idle:
        print(f"\nlisted as equivalent for nothing: {each.where}\n  was {each.was}\n  now {each.now}")
    print(
        f"\n{found.room}: {found.mutants} mutants, {found.killed} killed, {found.equivalent} equivalent,"
        f" {len(found.survivors)} survived, {found.unchecked} not tried: {found.percent:.1f} %"
    )


def equivalents() -> set[Survivor]:
    table = tomllib.loads((HERE / "equivalent.toml").read_text())
    return {Survivor(each["in"], each["was"], each["now"]) for each in table["equivalent"]}


def main() -> int:
    rooms = tomllib.loads((HERE / "rooms.toml").read_text())
    parser = argparse.ArgumentParser(prog="make mutants", description="Would a test notice?")
    parser.add_argument("rooms", nargs="*", metavar="room", help=f"one or more of: {', '.join(rooms)}")
    parser.add_argument("--minutes", type=float, default=30, help="for each room; what is left waits (30)")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    parser.add_argument("--report", action="store_true", help="print the known results, try nothing")
    wanted = parser.parse_args()
    if unknown := set(wanted.rooms) - set(rooms):
        parser.error(f"no such room: {', '.join(sorted(unknown))}; there are {', '.join(rooms)}")
    below = False
    for room in wanted.rooms or rooms:
        folder = KEPT / room
        if not wanted.report:
            folder = prepare(room, rooms[room])
            try_again(folder)
            run(folder, wanted.processes, wanted.minutes)
        found = tally(room, folder, equivalents())
        say(found)
        below = below or found.percent < GOAL
    return int(below)


if __name__ == "__main__":
    sys.exit(main())
