"""Read everything that a decision about one component looks at, into one value; and by what it is read.

Theory.      Objects are read from caches; what runs, from the hosts. The caches hold only the metadata of
             Secrets, so the content of a Secret is read from the server, once for each version that the watch
             shows. A Secret or ConfigMap without the label of its cluster is in no cache and is read in each
             pass. The members of an etcd are asked over its API where ``must_be_asked`` says so.
             Hosts, templates, and what makes certificates or asks an etcd are one ``ComponentSetup`` for all
             three controllers; tests put other programs in the places of its members.
Invariants.  The content of a Secret is kept in memory only while its version is the newest one known.
Called by    ``act``, which works with the setup, too; ``controlplanes.wiring`` makes that.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from kubewright.api.cluster import names as cluster_names
from kubewright.api.conditions import is_condition_true
from kubewright.api.controlplane.names import Component, ComponentCondition
from kubewright.api.controlplane.v1alpha4 import ComponentSpec, NestedEtcd
from kubewright.api.controlplane.validate import validate_component
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.api.faults import summary
from kubewright.api.kinds import Kind
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput
from kubewright.base.witness import Witness
from kubewright.controlplanes import members
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.certificates.sets import etcd_health_client
from kubewright.controlplanes.component.policies import Policy
from kubewright.controlplanes.component.seen import Certificates, Seen, identity_of
from kubewright.controlplanes.component.workload import (
    MAX_MEMBERS,
    Source,
    endpoints,
    membership,
    missing_of,
    must_be_asked,
    peers,
    rendered_for,
    size_in_rollout,
    sources,
)
from kubewright.controlplanes.etcd import NoAnswer
from kubewright.controlplanes.family import KINDS, ComponentObject, Family, pause_of
from kubewright.controlplanes.hosting.contract import (
    Contents,
    Hosting,
    Hosts,
    Reserves,
    Running,
    Workload,
    WorkloadAddresses,
    WorkloadIdentity,
    why_absent,
    why_elsewhere,
)
from kubewright.controlplanes.templates.catalog import Catalog
from kubewright.controlplanes.templates.choice import Choice, NoChoice, Version, Versions, choose
from kubewright.controlplanes.templates.render import Rendered
from kubewright.kube.informer import Informers
from kubewright.kube.transport import Entitled
from kubewright.pki.credentials import Purpose, secret_name
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key


class Keeper(Protocol):
    """Makes and renews the certificates and kubeconfigs of components; ``certificates.keeper`` is one."""

    async def look(self, request: "CertificateRequest") -> Certificates:
        """Which certificates and kubeconfigs of a component exist, and which are to be made."""
        ...

    async def perform(self, seen: Seen) -> None:
        """Make what ``seen.certificates.steps`` say."""
        ...


class MembersClient(Protocol):
    """A client of the members of one etcd; ``etcd.Members`` is one."""

    async def look(self, wanted: Mapping[str, str]) -> members.Seen:
        """What the members answer. If no list can be had, the answer has no members, and says why."""
        ...

    async def perform(self, step: members.Step) -> None:
        """Make one change.

        Raises:
            NoAnswer: no member answered, or they refused; the change may have been made all the same.
        """
        ...


ConnectToEtcd = Callable[[members.Access], AbstractAsyncContextManager[MembersClient]]
"""Makes a client of the members of an etcd. Raises ``NoAnswer``: the certificates of the access are unfit."""


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """Whose certificates, and for what. ``mounted``: the names of Secrets in the workload's volumes."""

    policy: Policy
    component: ComponentObject
    family: Family
    identity: WorkloadIdentity
    addresses: WorkloadAddresses
    mounted: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class ComponentSetup:
    """What the controllers of components work with, besides clients and caches.

    ``channel``  of components that name neither version nor channel
    ``connect``  by which the members of an etcd are asked and changed
    ``entitled`` whether this process may change anything now
    """

    hosts: Hosts
    catalog: Catalog
    channel: str
    keeper: Keeper
    connect: ConnectToEtcd
    entitled: Entitled


class Looker:
    """Reads the components of one policy."""

    def __init__(self, policy: Policy, informers: Informers, caches: Caches, setup: ComponentSetup) -> None:
        self._policy = policy
        self._client = informers.client
        self._caches = caches
        self._setup = setup
        self._secrets: dict[Key, tuple[int, Contents]] = {}
        self._steady = self._client.steady()
        self._deletions = Witness(self._steady.now)
        self._none_since: dict[Key, datetime] = {}

    async def look(self, found: ComponentObject) -> Seen:
        """Read one component and everything around it.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        meta, original = found.metadata, self._caches.original_of(self._policy.component, found.metadata)
        if original:
            problem = summary(validate_component(found.spec))
            now = self._client.clock.now()
            return Seen(
                self._policy, found, now, pause=pause_of(meta, None, None), problem=problem, original=original
            )
        family = self._caches.family_around(meta)
        rival = self._caches.rival_of(self._policy.component, meta)
        identity = identity_of(found, self._policy, family) if not rival else None
        seen = Seen(
            self._policy,
            found,
            self._client.clock.now(),
            family=family,
            rival=rival,
            pause=pause_of(meta, family.plane if family else None, family.cluster if family else None),
            problem=summary(validate_component(found.spec)),
            identity=identity,
        )
        seen = replace(seen, deleting_for=self._deleting_for(meta, family))
        if identity is None or seen.pause is not None:
            return seen
        current_host, running = self._setup.hosts.holding(identity)
        seen = replace(seen, running=running)
        seen = replace(seen, none_for=self._none_for(seen))
        managed = cluster_names.MANAGED_BY_ANNOTATION in meta.annotations
        if family is None or meta.deleting or managed or seen.problem:
            return seen
        return await self._wanted(seen, family, identity, current_host)

    async def _wanted(
        self, seen: Seen, family: Family, identity: WorkloadIdentity, current_host: Hosting | None
    ) -> Seen:
        """``seen`` with what should run added, as far as that is known by now."""
        spec, setup = seen.component.spec, self._setup
        choice = self._choice(identity.component, spec, family)
        seen = replace(seen, choice=choice, versions=self._versions(family))
        if isinstance(choice, NoChoice):
            return seen
        host = setup.hosts.of(choice.version)
        if host is None or current_host not in (None, host):
            told = why_absent(choice.version) if host is None else why_elsewhere(choice.version)
            return replace(seen, unhosted=told)
        try:
            # Certificates of an etcd name every member that it may ever have: a new member changes none.
            addresses = host.addresses(identity, MAX_MEMBERS if self._policy.members else seen.replicas)
        except InvalidInput as error:
            return replace(seen, unhosted=str(error), running=host.status(identity))
        seen = replace(seen, addresses=addresses, running=host.status(identity))
        if self._policy.members:
            seen = await self._with_members(seen, family, identity, addresses)
        rendered, unrendered = rendered_for(
            self._policy, spec, choice, family, identity=identity, replicas=seen.size
        )
        seen = replace(
            seen,
            rendered=rendered,
            unrendered=unrendered,
            certificates=await self._certificates(seen, family, identity, addresses, rendered),
        )
        if rendered is None:
            return seen
        bare = Workload(identity, choice.version, rendered, seen.size)
        return await self._with_workload(seen, host, bare)

    async def _with_workload(self, seen: Seen, host: Hosting, bare: Workload) -> Seen:
        """``seen`` with the workload: ``bare`` with the content of its volumes and its variables."""
        if seen.size and isinstance(host, Reserves) and host.must_reserve(bare):
            seen = replace(seen, to_reserve=bare)
        found, missing = await self._contents(bare.identity.namespace, bare.rendered)
        if missing:
            return replace(seen, missing=tuple(missing))
        variables = seen.membership.variables if seen.membership is not None else {}
        workload = replace(bare, contents=found["Secret"], config=found["ConfigMap"], environment=variables)
        if seen.addresses.surges:
            workload = replace(workload, replicas=size_in_rollout(workload, seen.running))
        return replace(seen, workload=workload, unhosted=host.problem_of(workload))

    def _choice(self, component: Component, spec: ComponentSpec, family: Family) -> Choice | NoChoice:
        catalog, default = self._setup.catalog, self._setup.channel
        return choose(component, spec, catalog, default=default, of_plane=family.plane.spec.version)

    def _versions(self, family: Family) -> Versions:
        """The versions of the control plane, and of the components that no other program manages."""
        plane, found = family.plane, {}
        for component, each in family.components.items():
            if cluster_names.MANAGED_BY_ANNOTATION in each.metadata.annotations:
                continue
            choice = self._choice(component, each.spec, family)
            wanted = choice.version if isinstance(choice, Choice) else ""
            follows = bool(plane.spec.version) and not (each.spec.version or each.spec.channel)
            named = f"{KINDS[component].resource.kind} {each.name}"
            found[component] = Version(named, each.status.version, wanted, follows)
        named = f"NestedControlPlane {plane.name}"
        return Versions(Version(named, plane.status.version, plane.spec.version), found)

    async def _with_members(
        self, seen: Seen, family: Family, identity: WorkloadIdentity, addresses: WorkloadAddresses
    ) -> Seen:
        """``seen`` with the membership of an etcd added; asks the members where ``must_be_asked`` says so."""
        asked, running, found = seen.replicas, seen.running, None
        before = seen.component.status.addresses if isinstance(seen.component, NestedEtcd) else ()
        access = None
        if addresses.hosts and must_be_asked(asked, running, up_to_date=_up_to_date(seen.component)):
            wanted = peers(identity, addresses, asked)
            access = await self._access(family, running)
            found = await _asked(self._setup.connect, access, wanted)
        begun = bool(seen.component.status.version)
        known = membership(asked, identity, addresses, running, before=len(before), begun=begun, found=found)
        return replace(seen, membership=known, access=access)

    async def _access(self, family: Family, running: Running) -> members.Access | None:
        """Where and with which certificates the members are called; None: there are no certificates."""
        names = secret_name(family.name, Purpose.ETCD), etcd_health_client(family.name)
        authority, own = [await self._read(family.plane.namespace, Source("Secret", name)) for name in names]
        try:
            found = members.Credentials(
                (authority or {})["tls.crt"], (own or {})["tls.crt"], (own or {})["tls.key"]
            )
        except KeyError:
            return None
        return members.Access(endpoints(running), found)

    async def _certificates(
        self,
        seen: Seen,
        family: Family,
        identity: WorkloadIdentity,
        addresses: WorkloadAddresses,
        rendered: Rendered | None,
    ) -> Certificates:
        named = [each.name for each in sources(rendered) if each.kind == "Secret"] if rendered else []
        return await self._setup.keeper.look(
            CertificateRequest(
                self._policy, seen.component, family, identity, addresses, mounted=frozenset(named)
            )
        )

    async def _contents(
        self, namespace: str, rendered: Rendered
    ) -> tuple[dict[str, dict[str, Contents]], list[str]]:
        """The content of the Secrets and ConfigMaps that volumes name, by kind and name; and what of these
        does not exist."""
        found: dict[str, dict[str, Contents]] = {"Secret": {}, "ConfigMap": {}}
        missing: list[str] = []
        for source in sources(rendered):
            contents = await self._read(namespace, source)
            missing += missing_of(source, contents)
            if contents is not None:
                wanted = source.keys or contents
                found[source.kind][source.name] = {key: contents[key] for key in wanted if key in contents}
        return found, missing

    async def _read(self, namespace: str, source: Source) -> Contents | None:
        kind: Kind[Any] = SECRET if source.kind == "Secret" else CONFIG_MAP
        key = Key(namespace, source.name)
        header = self._caches.secrets.header(key) if kind is SECRET else None
        known = self._secrets.get(key)
        if header is not None and known is not None and known[0] == header.version:
            return known[1]
        if kind is SECRET:
            self._secrets.pop(key, None)
        try:
            object_found = await self._client.get(kind, key)
        except NotFound:
            return None
        contents: Contents = object_found.data if kind is SECRET else object_found.entries
        if header is not None and str(header.version) == object_found.metadata.resource_version:
            self._secrets[key] = (header.version, contents)
        return contents

    def _deleting_for(self, meta: ObjectMeta, family: Family | None) -> timedelta:
        """For how long a component is being deleted, and the one that needs it, if that is deleted too."""
        key, needed_by = Key(meta.namespace, meta.name), self._policy.needed_by
        after = family.components.get(needed_by) if family is not None and needed_by is not None else None
        dated = after.metadata.deletion_timestamp if after is not None else None
        own = self._deletions.since(str(key), meta.deletion_timestamp)
        other = self._deletions.since(f"{key} {needed_by}", dated)
        if own is None:
            return timedelta()
        return self._steady.now() - (own if other is None else max(own, other))

    def _none_for(self, seen: Seen) -> timedelta:
        """How long ago this process first saw that its spec asks for no instance, while there are some."""
        key, now = Key(seen.component.namespace, seen.component.name), self._steady.now()
        if seen.asked or not seen.running.replicas:
            self._none_since.pop(key, None)
            return timedelta()
        return now - self._none_since.setdefault(key, now)

    def forget(self, key: Key) -> None:
        """Drop what is known of a component that does not exist any more."""
        self._none_since.pop(key, None)
        self._deletions.forget(str(key))
        self._deletions.forget(f"{key} {self._policy.needed_by}")

    def forget_secret(self, secret: Key) -> None:
        """Drop the content of a Secret that has changed or is gone."""
        self._secrets.pop(secret, None)


def _up_to_date(found: ComponentObject) -> bool:
    """Whether its status, of its newest spec, says that all of it runs as the spec asks."""
    status = found.status
    observed = status.observed_generation == found.metadata.generation
    return observed and is_condition_true(status.conditions, ComponentCondition.UP_TO_DATE)


async def _asked(
    connect: ConnectToEtcd, access: members.Access | None, wanted: Mapping[str, str]
) -> members.Seen:
    """What the members say; without members, and with the reason, if they cannot be asked."""
    if access is None:
        return members.Seen(wanted, unasked="the certificates of its clients are not there")
    try:
        async with connect(access) as etcd:
            return await etcd.look(wanted)
    except NoAnswer as error:
        return members.Seen(wanted, unasked=str(error))
