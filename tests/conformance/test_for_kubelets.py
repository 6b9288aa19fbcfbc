"""What real kubelets need of a cluster, on both servers with their controllers: what each namespace has, certificates
that are approved and signed, and cluster-info that is signed by tokens."""

import json
from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any

import pytest
from tests.conformance.conftest import Begun

from kubewright.api.bootstrap.tokens import is_signed
from kubewright.base.clock import rfc3339
from kubewright.pki.certificates import new_request
from kubewright.pki.facts import facts_of, is_signed_by
from kubewright.testing.api import Api, Object
from kubewright.wire.http import User

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
USERS = "kubernetes.io/kube-apiserver-client"
SIGNING = "digital signature"
TOKENS, INFOS = "/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces/kube-public/configmaps"
APPROVALS = {
    "kubelets": ("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers:test"),
    "renewals": ("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"),
}  # fmt: skip


async def has(api: Api, path: str) -> bool:
    return (await api.get(path)).code == 200


# ---------------------------------------------------------------- what each namespace has


@pytest.mark.parametrize("namespace", ["", "default", "kube-system"])
async def test_each_namespace_has_an_account_and_the_authority(begun: Begun, namespace: str) -> None:
    async with begun() as api:
        base = f"/api/v1/namespaces/{namespace or api.namespace}"
        await api.eventually(lambda: has(api, f"{base}/serviceaccounts/default"), "the account is there")
        await api.eventually(
            lambda: has(api, f"{base}/configmaps/kube-root-ca.crt"), "the authority is there"
        )
        found = (await api.get(f"{base}/configmaps/kube-root-ca.crt")).ok()
        assert list(found["data"]) == ["ca.crt"]
        assert "BEGIN CERTIFICATE" in found["data"]["ca.crt"]
        assert list(found["metadata"]["annotations"]) == ["kubernetes.io/description"]


@pytest.mark.parametrize("path", ["serviceaccounts/default", "configmaps/kube-root-ca.crt"])
async def test_what_is_deleted_is_made_again(begun: Begun, path: str) -> None:
    async with begun() as api:
        at = api.at(*path.split("/"))
        await api.eventually(lambda: has(api, at), "it is there")
        before = (await api.get(at)).ok()["metadata"]["uid"]
        (await api.delete(at)).ok()

        async def again() -> bool:
            answer = await api.get(at)
            return answer.code == 200 and answer.body["metadata"]["uid"] != before

        await api.eventually(again, "it is there again")


async def test_the_authority_is_restored_and_what_users_added_to_it_stays(begun: Begun) -> None:
    async with begun() as api:
        at = api.at("configmaps", "kube-root-ca.crt")
        before = (await api.get(at)).ok()["data"]
        (
            await api.patch(
                at, {"data": {"ca.crt": "another", "more": "b"}, "metadata": {"labels": {"a": "b"}}}
            )
        ).ok()

        async def restored() -> bool:
            return bool((await api.get(at)).ok()["data"] == before)

        await api.eventually(restored, "it is restored")
        assert (await api.get(at)).ok()["metadata"]["labels"] == {"a": "b"}


async def test_nothing_is_made_in_a_namespace_that_ends(begun: Begun) -> None:
    async with begun() as api:
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        (await api.post(api.at("configmaps"), held)).ok()
        (await api.delete(f"/api/v1/namespaces/{api.namespace}")).ok()
        await api.gone(api.at("serviceaccounts", "default"))
        await api.gone(api.at("configmaps", "kube-root-ca.crt"))
        await api.clock.sleep(1)
        assert not await has(api, api.at("serviceaccounts", "default"))
        await api.patch(api.at("configmaps", "held"), {"metadata": {"finalizers": None}})
        await api.gone(f"/api/v1/namespaces/{api.namespace}", seconds=60)


# ---------------------------------------------------------------- certificates


def node_request(node: str, *, signer: str = CLIENT, use: str = "client auth", **spec: Any) -> Object:
    request = new_request(User(f"system:node:{node}", ("system:nodes",)))[0]
    wanted = {"request": b64encode(request).decode(), "signerName": signer, "usages": [SIGNING, use], **spec}
    return {"metadata": {"generateName": "csr-"}, "spec": wanted}


async def allow(api: Api) -> None:
    """The rights that kubeadm gives to kubelets: to ask, and to get what they ask for."""
    for name, (role, group) in {
        **APPROVALS,
        "asking": ("system:node-bootstrapper", "system:bootstrappers:test"),
    }.items():
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
        body = {"metadata": {"name": f"test-{name}"}, "roleRef": ref, "subjects": [subject]}
        assert (await api.post(f"{RBAC}/clusterrolebindings", body)).code in (201, 409)
    (await api.post(f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": f"{api.namespace}-nodes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    })).ok()  # fmt: skip
    question = {"groups": ["system:bootstrappers:test"], "user": "u", "resourceAttributes": {
        "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create"}}  # fmt: skip

    async def known() -> bool:
        answer = await api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": question})
        return bool(answer.ok()["status"].get("allowed"))

    await api.eventually(known, "the roles count")


async def issued(api: Api, name: str) -> bytes:
    """The certificate of a request, once it is signed."""

    async def certificate() -> Any:
        return (await api.get(f"{REQUESTS}/{name}")).ok()["status"].get("certificate")

    return b64decode(await api.eventually(certificate, f"{name} is signed"))


async def authority(api: Api) -> bytes:
    found = (await api.get(api.at("configmaps", "kube-root-ca.crt"))).ok()
    return str(found["data"]["ca.crt"]).encode()


async def approve(api: Api, made: Object) -> None:
    conditions = [{"type": "Approved", "status": "True", "reason": "Test"}]
    body = {**made, "status": {"conditions": conditions}}
    (await api.put(f"{REQUESTS}/{made['metadata']['name']}/approval", body)).ok()


async def test_a_joining_kubelet_gets_its_certificate_at_once(begun: Begun) -> None:
    async with begun() as api:
        await allow(api)
        joining = api.as_user("system:bootstrap:abcdef", group="system:bootstrappers:test")
        made = (await joining.post(REQUESTS, node_request("a"))).ok()
        certificate = await issued(api, made["metadata"]["name"])
        facts = facts_of(certificate)
        assert facts.user == User("system:node:a", ("system:nodes",))
        assert (facts.client, facts.server, facts.names) == (True, False, frozenset())
        assert is_signed_by(certificate, await authority(api))
        assert facts.no_authority
        now = api.clock.now()
        assert timedelta(days=364) < facts.not_after - now <= timedelta(days=365)
        assert timedelta(minutes=4) < now - facts.not_before < timedelta(minutes=7)
        (condition,) = (await api.get(f"{REQUESTS}/{made['metadata']['name']}")).ok()["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("Approved", "AutoApproved")
        assert condition["message"] == "Auto approving kubelet client certificate after SubjectAccessReview."


async def test_a_kubelet_renews_its_own_certificate_and_no_others(begun: Begun) -> None:
    async with begun() as api:
        await allow(api)
        kubelet = api.as_user("system:node:a", group="system:nodes")
        own = (await kubelet.post(REQUESTS, node_request("a"))).ok()["metadata"]["name"]
        other = await kubelet.post(REQUESTS, node_request("b"))
        assert other.code == 403
        assert other.message.endswith("can only create a node CSR with CN=system:node:a")
        await issued(api, own)
        (condition,) = (await api.get(f"{REQUESTS}/{own}")).ok()["status"]["conditions"]
        assert (
            condition["message"]
            == "Auto approving self kubelet client certificate after SubjectAccessReview."
        )


async def test_no_other_request_is_approved_without_a_user(begun: Begun) -> None:
    async with begun() as api:
        await allow(api)
        joining = api.as_user("system:bootstrap:abcdef", group="system:bootstrappers:test")
        server = node_request("a", signer=SERVING, use="server auth")
        person = node_request("a", signer=USERS)
        useless = node_request("a", usages=["client auth"])
        names = [
            (await joining.post(REQUESTS, each)).ok()["metadata"]["name"]
            for each in (server, person, useless)
        ]
        await api.clock.sleep(1.5)
        for name in names:
            assert (await api.get(f"{REQUESTS}/{name}")).ok()["status"] == {}


@pytest.mark.parametrize(("asked", "lives"), [(600, 600), (86_400, 86_100), (2**31 - 1, 365 * 86_400 - 300)])
async def test_a_certificate_lives_as_long_as_was_asked_for_and_a_year_at_most(
    begun: Begun, asked: int, lives: int
) -> None:
    async with begun() as api:
        before = api.clock.now()
        made = (
            await api.post(REQUESTS, node_request("a", expirationSeconds=asked))
        ).ok()  # an admin's is approved
        facts = facts_of(await issued(api, made["metadata"]["name"]))
        assert abs((facts.not_after - before).total_seconds() - lives) < 20


def serving_request(*, names: tuple[str, ...], node: str = "a") -> bytes:
    """A request of a kubelet for its server, with these names."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    subject = x509.Name([
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ])  # fmt: skip
    built = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        listed = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
        built = built.add_extension(listed, critical=False)
    return built.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
        serialization.Encoding.PEM
    )


async def test_a_kubelets_server_gets_its_certificate_when_a_user_approves_it(begun: Begun) -> None:
    async with begun() as api:
        request = b64encode(serving_request(names=("a.example",))).decode()
        made = (
            await api.post(REQUESTS, node_request("a", signer=SERVING, use="server auth", request=request))
        ).ok()
        await approve(api, made)
        facts = facts_of(await issued(api, made["metadata"]["name"]))
        assert (facts.names, facts.server, facts.client) == (frozenset({"a.example"}), True, False)


MISSHAPEN = {
    "a server without a name": (SERVING, "server auth", (), "DNS or IP subjectAltName is required"),
    "a client with a name": (CLIENT, "client auth", ("a.example",), "DNS subjectAltNames are not allowed"),
    "a server that is a client": (
        SERVING, "client auth", ("a.example",),
        "usages did not match [digital signature key encipherment server auth]",
    ),
    "a user that is a server": (USERS, "server auth", (), "invalid usage for client certificate: server auth"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISSHAPEN)
async def test_what_has_not_the_form_of_its_signer_fails_and_says_why(begun: Begun, what: str) -> None:
    async with begun() as api:
        signer, use, names, why = MISSHAPEN[what]
        request = b64encode(serving_request(names=names)).decode()
        made = (await api.post(REQUESTS, node_request("a", signer=signer, use=use, request=request))).ok()
        await approve(api, made)

        async def failed() -> Any:
            conditions = (await api.get(f"{REQUESTS}/{made['metadata']['name']}")).ok()["status"][
                "conditions"
            ]
            return next((each for each in conditions if each["type"] == "Failed"), None)

        condition = await api.eventually(failed, "it failed")
        assert (condition["reason"], condition["message"]) == ("SignerValidationFailure", why)


async def test_another_signers_request_is_left_to_it(begun: Begun) -> None:
    async with begun() as api:
        made = (await api.post(REQUESTS, node_request("a", signer="example.com/own"))).ok()
        await approve(api, made)
        await api.clock.sleep(1)
        status = (await api.get(f"{REQUESTS}/{made['metadata']['name']}")).ok()["status"]
        assert [each["type"] for each in status["conditions"]] == ["Approved"]
        assert "certificate" not in status


# ---------------------------------------------------------------- tokens


def token(token_id: str, **data: str) -> Object:
    known = {
        "token-id": token_id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true", **data,
    }  # fmt: skip
    kind = "bootstrap.kubernetes.io/token"
    return {"metadata": {"name": f"bootstrap-token-{token_id}"}, "type": kind, "stringData": known}


async def new_info(api: Api) -> str:
    """The path of a cluster-info that has not been signed."""
    path = f"{INFOS}/cluster-info"
    await api.delete(path)
    await api.gone(path)
    data = {"kubeconfig": "where: here"}
    (await api.post(INFOS, {"metadata": {"name": "cluster-info"}, "data": data})).ok()
    return path


async def signed_by(api: Api, path: str, *ids: str) -> Object:
    """The data of cluster-info, once these tokens have signed it, and no others."""

    async def done() -> Any:
        data = (await api.get(path)).ok()["data"]
        found = {name.removeprefix("jws-kubeconfig-") for name in data} - {"kubeconfig"}
        return data if found == set(ids) else None

    return dict(await api.eventually(done, f"signed by {ids}"))


async def test_cluster_info_is_signed_by_each_token_that_may_and_by_no_other(begun: Begun) -> None:
    async with begun() as api:
        info = await new_info(api)
        past = rfc3339(api.clock.now() - timedelta(seconds=5))
        for each in (
            token("aaaaaa"),
            token("bbbbbb", **{"usage-bootstrap-signing": "false"}),
            token("cccccc", expiration=past),
        ):
            (await api.post(TOKENS, each)).ok()
        data = await signed_by(api, info, "aaaaaa")
        signature = data["jws-kubeconfig-aaaaaa"]
        assert is_signed("where: here", signature, "0123456789abcdef")
        head = signature.partition(".")[0]
        assert json.loads(b64decode(head + "=" * (-len(head) % 4))) == {"alg": "HS256", "kid": "aaaaaa"}
        await api.patch(info, {"data": {"kubeconfig": "where: there", "jws-kubeconfig-dddddd": "by nobody"}})

        async def anew() -> bool:
            found = (await api.get(info)).ok()["data"]
            return is_signed("where: there", found.get("jws-kubeconfig-aaaaaa", ""), "0123456789abcdef")

        await api.eventually(anew, "the new text is signed")
        await signed_by(api, info, "aaaaaa")
        await api.delete(f"{TOKENS}/bootstrap-token-aaaaaa")
        await signed_by(api, info)
        await api.delete(f"{TOKENS}/bootstrap-token-bbbbbb")


async def test_a_token_goes_when_it_ends_and_its_signature_with_it(begun: Begun) -> None:
    async with begun() as api:
        info = await new_info(api)
        ends = rfc3339(api.clock.now() + timedelta(seconds=3))
        (await api.post(TOKENS, token("eeeeee", expiration=ends))).ok()
        await signed_by(api, info, "eeeeee")
        await api.gone(f"{TOKENS}/bootstrap-token-eeeeee", seconds=30)
        await signed_by(api, info)


async def test_a_token_whose_end_cannot_be_read_goes(begun: Begun) -> None:
    async with begun() as api:
        (await api.post(TOKENS, token("ffffff", expiration="soon"))).ok()
        await api.gone(f"{TOKENS}/bootstrap-token-ffffff")


async def test_a_secret_of_another_type_is_no_token(begun: Begun) -> None:
    async with begun() as api:
        info = await new_info(api)
        other = {**token("abcabc", expiration=rfc3339(api.clock.now() - timedelta(1))), "type": "Opaque"}
        (await api.post(TOKENS, other)).ok()
        await api.clock.sleep(1)
        assert await has(api, f"{TOKENS}/bootstrap-token-abcabc")
        assert list((await api.get(info)).ok()["data"]) == ["kubeconfig"]
        await api.delete(f"{TOKENS}/bootstrap-token-abcabc")
