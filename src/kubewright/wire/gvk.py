"""Groups, versions, kinds and resources, and the paths they have on the wire."""

from dataclasses import dataclass, field

from msgspec import Struct


class Key(Struct, frozen=True, gc=False):
    """The namespace and name of an object: what a controller works on.

    Cluster-scoped objects have the namespace ``""``.

    A Struct, because caches and queues hash and compare keys all the time: it is four times as fast.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as an API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = field(default=(), compare=False)

    @property
    def api_version(self) -> str:
        """``v1`` for the core group, ``group/version`` for all others."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path: of the collection, or of one object, or of its subresource.

        An empty namespace means all namespaces (collections) or cluster scope (objects).
        """
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def split_api_version(api_version: str) -> tuple[str, str]:
    """``apps/v1`` to (``apps``, ``v1``); ``v1`` to (``""``, ``v1``)."""
    group, _, version = api_version.rpartition("/")
    return group, version
