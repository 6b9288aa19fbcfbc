"""Requests for certificates: what is in them by the server's word, who may write which part, and what is refused."""

from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any

import pytest

from kubewright.pki.certificates import new_authority, new_request
from kubewright.testing.api import Answer, Api, Object
from kubewright.wire.http import User

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT, OWN = "kubernetes.io/kube-apiserver-client", "example.com/own"
USAGES = ["digital signature", "client auth"]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def request_of(name: str = "ann", *groups: str) -> str:
    return b64encode(new_request(User(name, groups))[0]).decode()


def body(name: str, **spec: Any) -> Object:
    given = {"request": request_of(), "signerName": OWN, "usages": USAGES, **spec}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {field: value for field, value in given.items() if value is not None},
    }


async def made(api: Api, **spec: Any) -> Object:
    return (await api.post(REQUESTS, body(f"{api.namespace}-r", **spec))).ok()


async def decided(api: Api, request: Object, *kinds: str, **more: str) -> Answer:
    conditions = [{"type": kind, "status": "True", "reason": "Test", **more} for kind in kinds]
    return await api.put(
        f"{REQUESTS}/{request['metadata']['name']}/approval",
        {**request, "status": {"conditions": conditions}},
    )


def certificate_of(api: Api) -> str:
    return b64encode(new_authority("any", api.clock.now(), timedelta(days=1)).certificate).decode()


async def test_a_request_says_by_the_servers_word_who_made_it(api: Api) -> None:
    given = {"username": "root", "uid": "1", "groups": ["system:masters"], "extra": {"a": ["b"]}}
    await allow(api, "ann", "create", "certificatesigningrequests")
    answer = await api.as_user("ann", group="people").post(REQUESTS, body(f"{api.namespace}-r", **given))
    spec = answer.ok()["spec"]
    assert spec["username"] == "ann"
    assert spec["groups"] == ["people", "system:authenticated"]
    assert "uid" not in spec
    assert "extra" not in spec
    assert answer.body["status"] == {}


async def allow(api: Api, user: str, verbs: str, resources: str, names: str = "") -> None:
    """Let a user do this with certificates, on a role of its own."""
    name = f"{api.namespace}-{user}-{verbs}".replace(" ", "-")
    rule: Object = {
        "apiGroups": ["certificates.k8s.io"], "resources": resources.split(), "verbs": verbs.split()
    }  # fmt: skip
    rule |= {"resourceNames": names.split()} if names else {}
    (await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})).ok()
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    bound = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
    (await api.post(f"{RBAC}/clusterrolebindings", bound)).ok()
    review = {"user": user, "resourceAttributes": {"group": "certificates.k8s.io", "verb": verbs.split(maxsplit=1)[0],
              "resource": resources.split(maxsplit=1)[0].partition("/")[0], "subresource": resources.split(maxsplit=1)[0].partition("/")[2],
              "name": names}}  # fmt: skip

    async def known() -> bool:
        reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool((await api.post(reviews, {"spec": review})).ok()["status"].get("allowed"))

    await api.eventually(known, "the server knows the role")


async def test_a_request_is_written_once(api: Api) -> None:
    before = await made(api)
    path = f"{REQUESTS}/{before['metadata']['name']}"
    changed = {**before, "spec": {**before["spec"], "signerName": "example.com/other"}}
    after = (await api.put(path, changed)).ok()
    assert after["spec"] == before["spec"]
    approved = {"conditions": [{"type": "Approved", "status": "True"}], "certificate": certificate_of(api)}
    assert (await api.patch(path, {"status": approved})).ok()["status"] == {}
    assert (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).ok()["metadata"]["labels"] == {
        "a": "b"
    }


async def test_who_decides_writes_the_conditions_alone(api: Api) -> None:
    before = await made(api)
    path = f"{REQUESTS}/{before['metadata']['name']}/approval"
    condition = {"type": "Approved", "status": "True", "reason": "Seen", "message": "by a test"}
    status = {"conditions": [condition], "certificate": certificate_of(api)}
    after = (
        await api.put(path, {**before, "spec": {**before["spec"], "usages": ["any"]}, "status": status})
    ).ok()
    assert after["spec"] == before["spec"]
    assert "certificate" not in after["status"]
    (found,) = after["status"]["conditions"]
    assert found.pop("lastUpdateTime") == found.pop("lastTransitionTime")
    assert found == condition


async def test_who_signs_writes_the_certificate_once_and_decides_nothing(api: Api) -> None:
    before = (await decided(api, await made(api), "Approved")).ok()
    path = f"{REQUESTS}/{before['metadata']['name']}/status"
    certificate = certificate_of(api)
    signed = (await api.patch(path, {"status": {"certificate": certificate}})).ok()
    assert signed["status"] == {**before["status"], "certificate": certificate}
    again = await api.patch(path, {"status": {"certificate": certificate_of(api)}})
    assert again.code == 422
    assert [cause[1:] for cause in again.causes] == [
        ("status.certificate", "Forbidden: updates may not modify existing certificate content")
    ]
    failed = [*signed["status"]["conditions"], {"type": "Failed", "status": "True"}]
    assert len((await api.patch(path, {"status": {"conditions": failed}})).ok()["status"]["conditions"]) == 2


async def test_who_signs_cannot_approve(api: Api) -> None:
    before = await made(api)
    path = f"{REQUESTS}/{before['metadata']['name']}/status"
    answer = await api.patch(path, {"status": {"conditions": [{"type": "Approved", "status": "True"}]}})
    assert answer.causes == [
        ("FieldValueForbidden", "status.conditions",
         'Forbidden: updates may not add a condition of type "Approved"')
    ]  # fmt: skip


async def test_a_decision_is_never_taken_back(api: Api) -> None:
    approved = (await decided(api, await made(api), "Approved")).ok()
    assert (await decided(api, approved)).causes == [
        ("FieldValueForbidden", "status.conditions",
         'Forbidden: updates may not remove a condition of type "Approved"')
    ]  # fmt: skip
    both = await decided(api, approved, "Approved", "Denied")
    assert both.causes == [
        ("FieldValueInvalid", "status.conditions",
         'Invalid value: "Denied": Approved and Denied conditions are mutually exclusive')
    ]  # fmt: skip


WRONG = {
    "no usages": ({"usages": None}, "spec.usages"),
    "an unknown usage": ({"usages": ["client auth", "flying"]}, "spec.usages[1]"),
    "a usage twice": ({"usages": ["client auth", "client auth"]}, "spec.usages[1]"),
    "no signer": ({"signerName": None}, "spec.signerName"),
    "a signer without a domain": ({"signerName": "own"}, "spec.signerName"),
    "a signer of a short domain": ({"signerName": "example/own"}, "spec.signerName"),
    "a signer with two paths": ({"signerName": "example.com/a/b"}, "spec.signerName"),
    "a signer in capitals": ({"signerName": "Example.com/own"}, "spec.signerName"),
    "the legacy signer": ({"signerName": "kubernetes.io/legacy-unknown"}, "spec.signerName"),
    "too short a life": ({"expirationSeconds": 599}, "spec.expirationSeconds"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
async def test_a_request_that_asks_wrongly_is_refused_at_its_field(api: Api, what: str) -> None:
    spec, field = WRONG[what]
    answer = await api.post(REQUESTS, body(f"{api.namespace}-r", **spec))
    assert answer.code == 422
    assert {cause[1] for cause in answer.causes} == {field}


@pytest.mark.parametrize("what", ["no request", "words", "a certificate", "a changed request"])
async def test_what_is_no_request_is_refused(api: Api, what: str) -> None:
    good = request_of()
    texts = {
        "no request": None,
        "words": b64encode(b"hello").decode(),
        "a certificate": certificate_of(api),
        "a changed request": b64encode(changed(good)).decode(),
    }
    answer = await api.post(REQUESTS, body(f"{api.namespace}-r", request=texts[what]))
    assert answer.code == 422
    assert [cause[1] for cause in answer.causes] == ["spec.request"]


def changed(coded: str) -> bytes:
    """A request with another name in it than the one that was signed."""
    lines = b64decode(coded).splitlines()
    der = b64decode(b"".join(lines[1:-1])).replace(b"ann", b"bob")
    return b"\n".join([lines[0], b64encode(der), lines[-1], b""])


async def test_what_is_no_certificate_is_not_stored_as_one(api: Api) -> None:
    path = f"{REQUESTS}/{(await made(api))['metadata']['name']}/status"
    for wrong in (b"words", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
        answer = await api.patch(path, {"status": {"certificate": b64encode(wrong).decode()}})
        assert answer.code == 422
        assert [cause[1] for cause in answer.causes] == ["status.certificate"]


async def test_only_who_may_decide_for_a_signer_decides(api: Api) -> None:
    request = await made(api)
    user = f"{api.namespace}-decider"
    await allow(api, user, "update", "certificatesigningrequests/approval")
    refused = await decided(api.as_user(user), request, "Approved")
    assert refused.code == 403
    assert refused.message.endswith(
        f'is forbidden: user not permitted to approve requests with signerName "{OWN}"'
    )
    await allow(api, user, "approve", "signers", "example.com/*")
    assert (await decided(api.as_user(user), request, "Approved")).code == 200


async def test_only_who_may_sign_for_a_signer_signs(api: Api) -> None:
    request = (await decided(api, await made(api), "Approved")).ok()
    user = f"{api.namespace}-signer"
    await allow(api, user, "patch", "certificatesigningrequests/status")
    path = f"{REQUESTS}/{request['metadata']['name']}/status"
    status = {"status": {"certificate": certificate_of(api)}}
    refused = await api.as_user(user).patch(path, status)
    assert refused.code == 403
    assert refused.message.endswith(
        f'is forbidden: user not permitted to sign requests with signerName "{OWN}"'
    )
    await allow(api, user, "sign", "signers", OWN)
    assert (await api.as_user(user).patch(path, status)).code == 200


async def test_nobody_asks_for_a_certificate_of_a_master(api: Api) -> None:
    answer = await api.post(
        REQUESTS, body(f"{api.namespace}-r", signerName=CLIENT, request=request_of("ann", "system:masters"))
    )
    assert answer.code == 403
    assert answer.message.endswith(f"use of {CLIENT} signer with system:masters group is not allowed")


async def test_requests_are_listed_by_their_signer_and_shown_with_their_state(api: Api) -> None:
    name = (await made(api, expirationSeconds=3600))["metadata"]["name"]
    listed = (await api.get(REQUESTS, fieldSelector=f"spec.signerName={OWN}")).ok()["items"]
    assert name in {each["metadata"]["name"] for each in listed}
    (await decided(api, (await api.get(f"{REQUESTS}/{name}")).ok(), "Denied")).ok()
    table = (await api.get(f"{REQUESTS}/{name}", accept="application/json;as=Table;v=v1;g=meta.k8s.io")).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition",
    ]  # fmt: skip
    cells = table["rows"][0]["cells"]
    assert (cells[0], cells[2], *cells[4:]) == (name, OWN, "60m", "Denied")


async def test_a_request_of_any_name_may_be_made(api: Api) -> None:
    assert (await api.post(REQUESTS, body(f"{api.namespace}-R_1"))).code == 201


async def test_a_request_that_asks_for_nothing_lacks_everything(api: Api) -> None:
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    answer = await api.post(REQUESTS, {**kind, "metadata": {"name": api.namespace}})
    assert answer.code == 422
    assert {cause[1] for cause in answer.causes} == {"spec.request", "spec.usages", "spec.signerName"}
