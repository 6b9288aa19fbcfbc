"""Container Linux Configs beside the transpiler that Cluster API uses, called as Cluster API calls it.

Guessed before the first run, and wrong: that ``strict`` refuses what is not known and nothing else. The transpiler
remarks on a file without a mode too, on a user's ``create``, and on an enabled unit without a section Install.
"""

import random
from typing import Any

import pytest
import yaml
from tests.unit.bootstrap.container_linux_texts import REFUSED, REMARKED, TAKEN

from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.containerlinux import options
from kubewright.bootstrap.containerlinux.notation import NOTATION
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


GOOD = {
    "path": "/a",
    "device": "/dev/a",
    "format": "ext4",
    "mode": "0644",
    "size": "1GiB",
    "start": "1MiB",
    "url": "http://a/x?y=z",
    "source": "http://a",
    "function": "sha512",
    "sum": "0" * 128,
    "contents": "[Service]\nA=b\n[Install]\nB=c",
    "level": "raid1",
    "type_guid": "swap_partition",
    "guid": "",
    "label": "x",
    "group": "stable",
    "reboot_strategy": "off",
    "window_start": "10:00",
    "window_length": "1h",
    "compression": "gzip",
    "server": "http://a",
    "filesystem": "root",
    "local": "",
}
ODD = {
    "path": ("a", ""),
    "mode": ("0o755", "420", "99999999", "-1", "x"),
    "size": (
        "0",
        "10",
        "1.5GB",
        "-1GiB",
        "1KiB",
        ".5GiB",
        "1GiB1",
        "1 GiB",
        "2048B",
        "1GiB512MB",
        "99999999EiB",
    ),
    "url": (
        "https://a/b c",
        "ftp://x",
        "s3://a?versionId=",
        "data:,x",
        "data:,{}",
        "x",
        "http://a:b/",
        "http://%zz",
    ),
    "contents": (
        "",
        "[Service]\nA=b",
        "garbage",
        "[x",
        "#c\n[S]\na=b\\\nc\n\nfoo",
        "[S]\nfoo",
        "\n\n[S]\n\nA=b\r\n",
    ),
    "level": ("0", "stripe", "raid7"),
    "label": ("", "a:b", "a" * 13, "b" * 40),
    "group": ("Beta", "x", ""),
    "window_start": ("Sun 10:00", "sun 1:5", "24:00", "x y", "", "9:00"),
    "window_length": ("1.5h", "1h30", "-1s", "x", ""),
    "name": ("root", "b.conf", "c.network", "d", ""),
    "server": ("", "%zz"),
}
ALWAYS = ("path", "name", "device", "devices", "level", "format", "mode")


def grown(chosen: random.Random, name: str, wanted: Any) -> Any:
    """A value of this type, most often one that is taken."""
    if isinstance(wanted, dict):
        return {
            key: grown(chosen, key, inner)
            for key, inner in wanted.items()
            if key in ALWAYS or chosen.random() < 0.5
        }
    if isinstance(wanted, list):
        return [grown(chosen, name, wanted[0]) for _ in range(chosen.randint(0, 2))]
    if name in ODD and chosen.random() < 0.1:
        return chosen.choice(ODD[name])
    usual = {
        options.TEXT: "a.service" if name == "name" else 'b "c" é',
        options.SWITCH: chosen.choice((True, False)),
    }
    found = GOOD.get(name, usual.get(wanted, chosen.randint(1, 9)))
    return int(found, 8) if name == "mode" else found


def test_texts_that_nobody_thought_of_become_what_cluster_api_makes_of_them() -> None:
    chosen, texts = random.Random(7), []
    for _ in range(1500):
        sections = chosen.sample(sorted(set(NOTATION) - {"version"}), chosen.randint(1, 2))
        texts.append(yaml.safe_dump({each: grown(chosen, each, NOTATION[each]) for each in sections}))
    taken = 0
    for text, found in zip(texts, transpiled(*texts), strict=True):
        for strict in (False, True):
            assert ours(text, strict=strict) == theirs(found, strict=strict), f"{text}\n{found.report}"
        taken += found.config is not None
    assert taken > len(texts) // 3
