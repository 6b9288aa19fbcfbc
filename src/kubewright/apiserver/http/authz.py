"""Who may do what, asked of every request before it is answered.

Theory.      A request is asked for in the words of roles: a verb, a resource, perhaps its name; or a path
             that is no resource. The policy of the moment answers. A list or watch of one object by a
             field selector (``metadata.name=a``) is asked for by that name.
Invariants.  Nothing of a request is looked at before it is let in but its head. Members of
             ``system:masters`` are let in unasked, which is also what our own controllers pay.
Called by    ``app``. The rules are in ``authorization``.
"""

from dataclasses import replace

from kubewright.apiserver.authorization.attributes import MASTERS, Attributes, forbidden
from kubewright.apiserver.http import impersonation
from kubewright.apiserver.http.paths import ResourcePath
from kubewright.apiserver.registry.policies import Policies
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.http import Request, User

_PLAIN = {"HEAD": "get"}


class Gate:
    """Lets requests in."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def admit(self, request: Request, path: ResourcePath | None, verb: str) -> Request:
        """The request as it is to be answered: its user may be one that it wants to be taken for.

        ``path`` is None when it is no resource; ``verb`` is empty when the method means nothing there.

        Raises:
            Forbidden
            BadRequest: it asks for an impersonation that makes no sense.
        """
        wished = impersonation.wanted(request.headers)
        if wished is not None:
            for asked in impersonation.needed(request.user, wished):
                self._ask(asked)
            request = replace(request, user=impersonation.taken_for(wished))
        if MASTERS not in request.user.groups:
            self._ask(attributes(request, path, verb))
        return request

    def _ask(self, asked: Attributes) -> None:
        if MASTERS in asked.user.groups:
            return
        decision = self._policies.current.decide(asked)
        if not decision.allowed:
            raise forbidden(asked, decision.reason)


def attributes(request: Request, path: ResourcePath | None, verb: str) -> Attributes:
    """What a request asks for."""
    user: User = request.user
    if path is None:
        method = request.method
        return Attributes(user, _PLAIN.get(method, method.lower()), url=request.path)
    name = path.name or (_selected(request) if verb in ("list", "watch") else "")
    # A namespace is also inside itself: a role there may speak of it.
    namespace = path.name if path.plural == "namespaces" else path.namespace
    verb = verb or _PLAIN.get(request.method, request.method.lower())
    return Attributes(user, verb, path.group, path.plural, path.part, namespace, name)


def _selected(request: Request) -> str:
    """The only name that a field selector lets through."""
    text = request.param("fieldSelector")
    if not text:
        return ""
    try:
        return selectors.parse_fields(text).value_of("metadata.name") or ""
    except BadRequest:
        return ""  # refused later, and then with the reason
