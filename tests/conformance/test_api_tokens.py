"""Tokens of service accounts: what they are bound to, when they end, and what a TokenReview says of them."""

from typing import Any

import pytest

from kubewright.testing.api import Answer, Api, Object

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
EXTRA = "authentication.kubernetes.io"
ELSEWHERE = "0b5fa4a5-9d2a-4d6f-8c0e-000000000000"
POD_SPEC = {"serviceAccountName": "sa", "containers": [{"name": "c", "image": "i"}]}
ENDED = "[invalid bearer token, service account token has been invalidated]"


@pytest.fixture
async def account(api: Api) -> str:
    """The path of a new service account's tokens."""
    (await api.post(api.at("serviceaccounts"), {"metadata": {"name": "sa"}})).ok()
    return api.at("serviceaccounts", "sa") + "/token"


async def asked(api: Api, path: str, bound: Any = None, **spec: Any) -> Answer:
    ref = {} if bound is None else {"boundObjectRef": bound}
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    return await api.post(path, {**kind, "spec": {**spec, **ref}})


async def token(api: Api, path: str, bound: Any = None, **spec: Any) -> str:
    return str((await asked(api, path, bound, **spec)).ok()["status"]["token"])


async def review(api: Api, token: str, **spec: Any) -> Object:
    status: Object = (await api.post(REVIEWS, {"spec": {"token": token, **spec}})).ok()["status"]
    return status


async def has_ended(api: Api, token: str, why: str = ENDED) -> None:
    """Ours knows it at once. A real server hears of a deletion a moment later, and keeps a verdict for 10 s."""

    async def ended() -> bool:
        seen = await review(api, token)
        return seen["user"] == {} and "authenticated" not in seen and why in seen["error"]

    await api.eventually(ended, "the token has ended", seconds=0.0 if api.flavour == "embedded" else 40.0)


async def test_a_token_of_a_pod_says_so_and_ends_with_it(api: Api, account: str) -> None:
    pod = (await api.post(api.at("pods"), {"metadata": {"name": "p"}, "spec": POD_SPEC})).ok()
    bound = await token(api, account, {"kind": "Pod", "apiVersion": "v1", "name": "p"})
    seen = await review(api, bound)
    assert seen["authenticated"] is True
    assert seen["user"]["username"] == f"system:serviceaccount:{api.namespace}:sa"
    assert seen["audiences"] == ["https://kubernetes.default.svc"]
    extra = seen["user"]["extra"]
    assert extra.pop(f"{EXTRA}/credential-id")[0].startswith("JTI=")
    assert extra == {f"{EXTRA}/pod-name": ["p"], f"{EXTRA}/pod-uid": [pod["metadata"]["uid"]]}
    fresh = await token(api, account, {"kind": "Pod", "name": "p"})  # a real server caches verdicts for 10 s
    another = await token(api, account, {"kind": "Pod", "name": "p"})
    await api.call("DELETE", api.at("pods", "p"), {"gracePeriodSeconds": 0})
    await has_ended(api, fresh)
    (await api.post(api.at("pods"), {"metadata": {"name": "p"}, "spec": POD_SPEC})).ok()
    await has_ended(api, another, "does not match service account pod ref claim")


async def test_a_token_of_a_pod_names_its_node(api: Api, account: str) -> None:
    node = (await api.post("/api/v1/nodes", {"metadata": {"name": f"node-of-{api.namespace}"}})).ok()
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    spec = {**POD_SPEC, "nodeName": name, "tolerations": [{"operator": "Exists"}]}
    (await api.post(api.at("pods"), {"metadata": {"name": "p"}, "spec": spec})).ok()
    bound = await token(api, account, {"kind": "Pod", "name": "p"})
    extra = (await review(api, bound))["user"]["extra"]
    assert (extra[f"{EXTRA}/node-name"], extra[f"{EXTRA}/node-uid"]) == ([name], [uid])
    await api.call("DELETE", f"/api/v1/nodes/{name}")
    if api.flavour == "embedded":  # where no controller deletes the Pod of a lost node between two requests
        assert (await review(api, bound))["authenticated"]


async def test_a_token_of_a_node_ends_with_it(api: Api, account: str) -> None:
    node = (await api.post("/api/v1/nodes", {"metadata": {"name": f"ends-{api.namespace}"}})).ok()
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    bound = await token(api, account, {"kind": "Node", "apiVersion": "v1", "name": name, "uid": uid})
    extra = (await review(api, bound))["user"]["extra"]
    assert (extra[f"{EXTRA}/node-name"], extra[f"{EXTRA}/node-uid"]) == ([name], [uid])
    await api.call("DELETE", f"/api/v1/nodes/{name}")
    await has_ended(api, bound)


async def test_a_token_of_a_secret_ends_with_it_and_only_with_that_one(api: Api, account: str) -> None:
    (await api.post(api.at("secrets"), {"metadata": {"name": "s"}})).ok()
    (await api.post(api.at("secrets"), {"metadata": {"name": "other"}})).ok()
    bound = await token(api, account, {"kind": "Secret", "apiVersion": "v1", "name": "s"})
    fresh = await token(api, account, {"kind": "Secret", "apiVersion": "v1", "name": "s"})
    other = await token(api, account, {"kind": "Secret", "apiVersion": "v1", "name": "other"})
    assert list((await review(api, bound))["user"]["extra"]) == [f"{EXTRA}/credential-id"]
    await api.call("DELETE", api.at("secrets", "s"))
    await has_ended(api, fresh)
    assert (await review(api, other))["authenticated"]


async def test_a_secret_that_a_finalizer_keeps_keeps_its_token_for_a_minute_at_least(
    api: Api, account: str
) -> None:
    body = {"metadata": {"name": "s", "finalizers": ["example.com/kept"]}}
    (await api.post(api.at("secrets"), body)).ok()
    bound = await token(api, account, {"kind": "Secret", "apiVersion": "v1", "name": "s"})
    await api.call("DELETE", api.at("secrets", "s"))
    assert (await review(api, bound))["authenticated"]
    await api.patch(api.at("secrets", "s"), {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("bound", "code", "message"),
    [
        pytest.param({"kind": "Pod", "apiVersion": "v1", "name": "zz"}, 404, 'pods "zz" not found', id="no pod"),
        pytest.param(
            {"kind": "Secret", "apiVersion": "v1", "name": "zz"}, 404, 'secrets "zz" not found', id="no secret"
        ),
        pytest.param({"kind": "Node", "name": "zz"}, 404, 'nodes "zz" not found', id="no node"),
        pytest.param(
            {"kind": "ConfigMap", "apiVersion": "v1", "name": "c"},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
            id="another kind",
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": "apps/v1", "name": "p"},
            400,
            "cannot bind token to object of type apps/v1, Kind=Pod",
            id="another group",
        ),
        pytest.param(
            {"name": "p"}, 400, "cannot bind token to object of type /, Kind=", id="no kind"
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": "v1", "name": "another"},
            400,
            'cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name.',
            id="the pod of another account",
        ),
        pytest.param(
            {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": ELSEWHERE},
            409,
            f'Operation cannot be fulfilled on Secret "s": the UID in the bound object reference ({ELSEWHERE}) does '
            "not match the UID in record. The object might have been deleted and then recreated",
            id="a secret of another uid",
        ),
    ],
)  # fmt: skip
async def test_a_token_is_bound_to_what_is_there(
    api: Api, account: str, bound: Object, code: int, message: str
) -> None:
    (await api.post(api.at("secrets"), {"metadata": {"name": "s"}})).ok()
    spec = {**POD_SPEC, "serviceAccountName": "different"}
    (await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "different"}}))
    (await api.post(api.at("pods"), {"metadata": {"name": "another"}, "spec": spec})).ok()
    answer = await asked(api, account, bound)
    assert (answer.code, answer.message) == (code, message)


UNREADABLE = 'TokenRequest in version "v1" cannot be handled as a TokenRequest: json: cannot unmarshal '
REFUSED = 'TokenRequest.authentication.k8s.io "{}" is invalid: {}: Invalid value: {}'


@pytest.mark.parametrize(
    ("spec", "metadata", "code", "message"),
    [
        pytest.param(
            {"expirationSeconds": 599},
            {},
            422,
            REFUSED.format(
                "", "spec.expirationSeconds", "599: may not specify a duration less than 10 minutes"
            ),
            id="too short",
        ),
        pytest.param(
            {"expirationSeconds": (1 << 32) + 1},
            {},
            422,
            REFUSED.format(
                "",
                "spec.expirationSeconds",
                "4294967297: may not specify a duration larger than 2^32 seconds",
            ),
            id="too long",
        ),
        pytest.param({"expirationSeconds": "600"}, {}, 400, UNREADABLE, id="a text"),
        pytest.param({"audiences": "one"}, {}, 400, UNREADABLE, id="audiences that are no list"),
        pytest.param({"boundObjectRef": {"kind": 1}}, {}, 400, UNREADABLE, id="a kind that is no text"),
        pytest.param(
            {},
            {"name": "other"},
            422,
            REFUSED.format(
                "sa", "metadata.name", '"other": must match the service account name if specified'
            ),
            id="another name",
        ),
        pytest.param(
            {},
            {"namespace": "other"},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(
            {},
            {"uid": ELSEWHERE},
            409,
            'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "sa": the UID in the token '
            f"request ({ELSEWHERE}) does not match the UID of the service account (",
            id="another uid",
        ),
    ],
)
async def test_a_malformed_request_of_a_token_is_refused(
    api: Api, account: str, spec: Object, metadata: Object, code: int, message: str
) -> None:
    answer = await api.post(account, {"metadata": metadata, "spec": spec})
    assert (answer.code, answer.message[: len(message)]) == (code, message)


async def test_a_token_is_for_its_audiences(api: Api, account: str) -> None:
    request = (await asked(api, account, audiences=["vault", "other"])).ok()
    assert request["spec"]["audiences"] == ["vault", "other"]
    assert request["spec"]["expirationSeconds"] == 3600
    given = request["status"]["token"]
    refused = await review(api, given)
    assert not refused.get("authenticated")
    assert 'token audiences ["vault" "other"] is invalid for the target audiences' in refused["error"]
    assert (await review(api, given, audiences=["vault"]))["audiences"] == ["vault"]


async def test_an_unknown_token_is_no_ones(api: Api) -> None:
    assert await review(api, "nonsense") == {"user": {}, "error": "invalid bearer token"}
    answer = await api.post(REVIEWS, {"spec": {}})
    assert (answer.code, answer.message) == (400, "token is required for TokenReview in authentication")
