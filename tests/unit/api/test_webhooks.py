"""AdmissionReviews and the configurations of webhooks: what is asked, what is answered, where it is asked for."""

import base64
import json

import pytest
from tests.conformance.admission import BAD, BARE, BOOTSTRAP, CORE, INFRA, MACHINE, WARNED, made

from kubewright.api.admission import defaulted
from kubewright.api.catalog import RULES
from kubewright.api.machine.v1alpha1 import GROUP, MACHINE_CLASS, MACHINE_SET
from kubewright.api.webhooks.configurations import (
    Address,
    FailurePolicy,
    Registration,
    Scope,
    bundles,
    contains,
)
from kubewright.api.webhooks.review import Stage, reviewed, webhooks
from kubewright.base.errors import InvalidInput
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key
from kubewright.wire.patch import apply_json

HOOKS = webhooks(RULES)
BY_PATH = {each.path: each for each in HOOKS}
RULES_OF = {each.kind.resource.kind: each for each in RULES}  # those of Cluster API, where two have a name
OF_CLUSTERS = [each for each in HOOKS if each.rules.kind.resource.group != GROUP]


def path_of(stage, body):
    group, version = body["apiVersion"].split("/")
    return f"/{stage}-{group.replace('.', '-')}-{version}-{body['kind'].lower()}"


def review(body, old=None, *, operation="", **request):
    group, version = body["apiVersion"].split("/")
    asked = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": body["kind"]},
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "object": body,
        "oldObject": old,
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def answer(stage, body, old=None, **request):
    """The response to a review of this object."""
    found = reviewed(BY_PATH, path_of(stage, body), json.dumps(review(body, old, **request)).encode())
    said = json.loads(found.body)
    assert (said["apiVersion"], said["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert said["response"].pop("uid") == "u-1"
    assert said["response"]["allowed"] is found.allowed
    return said["response"]


def in_a_namespace(body):
    return {**body, "metadata": {**body["metadata"], "namespace": "default"}}


def operations(response):
    assert response["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(response["patch"]))


@pytest.mark.parametrize("body", BARE.values(), ids=BARE)
def test_the_patch_writes_the_defaults_of(body):
    sent = in_a_namespace(body)
    wanted = defaulted(RULES_OF[body["kind"]], sent, None)
    if not RULES_OF[body["kind"]].has_defaults:
        assert path_of("mutate", body) not in BY_PATH
        return
    response = answer("mutate", sent)
    assert apply_json(sent, operations(response)) == wanted != sent
    assert answer("mutate", wanted) == {"allowed": True}
    assert answer("validate", wanted) == {"allowed": True}


def test_the_patch_has_nothing_but_the_defaults():
    sent = in_a_namespace(made(CORE, "Machine", {**MACHINE, "version": "1.30.0", "unknown": None}))
    assert sorted((each["op"], each["path"]) for each in operations(answer("mutate", sent))) == [
        ("add", "/metadata/labels"),
        ("add", "/spec/infrastructureRef/namespace"),
        ("add", "/spec/nodeDeletionTimeout"),
        ("replace", "/spec/version"),
    ]


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_refused_with_causes(body):
    sent = defaulted(RULES_OF[body["kind"]], in_a_namespace(body), None)
    status = answer("validate", sent)["status"]
    group = body["apiVersion"].partition("/")[0]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["message"].startswith(f'{body["kind"]}.{group} "o" is invalid: ')
    details = status["details"]
    assert (details["name"], details["group"], details["kind"]) == ("o", group, body["kind"])
    for cause in details["causes"]:
        assert cause["field"].split(".")[0] in ("spec", "metadata")
        assert cause["reason"] in ("FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden")
        assert f"{cause['field']}: {cause['message']}" in status["message"]


OLD = in_a_namespace(BAD["a Machine without bootstrap data"])
LESS = {**OLD, "metadata": {**OLD["metadata"], "finalizers": []}}
MOVED = in_a_namespace(made(CORE, "Machine", {**MACHINE, "clusterName": "d"}))
ALLOWED = {
    "a bad object whose finalizer goes": ("validate", LESS, OLD, {}),
    "a deletion": ("validate", OLD, None, {"operation": "DELETE"}),
    "what its type cannot read, before it is refused": (
        "mutate",
        made(CORE, "Machine", {"clusterName": 5}),
        None,
        {},
    ),
    "what its type cannot read, while only its metadata changes": (
        "validate",
        made(CORE, "Machine", {"clusterName": 5}),
        in_a_namespace(made(CORE, "Machine", {"clusterName": 5})),
        {},
    ),
}


def test_what_its_type_cannot_read_is_refused():
    status = answer("validate", made(CORE, "Machine", {"clusterName": 5}))["status"]
    assert [(cause["field"], cause["message"]) for cause in status["details"]["causes"]] == [
        ("spec.clusterName", "Invalid value: 5: Expected `str`, got `int`")
    ]


@pytest.mark.parametrize(("stage", "body", "old", "request_"), ALLOWED.values(), ids=ALLOWED)
def test_let_through_as_it_is(stage, body, old, request_):
    assert answer(stage, body, old, **request_) == {"allowed": True}


def test_an_autoscaler_keeps_its_size_when_a_change_leaves_it_out():
    body = in_a_namespace(BARE["a MachineDeployment with an autoscaler"])
    before = {**body, "spec": {**body["spec"], "replicas": 4}}
    sizes = [each for each in operations(answer("mutate", body, before)) if each["path"] == "/spec/replicas"]
    assert sizes == [{"op": "add", "path": "/spec/replicas", "value": 4}]


def test_a_change_is_judged_against_what_was():
    before = in_a_namespace(made(CORE, "Machine", MACHINE))
    (cause,) = answer("validate", MOVED, before)["status"]["details"]["causes"][-1:]
    assert cause == {
        "reason": "FieldValueForbidden",
        "message": "Forbidden: field is immutable",
        "field": "spec.clusterName",
    }


@pytest.mark.parametrize("kind", ["MachineSet", "MachineDeployment"])
def test_an_object_whose_name_is_generated_is_named_before_a_selector_is_made_of_the_name(kind):
    body = in_a_namespace(made(CORE, kind, BARE[f"a {kind}"]["spec"]))
    body["metadata"] = {"namespace": "default", "generateName": "o-"}
    filled = apply_json(body, operations(answer("mutate", body)))
    name = filled["metadata"]["name"]
    assert (name[:2], len(name)) == ("o-", 7)
    label = "set-name" if kind == "MachineSet" else "deployment-name"
    for labels in (
        filled["spec"]["selector"]["matchLabels"],
        filled["spec"]["template"]["metadata"]["labels"],
    ):
        assert labels[f"cluster.x-k8s.io/{label}"] == name
    assert answer("validate", filled)["allowed"]


def test_names_that_no_default_is_made_of_are_left_to_the_server():
    body = in_a_namespace(made(CORE, "Machine", MACHINE))
    body["metadata"] = {"namespace": "default", "generateName": "o-"}
    assert "name" not in apply_json(body, operations(answer("mutate", body)))["metadata"]


def test_the_name_is_that_of_the_object_and_else_that_of_the_request():
    body = {**OLD, "metadata": {"namespace": "default", "generateName": "o-"}}
    message = answer("validate", body, name="asked-for")["status"]["message"]
    assert message.startswith('Machine.cluster.x-k8s.io "asked-for" is invalid')


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (WARNED, "spec"),
        (
            made(
                BOOTSTRAP,
                "KubeadmConfigTemplate",
                {"template": {"spec": {"useExperimentalRetryJoin": True}}},
            ),
            "spec.template.spec",
        ),
    ],
    ids=["a KubeadmConfig", "its template"],
)
def test_what_is_deprecated_is_a_warning(body, field):
    assert answer("validate", body) == {
        "allowed": True,
        "warnings": [
            f"{field}.useExperimentalRetryJoin is deprecated: kubeadm itself repeats what fails while it joins"
        ],
    }


def bent(**request):
    return {**review(OLD), "request": {**review(OLD)["request"], **request}}


OF_SETS = "/validate-cluster-x-k8s-io-v1beta1-machineset"
OF_MACHINES = "/validate-cluster-x-k8s-io-v1beta1-machine"
WRONG = {
    "nothing": (OF_MACHINES, b"", 400, "the body is no AdmissionReview"),
    "no JSON": (OF_MACHINES, b"{", 400, "the body is no AdmissionReview"),
    "no UTF-8": (OF_MACHINES, b'{"kind": "\xff"}', 400, "the body is no AdmissionReview"),
    "no object": (OF_MACHINES, [], 400, "Expected `object`, got `array`"),
    "no request": (OF_MACHINES, {"kind": "AdmissionReview"}, 400, "missing required field `request`"),
    "another kind": (OF_MACHINES, {**review(OLD), "kind": "Pod"}, 400, "it says that it is 'Pod'"),
    "another version": (
        OF_MACHINES,
        {**review(OLD), "apiVersion": "admission.k8s.io/v1beta1"},
        400,
        "admission.k8s.io/v1beta1",
    ),
    "no uid": (OF_MACHINES, bent(uid=""), 400, "its request has no uid"),
    "a uid that is none": (OF_MACHINES, bent(uid=5), 400, "Expected `str`, got `int` - at `$.request.uid`"),
    "an object that is none": (OF_MACHINES, bent(object=[]), 400, "at `$.request.object`"),
    "a creation of nothing": (OF_MACHINES, bent(object=None), 400, "CREATE is about one"),
    "a Machine where sets are judged": (OF_SETS, review(OLD), 400, "answers for MachineSet of"),
    "a path that is none": ("/validate-pods", review(OLD), 404, "no webhook at /validate-pods"),
}


@pytest.mark.parametrize(("path", "body", "code", "words"), WRONG.values(), ids=WRONG)
def test_what_is_no_review_is_an_error_that_says_why(path, body, code, words):
    with pytest.raises(ApiError) as refused:
        reviewed(BY_PATH, path, body if isinstance(body, bytes) else json.dumps(body).encode())
    assert refused.value.code == code
    assert words in str(refused.value)


# ---------------------------------------------------------------- the configurations

SERVICE = Address(Key("kubewright-system", "kubewright-webhooks"))


def test_a_service_is_asked_by_its_name_in_the_cluster():
    assert SERVICE.names[0] == "kubewright-webhooks.kubewright-system.svc"
    assert SERVICE.client_config("/p", b"PEM") == {
        "service": {
            "namespace": "kubewright-system",
            "name": "kubewright-webhooks",
            "path": "/p",
            "port": 443,
        },
        "caBundle": base64.b64encode(b"PEM").decode(),
    }


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://127.0.0.1:9443", "127.0.0.1"),
        ("https://[::1]:9443/", "::1"),
        ("https://hooks.example", "hooks.example"),
    ],
)
def test_a_url_is_asked_by_its_host(url, name):
    address = Address(url=url)
    assert address.names == (name,)
    assert address.client_config("/p", b"")["url"] == f"{url.rstrip('/')}/p"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9443", "must be https://HOST:PORT"),
        ("127.0.0.1:9443", "must be https://HOST:PORT"),
        ("https://", "must be https://HOST:PORT"),
        ("https://h:seven", "must be https://HOST:PORT"),
        ("https://me:secret@h:9443", "has a host and a port only"),
        ("https://h:9443/p", "has a host and a port only"),
        ("https://h:9443?a=b", "has a host and a port only"),
    ],
)
def test_a_url_that_no_api_server_takes_is_refused(url, words):
    with pytest.raises(InvalidInput, match=words):
        Address(url=url)


def test_each_kind_is_asked_about_once_at_each_stage_and_names_are_upstreams():
    told = Registration("kubewright-webhooks", HOOKS, SERVICE)
    mutating, validating = (told.entries(stage, b"PEM") for stage in Stage)
    assert len({each["name"] for each in validating}) == len(validating) == len(RULES)
    assert {each["name"] for each in mutating} == {
        f"default.{kind}"
        for kind in (
            "cluster.cluster.x-k8s.io",
            "machine.cluster.x-k8s.io",
            "machineset.cluster.x-k8s.io",
            "machinedeployment.cluster.x-k8s.io",
            "machinehealthcheck.cluster.x-k8s.io",
            "kubeadmconfig.bootstrap.cluster.x-k8s.io",
            "kubeadmconfigtemplate.bootstrap.cluster.x-k8s.io",
        )
    }
    assert mutating[1]["clientConfig"]["service"]["path"] == "/mutate-cluster-x-k8s-io-v1beta1-machine"
    assert {each["failurePolicy"] for each in (*mutating, *validating)} == {"Ignore"}
    assert {each["rules"][0]["apiVersions"][0] for each in validating} == {"v1beta1", "v1alpha4", "v1alpha1"}


def test_the_kinds_of_machines_have_rules_and_no_defaults_and_a_class_is_asked_about_for_what_is_judged():
    told = Registration("n", [each for each in HOOKS if each.rules.kind.resource.group == GROUP], SERVICE)
    assert not told.entries(Stage.MUTATING, b"PEM")
    asked = {
        each["rules"][0]["resources"][0]: each["matchConditions"][0]["expression"]
        for each in told.entries(Stage.VALIDATING, b"PEM")
    }
    assert set(asked) == {"machines", "machinesets", "machinedeployments", "machineclasses"}
    assert "object.spec != " not in asked[MACHINE_CLASS.resource.plural]
    assert "has(object.nodeTemplate)" in asked[MACHINE_CLASS.resource.plural]
    assert "has(object.spec)" in asked[MACHINE_SET.resource.plural]


SCOPES = {
    "all": (Scope(), ""),
    "one": (Scope(("a",)), "(request.namespace == 'a')"),
    "some, and those that begin alike": (
        Scope(("a", "team-*")),
        "(request.namespace == 'a' || request.namespace.startsWith('team-'))",
    ),
    "all but some": (
        Scope((), ("b", "c")),
        "!(request.namespace == 'b' || request.namespace == 'c')",
    ),
    "some of those": (
        Scope(("team-*",), ("team-b",)),
        "(request.namespace.startsWith('team-')) && !(request.namespace == 'team-b')",
    ),
}


@pytest.mark.parametrize(("scope", "condition"), SCOPES.values(), ids=SCOPES)
def test_a_process_is_asked_about_its_namespaces(scope, condition):
    (entry,) = Registration("n", OF_CLUSTERS[:1], SERVICE, scope=scope).entries(Stage.MUTATING, b"PEM")
    assert [each["expression"] for each in entry["matchConditions"][1:]] == ([condition] if condition else [])


def test_a_process_with_a_watch_filter_is_asked_about_objects_that_have_its_label():
    told = Registration("n", OF_CLUSTERS[:1], SERVICE, FailurePolicy.FAIL, Scope(labels={"a": "b"}))
    (entry,) = told.entries(Stage.MUTATING, b"PEM")
    assert entry["objectSelector"] == {"matchLabels": {"a": "b"}}
    assert entry["failurePolicy"] == "Fail"


def test_the_bundles_of_a_configuration_are_those_of_its_entries():
    told = Registration("n", HOOKS, SERVICE)
    assert bundles({"webhooks": told.entries(Stage.VALIDATING, b"PEM")}) == {b"PEM"}
    assert bundles({"webhooks": [{"clientConfig": {}}, {"clientConfig": {"caBundle": "%"}}]}) == {b""}
    assert bundles({}) == frozenset()


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ([{"a": {"b": 1, "new": True}}], True),
        ([{"a": {"b": 2}}], False),
        ([{"a": {}}], False),
        ([], False),
        ([{"a": {"b": 1}}, {}], False),
    ],
    ids=["with what a later API adds", "another value", "a value is missing", "nothing", "one too many"],
)
def test_what_is_found_is_compared_with_what_is_wanted(found, same):
    assert contains(found, [{"a": {"b": 1}}]) is same


def test_infrastructure_has_rules_and_no_defaults():
    assert path_of("mutate", made(INFRA, "KubewrightCluster", {})) not in BY_PATH
    assert path_of("validate", made(INFRA, "KubewrightCluster", {})) in BY_PATH
