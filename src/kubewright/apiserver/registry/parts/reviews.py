"""Reviews: who am I, what may I do. Answers without a store.

The rule behind them is ``http.authz``: who is known may do everything. ``may`` stands for it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubewright.apiserver.registry.kind import Object
from kubewright.wire.errors import BadRequest
from kubewright.wire.http import User

May = Callable[[User], bool]
Verify = Callable[[str], User | None]

_REASON = "kubewright allows everything to whoever is authenticated"
_ALL_RULES: dict[str, Any] = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(kind: str, sent: Any, user: User, may: May, verify: Verify) -> Object | None:
    """The review with its status; None when ``kind`` is no review.

    Raises:
        BadRequest: what was sent is malformed.
    """
    asked = _ASKED.get(kind)
    if asked is None:
        return None
    spec = (sent.get("spec") or {}) if isinstance(sent, dict) else None
    if not isinstance(spec, dict):
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind}): spec must be an object"
        )
    return {**sent, "metadata": sent.get("metadata") or {}, "status": asked(spec, user, may, verify)}


def _access(spec: Mapping[str, Any], user: User, may: May, _verify: Verify) -> Object:
    if not (spec.get("resourceAttributes") or spec.get("nonResourceAttributes")):
        raise BadRequest("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    return {"allowed": True, "reason": _REASON} if may(user) else {"allowed": False}


def _others_access(spec: Mapping[str, Any], _user: User, may: May, verify: Verify) -> Object:
    name, groups = spec.get("user") or "", spec.get("groups") or []
    if not isinstance(name, str) or not isinstance(groups, list) or not (name or groups):
        raise BadRequest("at least one of user or group must be specified")
    return _access(spec, User(name, tuple(str(group) for group in groups)), may, verify)


def _rules(_spec: Mapping[str, Any], user: User, may: May, _verify: Verify) -> Object:
    return _ALL_RULES if may(user) else {"resourceRules": [], "nonResourceRules": [], "incomplete": False}


def _self(_spec: Mapping[str, Any], user: User, _may: May, _verify: Verify) -> Object:
    return {"userInfo": {"username": user.name, "groups": list(user.groups)}}


def _token(spec: Mapping[str, Any], _user: User, _may: May, verify: Verify) -> Object:
    token = spec.get("token")
    if not isinstance(token, str) or not token:
        raise BadRequest("spec.token must be specified")
    user = verify(token)
    if user is None:
        return {"authenticated": False, "error": "the token is not known"}
    return {"authenticated": True, "user": {"username": user.name, "groups": list(user.groups)}}


_ASKED: Mapping[str, Callable[[Mapping[str, Any], User, May, Verify], Object]] = {
    "SelfSubjectAccessReview": _access,
    "SubjectAccessReview": _others_access,
    "LocalSubjectAccessReview": _others_access,
    "SelfSubjectRulesReview": _rules,
    "SelfSubjectReview": _self,
    "TokenReview": _token,
}
REVIEWS = frozenset(_ASKED)
