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


def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> EntryPoint:
    """A driver from elsewhere, whose module says this."""
    name = f"plugin_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return EntryPoint("theirs", f"{name}:make", registry.GROUP)


HALF = "class Half:\n    def create(self, request): ...\n\ndef make(settings):\n    return Half()\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(
            "def make(settings):\n    raise SystemExit(7)",
            "cannot be made: SystemExit: 7",
            id="one that ends us",
        ),
        pytest.param(
            "raise SystemExit('no region')", "cannot be loaded: SystemExit: no region", id="its module"
        ),
        pytest.param(
            "def make(settings):\n    pass", "made a NoneType without create, initialize", id="nothing"
        ),
        pytest.param(
            "async def make(settings):\n    pass", "made a coroutine without create", id="a promise"
        ),
        pytest.param(HALF, "made a Half without initialize, delete, status, list, volume_ids", id="a half"),
        pytest.param(
            "def make(settings):\n    raise ValueError('no\\n\\nregion')",
            "ValueError: no region$",
            id="lines",
        ),
        pytest.param("def make(settings):\n    raise ValueError('x' * 10**6)", "x$", id="a flood"),
    ],
)
def test_a_driver_from_elsewhere_that_is_not_configured_well_ends_us_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as raised:
        registry.load("theirs", SETTINGS, [plugin(monkeypatch, tmp_path, text)])
    assert "driver 'theirs'" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 3000


def test_a_driver_may_say_which_options_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    silent = plugin(monkeypatch, tmp_path, "def make(settings): ...")
    assert registry.options_of("theirs", [silent]) is None
    assert "leaseSeconds" in (registry.options_of("sim", [SIM]) or ())


KNOWN = {"endpointUrl", "attempts"}
VARIABLES: dict[str, tuple[dict[str, str], set[str] | None, dict[str, str], list[str]]] = {
    "in capitals": ({"MC_ENDPOINT_URL": "u"}, KNOWN, {"endpointUrl": "u"}, []),
    "without a line between words": ({"MC_ENDPOINTURL": "u"}, KNOWN, {"endpointUrl": "u"}, []),
    "as the option is written": ({"MC_endpointUrl": "u"}, KNOWN, {"endpointUrl": "u"}, []),
    "one that the driver does not know": ({"MC_SID": "1", "MC_ATTEMPTS": "3"}, KNOWN, {"attempts": "3"}, ["MC_SID"]),
    "one without a value": ({"MC_ATTEMPTS": ""}, KNOWN, {}, []),
    "of other programs": ({"PATH": "/", "XMC_ATTEMPTS": "3", "MC": "x"}, KNOWN, {}, []),
    "the prefix alone": ({"MC_": "x"}, KNOWN, {}, []),
    "of a driver that does not say": ({"MC_ENDPOINT_URL": "u", "MC_zone": "z"}, None, {"endpointUrl": "u", "zone": "z"}, []),
}  # fmt: skip


@pytest.mark.parametrize(("environ", "known", "given", "unknown"), VARIABLES.values(), ids=VARIABLES)
def test_variables_with_the_prefix_are_options_of_the_driver(
    environ: dict[str, str], known: set[str] | None, given: dict[str, str], unknown: list[str]
) -> None:
    assert registry.from_environment(environ, known) == (given, unknown)


def test_two_variables_for_one_option_are_refused_without_their_values() -> None:
    both = {"MC_ENDPOINT_URL": "hush", "MC_endpointUrl": "silence"}
    with pytest.raises(
        InvalidInput, match="MC_ENDPOINT_URL and MC_endpointUrl are the same option"
    ) as raised:
        registry.from_environment(both, KNOWN)
    assert "hush" not in str(raised.value)
    assert "silence" not in str(raised.value)
