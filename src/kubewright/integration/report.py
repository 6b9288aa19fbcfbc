"""How the cases ended, and the same as a report in the form of JUnit, which CI systems read. Pure.

Theory.      One ``testsuite`` with a ``testcase`` for each case, and one for the set-up or the clean-up if
             that failed. What clouds and drivers say goes into it, with any characters: those that XML cannot
             hold are written as their numbers in brackets.
Called by    ``run`` makes it; ``cli.driver`` writes it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from xml.etree import ElementTree

from kubewright.base.clock import rfc3339

SUITE = "kubewright driver test"
MOST_CHARS = 20_000
"""Of one message; what is longer is cut."""

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Outcome(StrEnum):
    """How a case ended. ``failed``: not as it should; ``error``: it could not be carried out."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one case, or of set-up or clean-up where these failed."""

    identity: str
    name: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All of it. ``left``: what the clean-up has not deleted; ``interrupted``: a user ended it."""

    results: tuple[Result, ...]
    began: datetime
    seconds: float
    left: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def well(self) -> bool:
        """Whether nothing failed and nothing is left."""
        bad = any(each.outcome in (Outcome.FAILED, Outcome.ERROR) for each in self.results)
        return not (bad or self.left or self.interrupted)

    def count(self, outcome: Outcome) -> int:
        return sum(each.outcome is outcome for each in self.results)

    def summary(self) -> str:
        """The last line of the terminal."""
        numbers = [f"{count} {each}" for each in Outcome if (count := self.count(each))]
        return f"{', '.join(numbers) or 'nothing was tried'} in {self.seconds:.0f} s"


def junit(report: Report) -> bytes:
    """The report as JUnit's XML."""
    numbers = {
        "name": SUITE,
        "tests": str(len(report.results)),
        "failures": str(report.count(Outcome.FAILED)),
        "errors": str(report.count(Outcome.ERROR)),
        "skipped": str(report.count(Outcome.SKIPPED)),
        "time": f"{report.seconds:.3f}",
        "timestamp": rfc3339(report.began).removesuffix("Z"),
    }
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", numbers)
    for each in report.results:
        _write(suite, each)
    if report.left:
        ElementTree.SubElement(suite, "system-err").text = valid(f"left: {', '.join(report.left)}")
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _write(suite: ElementTree.Element, result: Result) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": SUITE.replace(" ", "."),
            "name": valid(f"{result.identity}: {result.name}"),
            "time": f"{result.seconds:.3f}",
        },
    )
    tag = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}.get(result.outcome)
    if tag is not None:
        text = valid(result.message)
        told = ElementTree.SubElement(case, tag, {"message": text.splitlines()[0] if text else ""})
        if tag != "skipped":
            told.set("type", result.outcome.value)
            told.text = text


def valid(text: str) -> str:
    """A text that XML can hold, of bounded length."""
    short = text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]} ..."
    return _NOT_XML.sub(lambda found: f"[{ord(found[0]):#x}]", short)


def lines(results: Sequence[Result]) -> list[str]:
    """One line for each case that did not pass, for the end of the terminal."""
    return [
        f"{each.outcome}: {each.identity} ({each.name}): {each.message}"
        for each in results
        if each.outcome in (Outcome.FAILED, Outcome.ERROR)
    ]
