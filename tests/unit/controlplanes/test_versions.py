"""Which versions a component may have, and which component has its own first."""

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.templates.choice import Version, Versions, problem_of, waits_for

ETCD, SERVER, MANAGER = Component
KINDS = {ETCD: "NestedEtcd store", SERVER: "NestedAPIServer front", MANAGER: "NestedControllerManager loops"}
OLD, NEW = "1.35.2", "1.36.3"


def versions(plane=("", ""), **of_each):
    """``etcd``, ``server``, ``manager``: what each has and is to have, and whether the plane says so."""
    names = {"etcd": ETCD, "server": SERVER, "manager": MANAGER}
    found = {names[key]: Version(KINDS[names[key]], *given) for key, given in of_each.items()}
    return Versions(Version("NestedControlPlane demo", *plane), found)


REFUSED = [
    pytest.param(SERVER, versions(server=("", NEW)), "", id="the first version is any"),
    pytest.param(SERVER, versions(server=(OLD, NEW)), "", id="the next minor version"),
    pytest.param(SERVER, versions(server=(NEW, "1.36.9")), "", id="another patch release"),
    pytest.param(SERVER, versions(server=("1.36.9", NEW)), "", id="an earlier patch release: a bad one is left"),
    pytest.param(SERVER, versions(server=(NEW, "embedded")), "", id="what is no release is not compared"),
    pytest.param(SERVER, versions(server=(NEW, "")), "", id="nothing could be chosen, which is told elsewhere"),
    pytest.param(SERVER, versions(), "", id="one that another program runs"),
    pytest.param(
        SERVER,
        versions(server=("v1.34.1", NEW)),
        "it has version 1.34.1 and cannot become 1.36.3 at once: minor versions come one after another; name "
        "one of 1.35 first",
        id="a minor version that is left out",
    ),
    pytest.param(
        SERVER,
        versions(server=(NEW, OLD)),
        "it has version 1.36.3 and cannot become 1.35.2: what 1.36 has stored, an older minor version may not "
        "read; name one of 1.36 or 1.37",
        id="an older minor version",
    ),
    pytest.param(
        ETCD,
        versions(etcd=("3.6.8", "3.5.21")),
        "it has version 3.6.8 and cannot become 3.5.21: what 3.6 has stored, an older minor version may not "
        "read; name one of 3.6 or 3.7",
        id="an older etcd",
    ),
    pytest.param(
        SERVER,
        versions(server=("1.36.3", "2.0.0")),
        "it has version 1.36.3 and cannot become 2.0.0 at once: minor versions come one after another; name "
        "one of 1.37 first",
        id="another major version",
    ),
    pytest.param(
        ETCD,
        versions(("v1.34.1", NEW), etcd=("3.6.6", "3.6.8", True)),
        "NestedControlPlane demo: it has version 1.34.1 and cannot become 1.36.3 at once: minor versions come "
        "one after another; name one of 1.35 first",
        id="etcd does not go ahead to a version that the control plane cannot have",
    ),
    pytest.param(
        ETCD,
        versions(("v1.34.1", NEW), etcd=("3.6.6", "3.6.8")),
        "",
        id="an etcd with a version of its own",
    ),
    pytest.param(
        ETCD,
        versions(("v1.36.3", OLD), etcd=("3.6.6", "3.6.6", True)),
        "",
        id="an etcd that stays what it is, while the API server has a version of its own",
    ),
    pytest.param(
        MANAGER,
        versions(server=(OLD, OLD), manager=("", NEW)),
        "version 1.36.3 is newer than 1.35.2 of NestedAPIServer front, which a controller manager must not be; "
        "name one of 1.35",
        id="a controller manager that is newer than its API server",
    ),
    pytest.param(
        MANAGER, versions(server=(NEW, NEW), manager=("", OLD)), "", id="one that is one minor version older"
    ),
    pytest.param(
        MANAGER,
        versions(server=(NEW, NEW), manager=("", "1.34.9")),
        "NestedControllerManager loops with version 1.34.9 is more than one minor version older than "
        "NestedAPIServer front with 1.36.3; name one of 1.36 for both",
        id="one that is two minor versions older",
    ),
    pytest.param(
        SERVER,
        versions(server=("1.35.2", NEW), manager=("1.34.9", "1.34.9")),
        "NestedControllerManager loops with version 1.34.9 is more than one minor version older than "
        "NestedAPIServer front with 1.36.3; name one of 1.36 for both",
        id="an API server that would leave its controller manager behind",
    ),
    pytest.param(
        SERVER,
        versions(server=("1.35.2", NEW), manager=("1.34.9", NEW)),
        "NestedControllerManager loops with version 1.34.9 is more than one minor version older than "
        "NestedAPIServer front with 1.36.3; name one of 1.36 for both",
        id="so too where that one is to follow, and has not",
    ),
    pytest.param(
        SERVER, versions(server=(OLD, NEW), manager=(OLD, NEW)), "", id="both become newer, the API server first"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("component", "found", "told"), REFUSED)
def test_which_versions_are_refused(component, found, told):
    assert problem_of(component, found) == told


WAITS = [
    pytest.param(ETCD, versions(etcd=("3.6.6", "3.6.8"), server=(OLD, NEW)), "", id="etcd is the first"),
    pytest.param(
        SERVER,
        versions(etcd=("3.6.6", "3.6.8"), server=(OLD, NEW)),
        "NestedEtcd store has version 3.6.6, and becomes 3.6.8 first",
        id="the API server waits for its etcd",
    ),
    pytest.param(SERVER, versions(etcd=("3.6.8", "3.6.8"), server=(OLD, NEW)), "", id="whose turn it is then"),
    pytest.param(
        MANAGER,
        versions(etcd=("3.6.8", "3.6.8"), server=("v1.35.2", NEW), manager=(OLD, NEW)),
        "NestedAPIServer front has version 1.35.2, and becomes 1.36.3 first",
        id="the controller manager waits for the API server",
    ),
    pytest.param(MANAGER, versions(server=("v1.36.3", NEW), manager=(OLD, NEW)), "", id="and is the last"),
    pytest.param(SERVER, versions(server=(OLD, NEW)), "", id="an etcd that another program runs"),
    pytest.param(SERVER, versions(etcd=("", "3.6.8"), server=("", NEW)), "", id="the first start"),
    pytest.param(
        SERVER, versions(etcd=("v1.36.3", "embedded"), server=("", "embedded")), "", id="inside of this process"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("component", "found", "told"), WAITS)
def test_which_component_is_first(component, found, told):
    assert waits_for(component, found) == told
