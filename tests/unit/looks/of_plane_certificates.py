"""Scenes of the Secrets of a control plane: what stands on the server, and what is read from them."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import structs

from kubewright.api.core import SECRET
from kubewright.controlplanes.certificates.look import Reader
from kubewright.pki.certificates import Identity, new_leaf
from kubewright.pki.clusters import (
    by_certificate,
    kubeconfig,
    new_cluster_authority,
    new_service_account_keys,
)
from kubewright.pki.credentials import ADMIN, LIFETIME
from kubewright.pki.facts import facts_of
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.runtime.credentials.values import Found
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Scene, Shelf
from kubewright.wire.gvk import Key

from .planes import NS, There, a_secret

CA = new_cluster_authority(BEGIN, Algorithm.EC, "kubernetes")
TOKENS = new_service_account_keys(Algorithm.EC)
CLIENT = new_leaf(Identity(CA.certificate, CA.key), ADMIN, BEGIN, LIFETIME)
ACCESS = kubeconfig("c", "c-admin", "https://127.0.0.2:6443", CA.certificate, by_certificate(CLIENT))
PAIR = {"tls.crt": CA.certificate, "tls.key": CA.key}


def a(name: str, labels: dict[str, str] | None = None, **data: bytes) -> There:
    """A Secret with this data; an underscore in a name of it stands for a dot."""
    kind, made = a_secret(name) if labels is None else a_secret(name, labels=labels)
    return kind, structs.replace(made, data={key.replace("_", "."): value for key, value in data.items()})


def pair(name: str, found: KeyPair, labels: dict[str, str] | None = None) -> There:
    return a(name, labels, tls_crt=found.certificate, tls_key=found.key)


def scene(there: There, *, laid: bool = False) -> Callable[[], Awaitable[Found]]:
    async def look() -> Found:
        shelf = Shelf()
        reader = Reader(shelf.caches)
        if laid:
            shelf.lay(*there)
        else:
            await shelf.put(*there)
        name = there[1].metadata.name
        return (await reader.read(NS, [name]))[name]

    return look


LOOK = Look(
    "controlplanes.certificates.look",
    Found,
    (
        Scene(
            "an authority",
            scene(pair("c-ca", CA)),
            {"metadata.name": "c-ca", "contents": PAIR, "pair": CA, "problem": ""}
            | {"facts": facts_of(CA.certificate), "kubeconfig": None},
        ),
        Scene(
            "a key for tokens, without a certificate and a label",
            scene(pair("c-sa", TOKENS, {}), laid=True),
            {"metadata.name": "c-sa", "pair": TOKENS, "problem": "", "facts": None}
            | {"contents": {"tls.crt": TOKENS.certificate, "tls.key": TOKENS.key}},
        ),
        Scene(
            "a kubeconfig",
            scene(a("c-kubeconfig", value=ACCESS)),
            {"contents": {"value": ACCESS}, "pair": KeyPair(b"", b""), "problem": "", "facts": None}
            | {"metadata.name": "c-kubeconfig", "kubeconfig.server": "https://127.0.0.2:6443"}
            | {"kubeconfig.authority": CA.certificate, "kubeconfig.certificate": CLIENT.certificate},
        ),
        Scene(
            "a certificate that cannot be read",
            scene(a("c-ca", tls_crt=b"none", tls_key=CA.key)),
            {"problem": "has a tls.crt that is neither a certificate nor a public key in PEM", "facts": None},
        ),
    ),
)


class Secrets(Shelf):
    """The server of Secrets, and the reader. ``reads``: how often it was asked for one."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader(self.caches)

    @property
    def reads(self) -> int:
        return len(self.asked)

    async def content(self, name: str) -> dict[str, Any] | None:
        """What the reader knows of a Secret; None: there is none."""
        found = (await self.reader.read(NS, [name])).get(name)
        return dict(found.contents) if found is not None else None

    async def changed(self, name: str, **data: bytes) -> None:
        """Somebody writes the Secret, and the watch shows it."""
        await self.put(*a(name, **data))

    async def gone(self, name: str) -> None:
        """Somebody deletes the Secret, and the watch shows it."""
        await self.client.delete(SECRET, Key(NS, name))
