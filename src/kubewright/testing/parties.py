"""The accounts under which controllers of machines work, and the roles that ``deploy`` gives each.

Theory.      Both halves of the controllers run in one process under one account, or each half by itself,
             beside machine-controller-manager, with its part of the roles (``deploy/beside-mcm``).
Invariants.  Pure. What a party may do is what ``api.machine.manifests`` says, and nothing else.
Called by    ``testing.sites``, tests/conformance/test_access.py.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kubewright.api import rbac as account
from kubewright.api.machine import manifests
from kubewright.wire.http import User


@dataclass(frozen=True, slots=True)
class Party:
    """Some controllers, their account, and its roles.

    ``half`` is one of ``rbac.HALVES``; empty: both halves in one process, under the account and the roles of
    the files as they are. A half by itself has names of its own, since both are on one server.
    """

    half: str = ""

    @property
    def name(self) -> str:
        return f"{account.ACCOUNT}-{self.half}" if self.half else account.ACCOUNT

    @property
    def user(self) -> User:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.NAMESPACE}")
        who = f"system:serviceaccount:{account.NAMESPACE}:{self.name}"
        return User(who, (*groups, "system:authenticated"))

    @property
    def controllers(self) -> tuple[str, ...]:
        """As the overlays in ``deploy/beside-mcm`` choose them."""
        sets = ("machinedeployment", "machineset")
        chosen = {"sets": sets, "machines": ("*", *(f"-{each}" for each in sets))}
        return chosen.get(self.half, ("*",))

    def manifests(self, files: Iterable[str]) -> list[dict[str, Any]]:
        """The objects of some files of ``deploy/rbac``, with the rules of this party, for its account."""
        given = manifests.manifests(manifests.HALVES.get(self.half, manifests.BOTH))
        return [self._own(each) for name in files for each in given[name]]

    def _own(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self.half:
            return body
        own = deepcopy(body)
        for named in (own["metadata"], own.get("roleRef", {})):
            named["name"] = f"{body['metadata']['name']}-{self.half}"
        for subject in own.get("subjects", ()):
            subject["name"] = self.name
        return own


EVERYTHING = Party()
