"""The page of differences names exactly those that tests know: no more, no fewer."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "api-differences.md"
ASKED = re.compile(r'differs\(\s*"([^"]+)"')
LISTED = re.compile(r'embedded=\("([^"]+)"')


def test_every_difference_is_listed_and_every_listed_one_is_tested() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests" / "conformance").glob("*.py"))
    known = set(ASKED.findall(tests)) | set(LISTED.findall(tests))
    listed = set(re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE))
    assert listed == known
