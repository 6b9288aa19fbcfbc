"""Kubeconfigs of a day at most, from Gardener's API: which garden, what is asked, what is answered.

Theory.      Gardener gives no lasting kubeconfigs out. A shoot has a subresource ``adminkubeconfig``: what is
             posted there says for how many seconds, and the answer has a kubeconfig with a client certificate
             for so long. A managed seed is a shoot itself, in the namespace of the project ``garden``. Which
             gardens there are, and how they are reached, stands in the configuration of ``gardenctl``.
Invariants.  An answer is used only if it has the form of a kubeconfig that runs no program and reads no file:
             it came over a network, and is going to be believed. No part of it is in an error.
Called by    ``command``.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kubewright.base.errors import InvalidInput
from kubewright.cli.local.plan import Shoot
from kubewright.kube.client import Client
from kubewright.kube.config import inline_access
from kubewright.wire import goyaml
from kubewright.wire.errors import Forbidden, NotFound

GROUP_VERSION = "authentication.gardener.cloud/v1alpha1"
SHORTEST = 600
"""Seconds: less than that Gardener refuses."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A kubeconfig, and until when it is good, as Gardener writes it."""

    kubeconfig: bytes
    until: str

    def __repr__(self) -> str:
        return f"Issued(until={self.until!r})"


def shoot(garden: tuple[Path, str], project: str, name: str) -> Shoot:
    """The shoot of a project, in a garden: a kubeconfig and its context. Project ``garden`` has seeds."""
    namespace = "garden" if project == "garden" else f"garden-{project}"
    return Shoot(garden=str(garden[0]), context=garden[1], namespace=namespace, name=name)


def path(of: Shoot) -> str:
    """Where a kubeconfig for this shoot is asked for."""
    return f"/apis/core.gardener.cloud/v1beta1/namespaces/{of.namespace}/shoots/{of.name}/adminkubeconfig"


def body(seconds: int) -> bytes:
    """What is posted there."""
    spec = {"expirationSeconds": seconds}
    return msgspec.json.encode({"apiVersion": GROUP_VERSION, "kind": "AdminKubeconfigRequest", "spec": spec})


def issued(answer: bytes, of: Shoot) -> Issued:
    """The kubeconfig in an answer.

    Raises:
        InvalidInput: there is none, or one that would run a program or read a file.
    """
    source = f"the kubeconfig that the garden gave for {of.namespace}/{of.name}"
    try:
        status = msgspec.json.decode(answer, type=dict[str, Any]).get("status")
        if not isinstance(status, Mapping):
            raise ValueError("no status")
        content = base64.b64decode(status.get("kubeconfig") or "", validate=True)
    except (msgspec.DecodeError, binascii.Error, TypeError, ValueError):
        raise InvalidInput(f"{source} cannot be read") from None
    if not content:
        raise InvalidInput(f"{source} is empty")
    inline_access(content, source=source)
    until = status.get("expirationTimestamp")
    return Issued(
        content, until if isinstance(until, str) and len(until) < 40 and until.isprintable() else "?"
    )


async def ask(client: Client, of: Shoot, seconds: int) -> Issued:
    """Ask a garden for a kubeconfig.

    Raises:
        InvalidInput: there is no such shoot, we may not have its kubeconfig, or the answer is no kubeconfig.
        ApiError, TransportError: the garden refused for another reason, or did not answer.
    """
    try:
        answer = await client.send(client.request("POST", path(of), body(seconds)), safe=True)
    except NotFound:
        raise InvalidInput(
            f"{client.name} has no shoot {of.name} in namespace {of.namespace}, or is no garden"
        ) from None
    except Forbidden:
        raise InvalidInput(
            f"{client.name} gives you no admin kubeconfig of shoot {of.name} in namespace {of.namespace}"
        ) from None
    return issued(answer.body, of)


def garden_of(landscape: str, config: bytes, source: str) -> tuple[Path, str]:
    """The kubeconfig of a garden and its context, from the configuration of gardenctl.

    Raises:
        InvalidInput: it cannot be read, or has no such garden.
    """
    try:
        found = goyaml.loads(config)
    except goyaml.Unreadable as error:
        raise InvalidInput(f"{source}: not YAML{f' in line {error.line}' if error.line else ''}") from None
    entries = found.get("gardens") if isinstance(found, Mapping) else None
    gardens = {
        str(each.get("identity")): each
        for each in (entries if isinstance(entries, list) else ())
        if isinstance(each, Mapping) and each.get("identity") and isinstance(each.get("kubeconfig"), str)
    }
    entry = gardens.get(landscape) or gardens.get(f"sap-landscape-{landscape}")
    if entry is None:
        known = ", ".join(sorted(gardens)) or "none"
        raise InvalidInput(f"{source} has no garden {landscape!r}; there are: {known}")
    return Path(entry["kubeconfig"]).expanduser(), str(entry.get("context") or "")
