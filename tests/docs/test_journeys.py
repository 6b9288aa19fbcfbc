"""The counting of journeys, which stands in ARCHITECTURE.md."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_get_is_followed_through_the_files_that_answer_it() -> None:
    told = subprocess.run(
        [sys.executable, ROOT / "tools" / "journeys.py", "GET"], capture_output=True, text=True, check=True
    )
    row = re.fullmatch(r"\| GET \| (\d+) files, (\d+) moves \|\n", told.stdout)
    assert row, told.stdout
    files, moves = map(int, row.groups())
    assert 4 <= files <= 30
    assert files <= moves + 1 <= 100
