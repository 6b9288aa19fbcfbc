"""How an authority is replaced: which turn comes next, what it waits for, and that nothing fails meanwhile."""

import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache

import pytest

from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta
from kubewright.pki.certificates import Identity, new_leaf
from kubewright.pki.clusters import by_certificate, kubeconfig, new_cluster_authority
from kubewright.pki.facts import is_signed_by
from kubewright.pki.keyring import Transition
from kubewright.pki.keys import Algorithm, pems
from kubewright.pki.rotation import Asked, Consumer, Stage, View, decide, digest_of, trusted_by, written
from kubewright.runtime.credentials.contents import read_secret
from kubewright.testing.clocks import BEGIN as NOW
from kubewright.wire.http import User

DAY = timedelta(days=1)
NOTHING = Asked()
NOW_PLEASE = Asked(NOW)


def pair(made=NOW - 30 * DAY):
    return new_cluster_authority(made, Algorithm.EC)


OLD, NEW = pair(), pair(NOW)


def secret(name, data):
    return _read(name, tuple(data.items()))


@cache
def _read(name, entries):
    return read_secret(Secret(metadata=ObjectMeta(name=name, namespace="ns"), data=dict(entries)))


@cache
def verifies(certificate, bundle):
    return any(is_signed_by(certificate, each) for each in pems(bundle))


def begun(old=OLD):
    return written(Transition.BEGIN, secret("demo-ca", {"tls.crt": old.certificate, "tls.key": old.key}), NEW)


def signing(old=OLD):
    data = written(Transition.SIGN, secret("demo-ca", begun(old)), NEW)
    return {name: entry for name, entry in data.items() if entry is not None}


SETTLED = {"tls.crt": OLD.certificate, "tls.key": OLD.key}


def leaf(by=OLD, name="demo-apiserver"):
    made = new_leaf(Identity(by.certificate, by.key), User("kube-apiserver", ()), NOW, DAY, names=("a",))
    return secret(name, {"tls.crt": made.certificate, "tls.key": made.key})


def access(trusts, by=OLD, name="demo-kubeconfig"):
    made = new_leaf(Identity(by.certificate, by.key), User("admin", ()), NOW, DAY)
    return secret(
        name, {"value": kubeconfig("demo", "demo-admin", "https://a", trusts, by_certificate(made))}
    )


def view(data, *others, consumers=(), asked=NOTHING, ours=True, now=NOW):
    authority = secret("demo-ca", data)
    found = {"demo-ca": authority, **{each.metadata.name: each for each in others}}
    return View("demo-ca", authority, ours, asked, found, tuple(consumers), now)


def running(*secrets, name="NestedAPIServer front"):
    return Consumer(name, {each.metadata.name: digest_of(each.contents) for each in secrets})


CA = secret("demo-ca", SETTLED)
TRUSTING = secret("demo-ca", begun())
SIGNING = secret("demo-ca", signing())
BOTH, SWAPPED = TRUSTING.pair.certificate, SIGNING.pair.certificate


@pytest.mark.parametrize(
    ("seen", "turn", "because"),
    [
        pytest.param(view(SETTLED), None, "", id="no user asked, and it is young"),
        pytest.param(
            view(SETTLED, asked=NOW_PLEASE),
            Transition.BEGIN,
            "it was made before 2030-01-01T00:00:00Z: a new one is trusted beside it",
            id="a user asked",
        ),
        pytest.param(view(SETTLED, asked=Asked(NOW + DAY)), None, "", id="a user asked for tomorrow"),
        pytest.param(
            view(SETTLED, asked=Asked(NOW - 40 * DAY)), None, "", id="it was made after the moment asked for"
        ),
        pytest.param(
            view(SETTLED, now=NOW + 9 * 365 * DAY),
            Transition.BEGIN,
            "it is valid only until 2039-11-30T00:00:00Z: a new one is trusted beside it",
            id="a tenth of its life is left",
        ),
        pytest.param(view(SETTLED, now=NOW + 8 * 365 * DAY), None, "", id="more than that is left"),
        pytest.param(
            view(begun(), now=NOW - DAY),
            Transition.BEGIN,
            "the new one is valid only from 2029-12-31T23:00:00Z, so another is made: a new one is trusted beside it",
            id="the new one was made by a clock that was ahead",
        ),
        pytest.param(
            view({"tls.crt": OLD.certificate}, asked=NOW_PLEASE), None, "", id="it cannot sign at all"
        ),
        pytest.param(view({"tls.crt": b"x"}, asked=NOW_PLEASE), None, "", id="it is none"),
    ],
)
def test_when_a_rotation_begins(seen, turn, because):
    answer = decide(seen)
    assert (answer.transition, answer.because, answer.stage) == (turn, because, None)


@pytest.mark.parametrize(
    ("changed", "unfit"),
    [
        pytest.param(
            {"next.crt": b"x"},
            "has a next.crt that is neither a certificate nor a public key in PEM",
            id="garbage for a certificate",
        ),
        pytest.param({"next.crt": b""}, "has a next.crt that is neither a certificate nor a public key in PEM", id="none"),
        pytest.param(
            {"next.key": b"x"},
            "has a next.key that is no private key in PEM, of RSA or an elliptic curve",
            id="garbage for a key",
        ),
        pytest.param({"next.key": b""}, "has no next.key", id="half written"),
        pytest.param(
            {"next.key": OLD.key}, "has a next.key that does not belong to its next.crt", id="the key of another"
        ),
        pytest.param({"tls.crt": OLD.certificate}, "is not in tls.crt", id="one that no client trusts"),
    ],
)  # fmt: skip
def test_a_new_pair_that_can_never_sign_is_made_anew_and_the_old_authority_goes_on_signing(changed, unfit):
    answer = decide(view({**begun(), **changed}))
    because = f"the new one {unfit}, so another is made: a new one is trusted beside it"
    assert (answer.transition, answer.because) == (Transition.BEGIN, because)
    mended = secret("demo-ca", written(Transition.BEGIN, secret("demo-ca", {**begun(), **changed}), NEW))
    assert (mended.pair.key, mended.problem) == (OLD.key, "")
    assert decide(view(mended.contents)).transition is Transition.SIGN


def test_a_new_authority_that_has_expired_before_it_signed_is_made_anew():
    answer = decide(view(begun(), now=NOW + 11 * 365 * DAY))
    assert (answer.transition, answer.stage) == (Transition.BEGIN, None)


def test_it_is_looked_at_again_when_it_is_due():
    assert decide(view(SETTLED, asked=Asked(NOW + DAY))).wake == NOW + DAY
    lives = OLD_ENDS - (NOW - 30 * DAY - timedelta(hours=1))
    assert decide(view(SETTLED)).wake == OLD_ENDS - lives / 10


OLD_ENDS = NOW - 30 * DAY + timedelta(days=3650)


@pytest.mark.parametrize("asked", [NOTHING, NOW_PLEASE])
def test_a_users_authority_is_refused_with_a_reason_where_one_asks(asked):
    answer = decide(view(SETTLED, asked=asked, ours=False))
    told = (
        "Secret demo-ca is not ours to write: it was made before 2030-01-01T00:00:00Z, and its owner has to "
        "replace it"
    )
    expected = (None, Stage.NOT_OURS, told) if asked is NOW_PLEASE else (None, None, "")
    assert (answer.transition, answer.stage, answer.told) == expected


TOLD = "Secret demo-ca: the old authority signs, and components are given both; "


@pytest.mark.parametrize(
    ("seen", "waits"),
    [
        pytest.param(view(begun(), consumers=[running(TRUSTING)]), "", id="all run with both"),
        pytest.param(
            view(begun(), consumers=[running(CA)]),
            "waits until all instances of NestedAPIServer front run with what is in Secret demo-ca now",
            id="one runs with the old one alone",
        ),
        pytest.param(
            view(begun(), access(OLD.certificate), consumers=[running(TRUSTING)]),
            "waits until the kubeconfig in Secret demo-kubeconfig trusts both",
            id="a kubeconfig trusts the old one alone",
        ),
        pytest.param(
            view(begun(), access(pair().certificate)), "", id="a kubeconfig is another control plane's"
        ),
        pytest.param(
            view(begun(), access(BOTH), consumers=[running(access(OLD.certificate))]),
            "waits until all instances of NestedAPIServer front run with what is in Secret demo-kubeconfig now",
            id="one runs with a kubeconfig from before",
        ),
        pytest.param(
            view(begun(), leaf(pair(), "demo-proxy-client"), consumers=[running(leaf(name="demo-proxy-client"))]),
            "",
            id="what another authority signed concerns this one not",
        ),
        pytest.param(
            view(begun(), consumers=[Consumer("NestedEtcd far", {}, "another program manages it")]),
            "waits for NestedEtcd far: another program manages it",
            id="what a foreign one runs with is not known",
        ),
        pytest.param(
            view(begun(), asked=Asked(None, Transition.SIGN)),
            "it stops before Signing, as spec.certificateAuthorities.stopBefore says or leaves it",
            id="a user wants to go on by hand",
        ),
        pytest.param(view(begun(), asked=Asked(None, Transition.DROP)), "", id="a user stops it later"),
        pytest.param(
            view(begun(), consumers=[running(CA)], now=OLD_ENDS), "", id="the old one has expired meanwhile"
        ),
    ],
)  # fmt: skip
def test_the_new_one_signs_when_all_trust_both(seen, waits):
    answer = decide(seen)
    assert answer.transition == (None if waits else Transition.SIGN)
    assert answer.stage is Stage.TRUSTING_BOTH
    assert not waits or answer.told == TOLD + waits


@pytest.mark.parametrize(
    ("seen", "waits"),
    [
        pytest.param(
            view(signing(), leaf(NEW), access(SWAPPED, NEW), consumers=[running(SIGNING)]),
            "",
            id="nothing of the old one is left",
        ),
        pytest.param(
            view(signing(), leaf()),
            "waits until what the old one signed is replaced in Secret demo-apiserver",
            id="a certificate of the old one is left",
        ),
        pytest.param(
            view(signing(), access(SWAPPED)),
            "waits until what the old one signed is replaced in Secret demo-kubeconfig",
            id="a kubeconfig has a certificate of the old one",
        ),
        pytest.param(
            view(signing(), leaf(NEW), consumers=[running(leaf())]),
            "waits until all instances of NestedAPIServer front run with what is in Secret demo-apiserver now",
            id="one still presents the old one's",
        ),
        pytest.param(
            view(signing(), asked=Asked(None, Transition.DROP)),
            "it stops before Dropping, as spec.certificateAuthorities.stopBefore says or leaves it",
            id="a user wants to go on by hand",
        ),
    ],
)  # fmt: skip
def test_the_old_one_goes_when_nothing_of_it_is_left(seen, waits):
    answer = decide(seen)
    assert answer.transition == (None if waits else Transition.DROP)
    told = "Secret demo-ca: the new authority signs, and the old one is still trusted"
    assert answer.told == (f"{told}; {waits}" if waits else told)


def test_what_each_turn_writes():
    assert trusted_by(TRUSTING) == (OLD.certificate, NEW.certificate)
    assert (TRUSTING.pair.key, TRUSTING.contents["next.key"]) == (OLD.key, NEW.key)
    assert trusted_by(SIGNING) == (NEW.certificate, OLD.certificate)
    turned = written(Transition.SIGN, TRUSTING, NEW)
    assert (turned["tls.key"], turned["next.crt"], turned["next.key"]) == (NEW.key, None, None)
    assert written(Transition.DROP, SIGNING, NEW) == {"tls.crt": NEW.certificate, "tls.key": NEW.key}


def test_keys_under_both_names_and_nothing_else_end_without_a_new_authority():
    """A Secret that was copied in between has no key of the new one: what was never used goes."""
    copied = {"tls.crt": BOTH, "tls.key": OLD.key}
    assert decide(view(copied, leaf())).transition is Transition.DROP
    assert written(Transition.DROP, secret("demo-ca", copied), NEW)["tls.crt"] == OLD.certificate


@dataclass
class Program:
    """Two instances of a server and one of its client: what each runs with, and what it should."""

    wanted: dict = field(default_factory=dict)
    instances: list = field(default_factory=lambda: [{}, {}])

    @property
    def told(self):
        """Its ``status.certificates``: while instances differ, nothing new is said."""
        first, second = self.instances
        return {name: digest_of(each) for name, each in first.items()} if first == second else None


class Model:
    """A control plane whose programs are given what is in its Secrets at any moment, in any order."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.secrets = {"demo-ca": dict(SETTLED)}
        self.programs = [Program() for _ in range(2)]
        self.said = [{}, {}]
        self.turns = []
        self.sign()
        self.trust()
        for each in self.programs:
            each.instances = [dict(self.secrets), dict(self.secrets)]
        self.report()

    def steps(self):
        yield from (self.sign, self.trust, self.transition, self.report)
        yield from (lambda p=p, n=n: self.restart(p, n) for p in self.programs for n in (0, 1))

    @property
    def authority(self):
        return secret("demo-ca", self.secrets["demo-ca"])

    @property
    def signs(self):
        return replace(self.authority.pair, certificate=trusted_by(self.authority)[0])

    def sign(self):
        """Make anew the server's certificate, if another than the one that signs has signed it."""
        held = self.secrets.get("demo-apiserver")
        if held is None or not verifies(held["tls.crt"], self.signs.certificate):
            self.secrets["demo-apiserver"] = leaf(self.signs).contents

    def trust(self):
        """Make anew the kubeconfig, if it trusts something else."""
        held = self.secrets.get("demo-kubeconfig")
        trusts = secret("demo-kubeconfig", held).kubeconfig.authority if held is not None else b""
        if trusts.strip() != self.authority.pair.certificate.strip():
            made = access(self.authority.pair.certificate, self.signs)
            self.secrets["demo-kubeconfig"] = made.contents

    def transition(self):
        consumers = [Consumer(f"program {n}", said) for n, said in enumerate(self.said)]
        others = [secret(name, each) for name, each in self.secrets.items() if name != "demo-ca"]
        seen = view(self.secrets["demo-ca"], *others, consumers=consumers, asked=Asked(NOW - 1 * DAY))
        if (answer := decide(seen)).transition is not None:
            self.turns.append(answer.transition)
            data = written(answer.transition, seen.authority, NEW)
            self.secrets["demo-ca"] = {
                name: each for name, each in {**self.secrets["demo-ca"], **data}.items() if each is not None
            }

    def report(self):
        for number, each in enumerate(self.programs):
            self.said[number] = each.told if each.told is not None else self.said[number]

    def restart(self, program, number):
        program.instances[number] = dict(self.secrets)

    def broken(self):
        """The certificates that are presented and do not verify where they may arrive."""
        every = [each for program in self.programs for each in program.instances]
        every.append(self.secrets)
        presented = [each["demo-apiserver"]["tls.crt"] for each in every]
        presented += [client.kubeconfig.certificate for client in map(_client, every)]
        bundles = [each["demo-ca"]["tls.crt"] for each in every]
        bundles += [_client(each).kubeconfig.authority for each in every]
        return [
            (certificate, bundle)
            for certificate in set(presented)
            for bundle in set(bundles)
            if not verifies(certificate, bundle)
        ]


def _client(secrets):
    return secret("demo-kubeconfig", secrets["demo-kubeconfig"])


@pytest.mark.parametrize("seed", range(12))
def test_at_every_step_what_is_presented_verifies_wherever_it_may_arrive(seed):
    model = Model(seed)
    for _ in range(600):
        model.random.choice(list(model.steps()))()
        assert model.broken() == []
        if Transition.DROP in model.turns:
            break
    assert model.turns == [Transition.BEGIN, Transition.SIGN, Transition.DROP]
