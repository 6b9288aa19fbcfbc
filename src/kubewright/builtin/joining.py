"""Bootstrap tokens: cluster-info is signed with each that may sign, and those that have ended are deleted.

Theory.      A machine that joins believes what stands in ConfigMap cluster-info because its token has signed
             it. So whenever the text or a token changes, the signatures are made anew: one for each good
             token, and none of another. A token that ends is deleted at that moment, and its signature with
             it.
Invariants.  ``signatures`` is pure. The text that is signed is never changed; without a ConfigMap nothing is
             made. No secret gets into a log.
Keys.        The ConfigMap's own for the signer; a Secret's for the cleaner.
Called by    ``controllers`` of ``builtin``.
Source       kube-controller-manager's bootstrapsigner and tokencleaner.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime

import structlog

from kubewright.api.bootstrap.names import TOKEN_NAMESPACE, TOKEN_TYPE
from kubewright.api.bootstrap.tokens import CLUSTER_INFO, KUBECONFIG, SIGNATURE, ends, read, signature
from kubewright.api.core import CONFIG_MAP, SECRET, ConfigMap, Secret
from kubewright.base.delays import DATED
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer, Informers
from kubewright.kube.patches import with_version
from kubewright.runtime.controller import Controller
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


def signatures(content: str, secrets: Iterable[Secret], now: datetime) -> dict[str, str]:
    """The signatures of a text by all tokens that may sign now, by their keys in the ConfigMap."""
    found = {}
    for secret in secrets:
        token = read(Key(secret.namespace, secret.name), secret.type, secret.data)
        if token is not None and token.signs and token.lasts(now) and not secret.metadata.deleting:
            found[f"{SIGNATURE}{token.id}"] = signature(content, token.id, token.secret)
    return found


def corrections(data: Mapping[str, str], secrets: Iterable[Secret], now: datetime) -> dict[str, str | None]:
    """What is to be written into cluster-info: signatures that are missing or wrong; None takes one out."""
    if (content := data.get(KUBECONFIG)) is None:
        return {}
    wanted = signatures(content, secrets, now)
    stale = (name for name in data if name.startswith(SIGNATURE) and name not in wanted)
    fresh = {name: text for name, text in wanted.items() if data.get(name) != text}
    return {**dict.fromkeys(stale), **fresh}


class Signer:
    """Reconciles ConfigMap cluster-info; any other key does nothing."""

    def __init__(self, client: Client, infos: Informer[ConfigMap], tokens: Informer[Secret]) -> None:
        self._client, self._infos, self._tokens = client, infos, tokens

    async def reconcile(self, key: Key) -> Result:
        """Write the signatures that cluster-info lacks, and take out those that count no more."""
        info = self._infos.get(key)
        if info is None or info.metadata.deleting:
            return Result.done()
        patch = corrections(info.data, self._tokens.list(), self._client.clock.now())
        if patch:
            with suppress(NotFound):
                versioned = with_version({"data": patch}, info.metadata.resource_version)
                await self._client.patch(CONFIG_MAP, key, versioned)
                log.info("signed", signatures=len(patch))
        return Result.done()

    def of_token(self, _change: Change[Secret]) -> tuple[Key, ...]:
        """Each change of a token may change a signature."""
        return (CLUSTER_INFO,)


class Cleaner:
    """Reconciles the Secrets of tokens."""

    def __init__(self, client: Client, tokens: Informer[Secret]) -> None:
        self._client, self._tokens = client, tokens

    async def reconcile(self, key: Key) -> Result:
        """Delete a token that has ended, or whose end cannot be read; look again when it ends."""
        token = self._tokens.get(key)
        if token is None or token.metadata.deleting:
            return Result.done()
        now = self._client.clock.now()
        try:
            until = ends(token.data)
        except ValueError:
            until = now
        if until is None:
            return Result.done()
        if until > now:
            return Result.later(min(until - now, DATED))
        with suppress(NotFound, Conflict):
            await self._client.delete(
                SECRET, key, uid=token.metadata.uid, resource_version=token.metadata.resource_version
            )
            log.info("a bootstrap token has ended", secret=str(key))
        return Result.done()


def controllers(informers: Informers, metrics: Metrics | None = None) -> list[Controller]:
    """The signer and the cleaner, for the server of ``informers``."""
    client = informers.client
    tokens = informers.get(SECRET, namespace=TOKEN_NAMESPACE, fields=f"type={TOKEN_TYPE}")
    infos = informers.get(
        CONFIG_MAP, namespace=CLUSTER_INFO.namespace, fields=f"metadata.name={CLUSTER_INFO.name}"
    )
    signer, cleaner = Signer(client, infos, tokens), Cleaner(client, tokens)
    signing = Controller("bootstrap-signer", signer, client.clock, workers=1, metrics=metrics)
    cleaning = Controller("token-cleaner", cleaner, client.clock, workers=1, metrics=metrics)
    return [
        signing.watches(infos).watches(tokens, signer.of_token),
        cleaning.watches(tokens),
    ]
