"""The CRDs of a server, reduced to what references need: a version, or why there is none.

Theory.      A CRD may be half a megabyte of schemas. The watch asks for metadata only, and of that a name, a
             uid and the chosen version are kept; so a thousand CRDs cost less than one of them does.
             The version is chosen by the labels, by a pure function (``reference.VersionPolicy``).
Invariants.  A ``kube.feed.Sink``. ``changed`` is called with the names of the CRDs that came, went, or have
             another version to use than before, each time after all of them are in place; and at the end of
             the first list in any case, then with True. A CRD that was deleted and made again between two
             lists counts as changed.
Called by    ``registry``, which runs the feed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kubewright.kube.header import Header
from kubewright.runtime.references.reference import Version
from kubewright.wire.watch import DELETED

Choose = Callable[[Mapping[str, str]], Version | str]


@dataclass(frozen=True, slots=True)
class _Definition:
    uid: str
    choice: Version | str


class Definitions:
    """What is known of all CRDs. ``complete``: the first list was read to its end."""

    def __init__(self, choose: Choose, changed: Callable[[Sequence[str], bool], None]) -> None:
        self.seen = 0
        self.complete = False
        self._choose = choose
        self._changed = changed
        self._known: dict[str, _Definition] = {}
        self._pages: dict[str, _Definition] = {}

    def find(self, name: str) -> Version | str | None:
        """The version of a CRD to use, or why it has none; None: there is no such CRD."""
        found = self._known.get(name)
        return None if found is None else found.choice

    def of_group(self, group: str) -> dict[str, str]:
        """The uids of the CRDs of a group, by their names."""
        return {name: each.uid for name, each in self._known.items() if name.partition(".")[2] == group}

    def begin(self) -> None:
        """A list is about to be asked for."""
        self._pages = {}

    def page(self, version: int, items: list[Header]) -> None:
        """One page of it."""
        self.seen = version
        self._pages.update({header.key.name: self._read(header) for header in items})

    def end(self) -> None:
        """That was the last page."""
        before, self._known, self._pages = self._known, self._pages, {}
        first, self.complete = not self.complete, True
        names = [name for name in {**before, **self._known} if before.get(name) != self._known.get(name)]
        if names or first:
            self._changed(names, first)

    def event(self, kind: str, header: Header) -> None:
        """An ADDED, MODIFIED or DELETED."""
        self.seen = header.version
        name = header.key.name
        before = self._known.pop(name, None)
        if kind != DELETED:
            self._known[name] = self._read(header)
        if before != self._known.get(name):
            self._changed([name], False)

    def bookmark(self, version: int) -> None:
        """Nothing else happened up to ``version``."""
        self.seen = version

    def _read(self, header: Header) -> _Definition:
        return _Definition(header.uid, self._choose(header.labels))
