"""Authorization: the server asks the RBAC policy about every request before it answers it.

Theory.      A request becomes ``Attributes``: a verb, a resource, and perhaps an object's name; or a
             verb and a non-resource path. The current policy decides. A list or watch of one object by
             a field selector (``metadata.name=a``) counts as a request for that name.
Invariants.  Only the head of a request is looked at (method, path, query, headers). Members of
             ``system:masters`` are allowed without asking the policy; our own controllers are members.
Called by    ``app``. ``authorization`` decides.
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
_SELECTING = ("list", "watch", "deletecollection")


class Authorizer:
    """Lets a request pass, or raises Forbidden."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def authorize(self, request: Request, path: ResourcePath | None, verb: str) -> Request:
        """The request as the server is to answer it: with the impersonated user, where its headers name one.

        ``path`` is None for a non-resource path; ``verb`` is empty when the resource has none for the method.

        Raises:
            Forbidden: the user may not impersonate that user, or may not do what the request asks for.
            BadRequest: its headers name groups, a uid or extra values to impersonate, but no user.
        """
        target = impersonation.requested(request.headers)
        if target is not None:
            for asked in impersonation.needed(request.user, target):
                self._ask(asked)
            request = replace(request, user=impersonation.impersonated(target))
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
    """A request in the terms of authorization."""
    user: User = request.user
    if path is None:
        method = request.method
        return Attributes(user, _PLAIN.get(method, method.lower()), url=request.path)
    name = path.name or (_selected(request) if verb in ("list", "watch") else "")
    # A Namespace object counts as an object in itself: a Role in it may allow reading it.
    namespace = path.name if path.plural == "namespaces" else path.namespace
    verb = verb or _PLAIN.get(request.method, request.method.lower())
    node = _selected(request, "spec.nodeName") if verb in _SELECTING else ""
    return Attributes(user, verb, path.group, path.plural, path.subresource, namespace, name, node=node)


def _selected(request: Request, field: str = "metadata.name") -> str:
    """The one value of a field that a field selector selects; empty when there is none."""
    text = request.param("fieldSelector")
    if not text:
        return ""
    try:
        return selectors.parse_fields(text).value_of(field) or ""
    except BadRequest:
        return ""  # the handler refuses it, and says why
