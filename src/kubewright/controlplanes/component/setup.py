"""What the controllers of components work with: hosts, templates, what makes certificates and asks an etcd.

Theory.      The three controllers share one setup; tests put other programs in the places of its members.
Called by    ``world``, which makes it; ``look`` and ``act`` use it.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from kubewright.controlplanes.component.policies import Policy
from kubewright.controlplanes.component.seen import Certificates, Seen
from kubewright.controlplanes.family import ComponentObject, Family
from kubewright.controlplanes.hosting.contract import WorkloadAddresses, WorkloadIdentity
from kubewright.controlplanes.hosting.hosts import Hosts
from kubewright.controlplanes.members import decide as members
from kubewright.controlplanes.templates.catalog import Catalog
from kubewright.kube.transport import Entitled


class Keeper(Protocol):
    """Makes and renews the certificates and kubeconfigs of components; ``certificates.keeper`` is one."""

    async def look(self, request: "CertificateRequest") -> Certificates:
        """Which certificates and kubeconfigs of a component exist, and which are to be made."""
        ...

    async def perform(self, seen: Seen) -> None:
        """Make what ``seen.certificates.steps`` say."""
        ...


class MembersClient(Protocol):
    """A client of the members of one etcd; ``members.client.Members`` is one."""

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
