"""What the documents name exists: paths, links, make targets, packages on their floors."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOLDERS = "src|simulation|tests|docs|tools|deploy|bench|\\.ci"
NAMED_PATH = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/[\w./-]*)(?![\w<*{{-])")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
TARGET = re.compile(r"`make ([a-z][a-z-]*)")


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_output(text: str) -> str:
    """Transcripts show what programs print; only what stands outside of them is a claim of ours."""
    return re.sub(r"```(?:console|shell|sh|bash)\n.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_path_that_is_named_exists(page: Path) -> None:
    named = {path.rstrip("/.") for path in NAMED_PATH.findall(without_output(page.read_text()))}
    missing = sorted(path for path in named if not (ROOT / path).exists())
    assert not missing, missing


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_leads_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing, missing


PROGRAMS = sorted(
    path
    for folder in ("src", "simulation", "bench", "tests")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".toml", ".yaml", ".proto"}
)
ROW_ID = re.compile(r"(?<![\w-])(?:S[0-3]|E|[A-Z]{3})-\d\d(?![\w-])")
DECISION = re.compile(r"decisions?[ /](\d{4})")
DOCUMENT = re.compile(r"(?<![\w/.*-])(?!self\b)[\w./-]+\.md\b")
NOT_HERE = re.compile(r"seed 00\d|DESIGN (?:§|D\d)|decision D\d|(?<!RFC \d{4} )§ ?\w")
"""Of documents that a reader of this repository cannot open; RFCs have sections, too, and anyone can read them."""


@cache
def rows() -> set[str]:
    pages = (ROOT / "docs/reference").glob("*-parity.md")
    return {
        line.split(" | ")[0][2:]
        for page in pages
        for line in page.read_text().splitlines()
        if line[:2] == "| "
    }


def is_here(document: str, by: Path) -> bool:
    """A page may be named without its folder."""
    named = (folder / document for folder in (ROOT, by.parent))
    return any(path.exists() for path in named) or document in {page.name for page in PAGES}


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_what_the_code_cites_is_in_the_repository(program: Path) -> None:
    text = program.read_text()
    areas = {row.split("-")[0] for row in rows()}
    cited = [row for row in ROW_ID.findall(text) if row.split("-")[0] in areas]
    decisions = {path.name[:4] for path in (ROOT / "docs/decisions").glob("[0-9]*.md")}
    assert [row for row in cited if row not in rows()] == []
    assert [number for number in DECISION.findall(text) if number not in decisions] == []
    assert [name for name in DOCUMENT.findall(text) if not is_here(name, program)] == []
    assert NOT_HERE.findall(text) == []


AMBIGUOUS = re.compile(
    r"(?<![\w./-])(machine|machineset|machinedeployment)s?(?![\w.-]|\.[a-z$])", re.IGNORECASE
)
NAMESPACED = re.compile(r"(-n|--namespace|namespace|create ns)[ =]\S+")


def kubectl_lines(text: str) -> list[str]:
    """Each command that calls kubectl, with the lines that a backslash adds to it, and without its comment."""
    joined = re.sub(r"\\\n\s*", " ", text)
    found = re.findall(
        r"^(?:\$ |\s*- )?(?:[A-Z_]+=\S+ )*kubectl (.*)$|`kubectl ([^`]*)`", joined, re.MULTILINE
    )
    return [(one or other).partition("  #")[0] for one, other in found]


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_kubectl_line_says_which_api_of_machines_it_means(page: Path) -> None:
    if "\n$ .venv/bin/kubewright up --no-clusters" in page.read_text():
        return  # kubectl has one API of machines there
    wrong = [
        line
        for line in kubectl_lines(page.read_text())
        if AMBIGUOUS.search(NAMESPACED.sub("", line.partition("<<<")[0]))
    ]
    assert not wrong, wrong


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_row_of_a_table_stands_below_a_head_and_has_its_columns(page: Path) -> None:
    wrong, columns = [], 0
    lines = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL).splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) if line.startswith("|") else 0
        if cells and not columns:
            columns = cells if re.fullmatch(r"\|[-:| ]+\|", below) else -1
        if cells and cells != columns:
            wrong.append(line)
        columns = columns if cells else 0
    assert not wrong, wrong


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for page in PAGES for target in TARGET.findall(page.read_text())}
    assert named <= targets, named - targets


def test_help_explains_every_target() -> None:
    rules = re.findall(r"^([a-z][a-z-]*):(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    silent = [target for target, rest in rules if "## " not in rest]
    assert not silent, silent


def test_the_map_of_floors_is_the_one_that_is_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["id"] == "floors")["layers"]
    enforced = [set(re.findall(r"(?<!\()kubewright\.(\w+)(?!\))", layer)) for layer in layers]
    drawn = (ROOT / "ARCHITECTURE.md").read_text().partition("```text\n")[2].partition("```")[0]
    everything = set().union(*enforced)
    shown = [set(line.split()) & everything for line in drawn.splitlines()]
    assert set().union(*shown) == everything
    order = {name: height for height, names in enumerate(shown) for name in names}
    heights = [{order[name] for name in names} for names in enforced]
    assert all(len(height) == 1 for height in heights[2:]), "one line for each floor"
    assert [min(height) for height in heights] == sorted(min(height) for height in heights)


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {path.name for path in folder.glob("0*.md")}


def test_each_room_of_the_mutants_names_modules_and_tests_that_exist() -> None:
    rooms = tomllib.loads((ROOT / "tools" / "mutants" / "rooms.toml").read_text())
    named = [(f"src/kubewright/{module}", name) for name, room in rooms.items() for module in room["modules"]]
    named += [(f"tests/{test}", name) for name, room in rooms.items() for test in room["tests"]]
    gone = [f"{name}: {pattern}" for pattern, name in named if not any(ROOT.glob(pattern))]
    assert not gone, gone
