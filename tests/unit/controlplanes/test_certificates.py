"""Which certificates are made, which are waited for, what a user has to mend, and when the next is due."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.controlplanes.certificates.act import Destination, Maker
from kubewright.pki.certificates import Identity, new_leaf
from kubewright.pki.clusters import (
    by_certificate,
    kubeconfig,
    new_cluster_authority,
    new_service_account_keys,
)
from kubewright.pki.credentials import ADMIN, Authority, Kubeconfig, Leaf, TokenKeys, canonical, secrets_of
from kubewright.pki.keyring import Make, Transition, decide
from kubewright.pki.keys import Algorithm
from kubewright.runtime.credentials.contents import read_secret
from kubewright.runtime.credentials.values import controlled
from kubewright.testing import keys
from kubewright.testing.clocks import BEGIN as NOW
from kubewright.testing.keys import unusual_authority
from kubewright.testing.looks import Shelf
from kubewright.wire.gvk import Key
from kubewright.wire.http import User

DAY = timedelta(days=1)
YEAR = 365 * DAY
OWNER = OwnerReference(
    api_version="controlplane.cluster.x-k8s.io/v1alpha4",
    kind="NestedControlPlane",
    name="demo",
    uid="u1",
    controller=True,
)
OTHER = OwnerReference(api_version="v1", kind="ConfigMap", name="x", uid="u2", controller=True)

AUTHORITY = Authority("demo-ca", "kubernetes")
KEYS = TokenKeys("demo-sa")
NAMES = frozenset({"localhost", "127.0.0.1", "0:0::1", "Demo.example"})
LEAF = Leaf("demo-apiserver", "demo-ca", User("kube-apiserver", ()), NAMES, client=False)
CLIENT = Leaf("demo-kubelet-client", "demo-ca", User("kubelets", ("system:masters",)))
SERVER = "https://127.0.0.2:6443"
ACCESS = Kubeconfig("demo-kubeconfig", "demo-ca", SERVER, ADMIN, "demo", "demo-admin")


def authority(name="kubernetes", now=NOW):
    pair = new_cluster_authority(now, Algorithm.EC, name)
    return Identity(pair.certificate, pair.key)


CA, ANOTHER = authority(), authority()
SA = new_service_account_keys(Algorithm.EC)


def found(name, certificate=b"", key=b"", *, value=None, owner=OWNER):
    owners = () if owner is None else (owner,)
    data = {"tls.crt": certificate, "tls.key": key} if value is None else {"value": value}
    meta = ObjectMeta(name=name, namespace="ns", uid="u", resource_version="7", owner_references=owners)
    return read_secret(Secret(metadata=meta, data=data))


def ca(of=CA, *, key=None, owner=OWNER):
    return found("demo-ca", of.certificate, of.key if key is None else key, owner=owner)


def leaf(wanted=LEAF, by=CA, *, now=NOW, life=YEAR, owner=OWNER, **changes):
    said = replace(wanted, **changes)
    made = new_leaf(by, said.subject, now, life, names=sorted(canonical(said.names)), client=said.client)
    return found(wanted.secret, made.certificate, made.key, owner=owner)


def access(wanted=ACCESS, by=CA, *, now=NOW, trusts=CA, owner=OWNER, user=ADMIN, server=SERVER, odd=None):
    made = new_leaf(by, user, now, YEAR)
    if odd is not None:
        made = replace(made, certificate=keys.odd(made.certificate, odd))
    return found(
        wanted.secret,
        value=kubeconfig("demo", "demo-admin", server, trusts.certificate, by_certificate(made)),
        owner=owner,
    )


def plan(wanted, *there, now=NOW):
    held = {each.metadata.name: each for each in there}
    answer = decide(wanted, held, controlled(held, OWNER), now)
    assert answer.because, "every plan has a reason"
    return answer


def made(answer):
    return [(each.wanted.secret, each.because, each.renews) for each in answer.steps]


ALL = (AUTHORITY, KEYS, LEAF, CLIENT, ACCESS)
WHOLE = (ca(), found("demo-sa", SA.certificate, SA.key), leaf(), leaf(CLIENT), access())


def test_what_is_not_there_is_made_an_authority_before_what_it_signs():
    answer = plan(ALL)
    names = ["demo-ca", "demo-sa", "demo-apiserver", "demo-kubelet-client", "demo-kubeconfig"]
    assert made(answer) == [(each, f"there is no Secret {each}", False) for each in names]
    assert (answer.waiting, answer.problems) == ((), ())


def test_what_is_as_it_should_be_stays_until_half_of_the_kubeconfigs_life_is_over():
    answer = plan(ALL, *WHOLE)
    assert (answer.steps, answer.waiting, answer.problems) == ((), (), ())
    assert answer.wake == (YEAR + timedelta(hours=1)) / 2 - timedelta(hours=1)


@pytest.mark.parametrize("missing", WHOLE, ids=lambda each: each.metadata.name)
def test_one_secret_that_is_deleted_is_made_alone(missing):
    rest = [each for each in WHOLE if each is not missing]
    answer = plan(ALL, *rest)
    if missing.metadata.name == "demo-ca":
        assert answer.steps == ()
        (told,) = answer.problems
        assert told.startswith("Secret demo-ca is gone, and Secret demo-apiserver that it signed is there")
    else:
        assert [name for name, _, _ in made(answer)] == [missing.metadata.name]


@pytest.mark.parametrize(
    ("there", "because"),
    [
        pytest.param(
            found("demo-apiserver", b"x", b"y"),
            "has a tls.crt that is neither a certificate nor a public key in PEM",
            id="no certificate is in it",
        ),
        pytest.param(
            found("demo-apiserver", CA.certificate), "has no tls.key", id="the key is gone"
        ),
        pytest.param(
            found("demo-apiserver", CA.certificate, ANOTHER.key),
            "has a tls.key that does not belong to its tls.crt",
            id="the key is another's",
        ),
        pytest.param(
            found("demo-apiserver", SA.certificate, SA.key),
            "has no certificate in its tls.crt",
            id="it has a public key",
        ),
        pytest.param(
            leaf(by=ANOTHER),
            "was signed by another authority than Secret demo-ca",
            id="another authority signed it",
        ),
        pytest.param(
            leaf(subject=User("kube", ())), "is for kube, not for kube-apiserver", id="another subject"
        ),
        pytest.param(
            leaf(subject=User("kube-apiserver", ("a",))),
            "is for kube-apiserver, not for kube-apiserver",
            id="other groups",
        ),
        pytest.param(
            leaf(names=frozenset({"localhost", "127.0.0.1"})),
            "is not good for ::1, demo.example",
            id="names are new",
        ),
        pytest.param(
            leaf(names=NAMES | {"old.example"}),
            "is good for old.example too, where nothing of it is",
            id="a name is old",
        ),
        pytest.param(leaf(client=True), "is for another side of handshakes", id="it is a client's too"),
        pytest.param(
            leaf(now=NOW + DAY), "is valid only from 2030-01-01T23:00:00Z", id="it comes from the future"
        ),
        pytest.param(
            leaf(now=NOW - 244 * DAY),
            "is valid only until 2030-05-02T00:00:00Z",
            id="less than a third of its life is left",
        ),
    ],
)  # fmt: skip
def test_a_leaf_of_ours_that_is_outdated_is_made_anew(there, because):
    answer = plan((AUTHORITY, LEAF), ca(), there)
    assert made(answer) == [("demo-apiserver", f"Secret demo-apiserver {because}", True)]
    assert answer.steps[0].renews


@pytest.mark.parametrize("days", [0, 100, 243])
def test_a_leaf_stays_while_a_third_of_its_life_is_left(days):
    answer = plan((AUTHORITY, LEAF), ca(), leaf(now=NOW - days * DAY))
    assert (answer.steps, answer.problems) == ((), ())
    assert answer.wake == (YEAR + timedelta(hours=1)) * 2 / 3 - timedelta(hours=1) - days * DAY


@pytest.mark.parametrize(
    ("there", "told"),
    [
        pytest.param(leaf(owner=None), (), id="a good one"),
        pytest.param(
            leaf(owner=None, names=NAMES | {"*.example"}, client=True, subject=User("mine", ())),
            (),
            id="one that is good for more, with another subject",
        ),
        pytest.param(leaf(owner=None, now=NOW - 300 * DAY), (), id="one that ends soon"),
        pytest.param(
            leaf(owner=OTHER, names=frozenset({"localhost"})),
            ("Secret demo-apiserver is not good for 127.0.0.1, ::1, demo.example",),
            id="one for other names, which another object controls",
        ),
        pytest.param(
            found("demo-apiserver", CA.certificate, owner=None),
            ("Secret demo-apiserver has no tls.key",),
            id="one without a key",
        ),
        pytest.param(
            leaf(owner=None, now=NOW - 2 * YEAR),
            ("Secret demo-apiserver has a certificate that expired on 2029-01-01T00:00:00Z",),
            id="one that has expired",
        ),
        pytest.param(
            leaf(owner=None, by=ANOTHER),
            ("Secret demo-apiserver was signed by another authority than Secret demo-ca",),
            id="one of another authority",
        ),
    ],
)  # fmt: skip
def test_a_users_leaf_is_never_written(there, told):
    answer = plan((AUTHORITY, LEAF), ca(), there)
    assert (answer.steps, answer.problems) == ((), told)


@pytest.mark.parametrize(
    ("wanted", "there", "told"),
    [
        pytest.param(
            replace(LEAF, client=True),
            leaf(owner=None),
            "Secret demo-apiserver is not good for a client",
            id="a server's where a client's is wanted",
        ),
        pytest.param(
            LEAF, leaf(owner=None, client=True), "", id="one for both sides where a server's is wanted"
        ),
        pytest.param(
            replace(CLIENT, secret="demo-apiserver", names=NAMES),
            leaf(replace(CLIENT, secret="demo-apiserver"), owner=None),
            "Secret demo-apiserver is not good for 127.0.0.1, ::1, demo.example, localhost",
            id="a client's where a server's is wanted",
        ),
    ],
)
def test_a_users_leaf_is_good_for_what_it_is_wanted_for(wanted, there, told):
    assert plan((wanted,), ca(), there).problems == ((told,) if told else ())


@pytest.mark.parametrize(
    ("there", "told"),
    [
        pytest.param(ca(owner=None), (), id="a good one"),
        pytest.param(ca(ANOTHER, owner=OTHER), (), id="one that another object controls"),
        pytest.param(
            ca(key=b"", owner=None), ("Secret demo-ca has no tls.key",), id="one without a key"
        ),
        pytest.param(
            ca(authority(now=NOW - 11 * YEAR), owner=None),
            ("Secret demo-ca has a certificate that expired on 2029-01-01T00:00:00Z",),
            id="one that has expired",
        ),
        pytest.param(
            ca(authority(now=NOW - 11 * YEAR)),
            ("Secret demo-ca has a certificate that expired on 2029-01-01T00:00:00Z",),
            id="one of ours that has expired",
        ),
        pytest.param(
            ca(unusual_authority(NOW, basic=False), owner=None),
            ("Secret demo-ca has a certificate that is no authority: its basic constraints do not say CA:TRUE",),
            id="one with CA:FALSE",
        ),
        pytest.param(
            ca(unusual_authority(NOW, signs=False), owner=None),
            ("Secret demo-ca has a certificate that may sign no others: its key usage lacks certSign",),
            id="one without certSign",
        ),
        pytest.param(
            ca(unusual_authority(NOW, begins=DAY), owner=None),
            ("Secret demo-ca has a certificate that is valid only from 2030-01-02T00:00:00Z",),
            id="one that is not valid yet",
        ),
        pytest.param(
            found("demo-ca", b"x"),
            ("Secret demo-ca has a tls.crt that is neither a certificate nor a public key in PEM",),
            id="one of ours that cannot be read",
        ),
    ],
)  # fmt: skip
def test_an_authority_that_is_there_is_never_written(there, told):
    answer = plan((AUTHORITY,), there)
    assert (answer.steps, answer.problems) == ((), told)


def test_an_authority_that_is_not_valid_yet_is_looked_at_when_it_is():
    assert plan((AUTHORITY,), ca(unusual_authority(NOW, begins=DAY), owner=None)).wake == DAY


def test_a_public_key_is_no_authority():
    answer = plan((AUTHORITY, CLIENT), found("demo-ca", SA.certificate, SA.key, owner=None))
    told = "Secret demo-ca has no certificate in its tls.crt"
    assert answer.steps == ()
    assert answer.problems == (told, f"there is no Secret demo-kubelet-client, and {told}")


@pytest.mark.parametrize(
    ("there", "told"),
    [
        pytest.param(found("demo-sa", SA.certificate, SA.key, owner=None), (), id="a public key and its key"),
        pytest.param(
            found("demo-sa", CA.certificate, CA.key, owner=None), (), id="a certificate and its key"
        ),
        pytest.param(
            found("demo-sa", SA.certificate, owner=None), ("Secret demo-sa has no tls.key",), id="no key"
        ),
    ],
)
def test_a_users_keys_for_tokens_are_used(there, told):
    answer = plan((KEYS,), there)
    assert (answer.steps, answer.problems) == ((), told)


def test_with_a_users_authority_ours_is_signed():
    assert made(plan((AUTHORITY, CLIENT), ca(ANOTHER, owner=None))) == [
        ("demo-kubelet-client", "there is no Secret demo-kubelet-client", False)
    ]


def test_what_another_controller_makes_is_waited_for():
    answer = plan((CLIENT,))
    assert (answer.steps, answer.waiting) == ((), ("waits for Secret demo-ca",))


def test_where_an_authority_has_no_key_another_program_brings_what_it_signs():
    answer = plan((CLIENT,), ca(key=b"", owner=None))
    told = "waits for Secret demo-kubelet-client, which another program has to make: Secret demo-ca has no tls.key"
    assert (answer.steps, answer.waiting, answer.problems) == ((), (told,), ())
    brought = leaf(CLIENT, owner=None, subject=User("mine", ()))
    assert plan((CLIENT,), ca(key=b"", owner=None), brought).waiting == ()


def test_a_leaf_that_is_due_while_the_authority_cannot_sign_is_a_problem():
    answer = plan((CLIENT,), ca(key=b""), leaf(CLIENT, now=NOW - 300 * DAY))
    told = "Secret demo-kubelet-client is valid only until 2030-03-07T00:00:00Z, and Secret demo-ca has no tls.key"
    assert (answer.steps, answer.problems) == ((), (told,))


@pytest.mark.parametrize(
    ("there", "because"),
    [
        pytest.param(found("demo-kubeconfig", value=b"x"), "the kubeconfig cannot be read", id="no kubeconfig"),
        *(
            pytest.param(access(odd=how), "the kubeconfig cannot be read", id=f"with {how}")
            for how in (keys.Odd.VERSION, keys.Odd.TWICE)
        ),
        pytest.param(found("demo-kubeconfig"), "Secret demo-kubeconfig has no kubeconfig", id="nothing is in it"),
        pytest.param(
            access(server="https://old:1"), "the API server is at 127.0.0.2:6443 now", id="another endpoint"
        ),
        pytest.param(
            access(by=ANOTHER, trusts=ANOTHER),
            "the cluster has another certificate authority now",
            id="another authority",
        ),
        pytest.param(
            access(user=User("x", ())), "the kubeconfig is for x, not for kubernetes-admin", id="another user"
        ),
        pytest.param(
            access(by=ANOTHER),
            "the kubeconfig's certificate was signed by another authority than Secret demo-ca",
            id="a certificate of another authority",
        ),
        pytest.param(access(now=NOW - 183 * DAY), "half of the kubeconfig's life is over", id="it is half over"),
    ],
)  # fmt: skip
def test_a_kubeconfig_of_ours_that_is_outdated_is_made_anew(there, because):
    assert made(plan((ACCESS,), ca(), there)) == [("demo-kubeconfig", because, True)]


@pytest.mark.parametrize(
    ("there", "told"),
    [
        pytest.param(access(owner=None), (), id="a good one"),
        pytest.param(access(owner=None, now=NOW - 300 * DAY), (), id="one that ends soon"),
        pytest.param(
            access(owner=None, server="https://old:1"),
            (
                "Secret demo-kubeconfig is not ours to write, and the API server is at 127.0.0.2:6443 now",
            ),
            id="one for another endpoint",
        ),
        pytest.param(
            access(owner=None, now=NOW - 2 * YEAR),
            (
                "Secret demo-kubeconfig is not ours to write, and the kubeconfig expired on 2029-01-01T00:00:00Z",
            ),
            id="one that has expired",
        ),
    ],
)  # fmt: skip
def test_a_users_kubeconfig_is_never_written(there, told):
    answer = plan((ACCESS,), ca(), there)
    assert (answer.steps, answer.problems) == ((), told)


@pytest.mark.parametrize("wanted", [CLIENT, ACCESS], ids=["a leaf", "a kubeconfig"])
def test_what_ends_with_its_authority_is_not_made_again_and_again(wanted):
    old = authority(now=NOW - 9 * YEAR - 300 * DAY)
    make = leaf if wanted is CLIENT else access
    there = make(wanted, old, now=NOW) if wanted is CLIENT else access(by=old, trusts=old, now=NOW)
    answer = plan((wanted,), ca(old), there)
    assert (answer.steps, answer.wake) == ((), 65 * DAY)
    late = plan((wanted,), ca(old), there, now=NOW + 66 * DAY)
    assert [told.rpartition(", and ")[2] for told in late.problems] == [
        "Secret demo-ca has a certificate that expired on 2030-03-07T00:00:00Z"
    ]


def test_an_owner_is_known_after_a_move_and_in_another_version():
    moved = replace(leaf(by=ANOTHER), metadata=leaf().metadata)
    owner = OwnerReference(
        api_version="controlplane.cluster.x-k8s.io/v1",
        kind=OWNER.kind,
        name="demo",
        uid="new",
        controller=True,
    )
    held = {"demo-ca": ca(), "demo-apiserver": moved}
    answer = decide((LEAF,), held, controlled(held, owner), NOW)
    assert [each.wanted for each in answer.steps] == [LEAF]


def test_the_secrets_that_a_decision_reads():
    assert secrets_of((CLIENT, ACCESS, KEYS)) == (
        "demo-ca",
        "demo-kubelet-client",
        "demo-kubeconfig",
        "demo-sa",
    )


def test_no_key_is_shown():
    for each in (*WHOLE, plan(ALL, *WHOLE)):
        assert "PRIVATE" not in repr(each)
        assert "client-key-data" not in repr(each)


@pytest.mark.parametrize("there", [(ca(),), (ca(), leaf())], ids=["new", "renewed"])
def test_a_host_name_that_no_certificate_carries_is_a_problem_to_mend_and_the_rest_is_made(there):
    wanted = replace(LEAF, names=NAMES | {"ü.example"})
    answer = plan((AUTHORITY, wanted, CLIENT), *there)
    assert [name for name, _, _ in made(answer)] == ["demo-kubelet-client"]
    (told,) = answer.problems
    assert "Secret demo-apiserver" in told
    assert "cannot carry the host name 'ü.example'" in told
    assert plan((AUTHORITY, replace(wanted, names=NAMES), CLIENT), *there).problems == ()


def test_a_name_is_a_problem_before_the_authority_is_made():
    answer = plan((AUTHORITY, replace(LEAF, names=NAMES | {"ü.example"})))
    assert [name for name, _, _ in made(answer)] == ["demo-ca"]
    assert len(answer.problems) == 1


async def test_with_rsa_authorities_and_keys_for_tokens_have_such_keys_and_what_they_sign_has_none():
    """Not among the scenes of the act: its threads would hang in the copies of the process that mutants run in."""
    shelf, old = Shelf(), ca()
    shelf.lay(SECRET, Secret(metadata=ObjectMeta(name="demo-ca", namespace="ns", uid="u"), data=old.contents))
    read = replace(old, metadata=structs.replace(old.metadata, resource_version="101"))
    proxy = Authority("demo-proxy", "front-proxy-ca")
    steps = (
        Make(AUTHORITY, "due", renews=True, transition=Transition.BEGIN),
        *(Make(each, "missing") for each in (proxy, KEYS, replace(CLIENT, authority="demo-proxy"))),
    )
    await Maker(shelf.client, Algorithm.RSA).perform(
        Destination("ns", "demo", OWNER), steps, {"demo-ca": read}, NOW
    )
    keys = {
        name: SECRET.from_plain(shelf.at(SECRET, Key("ns", name))).data[entry]
        for name, entry in {
            "demo-ca": "next.key",
            "demo-proxy": "tls.key",
            "demo-sa": "tls.key",
            "demo-kubelet-client": "tls.key",
        }.items()
    }
    assert [name for name, key in keys.items() if b"RSA PRIVATE KEY" in key] == [
        "demo-ca",
        "demo-proxy",
        "demo-sa",
    ]
