"""The PodDisruptionBudgets that may stand behind refusals: listed once for all drains, found by labels.

Theory.      One node that drains is refused seldom, so a watch of all budgets would cost more than it tells.
             Ten thousand nodes that drain at once are refused all the time, and mostly by the same budgets.
             So what was listed is kept for a few seconds, and all drains that ask in that time share it. A
             list is decoded once, and each budget is put under one label that its pods must have, the one
             with the fewest budgets so far: a pod is compared with the budgets under its own labels only.
Invariants.  What is told of a budget is as old as a list may take and be used (``LIST_SECONDS``,
             ``FRESH_SECONDS``), and is for words only, never for what is safe: that the server decides. So
             no request waits for a list, a list that takes longer than ``LIST_SECONDS`` is given up, and a
             namespace waits for no other. Nothing here raises what a server or the network can cause.
Called by    ``session``, after refusals; ``removals`` has one for all nodes of a cluster. ``builtin.budgets``
             reads selectors as this module does.
"""

import asyncio
from collections.abc import Iterable
from weakref import WeakValueDictionary

import msgspec

from kubewright.api.core import PDB, Pod, PodDisruptionBudget
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.selectors import NOTHING, Selector

FRESH_SECONDS = 5.0
"""How long a list of budgets is used again. A refused pod rests for longer (``delays.EVICTION``), so each new
refusal of a pod is explained by a new list."""

LIST_SECONDS = 5.0
"""How long a list of budgets may take; without it refusals are told of in the server's words."""

_Label = tuple[str, str, str]
"""A namespace, and a label with its value that all pods of a budget have; with ``("", "")`` in place of both,
the budgets of the namespace that require no label by ``matchLabels``."""


class ByLabels:
    """Budgets by what they select."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        self._by_label: dict[_Label, list[tuple[Selector, PodDisruptionBudget]]] = {}
        for budget in budgets:
            if (selector := selector_of(budget)) != NOTHING:
                self._by_label.setdefault(self._rarest_label(budget), []).append((selector, budget))

    def of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that select a pod."""
        namespace, labels = pod.namespace, pod.metadata.labels
        own = [(namespace, "", ""), *((namespace, *label) for label in labels.items())]
        candidates = (each for label in own for each in self._by_label.get(label, ()))
        return [budget for selector, budget in candidates if selector.matches(labels)]

    def _rarest_label(self, budget: PodDisruptionBudget) -> _Label:
        assert budget.spec.selector is not None
        required = ((budget.namespace, *label) for label in budget.spec.selector.match_labels.items())
        rarest = min(required, key=lambda label: len(self._by_label.get(label, ())), default=None)
        return rarest or (budget.namespace, "", "")


class Budgets:
    """The budgets of one cluster, as they were listed last."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._listing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held while the budgets of a namespace (empty: of all) are listed, so that one list serves all."""
        self._listed: dict[str, tuple[float, ByLabels]] = {}
        """When the budgets of a namespace (empty: of all) were listed, in monotonic seconds; and those."""

    async def among(self, namespaces: set[str]) -> ByLabels:
        """The budgets of these namespaces, in one list at most; none where they cannot be read in time."""
        if not namespaces:
            return ByLabels()
        scope = next(iter(namespaces)) if len(namespaces) == 1 else ""
        async with self._listing.setdefault(scope, asyncio.Lock()):
            if (kept := self._fresh(scope)) is not None:
                return kept
            found = ByLabels(await self._list(scope))
            self._listed[scope] = (self._client.clock.monotonic(), found)
            return found

    def _fresh(self, scope: str) -> ByLabels | None:
        """What was listed a moment ago; older lists are dropped."""
        now = self._client.clock.monotonic()
        self._listed = {of: kept for of, kept in self._listed.items() if now < kept[0] + FRESH_SECONDS}
        kept = self._listed.get(scope) or self._listed.get("")
        return None if kept is None else kept[1]

    async def _list(self, scope: str) -> list[PodDisruptionBudget]:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                return await self._client.list(PDB, scope)
        except (KubewrightError, TimeoutError):
            return []


def selector_of(budget: PodDisruptionBudget) -> Selector:
    """Which pods a budget selects; none when its selector is absent or malformed."""
    if budget.spec.selector is None:
        return NOTHING
    try:
        return selectors.from_object(msgspec.to_builtins(budget.spec.selector))
    except BadRequest:
        return NOTHING
