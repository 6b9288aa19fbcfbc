"""The program is named so that its name can be typed again."""

from pathlib import Path

import pytest

from kubewright.compose.options import called

HERE = Path("/srv/kubewright")
CASES = [
    ("called by its path from here, and not on PATH", ".venv/bin/kubewright", None, ".venv/bin/kubewright"),
    ("called by its whole path below here", f"{HERE}/.venv/bin/kubewright", None, ".venv/bin/kubewright"),
    ("called from elsewhere", "../kw/bin/kubewright", None, "/srv/kw/bin/kubewright"),
    ("found on PATH", "/usr/bin/kubewright", "/usr/bin/kubewright", "kubewright"),
    ("another one is on PATH", ".venv/bin/kubewright", "/usr/bin/kubewright", ".venv/bin/kubewright"),
    ("a folder with a blank in its name", "/opt/my tools/kubewright", None, "'/opt/my tools/kubewright'"),
    ("another program", "/usr/bin/pytest", None, "kubewright"),
]


@pytest.mark.parametrize(("path", "found", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_program_is_named_as_the_user_called_it(path: str, found: str | None, expected: str) -> None:
    assert called(path, found, HERE) == expected
