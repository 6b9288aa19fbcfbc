"""What each namespace is given: ServiceAccount ``default``, and the ConfigMap by which pods trust the server.

Theory.      A Pod that names no ServiceAccount runs as ``default`` of its namespace, and a program in it
             knows the API server by the authority in ``kube-root-ca.crt``. So both are in each namespace:
             made when it comes, made again when they are deleted, and the ConfigMap is restored when it is
             changed.
Invariants.  Nothing is made in a namespace that is being deleted. What users added to these objects (labels,
             pull secrets, other annotations) stays. One write each while nothing interferes.
Keys.        Those of the objects themselves.
Called by    ``controllers`` of ``builtin``.
Source       kube-controller-manager's serviceaccount and root-ca-certificate-publisher controllers.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kubewright.api.core import CONFIG_MAP, NAMESPACE, ConfigMap, Namespace
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer, Informers
from kubewright.runtime.controller import Controller, only, spec_or_life
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, Forbidden, NotFound
from kubewright.wire.gvk import Key, Resource

DESCRIPTION = "kubernetes.io/description"
ROOT_CA, KEY = "kube-root-ca.crt", "ca.crt"
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


def controllers(informers: Informers, authority: bytes, metrics: Metrics | None = None) -> list[Controller]:
    """One controller for each gift; ``authority``: the certificate of the API server's authority, PEM."""
    publisher = Gift(CONFIG_MAP, ROOT_CA, {KEY: authority.decode()}, {DESCRIPTION: TOLD})
    return [
        _controller("serviceaccount", Gift(SERVICE_ACCOUNT, "default"), informers, metrics),
        _controller("root-ca-certificate-publisher", publisher, informers, metrics),
    ]


def _controller(name: str, gift: Gift, informers: Informers, metrics: Metrics | None) -> Controller:
    client, namespaces = informers.client, informers.get(NAMESPACE)
    found = informers.get(gift.kind, fields=f"metadata.name={gift.name}")
    giver = Giver(client, gift, namespaces, found)
    controller = Controller(name, giver, client.clock, workers=2, metrics=metrics)
    return controller.watches(namespaces, only(spec_or_life, giver.of_namespace)).watches(found)
