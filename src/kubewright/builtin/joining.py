"""What lets kubelets join: cluster-info that bootstrap tokens sign, and requests for certificates.

Theory.      A machine that joins believes what stands in ConfigMap cluster-info because its token has signed
             it. So whenever the text or a token changes, the signatures are made anew: one for each good
             token, and none of another. A token that ends is deleted at that moment, and its signature with
             it.
             Of a request for a certificate, what comes next follows from what is in it and from the time.
             Undecided, it is approved if it is a kubelet's own and its requester has the right that a kubelet
             needs for that, for which the server is asked; every other one waits for a user. Approved, it is
             signed if its signer is one of Kubernetes' own and it has that signer's form; if not, it has
             failed, and says why. Decided and an hour old, or a day without a decision, it goes. A
             certificate lives for a year, or for a shorter time that is asked for.
Invariants.  ``signatures`` and ``next_step`` are pure. The text that is signed is never changed; without a
             ConfigMap nothing is made. What is not approved is not signed, and what is signed is not signed
             again. Each write names the version that it was decided on. A request whose signer is another's
             is cleaned up, and nothing else. No secret gets into a log.
Keys.        The ConfigMap's own for the signer; a Secret's for the cleaner; a request's for ``Certificates``.
Called by    ``controllers`` of ``builtin``. They are kube-controller-manager's bootstrapsigner, tokencleaner,
             csrapproving, csrsigning and csrcleaner: forms, sentences and times.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from msgspec import to_builtins

from kubewright.api.bootstrap.names import TOKEN_NAMESPACE, TOKEN_TYPE
from kubewright.api.bootstrap.tokens import CLUSTER_INFO, KUBECONFIG, SIGNATURE, read, signature
from kubewright.api.bootstrap.tokens import ends as token_ends
from kubewright.api.certificates import (
    APPROVED,
    CLIENT,
    DENIED,
    FAILED,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    NODE_PREFIX,
    NODES,
    SIGNING_REQUEST,
    SigningRequest,
    SigningRequestCondition,
)
from kubewright.api.core import CONFIG_MAP, SECRET, ConfigMap, Secret
from kubewright.api.kinds import dynamic
from kubewright.base.delays import DATED, for_rights
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer, Informers
from kubewright.kube.patches import with_version
from kubewright.pki.certificates import Identity
from kubewright.pki.facts import facts_of
from kubewright.pki.keys import KeyPair
from kubewright.pki.requests import Asked, asked_in, signed
from kubewright.runtime.controller import Controller
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key, Resource

log = structlog.get_logger(__name__)

# ---------------------------------------------------------------- bootstrap tokens


def signatures(content: str, secrets: Iterable[Secret], now: datetime) -> dict[str, str]:
    """The signatures of a text by all tokens that may sign now, by their keys in the ConfigMap."""
    found = {}
    for secret in secrets:
        token = read(Key(secret.namespace, secret.name), secret.type, secret.data)
        if token is not None and token.signs and token.lasts(now) and not secret.metadata.deleting:
            found[f"{SIGNATURE}{token.id}"] = signature(content, token.id, token.secret)
    return found


def corrections(data: Mapping[str, str], secrets: Iterable[Secret], now: datetime) -> dict[str, str | None]:
    """What is to be written into cluster-info: signatures that are missing or wrong; None takes one out."""
    if (content := data.get(KUBECONFIG)) is None:
        return {}
    wanted = signatures(content, secrets, now)
    stale = (name for name in data if name.startswith(SIGNATURE) and name not in wanted)
    fresh = {name: text for name, text in wanted.items() if data.get(name) != text}
    return {**dict.fromkeys(stale), **fresh}


class Signer:
    """Reconciles ConfigMap cluster-info; any other key does nothing."""

    def __init__(self, client: Client, infos: Informer[ConfigMap], tokens: Informer[Secret]) -> None:
        self._client, self._infos, self._tokens = client, infos, tokens

    async def reconcile(self, key: Key) -> Result:
        """Write the signatures that cluster-info lacks, and take out those that count no more."""
        info = self._infos.get(key)
        if info is None or info.metadata.deleting:
            return Result.done()
        patch = corrections(info.data, self._tokens.list(), self._client.clock.now())
        if patch:
            with suppress(NotFound):
                versioned = with_version({"data": patch}, info.metadata.resource_version)
                await self._client.patch(CONFIG_MAP, key, versioned)
                log.info("signed", signatures=len(patch))
        return Result.done()

    def of_token(self, _change: Change[Secret]) -> tuple[Key, ...]:
        """Each change of a token may change a signature."""
        return (CLUSTER_INFO,)


class Cleaner:
    """Reconciles the Secrets of tokens."""

    def __init__(self, client: Client, tokens: Informer[Secret]) -> None:
        self._client, self._tokens = client, tokens

    async def reconcile(self, key: Key) -> Result:
        """Delete a token that has ended, or whose end cannot be read; look again when it ends."""
        token = self._tokens.get(key)
        if token is None or token.metadata.deleting:
            return Result.done()
        now = self._client.clock.now()
        try:
            until = token_ends(token.data)
        except ValueError:
            until = now
        if until is None:
            return Result.done()
        if until > now:
            return Result.later(min(until - now, DATED))
        with suppress(NotFound, Conflict):
            await self._client.delete(
                SECRET, key, uid=token.metadata.uid, resource_version=token.metadata.resource_version
            )
            log.info("a bootstrap token has ended", secret=str(key))
        return Result.done()


def token_controllers(informers: Informers, metrics: Metrics | None = None) -> list[Controller]:
    """The signer and the cleaner, for the server of ``informers``."""
    client = informers.client
    tokens = informers.get(SECRET, namespace=TOKEN_NAMESPACE, fields=f"type={TOKEN_TYPE}")
    infos = informers.get(
        CONFIG_MAP, namespace=CLUSTER_INFO.namespace, fields=f"metadata.name={CLUSTER_INFO.name}"
    )
    signer, cleaner = Signer(client, infos, tokens), Cleaner(client, tokens)
    signing = Controller("bootstrap-signer", signer, client.clock, workers=1, metrics=metrics)
    cleaning = Controller("token-cleaner", cleaner, client.clock, workers=1, metrics=metrics)
    return [
        signing.watches(infos).watches(tokens, signer.of_token),
        cleaning.watches(tokens),
    ]


# ---------------------------------------------------------------- requests for certificates

LIFETIME = timedelta(days=365)
SHORTEST = timedelta(minutes=10)
"""What is asked for less than this gets so much, or its start, which lies back, would be its end."""

DECIDED_STAYS, UNDECIDED_STAYS = timedelta(hours=1), timedelta(days=1)

REVIEWS = dynamic(
    Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
)
RIGHTS = {
    "selfnodeclient": "Auto approving self kubelet client certificate after SubjectAccessReview.",
    "nodeclient": "Auto approving kubelet client certificate after SubjectAccessReview.",
}
"""The rights by which a kubelet's request is approved, in the order in which they are asked for."""

_SIGNING = "digital signature"
_ENCIPHERMENT = "key encipherment"


@dataclass(frozen=True, slots=True)
class AskForRights:
    """Ask whether the requester has one of these rights, and approve the request if so."""

    rights: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sign:
    """Sign the request for so long a time."""

    lifetime: timedelta


@dataclass(frozen=True, slots=True)
class Fail:
    """Say that the signer does not sign it, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Delete:
    """It is over."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before this moment, but for what others do. None: nothing at all."""

    until: datetime | None


Step = AskForRights | Sign | Fail | Delete | Wait


def next_step(request: SigningRequest, now: datetime) -> Step:
    """What comes next of a request."""
    until = ends(request)
    if until is not None and until <= now:
        return Delete()
    decided = request.condition(APPROVED) or request.condition(DENIED)
    if request.status.certificate or request.condition(FAILED) or request.condition(DENIED):
        return Wait(until)
    try:
        asked = asked_in(request.spec.request)
    except ValueError:  # the server refuses such a request; one of an older server may be there
        return Wait(until)
    if decided is None:
        rights = rights_for(request, asked)
        return AskForRights(rights) if rights else Wait(until)
    form = FORMS.get(request.spec.signer_name)
    if form is None:
        return Wait(until)
    wrong = form(asked, frozenset(request.spec.usages))
    return Fail(wrong) if wrong else Sign(lifetime(request.spec.expiration_seconds))


def ends(request: SigningRequest) -> datetime | None:
    """When a request goes: a while after what was decided last, or when its certificate ends."""
    conditions = {each.type: each.last_update_time for each in request.status.conditions}
    made = request.metadata.creation_timestamp
    found = [each + DECIDED_STAYS for kind in (DENIED, FAILED) if (each := conditions.get(kind)) is not None]
    if not conditions and made is not None:
        found.append(made + UNDECIDED_STAYS)
    if (approved := conditions.get(APPROVED)) is not None:
        found.append(approved + (DECIDED_STAYS if request.status.certificate else UNDECIDED_STAYS))
    if APPROVED in conditions and request.status.certificate:
        with suppress(ValueError):
            found.append(facts_of(request.status.certificate).not_after)
    return min(found, default=None)


def rights_for(request: SigningRequest, asked: Asked) -> tuple[str, ...]:
    """By which rights a request may be approved without a user: none where it is no kubelet's."""
    if request.spec.signer_name != KUBELET_CLIENT or kubelet_client(asked, frozenset(request.spec.usages)):
        return ()
    own = request.spec.username == asked.common_name
    return tuple(right for right in RIGHTS if own or right != "selfnodeclient")


def lifetime(seconds: int | None) -> timedelta:
    """For how long a certificate is signed that was asked for so."""
    return LIFETIME if seconds is None else min(max(timedelta(seconds=seconds), SHORTEST), LIFETIME)


def kubelet_client(asked: Asked, usages: frozenset[str]) -> str:
    """What is wrong with a request for a kubelet as a client; empty: nothing."""
    if wrong := _not_of_nodes(asked):
        return wrong
    names = {
        "DNS": asked.hosts, "Email": asked.emails, "IP": asked.addresses, "URI": asked.uris
    }  # fmt: skip
    if (sort := next((sort for sort, found in names.items() if found), None)) is not None:
        return f"{sort} subjectAltNames are not allowed"
    return _not_a_node(asked) or _other_usages(usages, "client auth")


def kubelet_serving(asked: Asked, usages: frozenset[str]) -> str:
    """What is wrong with a request for the server of a kubelet; empty: nothing."""
    if wrong := _not_of_nodes(asked):
        return wrong
    if not asked.hosts and not asked.addresses:
        return "DNS or IP subjectAltName is required"
    if sort := "Email" if asked.emails else "URI" if asked.uris else "":
        return f"{sort} subjectAltNames are not allowed"
    return _other_usages(usages, "server auth") or _not_a_node(asked)


def client(_asked: Asked, usages: frozenset[str]) -> str:
    """What is wrong with a request for any user; empty: nothing."""
    other = sorted(usages - {_SIGNING, _ENCIPHERMENT, "client auth"})
    if other:
        return f"invalid usage for client certificate: {other[0]}"
    missing = "client auth" not in usages
    return "missing required usage for client certificate: client auth" if missing else ""


FORMS: Mapping[str, Callable[[Asked, frozenset[str]], str]] = {
    KUBELET_CLIENT: kubelet_client,
    KUBELET_SERVING: kubelet_serving,
    CLIENT: client,
}
"""By signer, what it asks of a request. Other signers are not ours."""


def _not_of_nodes(asked: Asked) -> str:
    return "" if asked.organizations == (NODES,) else "subject organization is not system:nodes"


def _not_a_node(asked: Asked) -> str:
    named = asked.common_name.startswith(NODE_PREFIX)
    return "" if named else "subject common name does not begin with system:node:"


def _other_usages(usages: frozenset[str], use: str) -> str:
    """A key that is not RSA is not for encipherment, so that use may be missing."""
    wanted = sorted((_SIGNING, _ENCIPHERMENT, use))
    good = usages in ({_SIGNING, use}, set(wanted))
    return "" if good else f"usages did not match [{' '.join(wanted)}]"


def conditions_with(request: SigningRequest, kind: str, reason: str, message: str) -> list[dict[str, Any]]:
    """The conditions of a request and one more; the server dates it."""
    more = SigningRequestCondition(type=kind, status="True", reason=reason, message=message)
    return [to_builtins(each) for each in (*request.status.conditions, more)]


class Certificates:
    """Reconciles requests. ``authority`` signs; None: there is none, and they are approved and cleaned up."""

    def __init__(
        self, client: Client, requests: Informer[SigningRequest], authority: Identity | None
    ) -> None:
        self._client, self._requests, self._authority = client, requests, authority

    async def reconcile(self, key: Key) -> Result:
        """Take the next step of one request."""
        request = self._requests.get(key)
        if request is None or request.metadata.deleting:
            return Result.done()
        now = self._client.clock.now()
        with suppress(NotFound):  # it was deleted meanwhile
            match next_step(request, now):
                case Delete():
                    await self._client.delete(SIGNING_REQUEST, key, uid=request.metadata.uid)
                case AskForRights(rights):
                    return await self._approve(key, request, rights)
                case Fail(why):
                    await self._fail(key, request, why)
                case Sign(lasts) if self._authority is not None:
                    await self._sign(key, request, self._authority, lasts)
                case Wait(until):
                    return Result.later(None if until is None else min(until - now, DATED))
        return Result.done()

    async def _sign(self, key: Key, request: SigningRequest, authority: Identity, lasts: timedelta) -> None:
        now = self._client.clock.now()
        try:
            pair = KeyPair(authority.certificate, authority.key)
            made = signed(pair, request.spec.request, request.spec.usages, now, lasts)
        except ValueError as error:  # a key or a use that the server takes and the library does not
            await self._fail(key, request, str(error))
            return
        status = {"certificate": b64encode(made).decode()}
        await self._write(key, request, "status", status)
        log.info("signed", request=key.name, signer=request.spec.signer_name)

    async def _fail(self, key: Key, request: SigningRequest, why: str) -> None:
        conditions = conditions_with(request, FAILED, "SignerValidationFailure", why)
        await self._write(key, request, "status", {"conditions": conditions})

    async def _approve(self, key: Key, request: SigningRequest, rights: tuple[str, ...]) -> Result:
        for right in rights:
            if await self._may(request, right):
                conditions = conditions_with(request, APPROVED, "AutoApproved", RIGHTS[right])
                await self._write(key, request, "approval", {"conditions": conditions})
                return Result.done()
        log.info("no right to be approved", request=key.name, user=request.spec.username, asked=rights)
        made, now = request.metadata.creation_timestamp, self._client.clock.now()
        return Result.later(for_rights(now - (made or now)))

    async def _may(self, request: SigningRequest, right: str) -> bool:
        """Whether the requester may, by the server's rules."""
        spec = request.spec
        what = {
            "group": SIGNING_REQUEST.resource.group,
            "resource": SIGNING_REQUEST.resource.plural,
            "verb": "create",
            "subresource": right,
            "version": "*",
        }
        user = {
            "user": spec.username,
            "uid": spec.uid,
            "groups": list(spec.groups),
            "extra": {name: list(values) for name, values in spec.extra.items()},
        }
        review: dict[str, Any] = {"spec": {**user, "resourceAttributes": what}}
        answer = await self._client.create(REVIEWS, review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _write(
        self, key: Key, request: SigningRequest, subresource: str, status: Mapping[str, Any]
    ) -> None:
        patch = with_version({"status": status}, request.metadata.resource_version)
        await self._client.patch(SIGNING_REQUEST, key, patch, subresource=subresource)
