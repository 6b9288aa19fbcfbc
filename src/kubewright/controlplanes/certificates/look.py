"""Read the Secrets of control planes, each of their versions once.

Theory.      The metadata of Secrets with the label of a cluster is watched; the content of a Secret is read
             from the server when the watch shows another version. A Secret without the label, such as a
             user's, is in no cache and is read in each pass; so is one that does not exist.
Invariants.  The content that is kept of a Secret is never older than what the watch shows; it is dropped when
             the Secret changes or is gone.
Called by    ``keeper`` and ``users``.
"""

from collections.abc import Iterable

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.core import SECRET, SECRET_METADATA
from kubewright.kube.informer import Informers
from kubewright.runtime.credentials.contents import read_secret
from kubewright.runtime.credentials.values import Found
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key


class Reader:
    """Reads Secrets."""

    def __init__(self, informers: Informers) -> None:
        self._secrets = informers.get(SECRET_METADATA, labels=CLUSTER_NAME_LABEL)
        self._client = informers.client
        self._known: dict[Key, Found] = {}
        self._secrets.subscribe(lambda change: self._drop(change.key))

    async def read(self, namespace: str, names: Iterable[str]) -> dict[str, Found]:
        """The content of those of the Secrets that exist, by name.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        found = {name: await self._one(Key(namespace, name)) for name in names}
        return {name: each for name, each in found.items() if each is not None}

    def labelled(self, namespace: str, cluster: str) -> list[str]:
        """The names of the Secrets with the label of a cluster."""
        there = (each for each in self._secrets.headers() if each.key.namespace == namespace)
        return [each.key.name for each in there if each.labels.get(CLUSTER_NAME_LABEL) == cluster]

    async def _one(self, key: Key) -> Found | None:
        header, known = self._secrets.header(key), self._known.get(key)
        version = str(header.version) if header is not None else ""
        if known is not None and known.metadata.resource_version == version:
            return known
        try:
            found = read_secret(await self._client.get(SECRET, key))
        except NotFound:
            self._drop(key)
            return None
        if header is not None:
            self._known[key] = found
        return found

    def _drop(self, key: Key) -> None:
        self._known.pop(key, None)
