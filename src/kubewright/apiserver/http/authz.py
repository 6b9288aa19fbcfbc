"""Who may do what.

Theory.      The embedded server serves one person: whoever holds a credential that this server
             made (its admin certificate, a service account's token) may do everything. Roles and
             bindings are stored and served but not enforced. What the anonymous may see is what
             kube-apiserver shows them: health, version, discovery.
"""

from kubewright.apiserver.http.paths import ResourcePath
from kubewright.wire.errors import Forbidden
from kubewright.wire.http import Request, User

AUTHENTICATED = "system:authenticated"
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/openapi")


def authenticated(user: User) -> bool:
    return AUTHENTICATED in user.groups


def admit(user: User, verb: str, path: ResourcePath) -> None:
    """The user may do this to a resource.

    Raises:
        Forbidden
    """
    if authenticated(user):
        return
    plural = f"{path.plural}/{path.part}" if path.part else path.plural
    resource = f"{path.plural}.{path.group}" if path.group else path.plural
    subject = f'{resource} "{path.name}"' if path.name else resource
    where = f'in the namespace "{path.namespace}"' if path.namespace else "at the cluster scope"
    what = f'cannot {verb} resource "{plural}" in API group "{path.group}" {where}'
    details = {"group": path.group} if path.group else {}
    named = {"name": path.name} if path.name else {}
    raise Forbidden(
        f'{subject} is forbidden: User "{user.name}" {what}',
        details={**named, **details, "kind": path.plural},
    )


def admit_path(request: Request) -> None:
    """The user may see a path that is no resource.

    Raises:
        Forbidden
    """
    path = request.path
    public = any(path == each or path.startswith(f"{each}/") for each in _PUBLIC)
    if not public and not authenticated(request.user):
        what = f'User "{request.user.name}" cannot {request.method.lower()} path "{path}"'
        raise Forbidden(f"forbidden: {what}", details={})
