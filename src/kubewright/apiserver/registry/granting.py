"""Writes of roles and bindings, held against what their writer may grant.

Theory.      Being allowed to write roles is one thing, to grant what stands in them another. The check
             sees the object as it would be stored, so it is a guard that ``writing`` calls on the way;
             writes of all other kinds, and of ``system:masters``, have none.
Called by    ``http.resources``, for every write. Continues in ``authorization.escalation``.
"""

from kubewright.apiserver.authorization import escalation
from kubewright.apiserver.authorization.attributes import MASTERS, Attributes
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Object
from kubewright.apiserver.registry.policies import GROUP, Policies
from kubewright.apiserver.registry.target import Guard, Target
from kubewright.wire.http import User


class Grants:
    """Makes guards."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def guard(self, user: User, target: Target) -> Guard | None:
        """What a write of the user there must pass; None when there is nothing to ask.

        The guard raises Forbidden, or NotFound for a binding to a role that is not there.
        """
        resource = target.kind.resource
        if resource.group != GROUP or MASTERS in user.groups:
            return None
        writing = Attributes(
            user, "", GROUP, resource.plural, namespace=target.namespace, name=target.name
        )  # the verb is asked by escalation itself
        judge = escalation.of_role if resource.plural in escalation.ROLES else escalation.of_binding

        def guard(new: Object, old: Object | None) -> None:
            try:
                why = judge(self._policies.current, writing, new, old)
            except escalation.MissingRole as missing:
                raise refusals.not_found(resource, str(missing)) from None
            if why:
                raise refusals.forbidden(resource, new["metadata"].get("name", ""), why)

        return guard
