"""Which version and which templates a component gets, by what it names and what there is."""

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import ComponentSpec
from kubewright.controlplanes.templates.catalog import Catalog, Entry
from kubewright.controlplanes.templates.choice import (
    Choice,
    NoChoice,
    choose,
    highest,
    ignored_channel,
    minor,
)

OLD, NEW, PATCHED, ETCD = ({"name": "old"},), ({"name": "new"},), ({"name": "patched"},), ({"name": "etcd"},)
CATALOG = Catalog(
    channels={
        "stable": (Entry("apiserver", "1.36.3"), Entry("apiserver", "1.35.9"), Entry("etcd", "3.6.8")),
        "legacy": (Entry("", "1.35.0"),),
        "broken": (Entry("apiserver", "1.99.0"),),
        "empty": (),
        "1.36": (Entry("", "1.36.3"), Entry("etcd", "3.6.8")),
    },
    packages={
        ("apiserver", "1.35"): OLD,
        ("apiserver", "1.36"): NEW,
        ("apiserver", "1.36.9"): PATCHED,
        ("etcd", "3.5-3.6"): ETCD,
    },
)
SERVER = Component.API_SERVER


def chosen(component=SERVER, of_plane="", **spec):
    return choose(component, ComponentSpec(**spec), CATALOG, default="stable", of_plane=of_plane)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(chosen(version="1.35.2"), Choice("1.35.2", OLD), id="a version, by its minor version"),
        pytest.param(chosen(version="v1.36.3"), Choice("1.36.3", NEW), id="a version with its letter"),
        pytest.param(
            chosen(version="1.36.9"), Choice("1.36.9", PATCHED), id="a version with its own templates"
        ),
        pytest.param(
            chosen(version="1.35.2", channel="stable"),
            Choice("1.35.2", OLD),
            id="both, of which the version counts",
        ),
        pytest.param(
            chosen(channel="stable"), Choice("1.36.3", NEW, "stable"), id="the highest version of a channel"
        ),
        pytest.param(
            chosen(channel="legacy"), Choice("1.35.0", OLD, "legacy"), id="an entry for every package"
        ),
        pytest.param(chosen(), Choice("1.36.3", NEW, "stable"), id="nothing named: the default channel"),
        pytest.param(
            chosen(of_plane="v1.35.4"), Choice("1.35.4", OLD), id="the version of the control plane"
        ),
        pytest.param(
            chosen(channel="stable", of_plane="1.35.4"),
            Choice("1.36.3", NEW, "stable"),
            id="a channel counts before the version of the control plane",
        ),
        pytest.param(
            chosen(Component.ETCD, of_plane="1.36.3"),
            Choice("3.6.8", ETCD, "1.36"),
            id="etcd has a version of its own, that of the control plane's minor version",
        ),
        pytest.param(
            chosen(Component.ETCD, version="3.5.21"),
            Choice("3.5.21", ETCD),
            id="templates of a range of minor versions",
        ),
        pytest.param(
            chosen(Component.ETCD, version="3.7.0"),
            NoChoice("there are no templates of etcd for version 3.7.0; there are those for: 3.5-3.6"),
            id="a version after the range",
        ),
        pytest.param(
            chosen(channel="nightly"),
            NoChoice("there is no channel nightly; there are: 1.36, broken, empty, legacy, stable"),
            id="an unknown channel",
        ),
        pytest.param(
            chosen(channel="empty"),
            NoChoice("channel empty has no version of apiserver"),
            id="a channel without the component",
        ),
        pytest.param(
            chosen(version="1.20.1"),
            NoChoice(
                "there are no templates of apiserver for version 1.20.1; there are those for: 1.35, 1.36, 1.36.9"
            ),
            id="a version without templates",
        ),
        pytest.param(
            chosen(channel="broken"),
            NoChoice(
                "channel broken: there are no templates of apiserver for version 1.99.0; there are those for: "
                "1.35, 1.36, 1.36.9"
            ),
            id="a channel that names a version without templates",
        ),
        pytest.param(
            chosen(Component.ETCD, of_plane="1.35.0"),
            NoChoice("there is no channel 1.35; there are: 1.36, broken, empty, legacy, stable"),
            id="a control plane of a minor version that no channel tells the etcd of",
        ),
    ],
)
def test_what_is_chosen(found, expected):
    assert found == expected


@pytest.mark.parametrize(
    ("versions", "first"),
    [
        (("1.9.0", "1.10.0"), "1.10.0"),
        (("v1.36.3", "1.36.3"), "v1.36.3"),
        (("latest", "0.1"), "0.1"),
        (("1.36.0-rc.1", "1.36.0"), "1.36.0"),
        (("1.36", "1.36.1"), "1.36.1"),
    ],
    ids=["numbers, not text", "the first of equals", "a word is lowest", "before the release", "short ones"],
)
def test_the_highest_version(versions, first):
    assert highest(versions) == first


@pytest.mark.parametrize(
    ("version", "told"), [("v1.36.3", "1.36"), ("1.36", "1.36"), ("1", ""), ("main", "")]
)
def test_the_minor_version(version, told):
    assert minor(version) == told


def test_naming_both_is_told():
    told = ignored_channel(ComponentSpec(version="1.36.3", channel="stable"))
    assert told == "spec.channel stable is ignored, because spec.version is 1.36.3"
    assert (
        ignored_channel(ComponentSpec(version="1.36.3"))
        == ignored_channel(ComponentSpec(channel="stable"))
        == ""
    )
