"""The pages of statements have one row for each, and the tests that they name exist."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATEMENTS = {
    "capi-parity": {"S0": range(1, 56), "S1": range(1, 34), "S2": range(1, 22)},
    "nested-parity": {"S3": range(1, 50)},
}
"""How many each document has, by the page and the document's number."""
ROW = re.compile(r"^\| (S\d-\d\d) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
ACCEPTANCE = re.compile(r"^\| (E-\d\d) \| (.+) \| (.+) \|$", re.MULTILINE)
OF_MCM = re.compile(r"^\| ([A-Z]{3})-(\d\d) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
CHAPTERS_OF_MCM = (
    "1 Documents",
    "1 Documents: API reference",
    "2 Proposals: excess reserve capacity",
    "2 Proposals: gRPC based implementation of cloud providers",
    "2 Proposals: hot update of instances",
    "2 Proposals: initialization of machines",
    "3 ToDo",
    "4 FAQ",
    "5 Adding support for a cloud provider",
    "6 Deployment",
    "7 Integration tests",
    "8 Local setup",
    "9 Machine",
    "10 Machine deployment",
    "11 Machine error codes",
    "12 Machine set",
    "13 Prerequisite",
    "14 Testing and dependencies",
)
"""The chapters of MCM's documentation; the second is told by its proposals, the first by its two parts."""
BESIDE_THE_DOCUMENTATION = ("NOD", "SAF")
"""Areas of what the program does and no chapter says as its subject."""
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+(?:::\w+)?)`")
WITHOUT_TEST = ("not yet: ", "nothing to test: ")

ROWS = {page: ROW.findall((ROOT / f"docs/reference/{page}.md").read_text()) for page in STATEMENTS}
of_each_page = pytest.mark.parametrize("page", STATEMENTS)


@cache
def functions(path: str) -> frozenset[str]:
    """The tests of a file, those of a class as ``Class::test``; none if there is no such file."""
    file = ROOT / path
    body = ast.parse(file.read_text()).body if file.is_file() else []
    classes = (each for each in body if isinstance(each, ast.ClassDef))
    return frozenset(_tests(body)).union(
        f"{each.name}::{name}" for each in classes for name in _tests(each.body)
    )


def _tests(body: Iterable[ast.stmt]) -> Iterator[str]:
    found = (each.name for each in body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return (name for name in found if name.startswith("test_"))


def test_each_acceptance_test_of_control_planes_has_one_row_with_tests_that_exist() -> None:
    rows = ACCEPTANCE.findall((ROOT / "docs/reference/nested-parity.md").read_text())
    assert [row[0] for row in rows] == [f"E-{number:02}" for number in range(1, 16)]
    named = {row[0]: TEST.findall(row[2]) for row in rows}
    assert [number for number, tests in named.items() if not tests] == []
    assert [each for tests in named.values() for each in tests if each[1] not in functions(each[0])] == []


def test_each_behaviour_of_mcm_has_a_row_with_tests_that_exist_or_says_what_is_open() -> None:
    rows = OF_MCM.findall((ROOT / "docs/reference/mcm-parity.md").read_text())
    areas = [area for area, *_ in rows]
    numbers = {area: [int(number) for of, number, *_ in rows if of == area] for area in areas}
    assert {area: [*range(1, len(found) + 1)] for area, found in numbers.items()} == numbers
    assert areas == sorted(areas, key=areas.index), "rows of one area stand together"
    assert [row for row in rows if not row[3].startswith(("as it is", "differently: "))] == []
    shown = {f"{row[0]}-{row[1]}": row[4] for row in rows}
    assert [each for each, told in shown.items() if not TEST.search(told) and "open: " not in told] == []
    named = [(each, path, name) for each, told in shown.items() for path, name in TEST.findall(told)]
    assert [each for each in named if each[2] not in functions(each[1])] == []


def test_each_chapter_of_the_documentation_of_mcm_is_answered_by_rows_and_each_area_answers_one() -> None:
    page = (ROOT / "docs/reference/mcm-parity.md").read_text()
    answered = dict(re.findall(r"^\| (\d+ [^|]+?) \| ((?:[A-Z]{3}(?:, )?)+) \|$", page, re.MULTILINE))
    assert tuple(answered) == CHAPTERS_OF_MCM
    areas = {area for area, *_ in OF_MCM.findall(page)}
    named = {area for areas_of in answered.values() for area in areas_of.split(", ")}
    assert named - areas == set(), "rows that there are not"
    assert areas - named == set(BESIDE_THE_DOCUMENTATION), "an area that answers no chapter"


def test_each_behaviour_of_cluster_api_that_no_document_states_has_a_row_with_tests_that_exist() -> None:
    rows = OF_MCM.findall((ROOT / "docs/reference/capi-parity.md").read_text())
    numbers = {"MHC": range(1, 9), "KBC": range(1, 9)}
    wanted = [(area, f"{number:02}") for area, found in numbers.items() for number in found]
    assert [(area, number) for area, number, *_ in rows] == wanted
    assert [row for row in rows if not row[3].startswith(("as it is", "differently: "))] == []
    assert [row[:2] for row in rows if not TEST.search(row[4])] == []
    named = [(path, name) for row in rows for path, name in TEST.findall(row[4])]
    assert [each for each in named if each[1] not in functions(each[0])] == []


@of_each_page
def test_each_statement_has_one_row_in_order(page: str) -> None:
    documents = STATEMENTS[page].items()
    wanted = [f"{document}-{number:02}" for document, numbers in documents for number in numbers]
    assert [row[0] for row in ROWS[page]] == wanted


@of_each_page
def test_each_row_names_a_test_or_says_what_is_missing(page: str) -> None:
    silent = [row[0] for row in ROWS[page] if not TEST.search(row[3]) and not row[3].startswith(WITHOUT_TEST)]
    assert not silent, silent


@of_each_page
def test_what_is_read_differently_has_its_reason(page: str) -> None:
    readings = {number: reading for number, _, reading, _ in ROWS[page]}
    assert [
        number for number, said in readings.items() if not said.startswith(("as it is", "differently: "))
    ] == []


@of_each_page
def test_every_named_test_exists(page: str) -> None:
    named = [(row[0], path, name) for row in ROWS[page] for path, name in TEST.findall(row[3])]
    assert [each for each in named if each[2] not in functions(each[1])] == []
