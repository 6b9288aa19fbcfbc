"""User data and bootstrap tokens (RES-08 to RES-15)."""

from base64 import b64encode
from datetime import UTC, datetime

from kubewright.machines.caches import wants_token
from kubewright.machines.machine.act import filled, token_data, token_id, token_secret
from kubewright.testing.clocks import LoopClock


def test_every_placeholder_is_filled() -> None:
    text = b"n=<<MACHINE_NAME>> t=<<BOOTSTRAP_TOKEN>> q=%3C%3CBOOTSTRAP_TOKEN%3E%3E n=<<MACHINE_NAME>>"
    assert filled(text, "m1", "abc.def") == b"n=m1 t=abc.def q=abc.def n=m1"


def test_a_token_is_wanted_only_where_there_is_a_place_for_it() -> None:
    assert wants_token(b"--token <<BOOTSTRAP_TOKEN>>")
    assert not wants_token(b"#!/bin/sh")


def test_ten_thousand_machines_have_ten_thousand_token_ids_or_nearly() -> None:
    ids = {token_id(f"uid-{number}") for number in range(10_000)}
    assert len(ids) > 9_900
    assert all(len(found) == 6 and found.isalnum() and found == found.lower() for found in ids)


def test_a_token_secret_is_what_kubeadm_and_the_api_server_expect() -> None:
    data = token_data("m1", "u1", "0123456789abcdef", datetime(2030, 1, 1, tzinfo=UTC), "")
    assert data["token-id"] == token_id("u1")
    assert data["expiration"] == "2030-01-01T00:00:00Z"
    assert data["usage-bootstrap-authentication"] == "true"
    assert "auth-extra-groups" not in data


def test_token_secrets_have_sixteen_characters() -> None:
    assert len(token_secret(LoopClock())) == 16
    assert b64encode(token_secret(LoopClock()).encode())


def test_a_token_has_the_extra_groups_that_the_operator_names() -> None:
    groups = "system:bootstrappers:a,system:bootstrappers:b"
    data = token_data("m1", "u1", "secret", datetime(2030, 1, 1, tzinfo=UTC), groups)
    assert data["auth-extra-groups"] == groups
