"""Read everything that a decision about one KubeadmConfig looks at, into one value.

Theory.      Nearly all of it is in caches. Of Secrets these have the metadata only, since bootstrap data and
             certificates are large and secret: what is in one is read from the server when data is made. A
             Secret without the cluster's label is in no cache and is read as well, as upstream does; where
             the certificates are ours to make, only after their creation has shown that it is there.
Invariants.  What is read of a Secret is kept for one pass, and a pair that was made here until the pass that
             writes it into data; but for the certificate of a cluster's authority, which each of its machines
             needs: it is public, and kept by its version. Of data only the token is kept, while the machine
             may boot.
Called by    ``reconciler``.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from kubewright.api.bootstrap.names import GROUP as BOOTSTRAP
from kubewright.api.bootstrap.names import lock_name
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KubeadmConfig
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, SECRET_VALUE_KEY
from kubewright.api.cluster.v1beta1 import CLUSTER, GROUP, MACHINE, Cluster, Machine
from kubewright.api.core import CONFIG_MAP, SECRET, SECRET_METADATA, Secret
from kubewright.base import delays
from kubewright.bootstrap.certificates import Certificate
from kubewright.bootstrap.decide import makes_data
from kubewright.bootstrap.generation import wanted_certificates
from kubewright.bootstrap.lock import Lock, holder_of
from kubewright.bootstrap.seen import BootstrapSettings, DataSeen, Seen, TokenSeen
from kubewright.bootstrap.token_calls import TokenCalls
from kubewright.bootstrap.tokens import new_token, token_in_data
from kubewright.bootstrap.userdata import Role
from kubewright.kube.informer import Informers
from kubewright.pki.credentials import Purpose, secret_name
from kubewright.pki.keys import KeyPair
from kubewright.runtime.credentials.values import pair_of
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, split_api_version

BY_CONFIG = "kubeadm-config"
"""Machines by ``namespace/name`` of the KubeadmConfig that they refer to."""
BY_CLUSTER = "cluster-of-kubeadm-machines"
"""Machines that refer to a KubeadmConfig, by ``namespace/name`` of their cluster."""


def config_of(machine: Machine) -> Key | None:
    """The KubeadmConfig that a machine refers to; None if it refers to none, or to another kind."""
    ref = machine.spec.bootstrap.config_ref
    if ref is None or (ref.group, ref.kind) != (BOOTSTRAP, KUBEADM_CONFIG.resource.kind):
        return None
    return Key(machine.metadata.namespace, ref.name)


def owner_of(config: KubeadmConfig) -> Key | None:
    """The Machine that owns a KubeadmConfig; by name, since a move gives it another uid."""
    for owner in config.metadata.owner_references:
        if (split_api_version(owner.api_version)[0], owner.kind) == (GROUP, MACHINE.resource.kind):
            return Key(config.metadata.namespace, owner.name)
    return None


def cluster_of(machine: Machine) -> Key:
    """The cluster that a machine belongs to; by its label, where its spec names none that can be read."""
    meta = machine.metadata
    return Key(meta.namespace, machine.spec.cluster_name or meta.labels.get(CLUSTER_NAME_LABEL, ""))


def _may_boot(config: KubeadmConfig, machine: Machine) -> bool:
    """Whether a machine has no Node yet, and there should be data of ours for it."""
    if machine.status.node_ref is not None or machine.metadata.deleting:
        return False
    name, status = config.metadata.name, config.status
    ours = status.data_secret_name if status.ready else machine.spec.bootstrap.data_secret_name
    return ours == name


class Caches:
    """What is watched in the cluster that has the KubeadmConfigs."""

    def __init__(self, informers: Informers) -> None:
        self.configs = informers.get(KUBEADM_CONFIG)
        self.machines = informers.get(MACHINE)
        self.clusters = informers.get(CLUSTER)
        self.secrets = informers.get(SECRET_METADATA, labels=CLUSTER_NAME_LABEL)
        self.locks = informers.get(CONFIG_MAP, labels=CLUSTER_NAME_LABEL)
        self.machines.index(BY_CONFIG, lambda each: _known(config_of(each)))
        self.machines.index(BY_CLUSTER, lambda each: _known(cluster_of(each)) if config_of(each) else ())

    def machine_of(self, config: KubeadmConfig) -> Machine | None:
        """The Machine that owns a KubeadmConfig, if it is there; not one that names another: then this is a
        copy, with the owner references of the original."""
        key = owner_of(config)
        found = self.machines.get(key) if key is not None else None
        named = config_of(found) if found is not None else None
        return found if named is None or named == _key(config) else None

    def lock_of(self, cluster: Cluster) -> Lock | None:
        """The init lock of a cluster."""
        namespace = cluster.metadata.namespace
        found = self.locks.get(Key(namespace, lock_name(cluster.metadata.name)))
        if found is None:
            return None
        holder = holder_of(found.data)
        exists = bool(holder) and self.machines.header(Key(namespace, holder)) is not None
        return Lock(found.metadata.uid, holder, exists)


def _known(key: Key | None) -> Iterable[str]:
    return (str(key),) if key is not None else ()


class Looker:
    """Looks at KubeadmConfigs."""

    def __init__(
        self, informers: Informers, caches: Caches, token_calls: TokenCalls, settings: BootstrapSettings
    ) -> None:
        self._client = informers.client
        self._clock = informers.client.clock
        self._caches = caches
        self._token_calls = token_calls
        self._settings = settings
        self._authorities: dict[Key, tuple[int, KeyPair]] = {}
        self._data_of: dict[Key, tuple[str, DataSeen]] = {}
        """What is in data Secrets, by KubeadmConfig, with the version that was read."""
        self._made: dict[Key, tuple[int, KeyPair]] = {}
        """Pairs that were just made, with the versions of their Secrets."""
        self._taken: set[Key] = set()
        """Secrets that were there already when they were to be made."""
        self._gave_up: dict[Key, float] = {}
        """When KubeadmConfigs gave up the init lock since their data were refused, in monotonic seconds."""

    async def look(self, config: KubeadmConfig) -> Seen:
        """Read everything about this KubeadmConfig; certificates and sources only if data is to be made.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        machine = self._caches.machine_of(config)
        cluster = self._caches.clusters.get(cluster_of(machine)) if machine is not None else None
        seen = Seen(config, self._clock.now(), self._settings, machine, cluster)
        if machine is None or cluster is None:
            return seen
        secret, data = await self._data(config, machine)
        seen = replace(seen, secret=secret, data=data, lock=self._caches.lock_of(cluster))
        seen = replace(seen, yields_until=self._yields_until(_key(config), seen.now))
        seen = replace(seen, token=self._token(seen, machine))
        if not makes_data(seen):
            return seen
        ours = seen.role is Role.INIT and cluster.spec.control_plane_ref is None and not seen.may_initialize
        pairs = await self._pairs(cluster, wanted_certificates(seen), ours=ours)
        seen = replace(seen, pairs=pairs, sources=await self._sources(config))
        if not self._needs_token(seen):
            return seen
        token = new_token(self._clock.random.choice)
        state = self._token_calls.seen(_key(config), cluster_of(machine), token)
        return replace(seen, new_token=token, token=state)

    def made(self, secret: Secret) -> None:
        """A pair was made and is in this Secret, as the server answered it."""
        meta, pair = secret.metadata, pair_of(secret)
        name, version = Key(meta.namespace, meta.name), int(meta.resource_version)
        self._made[name] = (version, pair)
        self._keep_authority(name, version, pair)

    def taken(self, name: Key) -> None:
        """A pair was to be made, and its Secret is there already."""
        self._taken.add(name)

    def gave_up(self, config: Key) -> None:
        """The machine gave up the init lock, so that another can be the first."""
        self._gave_up[config] = self._clock.monotonic()

    def forget(self, config: Key) -> None:
        """There is no such KubeadmConfig any more."""
        self._data_of.pop(config, None)
        self._gave_up.pop(config, None)

    def forget_cluster(self, cluster: Key) -> None:
        """There is no such Cluster any more."""
        for purpose in Purpose:
            name = Key(cluster.namespace, secret_name(cluster.name, purpose))
            self._authorities.pop(name, None)
            self._made.pop(name, None)
            self._taken.discard(name)

    def _yields_until(self, config: Key, now: datetime) -> datetime | None:
        if (since := self._gave_up.get(config)) is None:
            return None
        return now + delays.UNHEARD - timedelta(seconds=self._clock.monotonic() - since)

    def _token(self, seen: Seen, machine: Machine) -> TokenSeen:
        token = seen.join_token
        if token is None:
            return TokenSeen()
        return self._token_calls.seen(_key(seen.config), cluster_of(machine), token)

    @staticmethod
    def _needs_token(seen: Seen) -> bool:
        join = seen.config.spec.join_configuration
        found = join.discovery.bootstrap_token if join is not None else None
        return seen.role is not Role.INIT and not (found is not None and found.token)

    async def _data(self, config: KubeadmConfig, machine: Machine) -> tuple[Secret | None, DataSeen | None]:
        """The Secret with the data, and what is in it, read once in each version that the watch shows.

        One that no watch shows, which may lack the label, is asked for.
        """
        key, status = _key(config), config.status
        found = self._caches.secrets.get(key)
        if not _may_boot(config, machine):
            self._data_of.pop(key, None)
            if status.ready or found is None:
                return (Secret(metadata=found.metadata) if found is not None else None), None
            return await self._read(key), None
        version, known = self._data_of.get(key, ("", None))
        if found is not None and known is not None and version == found.metadata.resource_version:
            return Secret(metadata=found.metadata), known
        secret = await self._read(key)
        if secret is None:
            return None, DataSeen(made=False, token=known.token if known is not None else None)
        return secret, self.read_data(key, secret)

    def read_data(self, config: Key, secret: Secret) -> DataSeen:
        """What is in a Secret with data, which is kept until the Secret has another version."""
        text = secret.data.get(SECRET_VALUE_KEY, b"").decode(errors="replace")
        known = DataSeen(made=bool(text), token=token_in_data(text))
        self._data_of[config] = (secret.metadata.resource_version, known)
        return known

    async def _pairs(
        self, cluster: Cluster, wanted: Iterable[Certificate], *, ours: bool
    ) -> dict[Purpose, KeyPair]:
        """The pairs that are there. ``ours``: those that are not external are ours to make."""
        pairs = {}
        for each in wanted:
            name = Key(cluster.metadata.namespace, secret_name(cluster.metadata.name, each.purpose))
            shown = self._caches.secrets.header(name) is not None or name in self._taken
            if ours and not each.external and not shown:
                continue
            pair = await (self._pair(name) if each.key_path and not each.external else self._authority(name))
            if pair is not None:  # a key that is not written to the machine is not judged, at no look
                pairs[each.purpose] = pair if each.key_path else KeyPair(pair.certificate)
        return pairs

    async def _authority(self, name: Key) -> KeyPair | None:
        """The certificate in a Secret, without its key; read once for each version that the watch shows."""
        header, (version, known) = self._caches.secrets.header(name), self._authorities.get(name, (0, None))
        if header is not None and known is not None and version == header.version:
            return known
        pair = await self._pair(name)
        if pair is None:
            return None
        if header is not None:
            self._keep_authority(name, header.version, pair)
        return pair

    def _keep_authority(self, name: Key, version: int, pair: KeyPair) -> None:
        if name.name.endswith(f"-{Purpose.CA}"):
            self._authorities[name] = (version, KeyPair(pair.certificate))

    async def _pair(self, name: Key) -> KeyPair | None:
        header, (version, made) = self._caches.secrets.header(name), self._made.pop(name, (0, None))
        if header is not None and made is not None and version == header.version:
            return made
        secret = await self._read(name)
        return pair_of(secret) if secret is not None else None

    async def _sources(self, config: KubeadmConfig) -> dict[str, Secret]:
        """The Secrets that files and passwords come from."""
        spec = config.spec
        sources = [*(each.content_from for each in spec.files), *(each.passwd_from for each in spec.users)]
        names = {each.secret.name for each in sources if each is not None and each.secret.name}
        found = {}
        for name in sorted(names):
            secret = await self._read(Key(config.metadata.namespace, name))
            if secret is not None:
                found[name] = secret
        return found

    async def _read(self, name: Key) -> Secret | None:
        try:
            return await self._client.get(SECRET, name)
        except NotFound:
            return None


def _key(config: KubeadmConfig) -> Key:
    return Key(config.metadata.namespace, config.metadata.name)
