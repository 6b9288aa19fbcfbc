"""Aggregated ClusterRoles: ``admin``, ``edit``, ``view``, and all others with an ``aggregationRule``.

Theory.      A ClusterRole with an ``aggregationRule`` has no rules of its own: this controller writes
             into it those of all ClusterRoles that one of its selectors matches, in the order of
             selectors and of names, each rule once. So the author of a new API adds to ``view`` with a
             labelled ClusterRole. As upstream a controller does this and not the server: authorization
             uses the rules in the role, and a user can read them there.
Invariants.  A role whose rules are right is not written. Aggregated roles may aggregate each other:
             each change of a ClusterRole wakes the reconciliation of all of them, until none changes.
Called by    ``controllers`` of ``builtin``.
Source       kube-controller-manager's clusterrole-aggregation-controller.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kubewright.api.core import CLUSTER_ROLE
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_version
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest, NotFound
from kubewright.wire.gvk import Key

AGGREGATED = "aggregation.aggregated"

Json = dict[str, Any]


class Aggregation:
    """Reconciles aggregated ClusterRoles; for others it does nothing."""

    def __init__(self, client: Client, roles: Informer[Json]) -> None:
        self._client = client
        self._roles = roles
        roles.index(AGGREGATED, lambda role: ("yes",) if role.get("aggregationRule") else ())

    def wire(self, controller: Controller) -> Controller:
        """Let changed roles wake ``controller``."""
        return controller.watches(self._roles, self.of_role)

    def of_role(self, change: Change[Json]) -> Iterable[Key]:
        """Every aggregated role, since each may select the changed one, or may have done so; and that one."""
        keys = {*self._roles.keys_by(AGGREGATED, "yes"), change.key}
        return sorted(keys, key=str)  # in the same order in every process

    async def reconcile(self, key: Key) -> Result:
        """Write the rules that the role aggregates, if it has others."""
        role = self._roles.get(key)
        if role is None or not role.get("aggregationRule") or "deletionTimestamp" in role["metadata"]:
            return Result.done()
        rules = gathered(role, self._roles.list())
        if rules != (role.get("rules") or []):
            patch = with_version({"rules": rules}, role["metadata"]["resourceVersion"])
            with suppress(NotFound):
                await self._client.patch(CLUSTER_ROLE, key, patch)
        return Result.done()


def gathered(role: Mapping[str, Any], roles: Iterable[Mapping[str, Any]]) -> list[Json]:
    """The rules that a role aggregates from ``roles``. A malformed selector selects none."""
    others = sorted(
        (each for each in roles if each["metadata"]["name"] != role["metadata"]["name"]),
        key=lambda each: str(each["metadata"]["name"]),
    )
    found: list[Json] = []
    for selector in _selectors(role):
        for other in others:
            if selector.matches(other["metadata"].get("labels") or {}):
                found += (rule for rule in other.get("rules") or () if rule not in found)
    return found


def _selectors(role: Mapping[str, Any]) -> Sequence[selectors.Selector]:
    found = []
    for written in role["aggregationRule"].get("clusterRoleSelectors") or ():
        try:
            found.append(selectors.from_object(written))
        except BadRequest:
            continue
    return found
