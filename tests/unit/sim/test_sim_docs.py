"""docs/reference/simulated-cloud.md says what the code does: names, fields, faults, options."""

import re
from pathlib import Path

import pytest

from kubewright.providers.sim.cloud import BEHAVIOURS
from kubewright.providers.sim.spec import Fault, KubeletSettings, Lifecycle, SimSpec
from kubewright.providers.sim.vm import DIE, LASTING, RESTART, VANISH

PAGE = (Path(__file__).parents[3] / "docs/reference/simulated-cloud.md").read_text()


def rows(heading: str) -> dict[str, str]:
    """The first table below a heading: first column to second."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]*?) \|", section, re.MULTILINE))


def test_every_word_of_a_name_is_described() -> None:
    assert rows("Names that choose a behaviour") == {word: it.shows for word, it in BEHAVIOURS.items()}


def test_every_order_is_described() -> None:
    assert set(rows("Breaking a VM with kubectl")) == {*LASTING, DIE, VANISH, RESTART}


def test_every_field_of_a_provider_spec_is_described() -> None:
    assert set(rows("Fields of providerSpec")) == set(SimSpec.__struct_encode_fields__)


def test_every_option_is_described_with_its_default() -> None:
    defaults = KubeletSettings()
    names = zip(KubeletSettings.__struct_encode_fields__, KubeletSettings.__struct_fields__, strict=True)
    told = {wire: getattr(defaults, field) for wire, field in names}
    in_words = {wire: value if isinstance(value, str) else f"{value:g}" for wire, value in told.items()}
    assert rows("Options of the driver") == in_words


@pytest.mark.parametrize("part", [Fault, Lifecycle], ids=["faults", "lifecycles"])
def test_every_field_of_faults_and_lifecycles_is_in_the_example(part: type[Fault] | type[Lifecycle]) -> None:
    assert all(f"{field}: " in PAGE for field in part.__struct_encode_fields__)
