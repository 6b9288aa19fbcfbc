"""Checks that the user who writes a role or binding may grant what it gives.

Theory.      The right to write roles is not the right to grant what stands in them. The check needs the
             object as it would be stored, so it is a guard that ``writing`` calls before the store.
             Writes of other kinds, and writes by members of ``system:masters``, have no guard.
Called by    ``http.resources``, for every write. Continues in ``authorization.escalation``.
"""

from kubewright.apiserver.authorization import escalation
from kubewright.apiserver.authorization.attributes import GROUP, MASTERS, Attributes
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Object
from kubewright.apiserver.registry.policies import Policies
from kubewright.apiserver.registry.target import Guard, Target
from kubewright.wire.http import User


class Grants:
    """Makes the guards of writes, which ask the current policy."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def guard(self, user: User, target: Target) -> Guard | None:
        """The guard of a write by ``user`` to ``target``; None when the write needs none.

        The guard raises Forbidden, or NotFound for a binding to a role that does not exist.
        """
        resource = target.kind.resource
        if resource.group != GROUP or MASTERS in user.groups:
            return None
        writing = Attributes(
            user, "", GROUP, resource.plural, namespace=target.namespace, name=target.name
        )  # escalation fills in the verb
        judge = escalation.of_role if resource.plural in escalation.ROLES else escalation.of_binding

        def guard(new: Object, old: Object | None) -> None:
            try:
                why = judge(self._policies.current, writing, new, old)
            except escalation.MissingRole as missing:
                raise refusals.not_found(resource, str(missing)) from None
            if why:
                raise refusals.forbidden(resource, new["metadata"].get("name", ""), why)

        return guard
