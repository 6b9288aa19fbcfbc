"""What is to run for a component: templates filled in, flags set, patches applied, in this order."""

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NESTED_ETCD, ComponentSpec
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.rendering import flags
from kubewright.controlplanes.rendering.render import render
from kubewright.controlplanes.rendering.variables import expand, fill_in
from kubewright.controlplanes.templates.choice import Choice, choose
from kubewright.controlplanes.world import templates

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "${cluster}-toy"},
    "spec": {"ports": [{"name": "api", "port": 6443}]},
}
CONTAINER = {
    "name": "toy",
    "image": "toy:v${version}",
    "command": ["toy"],
    "args": ["--data-dir=$(DATA_DIR)", "--peers=${peers}", "--v=1", "--anonymous-auth=true"],
    "env": [{"name": "A", "value": "a"}],
}
TEMPLATE = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "${cluster}-toy"},
    "spec": {"template": {"spec": {"containers": [CONTAINER]}}},
}
CHOICE = Choice("1.2.3", (SERVICE, TEMPLATE))
VALUES = {"cluster": "demo", "peers": "a,b"}
FILLED = ["--data-dir=$(DATA_DIR)", "--peers=a,b", "--v=1", "--anonymous-auth=true"]


def rendered(replicas=1, **spec):
    asked = NESTED_ETCD.from_plain({"spec": spec}).spec
    return render(asked, CHOICE, VALUES, namespace="team", replicas=replicas)


def container(found):
    return found.workload["spec"]["template"]["spec"]["containers"][0]


def test_a_template_is_filled_in_and_placed():
    found = rendered(replicas=3)
    service, workload = found.manifests
    assert service == {**SERVICE, "metadata": {"name": "demo-toy", "namespace": "team"}}
    assert workload["metadata"] == {"name": "demo-toy", "namespace": "team"}
    assert workload["spec"]["replicas"] == 3
    assert container(found) == {**CONTAINER, "image": "toy:v1.2.3", "args": FILLED}
    assert found.problems == ()


@pytest.mark.parametrize(
    ("spec", "changed"),
    [
        pytest.param(
            {"extraArgs": {"v": "4"}}, {"args": [*FILLED[:2], "--v=4", FILLED[3]]}, id="another value"
        ),
        pytest.param(
            {"extraArgs": {"z": "1", "a": ""}}, {"args": [*FILLED, "--a=", "--z=1"]}, id="new flags"
        ),
        pytest.param({"withoutArgs": ["anonymous-auth"]}, {"args": FILLED[:3]}, id="a flag less"),
        pytest.param({"image": "mine:1"}, {"image": "mine:1"}, id="another image"),
        pytest.param({"binary": "/opt/toy"}, {"command": ["/opt/toy"]}, id="another program"),
        pytest.param(
            {"resources": {"limits": {"memory": "1Gi"}}},
            {"resources": {"limits": {"memory": "1Gi"}}},
            id="resources",
        ),
        pytest.param(
            {
                "patches": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "StatefulSet",
                        "metadata": {"name": "demo-toy", "namespace": "team"},
                        "spec": {"template": {"spec": {"containers": [{"name": "toy", "tty": True}]}}},
                    }
                ]
            },
            {"tty": True},
            id="a part of the object, merged by the name of the container",
        ),
        pytest.param(
            {
                "extraArgs": {"v": "4"},
                "patches": [
                    {
                        "target": {"kind": "StatefulSet"},
                        "type": "json",
                        "patch": [
                            {
                                "op": "replace",
                                "path": "/spec/template/spec/containers/0/args/2",
                                "value": "--v=9",
                            }
                        ],
                    }
                ],
            },
            {"args": [*FILLED[:2], "--v=9", FILLED[3]]},
            id="a JSON patch, which sees the user's flags",
        ),
    ],
)
def test_the_spec_changes_the_container(spec, changed):
    found = rendered(**spec)
    assert container(found) == {**CONTAINER, "image": "toy:v1.2.3", "args": FILLED, **changed}
    assert found.problems == ()


def test_a_merge_patch_of_every_object():
    patch = {"target": {}, "type": "merge", "patch": {"metadata": {"labels": {"a": "b"}}}}
    assert [each["metadata"]["labels"] for each in rendered(patches=[patch]).manifests] == [{"a": "b"}] * 2


def test_patches_are_applied_in_order():
    first = {"target": {"kind": "Service"}, "patch": {"spec": {"type": "NodePort"}}}
    then = {"target": {"name": "demo-toy", "kind": "Service"}, "patch": {"spec": {"type": "LoadBalancer"}}}
    assert rendered(patches=[first, then]).manifests[0]["spec"]["type"] == "LoadBalancer"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param(
            {"extraArgs": {"peers": "x"}},
            "the flag peers is set by the controller, because it says where something is: remove it",
            id="a flag that the controller fills in",
        ),
        pytest.param(
            {"withoutArgs": ["data-dir"]},
            "the flag data-dir is set by the controller, because it says where something is: remove it",
            id="a flag that is known at the start",
        ),
        pytest.param(
            {"patches": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "demo-toy"}}]},
            "spec.patches[0] is for no object: Deployment demo-toy; there are: Service demo-toy, StatefulSet "
            "demo-toy",
            id="a patch of another kind",
        ),
        pytest.param(
            {"patches": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}}]},
            "spec.patches[0] is for no object: Service other; there are: Service demo-toy, StatefulSet demo-toy",
            id="a patch of another name",
        ),
        pytest.param(
            {
                "patches": [
                    {
                        "apiVersion": "v1",
                        "kind": "Service",
                        "metadata": {"name": "demo-toy", "namespace": "other"},
                    }
                ]
            },
            "spec.patches[0] is for no object: Service demo-toy; there are: Service demo-toy, StatefulSet demo-toy",
            id="a patch of another namespace",
        ),
        pytest.param(
            {"patches": [{"apiVersion": "v1", "kind": "Service", "metadata": "no map"}]},
            "spec.patches[0] is for no object: Service without a name; there are: Service demo-toy, StatefulSet "
            "demo-toy",
            id="a patch with metadata that are none",
        ),
        pytest.param(
            {"patches": [{"target": {"kind": "Service"}, "type": "json", "patch": {"op": "add"}}]},
            "spec.patches[0]: ",
            id="a JSON patch that is no list",
        ),
    ],
)
def test_what_cannot_be_applied_is_told_and_changes_nothing(spec, told):
    found = rendered(**spec)
    assert [problem[: len(told)] for problem in found.problems] == [told]
    assert found.fingerprint == rendered().fingerprint


def _copies(times):
    steps = [{"op": "add", "path": "/metadata/annotations", "value": {"a": "x" * 100}}]
    steps += [
        {"op": "copy", "from": "/metadata/annotations", "path": f"/metadata/annotations/{n}"}
        for n in range(times)
    ]
    return {"target": {"kind": "Service"}, "type": "json", "patch": steps}


@pytest.mark.parametrize(
    ("patches", "told"),
    [
        pytest.param(
            [_copies(22)],
            "spec.patches[0]: Unable to complete the copy, the accumulated size increase of copy is ",
            id="copies that double a part of the object",
        ),
        pytest.param(
            [
                {
                    "target": {"kind": "Service"},
                    "type": "merge",
                    "patch": {"metadata": {"annotations": {n: "x" * 400_000}}},
                }
                for n in "abc"
            ],
            "spec.patches[2]: the object would have 1200",
            id="patches that together make an object too large",
        ),
        pytest.param(
            [_copies(11)] * 60,
            "spec.patches[36] and those after it are not applied: those before it have written 8388608 bytes",
            id="patches that write much in all",
        ),
        pytest.param(
            [
                {
                    "target": {"kind": "Service"},
                    "type": "json",
                    "patch": [{"op": "replace", "path": "", "value": 1}],
                }
            ],
            "spec.patches[0]: what it leaves has no apiVersion, kind or name, and is no object",
            id="a patch that leaves no object",
        ),
    ],
)
def test_patches_that_go_too_far_are_told_and_not_applied(patches, told):
    found = rendered(patches=patches)
    assert [problem[: len(told)] for problem in found.problems] == [told]
    assert sum(len(str(each)) for each in found.manifests) < 1_000_000


def test_of_many_patches_that_are_wrong_some_are_told():
    wrong = {"target": {"kind": "Service"}, "type": "json", "patch": {"op": "add"}}
    found = rendered(patches=[wrong] * 5_000)
    assert len(found.problems) == 21
    assert found.problems[-1] == "spec.patches[20] and those after it are not applied: too much is wrong"


def test_the_fingerprint_stands_for_the_manifests():
    assert rendered().fingerprint == rendered().fingerprint
    assert rendered(extraArgs={"v": "2"}).fingerprint != rendered().fingerprint


def test_a_template_that_needs_more_is_refused():
    with pytest.raises(InvalidInput, match="the template needs a value for peers, which there is not"):
        render(NESTED_ETCD.from_plain({}).spec, CHOICE, {"cluster": "demo"}, namespace="team", replicas=1)


def test_a_set_without_a_workload_is_refused():
    with pytest.raises(InvalidInput, match="a set of templates needs one StatefulSet; this one has 0"):
        render(NESTED_ETCD.from_plain({}).spec, Choice("1", ()), VALUES, namespace="team", replicas=1)


def test_a_value_never_changes_the_structure():
    assert fill_in({"a": ["${x}", 1, None]}, {"x": "}\n- b: c"}) == {"a": ["}\n- b: c", 1, None]}


def test_what_is_known_at_the_start_is_expanded_like_a_kubelet_does():
    assert expand("--a=$(A) --b=$(B)", {"A": "1"}) == "--a=1 --b=$(B)"


def test_flags_that_the_template_leaves_open_are_the_controllers():
    assert flags.managed(CONTAINER["args"]) == {"data-dir", "peers"}
    assert flags.managed(["run", "--", "--x"]) == frozenset()


def test_a_flag_with_a_port_of_the_container_is_the_controllers():
    """Probes and Services name the port too."""
    assert flags.managed(["--secure-port=6443", "--v=2"], [6443]) == {"secure-port"}
    for component in (Component.API_SERVER, Component.CONTROLLER_MANAGER):
        asked = ComponentSpec(version="1.36.3", extra_args={"secure-port": "7443"})
        choice = choose(component, asked, templates(), default="stable")
        assert isinstance(choice, Choice)
        values = {
            "cluster": "demo",
            "secrets": "demo",
            "component": "demo",
            "repository": "r",
            "service_cidr": "c",
        }
        values |= {"service_domain": "d", "etcd_servers": "e", "leader_elect": "false"}
        found = render(asked, choice, values, namespace="team", replicas=1)
        told = "the flag secure-port is set by the controller, because it says where something is: remove it"
        assert found.problems == (told,)
        assert not any(
            "7443" in each for each in found.workload["spec"]["template"]["spec"]["containers"][0]["args"]
        )


def test_files_of_secrets_and_config_maps_are_one_volume():
    files = [
        {"path": "oidc/ca.crt", "configMap": {"name": "oidc", "key": "ca"}},
        {"path": "audit.yaml", "secret": {"name": "audit", "key": "policy"}},
    ]
    pod = rendered(extraFiles=files).workload["spec"]["template"]["spec"]
    mount = {"name": "extra-files", "mountPath": "/etc/kubernetes/files", "readOnly": True}
    sources = [
        {"configMap": {"name": "oidc", "items": [{"key": "ca", "path": "oidc/ca.crt"}]}},
        {"secret": {"name": "audit", "items": [{"key": "policy", "path": "audit.yaml"}]}},
    ]
    assert pod["containers"][0]["volumeMounts"] == [mount]
    assert pod["volumes"] == [
        {"name": "extra-files", "projected": {"sources": sources, "defaultMode": 0o400}}
    ]
