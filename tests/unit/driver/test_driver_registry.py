"""Finding drivers by name."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.driver import registry
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
SIM = EntryPoint("sim", "kubewright.providers.sim:driver", registry.GROUP)
AGAIN = EntryPoint("sim", "elsewhere.cloud:make", registry.GROUP)
GONE = EntryPoint("gone", "kubewright.no_such_module:driver", registry.GROUP)
HOLLOW = EntryPoint("hollow", "kubewright.providers.sim:no_such_factory", registry.GROUP)
VALUE = EntryPoint("value", "kubewright.providers.sim:CLOUD_FILE", registry.GROUP)
SETTINGS = registry.Settings(LoopClock())


async def test_a_driver_is_made_by_its_name() -> None:
    assert isinstance(registry.load("sim", SETTINGS, [GONE, SIM]), SimDriver)


def test_the_simulated_cloud_comes_through_the_same_door() -> None:
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"][registry.GROUP]
    assert declared["sim"] == SIM.value


@pytest.mark.parametrize(
    ("name", "found", "says"),
    [
        pytest.param(
            "aws", [SIM, GONE], "installed drivers: gone, sim", id="an unknown name lists what there is"
        ),
        pytest.param("aws", [], "installed drivers: none", id="nothing installed is said so"),
        pytest.param(
            "sim", [SIM, AGAIN], "uninstall all but one", id="two offers of one name are settled by people"
        ),
        pytest.param("gone", [GONE], "cannot be loaded", id="a module that is missing is named"),
        pytest.param("hollow", [HOLLOW], "cannot be loaded", id="a factory that is missing is named"),
        pytest.param("value", [VALUE], "no factory", id="what cannot be called is no factory"),
    ],
)
def test_what_cannot_be_loaded_is_explained(name: str, found: list[EntryPoint], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        registry.load(name, SETTINGS, found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero", id="its module"),
        pytest.param("def make(:", "cannot be loaded: SyntaxError", id="its author, who made a slip"),
        pytest.param(
            "def make(settings):\n    return settings.options['region']",
            "cannot be made: KeyError: 'region'",
            id="its factory",
        ),
    ],
)
def test_a_plugin_that_fails_is_named_in_one_sentence(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"cloud_{abs(hash(text))}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    broken = EntryPoint("broken", f"{module}:make", registry.GROUP)
    with pytest.raises(InvalidInput, match=f"driver 'broken' .* {says}"):
        registry.load("broken", SETTINGS, [broken])


def test_the_same_offer_found_twice_counts_once() -> None:
    assert registry.names([SIM, SIM]) == ("sim",)
