"""When the keys of webhooks are made and replaced: a table of decisions, and two years of them in a row."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.pki.certificates import has_signed
from kubewright.pki.keys import pems
from kubewright.runtime.webhooks.certificates import (
    AUTHORITIES,
    KEY,
    Keyring,
    Lifetimes,
    Plan,
    Seen,
    Step,
    decide,
    keyring_after,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
LIVES = Lifetimes()
NAMES = frozenset({"hooks.ns.svc"})


def begun(now=NOW, names=NAMES):
    return keyring_after(Plan(Step.BEGIN, ""), Seen(None, (), names), now, LIVES)


def after(step, held, now, names=NAMES):
    return keyring_after(Plan(step, ""), Seen(held, (held.bundle,), names), now, LIVES)


FIRST = begun()
ANNOUNCED_AT = NOW + 500 * DAY
LASTING = after(Step.SERVE, FIRST, ANNOUNCED_AT - DAY)
ANNOUNCED = after(Step.ANNOUNCE, LASTING, ANNOUNCED_AT)
CHANGED_AT = ANNOUNCED_AT + 10 * MINUTE
CHANGED = after(Step.SERVE, ANNOUNCED, CHANGED_AT)
STRANGE = Keyring(FIRST.authority, begun().serving)

TABLE = {
    "nothing yet": (None, (), NOW, Step.BEGIN),
    "new keys": (FIRST, (FIRST.bundle,), NOW, Step.KEEP),
    "a certificate of a third of its life": (FIRST, (FIRST.bundle,), NOW + 59 * DAY, Step.KEEP),
    "one of two thirds": (FIRST, (FIRST.bundle,), NOW + 60 * DAY, Step.SERVE),
    "one that has expired": (FIRST, (FIRST.bundle,), NOW + 90 * DAY, Step.SERVE),
    "an authority of two thirds of its life": (LASTING, (LASTING.bundle,), ANNOUNCED_AT, Step.ANNOUNCE),
    "one that has expired with all it signed": (LASTING, (), NOW + 731 * DAY, Step.BEGIN),
    "one that was announced a moment ago": (ANNOUNCED, (ANNOUNCED.bundle,), ANNOUNCED_AT, Step.KEEP),
    "one that was announced long enough": (ANNOUNCED, (ANNOUNCED.bundle,), CHANGED_AT, Step.SERVE),
    "one that a configuration does not have": (
        ANNOUNCED,
        (ANNOUNCED.bundle, LASTING.bundle),
        CHANGED_AT,
        Step.KEEP,
    ),
    "one that no configuration has": (ANNOUNCED, (), CHANGED_AT, Step.KEEP),
    "the same, when the old certificate has expired": (
        ANNOUNCED,
        (),
        ANNOUNCED_AT + 90 * DAY,
        Step.SERVE,
    ),
    "an old authority that may be in use": (CHANGED, (CHANGED.bundle,), CHANGED_AT + 59 * MINUTE, Step.KEEP),
    "one that is out of use": (CHANGED, (CHANGED.bundle,), CHANGED_AT + 60 * MINUTE, Step.RETIRE),
    "a certificate that another authority signed": (STRANGE, (STRANGE.bundle,), NOW, Step.SERVE),
}


@pytest.mark.parametrize(("held", "bundles", "now", "step"), TABLE.values(), ids=TABLE)
def test_the_next_step(held, bundles, now, step):
    plan = decide(Seen(held, bundles, NAMES), now, LIVES)
    assert (plan.step, bool(plan.reason)) == (step, True)


@pytest.mark.parametrize(
    ("now", "again"),
    [
        pytest.param(ANNOUNCED_AT, CHANGED_AT, id="while API servers learn of it: when they know"),
        pytest.param(CHANGED_AT, None, id="while a configuration lacks it: at the usual pace"),
        pytest.param(CHANGED_AT + DAY, None, id="still"),
    ],
)
def test_when_an_announced_authority_is_looked_at_again(now, again):
    assert decide(Seen(ANNOUNCED, (LASTING.bundle,), NAMES), now, LIVES).again == again


def test_another_name_gets_another_certificate_and_the_old_name_stays_in_it_for_replicas_that_have_it():
    seen = Seen(FIRST, (FIRST.bundle,), {"other.ns.svc"})
    plan = decide(seen, NOW, LIVES)
    assert (plan.step, plan.reason) == (Step.SERVE, "the certificate is not for other.ns.svc")
    both = keyring_after(plan, seen, NOW, LIVES)
    assert both.serving.names() == {"other.ns.svc", "hooks.ns.svc"}
    later = Seen(both, (both.bundle,), {"other.ns.svc"})
    assert decide(later, NOW, LIVES).step is Step.KEEP
    renewed = keyring_after(decide(later, NOW + 61 * DAY, LIVES), later, NOW + 61 * DAY, LIVES)
    assert renewed.serving.names() == {"other.ns.svc"}


def test_when_the_secret_is_lost_what_others_may_still_serve_stays_trusted():
    seen = Seen(None, (FIRST.bundle, b"no PEM"), NAMES)
    anew = keyring_after(decide(seen, NOW + DAY, LIVES), seen, NOW + DAY, LIVES)
    assert anew.trusted == (FIRST.authority.certificate,)
    assert has_signed(anew.trusted[0], FIRST.serving)


def test_what_was_served_stays_trusted_for_years_and_every_life_ends_in_time():
    """Each look of one and a half lives of an authority, with API servers that know a bundle five minutes late."""
    lives = Lifetimes(60 * DAY, 9 * DAY, 10 * MINUTE, 60 * MINUTE)
    now, held, bundle, known = NOW, None, b"", []
    steps = []
    while now < NOW + 90 * DAY:
        seen = Seen(held, (bundle,) if bundle else (), NAMES)
        plan = decide(seen, now, lives)
        if plan.step is not Step.KEEP:
            held = keyring_after(plan, seen, now, lives)
            steps.append(plan.step)
        bundle = held.bundle
        known = [*known[-1:], bundle]
        assert held.serving.expires > now + timedelta(days=2)
        for late in known:
            assert any(has_signed(each, held.serving) for each in pems(late))
        now += 5 * MINUTE if len(held.trusted) else timedelta(hours=12)
    assert steps.count(Step.ANNOUNCE) == steps.count(Step.RETIRE) == 2
    assert steps[0] is Step.BEGIN
    assert steps.count(Step.BEGIN) == 1


def test_a_keyring_comes_back_from_its_secret():
    assert Keyring.from_secret(CHANGED.to_secret()) == CHANGED
    assert CHANGED.trusted == (FIRST.authority.certificate,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({AUTHORITIES: None}, "it has no ca.crt"),
        ({KEY: b"no key"}, "cannot be read"),
        ({KEY: begun().serving.key}, "cannot be read"),
        ({AUTHORITIES: b"no PEM"}, "cannot be read"),
    ],
    ids=["a key that is missing", "a key that is none", "the key of another", "authorities that are none"],
)
def test_a_secret_that_holds_no_keyring_is_told_without_its_content(change, words):
    data = {name: value for name, value in {**FIRST.to_secret(), **change}.items() if value is not None}
    with pytest.raises(ValueError, match=words) as told:
        Keyring.from_secret(data)
    assert "PRIVATE" not in str(told.value)


def test_no_key_is_shown():
    assert "PRIVATE" not in repr(FIRST) + repr(Seen(FIRST, (), NAMES))


def test_a_key_must_last_longer_than_its_announcement():
    with pytest.raises(InvalidInput, match="three times longer"):
        Lifetimes(serving=30 * MINUTE)
