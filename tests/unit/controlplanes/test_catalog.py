"""What a folder of sets of templates has to look like, and that ours does."""

from importlib.resources import files

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import ComponentSpec
from kubewright.base.durations import parse_duration
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.templates.catalog import Catalog, Entry, read
from kubewright.controlplanes.templates.choice import Choice, choose
from kubewright.processes import balancer

OURS = read(files("kubewright.controlplanes.templates") / "sets")


def folder(root, **texts):
    """A folder with these files, whose paths are written with ``__`` for ``/``."""
    for path, text in texts.items():
        file = root.joinpath(*path.split("__"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_channels_and_packages_are_read(tmp_path):
    written = {
        "stable": "manifests: [{name: etcd, version: 3.6.8}, {version: 1.0.0}]",
        "README.md": "not a channel",
        "packages__etcd__3.6__b.yaml": "name: second",
        "packages__etcd__3.6__a.yaml": "name: first\n---\n---\nname: next",
    }
    assert read(folder(tmp_path, **written)) == Catalog(
        {"stable": (Entry("etcd", "3.6.8"), Entry("", "1.0.0"))},
        {("etcd", "3.6"): ({"name": "first"}, {"name": "next"}, {"name": "second"})},
    )


@pytest.mark.parametrize(
    ("written", "told"),
    [
        pytest.param({"stable": "{"}, "templates: stable is not YAML", id="a channel that is not YAML"),
        pytest.param({"stable": "- a"}, "stable holds something that is not an object", id="a list"),
        pytest.param({"stable": "a: b"}, "channel stable: it has no list named manifests", id="no list"),
        pytest.param(
            {"stable": "manifests: [{name: etcd}]"},
            r"channel stable: manifests\[0\] needs a version, and may have a name",
            id="an entry without a version",
        ),
        pytest.param(
            {"stable": "manifests: [{name: ../etcd, version: 1.0.0}]"},
            r"channel stable: manifests\[0\] needs a version, and may have a name",
            id="an entry with a path",
        ),
        pytest.param(
            {"packages__Etcd__3.6__a.yaml": "a: b"},
            "templates: 'Etcd' cannot be the name of a package or a version",
            id="a package in capitals",
        ),
    ],
)
def test_a_folder_is_refused(tmp_path, written, told):
    with pytest.raises(InvalidInput, match=told):
        read(folder(tmp_path, **written))


@pytest.mark.parametrize("channel", OURS.channels)
@pytest.mark.parametrize("component", Component)
def test_each_channel_of_ours_has_templates_for_each_component(channel, component):
    found = choose(component, ComponentSpec(channel=channel), OURS, default="stable")
    assert isinstance(found, Choice)
    assert [each["kind"] for each in found.manifests].count("StatefulSet") == 1


def test_an_api_server_that_ends_serves_until_the_balancer_leads_new_connections_to_another_one():
    """And its grace period has the time for that, for a request of any length, and for its watches to end."""
    found = choose(Component.API_SERVER, ComponentSpec(channel="1.36"), OURS, default="stable")
    workload = next(each for each in found.manifests if each["kind"] == "StatefulSet")
    pod = workload["spec"]["template"]["spec"]
    flags = dict(each.split("=", 1) for each in pod["containers"][0]["args"])
    serves, watches = (
        parse_duration(flags[f"--shutdown-{name}"]).total_seconds()
        for name in ("delay-duration", "watch-termination-grace-period")
    )
    assert serves >= 2 * balancer.PROBE_PERIOD
    assert serves + balancer.HALF_OPEN_SECONDS + watches < pod["terminationGracePeriodSeconds"]
