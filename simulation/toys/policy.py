"""The policies of the toy API: what Cluster API does, and the policies of machines do not.

Theory.      For each toy two objects are cloned before the toy itself is created, and deleted again when the
             toy is refused. A toy that is being deleted still is a replica. Toys are ranked by a number, as
             Cluster API ranks its machines. Old toys may be left to users to delete (OnDelete).
Called by    ``toys.api``.
Source       S0-44.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec import structs

from kubewright.api.kinds import Kind
from kubewright.api.meta import Condition, ObjectMeta, integer
from kubewright.kube.client import Client
from kubewright.kube.header import Header
from kubewright.replicas.objects import Member, number_of, reference, verified_number
from kubewright.replicas.set.seen import Deletions, Failure, Seen, SetPolicy, Wait, Words, counted
from kubewright.rollout.model import Rank
from kubewright.wire.errors import AlreadyExists, NotFound
from kubewright.wire.gvk import Key
from simulation.toys.kinds import (
    GROUP,
    PARTS,
    TOY,
    TOY_DEPLOYMENT,
    TOY_SET,
    Part,
    Toy,
    ToySet,
    ToySetStatus,
)

FINALIZER = f"{GROUP}/toy"
NUMBER, LAST_NUMBER = f"{GROUP}/number", f"{GROUP}/last-number"
DESIRED = f"{GROUP}/desired-replicas"
NO_CREATION = f"{GROUP}/create-no-toys"
"""Annotation of a set: it creates no toys; those that it loses its deployment creates by another set."""
MARKED = f"{GROUP}/delete-toy"
"""Annotation of a toy: it is the first to go when there are too many."""


DELETING, FIRST, UPDATING, UNHEALTHY, ANY = 100.0, 80.0, 75.0, 50.0, 20.0
TEN_DAYS = 864_000.0


@dataclass(frozen=True, slots=True)
class ToyMember(Member):
    """One toy, as far as replicas are concerned."""

    marked: bool = False
    failed: bool = False
    flavor: str = ""
    updating: bool = False

    @property
    def healthy(self) -> bool:
        return self.ready and not self.failed


ToySeen = Seen[ToySet, ToyMember]


def read(header: Header, toy: Toy | None) -> ToyMember:
    facts = (header.key, header.uid, header.owner_uid, header.labels, header.deleting)
    if toy is None:
        return ToyMember(*facts)
    meta, notes = toy.metadata, toy.metadata.annotations
    created, since = meta.creation_timestamp, toy.status.ready_since
    return ToyMember(
        *facts,
        created=created.timestamp() if created else 0.0,
        ready_since=since.timestamp() if since and not toy.status.failed else None,
        number=verified_number(header.owner_uid, meta.name, integer(notes, NUMBER)),
        version=meta.resource_version,
        marked=MARKED in notes,
        failed=toy.status.failed,
        flavor=toy.spec.flavor,
    )


async def _is_ours(client: Client, owner: ToySet, kind: Kind[Part], name: str) -> None:
    """Raises ``AlreadyExists`` when another owner has a part of this name."""
    found = await client.get(kind, Key(owner.namespace, name))
    if owner.metadata.uid not in [each.uid for each in found.metadata.owner_references]:
        raise AlreadyExists(f"{name} belongs to another owner")


def _part(owner: ToySet, name: str) -> Part:
    """Owned, not controlled: it goes with the set if its toy never comes to be."""
    ours = structs.replace(reference(owner, TOY_SET), controller=False, block_owner_deletion=False)
    meta = ObjectMeta(name=name, namespace=owner.namespace, owner_references=(ours,))
    return Part(metadata=meta, spec=owner.spec.template.spec)


def _toy(owner: ToySet, name: str) -> Toy:
    number = number_of(owner.metadata.uid, name)
    return Toy(
        metadata=ObjectMeta(
            name=name,
            namespace=owner.namespace,
            labels=owner.spec.template.metadata.labels,
            annotations={NUMBER: str(number)} if number else {},
            finalizers=(FINALIZER,),
            owner_references=(reference(owner, TOY_SET),),
        ),
        spec=owner.spec.template.spec,
    )


class DeletePolicy(Enum):
    """Cluster API's ``deletePolicy``: what decides between members that are all fine."""

    RANDOM = "Random"
    NEWEST = "Newest"
    OLDEST = "Oldest"


def priority(member: ToyMember, policy: DeletePolicy, now: float) -> float:
    """Cluster API's number from 0 (must stay) to 100 (is going already)."""
    if member.deleting:
        return DELETING
    if member.marked:
        return FIRST
    if member.updating:
        return UPDATING
    if not member.healthy:
        return UNHEALTHY
    if policy is DeletePolicy.RANDOM:
        return ANY
    age = now - member.created
    if member.created <= 0 or age <= 0:
        return 0.0
    oldness = UNHEALTHY * (1 - math.exp(-age / TEN_DAYS))
    return oldness if policy is DeletePolicy.OLDEST else UNHEALTHY - oldness


def ranking(owner: ToySet, wall: float) -> Callable[[ToyMember], Rank]:
    """Cluster API's: highest priority first, ties by name."""
    policy = DeletePolicy(owner.spec.delete_policy or "Random")
    return lambda member: (-priority(member, policy, wall), member.name)


class ToySets(SetPolicy[ToySet, ToyMember, Toy]):
    """What sets of toys do."""

    name = "toyset"
    component = "toyset-controller"
    words = Words("toy", "toys", created='Created toy "{}"', deleted='Deleted toy "{}"')
    kind = TOY_SET
    member_kind = TOY
    finalizer = FINALIZER
    number_annotation = LAST_NUMBER
    owner = TOY_DEPLOYMENT
    desired_annotation = DESIRED
    counts_deleting = True
    creates_parts = True

    async def create(self, client: Client, owner: ToySet, name: str) -> None:
        """Clone a script and a body, then create the toy that names them."""
        for kind in PARTS:
            try:
                await client.create(kind, _part(owner, name))
            except AlreadyExists:
                await _is_ours(client, owner, kind, name)
        await client.create(TOY, _toy(owner, name))

    async def discard(self, client: Client, owner: ToySet, name: str) -> None:
        """Delete the script and the body of a toy that does not exist and will not."""
        for kind in PARTS:
            try:
                await _is_ours(client, owner, kind, name)
                await client.delete(kind, Key(owner.namespace, name))
            except (NotFound, AlreadyExists):
                continue

    def ranking(self, of: ToySet, wall: float, living: Sequence[ToyMember]) -> Callable[[ToyMember], Rank]:
        """As ``ranking``."""
        return ranking(of, wall)

    def blocked(self, found: ToySet, around: object) -> Wait | None:
        """An old set of OnDelete does not create what users delete."""
        return Wait("its deployment holds it") if NO_CREATION in found.metadata.annotations else None

    def to_delete(self, seen: ToySeen) -> Deletions[ToyMember]:
        """Toys that failed are remediated: deleted, and replaced when they are gone."""
        failed = tuple(member for member in seen.alive if member.failed)
        return Deletions(failed, f"{len(failed)} failed" if failed else "")

    def status(self, seen: ToySeen, failure: Failure | None) -> ToySetStatus:
        """Counts, and why toys could not be created or deleted."""
        before = seen.set.status
        failed = [Condition(type="ReplicaFailure", status="True", reason=failure.reason)] if failure else []
        return structs.replace(
            before,
            **counted(seen, seen.members),
            observed_generation=before.observed_generation if failure else seen.set.metadata.generation,
            conditions=tuple(failed),
        )


TOY_SETS = ToySets()
