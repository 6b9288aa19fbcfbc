"""Where the access to a cluster comes from: a kubeconfig, the pod we run in, or a Secret.

Theory.      Each of the three ends in a ``Transport``. Nothing is contacted before the first request, so
             all of them can be made anywhere; what is wrong with the input is said at once.
Invariants.  A kubeconfig from a Secret never runs a program and never reads a file (``access``).
Called by    ``compose`` and ``cli``.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubewright.base.clock import Clock, SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.kube.access import Access, TokenFile, access, checked, merged, with_absolute_paths
from kubewright.kube.sockets import Sockets, tls_context
from kubewright.wire import goyaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token, its namespace and the cluster's certificate authority."""

KUBECONFIG_BYTES = 4 * 1024 * 1024
"""Largest kubeconfig that we read."""


def load(path: str | Path | None = None, context: str = "", *, clock: Clock | None = None) -> Sockets:
    """The cluster of a kubeconfig.

    Args:
        path: the file. None looks at ``$KUBECONFIG`` (several files, merged), then at the pod we run
            in, then at ``~/.kube/config``.
        context: which; empty means the current one.
        clock: for the age of credentials.

    Raises:
        InvalidInput: no such file or context, or something in it is wrong.
    """
    listed = os.environ.get("KUBECONFIG", "")
    if path is None and not listed and runs_in_cluster():
        return in_cluster(clock=clock)
    paths = [Path(path)] if path is not None else [Path(each) for each in listed.split(os.pathsep) if each]
    paths = [each.expanduser() for each in paths or [Path("~/.kube/config")]]
    found = [each for each in paths if each.is_file()]
    if not found:
        raise InvalidInput(f"there is no kubeconfig at {' or '.join(map(str, paths))}")
    source = ":".join(map(str, found))
    return connect(access(_merged(found), context, source=source), clock=clock)


def runs_in_cluster() -> bool:
    """Whether this process runs in a pod with a service account."""
    return in_pod() and (SERVICE_ACCOUNT / "token").is_file()


def in_pod() -> bool:
    """Whether this process runs in a pod, with or without a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def own_namespace() -> str:
    """The namespace of the pod that this process runs in; empty where it cannot be known."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() if in_pod() else ""
    except OSError:
        return ""


def in_cluster(*, clock: Clock | None = None) -> Sockets:
    """The cluster that this pod runs in, as its service account.

    Raises:
        InvalidInput: this is no pod, or it has no service account.
    """
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    if not host or not port:
        raise InvalidInput(
            "this process does not run in a Kubernetes pod: KUBERNETES_SERVICE_HOST is not set"
        )
    try:
        ca = (SERVICE_ACCOUNT / "ca.crt").read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {SERVICE_ACCOUNT / 'ca.crt'}: {error.strerror}") from None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    found = Access(server, TokenFile(SERVICE_ACCOUNT / "token"), ca)
    return connect(found, clock=clock)


def from_secret(data: bytes, context: str = "", *, clock: Clock | None = None) -> Sockets:
    """The cluster of a kubeconfig that came out of a Secret: inline data only.

    Raises:
        InvalidInput: it holds a program, an auth provider or a path, or is otherwise wrong.
    """
    return connect(inline_access(data, context), clock=clock)


def inline_access(data: bytes, context: str = "", *, source: str = "kubeconfig in the Secret") -> Access:
    """The access that a kubeconfig describes which holds inline data only; ``source`` names it in errors.

    Raises:
        InvalidInput: as ``from_secret``, but for certificates that are none.
    """
    return access(parsed(data, source), context, inline_only=True, source=source)


def connect(found: Access, *, clock: Clock | None = None) -> Sockets:
    """A transport with this access.

    Raises:
        InvalidInput: its certificates are no certificates.
    """
    if found.ca or found.certificate:
        tls_context(found, found.certificate, found.key)
    return Sockets(found, clock or SystemClock())


def _merged(paths: list[Path]) -> Mapping[str, Any]:
    whole: Mapping[str, Any] = {}
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
        whole = merged(whole, with_absolute_paths(parsed(data, str(path)), path.absolute().parent))
    return whole


def parsed(data: bytes, source: str) -> Mapping[str, Any]:
    """A kubeconfig as it is read, before anything in it is used; ``source`` names it in errors.

    Raises:
        InvalidInput: it is not YAML, or has not the shape of a kubeconfig.
    """
    if len(data) > KUBECONFIG_BYTES:
        raise InvalidInput(f"{source}: too large for a kubeconfig")
    try:
        found = goyaml.loads(data)
    except goyaml.Unreadable as error:
        place = f" in line {error.line}" if error.line else ""
        raise InvalidInput(f"{source}: not YAML{place}") from None
    return checked(found, source)
