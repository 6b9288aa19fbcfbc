"""Whether an unhealthy machine may be replaced now: the limit of its deployment, and the brake for all."""

from typing import NamedTuple

import pytest

from kubewright.machines.machine.replacements import Fleet, ReplacementLimits, held_by, parsed_limit

ANNOTATED = "(kubewright.dev/max-replacements)"


class Case(NamedTuple):
    name: str
    fleet: Fleet
    limits: ReplacementLimits = ReplacementLimits()
    held: str = ""


CASES = [
    Case("a machine alone is replaced", Fleet()),
    Case("the first of three is replaced", Fleet(0, 3, "", 1, 3)),
    Case("the second one waits for the first", Fleet(1, 3, "", 2, 3), held="other machines are getting replaced"),
    Case("two at once, if the operator allows two", Fleet(1, 3, "", 2, 3), ReplacementLimits(2)),
    Case(
        "and no third one",
        Fleet(2, 3, "", 3, 3),
        ReplacementLimits(2),
        "other machines are getting replaced",
    ),
    Case("a tenth of thirty are three", Fleet(2, 30, "", 3, 30), ReplacementLimits("10%")),
    Case(
        "and a fourth one waits",
        Fleet(3, 30, "", 4, 30),
        ReplacementLimits("10%"),
        "other machines are getting replaced",
    ),
    Case("a tenth of three permits one", Fleet(0, 3, "", 1, 3), ReplacementLimits("10%")),
    Case("the deployment's annotation goes before the operator's limit", Fleet(1, 3, "2", 2, 3)),
    Case("it may be a percentage", Fleet(4, 10, "50%", 5, 10)),
    Case(
        "it may permit none",
        Fleet(0, 3, "0", 1, 3),
        held=f"its deployment allows no replacement {ANNOTATED}",
    ),
    Case("one that cannot be read counts as absent", Fleet(0, 3, "lots", 1, 3)),
    Case(
        "and is named while it holds a machine",
        Fleet(1, 3, "lots", 1, 3),
        held="other machines are getting replaced; annotation kubewright.dev/max-replacements: "
        "'lots' is neither a whole number nor a percentage such as 25%",
    ),
    Case(
        "a negative number cannot be read",
        Fleet(1, 3, "-1", 1, 3),
        held="other machines are getting replaced; annotation kubewright.dev/max-replacements: "
        "'-1' is neither a whole number nor a percentage such as 25%",
    ),
    Case("six of ten unhealthy machines are below a brake at 60 %", Fleet(0, 3, "", 6, 10), ReplacementLimits(1, "60%")),
    Case(
        "seven are above it, and none is replaced",
        Fleet(0, 3, "", 7, 10),
        ReplacementLimits(1, "60%"),
        "7 of 10 machines are unhealthy, and while more than 6 are (--machine-max-unhealthy), none is replaced",
    ),
    Case(
        "the brake goes before a deployment's annotation",
        Fleet(0, 3, "3", 3, 3),
        ReplacementLimits(1, 2),
        "3 of 3 machines are unhealthy, and while more than 2 are (--machine-max-unhealthy), none is replaced",
    ),
    Case("without a brake all may be unhealthy", Fleet(0, 3, "", 10, 10)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_holds_a_replacement(case: Case) -> None:
    assert held_by(case.fleet, case.limits) == case.held


@pytest.mark.parametrize("text", ["-1", "1.5", "25 %", "%", "", "٣", "99999999999"])
def test_a_limit_is_a_number_or_a_percentage(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        parsed_limit(text)
