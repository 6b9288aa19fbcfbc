"""Scenes of the Secrets of control planes: which are written, what is in them, and who has signed it."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import yaml

from kubewright.api.core import SECRET, Secret
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.controlplanes.certificates.act import Destination, Maker
from kubewright.kube.errors import Deposed
from kubewright.pki.certificates import Identity
from kubewright.pki.credentials import Authority, Kubeconfig, Leaf, Signer, TokenKeys, Wanted, problem_of
from kubewright.pki.facts import Facts, facts_of, is_signed_by
from kubewright.pki.keyring import Make, Transition
from kubewright.pki.keys import Algorithm, pems
from kubewright.runtime.credentials.contents import read_secret
from kubewright.runtime.credentials.values import Found, pair_of
from kubewright.testing.acts import Act, Happened, Scene, Told, happened
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Conflict, Forbidden
from kubewright.wire.gvk import Key

from ..controlplanes.test_certificates import (
    ACCESS,
    ANOTHER,
    AUTHORITY,
    CA,
    CLIENT,
    KEYS,
    LEAF,
    OWNER,
    SA,
    YEAR,
    ca,
    found,
    leaf,
)

SECRETS = "/api/v1/namespaces/ns/secrets"
PROXY, SIGNER = Authority("demo-proxy", "front-proxy-ca"), Signer("demo-signer", "demo-ca")
TO_PROXY = replace(CLIENT, secret="demo-proxy-client", authority="demo-proxy")
BRIEF = replace(ACCESS, lifetime=timedelta(hours=1))
BUNDLE = Identity(CA.certificate + ANOTHER.certificate, CA.key)
OLD = {"resourceVersion": "7", "uid": "u"}


def put(of: Found) -> Secret:
    """The Secret that was found; the shelf gives it a version."""
    meta = of.metadata
    return Secret(metadata=ObjectMeta(name=meta.name, namespace="ns", uid=meta.uid), data=dict(of.contents))


def now_at(of: Found, version: int = 101) -> Found:
    """As it was found on a new shelf."""
    made = put(of)
    meta = {"name": of.metadata.name, "namespace": "ns", "uid": "u", "resourceVersion": str(version)}
    return read_secret(SECRET.from_plain({**SECRET.to_plain(made), "metadata": meta}))


def doing(
    *steps: Make,
    has: tuple[Found, ...] = (),
    others: tuple[Found, ...] = (),
    refused: tuple[str, KubewrightError] | None = None,
) -> Callable[[], Any]:
    """Steps, performed. ``has``: what was found, and is there; ``others``: what another has made meanwhile."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf = Shelf()
        for each in (*has, *others):
            shelf.lay(SECRET, put(each))
        if refused is not None:
            shelf.answers[f"{SECRETS}/{refused[0]}" if refused[0] else SECRETS] = refused[1]
        there = {each.metadata.name: each for each in has}
        maker = Maker(shelf.client, Algorithm.EC)
        work = maker.perform(Destination("ns", "demo", OWNER), steps, there, BEGIN)
        return shelf, await happened(work, Told())

    return act_


def writing(data: Mapping[str, bytes | None], replaces: ObjectMeta | None = None, *there: Found) -> Any:
    """One Secret, written as a user's is; the outcome says whether it was."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf = Shelf()
        for each in there:
            shelf.lay(SECRET, put(each))
        maker = Maker(shelf.client, Algorithm.EC)
        work = maker.write(Destination("ns", "demo", OWNER), "demo-x", data, replaces, "because")
        return shelf, await happened(work, Told())

    return act_


def created(name: str, *entries: str, **known: bytes) -> Write:
    """The write of a new Secret with these entries."""
    data = dict.fromkeys(entries, ANY) | {each: b64encode(value).decode() for each, value in known.items()}
    meta = {
        "name": name,
        "namespace": "ns",
        "labels": {"cluster.x-k8s.io/cluster-name": "demo"},
        "ownerReferences": [
            {
                "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha4",
                "kind": "NestedControlPlane",
                "name": "demo",
                "uid": "u1",
                "controller": True,
            }
        ],
    }
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "cluster.x-k8s.io/secret"}
    return Write("POST", SECRETS, {**body, "data": data})


def patched(name: str, version: int = 101, **entries: object) -> Write:
    """The write of these entries onto the Secret that was found."""
    data = {each.replace("_", "."): value for each, value in entries.items()}
    meta = {"uid": "u", "resourceVersion": str(version)}
    return Write("PATCH", f"{SECRETS}/{name}", {"data": data, "metadata": meta})


def pair(name: str) -> Write:
    return created(name, "tls.crt", "tls.key")


def secret(shelf: Shelf, name: str) -> Secret:
    return SECRET.from_plain(shelf.at(SECRET, Key("ns", name)))


def certificate(shelf: Shelf, name: str) -> Facts:
    """What the certificate in a Secret says; its key belongs to it."""
    held = pair_of(secret(shelf, name))
    assert not problem_of(held)
    return facts_of(held.certificate)


def signed(shelf: Shelf, name: str, by: str = "") -> bool:
    """Whether the authority in this Secret, or ``CA``, has signed what is in another."""
    issuer = pair_of(secret(shelf, by)).certificate if by else CA.certificate
    return is_signed_by(pair_of(secret(shelf, name)).certificate, pems(issuer)[0])


def says(*checks: Callable[[Shelf], object]) -> Callable[[Shelf, Happened], None]:
    """Each of these holds of the server."""

    def check(shelf: Shelf, _found: Happened) -> None:
        for each in checks:
            assert each(shelf)

    return check


def kubeconfig(shelf: Shelf, name: str = "demo-kubeconfig") -> dict[str, Any]:
    """The text of a kubeconfig, and what the certificate in it says."""
    held = secret(shelf, name)
    read = read_secret(held).kubeconfig
    assert read is not None
    text = yaml.safe_load(held.data["value"])
    return {
        "user": facts_of(read.certificate).user,
        "ends": facts_of(read.certificate).not_after,
        "signed": is_signed_by(read.certificate, CA.certificate),
        "trusts": read.authority,
        "server": read.server,
        "names": (text["current-context"], text["clusters"][0]["name"], text["users"][0]["name"]),
    }


def make(wanted: Wanted, of: Found | None = None, **how: Any) -> Make:
    """A step; ``of``: the Secret that it replaces."""
    return Make(wanted, "because", of is not None, **how)


HAS_CA, OLD_LEAF = now_at(ca()), now_at(leaf(), 102)
HAS_BUNDLE, HAS_PROXY = now_at(ca(BUNDLE)), now_at(found("demo-proxy", CA.certificate, CA.key))
NEXT = {"next.crt": ANOTHER.certificate, "next.key": ANOTHER.key}
BEGUN = now_at(replace(ca(BUNDLE), contents={**ca(BUNDLE).contents, **NEXT}))
SERVING = {"kube-apiserver": YEAR}
NAMES = frozenset({"localhost", "127.0.0.1", "::1", "demo.example"})
NEW = (
    Scene(
        "an authority with the name that is wanted, with a key of the algorithm that is chosen",
        doing(make(PROXY)),
        (Authority,),
        (pair("demo-proxy"),),
        then=says(
            lambda on: certificate(on, "demo-proxy").user.name == "front-proxy-ca",
            lambda on: certificate(on, "demo-proxy").no_authority == "",
            lambda on: certificate(on, "demo-proxy").not_before == BEGIN - timedelta(hours=1),
            lambda on: b"EC PRIVATE KEY" in secret(on, "demo-proxy").data["tls.key"],
        ),
    ),
    Scene(
        "keys for tokens, which are no certificate",
        doing(make(KEYS)),
        (TokenKeys,),
        (pair("demo-sa"),),
        then=says(
            lambda on: secret(on, "demo-sa").data["tls.crt"].startswith(b"-----BEGIN PUBLIC KEY"),
            lambda on: not problem_of(pair_of(secret(on, "demo-sa"))),
            lambda on: b"EC PRIVATE KEY" in secret(on, "demo-sa").data["tls.key"],
        ),
    ),
    Scene(
        "the certificate of a server alone, for all its names, for a year",
        doing(make(LEAF), has=(HAS_CA,)),
        (Leaf,),
        (pair("demo-apiserver"),),
        then=says(
            lambda on: signed(on, "demo-apiserver"),
            lambda on: (
                certificate(on, "demo-apiserver")
                == Facts(LEAF.subject, NAMES, True, False, BEGIN - timedelta(hours=1), BEGIN + YEAR, ANY)
            ),
        ),
    ),
    Scene(
        "the certificate of a client, with its groups and no names",
        doing(make(CLIENT), has=(HAS_CA,)),
        (Leaf,),
        (pair("demo-kubelet-client"),),
        then=says(
            lambda on: signed(on, "demo-kubelet-client"),
            lambda on: (
                certificate(on, "demo-kubelet-client")
                == Facts(
                    CLIENT.subject, frozenset(), False, True, BEGIN - timedelta(hours=1), BEGIN + YEAR, ANY
                )
            ),
        ),
    ),
    Scene(
        "what signs for others has the one certificate of an authority with two",
        doing(make(SIGNER), has=(HAS_BUNDLE,)),
        (Signer,),
        (created("demo-signer", **{"tls.crt": CA.certificate, "tls.key": CA.key}),),
    ),
    Scene(
        "a kubeconfig, for as long as it is wanted",
        doing(make(BRIEF), has=(HAS_BUNDLE,)),
        (Kubeconfig,),
        (created("demo-kubeconfig", "value"),),
        then=says(
            lambda on: (
                kubeconfig(on)
                == {
                    "user": ACCESS.user,
                    "ends": BEGIN + timedelta(hours=1),
                    "signed": True,
                    "trusts": BUNDLE.certificate,
                    "server": ACCESS.server,
                    "names": ("demo-admin@demo", "demo", "demo-admin"),
                }
            )
        ),
    ),
    Scene(
        "a Secret of another name has the same keys",
        doing(
            make(AUTHORITY, copies="old-ca"),
            make(KEYS, copies="old-sa"),
            has=(found("old-ca", CA.certificate, CA.key), found("old-sa", SA.certificate, SA.key)),
        ),
        (Authority, TokenKeys),
        (
            created("demo-ca", **{"tls.crt": CA.certificate, "tls.key": CA.key}),
            created("demo-sa", **{"tls.crt": SA.certificate, "tls.key": SA.key}),
        ),
    ),
)
AGAIN = (
    Scene(
        "a certificate that is renewed is patched in the version that was read",
        doing(make(LEAF, OLD_LEAF), has=(HAS_CA, OLD_LEAF)),
        (Leaf,),
        (patched("demo-apiserver", 102, tls_crt=ANY, tls_key=ANY),),
        then=says(
            lambda on: signed(on, "demo-apiserver"),
            lambda on: secret(on, "demo-apiserver").data["tls.crt"] != OLD_LEAF.pair.certificate,
        ),
    ),
    Scene(
        "a certificate that has changed since stays as it is",
        doing(make(LEAF, leaf()), has=(HAS_CA, leaf()), others=(OLD_LEAF,)),
        (Leaf,),
        (patched("demo-apiserver", 7, tls_crt=ANY, tls_key=ANY),),
        error=Conflict,
        then=says(lambda on: secret(on, "demo-apiserver").data["tls.crt"] == OLD_LEAF.pair.certificate),
    ),
    Scene(
        "the rotation of an authority begins with a new one that is trusted beside it",
        doing(make(PROXY, HAS_PROXY, transition=Transition.BEGIN), has=(HAS_PROXY,)),
        (Authority,),
        (patched("demo-proxy", tls_crt=ANY, tls_key=b64encode(CA.key).decode(), next_crt=ANY, next_key=ANY),),
        then=says(
            lambda on: (
                secret(on, "demo-proxy").data["tls.crt"]
                == CA.certificate + secret(on, "demo-proxy").data["next.crt"]
            ),
            lambda on: facts_of(secret(on, "demo-proxy").data["next.crt"]).user.name == "front-proxy-ca",
            lambda on: (
                facts_of(secret(on, "demo-proxy").data["next.crt"]).not_before == BEGIN - timedelta(hours=1)
            ),
            lambda on: b"EC PRIVATE KEY" in secret(on, "demo-proxy").data["next.key"],
            lambda on: secret(on, "demo-proxy").data["next.key"] != CA.key,
        ),
    ),
    Scene(
        "the new authority signs, and nothing says any more that it will",
        doing(make(AUTHORITY, BEGUN, transition=Transition.SIGN), has=(BEGUN,)),
        (Authority,),
        (
            patched(
                "demo-ca",
                tls_crt=b64encode(ANOTHER.certificate + CA.certificate).decode(),
                tls_key=b64encode(ANOTHER.key).decode(),
                next_crt=None,
                next_key=None,
            ),
        ),
        then=says(lambda on: sorted(secret(on, "demo-ca").data) == ["tls.crt", "tls.key"]),
    ),
    Scene(
        "the old authority is trusted no more",
        doing(make(AUTHORITY, HAS_BUNDLE, transition=Transition.DROP), has=(HAS_BUNDLE,)),
        (Authority,),
        (
            patched(
                "demo-ca",
                tls_crt=b64encode(CA.certificate).decode(),
                tls_key=b64encode(CA.key).decode(),
            ),
        ),
    ),
)
ORDER = (
    Scene(
        "authorities come first, and sign what follows; each signs its own",
        doing(make(LEAF), make(TO_PROXY), make(AUTHORITY), make(PROXY), make(ACCESS)),
        (Leaf, Authority, Kubeconfig),
        (
            pair("demo-ca"),
            pair("demo-proxy"),
            pair("demo-apiserver"),
            pair("demo-proxy-client"),
            created("demo-kubeconfig", "value"),
        ),
        then=says(
            lambda on: signed(on, "demo-apiserver", by="demo-ca"),
            lambda on: signed(on, "demo-proxy-client", by="demo-proxy"),
            lambda on: kubeconfig(on)["trusts"] == secret(on, "demo-ca").data["tls.crt"],
        ),
    ),
    Scene(
        "what another process has made counts, and what we would have signed is not made",
        doing(make(AUTHORITY), make(PROXY), make(LEAF), make(TO_PROXY), others=(ca(ANOTHER),)),
        (),
        (pair("demo-ca"), pair("demo-proxy"), pair("demo-proxy-client")),
        then=says(
            lambda on: secret(on, "demo-ca").data["tls.crt"] == ANOTHER.certificate,
            lambda on: signed(on, "demo-proxy-client", by="demo-proxy"),
        ),
    ),
    Scene(
        "a certificate that another process has made stays, and the next is made",
        doing(make(LEAF), make(CLIENT), has=(HAS_CA,), others=(OLD_LEAF,)),
        (),
        (pair("demo-apiserver"), pair("demo-kubelet-client")),
        then=says(lambda on: secret(on, "demo-apiserver").data["tls.crt"] == OLD_LEAF.pair.certificate),
    ),
    Scene("nothing to do is nothing written", doing(has=(HAS_CA,)), ()),
)
REFUSED = (
    Scene(
        "an authority that is refused signs nothing",
        doing(make(AUTHORITY), make(LEAF), refused=("", Forbidden("no"))),
        (),
        (pair("demo-ca"),),
        error=Forbidden,
    ),
    Scene(
        "a transition that is refused leaves the authority as it is",
        doing(
            make(AUTHORITY, HAS_CA, transition=Transition.BEGIN),
            has=(HAS_CA,),
            refused=("demo-ca", Deposed("no")),
        ),
        (),
        (patched("demo-ca", tls_crt=ANY, tls_key=ANY, next_crt=ANY, next_key=ANY),),
        error=Deposed,
        then=says(lambda on: secret(on, "demo-ca").data["tls.crt"] == CA.certificate),
    ),
    Scene(
        "what was written before a refusal stays, and what comes after it is not made",
        doing(
            make(LEAF, OLD_LEAF),
            make(CLIENT),
            has=(HAS_CA, OLD_LEAF),
            refused=("demo-apiserver", Forbidden("no")),
        ),
        (),
        (patched("demo-apiserver", 102, tls_crt=ANY, tls_key=ANY),),
        error=Forbidden,
    ),
    Scene(
        "a name that no certificate carries is said, and the authority before it stays",
        doing(make(AUTHORITY), make(replace(CLIENT, subject=replace(CLIENT.subject, name="x" * 65)))),
        (),
        (pair("demo-ca"),),
        error=InvalidInput,
    ),
)


def answers(made: bool) -> Callable[[Shelf, Happened], None]:
    def check(_shelf: Shelf, happened_: Happened) -> None:
        assert happened_.outcome is made

    return check


META = ObjectMeta(name="demo-x", namespace="ns", uid="u", resource_version="101")
ONE = (
    Scene(
        "a new Secret has no entry that is to be removed",
        writing({"value": b"v", "gone": None}),
        (),
        (created("demo-x", value=b"v"),),
        then=answers(True),
    ),
    Scene(
        "a Secret that is there loses what is to be removed, and keeps what is not named",
        writing({"value": b"v", "gone": None}, META, found("demo-x", b"c", b"k")),
        (),
        (patched("demo-x", value=b64encode(b"v").decode(), gone=None),),
        then=says(lambda on: secret(on, "demo-x").data == {"tls.crt": b"c", "tls.key": b"k", "value": b"v"}),
    ),
    Scene(
        "a Secret that is there is said to be written",
        writing({"value": b"v"}, META, found("demo-x")),
        (),
        (patched("demo-x", value=b64encode(b"v").decode()),),
        then=answers(True),
    ),
    Scene(
        "a Secret that another process has made is not ours",
        writing({"value": b"v"}, None, found("demo-x", b"c", b"k")),
        (),
        (created("demo-x", value=b"v"),),
        then=answers(False),
    ),
)
ACT = Act("controlplanes.certificates.act", Wanted, (*NEW, *AGAIN, *ORDER, *REFUSED, *ONE))
