"""Bearer tokens: of service accounts, which are issued here, and those of machines that join.

Theory.      A token of an account is a JWT signed with a key that only this server has (HMAC, SHA-256): no
             other program needs to verify it, so there is no public half. It is valid while its
             account has the uid in the token. A token that was asked for with a ``boundObjectRef`` is
             valid only while that Pod, Secret or Node is there too, under the same uid; what it is bound
             to stands in the token, and is looked up at each use.
             What a bootstrap token is and when it counts says ``api.bootstrap.tokens``. Its Secret is read
             anew at each use, so a token that was deleted, changed or has expired is refused at once.
Invariants.  The key never leaves its object. Tokens are compared in constant time. A token of an account
             lives between ten minutes and a day, and never longer than its expiry says. What else is compared
             with the clock (``nbf``, ``iat``, the end of an object that is being deleted) has a minute of
             leeway, as upstream. A group that is no group of bootstrappers is not given.
Source       kube-apiserver's TokenRequest (registry/core/serviceaccount) and its validator of claims; its
             token authenticator for bootstrap.kubernetes.io/token.
Called by    ``server``, for requests with a bearer token; ``http.subresources``, which issues.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from kubewright.api.bootstrap import tokens
from kubewright.api.bootstrap.names import TOKEN_NAMESPACE
from kubewright.apiserver.authorization import nodes
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.admission import PODS
from kubewright.apiserver.registry.subresources import ISSUER, Judged
from kubewright.apiserver.schema.builtin import BuiltinSchema
from kubewright.apiserver.schema.causes import invalid
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record
from kubewright.base.clock import Clock, new_uid, parse_rfc3339, rfc3339
from kubewright.wire import gojson
from kubewright.wire.errors import BadRequest
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import User

TOKEN_REQUEST = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
BINDABLE = {"Pod": PODS, "Secret": Resource("", "v1", "secrets", "Secret"), "Node": NODES}
"""The kinds of the core group that a token may be bound to."""

SHORTEST, LONGEST, USUAL = 600, 86_400, 3600
"""Seconds that a token may live; asking for more gives the longest."""

LONGEST_ASKED = 1 << 32
LEEWAY = timedelta(minutes=1)
KEY_BYTES = 32

UNKNOWN, GONE = "invalid bearer token", "service account token has been invalidated"
"""What a TokenReview says of a token that is not ours, and of one that is bound to what is gone."""

_HEAD = {"alg": "HS256", "typ": "JWT"}
_EXTRA = "authentication.kubernetes.io/"
_SCHEMA = BuiltinSchema("authentication.v1.TokenRequest")

Read = Callable[[Resource, str, str], Record | None]
"""The object of a kind, a namespace (empty: none) and a name, as it is now."""


@dataclass(frozen=True, slots=True)
class Account:
    """A service account that a token speaks for."""

    namespace: str
    name: str
    uid: str


class Tokens:
    """Makes and reads tokens; ``read`` looks up accounts and what tokens are bound to."""

    def __init__(self, key: bytes, clock: Clock, read: Read) -> None:
        self._key, self._clock, self._read = key, clock, read

    def answer(
        self, sent: Any, account: Account, warnings: list[str] | None = None, *, node: str = ""
    ) -> Object:
        """A TokenRequest with its status filled in; what the user should know goes to ``warnings``.

        ``node``: which node asks, if one does.

        Raises:
            BadRequest, Invalid: the request is malformed.
            Forbidden: a node asks for more than its pods need.
            NotFound: the object that the token is to be bound to is missing.
            Conflict: the account, or that object, has another uid than the request says.
        """
        spec = _spec(sent, account)
        asked = _seconds(spec)
        if node:
            self._admit(node, spec, account)
        bound = self._bound(spec.get("boundObjectRef"), account)
        seconds = min(asked, LONGEST)
        if asked > seconds and warnings is not None:
            warnings.append(f"requested expiration of {asked} seconds shortened to {seconds} seconds")
        audiences = spec.get("audiences") or [ISSUER]
        now = self._clock.now()
        ends = now + timedelta(seconds=seconds)
        about = {"name": account.name, "namespace": account.namespace, "uid": account.uid}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {**about, "creationTimestamp": rfc3339(now)},
            "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
            "status": {
                "token": self.token(account, audiences, ends, bound),
                "expirationTimestamp": rfc3339(ends),
            },
        }

    def token(
        self,
        account: Account,
        audiences: Sequence[str],
        ends: datetime,
        bound: Mapping[str, Mapping[str, str]] | None = None,
    ) -> str:
        """A new token; ``bound`` are the names and uids of what it is bound to, by kind in lower case."""
        now = int(self._clock.now().timestamp())
        about = {"name": account.name, "uid": account.uid}
        claims = {
            "aud": list(audiences),
            "exp": int(ends.timestamp()),
            "iat": now,
            "jti": new_uid(self._clock),
            "nbf": now,
            "iss": ISSUER,
            "kubernetes.io": {"namespace": account.namespace, "serviceaccount": about, **(bound or {})},
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        signed = f"{_coded(_HEAD)}.{_coded(claims)}"
        return f"{signed}.{self._signature(signed)}"

    def user(self, token: str) -> User | None:
        """The user of a token for this server; None when ``judge`` refuses it."""
        return self.judge(token).user

    def judge(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Judged:
        """Whether a token counts now, for one of ``audiences``."""
        signed, _, signature = token.rpartition(".")
        if not signed or not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            return Judged(refusal=UNKNOWN)
        claims: Mapping[str, Any] = orjson.loads(_bytes(signed.partition(".")[2]))
        shared = tuple(each for each in claims["aud"] if each in audiences)
        refusal = next(self._refusals(claims), "") if shared else _wrong_audience(claims["aud"], audiences)
        if refusal:
            return Judged(refusal=f"[{UNKNOWN}, {refusal}]")
        return Judged(_user(claims), shared)

    def _refusals(self, claims: Mapping[str, Any]) -> Iterator[str]:
        """Why claims that we signed do not count any more, or not yet."""
        now = self._clock.now().timestamp()
        if claims["exp"] <= now:
            yield "service account token has expired"
        if claims.get("nbf", 0) > now + LEEWAY.total_seconds():
            yield "service account token is not valid yet"
        if claims.get("iat", 0) > now + LEEWAY.total_seconds():
            yield "service account token is issued in the future"
        about = claims["kubernetes.io"]
        namespace, account = about["namespace"], about["serviceaccount"]
        yield from self._gone(
            ACCOUNTS, namespace, account, "service account UID ({}) does not match claim ({})"
        )
        for kind in ("secret", "pod", *(() if "pod" in about else ("node",))):
            if kind in about:
                words = f"{kind} UID ({{}}) does not match service account {kind} ref claim ({{}})"
                yield from self._gone(BINDABLE[kind.capitalize()], namespace, about[kind], words)

    def _gone(
        self, resource: Resource, namespace: str, named: Mapping[str, str], words: str
    ) -> Iterator[str]:
        """Why the object that a token names does not count: it is gone, another, or was to end long ago."""
        record = self._read(resource, namespace if resource.namespaced else "", named["name"])
        if record is None:
            yield GONE if resource != ACCOUNTS else f'{ACCOUNTS} "{named["name"]}" not found'
        elif record.uid != named["uid"]:
            yield words.format(record.uid, named["uid"])
        elif record.deleting:
            ends = parse_rfc3339(orjson.loads(record.data)["metadata"]["deletionTimestamp"])
            if ends < self._clock.now() - LEEWAY:
                yield GONE

    def _admit(self, node: str, spec: Mapping[str, Any], account: Account) -> None:
        """A node gets tokens for its pods only."""
        record = self._read(PODS, account.namespace, nodes.bound_pod(spec))
        pod = None if record is None else orjson.loads(record.data)
        if why := nodes.wrong_token(node, spec, account.name, pod):
            raise refusals.forbidden(ACCOUNTS, account.name, why)

    def _bound(
        self, wanted: Mapping[str, Any] | None, account: Account
    ) -> Mapping[str, Mapping[str, str]] | None:
        """The names and uids of what a token is to be bound to, and of the node of a Pod."""
        if wanted is None:
            return None
        group, version = _group_version(wanted.get("apiVersion") or "")
        kind, name = wanted.get("kind") or "", wanted.get("name") or ""
        resource = BINDABLE.get(kind) if not group else None
        if resource is None:
            raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        record = self._read(resource, account.namespace if resource.namespaced else "", name)
        if record is None:
            raise refusals.not_found(resource, name)
        node = self._node_of(record, account) if resource == PODS else {}
        if (uid := wanted.get("uid")) and uid != record.uid:
            said = f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            said += "The object might have been deleted and then recreated"
            raise refusals.conflict(replace(resource, plural=kind), name, said)
        return {kind.lower(): {"name": name, "uid": record.uid}, **node}

    def _node_of(self, pod: Record, account: Account) -> Mapping[str, Mapping[str, str]]:
        """The node of a Pod as a token names it, with its uid while there is such a node."""
        spec = orjson.loads(pod.data).get("spec") or {}
        if spec.get("serviceAccountName", "") != account.name:
            said = f'cannot bind token for serviceaccount "{account.name}" '
            raise BadRequest(said + "to pod running with different serviceaccount name.")
        name = spec.get("nodeName")
        if not name:
            return {}
        node = self._read(NODES, "", name)
        return {"node": {"name": name, **({"uid": node.uid} if node is not None else {})}}

    def _signature(self, signed: str) -> str:
        digest = hmac.new(self._key, signed.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _user(claims: Mapping[str, Any]) -> User:
    """The user that a token speaks for; ``extra`` says by which token, and for which Pod on which node."""
    about = claims["kubernetes.io"]
    namespace, account = about["namespace"], about["serviceaccount"]
    extra = {f"{_EXTRA}credential-id": (f"JTI={claims['jti']}",)} if "jti" in claims else {}
    for kind in ("node", "pod"):
        for field, value in about.get(kind, {}).items():
            extra[f"{_EXTRA}{kind}-{field}"] = (value,)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    name = f"system:serviceaccount:{namespace}:{account['name']}"
    return User(name, groups, account["uid"], tuple(sorted(extra.items())))


def _wrong_audience(given: Sequence[str], wanted: Sequence[str]) -> str:
    """In Go's notation of lists."""
    one, other = (" ".join(f'"{each}"' for each in some) for some in (given, wanted))
    return f"token audiences [{one}] is invalid for the target audiences [{other}]"


def _group_version(api_version: str) -> tuple[str, str]:
    """As Go splits an apiVersion; one with two slashes counts as none."""
    if api_version.count("/") > 1:
        return "", ""
    group, _, version = api_version.rpartition("/")
    return group, version


def _spec(sent: Any, account: Account) -> dict[str, Any]:
    """The spec of a request whose types, name, namespace and uid are right."""
    if not isinstance(sent, dict):
        raise BadRequest(gojson.cannot_unmarshal(sent, "map[string]interface {}"))
    if (error := _SCHEMA.decode_error(sent)) is not None:
        raise refusals.cannot_be_handled(TOKEN_REQUEST, error)
    given = sent.get("metadata") or {}
    if given.get("namespace") not in (None, "", account.namespace):
        raise refusals.other_namespace()
    if (name := given.get("name")) and name != account.name:
        words = "must match the service account name if specified"
        raise refusals.invalid(TOKEN_REQUEST, account.name, [invalid("metadata.name", name, words)])
    if (uid := given.get("uid")) and uid != account.uid:
        said = f"the UID in the token request ({uid}) does not match the UID of the service account"
        said += f" ({account.uid})"
        raise refusals.conflict(replace(TOKEN_REQUEST, plural="TokenRequest"), account.name, said)
    return dict(sent.get("spec") or {})


def _seconds(spec: Mapping[str, Any]) -> int:
    """How long the token is to live, as asked for."""
    asked: int | None = spec.get("expirationSeconds")
    if asked is None:
        return USUAL
    causes = []
    if asked < SHORTEST:
        causes.append("may not specify a duration less than 10 minutes")
    if asked > LONGEST_ASKED:
        causes.append("may not specify a duration larger than 2^32 seconds")
    if causes:
        found = [invalid("spec.expirationSeconds", asked, words) for words in causes]
        raise refusals.invalid(TOKEN_REQUEST, "", found)
    return asked


def _coded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class BootstrapTokens:
    """Reads tokens; ``read`` returns the bytes of a Secret (namespace, name), or None."""

    def __init__(self, read: Callable[[str, str], bytes | None], clock: Clock) -> None:
        self._read, self._clock = read, clock

    def user(self, token: str) -> User | None:
        """The user of a token; None when it is none, is not there, has expired, or may not authenticate."""
        name = tokens.secret_of(token)
        raw = self._read(TOKEN_NAMESPACE, name) if name else None
        if raw is None:
            return None
        secret = orjson.loads(raw)
        if (secret.get("metadata") or {}).get("deletionTimestamp"):
            return None
        data = _decoded(secret.get("data") or {})
        known = tokens.read(Key(TOKEN_NAMESPACE, name), str(secret.get("type", "")), data)
        if known is None or not known.is_text(token) or not known.authenticates:
            return None
        if not known.lasts(self._clock.now()):
            return None
        return User(f"system:bootstrap:{known.id}", known.groups)


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    found = {}
    for key, value in data.items():
        try:
            found[key] = base64.b64decode(value)
        except binascii.Error:
            continue
    return found
