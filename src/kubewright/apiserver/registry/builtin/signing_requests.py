"""CertificateSigningRequests: which write may change what of them, and what is refused.

Theory.      A request is written once, and says by the server's word who made it. Afterwards it has two
             writers, each with a subresource: who decides on it (``approval``: its conditions), and who signs
             it (``status``: the certificate, and conditions that decide nothing). A decision is never taken
             back, and a certificate never replaced.
Invariants.  Pure; times are arguments. The fields have the right JSON types: the schema is checked first.
Source       kube-apiserver's strategies and validation of certificates.k8s.io/v1, with its sentences.
Called by    the package, which makes the kind's hooks of these functions. Who may decide and sign is asked in
             ``registry.policies``.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.apiserver.registry.builtin.rules import Rule
from kubewright.apiserver.registry.kind import Part
from kubewright.apiserver.schema.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from kubewright.apiserver.schema.node import Object, at
from kubewright.pki.keys import read_certificates
from kubewright.pki.requests import USAGES, asked_in
from kubewright.wire import naming
from kubewright.wire.http import User

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
DECISIONS = (APPROVED, DENIED)
LEGACY = "kubernetes.io/legacy-unknown"
SHORTEST = 600
"""Seconds for which a certificate may be asked for at least."""

_CONDITIONS = "status.conditions"
_CERTIFICATE = "status.certificate"
_STATUSES = ("False", "True", "Unknown")


def requested_by(request: Object, user: User) -> Object:
    """A new request as it is stored: with its user in it, whatever the client wrote, and undecided."""
    spec = {name: value for name, value in (request.get("spec") or {}).items() if name not in _REQUESTER}
    told: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    told["extra"] = {key: list(values) for key, values in user.extra}
    return {
        **request,
        "spec": {**spec, **{name: value for name, value in told.items() if value}},
        "status": {},
    }


_REQUESTER = frozenset(("username", "uid", "groups", "extra"))


def _of_client(new: Object, old: Object, _now: str) -> Object:
    return {**new, "spec": old["spec"], "status": old.get("status") or {}}


def _of_approver(new: Object, old: Object, now: str) -> Object:
    status = {name: value for name, value in (old.get("status") or {}).items() if name != "conditions"}
    conditions = _dated(at(new, _CONDITIONS, []), old, now)
    return {
        **new,
        "spec": old["spec"],
        "status": {**({"conditions": conditions} if conditions else {}), **status},
    }


def _of_signer(new: Object, old: Object, now: str) -> Object:
    """Decisions stay as they are, where their number does; if they do not, the rules refuse it."""
    conditions = [dict(each) for each in at(new, _CONDITIONS, [])]
    for kind in DECISIONS:
        before, after = _of_type(old, kind), [each for each in conditions if each.get("type") == kind]
        if len(before) == len(after):
            for was, each in zip(before, after, strict=True):
                each.clear()
                each.update(was)
    status = {name: value for name, value in (new.get("status") or {}).items() if name != "conditions"}
    dated = _dated(conditions, old, now)
    return {**new, "spec": old["spec"], "status": {**({"conditions": dated} if dated else {}), **status}}


def _dated(conditions: list[dict[str, Any]], old: Object, now: str) -> list[dict[str, Any]]:
    """The conditions with the times that they lack; one whose status is the same keeps its transition."""
    known = {
        (each.get("type"), each.get("status")): each.get("lastTransitionTime")
        for each in reversed(at(old, _CONDITIONS, []))
    }
    return [
        {
            **each,
            "lastUpdateTime": each.get("lastUpdateTime") or now,
            "lastTransitionTime": each.get("lastTransitionTime")
            or known.get((each.get("type"), each.get("status")))
            or now,
        }
        for each in conditions
    ]


def rules(new: Object, old: Object | None) -> Iterator[Cause]:
    """What is wrong with a request, whichever endpoint the write came by."""
    if old is None:
        yield from _request(new.get("spec") or {})
    yield from _conditions(at(new, _CONDITIONS, []), old)
    for kind in (*DECISIONS, FAILED):
        if len(_of_type(new, kind)) < len(_of_type(old, kind)):
            yield forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"')
    certificate = at(new, _CERTIFICATE)
    if certificate and certificate != at(old, _CERTIFICATE):
        yield from _pem(certificate)


def _request(spec: Mapping[str, Any]) -> Iterator[Cause]:
    """The spec is checked when it is written, and never changes."""
    try:
        asked_in(b64decode(spec.get("request") or "", validate=True))
    except (ValueError, binascii.Error) as error:
        yield invalid("spec.request", spec.get("request") or "", str(error))
    usages = spec.get("usages") or []
    if not usages:
        yield required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in USAGES:
            yield unsupported(f"spec.usages[{index}]", usage, sorted(USAGES))
        if usage in usages[:index]:
            yield duplicate(f"spec.usages[{index}]", usage)
    yield from _signer(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < SHORTEST:
        words = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, words)


def _signer(name: str) -> Iterator[Cause]:
    """A signer's name is a domain and a path in it."""
    where = "spec.signerName"
    if not name:
        yield required(where)
        return
    if name == LEGACY:
        yield invalid(where, name, "the legacy signerName is not allowed via this API version")
        return
    domain, _, path = name.partition("/")
    if name.count("/") != 1:
        words = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(where, name, words)
        return
    for part, form in ((domain, naming.dns_label), (path, naming.dns_subdomain)):
        bad = next((each for each in part.split(".") if form(each)), None)
        for words in () if bad is None else form(bad):
            yield invalid(where, part, f'validating label "{bad}": {words}')
        if part is domain and "." not in part:
            yield invalid(where, part, "should be a domain with at least two segments separated by dots")


def _conditions(conditions: list[dict[str, Any]], old: Object | None) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, kind, status = (
            f"{_CONDITIONS}[{index}]",
            condition.get("type", ""),
            condition.get("status", ""),
        )
        known = ("True",) if kind in (*DECISIONS, FAILED) else _STATUSES
        if not kind:
            yield required(f"{where}.type")
        if not status:
            yield required(f"{where}.status")
        elif status not in known:
            yield unsupported(f"{where}.status", status, known)
        if kind in DECISIONS and seen & {each for each in DECISIONS if each != kind}:
            yield invalid(_CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            yield duplicate(f"{where}.type", kind)
        seen.add(kind)


def _decides_nothing(new: Object, old: Object | None) -> Iterator[Cause]:
    """Who may write the status may not decide."""
    for kind in DECISIONS:
        before, after = _of_type(old, kind), _of_type(new, kind)
        if len(after) > len(before):
            yield forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"')
        elif len(after) == len(before) and after != before:
            yield forbidden(_CONDITIONS, f'updates may not modify a condition of type "{kind}"')
    was = at(old, _CERTIFICATE)
    if was and at(new, _CERTIFICATE) != was:
        yield forbidden(_CERTIFICATE, "updates may not modify existing certificate content")


def _pem(coded: str) -> Iterator[Cause]:
    """What is signed is one certificate or a chain, in PEM, and nothing else."""
    try:
        pem = b64decode(coded, validate=True)
        other = next((each for each in _labels(pem) if each != "CERTIFICATE"), None)
        if other is not None:
            yield _not_a_certificate(f'only CERTIFICATE PEM blocks are allowed, found "{other}"')
            return
        read_certificates(pem)
    except (ValueError, binascii.Error):
        yield _not_a_certificate("must contain at least one CERTIFICATE PEM block")


def _labels(pem: bytes) -> Iterator[str]:
    """The kinds of the blocks of a PEM."""
    head, tail = b"-----BEGIN ", b"-----"
    for line in pem.splitlines():
        if line.startswith(head) and line.endswith(tail):
            yield line.removeprefix(head).removesuffix(tail).decode(errors="replace")


def _not_a_certificate(words: str) -> Cause:
    return invalid(_CERTIFICATE, "<certificate data>", words)


def _of_type(request: Object | None, kind: str) -> list[dict[str, Any]]:
    return [each for each in at(request, _CONDITIONS, []) if each.get("type") == kind]


RULES: tuple[Rule, ...] = (rules,)

PARTS: Mapping[str, Part] = {
    "": Part(_of_client),
    "approval": Part(_of_approver),
    "status": Part(_of_signer, lambda new, old: list(_decides_nothing(new, old))),
}
"""What of an update counts, by the endpoint it comes by; empty: the object itself."""
