"""Who may do what: the same questions and the same refusals on both servers.

Every user but the admin is impersonated by the admin (``Impersonate-User``). Names of users
and of cluster-wide objects carry the test's namespace, so that one real server serves all tests.
"""

from typing import Any

import pytest

from kubewright.apiserver.authorization.defaults import objects
from kubewright.apiserver.authorization.policy import Rule, rules_in
from kubewright.testing.api import Answer, Api, Object
from kubewright.wire.release import KUBERNETES

RBAC = "rbac.authorization.k8s.io"
AUTHZ = "/apis/authorization.k8s.io/v1"
READS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
MARK = {"apiGroups": ["test"], "resources": ["marks"], "verbs": ["see"]}
"""Stands in every role, to be waited for: a real server takes a moment to use a new one."""


def user(api: Api) -> str:
    return f"ann-{api.namespace}"


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> Object:
    named = {"resourceNames": names.split()} if names else {}
    spelled = groups.split(",")
    return {"verbs": verbs.split(), "apiGroups": spelled, "resources": resources.split(), **named}


async def role(api: Api, name: str, *rules: Object, kind: str = "roles", **more: Any) -> None:
    path = api.at(kind, group=RBAC) if kind == "roles" else f"/apis/{RBAC}/v1/{kind}"
    (await api.post(path, {"metadata": {"name": name}, "rules": list(rules), **more})).ok()


async def binding(
    api: Api, name: str, ref: tuple[str, str], *subjects: Object, kind: str = "rolebindings"
) -> None:
    path = api.at(kind, group=RBAC) if kind == "rolebindings" else f"/apis/{RBAC}/v1/{kind}"
    of = {"apiGroup": RBAC, "kind": ref[0], "name": ref[1]}
    (await api.post(path, {"metadata": {"name": name}, "roleRef": of, "subjects": list(subjects)})).ok()


def person(api: Api) -> Object:
    return {"kind": "User", "name": user(api), "apiGroup": RBAC}


async def may(api: Api, **attributes: str) -> Object:
    """The status of a SelfSubjectAccessReview; ``path`` asks for a path that is no resource."""
    what = "nonResourceAttributes" if "path" in attributes else "resourceAttributes"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {what: attributes},
    }
    status: Object = (await api.post(f"{AUTHZ}/selfsubjectaccessreviews", body)).ok()["status"]
    return status


async def role_in_use(api: Api, namespace: str = "") -> None:
    """Wait until the user has the right that stands in every role."""

    async def marked() -> bool:
        namespaced = {"namespace": namespace or api.namespace} if namespace != "*" else {}
        return bool((await may(api, verb="see", group="test", resource="marks", **namespaced))["allowed"])

    await api.eventually(marked, "the role is in use")


async def granted(api: Api, *rules: Object) -> Api:
    """The server as a user who has these rules in the test's namespace."""
    await role(api, "r", *rules, MARK)
    await binding(api, "b", ("Role", "r"), person(api))
    ann = api.as_user(user(api))
    await role_in_use(ann)
    return ann


def refused(answer: Answer) -> str:
    assert (answer.code, answer.reason, answer.body["status"]) == (403, "Forbidden", "Failure"), answer.body
    return answer.message


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("method", "path", "query", "said"),
    [
        ("GET", "/api/v1/nodes", {}, 'nodes is forbidden: {who} cannot list resource "nodes" in API group "" at the cluster scope'),
        ("GET", "/api/v1/nodes/a", {}, 'nodes "a" is forbidden: {who} cannot get resource "nodes" in API group "" at the cluster scope'),
        ("GET", "{ns}/pods", {}, 'pods is forbidden: {who} cannot list resource "pods" in API group "" {there}'),
        ("GET", "{ns}/pods", {"watch": "1"}, 'pods is forbidden: {who} cannot watch resource "pods" in API group "" {there}'),
        ("GET", "{ns}/pods", {"fieldSelector": "metadata.name=a"}, 'pods "a" is forbidden: {who} cannot list resource "pods" in API group "" {there}'),
        ("DELETE", "{ns}/pods", {}, 'pods is forbidden: {who} cannot deletecollection resource "pods" in API group "" {there}'),
        ("PATCH", "{ns}/pods/a/status", {}, 'pods "a" is forbidden: {who} cannot patch resource "pods/status" in API group "" {there}'),
        ("POST", "{ns}/pods/a/eviction", {}, 'pods "a" is forbidden: {who} cannot create resource "pods/eviction" in API group "" {there}'),
        ("PUT", "/apis/apps/v1/namespaces/{name}/deployments/d/scale", {}, 'deployments.apps "d" is forbidden: {who} cannot update resource "deployments/scale" in API group "apps" {there}'),
        ("GET", "/api/v1/namespaces/{name}", {}, 'namespaces "{name}" is forbidden: {who} cannot get resource "namespaces" in API group "" {there}'),
        ("GET", "/apis/no.such/v1/things", {}, 'things.no.such is forbidden: {who} cannot list resource "things" in API group "no.such" at the cluster scope'),
        ("GET", "/metrics", {}, 'forbidden: {who} cannot get path "/metrics"'),
        ("POST", "/version", {}, 'forbidden: {who} cannot post path "/version"'),
    ],
)  # fmt: skip
async def test_a_refusal_names_the_right_that_is_missing(
    api: Api, method: str, path: str, query: dict[str, str], said: str
) -> None:
    words = {
        "name": api.namespace,
        "who": f'User "{user(api)}"',
        "there": f'in the namespace "{api.namespace}"',
    }
    where = path.format(ns=f"/api/v1/namespaces/{api.namespace}", **words)
    body = {} if method in ("POST", "PUT", "PATCH") else None
    answer = await api.as_user(user(api)).call(method, where, body, query=query)
    assert refused(answer) == said.format(**words)


async def test_a_refusal_has_the_details_of_what_was_asked(api: Api) -> None:
    ann = api.as_user(user(api))
    answer = await ann.get(api.at("deployments", "d", group="apps"))
    assert answer.body["details"] == {"name": "d", "group": "apps", "kind": "deployments"}
    assert (await ann.get("/metrics")).body["details"] == {}


async def test_a_refusal_names_a_role_that_is_missing(api: Api) -> None:
    ann = api.as_user(user(api))
    await binding(api, "b", ("Role", "none"), person(api))

    async def noted() -> bool:
        return 'RBAC: role.rbac.authorization.k8s.io "none" not found' in refused(
            await ann.get(api.at("pods"))
        )

    await api.eventually(noted, "the refusal tells")
    found = await may(ann, verb="list", resource="pods", namespace=api.namespace)
    assert found == {"allowed": False, "reason": 'RBAC: role.rbac.authorization.k8s.io "none" not found'}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/version", 200),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/api", 403),
        ("/apis", 403),
        ("/api/v1/pods", 403),
    ],
)
async def test_what_the_anonymous_may_see(server: Api, path: str, code: int) -> None:
    assert (await server.as_user("system:anonymous").get(path)).code == code


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz"])
async def test_every_authenticated_user_may_discover(api: Api, path: str) -> None:
    assert (await api.as_user(user(api)).get(path)).code == 200


# ---------------------------------------------------------------- what roles give


@pytest.mark.parametrize(
    ("given", "asked", "allowed"),
    [
        pytest.param(READS, "list configmaps", True, id="what stands in the role"),
        pytest.param(READS, "delete configmaps", False, id="another verb"),
        pytest.param(READS, "list secrets", False, id="another resource"),
        pytest.param(READS, "list configmaps.apps", False, id="another group"),
        pytest.param(rule("get", "pods"), "get pods/log", False, id="a subresource of the resource"),
        pytest.param(rule("get", "pods/log"), "get pods/log", True, id="a subresource"),
        pytest.param(rule("create", "pods/eviction"), "create pods", False, id="the resource of a subresource"),
        pytest.param(rule("update", "*/scale", "*"), "update deployments.apps/scale", True, id="one part of all"),
        pytest.param(rule("update", "*/*", "*"), "update deployments.apps/scale", False, id="the star has no parts"),
        pytest.param(rule("*", "pods"), "approve pods", True, id="every verb"),
        pytest.param(rule("get", "*", "*"), "get machines.machine.sapcloud.io/status", True, id="everything"),
        pytest.param(rule("get", "*"), "get deployments.apps", False, id="everything of one group"),
        pytest.param(rule("get", "pods", names="a b"), "get pods b", True, id="one of the names"),
        pytest.param(rule("get", "pods", names="a b"), "get pods c", False, id="another name"),
        pytest.param(rule("list", "pods", names="a"), "list pods", False, id="no name where names are asked for"),
        pytest.param(rule("*", "*", "*"), "* *.*", True, id="whether everything"),
    ],
)  # fmt: skip
async def test_what_a_role_allows(api: Api, given: Object, asked: str, allowed: bool) -> None:
    ann = await granted(api, given)
    verb, what, name = [*asked.split(" "), ""][:3]
    resource, _, part = what.partition("/")
    resource, _, group = resource.partition(".")
    attributes = {"verb": verb, "resource": resource, "group": group, "subresource": part, "name": name}
    found = await may(ann, namespace=api.namespace, **attributes)
    assert found["allowed"] is allowed
    assert not (await may(ann, namespace="elsewhere", **attributes))["allowed"]


async def test_a_list_or_watch_of_one_name_needs_that_name_only(api: Api) -> None:
    ann = await granted(api, rule("list watch deletecollection", "configmaps", names="a"))
    (await api.post(api.at("configmaps"), {"metadata": {"name": "a"}})).ok()
    one = {"fieldSelector": "metadata.name=a"}
    assert len((await ann.get(api.at("configmaps"), **one)).ok()["items"]) == 1
    assert refused(await ann.get(api.at("configmaps")))
    assert refused(await ann.get(api.at("configmaps"), fieldSelector="metadata.name=b"))
    async with ann.watch(api.at("configmaps"), **one) as watch:
        assert (await watch.next("ADDED"))["object"]["metadata"]["name"] == "a"
    assert refused(await ann.call("DELETE", api.at("configmaps"), query=one))


async def test_what_is_allowed_is_done_and_nothing_else(api: Api) -> None:
    ann = await granted(api, rule("create get patch", "configmaps"), rule("create", "pods/eviction"))
    (await ann.post(api.at("configmaps"), {"metadata": {"name": "a"}})).ok()
    assert (await ann.patch(api.at("configmaps", "a"), {"data": {"k": "v"}})).ok()["data"] == {"k": "v"}
    assert refused(await ann.delete(api.at("configmaps", "a")))
    assert refused(await ann.get("/api/v1/configmaps"))
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": api.namespace},
    }
    assert (await ann.post(api.at("pods", "p/eviction"), body)).code == 404
    assert refused(await ann.delete(api.at("pods", "p")))


async def test_rights_end_with_their_binding(api: Api) -> None:
    ann = await granted(api, READS)
    (await api.delete(api.at("rolebindings", "b", group=RBAC))).ok()

    async def ended() -> bool:
        return (await ann.get(api.at("configmaps"))).code == 403

    await api.eventually(ended, "the right has ended")


@pytest.mark.parametrize("kind", ["User", "Group", "ServiceAccount", "accounts of the namespace"])
async def test_a_binding_names_users_groups_and_service_accounts(api: Api, kind: str) -> None:
    await role(api, "r", READS, MARK)
    subject, asking = {
        "User": (person(api), api.as_user(user(api))),
        "Group": ({"kind": "Group", "name": "devs", "apiGroup": RBAC}, api.as_user("x", group="devs")),
        "ServiceAccount": (
            {"kind": "ServiceAccount", "name": "sa", "namespace": api.namespace},
            api.as_user(f"system:serviceaccount:{api.namespace}:sa"),
        ),
        "accounts of the namespace": (
            {"kind": "Group", "name": f"system:serviceaccounts:{api.namespace}", "apiGroup": RBAC},
            api.as_user(f"system:serviceaccount:{api.namespace}:any"),
        ),
    }[kind]
    await binding(api, "b", ("Role", "r"), subject)
    await role_in_use(asking)
    assert (await asking.get(api.at("configmaps"))).code == 200
    assert (await api.as_user("stranger", group="others").get(api.at("configmaps"))).code == 403


async def test_a_cluster_role_gives_where_it_is_bound(api: Api) -> None:
    name = f"reads-{api.namespace}"
    await role(
        api, name, READS, MARK, {"verbs": ["get"], "nonResourceURLs": ["/metrics*"]}, kind="clusterroles"
    )
    await binding(api, "b", ("ClusterRole", name), person(api))
    ann = api.as_user(user(api))
    await role_in_use(ann)
    assert (await ann.get(api.at("configmaps"))).code == 200
    assert refused(await ann.get("/api/v1/configmaps"))
    assert refused(await ann.get("/metrics"))
    await binding(api, name, ("ClusterRole", name), person(api), kind="clusterrolebindings")
    await role_in_use(ann, "*")
    assert (await ann.get("/api/v1/configmaps")).code == 200
    assert (await ann.get("/metrics")).code == 200
    told = (await may(ann, verb="get", path="/metrics/slis"))["reason"]
    assert (
        told == f'RBAC: allowed by ClusterRoleBinding "{name}" of ClusterRole "{name}" to User "{user(api)}"'
    )


async def test_masters_may_do_everything(api: Api) -> None:
    root = api.as_user("x", group="system:masters")
    assert (await root.get("/api/v1/secrets")).code == 200
    assert (await may(root, verb="*", resource="*", group="*")) == {"allowed": True}


# ---------------------------------------------------------------- reviews


async def test_what_may_i(api: Api) -> None:
    ann = await granted(api, READS, rule("get", "pods", names="a"))
    body = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1"}
    answer = await ann.post(
        f"{AUTHZ}/selfsubjectrulesreviews", {**body, "spec": {"namespace": api.namespace}}
    )
    status = answer.ok()["status"]
    for mine in (READS, rule("get", "pods", names="a")):
        assert mine in status["resourceRules"]
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} not in status["resourceRules"]
    urls = {url for each in status["nonResourceRules"] for url in each["nonResourceURLs"]}
    assert {"/api", "/apis/*", "/version", "/healthz"} <= urls
    nowhere = await ann.post(f"{AUTHZ}/selfsubjectrulesreviews", {**body, "spec": {}})
    assert (nowhere.code, nowhere.message) == (400, "no namespace on request")


async def test_who_am_i_as_an_impersonated_user(api: Api) -> None:
    asking = Api(
        api.transport, api.clock, api.flavour, api.namespace,
        headers={
            "impersonate-user": "ann", "impersonate-group": "devs", "impersonate-uid": "7",
            "impersonate-extra-Scopes%2fA": "view",
        },
    )  # fmt: skip
    body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    answer = await asking.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    assert answer.ok()["status"]["userInfo"] == {
        "username": "ann", "uid": "7", "groups": ["devs", "system:authenticated"], "extra": {"scopes/a": ["view"]},
    }  # fmt: skip


async def test_may_they(api: Api) -> None:
    await granted(api, READS)
    about = {"verb": "list", "resource": "configmaps", "namespace": api.namespace}
    body = {"apiVersion": "authorization.k8s.io/v1", "spec": {"user": user(api), "resourceAttributes": about}}
    allowed = {
        "allowed": True, "reason": f'RBAC: allowed by RoleBinding "b/{api.namespace}" of Role "r" to User "{user(api)}"',
    }  # fmt: skip
    anywhere = f"{AUTHZ}/subjectaccessreviews"
    here = api.at("localsubjectaccessreviews", group="authorization.k8s.io")
    assert (await api.post(anywhere, {**body, "kind": "SubjectAccessReview"})).ok()["status"] == allowed
    assert (await api.post(here, {**body, "kind": "LocalSubjectAccessReview"})).ok()["status"] == allowed
    body["spec"] = {"groups": ["devs"], "resourceAttributes": about}
    assert (await api.post(anywhere, {**body, "kind": "SubjectAccessReview"})).ok()["status"] == {
        "allowed": False
    }


@pytest.mark.parametrize(
    ("kind", "spec", "field", "said"),
    [
        ("SelfSubjectAccessReview", {}, "spec.resourceAttributes", "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        ("SelfSubjectAccessReview", {"resourceAttributes": {}, "nonResourceAttributes": {}}, "spec.nonResourceAttributes", 'Invalid value: {"Path":"","Verb":""}: cannot be specified in combination with resourceAttributes'),
        ("SubjectAccessReview", {"resourceAttributes": {}}, "spec.user", 'Invalid value: "": at least one of user or group must be specified'),
        ("LocalSubjectAccessReview", {"user": "x", "resourceAttributes": {"namespace": "u"}}, "spec.resourceAttributes.namespace", 'Invalid value: "u": must match metadata.namespace'),
        ("LocalSubjectAccessReview", {"user": "x", "nonResourceAttributes": {"path": "/x"}}, "spec.nonResourceAttributes", 'Invalid value: {"Path":"/x","Verb":""}: disallowed on this kind of request'),
    ],
)  # fmt: skip
async def test_a_question_that_is_none_is_invalid(
    api: Api, kind: str, spec: Object, field: str, said: str
) -> None:
    plural = f"{kind.lower()}s"
    local = kind.startswith("Local")
    path = api.at(plural, group="authorization.k8s.io") if local else f"{AUTHZ}/{plural}"
    answer = await api.post(path, {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
    assert (answer.code, answer.causes) == (422, [("FieldValueInvalid", field, said)])
    assert answer.message == f'.authorization.k8s.io "" is invalid: {field}: {said}'


# ---------------------------------------------------------------- the defaults


@pytest.mark.parametrize("wanted", objects(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
async def test_a_default_is_there_and_says_what_it_says_upstream(server: Api, wanted: Object) -> None:
    meta = wanted["metadata"]
    where = f"namespaces/{meta['namespace']}/" if "namespace" in meta else ""
    found = (await server.get(f"/apis/{RBAC}/v1/{where}{wanted['kind'].lower()}s/{meta['name']}")).ok()
    assert found["metadata"]["labels"] == meta["labels"]
    assert found["metadata"]["annotations"] == meta["annotations"]
    for part in ("roleRef", "aggregationRule", "subjects"):
        assert found.get(part) == wanted.get(part)
    version = (await server.get("/version")).ok()
    if (
        "aggregationRule" not in wanted
        and [version["major"], version["minor"]] == KUBERNETES[1:].split(".")[:2]
    ):
        assert together(rules_in(found)) == together(rules_in(wanted))


def together(rules: tuple[Rule, ...]) -> set[str]:
    """What rules allow, however they are put."""
    return {str(part) for each in rules for part in each.parts()}


@pytest.mark.parametrize(
    ("name", "verb", "resource", "group", "allowed"),
    [
        ("view", "list", "pods", "", True),
        ("view", "get", "secrets", "", False),
        ("view", "create", "deployments", "apps", False),
        ("edit", "create", "deployments", "apps", True),
        ("edit", "get", "secrets", "", True),
        ("edit", "create", "rolebindings", RBAC, False),
        ("admin", "create", "rolebindings", RBAC, True),
        ("admin", "delete", "nodes", "", False),
        ("cluster-admin", "delete", "nodes", "", True),
    ],
)
async def test_the_roles_of_people(
    api: Api, name: str, verb: str, resource: str, group: str, allowed: bool
) -> None:
    await binding(api, "b", ("ClusterRole", name), person(api))
    ann = api.as_user(user(api))

    async def bound() -> bool:
        return bool((await may(ann, verb="list", resource="pods", namespace=api.namespace))["allowed"])

    await api.eventually(bound, "the role is bound and gathered")
    found = await may(ann, verb=verb, resource=resource, group=group, namespace=api.namespace)
    assert found["allowed"] is allowed
