"""Subresources that are kinds of their own, and reviews, which are never stored: the rules. Pure.

``scale``     autoscaling/v1 Scale of anything that has replicas
``binding``   v1 Binding: a scheduler assigns a pod to a node
``eviction``  policy/v1 Eviction: a delete that asks the disruption budgets first
``reviews``   SubjectAccessReview, TokenReview and the like, answered by the current policy
Theory.      A budget's ``status.disruptionsAllowed`` is how many pods may be evicted now. An eviction
             lowers it in the same turn of the event loop in which it decides, so two evictions never use
             the same disruption; ``disruptedPods`` tells the disruption controller which pods are about
             to be deleted, so that it does not count them twice.
             The spec of a review is the question, its status the answer, which depends on the spec and on
             ``ReviewContext``. An invalid spec is refused with kube-apiserver's causes.
Called by    ``http.subresources``.
Source       Kubernetes' API-initiated eviction; sentences observed on v1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kubewright.api.conditions import with_json_conditions
from kubewright.apiserver.authorization.policy import Attributes, Policy
from kubewright.apiserver.registry import refusals, strategy
from kubewright.apiserver.registry.kind import Scale, ServedKind
from kubewright.apiserver.schema.builtin import BuiltinSchema
from kubewright.apiserver.schema.causes import Cause, invalid, required
from kubewright.apiserver.schema.node import Object, at
from kubewright.base.clock import rfc3339
from kubewright.wire import selectors
from kubewright.wire.errors import ApiError, BadRequest, Forbidden, Invalid, TooManyRequests
from kubewright.wire.gvk import Resource
from kubewright.wire.http import User

_BINDING = Resource("", "v1", "bindings", "Binding")
_ON_POD = Resource("", "v1", "pods/binding", "Binding")


def bind(sent: Any, name: str, now: datetime) -> Callable[[Object], Object]:
    """The change that a Binding makes to its pod; it raises Conflict when the pod has a node already.

    Raises:
        BadRequest, Invalid: the Binding is malformed.
    """
    target = sent.get("target") if isinstance(sent, dict) else None
    if not isinstance(target, dict):
        raise BadRequest(
            "the object provided is unrecognized (must be of type Binding): target must be an object"
        )
    node = target.get("name")
    if target.get("kind", "Node") not in ("Node", "", "Minion"):
        said = 'Unsupported value: supported values: "Node", "<empty>"'
        raise refusals.invalid(_BINDING, name, [Cause("FieldValueNotSupported", "target.kind", said)])
    if not isinstance(node, str) or not node:
        raise refusals.invalid(_BINDING, name, [required("target.name")])
    node_name: str = node

    def edit(pod: Object) -> Object:
        bound = (pod.get("spec") or {}).get("nodeName")
        if bound:
            raise refusals.conflict(_ON_POD, name, f'pod {name} is already assigned to node "{bound}"')
        if "deletionTimestamp" in pod["metadata"]:
            raise refusals.conflict(
                _ON_POD, name, f"pod {name} is being deleted, cannot be assigned to a host"
            )
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(now),
        }
        status = {**(pod.get("status") or {})}
        status.pop("nominatedNodeName", None)  # what was promised is kept
        return {
            **pod,
            "spec": {**pod["spec"], "nodeName": node_name},
            "status": {**status, "conditions": with_json_conditions(status, scheduled)},
        }

    return edit


SCALE = Resource("autoscaling", "v1", "scales", "Scale")
_SCHEMA = BuiltinSchema("autoscaling.v1.Scale")
_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: ServedKind, obj: Object) -> Object:
    """An object as a Scale."""
    scale = _paths(kind)
    metadata = {name: obj["metadata"][name] for name in _SHARED if name in obj["metadata"]}
    status: dict[str, Any] = {"replicas": at(obj, scale.status_path) or 0}
    if selector := _selector(obj, scale):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": at(obj, scale.spec_path) or 0},
        "status": status,
    }


def scaling(
    kind: ServedKind, change: Callable[[Object], Any], *, patched: bool
) -> Callable[[Object], Object]:
    """A change of a Scale (``patched``: by a patch), as a change of the object that it is the scale of.

    The change raises BadRequest or Invalid when its result is not a valid Scale.
    """
    path = _paths(kind).spec_path.split(".")

    def edit(obj: Object) -> Object:
        before = scale_of(kind, obj)
        wanted = change(before)
        _check_types(wanted, patched=patched)
        metadata = {**obj["metadata"], **_precondition(wanted, before)}
        return _with({**obj, "metadata": metadata}, path, _replicas(kind, wanted, before))

    return edit


def _check_types(wanted: Any, *, patched: bool) -> None:
    """Check that this can be decoded as a Scale: it has types, whatever kind it is the scale of.

    Raises:
        BadRequest, or Invalid for a patch
    """
    if not isinstance(wanted, dict):
        raise BadRequest("the object provided is unrecognized (must be of type Scale): it is not an object")
    if (error := _SCHEMA.decode_error(wanted)) is not None:
        raise strategy.unreadable(SCALE, error, patched=patched)


def _precondition(wanted: Mapping[str, Any], before: Object) -> dict[str, str]:
    """The resourceVersion and uid that the client sent, if any."""
    given = wanted.get("metadata") or {}
    if given.get("name") not in (None, "", before["metadata"]["name"]):
        there = before["metadata"]["name"]
        said = f"the name of the object ({given['name']}) does not match the name on the URL ({there})"
        raise BadRequest(said)
    return {name: given[name] for name in ("resourceVersion", "uid") if given.get(name)}


def _replicas(kind: ServedKind, wanted: Mapping[str, Any], before: Object) -> int:
    """The count; a negative one of a custom kind is refused as a part of its object."""
    replicas: int = (wanted.get("spec") or {}).get("replicas") or 0
    if replicas < 0 and not kind.custom:
        cause = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise refusals.invalid(SCALE, before["metadata"]["name"], [cause])
    return replicas


def _paths(kind: ServedKind) -> Scale:
    assert kind.scale is not None, f"{kind.resource} has no scale"
    return kind.scale


def _selector(obj: Object, scale: Scale) -> str:
    found = at(obj, scale.selector_path) if scale.selector_path else None
    if isinstance(found, str):
        return found
    own = at(obj, "spec.selector")
    if not isinstance(own, dict) or not own or not scale.selector_path:
        return ""
    plain = all(isinstance(each, str) for each in own.values())  # a ReplicationController's is just labels
    return str(selectors.from_object({"matchLabels": own} if plain else own))


def _with(obj: Object, path: list[str], value: int) -> Object:
    if not path:
        return obj
    name, *rest = path
    if not rest:
        return {**obj, name: value}
    inner = obj.get(name)
    return {**obj, name: _with(inner if isinstance(inner, dict) else {}, rest, value)}


MOST_DISRUPTED = 2000
"""Most evicted pods that a budget may list as not yet deleted."""

AGAIN_SECONDS = 10.0
"""When a client should try again while the status of a budget is not yet computed."""

_WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
_TOO_BIG = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
_MORE_THAN_ONE = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the pod; no budget has to change."""


@dataclass(frozen=True, slots=True)
class UpdateBudget:
    """First write ``budget``, which has one disruption less; then delete the pod."""

    budget: Object


def budgets_for(pod: Object, budgets: Sequence[Object]) -> list[Object]:
    """The budgets of the pod's namespace that select it; one that cannot be read selects none."""
    labels = pod["metadata"].get("labels", {})
    return [budget for budget in budgets if _selector_of(budget).matches(labels)]


def _selector_of(budget: Object) -> selectors.Selector:
    """An earlier version may have stored a selector that is refused now."""
    try:
        return selectors.from_object((budget.get("spec") or {}).get("selector"))
    except BadRequest:
        return selectors.NOTHING


def decide_eviction(pod: Object, budgets: Sequence[Object], now: datetime) -> Delete | UpdateBudget:
    """What to do to evict a pod. ``budgets`` are those that select it.

    Raises:
        TooManyRequests: the budget does not allow it now.
        Forbidden: a budget's status is invalid.
        ApiError: several budgets select the pod (500, as kube-apiserver).
    """
    if _needs_no_budget(pod) or not budgets:
        return Delete()
    if len(budgets) > 1:
        raise ApiError(_MORE_THAN_ONE, code=500, reason="")
    budget = budgets[0]
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    if not _ready(pod) and _unready_may_go(spec, status):
        return Delete()
    return UpdateBudget(_disrupted(budget, status, pod["metadata"]["name"], now))


def _needs_no_budget(pod: Object) -> bool:
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")
    return over or "deletionTimestamp" in pod["metadata"]


def _unready_may_go(spec: Object, status: Object) -> bool:
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _disrupted(budget: Object, status: Object, pod: str, now: datetime) -> Object:
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        said = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(said, AGAIN_SECONDS)
    allowed, disrupted = status.get("disruptionsAllowed", 0), status.get("disruptedPods") or {}
    if allowed < 0 or len(disrupted) > MOST_DISRUPTED:
        why = "pdb disruptions allowed is negative" if allowed < 0 else _TOO_BIG
        raise Forbidden(f'poddisruptionbudget.policy "{name}" is forbidden: {why}')
    if allowed == 0:
        raise _too_many(_why_none(name, status), None)
    left = {"disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, pod: rfc3339(now)}}
    conditions = {"conditions": _exhausted(status, budget, now)} if allowed == 1 else {}
    return {**budget, "status": {**status, **left, **conditions}}


def _why_none(name: str, status: Object) -> str:
    """Why a budget allows no disruption: what its condition says, unless the numbers tell."""
    budget = f"The disruption budget {name}"
    needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    conditions = status.get("conditions") or ()
    told: Object = next((each for each in conditions if each.get("type") == "DisruptionAllowed"), {})
    reason, message = told.get("reason", ""), told.get("message", "")
    if told.get("status") != "False" or not message:
        reason = message = ""
    if reason == "SyncFailed":
        return f"{budget} does not allow evicting pods currently because it failed sync: {message}"
    if has <= needs:
        return f"{budget} needs {needs} healthy pods and has {has} currently"
    if message:
        return f"{budget} does not allow evicting pods currently ({reason}): {message}"
    return f"{budget} does not allow evicting pods currently"


def _exhausted(status: Object, budget: Object, now: datetime) -> list[dict[str, Any]]:
    wanted = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": rfc3339(now),
        "observedGeneration": budget["metadata"].get("generation", 0),
    }
    return with_json_conditions(status, wanted)


def _too_many(said: str, retry_after: float | None) -> TooManyRequests:
    causes = [{"reason": "DisruptionBudget", "message": said}]
    return TooManyRequests(_WOULD_VIOLATE, details={"causes": causes}, retry_after=retry_after)


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
