"""Credentials for requests: fetched when needed, renewed in time, never omitted.

Theory.      A request without the credentials that the kubeconfig promises would be made as
             another user, so a failing plugin or an unreadable token file is an error of the
             request (``LoginFailed``), not a reason to go on without. Plugins and files are asked
             again when their answer grows old, and once after a 401; a 403 is an answer.
Invariants.  One plugin runs at a time, with a deadline, without a terminal. Nothing that it prints
             reaches a log: only that it failed, and its exit status.
Called by    ``sockets``.
"""

import asyncio
import base64
import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kubewright.base.clock import Clock, parse_rfc3339
from kubewright.kube.access import Access, Anonymous, Basic, Login, Plugin, Token, TokenFile
from kubewright.kube.errors import LoginFailed

FILE_SECONDS = 60.0
"""How long a token that was read from a file is used before the file is read again."""

PLUGIN_SECONDS = 60.0
"""Deadline of a credential plugin."""

EARLY = timedelta(seconds=30)
"""Credentials are renewed this long before they expire."""

PLUGIN_BYTES = 1 << 20
"""Most output of a plugin that we read."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What proves who we are: a header, a client certificate, or both. PEM; empty means none."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Logins:
    """The credentials of one access, kept fresh."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._login: Login = access.login
        self._given = Credentials("", access.certificate, access.key)
        self._clock = clock
        self._current: Credentials | None = None
        self._until: float | datetime | None = None
        self._renewing = asyncio.Lock()

    async def current(self) -> Credentials:
        """The credentials to use now.

        Raises:
            LoginFailed: the plugin or the token file failed.
        """
        if self._current is not None and not self._old():
            return self._current
        async with self._renewing:
            if self._current is None or self._old():
                self._current = await self._fetch()
        return self._current

    def refused(self, used: Credentials) -> bool:
        """The server did not accept them (401). Answers whether asking again may bring others."""
        if isinstance(self._login, (TokenFile, Plugin)):
            if self._current is used:
                self._current = None
            return True
        return False

    def _old(self) -> bool:
        if isinstance(self._until, datetime):
            return self._clock.now() >= self._until
        return self._until is not None and self._clock.monotonic() >= self._until

    async def _fetch(self) -> Credentials:
        given = self._given
        match self._login:
            case Anonymous():
                return given
            case Token(token):
                return Credentials(f"Bearer {token}", given.certificate, given.key)
            case Basic(user, password):
                pair = base64.b64encode(f"{user}:{password}".encode()).decode()
                return Credentials(f"Basic {pair}", given.certificate, given.key)
            case TokenFile(path):
                self._until = self._clock.monotonic() + FILE_SECONDS
                try:
                    token = path.read_text().strip()
                except OSError as error:
                    raise LoginFailed(f"cannot read the token file {path}: {error.strerror}") from None
                if not token:
                    raise LoginFailed(f"the token file {path} is empty")
                return Credentials(f"Bearer {token}", given.certificate, given.key)
            case Plugin() as plugin:
                return self._parsed(plugin, await _run(plugin))

    def _parsed(self, plugin: Plugin, output: bytes) -> Credentials:
        try:
            answer = _decoder.decode(output)
        except msgspec.DecodeError:
            raise LoginFailed(f"the credential plugin {plugin.command} printed no ExecCredential") from None
        if answer.api_version != plugin.api_version:
            raise LoginFailed(f"the credential plugin {plugin.command} answered in {answer.api_version!r}")
        status = answer.status
        if status is None or not (
            status.token or (status.client_certificate_data and status.client_key_data)
        ):
            raise LoginFailed(f"the credential plugin {plugin.command} gave neither token nor certificate")
        expires = status.expiration_timestamp
        self._until = None if expires is None else parse_rfc3339(expires) - EARLY
        return Credentials(
            f"Bearer {status.token}" if status.token else "",
            (status.client_certificate_data or "").encode() or self._given.certificate,
            (status.client_key_data or "").encode() or self._given.key,
        )


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: _Status | None = None


_decoder = msgspec.json.Decoder(_Credential)


async def _run(plugin: Plugin) -> bytes:
    """What the plugin prints."""
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _request(plugin)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=PLUGIN_BYTES,
        )
    except OSError as error:
        hint = f" ({plugin.hint})" if plugin.hint else ""
        raise LoginFailed(
            f"cannot run the credential plugin {plugin.command}: {error.strerror}{hint}"
        ) from None
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise LoginFailed(f"the credential plugin {plugin.command} took too long") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise LoginFailed(f"the credential plugin {plugin.command} failed with status {process.returncode}")
    return output


def _request(plugin: Plugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = dict(plugin.cluster)
    return msgspec.json.encode(
        {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    ).decode()
