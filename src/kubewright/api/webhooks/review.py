"""One AdmissionReview of ``admission.k8s.io/v1`` in, one out.

Theory.      An API server asks twice about an object that is written: a *mutating* webhook answers with a
             JSON patch that writes the defaults, a *validating* one with a Status that has a cause for each
             field, in the words of the embedded server. Each kind has a path for each of the two; they are
             upstream's.
Invariants.  Pure. The uid comes back in each answer. What the type of a kind cannot read is allowed, since
             the schema, which the API server checks between the two, says what is wrong with it. A body
             that is no review of this webhook's kind is an error (400), never an answer. No error quotes the
             object.
Source       S0-06; the API of admission.k8s.io/v1.
Called by    ``runtime.webhooks.server``. The rules: ``api.admission``, ``api.catalog``.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct, field

from kubewright.api.admission import Rules, defaulted, violations, warned
from kubewright.base import names
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.wire.errors import BadRequest, Invalid, NotFound, invalid, to_status
from kubewright.wire.patch import json_difference

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
WRITES = ("CREATE", "UPDATE")
"""The operations that have defaults and rules; any other is allowed."""


GENERATED_SUFFIX = 5
"""Letters that a server appends to ``generateName``."""


class Stage(StrEnum):
    """When an API server asks: before the schema is checked, or after."""

    MUTATING = "mutate"
    VALIDATING = "validate"


class GroupVersionKind(Struct, frozen=True):
    """The kind of the object that is written."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(Struct, frozen=True, rename="camel"):
    """What is asked: one object that is written, and, when it is changed, what it was."""

    uid: str
    kind: GroupVersionKind
    operation: str
    name: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class AdmissionReview(Struct, frozen=True, rename="camel"):
    """The body of a request for a review."""

    request: AdmissionRequest
    api_version: str = ""
    kind: str = field(default="")


_DECODER = msgspec.json.Decoder(AdmissionReview)


@dataclass(frozen=True, slots=True)
class Webhook:
    """One kind at one stage."""

    rules: Rules[Any]
    stage: Stage

    @property
    def path(self) -> str:
        """``/validate-cluster-x-k8s-io-v1beta1-machine``."""
        resource = self.rules.kind.resource
        return f"/{self.stage}-{resource.group.replace('.', '-')}-{resource.version}-{resource.kind.lower()}"

    @property
    def name(self) -> str:
        """``validation.machine.cluster.x-k8s.io``; it is in the message of a refusal."""
        resource = self.rules.kind.resource
        does = "default" if self.stage is Stage.MUTATING else "validation"
        return f"{does}.{resource.kind.lower()}.{resource.group}"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The answer: whether the object may be written, the body to send, and which webhook has answered."""

    webhook: Webhook
    allowed: bool
    body: bytes


def webhooks(rules: Iterable[Rules[Any]]) -> tuple[Webhook, ...]:
    """Both webhooks of each of these kinds; a kind without defaults has no mutating one."""
    found = []
    for each in rules:
        if each.has_defaults:
            found.append(Webhook(each, Stage.MUTATING))
        found.append(Webhook(each, Stage.VALIDATING))
    return tuple(found)


def reviewed(known: Mapping[str, Webhook], path: str, body: bytes) -> Reviewed:
    """Answer the review that was sent to ``path``; ``known`` are the webhooks by their paths.

    Raises:
        NotFound: no webhook has this path.
        BadRequest: the body is no AdmissionReview, or one about another kind.
    """
    webhook = known.get(path)
    if webhook is None:
        raise NotFound(f"no webhook at {path[:MESSAGE_CHARS]}")
    request = _read(body)
    asked, resource = request.kind, webhook.rules.kind.resource
    if (asked.group, asked.version, asked.kind) != (resource.group, resource.version, resource.kind):
        raise BadRequest(
            f"{path} answers for {resource.kind} of {resource.api_version}, "
            f"not for {asked.kind[:64]} of {asked.group[:64]}/{asked.version[:64]}"
        )
    answer = _answer(webhook, request) if request.operation in WRITES else {"allowed": True}
    review = {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": request.uid, **answer}}
    return Reviewed(webhook, bool(answer["allowed"]), msgspec.json.encode(review))


def _read(body: bytes) -> AdmissionRequest:
    """The request in a body.

    Raises:
        BadRequest: it is none; the message names the field.
    """
    try:
        review = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error)[:MESSAGE_CHARS]
        raise BadRequest(f"the body is no {KIND} of {API_VERSION}: {why}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        found = f"{review.kind[:64]!r} of {review.api_version[:64]!r}"
        raise BadRequest(f"the body is no {KIND} of {API_VERSION}: it says that it is {found}")
    if not review.request.uid:
        raise BadRequest(f"the body is no {KIND} of {API_VERSION}: its request has no uid")
    if review.request.operation in WRITES and review.request.object is None:
        raise BadRequest(f"the {KIND} has no object, and {review.request.operation} is about one")
    return review.request


def _answer(webhook: Webhook, request: AdmissionRequest) -> dict[str, Any]:
    new, old = request.object or {}, request.old_object
    rules = webhook.rules
    if webhook.stage is Stage.MUTATING:
        return _patched(json_difference(new, defaulted(rules, _named(rules, request), old)))
    if errors := violations(rules, new, old):
        return {"allowed": False, "status": _status(_refusal(rules, request, errors))}
    said = warned(rules, new, old)
    return {"allowed": True, **({"warnings": said} if said else {})}


def _named(rules: Rules[Any], request: AdmissionRequest) -> Mapping[str, Any]:
    """The object that is written; with a name, where a default is made of it and none is there yet.

    A server generates names after the webhooks have answered. So the answer has the name, in the server's
    form; its end follows from the uid of the request, which no other request has.
    """
    new = request.object or {}
    metadata = new.get("metadata")
    if not rules.by_name or request.operation != "CREATE" or not isinstance(metadata, Mapping):
        return new
    prefix = metadata.get("generateName")
    if metadata.get("name") or not isinstance(prefix, str) or not prefix:
        return new
    tail = names.safe_encode(f"{names.fnv32a(request.uid.encode()):08x}")[:GENERATED_SUFFIX]
    named = {**metadata, "name": prefix[: names.NAME_LIMIT - GENERATED_SUFFIX] + tail}
    return {**new, "metadata": named}


def _patched(operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not operations:
        return {"allowed": True}
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def _refusal(rules: Rules[Any], request: AdmissionRequest, errors: Sequence[Any]) -> Invalid:
    metadata = (request.object or {}).get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else ""
    return invalid(rules.kind.resource, str(name or request.name), [error.cause for error in errors])


def _status(error: Invalid) -> dict[str, Any]:
    """A Status within a review: kind and version are known there."""
    return {key: value for key, value in to_status(error).items() if key not in ("kind", "apiVersion")}
