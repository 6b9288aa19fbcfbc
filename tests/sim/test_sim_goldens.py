"""Each story as text, as it is kept in ``goldens/``: read the diff of these files in a review.

A change that is meant is written down with ``UPDATE_GOLDENS=1 pytest tests/sim/test_sim_goldens.py``.
"""

import os
import re
from pathlib import Path

import pytest

from simulation.goldens import in_words
from simulation.stories import STORIES
from simulation.story import Story

FOLDER = Path(__file__).parent / "goldens"
WITHOUT_REASON = re.compile(r"^plan +[^:]+:  -> (?!waits).*$", re.MULTILINE)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_gives_its_golden_file(story: Story) -> None:
    told, file = in_words(story), FOLDER / f"{story.name}.txt"
    if os.environ.get("UPDATE_GOLDENS"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(told)
    assert told == file.read_text()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_whatever_is_done_has_a_reason(story: Story) -> None:
    assert WITHOUT_REASON.findall((FOLDER / f"{story.name}.txt").read_text()) == []
