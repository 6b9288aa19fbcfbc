"""What comes next of a request for a certificate: nothing, approval, a signature, a failure, its end."""

from datetime import timedelta

import pytest

from kubewright.api.certificates import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    SigningRequest,
    SigningRequestCondition,
    SigningRequestSpec,
    SigningRequestStatus,
)
from kubewright.api.meta import ObjectMeta
from kubewright.builtin.joining import (
    AskForRights,
    Delete,
    Fail,
    Sign,
    Wait,
    kubelet_client,
    kubelet_serving,
    lifetime,
    next_step,
)
from kubewright.pki.certificates import new_authority, new_request
from kubewright.pki.requests import Asked
from kubewright.testing.clocks import BEGIN
from kubewright.wire.http import User

NODE = new_request(User("system:node:a", ("system:nodes",)))[0]
OTHER = new_request(User("ann", ("people",)))[0]
CERTIFICATE = new_authority("any", BEGIN, timedelta(hours=2)).certificate
USES = ("digital signature", "client auth")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def made(*conditions, at=timedelta(0), request=NODE, signer=KUBELET_CLIENT, certificate=b"", **spec):
    """A request of this moment, with conditions that were written ``at`` a time after it."""
    found = tuple(
        SigningRequestCondition(type=each, status="True", last_update_time=BEGIN + at) for each in conditions
    )
    given = {"username": "system:bootstrap:abcdef", "usages": USES, **spec}
    return SigningRequest(
        metadata=ObjectMeta(name="r", creation_timestamp=BEGIN),
        spec=SigningRequestSpec(request=request, signer_name=signer, **given),
        status=SigningRequestStatus(conditions=found, certificate=certificate),
    )


STEPS = [
    ("a joining kubelet's", made(), 0, AskForRights(("nodeclient",))),
    ("a kubelet's own", made(username="system:node:a"), 0, AskForRights(("selfnodeclient", "nodeclient"))),
    ("a user's", made(request=OTHER, signer=CLIENT), 0, Wait(BEGIN + DAY)),
    ("another signer's", made(signer="example.com/own"), 0, Wait(BEGIN + DAY)),
    ("a kubelet's for its server", made(signer=KUBELET_SERVING), 0, Wait(BEGIN + DAY)),
    ("not for a node, of a node's signer", made(request=OTHER), 0, Wait(BEGIN + DAY)),
    ("with other uses", made(usages=("client auth",)), 0, Wait(BEGIN + DAY)),
    ("what cannot be read", made(request=b"x"), 0, Wait(BEGIN + DAY)),
    ("approved", made("Approved"), 0, Sign(timedelta(days=365))),
    ("approved, for an hour", made("Approved", expiration_seconds=3600), 0, Sign(HOUR)),
    ("approved, in the wrong form", made("Approved", usages=("client auth",)), 0,
     Fail("usages did not match [client auth digital signature key encipherment]")),
    ("approved, another signer's", made("Approved", signer="example.com/own"), 0, Wait(BEGIN + DAY)),
    ("denied", made("Denied"), 0, Wait(BEGIN + HOUR)),
    ("failed", made("Approved", "Failed"), 0, Wait(BEGIN + HOUR)),
    ("signed", made("Approved", certificate=CERTIFICATE), 0, Wait(BEGIN + HOUR)),
    ("undecided for a day", made(), 24, Delete()),
    ("denied an hour ago", made("Denied"), 1, Delete()),
    ("denied late", made("Denied", at=3 * HOUR), 3.5, Wait(BEGIN + 4 * HOUR)),
    ("failed an hour ago", made("Approved", "Failed"), 1, Delete()),
    ("signed an hour ago", made("Approved", certificate=CERTIFICATE), 1, Delete()),
    ("signed, and the certificate has ended", made("Approved", at=1.5 * HOUR, certificate=CERTIFICATE), 2, Delete()),
    ("approved a day ago and not signed", made("Approved", signer="example.com/own"), 24, Delete()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "hours", "step"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS]
)
def test_what_comes_next_of_a_request(request_, hours, step):
    assert next_step(request_, BEGIN + timedelta(hours=hours)) == step


def asked(*, organizations=("system:nodes",), name="system:node:a", **names):
    return Asked(name, organizations, **names)


FORMS = [
    (kubelet_client, asked(), {*USES}, ""),
    (kubelet_client, asked(), {*USES, "key encipherment"}, ""),
    (kubelet_client, asked(organizations=("system:nodes", "system:masters")), {*USES}, "organization"),
    (kubelet_client, asked(organizations=()), {*USES}, "organization"),
    (kubelet_client, asked(name="ann"), {*USES}, "common name"),
    (kubelet_client, asked(hosts=("a",)), {*USES}, "DNS subjectAltNames"),
    (kubelet_client, asked(addresses=("1.1.1.1",)), {*USES}, "IP subjectAltNames"),
    (kubelet_client, asked(emails=("a@b",)), {*USES}, "Email subjectAltNames"),
    (kubelet_client, asked(uris=("a:b",)), {*USES}, "URI subjectAltNames"),
    (kubelet_client, asked(), {*USES, "server auth"}, "usages did not match"),
    (kubelet_serving, asked(hosts=("a",)), {"digital signature", "server auth"}, ""),
    (kubelet_serving, asked(addresses=("1.1.1.1",)), {"digital signature", "server auth"}, ""),
    (kubelet_serving, asked(), {"digital signature", "server auth"}, "is required"),
    (kubelet_serving, asked(hosts=("a",), uris=("a:b",)), {"digital signature", "server auth"}, "URI"),
    (kubelet_serving, asked(hosts=("a",), name="ann"), {"digital signature", "server auth"}, "common name"),
    (kubelet_serving, asked(hosts=("a",)), {*USES}, "usages did not match"),
]


@pytest.mark.parametrize(("form", "request_", "uses", "wrong"), FORMS)
def test_the_form_that_a_signer_asks_for(form, request_, uses, wrong):
    found = form(request_, frozenset(uses))
    assert wrong in found
    assert bool(found) == bool(wrong)


@pytest.mark.parametrize(("seconds", "lives"), [(None, 365 * DAY), (600, 10 * timedelta(minutes=1)), (1, 10 * timedelta(minutes=1)), (2**31 - 1, 365 * DAY)])  # fmt: skip
def test_how_long_a_certificate_lives(seconds, lives):
    assert lifetime(seconds) == lives
