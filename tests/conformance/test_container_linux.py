"""Container Linux Configs beside the transpiler that Cluster API uses, called as Cluster API calls it.

Guessed before the first run, and wrong: that ``strict`` refuses what is not known and nothing else. The transpiler
remarks on a file without a mode too, on a user's ``create``, and on an enabled unit without a section Install.
"""

from typing import Any

import pytest
import yaml
from tests.unit.bootstrap.container_linux_texts import REFUSED, REMARKED, TAKEN

from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.containerlinux import options
from kubewright.bootstrap.containerlinux.transpile import converted
from kubewright.testing.real_kubernetes import judges

pytestmark = pytest.mark.kube


def transpiled(*texts: str) -> list[judges.Transpiled]:
    return judges.transpiled(judges.CLCT.find(), texts)


def ours(text: str, *, strict: bool) -> Any:
    try:
        return bare(converted(text, strict=strict))
    except InvalidInput:
        return "refused"


def theirs(found: judges.Transpiled, *, strict: bool) -> Any:
    """What Cluster API makes of it; the version of Ignition is that of the base."""
    if found.config is None or (strict and found.entries):
        return "refused"
    config = bare(found.config)
    assert config.pop("ignition").pop("version") == "2.3.0"
    return config | bare({"ignition": {k: v for k, v in found.config["ignition"].items() if k != "version"}})


def bare(value: Any) -> Any:
    """Without members that are empty, which Go writes."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if bare(inner) not in ({}, [], None)}
    return [bare(each) for each in value] if isinstance(value, list) else value


TEXTS = {**TAKEN, **REMARKED, **REFUSED}


@pytest.mark.parametrize("strict", [False, True], ids=["loose", "strict"])
def test_each_text_becomes_what_cluster_api_makes_of_it(strict: bool) -> None:
    for (name, text), found in zip(TEXTS.items(), transpiled(*TEXTS.values()), strict=True):
        assert ours(text, strict=strict) == theirs(found, strict=strict), f"{name}: {found.report}"


def test_the_texts_are_in_the_right_list() -> None:
    for (name, text), found in zip(TEXTS.items(), transpiled(*TEXTS.values()), strict=True):
        where = REFUSED if found.config is None else REMARKED if found.entries else TAKEN
        assert name in where, f"{text}: {found.report}"


SAMPLES = {"text": 'a "b" \\ c', "number": 7, "switch": True}


@pytest.mark.parametrize("version", ["2.3.1", "3.0.0", "3.1.9", "3.2.1", "3.3.0", "3.4.20", "3.5.1", "3.6.0"])
def test_every_option_of_etcd_is_a_flag(version: str) -> None:
    known = options.etcd(tuple(map(int, version.split("."))))
    text = yaml.safe_dump(
        {"etcd": {"version": version, **{name: SAMPLES[kind] for name, kind in known.items()}}}
    )
    (found,) = transpiled(text)
    assert ours(text, strict=False) == theirs(found, strict=False), found.report


@pytest.mark.parametrize("version", ["0.5.5", "0.6.2", "0.7.1", "0.8.0"])
def test_every_option_of_flannel_is_a_flag(version: str) -> None:
    known = options.flannel(tuple(map(int, version.split("."))))
    given = {"version": version, **{name: SAMPLES[kind] for name, kind in known.items()}}
    (found,) = transpiled(text := yaml.safe_dump({"flannel": given}))
    assert ours(text, strict=False) == theirs(found, strict=False), found.report
