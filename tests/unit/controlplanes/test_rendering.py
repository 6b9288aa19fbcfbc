"""What is to run for a component: templates filled in, flags set, patches applied, in this order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NESTED_ETCD, ComponentSpec
from kubewright.api.meta import OwnerReference
from kubewright.apiserver.schema.builtin import BuiltinSchema
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.component.workload import sources
from kubewright.controlplanes.hosting.contract import Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.processes.allowed import (
    problem_of_command,
    problems,
    unsafe,
    unsupported,
    variables_of,
)
from kubewright.controlplanes.hosting.processes.instances import Site, files, program_of
from kubewright.controlplanes.templates.choice import Choice, choose
from kubewright.controlplanes.templates.patches import LARGEST, MOST_PATCHES, merge_keys_of, problem_of
from kubewright.controlplanes.templates.render import expand, fill_in, managed_flags, render
from kubewright.controlplanes.wiring import templates

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
PLACE = WorkloadIdentity(
    "team", "demo", Component.ETCD, OwnerReference(api_version="v1", kind="Toy", name="toy", uid="u")
)
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


def json_patch(*operations):
    return {"target": {"kind": "StatefulSet"}, "type": "json", "patch": list(operations)}


def add(path, value):
    return {"op": "add", "path": path, "value": value}


FIELDS = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "labels",
        "spec",
        "template",
        "containers",
        "command",
        "args",
        "env",
        "value",
        "ports",
        "volumes",
        "volumeMounts",
        "mountPath",
        "secret",
        "secretName",
        "items",
        "readinessProbe",
        "httpGet",
        "port",
        "$patch",
        "$retainKeys",
        "resources",
        "limits",
        "memory",
        "cpu",
        "emptyDir",
        "tcpSocket",
        "scheme",
        "path",
        "valueFrom",
        "fieldRef",
        "fieldPath",
        "key",
    ]
)
INNER = ["containers", "containers/0", "volumes", "containers/0/env", "containers/0/args/-"]
INNER += [
    f"containers/0/{each}" for each in ("command", "resources", "volumeMounts", "ports", "readinessProbe")
]
POINTERS = st.sampled_from(
    ["", "/", "/kind", "/metadata", "/metadata/name", "/spec", "/spec/template", "/spec/template/spec"]
    + [f"/spec/template/spec/{each}" for each in INNER]
)
TOY = "/spec/template/spec/containers/0"
DOUBLED = [{"op": "copy", "from": "/spec/x", "path": f"/spec/x/{chr(97 + each)}"} for each in range(11)]


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        pytest.param(json_patch(add("/kind", "Pod")), "it changes kind of StatefulSet demo-toy", id="kind"),
        pytest.param(
            json_patch(add("/metadata/name", "kube-system")),
            "it changes metadata.name of StatefulSet demo-toy",
            id="name",
        ),
        pytest.param(
            json_patch(add("", [1])),
            "in StatefulSet demo-toy, : Expected `object`, got `array`",
            id="no object",
        ),
        pytest.param(
            json_patch(add("/spec/template/spec/containers", [])),
            "in StatefulSet demo-toy, spec.template.spec.containers: Expected `array` of length >= 1",
            id="no container",
        ),
        pytest.param(
            json_patch(add(f"{TOY}/readinessProbe", {"tcpSocket": {"port": 1}, "periodSeconds": "soon"})),
            "in StatefulSet demo-toy, spec.template.spec.containers[0].readinessProbe.periodSeconds: Expected "
            "`int`, got `str`",
            id="a text for a number",
        ),
        pytest.param(
            json_patch(add(f"{TOY}/args", None)),
            "in StatefulSet demo-toy, spec.template.spec.containers[0].args: Expected `array`, got `null`",
            id="null for a list",
        ),
        pytest.param(
            json_patch(add(f"{TOY}/volumeMounts", [{"name": "v"}])),
            "in StatefulSet demo-toy, spec.template.spec.containers[0].volumeMounts[0]: Object missing required "
            "field `mountPath`",
            id="a mount without a path",
        ),
        pytest.param(
            {"target": {"kind": "StatefulSet"}, "type": "merge", "patch": {"metadata": None}},
            "in StatefulSet demo-toy, : Object missing required field `metadata`",
            id="no metadata",
        ),
    ],
)
def test_a_result_that_hosts_cannot_read_is_told_without_what_it_contains(patch, told):
    found = rendered(patches=[patch])
    assert found.problems == (f"spec.patches[0]: {told}",)
    assert found.fingerprint == rendered().fingerprint


def test_a_result_that_has_grown_too_large_is_refused_and_not_quoted():
    start = add("/spec/x", {"y": "z" * 1024})
    found = rendered(patches=[json_patch(start, *DOUBLED)])
    (told,) = found.problems
    assert told.startswith("spec.patches[0]: ")
    assert (len(told) < 300, "zzz" in told) == (True, False)
    assert found.fingerprint == rendered().fingerprint


def test_patches_cannot_grow_it_one_after_another():
    block = "z" * (LARGEST // 3)
    found = rendered(patches=[json_patch(add(f"/spec/{each}", block)) for each in "abcde"])
    assert [each[:16] for each in found.problems] == [
        "spec.patches[2]:",
        "spec.patches[3]:",
        "spec.patches[4]:",
    ]
    assert len(found.workload["spec"]) == len(rendered().workload["spec"]) + 2


def test_more_patches_than_are_allowed_are_told_and_not_applied():
    one = json_patch(add("/metadata/labels", {"a": "b"}))
    found = rendered(patches=[one] * (MOST_PATCHES + 1))
    assert found.problems == (
        f"spec.patches has {MOST_PATCHES + 1} entries, and {MOST_PATCHES} are the most",
    )


def test_a_long_name_in_a_patch_is_cut_in_what_is_told():
    found = rendered(patches=[{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x" * 100_000}}])
    assert len(found.problems[0]) < 500


def test_a_patch_that_is_nested_too_deeply_is_told():
    deep = {}
    for _ in range(20_000):
        deep = {"a": deep}
    found = rendered(patches=[{"target": {"kind": "Service"}, "type": "merge", "patch": {"spec": deep}}])
    assert found.problems == ("spec.patches[0]: it is nested too deeply",)


def test_whole_numbers_that_were_written_with_a_fraction_are_integers():
    probe = {"tcpSocket": {"port": 6443.0}, "failureThreshold": 3.0}
    found = container(rendered(patches=[json_patch(add(f"{TOY}/readinessProbe", probe))]))["readinessProbe"]
    assert repr(found) == "{'tcpSocket': {'port': 6443}, 'failureThreshold': 3}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)
OPERATION = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "replace", "remove", "copy", "move", "test"])},
    optional={"path": POINTERS, "from": POINTERS, "value": JSON},
)
PATCH = st.fixed_dictionaries(
    {"target": st.just({}) | JSON},
    optional={"type": st.sampled_from(["json", "merge", "strategic"]), "patch": JSON | st.lists(OPERATION)},
) | st.dictionaries(FIELDS, JSON)


@given(st.lists(PATCH, max_size=3))
def test_whatever_the_patches_are_there_is_a_workload_that_hosts_can_read(patches):
    asked = ComponentSpec(patches=tuple(patches))
    found = render(asked, CHOICE, VALUES, namespace="team", replicas=1)
    assert found.workload["metadata"]["name"] == "demo-toy"
    assert [problem_of(each, each) for each in found.manifests] == ["", ""]
    assert sources(found) is not None
    assert found.fingerprint
    assert judged(found) is not None


def judged(found):
    """What a host of processes says of it: sentences, and no bug of ours."""
    told = [*unsupported(found.workload), *unsafe(found.workload)]
    wanted = Workload(PLACE, "1.2.3", found, 1)
    try:
        files(wanted)
        if told := told or [*variables_of(wanted), problem_of_command(wanted)]:
            return told
        return list(problems(program_of(wanted, 0, Site("", "127.64.0.9", "/p")), "/p/team/demo/etcd-0"))
    except InvalidInput as error:
        return [str(error)]


LISTS = [
    pytest.param("topologySpreadConstraints", "topologyKey", id="spreading"),
    pytest.param("ephemeralContainers", "name", id="containers for debugging"),
    pytest.param("resourceClaims", "name", id="claims of devices"),
    pytest.param("schedulingGates", "name", id="gates"),
    pytest.param("tolerations", None, id="tolerations, which are replaced"),
]


@pytest.mark.parametrize(("field", "key"), LISTS)
def test_lists_of_a_pod_merge_as_kubernetes_merges_them(field, key):
    def with_one(name):
        pod = {"containers": [{"name": "toy"}], field: [{key or "key": name}]}
        return {"target": {"kind": "StatefulSet"}, "patch": {"spec": {"template": {"spec": pod}}}}

    found = rendered(patches=[with_one("a"), with_one("b")])
    names = [each[key or "key"] for each in found.workload["spec"]["template"]["spec"][field]]
    assert sorted(names) == (["a", "b"] if key else ["b"])


def test_devices_of_a_container_merge_by_their_path():
    def with_one(path):
        devices = [{"name": "d", "devicePath": path}]
        pod = {"containers": [{"name": "toy", "volumeDevices": devices}]}
        return {"target": {"kind": "StatefulSet"}, "patch": {"spec": {"template": {"spec": pod}}}}

    found = container(rendered(patches=[with_one("/a"), with_one("/b")]))
    assert sorted(each["devicePath"] for each in found["volumeDevices"]) == ["/a", "/b"]


def paths_of(node, path=(), deepest=9):
    yield path
    if len(path) < deepest:
        for name, inner in (node.items or node).fields.items():
            yield from paths_of(inner, (*path, name), deepest)


@pytest.mark.parametrize(
    ("api_version", "kind", "schema"),
    [("apps/v1", "StatefulSet", "apps.v1.StatefulSet"), ("v1", "Service", "core.v1.Service")],
)
def test_every_list_merges_as_the_api_server_merges_it(api_version, kind, schema):
    of_server, ours = BuiltinSchema(schema), merge_keys_of(api_version, kind)
    paths = list(paths_of(of_server.node))
    assert len(paths) > 50
    assert {path: ours(path) for path in paths} == {path: of_server.merge_keys(path) for path in paths}


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
            "spec.patches[2]: Service demo-toy would have 1200",
            id="patches that together make an object too large",
        ),
        pytest.param(
            [
                {
                    "target": {"kind": "Service"},
                    "type": "merge",
                    "patch": {"metadata": {"annotations": {"a": "x" * 250_000}}},
                }
            ]
            * 60,
            "spec.patches[33] and those after it are not applied: those before it have written 8388608 bytes",
            id="patches that write much in all",
        ),
    ],
)
def test_patches_that_go_too_far_are_told_and_not_applied(patches, told):
    found = rendered(patches=patches)
    assert [problem[: len(told)] for problem in found.problems] == [told]
    assert sum(len(str(each)) for each in found.manifests) < 1_000_000


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
    assert managed_flags(CONTAINER["args"]) == {"data-dir", "peers"}
    assert managed_flags(["run", "--", "--x"]) == frozenset()


def test_a_flag_with_a_port_of_the_container_is_the_controllers():
    """Probes and Services name the port too."""
    assert managed_flags(["--secure-port=6443", "--v=2"], [6443]) == {"secure-port"}
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
