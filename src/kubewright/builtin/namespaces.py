"""What each namespace is given when it comes, and how it is emptied when it goes.

Theory.      A Pod that names no ServiceAccount runs as ``default`` of its namespace, and a program in it
             knows the API server by the authority in ConfigMap ``kube-root-ca.crt``. So both are in each
             namespace: made when it comes, made again when they are deleted, and the ConfigMap is restored
             when it is changed.
             A namespace carries the finalizer ``kubernetes`` in its spec. Once it is deleted, every
             namespaced kind that the server serves is listed and what is there deleted; when a pass
             finds nothing any more, the finalizer goes through ``/finalize``, and with it the
             namespace. What stays (finalizers, grace periods) is reported in conditions, and looked at
             again after a while that grows with the namespace's age.
Invariants.  Nothing is made in a namespace that is being deleted; the server takes nothing new into it. What
             users added to what is given (labels, pull secrets, other annotations) stays. One write each
             while nothing interferes.
             The finalizer goes only after a pass in which every kind was known, listed and empty.
Keys.        Those of the objects that are given; those of namespaces for the deletion.
Called by    ``controllers`` of ``builtin``. They are kube-controller-manager's serviceaccount,
             root-ca-certificate-publisher and namespace controllers, with its conditions and sentences.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog

from kubewright.api.conditions import with_json_conditions
from kubewright.api.core import CONFIG_MAP, NAMESPACE, ConfigMap, Namespace
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import KubeObject, without_finalizer
from kubewright.base import delays
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.discovery import Served, discover
from kubewright.kube.informer import Change, Informer, Informers
from kubewright.runtime.controller import Controller, only, spec_or_life
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, Conflict, Forbidden, MethodNotAllowed, NotFound
from kubewright.wire.gvk import Key, Resource

Json = dict[str, Any]

log = structlog.get_logger("kubewright.namespaces")

# ---------------------------------------------------------------- what each is given

DESCRIPTION = "kubernetes.io/description"
ROOT_CA, CA_ENTRY = "kube-root-ca.crt", "ca.crt"
TOLD = "The certificate authority by which programs know this API server. It is restored when it is changed."

SERVICE_ACCOUNT: Kind[KubeObject] = Kind(
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)), KubeObject, pruned=True
)


@dataclass(frozen=True, slots=True)
class Gift:
    """An object that is in every namespace. ``data``, where it has one, stays as it is here."""

    kind: Kind[Any]
    name: str
    data: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def body(self, namespace: str) -> dict[str, Any]:
        """The object as it is made."""
        metadata = {"name": self.name, "namespace": namespace}
        told = {"annotations": dict(self.annotations)} if self.annotations else {}
        return {"metadata": {**metadata, **told}, **({"data": dict(self.data)} if self.data else {})}

    def correction(self, found: KubeObject) -> dict[str, Any]:
        """The patch that restores it; empty: it is as it should be. Members that others added go."""
        data = found.data if isinstance(found, ConfigMap) else {}
        missing = {
            name: text for name, text in self.annotations.items() if name not in found.metadata.annotations
        }
        others = dict.fromkeys(data.keys() - self.data.keys())
        return {
            **({"metadata": {"annotations": missing}} if missing else {}),
            **({"data": {**others, **self.data}} if data != self.data else {}),
        }


class Giver:
    """Reconciles one object of each namespace, by its key."""

    def __init__(
        self, client: Client, gift: Gift, namespaces: Informer[Namespace], found: Informer[Any]
    ) -> None:
        self._client, self._gift, self._namespaces, self._found = client, gift, namespaces, found

    def of_namespace(self, change: Change[Namespace]) -> tuple[Key, ...]:
        """The object in a namespace that came or changed."""
        return () if change.new is None else (Key(change.key.name, self._gift.name),)

    async def reconcile(self, key: Key) -> Result:
        """Make the object, or restore it."""
        namespace = self._namespaces.get(Key("", key.namespace))
        if namespace is None or namespace.metadata.deleting or key.name != self._gift.name:
            return Result.done()
        found = self._found.get(key)
        if found is None:
            await self._make(key.namespace)
        elif not found.metadata.deleting and (patch := self._gift.correction(found)):
            with suppress(NotFound):  # then its deletion wakes us
                await self._client.patch(self._gift.kind, key, patch)
        return Result.done()

    async def _make(self, namespace: str) -> None:
        try:
            await self._client.create(self._gift.kind, self._gift.body(namespace))
        except (AlreadyExists, NotFound):  # another client was faster; the namespace is gone
            return
        except Forbidden as error:
            if not error.namespace_ends:
                raise


def given_to_namespaces(
    informers: Informers, authority: bytes, metrics: Metrics | None = None
) -> list[Controller]:
    """One controller for each gift; ``authority``: the certificate of the API server's authority, PEM."""
    publisher = Gift(CONFIG_MAP, ROOT_CA, {CA_ENTRY: authority.decode()}, {DESCRIPTION: TOLD})
    return [
        _giving("serviceaccount", Gift(SERVICE_ACCOUNT, "default"), informers, metrics),
        _giving("root-ca-certificate-publisher", publisher, informers, metrics),
    ]


def _giving(name: str, gift: Gift, informers: Informers, metrics: Metrics | None) -> Controller:
    client, namespaces = informers.client, informers.get(NAMESPACE)
    found = informers.get(gift.kind, fields=f"metadata.name={gift.name}")
    giver = Giver(client, gift, namespaces, found)
    controller = Controller(name, giver, client.clock, workers=2, metrics=metrics)
    return controller.watches(namespaces, only(spec_or_life, giver.of_namespace)).watches(found)


# ---------------------------------------------------------------- how one is emptied

FINALIZER = "kubernetes"
NAMESPACES = dynamic(NAMESPACE.resource)


@dataclass(frozen=True, slots=True)
class Left:
    """What a pass could not remove: how many objects of a kind, and their finalizers."""

    resource: Resource
    finalizers: tuple[tuple[str, ...], ...]


class Namespaces:
    """Reconciles namespaces that are being deleted; others cost nothing."""

    def __init__(self, client: Client, namespaces: Informer[Namespace]) -> None:
        self._client = client
        self._namespaces = namespaces

    async def reconcile(self, key: Key) -> Result:
        """One pass over everything in the namespace."""
        seen = self._namespaces.get(key)
        if seen is None or not seen.metadata.deleting:
            return Result.done()
        try:
            namespace = await self._client.get(NAMESPACES, key)
        except NotFound:
            return Result.done()
        if not finalizes(namespace):
            return Result.done()
        left, errors = await self._empty(key.name)
        if not left and not errors:
            await self._finalize(namespace)
            return Result.done()
        await self._write_conditions(namespace, left, errors)
        return Result.later(next_pass(namespace, self._client.clock.now()))

    async def _empty(self, namespace: str) -> tuple[list[Left], list[str]]:
        """Delete what is there; what is left, and what went wrong."""
        found = await discover(self._client)
        left = []
        errors = [f"{each}: what it serves is not known for certain" for each in found.stale]
        for served in found.served:
            if not _may_hold_objects(served):
                continue
            try:
                if objects := await self._remove(served, namespace):
                    left.append(Left(served.resource, tuple(map(_finalizers, objects))))
            except NotFound:  # no longer served
                continue
            except KubewrightError as error:
                errors.append(f"{served.resource}: {error}")
        return left, errors

    async def _remove(self, served: Served, namespace: str) -> list[Json]:
        """Delete every object of one kind; those that are still there afterwards."""
        kind = dynamic(served.resource)
        objects = await self._client.list(kind, namespace)
        if not objects:
            return []
        log.info("emptying", namespace=namespace, kind=str(served.resource), objects=len(objects))
        if "deletecollection" in served.verbs:
            await self._client.send(
                self._client.request("DELETE", served.resource.path(namespace)), safe=True
            )
        else:
            for each in objects:
                await self._delete(served.resource, each["metadata"])
        return await self._client.list(kind, namespace)

    async def _delete(self, resource: Resource, metadata: Mapping[str, Any]) -> None:
        key = Key(metadata["namespace"], metadata["name"])
        try:
            await self._client.delete(dynamic(resource), key, uid=metadata["uid"])
        except (NotFound, Conflict, MethodNotAllowed):
            log.debug("not deleted", kind=str(resource), object=str(key))

    async def _finalize(self, namespace: Json) -> None:
        """Remove the finalizer. This subresource takes only a whole object: the one just read."""
        name = namespace["metadata"]["name"]
        kept = without_finalizer(namespace["spec"]["finalizers"], FINALIZER)
        body = msgspec.json.encode({**namespace, "spec": {**namespace["spec"], "finalizers": kept}})
        path = NAMESPACE.resource.path(name=name, subresource="finalize")
        try:
            await self._client.send(self._client.request("PUT", path, body=body), safe=True)
        except NotFound:
            return
        log.info("finalized", namespace=name)

    async def _write_conditions(self, namespace: Json, left: Sequence[Left], errors: Sequence[str]) -> None:
        """Write the conditions, if they have changed."""
        before = namespace.get("status", {})
        now = rfc3339(self._client.clock.now())
        after = {**before, "phase": "Terminating", "conditions": conditions(before, left, errors, now)}
        if after != before:
            key = Key("", namespace["metadata"]["name"])
            await self._client.patch(NAMESPACES, key, {"status": after}, subresource="status")


def finalizes(namespace: Json) -> bool:
    """Whether the namespace waits for this controller."""
    return FINALIZER in namespace.get("spec", {}).get("finalizers", ())


def next_pass(namespace: Json, now: datetime) -> timedelta:
    """Until another pass: the longer, the longer its deletion has taken so far."""
    return delays.for_namespace(now - parse_rfc3339(namespace["metadata"]["deletionTimestamp"]))


CONDITIONS = (
    (
        "NamespaceDeletionContentFailure",
        ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        "ContentDeletionFailed",
    ),
    (
        "NamespaceContentRemaining",
        ("ContentRemoved", "All content successfully removed"),
        "SomeResourcesRemain",
    ),
    (
        "NamespaceFinalizersRemaining",
        ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        "SomeFinalizersRemain",
    ),
)
"""Types, with reason and message on success, and the reason on failure."""


def conditions(
    status: Mapping[str, Any], left: Sequence[Left], errors: Sequence[str], now: str
) -> list[Json]:
    """The namespace's conditions, with ours among them."""
    remaining = ", ".join(f"{each.resource} has {len(each.finalizers)} resource instances" for each in left)
    counts = Counter(name for each in left for names in each.finalizers for name in names)
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(counts.items()))
    messages = (
        "; ".join(errors),
        remaining and f"Some resources are remaining: {remaining}",
        held and f"Some content in the namespace has finalizers remaining: {held}",
    )
    wanted = []
    for (type_, success, failure), message in zip(CONDITIONS, messages, strict=True):
        reason, text = (failure, message) if message else success
        said = {"type": type_, "status": str(bool(message)), "reason": reason, "message": text}
        wanted.append({**said, "lastTransitionTime": now})
    return with_json_conditions(status, *wanted)


def _may_hold_objects(served: Served) -> bool:
    """Whether the kind has objects of its own in namespaces. Events are served in two groups."""
    resource = served.resource
    twin = (resource.group, resource.plural) == ("events.k8s.io", "events")
    return resource.namespaced and not twin and served.verbs >= {"list", "delete"}


def _finalizers(obj: Json) -> tuple[str, ...]:
    return tuple(obj["metadata"].get("finalizers") or ())
