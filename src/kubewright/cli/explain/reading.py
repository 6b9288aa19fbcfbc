"""The requests for a story: for objects, their events and machines, and for the manager's records.

Invariants.  Only reads. What a user may not read, and the story can do without, becomes a note in the words
             of the server, which name the verb and the resource.
Called by    ``command``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from kubewright.api.cluster.v1beta1 import MACHINE as CLUSTER_MACHINE
from kubewright.api.cluster.v1beta1 import MACHINE_SET as CLUSTER_MACHINE_SET
from kubewright.api.core import EVENT, Event
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_SET
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.cli.asking import require_namespace
from kubewright.cli.explain.story import JsonObject
from kubewright.cli.explain.subjects import Subject
from kubewright.kube.client import Client
from kubewright.runtime.records import PATH, Answer, Pass
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key

ANSWER_SECONDS = 5.0
"""How long a manager may take to answer."""

NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Managed:
    """What a manager answered; without an answer ``problem`` says why, as a clause."""

    answer: Answer | None = None
    problem: str = ""


async def objects(client: Client, subjects: Sequence[Subject], key: Key) -> list[tuple[Subject, JsonObject]]:
    """The objects of that name, of all kinds that the word may mean.

    Raises:
        InvalidInput: there is none, or no such namespace; the message says what there is.
        ApiError, TransportError: the server refused, or did not answer.
    """
    found: list[tuple[Subject, JsonObject]] = []
    for each in subjects:
        try:
            kind = dynamic(each.kind.resource)
            there = await client.get(kind, _key(kind, key))
            found.append((each, there))
        except NotFound:
            continue
    if found:
        return found
    if any(each.kind.resource.namespaced for each in subjects):
        await require_namespace(client, key.namespace)
    raise InvalidInput("; ".join([await _there(client, each, key) for each in subjects]))


async def _there(client: Client, subject: Subject, key: Key) -> str:
    """The message for a user who named an object that does not exist: which ones do."""
    resource = subject.kind.resource
    namespace = key.namespace if resource.namespaced else ""
    try:
        listed = await client.list(dynamic(resource), namespace)
    except NotFound:
        return f"{client.name} does not serve {resource}"
    known = sorted(each["metadata"]["name"] for each in listed)
    where = f" in namespace {namespace}" if namespace else ""
    more = f" and {len(known) - NAMES_SHOWN} more" if len(known) > NAMES_SHOWN else ""
    there = f"there are: {', '.join(known[:NAMES_SHOWN])}{more}" if known else "there is none"
    return f"there is no {subject.word} {key.name}{where}; {there}"


def records(managed: Managed, subject: Subject, found: JsonObject) -> tuple[Pass, ...]:
    """The records of one object in a manager's answer, by the controllers that work on its kind."""
    if managed.answer is None:
        return ()
    place = found["metadata"].get("namespace", ""), found["metadata"]["name"]
    return tuple(
        each
        for each in managed.answer.passes
        if each.controller in subject.controllers and (each.namespace, each.name) == place
    )


async def ask(client: Client, manager: str, **query: str) -> Managed:
    """Ask a manager for the records of its last passes (``runtime.records``).

    Args:
        client: of the API server, which in ``kubewright up`` answers for the manager, too.
        manager: address of a manager's health port; empty: ask the API server.
        query: ``namespace`` and ``name``; what is left out means any. ``provider``: as ``Answer.driver``.

    Raises:
        InvalidInput: the address that was named does not answer as a manager does.
    """
    return await (_from_port(manager, query) if manager else _from_server(client, query))


async def _from_server(client: Client, query: Mapping[str, str]) -> Managed:
    try:
        answer = await client.send(client.request("GET", PATH, query=tuple(query.items())), safe=True)
        return Managed(msgspec.json.decode(answer.body, type=Answer))
    except ApiError as error:
        return Managed(
            problem=f"{client.name} does not tell what its manager decided: {error.message.strip()}"
        )
    except msgspec.DecodeError:
        return Managed(problem=f"{client.name} has no manager in it")


async def _from_port(manager: str, query: Mapping[str, str]) -> Managed:
    url = manager if "://" in manager else f"http://{manager}"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)) as session,
            session.get(f"{url.rstrip('/')}{PATH}", params=query) as response,
        ):
            body = await response.read()
            if response.status == 200:
                return Managed(msgspec.json.decode(body, type=Answer))
            raise InvalidInput(f"--manager {manager}: it answers {response.status} to {PATH}")
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        why = str(error) or f"no answer within {ANSWER_SECONDS:g} s"
        raise InvalidInput(f"--manager {manager}: {why}") from None


async def events(client: Client, found: JsonObject) -> tuple[list[Event], str]:
    """The events about an object, and why they cannot be read; empty if they can."""
    meta = found["metadata"]
    fields = f"involvedObject.uid={meta['uid']}"
    try:
        return await client.list(EVENT, meta.get("namespace", ""), fields=fields), ""
    except KubewrightError as error:
        return [], str(error)


async def provider_of(client: Client, subject: Subject, found: JsonObject) -> str | None:
    """The provider of a machine's class; None of other kinds, and where the class cannot be read."""
    ref = (found.get("spec") or {}).get("class") or {}
    if subject.kind != MACHINE or ref.get("kind") != MACHINE_CLASS.resource.kind or not ref.get("name"):
        return None
    key = Key(found["metadata"]["namespace"], ref["name"])
    try:
        return str((await client.get(dynamic(MACHINE_CLASS.resource), key)).get("provider") or "")
    except KubewrightError:
        return None


async def members(client: Client, subject: Subject, found: JsonObject) -> list[JsonObject]:
    """The machines of a set or a deployment; empty for other kinds.

    Raises:
        ApiError, TransportError: the server refused, or did not answer.
    """
    resource, meta = subject.kind.resource, found["metadata"]
    kind = next((each for each in (MACHINE, CLUSTER_MACHINE) if each.resource.group == resource.group), None)
    if kind is None or resource.kind not in ("MachineSet", "MachineDeployment"):
        return []
    owners = {meta["uid"]}
    if resource.kind == "MachineDeployment":
        of_set = dynamic(MACHINE_SET.resource if kind is MACHINE else CLUSTER_MACHINE_SET.resource)
        owners = {each["metadata"]["uid"] for each in await client.list(of_set, meta["namespace"])
                  if owner(each) == meta["uid"]}  # fmt: skip
    listed = await client.list(dynamic(kind.resource), meta["namespace"])
    return [each for each in listed if owner(each) in owners]


def owner(found: JsonObject) -> str:
    """The uid of an object's controlling owner; empty without one."""
    owners = found["metadata"].get("ownerReferences") or ()
    return next((str(each.get("uid", "")) for each in owners if each.get("controller")), "")


async def machine_of_node(client: Client, node: JsonObject, namespace: str) -> tuple[Kind[Any], str] | None:
    """The machine of a Node, by its labels and status; None where no machine of the namespace names it.

    Raises:
        ApiError, TransportError: the server refused, or did not answer.
    """
    name, provider = node["metadata"]["name"], (node.get("spec") or {}).get("providerID", "")
    for kind in (MACHINE, CLUSTER_MACHINE):
        try:
            listed = await client.list(dynamic(kind.resource), namespace)
        except NotFound:
            continue
        for each in listed:
            labels = each["metadata"].get("labels") or {}
            ref = (each.get("status") or {}).get("nodeRef") or {}
            own = (each.get("spec") or {}).get("providerID", "")
            if names.node_name(labels) == name or ref.get("name") == name or (own and own == provider):
                return kind, each["metadata"]["name"]
    return None


def _key(kind: Kind[Any], key: Key) -> Key:
    return key if kind.resource.namespaced else Key("", key.name)
