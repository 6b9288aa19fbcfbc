"""How to reach a cluster, and with which credentials: a kubeconfig as a value. Pure.

Theory.      Two kinds of kubeconfig come to us. One that the user points at is the user's own: it may name
             files and programs. One in a Secret was written by a user who may write that
             Secret: running its programs or reading our files for it would give that user our identity.
             So ``inline_only`` refuses everything that is not data (docs/decisions/0018-one-transport.md).
Invariants.  Whatever is wrong becomes one sentence (``InvalidInput``) without a secret in it.
             Relative paths are relative to the file that holds them.
Called by    ``config``.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kubewright.base.errors import InvalidInput
from kubewright.wire.http import User

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Anonymous:
    """No credentials, or only a client certificate."""


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that does not change."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A bearer token that another program renews in a file."""

    path: Path


@dataclass(frozen=True, slots=True)
class Basic:
    """User name and password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A program that prints credentials (``client.authentication.k8s.io``)."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = field(repr=False)
    api_version: str
    hint: str = ""
    cluster: Json | None = field(default=None, repr=False)


Login = Anonymous | Token | TokenFile | Basic | Plugin


@dataclass(frozen=True, slots=True)
class Access:
    """One cluster and one identity. ``ca``, ``certificate`` and ``key`` are PEM.

    ``acts_as``  the user whom each request impersonates; None: none
    """

    server: str
    login: Login = Anonymous()
    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""
    acts_as: User | None = None


def impersonation(user: User | None) -> list[tuple[str, str]]:
    """The headers of a request that impersonates this user; with several values, one comes several times."""
    if user is None:
        return []
    headers = [("impersonate-user", user.name)]
    headers += [("impersonate-group", group) for group in user.groups]
    headers += [("impersonate-uid", user.uid)] if user.uid else []
    for key, values in user.extra:
        headers += [(f"impersonate-extra-{quote(key.lower(), safe='')}", value) for value in values]
    return headers


def access(
    kubeconfig: Json, context: str = "", *, inline_only: bool = False, source: str = "kubeconfig"
) -> Access:
    """The access that a context describes.

    Args:
        kubeconfig: the decoded file.
        context: which; empty means ``current-context``.
        inline_only: refuse programs and paths.
        source: what to call it in errors.

    Raises:
        InvalidInput: something is missing, malformed or refused.
    """
    try:
        return _Reader(kubeconfig, inline_only).read(context)
    except _Wrong as error:
        raise InvalidInput(f"{source}: {error}") from None


_TEXTS = {
    "cluster": (
        "server",
        "tls-server-name",
        "proxy-url",
        "certificate-authority",
        "certificate-authority-data",
    ),
    "context": ("cluster", "user", "namespace"),
    "user": (
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
        *("token", "tokenFile", "username", "password", "as", "as-uid"),
    ),
}
"""The fields of the three kinds of entries that are text, as the types of client-go have them."""


def checked(found: Any, source: str) -> Json:
    """A decoded file, if it has the shape of a kubeconfig: else client-go would not read it either.

    Raises:
        InvalidInput: it has another shape. A name such as ``1e3`` is a number, unless it is in quotes.
    """
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{source}: not a kubeconfig")
    try:
        _text(found, "current-context", "")
        for kind, names in _TEXTS.items():
            _check_entries(found.get(f"{kind}s"), kind, names)
    except _Wrong as error:
        raise InvalidInput(f"{source}: {error}") from None
    return found


def _check_entries(entries: Any, kind: str, names: tuple[str, ...]) -> None:
    if not isinstance(entries, list | None):
        raise _Wrong(f"{kind}s must be a list")
    for number, entry in enumerate(entries or ()):
        where = f"{kind}s[{number}]"
        if not isinstance(entry, Mapping) or not isinstance(inner := entry.get(kind), Mapping | None):
            raise _Wrong(f"{where} must have a name and a {kind}")
        _text(entry, "name", f"{where}.")
        for name in names:
            _text(inner or {}, name, f"{where}.{kind}.")


def _text(fields: Json, name: str, where: str) -> None:
    if not isinstance(fields.get(name), str | None):
        raise _Wrong(f"{where}{name} must be text; put it in quotes")


def merged(first: Json, second: Json) -> Json:
    """Two kubeconfigs as one, as kubectl merges ``$KUBECONFIG``: the first value set wins."""
    both = {**second, **{key: value for key, value in first.items() if value}}
    for name in ("clusters", "contexts", "users"):
        entries = [*(first.get(name) or ()), *(second.get(name) or ())]
        both[name] = list({entry.get("name"): entry for entry in reversed(entries)}.values())
    return both


def with_absolute_paths(kubeconfig: Json, folder: Path) -> Json:
    """The kubeconfig with its relative paths made absolute."""

    def entry(each: Json, kind: str, names: tuple[str, ...]) -> Json:
        inner = dict(each.get(kind) or {})
        inner.update({name: str(folder / inner[name]) for name in names if inner.get(name)})
        plugin = inner.get("exec")
        if isinstance(plugin, Mapping) and "/" in str(plugin.get("command", "")):
            inner["exec"] = {**plugin, "command": str(folder / plugin["command"])}
        return {**each, kind: inner}

    files = ("client-certificate", "client-key", "tokenFile")
    return {
        **kubeconfig,
        "clusters": [
            entry(each, "cluster", ("certificate-authority",)) for each in kubeconfig.get("clusters") or ()
        ],
        "users": [entry(each, "user", files) for each in kubeconfig.get("users") or ()],
    }


class _Wrong(Exception):
    """What is wrong, without the name of the source; never leaves this module."""


class _Reader:
    def __init__(self, kubeconfig: Json, inline_only: bool) -> None:
        self._config = kubeconfig
        self._inline_only = inline_only

    def read(self, name: str) -> Access:
        name = name or str(self._config.get("current-context") or "")
        if not name:
            raise _Wrong("no context is chosen, and current-context is not set")
        context = self._named("contexts", name, "context")
        cluster = self._named("clusters", str(context.get("cluster") or ""), "cluster")
        user_name = str(context.get("user") or "")
        user = self._named("users", user_name, "user") if user_name else {}
        server = str(cluster.get("server") or "")
        if not server.startswith(("http://", "https://")):
            raise _Wrong("the cluster's server must begin with http:// or https://")
        insecure = bool(cluster.get("insecure-skip-tls-verify"))
        return Access(
            server=server.rstrip("/"),
            login=self._login(user, cluster),
            ca=b"" if insecure else self._pem(cluster, "certificate-authority"),
            certificate=self._pem(user, "client-certificate"),
            key=self._pem(user, "client-key"),
            insecure=insecure,
            tls_server_name=str(cluster.get("tls-server-name") or ""),
            proxy=str(cluster.get("proxy-url") or ""),
            acts_as=_acts_as(user),
        )

    def _named(self, place: str, name: str, kind: str) -> Json:
        for entry in self._config.get(place) or ():
            if isinstance(entry, Mapping) and entry.get("name") == name:
                found = entry.get(kind)
                if isinstance(found, Mapping):
                    return found
                raise _Wrong(f"the {kind} {name!r} is empty")
        raise _Wrong(f"there is no {kind} named {name!r}")

    def _pem(self, entry: Json, name: str) -> bytes:
        if data := entry.get(f"{name}-data"):
            try:
                return base64.b64decode(str(data), validate=True)
            except binascii.Error:
                raise _Wrong(f"{name}-data is not base64") from None
        if path := entry.get(name):
            self._refuse(name, "a path")
            return _bytes(Path(str(path)), name)
        return b""

    def _login(self, user: Json, cluster: Json) -> Login:
        if user.get("auth-provider"):
            self._refuse("auth-provider", "a credential plugin")
            return self._provided(user["auth-provider"])
        if plugin := user.get("exec"):
            self._refuse("exec", "a program")
            return _plugin(plugin, cluster)
        if token := user.get("token"):
            return Token(str(token))
        if path := user.get("tokenFile"):
            self._refuse("tokenFile", "a path")
            return TokenFile(Path(str(path)))
        if user.get("username"):
            return Basic(str(user["username"]), str(user.get("password") or ""))
        return Anonymous()

    def _provided(self, provider: Json) -> Login:
        """An id token that kubectl keeps in the file; we use it and leave its renewal to kubectl."""
        if provider.get("name") == "oidc":
            if token := (provider.get("config") or {}).get("id-token"):
                return Token(str(token))
            raise _Wrong("the oidc auth-provider holds no id-token; run kubectl once, or use an exec plugin")
        raise _Wrong("this auth-provider is not supported; use an exec plugin")

    def _refuse(self, name: str, what: str) -> None:
        if self._inline_only:
            raise _Wrong(f"{name} is {what}, and a kubeconfig from a Secret may hold only inline data")


def _acts_as(user: Json) -> User | None:
    """Whom the fields ``as``, ``as-groups``, ``as-uid`` and ``as-user-extra`` name."""
    name, groups, uid = str(user.get("as") or ""), user.get("as-groups") or (), str(user.get("as-uid") or "")
    extra = user.get("as-user-extra") or {}
    if not isinstance(groups, list | tuple) or not isinstance(extra, Mapping):
        raise _Wrong("as-groups must be a list, and as-user-extra a map")
    if not name:
        if groups or uid or extra:
            raise _Wrong("as-groups, as-uid and as-user-extra need as, the name of a user")
        return None
    values = tuple((str(key), tuple(map(str, given or ()))) for key, given in extra.items())
    return User(name, tuple(map(str, groups)), uid, values)


def _plugin(plugin: Any, cluster: Json) -> Plugin:
    if not isinstance(plugin, Mapping) or not plugin.get("command") or not plugin.get("apiVersion"):
        raise _Wrong("exec needs a command and an apiVersion")
    api_version = str(plugin["apiVersion"])
    if api_version not in ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"):
        raise _Wrong(f"exec has an unknown apiVersion {api_version!r}")
    if plugin.get("interactiveMode") == "Always":
        raise _Wrong("exec needs an interactive terminal, and there is none here")
    return Plugin(
        command=str(plugin["command"]),
        args=tuple(str(arg) for arg in plugin.get("args") or ()),
        env=tuple((str(item["name"]), str(item["value"])) for item in plugin.get("env") or ()),
        api_version=api_version,
        hint=str(plugin.get("installHint") or ""),
        cluster=_cluster_info(cluster) if plugin.get("provideClusterInfo") else None,
    )


def _cluster_info(cluster: Json) -> Json:
    """The cluster as a plugin with ``provideClusterInfo`` gets it."""
    names = (
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority-data",
        "proxy-url",
    )
    return {name: cluster[name] for name in names if name in cluster}


def _bytes(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _Wrong(f"cannot read {name} {path}: {error.strerror}") from None
