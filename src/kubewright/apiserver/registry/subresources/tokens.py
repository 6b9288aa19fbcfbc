"""Tokens of service accounts: issued on request, bound to the account's uid, with an expiry.

Theory.      A token is a JWT signed with a key that only this server has (HMAC, SHA-256): no
             other program needs to verify it, so there is no public half. It is valid while its
             account has the uid in the token.
Invariants.  The key never leaves this object. Tokens are compared in constant time. A token lives
             between ten minutes and a day.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Object
from kubewright.apiserver.schema.causes import invalid
from kubewright.base.clock import Clock, rfc3339
from kubewright.wire.errors import BadRequest
from kubewright.wire.gvk import Resource
from kubewright.wire.http import User

TOKEN_REQUEST = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
ISSUER = "https://kubernetes.default.svc"
SHORTEST, LONGEST, USUAL = 600, 86_400, 3600
"""Seconds that a token may live; asking for more gives the longest."""

KEY_BYTES = 32
_HEAD = {"alg": "HS256", "typ": "JWT"}


@dataclass(frozen=True, slots=True)
class Account:
    """A service account that a token speaks for."""

    namespace: str
    name: str
    uid: str


class Tokens:
    """Makes and reads tokens; ``uid_of`` returns the uid of an account (namespace, name)."""

    def __init__(self, key: bytes, clock: Clock, uid_of: Callable[[str, str], str | None]) -> None:
        self._key, self._clock, self._uid_of = key, clock, uid_of

    def answer(self, sent: Any, account: Account) -> Object:
        """A TokenRequest with its status filled in.

        Raises:
            BadRequest, Invalid: the request is malformed.
        """
        spec = _spec(sent)
        seconds = _seconds(spec, account)
        audiences = spec.get("audiences") or [ISSUER]
        ends = self._clock.now() + timedelta(seconds=seconds)
        metadata = {"name": account.name, "namespace": account.namespace, "creationTimestamp": None}
        status = {"token": self.token(account, audiences, ends), "expirationTimestamp": rfc3339(ends)}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": metadata,
            "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
            "status": status,
        }

    def token(self, account: Account, audiences: list[str], ends: datetime) -> str:
        now = int(self._clock.now().timestamp())
        about = {"name": account.name, "uid": account.uid}
        claims = {
            "aud": audiences,
            "exp": int(ends.timestamp()),
            "iat": now,
            "nbf": now,
            "iss": ISSUER,
            "kubernetes.io": {"namespace": account.namespace, "serviceaccount": about},
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        signed = f"{_coded(_HEAD)}.{_coded(claims)}"
        return f"{signed}.{self._signature(signed)}"

    def user(self, token: str) -> User | None:
        """The user of a token; None when it is not ours, has expired, or its account is gone."""
        signed, _, signature = token.rpartition(".")
        if not signed or not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            return None
        claims: Mapping[str, Any] = orjson.loads(_bytes(signed.partition(".")[2]))
        about = claims["kubernetes.io"]
        namespace, name = about["namespace"], about["serviceaccount"]["name"]
        if claims["exp"] <= self._clock.now().timestamp() or ISSUER not in claims["aud"]:
            return None
        if self._uid_of(namespace, name) != about["serviceaccount"]["uid"]:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return User(f"system:serviceaccount:{namespace}:{name}", groups, about["serviceaccount"]["uid"])

    def _signature(self, signed: str) -> str:
        digest = hmac.new(self._key, signed.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _spec(sent: Any) -> dict[str, Any]:
    spec = (sent.get("spec") or {}) if isinstance(sent, dict) else None
    audiences = spec.get("audiences") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(audiences or [], list):
        raise BadRequest("the object provided is unrecognized (must be of type TokenRequest)")
    if not all(isinstance(each, str) for each in audiences or []):
        raise BadRequest("spec.audiences must be a list of strings")
    return spec


def _seconds(spec: Mapping[str, Any], account: Account) -> int:
    asked = spec.get("expirationSeconds")
    if asked is None:
        return USUAL
    if not isinstance(asked, int) or isinstance(asked, bool):
        raise BadRequest("spec.expirationSeconds must be an integer")
    if asked < SHORTEST:
        cause = invalid("spec.expirationSeconds", asked, "may not specify a duration less than 10 minutes")
        raise refusals.invalid(TOKEN_REQUEST, account.name, [cause])
    return min(asked, LONGEST)


def _coded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
