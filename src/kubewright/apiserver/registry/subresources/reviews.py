"""Access reviews and token reviews, answered by the current policy. Nothing is stored.

Theory.      The spec of a review is the question, its status the answer. An answer depends on the spec
             and on ``ReviewContext``.
Invariants.  Pure. An invalid spec is refused with kube-apiserver's causes.
Called by    ``http.subresources``. The rules are in ``authorization.policy``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubewright.apiserver.authorization.attributes import Attributes
from kubewright.apiserver.authorization.policy import Policy
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Object, ServedKind
from kubewright.apiserver.schema.causes import invalid
from kubewright.wire.errors import BadRequest, Invalid
from kubewright.wire.http import User

ISSUER = "https://kubernetes.default.svc"
"""Who issues the tokens of service accounts, and the audience that this server is."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a token: its user and those of the wanted audiences that it is for, or why not."""

    user: User | None = None
    audiences: tuple[str, ...] = ()
    refusal: str = ""


Verify = Callable[[str, Sequence[str]], Judged]

_EXACTLY_ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_COMBINED = "cannot be specified in combination with resourceAttributes"
_NO_SUBJECT = "at least one of user or group must be specified"


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """``user`` asks in ``namespace`` (LocalSubjectAccessReview only); ``verify`` judges a token for some
    audiences."""

    kind: ServedKind
    user: User
    policy: Policy
    verify: Verify
    namespace: str = ""


def review(context: ReviewContext, sent: Object) -> Object:
    """The review with its status.

    Raises:
        BadRequest, Invalid: the review is malformed.
    """
    kind = context.kind
    if (error := kind.schema.decode_error(sent)) is not None:
        raise refusals.cannot_be_handled(kind.resource, error)
    metadata = sent.get("metadata") or {}
    place = {"namespace": context.namespace} if context.namespace else {}
    spec = sent.get("spec") or {}
    return {**sent, "metadata": {**metadata, **place}, "status": _ANSWERS[kind.resource.kind](context, spec)}


def _own_access(context: ReviewContext, spec: Mapping[str, Any]) -> Object:
    return _decided(context, _asked(context, spec, context.user))


def _others_access(context: ReviewContext, spec: Mapping[str, Any]) -> Object:
    name, groups = spec.get("user") or "", tuple(spec.get("groups") or ())
    if not (name or groups):
        raise _invalid(context, "spec.user", "", _NO_SUBJECT)
    return _decided(context, _asked(context, spec, User(name, groups)))


def _local_access(context: ReviewContext, spec: Mapping[str, Any]) -> Object:
    if (path := spec.get("nonResourceAttributes")) is not None:
        raise _invalid(
            context, "spec.nonResourceAttributes", _shown(path), "disallowed on this kind of request"
        )
    namespace = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if spec.get("resourceAttributes") is not None and namespace != context.namespace:
        raise _invalid(
            context, "spec.resourceAttributes.namespace", namespace, "must match metadata.namespace"
        )
    return _others_access(context, spec)


def _asked(context: ReviewContext, spec: Mapping[str, Any], user: User) -> Attributes:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None:
        if path is None:
            raise _invalid(context, "spec.resourceAttributes", None, _EXACTLY_ONE)
        return Attributes(user, path.get("verb") or "", url=path.get("path") or "/")
    if path is not None:
        raise _invalid(context, "spec.nonResourceAttributes", _shown(path), _COMBINED)
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(user, *(resource.get(field) or "" for field in fields))


def _decided(context: ReviewContext, asked: Attributes) -> Object:
    decision = context.policy.decide(asked)
    return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}


def _own_rules(context: ReviewContext, spec: Mapping[str, Any]) -> Object:
    namespace = spec.get("namespace") or ""
    if not namespace:
        raise BadRequest("no namespace on request")
    rights = context.policy.rights(context.user, namespace)
    rules = rights.held
    return {
        "resourceRules": [replace(rule, urls=()).wire() for rule in rules if rule.resources],
        "nonResourceRules": [
            {"verbs": [*rule.verbs], "nonResourceURLs": [*rule.urls]} for rule in rules if rule.urls
        ],
        "incomplete": False,
        **({"evaluationError": rights.complaint} if rights.missing else {}),
    }


def _self(context: ReviewContext, _spec: Mapping[str, Any]) -> Object:
    return {"userInfo": _info(context.user)}


def _token(context: ReviewContext, spec: Mapping[str, Any]) -> Object:
    token = spec.get("token")
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    judged = context.verify(token, spec.get("audiences") or (ISSUER,))
    if judged.user is None:
        return {"user": {}, "error": judged.refusal}
    return {"authenticated": True, "user": _info(judged.user), "audiences": list(judged.audiences)}


def _info(user: User) -> Object:
    extra = {"extra": {key: list(values) for key, values in user.extra}} if user.extra else {}
    uid = {"uid": user.uid} if user.uid else {}
    return {"username": user.name, **uid, "groups": list(user.groups), **extra}


def _shown(path: Mapping[str, Any]) -> Object:
    """As Go shows its struct."""
    return {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}


def _invalid(context: ReviewContext, field: str, value: Any, words: str) -> Invalid:
    return refusals.invalid(replace(context.kind.resource, kind=""), "", [invalid(field, value, words)])


_ANSWERS: Mapping[str, Callable[[ReviewContext, Mapping[str, Any]], Object]] = {
    "SelfSubjectAccessReview": _own_access,
    "SubjectAccessReview": _others_access,
    "LocalSubjectAccessReview": _local_access,
    "SelfSubjectRulesReview": _own_rules,
    "SelfSubjectReview": _self,
    "TokenReview": _token,
}
REVIEWS = frozenset(_ANSWERS)
