"""The kubeconfigs of workload clusters: the Secrets that hold them, reduced to their one value.

Theory.      The label of a cluster is on many Secrets: bootstrap data, certificates. The watch brings them
             all, and only those named ``<cluster>-kubeconfig`` are kept, by their value alone. A changed
             value is another kubeconfig, noticed at once; other changes of the Secret are none.
Invariants.  A ``kube.feed.Sink``. A value is in no ``repr``, log or message. ``changed`` is called with the
             key of a cluster after its kubeconfig came, changed or went. Whether the value is a kubeconfig
             is seen when it is used: thousands of them are not parsed at once.
Source       capi.md §6.3, §6.5; S0-46. The Secret's type is not looked at: users make such Secrets too.
Called by    ``workload``; ``unlabelled`` reads Secrets of the same name without the label.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, KUBECONFIG_SUFFIX, SECRET_VALUE_KEY
from kubewright.api.core import SECRET, Secret
from kubewright.api.kinds import Undecodable
from kubewright.kube.header import Header
from kubewright.wire.gvk import Key
from kubewright.wire.watch import DELETED


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The content of a Secret; or, where ``value`` is empty, what the Secret lacks."""

    value: bytes = field(default=b"", repr=False)
    problem: str = ""


def read(header: Header) -> tuple[Key, Kubeconfig] | None:
    """The cluster whose kubeconfig a Secret holds, and the kubeconfig; None: it is another Secret."""
    cluster = header.key.name.removesuffix(KUBECONFIG_SUFFIX)
    if cluster == header.key.name or header.labels.get(CLUSTER_NAME_LABEL) != cluster:
        return None
    try:
        kubeconfig = kubeconfig_in(header.key, SECRET.decode(header.data))
    except Undecodable:
        kubeconfig = unreadable(header.key)
    return Key(header.key.namespace, cluster), kubeconfig


def kubeconfig_in(name: Key, secret: Secret) -> Kubeconfig:
    """The kubeconfig in a Secret of this name."""
    value = secret.data.get(SECRET_VALUE_KEY, b"")
    return Kubeconfig(value, "" if value else f"Secret {name} has no {SECRET_VALUE_KEY}")


def unreadable(name: Key) -> Kubeconfig:
    """What is known of a Secret whose form is not that of a Secret."""
    return Kubeconfig(problem=f"Secret {name} cannot be read")


class Kubeconfigs:
    """The kubeconfigs of all clusters. ``complete``: the first list was read to its end."""

    def __init__(self, changed: Callable[[Key], None]) -> None:
        self.seen = 0
        self.complete = False
        self._changed = changed
        self._known: dict[Key, Kubeconfig] = {}
        self._listed: dict[Key, Kubeconfig] = {}

    def get(self, cluster: Key) -> Kubeconfig | None:
        """The kubeconfig of a cluster; None: there is no Secret with one."""
        return self._known.get(cluster)

    def begin(self) -> None:
        """A list is about to be asked for."""
        self._listed = {}

    def page(self, version: int, items: list[Header]) -> None:
        """One page of it."""
        self.seen = version
        self._listed.update(found for each in items if (found := read(each)) is not None)

    def end(self) -> None:
        """That was the last page."""
        before, self._known, self._listed = self._known, self._listed, {}
        self.complete = True
        for cluster in {**before, **self._known}:
            if before.get(cluster) != self._known.get(cluster):
                self._changed(cluster)

    def event(self, kind: str, header: Header) -> None:
        """An ADDED, MODIFIED or DELETED."""
        self.seen = header.version
        if (found := read(header)) is None:
            return
        cluster, kubeconfig = found
        before = self._known.pop(cluster, None)
        if kind != DELETED:
            self._known[cluster] = kubeconfig
        if before != self._known.get(cluster):
            self._changed(cluster)

    def bookmark(self, version: int) -> None:
        """Nothing else happened up to ``version``."""
        self.seen = version
