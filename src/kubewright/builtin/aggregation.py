"""ClusterRoles that gather the rules of others: ``admin``, ``edit``, ``view``, and any other that says so.

Theory.      A ClusterRole with an ``aggregationRule`` has no rules of its own: it has those of all
             ClusterRoles that one of its selectors chooses, in the order of selectors and of names, each
             once. So whoever brings a new API adds to ``view`` by labelling a role of his own. It is a
             controller and not the server that does this, as upstream: authorization believes what
             stands in a role, and a person sees there what it gives.
Invariants.  What is there already is not written again. A role that gathers roles that gather others
             is right when those are: each change wakes all that gather.
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

GATHERING = "aggregation.gathering"

Json = dict[str, Any]


class Aggregation:
    """Reconciles ClusterRoles that gather; others cost nothing."""

    def __init__(self, client: Client, roles: Informer[Json]) -> None:
        self._client = client
        self._roles = roles
        roles.index(GATHERING, lambda role: ("yes",) if role.get("aggregationRule") else ())

    def wire(self, controller: Controller) -> Controller:
        """Let changed roles wake ``controller``."""
        return controller.watches(self._roles, self.of_role)

    def of_role(self, change: Change[Json]) -> Iterable[Key]:
        """Every role that gathers: the changed one may be chosen by any, or no longer."""
        keys = {*self._roles.keys_by(GATHERING, "yes"), change.key}
        return sorted(keys, key=str)  # in the same order in every process

    async def reconcile(self, key: Key) -> Result:
        """Write what the role gathers, if it is something else than it has."""
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
    """The rules that a role gathers from all roles there are. A selector that is malformed chooses none."""
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
