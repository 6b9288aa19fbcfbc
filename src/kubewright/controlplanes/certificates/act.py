"""Make keys and certificates, and write them into Secrets.

Theory.      Authorities and key pairs come first, then what the authorities sign; the keys of each group are
             made at the same time. If another process has created a Secret in the meantime, that Secret
             counts: what we would have signed with our own key is not made, and the next pass reads what is
             there. Authorities and key pairs have keys of the algorithm that the user has chosen; what they
             sign has keys on P-256, which are made in well under a millisecond.
Invariants.  A Secret is created, or patched in exactly the version that was decided on. What the server
             answers about a Secret is not logged, because it may quote its content.
Called by    ``keeper`` and ``users``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog

from kubewright.api.core import SECRET
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.kube.client import Client
from kubewright.kube.patches import onto
from kubewright.pki import keys
from kubewright.pki.clusters import contents_of, new_cluster_authority
from kubewright.pki.credentials import CERTIFICATE_KEY, PRIVATE_KEY, Authority, Signed, TokenKeys, data_of
from kubewright.pki.keyring import Make, Transition
from kubewright.pki.keys import Algorithm
from kubewright.pki.rotation import written
from kubewright.runtime.credentials.contents import in_thread_if_slow
from kubewright.runtime.credentials.values import Found, secret_of
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)

Data = Mapping[str, bytes | None]
"""The entries of a Secret; None: the entry is removed."""


@dataclass(frozen=True, slots=True)
class Destination:
    """What the new Secrets have in common: namespace, label and owner.

    ``cluster``  the value of the label ``cluster.x-k8s.io/cluster-name``
    ``owner``    the controlling owner
    """

    namespace: str
    cluster: str
    owner: OwnerReference


class Maker:
    """Performs the steps of plans."""

    def __init__(self, client: Client, algorithm: Algorithm) -> None:
        self._client = client
        self._algorithm = algorithm

    async def perform(
        self, destination: Destination, steps: Sequence[Make], found: Mapping[str, Found], now: datetime
    ) -> None:
        """Perform all steps. ``found``: the Secrets that they were decided on.

        Raises:
            ApiError, TransportError: a Secret could not be written; what was written before stays.
            InvalidInput: a certificate cannot carry the names that it should.
        """
        pairs = {name: each.pair for name, each in found.items()}
        roots = [each for each in steps if isinstance(each.wanted, Authority | TokenKeys)]
        for step, data in zip(roots, await self._all(roots, pairs, found, now), strict=True):
            if await self._made(destination, step, data, found):
                certificate, key = data[CERTIFICATE_KEY], data[PRIVATE_KEY]
                assert certificate is not None, "no step removes it"
                assert key is not None, "no step removes it"
                pairs[step.wanted.secret] = keys.KeyPair(certificate, key)
        signed = [each for each in steps if _authority(each) in pairs]
        for step, data in zip(signed, await self._all(signed, pairs, found, now), strict=True):
            await self._made(destination, step, data, found)

    async def write(
        self, destination: Destination, name: str, data: Data, replaces: ObjectMeta | None, because: str
    ) -> bool:
        """Write one Secret; False: another process has created it, and it stays as it is.

        ``replaces``: the metadata of the Secret that exists; None: there is none.

        Raises:
            ApiError, TransportError: it could not be written.
        """
        entries = {name: entry for name, entry in data.items() if entry is not None}
        secret = secret_of(name, destination.namespace, destination.cluster, (destination.owner,), entries)
        if replaces is not None:
            body = onto({"data": {**dict.fromkeys(data), **SECRET.to_plain(secret)["data"]}}, replaces)
            await self._client.patch(SECRET, Key(destination.namespace, name), body)
        else:
            try:
                await self._client.create(SECRET, secret)
            except AlreadyExists:
                return False
        log.info(
            "made a certificate or a kubeconfig", secret=f"{destination.namespace}/{name}", because=because
        )
        return True

    async def _all(
        self,
        steps: Sequence[Make],
        pairs: Mapping[str, keys.KeyPair],
        found: Mapping[str, Found],
        now: datetime,
    ) -> list[Data]:
        """The entries of the Secret of each step, with new keys, in the order of the steps."""
        making = [
            in_thread_if_slow(
                partial(self._transitioned, each, each.transition, found[each.wanted.secret], now)
                if each.transition is not None
                else partial(self._data, each, pairs, now),
                Algorithm.EC if isinstance(each.wanted, Signed) else self._algorithm,
            )
            for each in steps
        ]
        return await asyncio.gather(*making)

    def _transitioned(self, step: Make, transition: Transition, authority: Found, now: datetime) -> Data:
        assert isinstance(step.wanted, Authority), "only authorities are replaced"
        begins, name = transition is Transition.BEGIN, step.wanted.common_name
        new = new_cluster_authority(now, self._algorithm, name) if begins else authority.pair
        return written(transition, authority, new)

    def _data(self, step: Make, pairs: Mapping[str, keys.KeyPair], now: datetime) -> Data:
        if step.copies:
            return data_of(pairs[step.copies].certificate, pairs[step.copies].key)
        return contents_of(step.wanted, pairs, now, self._algorithm)

    async def _made(
        self, destination: Destination, step: Make, data: Data, found: Mapping[str, Found]
    ) -> bool:
        there = found[step.wanted.secret].metadata if step.renews else None
        return await self.write(destination, step.wanted.secret, data, there, step.because)


def _authority(step: Make) -> str:
    """The Secret of the authority that signs; empty for an authority or a key pair."""
    return step.wanted.authority if isinstance(step.wanted, Signed) else ""
