"""User impersonation: the ``Impersonate-*`` headers (``kubectl --as``).

Theory.      The headers of a request may name another user, with groups, a uid and extra values; the
             server then answers as if that user had asked. The real user needs the verb ``impersonate``
             for each of them: the user or service account, each group, the uid, each extra value.
Invariants.  Pure. The values of a header that came several times are joined by newlines, since group names
             may have commas. The impersonated user is in ``system:authenticated``, unless it is
             ``system:anonymous`` or the headers name the group ``system:unauthenticated``.
Called by    ``authz``, before it asks what the request itself needs.
Source       kube-apiserver's impersonation, observed on v1.36; its newer verbs ``impersonate-on:*``
             and ``impersonate:*`` are not supported.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from kubewright.apiserver.authorization.attributes import ACCOUNT, Attributes
from kubewright.wire.errors import BadRequest
from kubewright.wire.http import AUTHENTICATED, UNAUTHENTICATED, User

PREFIX = "impersonate-"
_USER, _GROUP, _UID, _EXTRA = (f"{PREFIX}{what}" for what in ("user", "group", "uid", "extra-"))
_AUTHN = "authentication.k8s.io"


def requested(headers: Mapping[str, str]) -> User | None:
    """The user whom the headers of a request name to be impersonated; None when they name none.

    Raises:
        BadRequest: the headers name groups, a uid or extra values, but no user.
    """
    given = {name: value for name, value in headers.items() if name.startswith(PREFIX)}
    if not given:
        return None
    groups = tuple(given[_GROUP].split("\n")) if _GROUP in given else ()
    extra = tuple(
        (unquote(name.removeprefix(_EXTRA)).lower(), tuple(value.split("\n")))
        for name, value in sorted(given.items())
        if name.startswith(_EXTRA)
    )
    name, uid = given.get(_USER, ""), given.get(_UID, "")
    if not name:
        if groups or uid or extra:
            raise BadRequest("groups, a uid or extra words were asked for without impersonating a user name")
        return None
    return User(name, groups, uid, extra)


def needed(asker: User, target: User) -> Iterator[Attributes]:
    """What the real user must be allowed, in the order in which the server checks it."""
    account = _account(target.name)
    if account is not None:
        namespace, name = account
        yield Attributes(asker, "impersonate", resource="serviceaccounts", namespace=namespace, name=name)
    else:
        yield Attributes(asker, "impersonate", resource="users", name=target.name)
    for group in target.groups:
        yield Attributes(asker, "impersonate", resource="groups", name=group)
    for key, values in target.extra:
        for value in values:
            yield Attributes(asker, "impersonate", _AUTHN, "userextras", key, name=value)
    if target.uid:
        yield Attributes(asker, "impersonate", _AUTHN, "uids", name=target.uid)


def impersonated(target: User) -> User:
    """The impersonated user, with the groups that follow from its name (``system:authenticated``, ...)."""
    groups = target.groups
    account = _account(target.name)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if target.name == User().name:
        groups = groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(target.name, groups, target.uid, target.extra)


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account whose user name this is; None for other users."""
    namespace, colon, own = name.removeprefix(ACCOUNT).partition(":")
    return (namespace, own) if name.startswith(ACCOUNT) and colon and namespace and own else None
