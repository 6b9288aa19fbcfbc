"""Connects to a control plane with its administrator's kubeconfig, and reads or writes what a user has there.

Theory.      One connection for each pass, closed at its end: a user is looked at rarely. Rights go first and
             the account last when all is deleted: kube-apiserver hears at once that a binding is gone, and
             accepts a token that it has just checked for some seconds more.
Invariants.  What is done can be done again. A deadline for each pass: a control plane that does not answer
             holds a worker no longer. Writes are sent only while this process leads. No token is logged.
Source       decision 0038.
Called by    ``wiring`` and ``restored``.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import msgspec

from kubewright.api.cluster.names import SECRET_VALUE_KEY
from kubewright.api.controlplane.v1alpha4 import ControlPlaneUser
from kubewright.api.controlplane.validate import lifetime_of
from kubewright.api.kinds import Kind, Undecodable
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.users.seen import (
    ACCOUNT,
    BINDING,
    ROLE,
    AccountObjects,
    Grant,
    Issue,
    Plan,
    Revoke,
    Seen,
    account_key,
    account_of,
    binding_of,
    is_ours,
    role_key,
    role_of,
)
from kubewright.kube import config
from kubewright.kube.access import Access
from kubewright.kube.client import Client
from kubewright.kube.errors import BadAnswer, MayBeGone, TimedOut, TransportError
from kubewright.kube.patches import onto
from kubewright.kube.transport import Entitled, FencedTransport, Transport
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, NotFound, is_refusal
from kubewright.wire.gvk import Key

Connect = Callable[[Access, Clock], Transport]
"""Makes a transport; contacts nothing."""

AGENT = "kubewright/control-plane-users"
CONNECTION_SECONDS = 10.0
"""For all requests of one pass. An API server that works answers each within a tenth of a second."""

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"

EXTENDED, SHORTER = timedelta(seconds=3607), timedelta(seconds=3606)
"""kube-apiserver makes a token of a year of the first, which kubelets ask for."""


def by_sockets(access: Access, clock: Clock) -> Transport:
    """The transport of all control planes but those of this process."""
    return config.connect(access, clock=clock)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a pass in a control plane.

    ``plan``   whose steps were done there; None: none, and ``seen`` says why
    ``token``  that was issued; empty: none
    """

    seen: Seen
    plan: Plan | None = None
    token: str = field(default="", repr=False)


class Connections:
    """Opens connections to control planes."""

    def __init__(self, clock: Clock, connect: Connect, entitled: Entitled) -> None:
        self._clock, self._connect, self._entitled = clock, connect, entitled

    async def perform(self, seen: Seen, decide: Callable[[Seen], Plan]) -> Outcome:
        """Connect, look, decide, and do those steps of the plan that are done in the control plane.

        Raises:
            Conflict: another program was faster.
        """
        secret = seen.found[seen.administrator]
        try:
            async with self.open(secret.contents.get(SECRET_VALUE_KEY, b""), secret.metadata.name) as client:
                return await _perform(client, seen, decide)
        except Conflict:
            raise
        except (ApiError, TransportError, InvalidInput, Undecodable) as error:
            told = f"the API server of NestedControlPlane {seen.user.spec.control_plane_name}"
            lasting = isinstance(error, ApiError) and is_refusal(error)
            told = f"{told} {'refuses' if lasting else 'cannot be used'}: {error}"
            return Outcome(replace(seen, unreachable=told, unheard=True, refused=told if lasting else ""))

    @asynccontextmanager
    async def open(self, kubeconfig: bytes, source: str) -> AsyncIterator[Client]:
        """A client with this kubeconfig, for ``CONNECTION_SECONDS``; ``source`` names its Secret in errors.

        Raises:
            InvalidInput: it is no kubeconfig.
            TimedOut: what was done with the client took longer.
        """
        access = config.inline_access(kubeconfig, source=f"the kubeconfig in Secret {source}")
        transport = FencedTransport(self._connect(access, self._clock), self._entitled)
        try:
            async with asyncio.timeout(CONNECTION_SECONDS):
                yield Client(transport, self._clock, name=access.server, user_agent=AGENT)
        except TimeoutError:
            raise TimedOut(f"{access.server} did not answer within {CONNECTION_SECONDS:g} s") from None
        finally:
            await transport.close()


async def _perform(client: Client, seen: Seen, decide: Callable[[Seen], Plan]) -> Outcome:
    name, token = seen.user.name, ""
    held = seen.held.token if seen.held is not None else ""
    seen = replace(seen, objects=await look(client, name, held))
    plan = decide(seen)
    for step in plan.steps:
        match step:
            case Revoke():
                await revoke(client, name)
            case Grant():
                await grant(client, seen.user, await look(client, name))
            case Issue():
                token = await issue(client, seen.user)
    if any(isinstance(step, Revoke | Grant | Issue) for step in plan.steps):
        seen = replace(seen, objects=await look(client, name))
    return Outcome(seen, plan, token)


async def look(client: Client, user: str, token: str = "") -> AccountObjects:
    """What a ControlPlaneUser has in the control plane. ``token``: that in its Secret; empty: none."""
    role = role_key(user)
    return AccountObjects(
        await _get(client, ACCOUNT, account_key(user)),
        await _get(client, ROLE, role),
        await _get(client, BINDING, role),
        refuses=bool(token) and not await _accepts(client, token),
    )


async def grant(client: Client, user: ControlPlaneUser, objects: AccountObjects) -> None:
    """Make the account and its rights what they should be. ``objects``: what is there."""
    if objects.account is None:
        await _create(client, ACCOUNT, account_of(user))
    await _settle(client, ROLE, objects.role, role_of(user), "rules")
    binding, there = binding_of(user), objects.binding
    if there is not None and there.get("roleRef") != binding["roleRef"]:  # it cannot be changed
        await _delete(client, BINDING, role_key(user.name))
        there = None
    await _settle(client, BINDING, there, binding, "subjects")


async def issue(client: Client, user: ControlPlaneUser) -> str:
    """A new token of the account."""
    lifetime = lifetime_of(user.spec)
    seconds = int((SHORTER if lifetime == EXTENDED else lifetime).total_seconds())
    key = account_key(user.name)
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    path = ACCOUNT.resource.path(key.namespace, key.name, "token")
    answer = await client.send(client.request("POST", path, msgspec.json.encode(body)))
    try:
        return msgspec.json.decode(answer.body, type=_TokenRequest).status.token
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadAnswer("the API server answered a TokenRequest without a token") from None


async def revoke(client: Client, user: str) -> None:
    """Delete all that a ControlPlaneUser of this name has in the control plane; nothing without our label."""
    there = await look(client, user)
    for kind, found in ((BINDING, there.binding), (ROLE, there.role), (ACCOUNT, there.account)):
        if found is not None and is_ours(found):
            known = found["metadata"]
            await _delete(client, kind, Key(known.get("namespace", ""), known["name"]))


async def _accepts(client: Client, token: str) -> bool:
    """Whether the API server knows a token: by its keys, its expiry and its account."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    request = client.request("POST", TOKEN_REVIEWS, msgspec.json.encode(body))
    answer = await client.send(request, safe=True)
    try:
        return msgspec.json.decode(answer.body, type=_TokenReview).status.authenticated
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadAnswer("the API server answered a TokenReview without a status") from None


class _ReviewStatus(msgspec.Struct):
    authenticated: bool = False


class _TokenReview(msgspec.Struct):
    status: _ReviewStatus


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


async def _get(client: Client, kind: Kind[Any], key: Key) -> Any:
    try:
        return await client.get(kind, key)
    except NotFound as error:
        if not error.names(key.name):
            raise
        return None


async def _create(client: Client, kind: Kind[Any], body: Mapping[str, Any]) -> None:
    with suppress(AlreadyExists):  # the next pass sees it
        await client.create(kind, body)


async def _settle(client: Client, kind: Kind[Any], there: Any, wanted: Mapping[str, Any], field: str) -> None:
    """Create an object of the cluster, or write this field of it if it differs."""
    if there is None:
        await _create(client, kind, wanted)
    elif there.get(field) != wanted[field]:
        known = there["metadata"]
        meta = ObjectMeta(uid=known["uid"], resource_version=known["resourceVersion"])
        await client.patch(kind, Key("", known["name"]), onto({field: wanted[field]}, meta))


async def _delete(client: Client, kind: Kind[Any], key: Key) -> None:
    with MayBeGone(key.name):
        await client.delete(kind, key)
